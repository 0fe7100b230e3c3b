"""A way whose every step does as a test says, and what counts how often each of them was taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from msgspec.structs import replace

from signproxy.audit.event import AuditEvent, Kind
from signproxy.audit.trail_state import OnError
from signproxy.errors import Reason, Refused
from signproxy.gate.judgement import Judgement, OpenQuestion, PolicyLook
from signproxy.gate.limits import Held, Hold, Lease, Places
from signproxy.gate.order import Order
from signproxy.gate.outcome import Outcome, StoreOutcome
from signproxy.gate.recorder import Recorder
from signproxy.gate.request import AskedFor, Request
from signproxy.model import Subject
from tests.gate.cases import CASES, SEALED, T1, Ask, judge, new_request, subject_of
from tests.product import Product


class Does(Enum):
    """What a step does."""

    RETURN = auto()
    WAIT = auto()
    """Return, after a while."""
    REFUSE = auto()
    WAIT_AND_REFUSE = auto()
    FAIL = auto()
    WAIT_AND_FAIL = auto()
    HANG = auto()
    """Wait until it is cancelled."""


LATER = frozenset({Does.WAIT, Does.WAIT_AND_REFUSE, Does.WAIT_AND_FAIL, Does.HANG})
BY_THE_STEP = Reason.STORE_UNAVAILABLE
"""What a step refuses for."""


class Step(Enum):
    """The steps of a way, and the answer of what has to be asked for."""

    IDENTIFY = auto()
    ASK = auto()
    JUDGE = auto()
    QUESTION = auto()
    SERVE = auto()
    INSTEAD = auto()
    REFUSE = auto()


class Answered(NamedTuple):
    """What the caller is told: by which step, and why not, if so."""

    by: Step
    reason: Reason = Reason.ALLOWED


class CountedPlaces(Places):
    """Places, and how often one was taken and given back."""

    def __init__(self) -> None:
        super().__init__("places", 1, 1)
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.full: Reason | None = None

    def begin(self, principal: str) -> None:
        if self.full is not None:
            raise Refused(self.full, "no place")
        self.begun.append(principal)

    def end(self, principal: str) -> None:
        self.ended.append(principal)


class CountedLimits:
    """Admits everything, unless a test says otherwise."""

    def __init__(self) -> None:
        self.places = CountedPlaces()
        self.admitted: list[str] = []
        self.too_many: Refused | None = None
        self.late: Hold | None = None

    @property
    def waiting(self) -> Places:
        return self.places

    def admit(self, principal: str, now: int) -> Hold | None:
        assert now > 0
        self.admitted.append(principal)
        if self.too_many is not None:
            raise self.too_many
        return self.late


HELD_BACK = Hold(0.05, Held(1))


class CountedTrail:
    """A recorder that takes everything, and counts."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.given_back = 0

    def reserve(self, _request: Request, _judgement: Judgement, lease: Lease) -> None:
        self.calls.append("reserve")
        lease.event = self

    def served(self, _request: Request, _judgement: Judgement, _outcome: Outcome, lease: Lease) -> None:
        self.calls.append("served")
        lease.event, lease.recorded = None, True

    def refused(
        self, _request: Request, _judgement: Judgement, refused: Refused, _outcome: Outcome | None, lease: Lease
    ) -> None:
        self.calls.append(f"refused {refused.reason.code}")
        lease.event, lease.recorded = None, True

    def give_back(self) -> None:
        self.given_back += 1


@dataclass
class FakeWay:
    """Does as it is told, and takes down what it was asked."""

    subject: Subject
    judgement: Judgement
    """What the gate says in the end."""
    whole: AskedFor
    does: dict[Step, Does] = field(default_factory=dict)
    acts: bool = True
    ends: type[Outcome] = StoreOutcome
    look: PolicyLook | None = None
    has_another_way: bool = False
    questions: int = 0
    """How many have to be answered before it can be judged."""
    places: Places | None = None
    """Where its place is taken while it asks, as a way does that waits for a body."""
    request: Request = field(default_factory=lambda: new_request(Kind.SIGN))
    lease: Lease = field(default_factory=Lease)
    asked: AskedFor = field(default_factory=lambda: AskedFor(target=T1, catalog="lake"))
    steps: list[Step] = field(default_factory=list)
    told: list[tuple[Reason, str]] = field(default_factory=list)
    known: Judgement | None = None
    """What was known as its caller was told."""
    outcome: Outcome | None = None
    hangs: asyncio.Event = field(default_factory=asyncio.Event)
    while_serving: Callable[[], None] = lambda: None

    def identify(self) -> Any:
        return self._do(Step.IDENTIFY, self.subject)

    def ask(self, subject: Subject | None) -> Any:
        assert subject is self.subject
        if self.places is not None:
            self.lease.take(self.places)
        return self._do(Step.ASK, self.whole)

    def judge(self, subject: Subject | None, asked: AskedFor) -> Any:
        assert subject is self.subject
        assert asked.wire is self.whole.wire
        if self.questions:
            self.questions -= 1
            so_far = replace(self.judgement, allow=None, deny=None, refused=None)
            return self._do(Step.JUDGE, OpenQuestion(so_far, self._answer()))
        return self._do(Step.JUDGE, self.judgement)

    async def _answer(self) -> None:
        said = self._do(Step.QUESTION, None)
        if said is not None:
            await said

    def serve(self, judgement: Judgement, outcome: Outcome) -> Any:
        assert judgement is self.judgement
        self.outcome = outcome
        if isinstance(outcome, StoreOutcome):
            outcome.requests, outcome.upstream_status = 1, 503
        self.while_serving()
        return self._do(Step.SERVE, Answered(Step.SERVE))

    def instead(self, judgement: Judgement, outcome: Outcome) -> Any:
        if judgement.refused is None:
            return None
        outcome.detail = "another way"
        return self._do(Step.INSTEAD, Answered(Step.INSTEAD) if self.has_another_way else None)

    def fault(self, error: Exception) -> Refused | None:
        return Refused(Reason.CLIENT_GONE, type(error).__name__) if isinstance(error, ConnectionError) else None

    def refuse(self, refused: Refused, judgement: Judgement) -> Any:
        # By then nothing is held, and the event is written.
        assert (self.lease.places, self.lease.event, self.lease.recorded) == (None, None, True)
        # Kept with the frames that it came through, it would be garbage that only a collection finds.
        assert refused.__traceback__ is None
        self.told.append((refused.reason, refused.detail))
        self.known = judgement
        return self._do(Step.REFUSE, Answered(Step.REFUSE, refused.reason))

    def _do(self, step: Step, value: Any) -> Any:
        self.steps.append(step)
        does = self.does.get(step, Does.RETURN)
        if does in LATER:
            return self._later(does, value)
        return _ended(does, value)

    async def _later(self, does: Does, value: Any) -> Any:
        await asyncio.sleep(0)
        if does is Does.HANG:
            self.hangs.set()
            await asyncio.Event().wait()
        return _ended(does, value)


def _ended(does: Does, value: Any) -> Any:
    if does in (Does.REFUSE, Does.WAIT_AND_REFUSE):
        raise Refused(BY_THE_STEP, "by the step")
    if does in (Does.FAIL, Does.WAIT_AND_FAIL):
        raise LookupError("a fault of ours")
    return value


class Desk:
    """An order with the real recorder and trail, and limits that count."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.limits = CountedLimits()
        self.recorder = Recorder(product.trail, product.metrics)
        self.order = Order(self.recorder, self.limits)

    async def way(self, does: dict[Step, Does] | None = None, *, refused: bool = False, **how: Any) -> FakeWay:
        """Return a way of a request that the real gate allows, or refuses."""
        ask = CASES[Reason.OUTSIDE_TABLE] if refused else Ask()
        judgement, subject = await judge(self.product, ask), subject_of(self.product, ask)
        asked = replace(judgement.asked, application="nightly", query_id="q-1", catalog="lake")
        judgement = replace(judgement, subject=subject, asked=asked)
        return FakeWay(
            subject,
            judgement,
            asked,
            does or {},
            places=self.limits.places,
            **how,
        )

    async def take(self, way: FakeWay, judgement: Judgement | None = None, outcome: Outcome | None = None) -> Answered:
        """Serve it as far as it goes."""
        answered: Answered = await self.order.take(way, judgement, outcome)
        return answered

    def event(self) -> AuditEvent:
        """Return the one event that there is."""
        (event,) = self.product.events()
        return event

    def check_given_back(self, way: FakeWay) -> None:
        """Fail where anything that all requests share is still held, or was given back twice."""
        assert (way.lease.places, way.lease.event) == (None, None)
        places = self.limits.places
        assert places.begun == places.ended == ["static/writer"] * len(places.begun)
        assert self.product.trail._reserved == 0


@contextmanager
def desk(*, on_error: OnError = OnError.DENY) -> Iterator[Desk]:
    """Return one whose trail is running."""
    product = Product(SEALED, on_error=on_error)
    product.trail.start()
    try:
        yield Desk(product)
    finally:
        product.trail.close(5.0)
