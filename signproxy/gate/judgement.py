"""Name what the gate says of a request: who may do what, by which policy; or what has to be asked before it can say."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter_ns
from typing import NamedTuple

import msgspec

from signproxy.errors import Refused
from signproxy.gate.forwarded import BucketsShown, Passed
from signproxy.gate.request import AskedFor, Request
from signproxy.model import Allow, Deny, Subject
from signproxy.policy.state import PolicyState
from signproxy.s3.request import S3Request


class Denied(Refused):
    """Raise where the policy refuses: the refusal of a table or volume, and in which catalog."""

    def __init__(self, deny: Deny, catalog: str = "") -> None:
        super().__init__(deny.reason, deny.detail)
        self.deny = deny
        self.catalog = catalog


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """What was decided of a request, and all that it was decided by. An event says this, and not what holds later."""

    subject: Subject | None
    """None for a caller that is not known."""
    asked: AskedFor
    policy_rev: str
    policy_epoch: int
    decided_ns: int
    """When the policy was looked at."""
    judged_ns: int = 0
    """When that was over; 0 where it was not."""
    catalog: str = ""
    request: S3Request | None = None
    """What S3 would see; None where the request did not come so far."""
    allow: Allow | None = None
    deny: Deny | None = None
    """Why the policy refuses a table or a volume; beside `passed` where its caller is only observed."""
    refused: Refused | None = None
    """Why nothing may be served; None where something may be. Never raised: it would hold on to the frames of it."""
    table_uuid: str = ""
    passed: Passed | BucketsShown | None = None
    """What may be forwarded, or shown; None for what is not forwarded."""
    operation: str = ""
    """S3's name of an operation that addresses no bucket."""


class OpenQuestion(NamedTuple):
    """What an upstream has to be asked before a request can be judged; it is judged anew once that is known."""

    so_far: Judgement
    answer: Awaitable[object]


Judged = Judgement | OpenQuestion
"""What judging once ends in."""


class PolicyLook(NamedTuple):
    """The policy that a request is judged by, and when it was looked at; not the policy itself, which it would keep."""

    rev: str
    epoch: int
    at_ns: int


def look_at(state: PolicyState) -> PolicyLook:
    """Return that a policy is looked at now."""
    return PolicyLook(state.rev, state.epoch, perf_counter_ns())


def unjudged(
    request: Request, subject: Subject | None, asked: AskedFor, refused: Refused, look: PolicyLook | None = None
) -> Judgement:
    """Return what can be said of a request that was refused before it was judged, or while it was."""
    deny, catalog = None, asked.catalog
    if isinstance(refused, Denied):
        deny, catalog = refused.deny, refused.catalog or catalog
    look = look or PolicyLook(request.policy_rev, request.policy_epoch, perf_counter_ns())
    return Judgement(subject, asked, *look, catalog=catalog, deny=deny, refused=refused)


def admitted(look: PolicyLook, subject: Subject | None, asked: AskedFor, catalog: str) -> Judgement:
    """Return the judgement of a call that addresses no object, and that may be made."""
    return Judgement(subject, asked, *look, perf_counter_ns(), catalog)


def denial_of(refused: Refused) -> Deny:
    """Return why the policy refuses, for a refusal by whichever step."""
    return refused.deny if isinstance(refused, Denied) else Deny(refused.reason, refused.detail)
