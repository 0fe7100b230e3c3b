"""Find what of a request that was served holds for those that are like it, if anything does."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from signproxy.errors import Refused
from signproxy.gate.forwarded import Passed
from signproxy.gate.outcome import StoreOutcome
from signproxy.gate.recorder import Recorder
from signproxy.gate.request import read_request_id
from signproxy.server.s3.likeness import Likeness
from signproxy.server.s3.s3_way import S3Rooms, S3Way
from signproxy.server.s3.sequels import Precedent


class _Rule(msgspec.Struct, frozen=True, gc=False):
    """A rule by its name alone: the rule itself holds on to its policy."""

    rule_id: str


def find_precedent(way: S3Way, rooms: S3Rooms, recorder: Recorder, is_current: Callable[[], bool]) -> Precedent | None:
    """Return what holds for requests that are like one that was served; None where each is looked at as a whole.

    The caller is identified, and the request judged, once more: what was found then may have changed since.
    What is found must not hold on to its rooms: their gate remembers policies, and an idle connection would keep a
    million tables that were replaced. `is_current` says whether these rooms are in force, and their policy with them.
    """
    head, asked = way.head, way.asked
    wire = asked.forward
    if wire is None or "?" in head.target or not wire.raw_key or len(head.fields) != len(head.headers):
        return None
    try:
        shown = rooms.callers.shown(way.caller, head.method, head.target, head.headers, head.fields)
    except Refused:
        return None
    if shown is None:
        return None
    subject = shown.known.subject
    request_id = read_request_id(head.fields.get("x-request-id"), "")
    request = replace(way.request, event_id="", request_id=request_id)
    found = rooms.gate.forward.neighbours(subject, asked)
    if found is None:
        return None
    judgement, neighbours, learned = found
    passed = judgement.passed
    assert isinstance(passed, Passed)  # noqa: S101 - nothing else has neighbours
    repeated = rooms.forwarder.repeated(passed, head)
    outcome = StoreOutcome(status=0, payload=passed.forwardable.mode._value_, stamped=repeated.stamped)
    event = recorder.draft(request, judgement, outcome)
    # A rule by its name alone, and nothing else that passed: both hold on to their policy.
    allow = replace(passed.allow, authority=_Rule(event.rule_id))
    judgement = replace(judgement, allow=allow, passed=None, asked=replace(asked, bearer=""))
    sent = {spelled: at for at, (spelled, _) in enumerate(repeated.headers)}
    return Precedent(
        likeness=Likeness(head, sent, shown.signed),
        neighbours=neighbours,
        learned=learned,
        shown=shown,
        callers=rooms.callers,
        is_current=is_current,
        request=passed.forwardable.request,
        repeated=repeated,
        event=event,
        arrived=request,
        judgement=judgement,
    )
