"""The order of a request: however it ends, there is one event, everything is given back, and the caller is answered."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from signproxy.audit.event import AuditEvent, Verdict
from signproxy.audit.trail_state import OnError
from signproxy.errors import Reason, Refused
from signproxy.gate.begun import Waiting, begin
from signproxy.gate.limits import Lease
from signproxy.gate.order import Order
from signproxy.gate.outcome import Outcome, StoreOutcome
from tests.coroutines import finished
from tests.gate.order_rig import (
    BY_THE_STEP,
    HELD_BACK,
    LATER,
    Answered,
    CountedLimits,
    CountedPlaces,
    CountedTrail,
    Desk,
    Does,
    FakeWay,
    Step,
    desk,
)

_ALL = (Step.IDENTIFY, Step.ASK, Step.JUDGE, Step.QUESTION, Step.SERVE, Step.INSTEAD)
"""Every step but the last one, which tells of the failure of another."""

_NEVER_WAITS = frozenset({Step.INSTEAD})
FAILURES = tuple(
    pytest.param(step, does, id=f"{step.name.lower()}-{does.name.lower()}")
    for step in _ALL
    for does in (Does.REFUSE, Does.WAIT_AND_REFUSE, Does.FAIL, Does.WAIT_AND_FAIL)
    if not (step in _NEVER_WAITS and does in LATER)
)
WAITS = tuple(step for step in (*_ALL, Step.REFUSE) if step not in _NEVER_WAITS)


async def _way(at: Desk, step: Step, does: Does) -> FakeWay:
    """Return a way one step of which does so."""
    return await at.way({step: does}, refused=step is Step.INSTEAD, questions=int(step is Step.QUESTION))


def _check_known(event: AuditEvent, step: Step, allowed_key: str = "wh/t1/data/f.parquet") -> None:
    """Fail where the event does not say all that was known before a step."""
    assert (event.event_id, event.request_id, event.remote_ip) == ("event-1", "request-1", "192.0.2.7")
    assert event.catalog == "lake"
    # The table that the route names is known before anything else is.
    assert (event.namespace, event.table) == ("ns", "t1")
    assert event.principal == ("" if step is Step.IDENTIFY else "static/writer")
    is_asked = step not in (Step.IDENTIFY, Step.ASK)
    assert (event.application, event.query_id) == (("nightly", "q-1") if is_asked else ("", ""))
    is_read = is_asked and step is not Step.JUDGE
    key = "wh/t10/f" if step is Step.INSTEAD else allowed_key
    assert (event.s3_op, event.key) == (("GetObject", key) if is_read else ("", ""))
    assert event.upstream_status == (503 if step is Step.SERVE else 0)


@pytest.mark.parametrize(("step", "does"), FAILURES)
async def test_a_step_that_fails_ends_in_one_event_and_an_answer(
    step: Step, does: Does, capfd: pytest.CaptureFixture[str]
) -> None:
    """A request without an event is one that never was to an auditor; one without an answer hangs its client."""
    with desk() as at:
        way = await _way(at, step, does)
        is_refusal = does in (Does.REFUSE, Does.WAIT_AND_REFUSE)
        reason = BY_THE_STEP if is_refusal else Reason.INTERNAL
        assert await at.take(way) == Answered(Step.REFUSE, reason)
        assert way.told == [(reason, "by the step" if is_refusal else "")]
        assert way.steps[-2:] == [step, Step.REFUSE]
        event = at.event()
        assert (event.reason, event.decision) == (reason.code, Verdict.ERROR)
        _check_known(event, step)
        assert way.known is not None
        assert way.known.subject is (None if step is Step.IDENTIFY else way.subject)
        at.check_given_back(way)
        # A fault of ours leaves its trace, a refusal none.
        assert ("a fault of ours" in capfd.readouterr().err) is not is_refusal


@pytest.mark.parametrize("step", WAITS)
async def test_a_caller_that_leaves_while_a_step_waits_is_recorded(step: Step) -> None:
    """What was begun for it may have been done, and its place would be taken for good."""
    with desk() as at:
        way = await _way(at, step, Does.HANG)
        if step is Step.REFUSE:
            way.does[Step.SERVE] = Does.REFUSE
        task = asyncio.create_task(at.take(way))
        await asyncio.wait_for(way.hangs.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        event = at.event()
        if step is Step.REFUSE:
            # It has its event already.
            assert event.reason == BY_THE_STEP.code
        else:
            assert (event.reason, event.detail.partition(";")[0]) == ("client_gone", "cancelled")
            assert way.told == []
            _check_known(event, step)
        at.check_given_back(way)


@pytest.mark.parametrize("step", WAITS)
async def test_a_request_waits_wherever_it_has_to(step: Step) -> None:
    """An answer that is not there at once would be a refusal, or be lost."""
    with desk() as at:
        way = await _way(at, step, Does.WAIT)
        if step is Step.REFUSE:
            way.does[Step.SERVE] = Does.REFUSE
            assert await at.take(way) == Answered(Step.REFUSE, BY_THE_STEP)
        else:
            assert await at.take(way) == Answered(Step.SERVE)
            assert at.event().decision is Verdict.ALLOW
        at.check_given_back(way)


async def test_what_is_at_hand_is_served_without_a_task() -> None:
    """A task for each request costs more than its decision."""
    with desk() as at:
        way = await at.way()
        assert finished(at.take(way)) == Answered(Step.SERVE)
        assert way.steps == [Step.IDENTIFY, Step.ASK, Step.JUDGE, Step.SERVE]
        at.check_given_back(way)
        refused = await at.way(refused=True)
        assert finished(at.take(refused)) == Answered(Step.REFUSE, Reason.OUTSIDE_TABLE)
        assert [event.reason for event in at.product.events()] == ["allowed", "outside_table"]


@pytest.mark.parametrize("step", WAITS)
async def test_what_is_begun_and_goes_on_in_a_task_does_nothing_twice(step: Step) -> None:
    """Begun anew in its task, a request would be counted, judged and recorded twice."""
    with desk() as at:
        way = await _way(at, step, Does.WAIT)
        if step is Step.REFUSE:
            way.does[Step.JUDGE] = Does.REFUSE
        begun = begin(at.take(way))
        assert isinstance(begun, Waiting)
        await asyncio.ensure_future(begun)
        assert at.limits.admitted == ["static/writer"]
        assert len(way.steps) == len(set(way.steps)) + (step is Step.QUESTION)
        at.event()
        at.check_given_back(way)


async def test_what_is_begun_and_never_goes_on_holds_nothing() -> None:
    """A place would be taken for good by a request that nothing waits for."""
    with desk() as at:
        way = await at.way({Step.SERVE: Does.WAIT})
        begun = begin(at.take(way))
        assert isinstance(begun, Waiting)
        begun.close()
        at.check_given_back(way)


# -- served, and what is told of it ------------------------------------------------------------------------------------


async def test_what_is_served_has_one_event_that_says_by_which_rule() -> None:
    """The event is the proof that nothing was served without a rule."""
    with desk() as at:
        at.limits.late = HELD_BACK
        way = await at.way({Step.SERVE: Does.WAIT})
        assert await at.take(way) == Answered(Step.SERVE)
        event = at.event()
        assert (event.decision, event.reason, event.rule_id) == (Verdict.ALLOW, "allowed", "writer@catalog:lake")
        assert event.policy_rev == at.product.state.rev
        _check_known(event, Step.SERVE)
        # The way holds its answer back as long as that says.
        assert (way.lease.late, way.lease.principal) == (HELD_BACK, "static/writer")
        assert way.told == []
        at.check_given_back(way)


async def test_what_is_refused_is_told_as_the_gate_has_it() -> None:
    """A caller that is told another reason repairs the wrong thing."""
    with desk() as at:
        way = await at.way(refused=True)
        assert await at.take(way) == Answered(Step.REFUSE, Reason.OUTSIDE_TABLE)
        event = at.event()
        assert (event.decision, event.reason, event.s3_op) == (Verdict.DENY, "outside_table", "GetObject")
        assert way.judgement.refused is not None
        assert way.told == [(Reason.OUTSIDE_TABLE, way.judgement.refused.detail)]
        assert Step.SERVE not in way.steps
        at.check_given_back(way)


async def test_a_caller_over_its_limit_costs_no_more_than_knowing_who_asks() -> None:
    """A flood of one caller would be read, and judged, before it is refused."""
    with desk() as at:
        at.limits.too_many = Refused(Reason.RATE_LIMITED, "early")
        way = await at.way()
        assert await at.take(way) == Answered(Step.REFUSE, Reason.RATE_LIMITED)
        assert way.steps == [Step.IDENTIFY, Step.REFUSE]
        event = at.event()
        assert (event.reason, event.principal, event.catalog) == ("rate_limited", "static/writer", "lake")
        at.check_given_back(way)


async def test_an_error_of_the_clients_side_is_told_as_one() -> None:
    """Alarms are set on faults of ours: a client that hangs up must not ring them."""
    with desk() as at:
        way = await at.way()

        def hang_up() -> None:
            raise ConnectionResetError

        way.while_serving = hang_up
        assert await at.take(way) == Answered(Step.REFUSE, Reason.CLIENT_GONE)
        event = at.event()
        assert (event.reason, event.detail) == ("client_gone", "ConnectionResetError")
        at.check_given_back(way)


async def test_the_other_way_that_a_caller_is_led_is_what_became_of_its_request() -> None:
    """A refusal in the trail would stand beside a client that went on, led by signproxy itself."""
    with desk() as at:
        way = await at.way(refused=True, has_another_way=True)
        assert await at.take(way) == Answered(Step.INSTEAD)
        event = at.event()
        assert (event.decision, event.reason, event.detail) == (Verdict.ALLOW, "allowed", "another way")
        assert (Step.SERVE in way.steps, way.told) == (False, [])
        at.check_given_back(way)


async def test_a_caller_that_cannot_be_told_is_recorded_all_the_same() -> None:
    """The connection that broke under the answer must not take the event with it, nor keep the place."""
    with desk() as at:
        for does in (Does.FAIL, Does.WAIT_AND_FAIL):
            way = await at.way({Step.ASK: Does.REFUSE, Step.REFUSE: does})
            # The listener above ends the connection.
            with pytest.raises(LookupError):
                await at.take(way)
            at.check_given_back(way)
        assert [event.reason for event in at.product.events()] == [BY_THE_STEP.code] * 2


async def test_a_fault_while_what_was_served_is_recorded_leaves_the_event_of_a_fault(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The place in the trail would stay taken, and the request be in no line of it."""
    with desk() as at:
        way = await at.way()
        way.judgement = replace(way.judgement, asked=replace(way.judgement.asked, query_id=7))
        assert await at.take(way) == Answered(Step.REFUSE, Reason.INTERNAL)
        event = at.event()
        assert (event.reason, event.principal) == ("internal", "static/writer")
        assert "the event could not be made" in event.detail
        assert "request failed" in capfd.readouterr().err
        at.check_given_back(way)


# -- questions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("questions", (1, 2, 8))
async def test_a_request_is_judged_anew_after_each_answer(questions: int) -> None:
    """What was asked for may have changed everything."""
    with desk() as at:
        way = await at.way(questions=questions)
        assert await at.take(way) == Answered(Step.SERVE)
        assert way.steps.count(Step.JUDGE) == questions + 1
        assert way.steps.count(Step.QUESTION) == questions
        # One place is enough for all of them.
        assert at.limits.places.begun == ["static/writer"]
        assert at.event().decision is Verdict.ALLOW
        at.check_given_back(way)


async def test_questions_come_to_an_end() -> None:
    """An upstream whose every answer leads to another question would hold a request for good."""
    with desk() as at:
        way = await at.way(questions=1_000)
        assert await at.take(way) == Answered(Step.REFUSE, Reason.UPSTREAM_UNAVAILABLE)
        assert (way.steps.count(Step.JUDGE), way.steps.count(Step.QUESTION)) == (9, 9)
        assert Step.SERVE not in way.steps
        event = at.event()
        assert event.detail == "every answer leads to another question"
        _check_known(event, Step.QUESTION)
        at.check_given_back(way)


async def test_what_was_read_to_judge_once_is_not_read_again() -> None:
    """Each answer of an upstream would cost the reading of a thousand keys."""
    with desk() as at:
        way = await at.way(questions=2)
        read: list[str] = []
        real = way.judge

        def judge(subject: object, asked: object) -> object:
            read.append(asked.application)  # type: ignore[attr-defined]  # what is asked for
            return real(subject, asked)  # type: ignore[arg-type]  # passed on

        way.judge = judge  # type: ignore[method-assign]  # to look at it
        way.judgement = replace(way.judgement, asked=replace(way.judgement.asked, application="read"))
        assert await at.take(way) == Answered(Step.SERVE)
        assert read == ["nightly", "read", "read"]


@pytest.mark.parametrize("reason", (Reason.IN_FLIGHT_LIMITED, Reason.OVERLOADED))
async def test_a_question_is_not_asked_for_a_caller_that_has_no_place_to_wait(reason: Reason) -> None:
    """A slow upstream would be kept busy by one caller, and every other one wait."""
    with desk() as at:
        at.limits.places.full = reason
        way = await at.way(questions=1)
        way.places = None
        assert await at.take(way) == Answered(Step.REFUSE, reason)
        assert Step.QUESTION not in way.steps
        event = at.event()
        assert event.reason == reason.code
        _check_known(event, Step.QUESTION)
        at.check_given_back(way)


async def test_a_caller_that_stays_unknown_is_served_where_its_way_knows_none() -> None:
    """Clients that ask for their first token have none to show."""
    counted, limits = CountedTrail(), CountedLimits()
    with desk() as at:
        way = await at.way({Step.IDENTIFY: Does.WAIT})
        way.subject = None  # type: ignore[assignment]  # as of a request for a token
        way.places = None
        assert await Order(counted, limits).take(way) == Answered(Step.SERVE)
    assert limits.admitted == []
    assert counted.calls == ["reserve", "served"]


# -- a trail that takes nothing ----------------------------------------------------------------------------------------


async def test_nothing_happens_outside_before_its_event_has_a_place() -> None:
    """Found out later that there is none, the object is written already."""
    with desk() as at:
        way = await at.way()
        at.product.trail.close(5.0)
        assert await at.take(way) == Answered(Step.REFUSE, Reason.AUDIT_UNAVAILABLE)
        assert Step.SERVE not in way.steps
        # The trail itself keeps count of what it turned away.
        assert at.product.events() == []
        assert at.product.trail.state.refused == 1
        at.check_given_back(way)


async def test_what_the_trail_did_not_take_is_not_handed_out() -> None:
    """A signature without its event is one that no audit finds."""
    with desk() as at:
        way = await at.way(acts=False)

        def end_trail() -> None:
            at.product.trail.close(5.0)

        way.while_serving = end_trail
        assert await at.take(way) == Answered(Step.REFUSE, Reason.AUDIT_UNAVAILABLE)
        assert Step.SERVE in way.steps
        assert at.product.events() == []
        assert at.product.trail.state.refused == 1
        at.check_given_back(way)


async def test_what_a_place_is_kept_for_is_served_however_the_trail_is_doing_by_then() -> None:
    """The object is written: a refusal would have the client write it again."""
    with desk() as at:
        way = await at.way()
        way.while_serving = lambda: at.product.trail._told("the disk stands still")
        assert await at.take(way) == Answered(Step.SERVE)
        at.product.trail._told("")
        assert at.event().decision is Verdict.ALLOW
        at.check_given_back(way)


@pytest.mark.parametrize("step", (Step.ASK, Step.JUDGE, Step.INSTEAD))
async def test_a_refusal_that_the_trail_does_not_take_is_not_told_as_it_is(step: Step) -> None:
    """Nothing is told that stands nowhere, a refusal least of all."""
    with desk() as at:
        way = await _way(at, step, Does.REFUSE)
        at.product.trail.close(5.0)
        assert await at.take(way) == Answered(Step.REFUSE, Reason.AUDIT_UNAVAILABLE)
        assert at.product.events() == []
        at.check_given_back(way)


@pytest.mark.parametrize("reason", (Reason.UPSTREAM_TIMEOUT, Reason.UPSTREAM_INVALID))
async def test_that_a_change_may_have_been_made_is_told_whatever_the_trail_takes(reason: Reason) -> None:
    """A client that believes its commit failed deletes the files of a commit that is there."""
    with desk() as at:
        way = await at.way(acts=False)

        def time_out() -> None:
            at.product.trail.close(5.0)
            raise Refused(reason, "no answer")

        way.while_serving = time_out
        assert await at.take(way) == Answered(Step.REFUSE, reason)
        at.check_given_back(way)


@pytest.mark.parametrize("acts", (True, False))
async def test_with_allow_a_request_is_served_without_its_event(acts: bool) -> None:
    """The operator prefers service, and the trail counts what it lost."""
    with desk(on_error=OnError.ALLOW) as at:
        way = await at.way(acts=acts)
        at.product.trail.close(5.0)
        assert await at.take(way) == Answered(Step.SERVE)
        refused = await at.way(refused=True)
        assert await at.take(refused) == Answered(Step.REFUSE, Reason.OUTSIDE_TABLE)
        assert at.product.events() == []
        assert at.product.trail.state.dropped == 2
        at.check_given_back(way)


async def test_a_caller_that_leaves_while_the_trail_takes_nothing_just_leaves() -> None:
    """Nothing hears a refusal; raised in its place, it would be a fault of the listener."""
    with desk() as at:
        way = await at.way({Step.ASK: Does.HANG})
        task = asyncio.create_task(at.take(way))
        await asyncio.wait_for(way.hangs.wait(), 10)
        at.product.trail.close(5.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        at.check_given_back(way)


# -- places in the trail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("acts", "refused", "calls"),
    (
        (True, False, ["reserve", "served"]),
        (False, False, ["served"]),
        (True, True, ["refused outside_table"]),
        (False, True, ["refused outside_table"]),
    ),
)
async def test_a_place_is_kept_for_what_acts_outside_alone(acts: bool, refused: bool, calls: list[str]) -> None:
    """Each signature would take the lock of the trail twice; and what is refused acts on nothing."""
    counted = CountedTrail()
    with desk() as at:
        way = await at.way(acts=acts, refused=refused)
        await Order(counted, at.limits).take(way)
        at.check_given_back(way)
    assert (counted.calls, counted.given_back) == (calls, 0)


class _Forgetful(CountedTrail):
    """Fails before it takes an event for which it keeps a place."""

    def served(self, *_: object) -> None:
        self.calls.append("served")
        raise LookupError("a fault of ours")

    def refused(self, *_: object) -> None:
        self.calls.append("refused")
        raise Refused(Reason.AUDIT_UNAVAILABLE)


async def test_a_place_that_no_event_takes_is_given_back_once() -> None:
    """One by one the places would go, until the trail is full of requests that are long over."""
    counted, limits = _Forgetful(), CountedLimits()
    with desk() as at:
        way = await at.way()
        way.places = limits.places

        def told(refused: Refused, _judgement: object) -> Answered:
            return Answered(Step.REFUSE, refused.reason)

        way.refuse = told  # type: ignore[method-assign,assignment]  # there is no event
        assert await Order(counted, limits).take(way) == Answered(Step.REFUSE, Reason.AUDIT_UNAVAILABLE)
    assert counted.calls == ["reserve", "served", "refused"]
    assert counted.given_back == 1
    assert limits.places.begun == limits.places.ended == ["static/writer"]


# -- begun before ------------------------------------------------------------------------------------------------------


async def _begun(at: Desk, does: dict[Step, Does] | None = None) -> FakeWay:
    """Return a request that was counted, judged and sent before, and is judged anew."""
    way = await at.way(does)
    way.lease.principal = "static/writer"
    way.lease.take(at.limits.places)
    at.recorder.reserve(way.request, way.judgement, way.lease)
    assert at.product.trail._reserved == 1
    return way


def _sent() -> Outcome:
    return StoreOutcome(requests=1, status=0)


async def test_a_request_that_was_begun_before_is_counted_once_and_keeps_its_place() -> None:
    """It would use up twice what its caller may, and hold two places for one event."""
    with desk() as at:
        way = await _begun(at)
        outcome = _sent()
        assert await at.take(way, way.judgement, outcome) == Answered(Step.SERVE)
        assert way.outcome is outcome
        assert at.limits.admitted == []
        assert at.limits.places.begun == ["static/writer"]
        assert at.event().decision is Verdict.ALLOW
        at.check_given_back(way)


@pytest.mark.parametrize("step", (Step.IDENTIFY, Step.ASK, Step.JUDGE, Step.SERVE))
@pytest.mark.parametrize("does", (Does.REFUSE, Does.FAIL))
async def test_a_request_that_was_begun_before_and_fails_says_what_was_known_and_sent(step: Step, does: Does) -> None:
    """The store's log has it: without its key in the event it looks like the work of a stolen key."""
    with desk() as at:
        way = await _begun(at, {step: does})
        told = await at.take(way, way.judgement, _sent())
        assert told.by is Step.REFUSE
        event = at.event()
        assert (event.principal, event.key, event.s3_op) == ("static/writer", "wh/t1/data/f.parquet", "GetObject")
        assert event.upstream_us > 0
        at.check_given_back(way)


async def test_a_request_that_was_begun_before_is_judged_by_what_holds_now() -> None:
    """A revoke that came in between would not bite."""
    with desk() as at:
        way = await _begun(at)
        before = way.judgement
        way.judgement = (await at.way(refused=True)).judgement
        assert await at.take(way, before, _sent()) == Answered(Step.REFUSE, Reason.OUTSIDE_TABLE)
        event = at.event()
        assert (event.reason, event.key) == ("outside_table", "wh/t10/f")
        assert event.upstream_us > 0
        at.check_given_back(way)


async def test_a_caller_that_leaves_a_request_that_was_begun_before_gives_all_of_it_back() -> None:
    """Its place in the trail would be kept for an event that never comes."""
    with desk() as at:
        way = await _begun(at, {Step.IDENTIFY: Does.HANG})
        task = asyncio.create_task(at.take(way, way.judgement, _sent()))
        await asyncio.wait_for(way.hangs.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        event = at.event()
        assert (event.reason, event.principal, event.key) == ("client_gone", "static/writer", "wh/t1/data/f.parquet")
        at.check_given_back(way)


# -- the lease ---------------------------------------------------------------------------------------------------------


def test_a_lease_is_closed_however_often_that_is_said() -> None:
    """A place that is given back twice is another request's."""
    counted, limits = CountedTrail(), CountedLimits()
    lease = Lease()
    lease.principal = "a"
    lease.take(limits.places)
    lease.take(limits.places)
    lease.event = counted
    lease.close()
    lease.close()
    assert (limits.places.begun, limits.places.ended, counted.given_back) == (["a"], ["a"], 1)


def test_a_fault_in_giving_one_thing_back_keeps_no_other() -> None:
    """A place in the trail would be lost with each of them."""

    class Broken(CountedPlaces):
        def end(self, principal: str) -> None:
            raise LookupError(principal)

    counted = CountedTrail()
    lease = Lease()
    lease.take(Broken())
    lease.event = counted
    with pytest.raises(LookupError):
        lease.close()
    assert counted.given_back == 1
