"""Provide credentials from wherever AWS' own tools would find them."""

from __future__ import annotations

from collections.abc import Mapping

from signproxy.credentials.aws import found_by_chain, outcome, session_for
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.failure import NotObtained
from signproxy.credentials.provider import OwnProvider, unknown_properties
from signproxy.errors import Finding, ProviderInvalid, nearest
from signproxy.model import SessionScope
from signproxy.s3.storage import Storage
from signproxy.telemetry.log import get_logger

METHODS = tuple(
    "env assume-role assume-role-with-web-identity sso shared-credentials-file login custom-process config-file "
    "ec2-credentials-file boto-config container-role iam-role".split()
)
"""botocore's own names, in the order in which it tries them."""

_KNOWN = ("profile", "region", "methods")

_log = get_logger("signproxy.credentials")


class ChainProvider(OwnProvider):
    """Ask botocore's default chain, anew for each refresh.

    Properties, all optional: `profile` of the shared files, which also takes precedence over the environment; `region`
    of the session service; `methods`, those of botocore's that may be used, separated by commas. Without the last,
    whatever is found first signs: on a machine with a role of its own, that role where anything else is missing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._profile = self._region = self._method = ""
        self._methods: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"ChainProvider(profile={self._profile!r}, methods={self._methods!r}, found_by={self._method!r})"

    async def initialize(self, properties: Mapping[str, str]) -> None:
        """Check the properties; nothing is looked for before credentials are asked for."""
        faults = unknown_properties(properties, _KNOWN)
        faults += [Finding("", name, "is empty") for name in _KNOWN if not properties.get(name, "x").strip()]
        methods = tuple(each.strip() for each in properties.get("methods", "").split(",") if each.strip())
        if properties.get("methods", "").strip() and not methods:
            faults.append(Finding("", "methods", "names none"))
        faults += [
            Finding("", "methods", f"botocore has no method {each!r}{nearest(each, METHODS)}")
            for each in methods
            if each not in METHODS
        ]
        if faults:
            raise ProviderInvalid(faults)
        self._profile = properties.get("profile", "")
        self._region = properties.get("region", "")
        self._methods = methods

    async def get(self, storage: Storage, scope: SessionScope) -> Credentials:  # noqa: ARG002 - the interface's
        """Return what the chain finds now, or raise NotObtained."""
        methods: list[str] = []

        def look() -> Credentials:
            session = session_for(storage, profile=self._profile, region=self._region)
            found, method = found_by_chain(session, self._methods)
            methods.append(method)
            return found

        found = await self._threads.run(lambda: outcome(look))
        if isinstance(found, NotObtained):
            raise found
        (method,) = methods
        if method != self._method:
            self._method = method
            _log.info("credentials found", storage=storage.name, method=method)
        return found
