"""Provide credentials of a role that another provider's credentials may assume."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from signproxy.credentials.aws import outcome, session_client
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.failure import FailureKind, NotObtained
from signproxy.credentials.provider import CredentialProvider, OwnProvider, unknown_properties
from signproxy.errors import Finding, ProviderInvalid
from signproxy.model import SessionScope
from signproxy.s3.storage import Storage

DEFAULT_SECONDS = 3600
"""The longest that a role assumed by another role may last, and so the longest that works everywhere."""
MIN_SECONDS, MAX_SECONDS = 900, 43_200
"""What STS accepts. How long a role really lasts at most is set at the role."""
MAX_SESSION_NAME = 64

_KNOWN = ("role_arn", "session_name", "external_id", "duration_seconds", "region", "endpoint")
_PATTERNS = {
    # Stores other than Amazon's have ARNs of their own; only what no ARN is gets refused.
    "role_arn": (re.compile(r"arn:[\w:+=,.@/-]{16,2044}", re.ASCII), "is no ARN of a role"),
    "session_name": (re.compile(r"[\w+=,.@-]{2,64}", re.ASCII), "has 2 to 64 letters, digits and _+=,.@-"),
    "external_id": (re.compile(r"[\w+=,.@:/-]{2,1224}", re.ASCII), "has 2 to 1,224 letters, digits and _+=,.@:/-"),
    "region": (re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*"), "is no region"),
}
_NOT_IN_NAMES = re.compile(r"[^\w+=,.@-]", re.ASCII)


class AssumeRoleProvider(OwnProvider):
    """Assume a role anew for each refresh, with what the provider below has then.

    Properties: `role_arn`; optional `session_name`, which the store's own log shows (default: `signproxy-` and the
    name of the host, in Kubernetes the pod's); `external_id`; `duration_seconds`; `region` of the session service,
    whose regional endpoint is used; `endpoint`, another service than Amazon's.
    """

    def __init__(self) -> None:
        super().__init__()
        self._source: CredentialProvider | None = None
        self._parameters: dict[str, str | int] = {}
        self._region = ""
        self._endpoint = ""

    def __repr__(self) -> str:
        # Without the external id: it is what keeps a stranger from using the role through us.
        role = self._parameters.get("RoleArn", "")
        return f"AssumeRoleProvider(role_arn={role!r}, endpoint={self._endpoint!r}, source={self._source!r})"

    def on_top_of(self, source: CredentialProvider) -> None:
        """Take the provider whose credentials assume the role."""
        self._source = source

    async def initialize(self, properties: Mapping[str, str]) -> None:
        """Check the properties; the service is asked when credentials are."""
        faults = unknown_properties(properties, _KNOWN)
        faults += [
            Finding("", name, problem)
            for name, (pattern, problem) in _PATTERNS.items()
            if name in properties and not pattern.fullmatch(properties[name])
        ]
        if "role_arn" not in properties:
            faults.append(Finding("", "role_arn", "missing: the role to assume"))
        seconds = properties.get("duration_seconds", str(DEFAULT_SECONDS))
        if not (seconds.isascii() and seconds.isdigit() and MIN_SECONDS <= int(seconds[:6]) <= MAX_SECONDS):
            faults.append(Finding("", "duration_seconds", f"is no number from {MIN_SECONDS} to {MAX_SECONDS}"))
        if "endpoint" in properties and not _is_endpoint(properties["endpoint"]):
            problem = "is no https URL of a host alone; http is for loopback only"
            faults.append(Finding("", "endpoint", problem))
        if faults:
            raise ProviderInvalid(faults)
        self._region = properties.get("region", "")
        self._endpoint = properties.get("endpoint", "")
        self._parameters = {
            "RoleArn": properties["role_arn"],
            "RoleSessionName": properties.get("session_name") or default_session_name(),
            "DurationSeconds": int(seconds),
        }
        if "external_id" in properties:
            self._parameters["ExternalId"] = properties["external_id"]

    async def get(self, storage: Storage, scope: SessionScope) -> Credentials:
        """Return a session of the role, or raise NotObtained, or what the provider below raises."""
        if self._source is None:
            raise NotObtained(FailureKind.CONFIGURATION, "there is no provider below")
        source = await self._source.get(storage, scope)
        secrets = (source.secret_access_key, source.session_token, str(self._parameters.get("ExternalId", "")))
        assumed = await self._threads.run(lambda: outcome(lambda: self._assume(storage, source), secrets))
        if isinstance(assumed, NotObtained):
            raise assumed
        return assumed

    def files(self) -> tuple[Path, ...]:
        """Return the files of the provider below."""
        return () if self._source is None else self._source.files()

    def _assume(self, storage: Storage, source: Credentials) -> Credentials:
        client = session_client(storage, source, region=self._region, endpoint=self._endpoint)
        try:
            given = client.assume_role(**self._parameters)["Credentials"]
        finally:
            client.close()
        # Without an expiry it is no session: fail, instead of using it for ever.
        expires_at = given["Expiration"].timestamp()
        return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], expires_at)


def default_session_name() -> str:
    """Return a name by which the store's log tells this process from others."""
    host = os.environ.get("HOSTNAME") or socket.gethostname()
    return _NOT_IN_NAMES.sub("-", f"signproxy-{host}")[:MAX_SESSION_NAME]


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        bare = not (parts.username or parts.password or parts.query or parts.fragment) and parts.path in ("", "/")
        well_formed = bool(host) and url.isascii() and url.isprintable() and parts.port != 0
    except ValueError:
        return False
    return bare and well_formed and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
