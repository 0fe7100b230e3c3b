"""Serve a request in the one order that there is: every way is served by it, on every listener, and `explain` too.

    identify ─> limit ─> ask ─> judge ─> reserve ─> serve ─> record ─> answer
        │         │       │       │└ask, and judge anew │       │
        └─────────┴───────┴───────┴──────────┴──────────┴───────┴──refused, gone, at fault──> record ─> tell

Each step is the way's, and returns at once what is at hand. Only what has to be waited for is awaited, so that a
request for which everything is at hand is served without a task (see `begun`). However it ends, exactly one event
says so, and its lease is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter_ns
from types import CoroutineType
from typing import Any, Protocol, TypeVar, cast

from signproxy.errors import Reason, Refused
from signproxy.gate.begun import waited
from signproxy.gate.judgement import Judged, Judgement, OpenQuestion, PolicyLook, unjudged
from signproxy.gate.limits import Hold, Lease, Places
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor, Request
from signproxy.model import Subject
from signproxy.telemetry.log import get_logger

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

_ROUNDS = range(9)
"""How often one request is judged, with a question answered in between: a bulk delete may have many."""

_JUDGED = (Judgement, OpenQuestion)

STATE_UNKNOWN = frozenset({Reason.UPSTREAM_TIMEOUT, Reason.UPSTREAM_INVALID})
"""That a change may have been made has to be told: a client that believes it was not would undo what is there."""

Judge = Callable[[Subject | None, AskedFor], Judged | Awaitable[Judged]]

_log = get_logger("signproxy.gate")


class Way(Protocol[A_co]):
    """What differs from one way of serving to another; made for one request. Any step may raise Refused."""

    request: Request
    lease: Lease
    asked: AskedFor
    """As much as is known of what is asked for, before `ask` returns it."""
    look: PolicyLook | None
    """The policy that was looked at last, where it is the way that looks; its event names that one."""
    acts: bool
    """Whether something happens outside of this process while it serves: its event needs a place before that."""

    @property
    def ends(self) -> type[Outcome]:
        """What serving it ends in."""

    def identify(self) -> Subject | Awaitable[Subject | None]:
        """Return who asks; an awaitable for what is known only after a while, or may stay unknown."""

    def ask(self, subject: Subject | None) -> AskedFor | Awaitable[AskedFor]:
        """Return what is asked for: the request's body is read here, and charged before."""

    @property
    def judge(self) -> Judge:
        """Returns what is decided, or what has to be asked for before it can be; often the gate's own."""

    def serve(self, judgement: Judgement, outcome: Outcome) -> A_co | Coroutine[Any, Any, A_co]:
        """Serve what was allowed, and say in the outcome what became of it. Its event is written after that."""

    def instead(self, judgement: Judgement, outcome: Outcome) -> A_co | None:
        """Return the answer to a request that is refused where another way is open to its caller; else None."""

    def fault(self, error: Exception) -> Refused | None:
        """Return what the client's side did wrong, for an error that tells of it; None for a fault of our own."""

    def refuse(self, refused: Refused, judgement: Judgement) -> A_co | Coroutine[Any, Any, A_co]:
        """Tell the caller. Its event is written, and what it held is given back."""


class Admits(Protocol):
    """Says how much each principal may use up."""

    @property
    def waiting(self) -> Places:
        """The places of requests that wait."""

    def admit(self, principal: str, now: int) -> Hold | None:
        """Count a request; return how long its answer has to wait, if at all. Raise Refused."""


class RequestRecords(Protocol):
    """Writes the one event of each request."""

    def reserve(self, request: Request, judgement: Judgement, lease: Lease) -> None:
        """Have a place kept for the event. Raise Refused where there is none."""

    def served(self, request: Request, judgement: Judgement, outcome: Outcome, lease: Lease) -> None:
        """Record what became of a request that was served. Raise Refused if the trail does not take it."""

    def refused(
        self, request: Request, judgement: Judgement, refused: Refused, outcome: Outcome | None, lease: Lease
    ) -> None:
        """Record a refusal or failure, unless the request has its event. Raise Refused if it is not taken."""


class Order:
    """The order of a request."""

    __slots__ = ("_limits", "_recorder")

    def __init__(self, recorder: RequestRecords, limits: Admits) -> None:
        self._recorder = recorder
        self._limits = limits

    async def take(self, way: Way[A], judgement: Judgement | None = None, outcome: Outcome | None = None) -> A:
        """Serve a request. Raise nothing but CancelledError, and what the way's `fault` or `refuse` raises.

        `judgement` and `outcome` are those of a request that was begun before: it was counted then, and judged; now it
        is judged anew.
        """
        lease, limits = way.lease, self._limits
        subject = None if judgement is None else judgement.subject
        asked: AskedFor | None = None
        refused: Refused | None = None
        try:
            who = way.identify()
            subject = who if isinstance(who, Subject) else await waited(who)
            if judgement is None and subject is not None:
                lease.principal = name = subject.caller.name
                # Before anything that costs more than knowing who asks.
                lease.late = limits.admit(name, perf_counter_ns())
            asks = way.ask(subject)
            asked = asks if isinstance(asks, AskedFor) else await asks
            for _ in _ROUNDS:
                judges = way.judge(subject, asked)
                # What is read for a while, before it is judged, is awaited.
                judged = judges if isinstance(judges, _JUDGED) else await judges
                if isinstance(judged, Judgement):
                    judgement, refused = judged, judged.refused
                    break
                judgement, asked = judged.so_far, judged.so_far.asked
                await lease.waits_for(judged.answer, limits.waiting)
            else:
                refused = Refused(Reason.UPSTREAM_UNAVAILABLE, "every answer leads to another question")
            assert judgement is not None  # noqa: S101 - each round ends in one
            if refused is None and way.acts and lease.event is None:
                self._recorder.reserve(way.request, judgement, lease)
            outcome = outcome or way.ends()
            answer = way.serve(judgement, outcome) if refused is None else way.instead(judgement, outcome)
            if type(answer) is CoroutineType:
                answer = await answer
            if refused is None or answer is not None:
                refused = None
                self._recorder.served(way.request, judgement, outcome, lease)
                return cast("A", answer)
        except Refused as caught:
            # Without the frames that it came through, which would hold on to it.
            refused = caught.with_traceback(None)
        except asyncio.CancelledError:
            gone = Refused(Reason.CLIENT_GONE, "cancelled")
            judgement = judgement or unjudged(way.request, subject, asked or way.asked, gone, way.look)
            self._record(way, judgement, gone, outcome)
            raise
        except Exception as error:  # noqa: BLE001 - the outermost wrapper: a fault of ours is an answer and an event
            refused = way.fault(error) or _own_fault(way.request)
        finally:
            if refused is None and (lease.places is not None or lease.event is not None):
                lease.close()
        judgement = judgement or unjudged(way.request, subject, asked or way.asked, refused, way.look)
        told = way.refuse(self._record(way, judgement, refused, outcome), judgement)
        return cast("A", await told if type(told) is CoroutineType else told)

    def _record(self, way: Way[A], judgement: Judgement, refused: Refused, outcome: Outcome | None) -> Refused:
        """Record a refusal, and give back what the request holds; return what the caller is told."""
        try:
            self._recorder.refused(way.request, judgement, refused, outcome, way.lease)
        except Refused as unrecorded:
            # The trail took neither: nothing is served, a refusal least of all.
            return refused if refused.reason in STATE_UNKNOWN else unrecorded.with_traceback(None)
        finally:
            way.lease.close()
        return refused


def _own_fault(request: Request) -> Refused:
    _log.exception("request failed", request_id=request.request_id)
    return Refused(Reason.INTERNAL)
