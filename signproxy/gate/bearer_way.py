"""Know the caller of a request by the bearer token that it shows, as all ways of the API do."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement, PolicyLook, admitted, look_at
from signproxy.gate.limits import Lease, Limits
from signproxy.gate.request import NOTHING_ASKED, AskedFor, CatalogAddress, Request
from signproxy.identity.authenticator import Authenticator, Known
from signproxy.model import Principal, Subject, Target
from signproxy.policy.state import PolicyState

_BEARER = "bearer "


class KnownHead(Protocol):
    """The head of a request that others may have the same of, and who was found behind its token."""

    known: Known | None
    bearer: str
    """The caller's own token, which a table token holds sealed; empty where no upstream is asked."""


class Received(msgspec.Struct, frozen=True, gc=False):
    """What came of a request, of which others may have come that are the same but for the body."""

    headers: Mapping[str, str]
    query: str = ""
    body: bytes | None = None
    """None where it is still to be read."""
    head: KnownHead | None = None


class KnowsCallers(Protocol):
    """What answers a way's requests, as far as it knows who asks."""

    @property
    def authenticator(self) -> Authenticator:
        """Knows callers by their tokens."""
        ...

    @property
    def for_upstream(self) -> bool:
        """Whether the caller's own token may be shown to an upstream."""
        ...


class BearerWay:
    """A way whose callers show bearer tokens, for one request."""

    look: PolicyLook | None = None
    asked: AskedFor = NOTHING_ASKED
    bearer = ""
    """The caller's own token, where it may be shown to an upstream."""

    def __init__(
        self,
        request: Request,
        message: Received,
        limits: Limits,
        rooms: KnowsCallers,
        address: CatalogAddress,
        target: Target | None = None,
    ) -> None:
        self.request = request
        self.lease = Lease()
        self.message = message
        self.limits = limits
        self.rooms = rooms
        self.address = address
        self.target = target

    def identify(self) -> Subject | Awaitable[Subject | None]:
        """Return who asks, by the token that the request shows, or another one with the same head. Raise Refused."""
        head = self.message.head
        if head is not None:
            subject = self.rooms.authenticator.again(head.known)
            if subject is not None:
                self.bearer = head.bearer
                return subject
        token = self.shown()
        found = self.rooms.authenticator.authenticate(token)
        if not isinstance(found, Principal):
            # Not remembered: what these rooms find out need not hold for those that are in force by then.
            return self._found_later(found, token)
        known = self._found(found, token)
        if head is not None:
            head.known, head.bearer = known, self.bearer
        return known.subject

    def shown(self) -> str:
        """Return the token that the request shows. Raise Refused."""
        return read_bearer(self.message.headers.get("Authorization"))

    def _found(self, principal: Principal, token: str) -> Known:
        if self.rooms.for_upstream:
            self.bearer = self.rooms.authenticator.upstream_bearer(token)
        return self.rooms.authenticator.known(principal)

    async def _found_later(self, found: Awaitable[Principal], token: str) -> Subject:
        return self._found(await found, token).subject

    def policy_of(self, gate: Gate) -> PolicyState:
        """Return the policy in force, and take note of it: the event of the request names the last one."""
        state = gate.state
        self.look = look_at(state)
        return state

    def admitted(self, subject: Subject | None, asked: AskedFor, catalog: str) -> Judgement:
        """Return that the policy which was looked at last lets the call be made."""
        assert self.look is not None  # noqa: S101 - nothing is admitted unseen
        return admitted(self.look, subject, asked, catalog)


def read_bearer(authorization: str | None) -> str:
    """Return the bearer token of an Authorization header. Raise Refused."""
    if not authorization or authorization[:7].lower() != _BEARER:
        raise Refused(Reason.TOKEN_MISSING, "no Authorization header" if not authorization else "not a Bearer scheme")
    token = authorization[7:].strip(" ")
    if not token:
        raise Refused(Reason.TOKEN_MISSING, "the Bearer scheme without a token")
    return token
