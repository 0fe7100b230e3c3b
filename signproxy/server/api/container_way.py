"""Give SDKs keys as a container's endpoint does: `GET /v1/aws/container-credentials/{profile}`, on loopback alone.

Every AWS SDK, object_store, opendal and PyArrow ask it by themselves, with a token, and again before the keys end. A
request names no table, since it is the same for a whole process: the profile says which part of a catalog is meant.

The token is what proves the caller. Loopback only keeps others from asking, as for the pod's own identity.
"""

from __future__ import annotations

from collections.abc import Awaitable

import msgspec
from msgspec.structs import replace

from signproxy.answers.reply import NO_STORE, Reply, answer, refusal
from signproxy.audit.event import rfc3339
from signproxy.config.addresses import is_loopback
from signproxy.config.container import ContainerProfile, ProfileAccess
from signproxy.errors import Reason, Refused
from signproxy.gate.judgement import Judgement
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.identity.pod_caller import check_direct, check_loopback_name
from signproxy.model import Ceiling, NamedTable, Subject
from signproxy.server.api.key_way import ANY, KeyRequest, KeyWay, levels_of
from signproxy.vending.vending import RENEWED_SECONDS

_BEARER = "bearer "


class ContainerKeys(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """Keys as SDKs read them."""

    access_key_id: str
    secret_access_key: str
    token: str
    expiration: str
    """RFC 3339, in UTC."""

    def __repr__(self) -> str:
        return f"ContainerKeys({self.access_key_id!r}, ***, {self.expiration!r})"


class ContainerError(msgspec.Struct, frozen=True, gc=False):
    """A refusal as SDKs read it."""

    code: str
    message: str


class ContainerWay(KeyWay):
    """A request for the keys of a profile."""

    name: str
    _profile: ContainerProfile

    def identify(self) -> Subject | Awaitable[Subject | None]:
        """Return who asks, by the token, and only to a process of this machine. Raise Refused."""
        parsed = self.parsed
        if parsed.method != "GET":
            raise Refused(Reason.METHOD_NOT_ALLOWED, parsed.method)
        transport = parsed.transport
        ends = [transport.get_extra_info(end) if transport else None for end in ("sockname", "peername")]
        if not all(isinstance(end, tuple) and is_loopback(end[0]) for end in ends):
            raise Refused(Reason.PEER_REFUSED, "from beyond loopback")
        headers = [(name.lower(), value) for name, value in parsed.headers.items()]
        check_loopback_name(headers)
        check_direct(headers)
        profile = self.rooms.profiles.get(self.name)
        if profile is None:
            raise Refused(Reason.ROUTE_UNKNOWN, f"container_credentials.profiles has no {self.name!r}")
        self._profile = profile
        return super().identify()

    def shown(self) -> str:
        """Return the token, which SDKs send as it stands in their variable or file. Raise Refused."""
        given = self.message.headers.get("Authorization", "").strip(" ")
        token = given[len(_BEARER) :].strip(" ") if given[: len(_BEARER)].lower() == _BEARER else given
        if not token:
            raise Refused(Reason.TOKEN_MISSING, "no Authorization header")
        return token

    async def ask(self, subject: Subject | None) -> AskedFor:
        """Return what the keys are to be good for. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        self.lease.take(self.limits.waiting)
        profile = self._profile
        self._wanted = KeyRequest(
            profile.catalog, profile.namespace or None, profile.table or None, seconds=profile.seconds
        )
        namespace = levels_of(self._wanted.namespace)
        target = NamedTable(namespace, profile.table) if namespace else None
        address = CatalogAddress(profile.catalog) if self.address == ANY else self.address
        self.asked = AskedFor(address, target, bearer=self.bearer)
        if subject.caller.scopes:
            raise Refused(Reason.NOT_IN_SCOPE, "a credential with a scope of its own is good for no profile")
        return self.asked

    async def judge(self, subject: Subject | None, asked: AskedFor) -> Judgement:
        """Say whether the caller may have such keys. Raise Refused."""
        judgement = await super().judge(subject, asked)
        if self._profile.access is ProfileAccess.READ:
            assert self._scope is not None  # noqa: S101 - a profile names a catalog at least
            self._scope = replace(self._scope, ceiling=Ceiling.READ_ONLY)
        return judgement

    def serve(self, judgement: Judgement, outcome: Outcome) -> Reply:
        """Issue the keys. Raise Refused."""
        # What is younger, SDKs ask for again with each request of theirs.
        issued = self.issue(judgement, outcome, RENEWED_SECONDS)
        ends = rfc3339(int(issued.expires_at))
        told = ContainerKeys(issued.access_key_id, issued.secret_access_key, issued.session_token, ends)
        return self.given(answer(told, self.request.request_id, NO_STORE))

    def told(self, refused: Refused) -> Reply:
        """Return a refusal in the form of SDKs."""
        spec = refused.reason.value
        return refusal(refused, self.request.request_id, ContainerError(spec.type, spec.message))
