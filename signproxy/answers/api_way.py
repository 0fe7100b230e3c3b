"""Do what all ways of the API have in common: tell why a request is refused, and when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine
from time import perf_counter_ns
from typing import Any

from aiohttp import web

from signproxy.answers.bodies import FOR_TOO_MUCH
from signproxy.answers.reply import Reply, refusal
from signproxy.errors import Reason, Refused
from signproxy.gate.bearer_way import BearerWay, Received
from signproxy.gate.judgement import Judgement
from signproxy.gate.order import Judge
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor
from signproxy.model import Subject


class Message(Received, frozen=True, gc=False):
    """A request of the API as it came: whole, or by aiohttp's hands."""

    parsed: web.BaseRequest | None = None
    """aiohttp's request, where there is one: what is long is read and answered in parts."""


class ApiWay(BearerWay, ABC):
    """A way of the API, for one request."""

    acts = True
    ends = Outcome
    judge: Judge
    message: Message
    refused_for: Reason | None = None

    @property
    def parsed(self) -> web.BaseRequest:
        """aiohttp's request: only what is to be signed comes without."""
        assert self.message.parsed is not None  # noqa: S101 - see above
        return self.message.parsed

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
        reply = self.told(refused)
        if judgement.subject is None:
            reply.hold = self.limits.stranger(perf_counter_ns())
        elif reason in FOR_TOO_MUCH:
            reply.hold = self.limits.callers.penalty()
        return self.finish(reply)

    def told(self, refused: Refused) -> Reply:
        """Return a refusal as the clients of the way read it."""
        return refusal(refused, self.request.request_id)

    def finish(self, reply: Reply) -> Reply:
        """Return an answer as it goes out: late, where its request came early."""
        if reply.hold is None:
            reply.hold = self.lease.late
        return reply
