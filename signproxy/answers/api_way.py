"""Do what all ways of the API have in common: know the caller by its token, and tell why a request is refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine, Mapping
from time import perf_counter_ns
from typing import Any, Protocol

import msgspec
from aiohttp import web

from signproxy.answers.bodies import FOR_TOO_MUCH
from signproxy.answers.reply import Reply
from signproxy.answers.wire import refusal
from signproxy.errors import Reason, Refused
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement, PolicyLook, admitted, look_at
from signproxy.gate.limits import Lease, Limits
from signproxy.gate.order import Judge
from signproxy.gate.outcome import Outcome
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


class Message(msgspec.Struct, frozen=True, gc=False):
    """A request of the API as it came: whole, or by aiohttp's hands."""

    headers: Mapping[str, str]
    query: str = ""
    body: bytes | None = None
    """None where it is still to be read."""
    head: KnownHead | None = None
    parsed: web.BaseRequest | None = None
    """aiohttp's request, where there is one: what is long is read and answered in parts."""


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


class ApiWay(ABC):
    """A way of the API, for one request."""

    acts = True
    ends = Outcome
    look: PolicyLook | None = None
    judge: Judge
    asked: AskedFor = NOTHING_ASKED
    bearer = ""
    """The caller's own token, where it may be shown to an upstream."""
    refused_for: Reason | None = None

    def __init__(
        self,
        request: Request,
        message: Message,
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

    @property
    def parsed(self) -> web.BaseRequest:
        """aiohttp's request: only what is to be signed comes without."""
        assert self.message.parsed is not None  # noqa: S101 - see above
        return self.message.parsed

    def identify(self) -> Subject | Awaitable[Subject | None]:
        """Return who asks, by the token that the request shows, or another one with the same head. Raise Refused."""
        head = self.message.head
        if head is not None:
            subject = self.rooms.authenticator.again(head.known)
            if subject is not None:
                self.bearer = head.bearer
                return subject
        token = read_bearer(self.message.headers.get("Authorization"))
        found = self.rooms.authenticator.authenticate(token)
        if not isinstance(found, Principal):
            # Not remembered: what these rooms find out need not hold for those that are in force by then.
            return self._found_later(found, token)
        known = self._found(found, token)
        if head is not None:
            head.known, head.bearer = known, self.bearer
        return known.subject

    def _found(self, principal: Principal, token: str) -> Known:
        if self.rooms.for_upstream:
            self.bearer = self.rooms.authenticator.upstream_bearer(token)
        return self.rooms.authenticator.known(principal)

    async def _found_later(self, found: Awaitable[Principal], token: str) -> Subject:
        return self._found(await found, token).subject

    @abstractmethod
    def ask(self, subject: Subject | None) -> AskedFor | Awaitable[AskedFor]:
        """Return what is asked for. Raise Refused."""

    @abstractmethod
    def serve(self, judgement: Judgement, outcome: Outcome) -> Reply | Coroutine[Any, Any, Reply]:
        """Serve what was allowed. Raise Refused."""

    def instead(self, _judgement: Judgement, _outcome: Outcome) -> Reply | None:
        """Return nothing: a refusal is one."""
        return None

    def fault(self, error: Exception) -> Refused | None:
        """Return that the client is gone, where that is what happened."""
        if isinstance(error, ConnectionError | web.RequestPayloadError):
            return Refused(Reason.CLIENT_GONE, type(error).__name__)
        return None

    def refuse(self, refused: Refused, judgement: Judgement) -> Reply:
        """Tell the caller; one that asks too much, or is not known, may have to wait for it."""
        reason = self.refused_for = refused.reason
        reply = refusal(refused, self.request.request_id)
        if judgement.subject is None:
            reply.hold = self.limits.stranger(perf_counter_ns())
        elif reason in FOR_TOO_MUCH:
            reply.hold = self.limits.callers.penalty()
        return self.finish(reply)

    def policy_of(self, gate: Gate) -> PolicyState:
        """Return the policy in force, and take note of it: the event of the request names the last one."""
        state = gate.state
        self.look = look_at(state)
        return state

    def admitted(self, subject: Subject | None, asked: AskedFor, catalog: str) -> Judgement:
        """Return that the policy which was looked at last lets the call be made."""
        assert self.look is not None  # noqa: S101 - nothing is admitted unseen
        return admitted(self.look, subject, asked, catalog)

    def finish(self, reply: Reply) -> Reply:
        """Return an answer as it goes out: late, where its request came early."""
        if reply.hold is None:
            reply.hold = self.lease.late
        return reply


def read_bearer(authorization: str | None) -> str:
    """Return the bearer token of an Authorization header. Raise Refused."""
    if not authorization or authorization[:7].lower() != _BEARER:
        raise Refused(Reason.TOKEN_MISSING, "no Authorization header" if not authorization else "not a Bearer scheme")
    token = authorization[7:].strip(" ")
    if not token:
        raise Refused(Reason.TOKEN_MISSING, "the Bearer scheme without a token")
    return token
