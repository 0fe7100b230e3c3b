"""Follow one request through the gate: what is known of it so far, for the one event that closes it."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter_ns, time
from typing import TypeVar

from signproxy.audit.event import Kind
from signproxy.gate.begun import waited
from signproxy.gate.lease import Lease, PlaceKeeper
from signproxy.gate.outcome import ForwardOutcome
from signproxy.inventory.learned.asked import SealedContext
from signproxy.model import Allow, Deny, Subject, Target
from signproxy.policy.state import PolicyState
from signproxy.s3.forwarded import ForwardWire
from signproxy.s3.request import S3Request, WireRequest

T = TypeVar("T")


class Passage:
    """One request's way. Filled from the front; `closed` guards that it ends in exactly one event."""

    __slots__ = (
        "access_key_id",
        "allow",
        "application",
        "asked",
        "bearer",
        "cacheable",
        "call",
        "carried",
        "catalog",
        "closed",
        "decided_ns",
        "deny",
        "event_id",
        "expires_at",
        "judged_ns",
        "kind",
        "lease",
        "method",
        "outcome",
        "policy_epoch",
        "policy_rev",
        "query_id",
        "remote_ip",
        "request",
        "request_id",
        "reserved",
        "stamped",
        "started_ns",
        "subject",
        "table_uuid",
        "target",
        "user_agent",
        "waits_among",
        "wall",
        "wire",
    )

    def __init__(
        self, kind: Kind, event_id: str, request_id: str, remote_ip: str, user_agent: str, in_force: PolicyState
    ) -> None:
        """`in_force` is the policy at arrival: the event of a request that is never judged names it."""
        self.kind = kind
        self.event_id = event_id
        self.request_id = request_id
        self.remote_ip = remote_ip
        self.user_agent = user_agent
        self.application = ""
        """The client's own word, as `query_id` is; only recorded."""
        self.query_id = ""
        self.call = ""
        """The kind of a catalog call, and its method; an S3 request has its own."""
        self.method = ""
        self.wall = time()
        self.started_ns = self.decided_ns = perf_counter_ns()
        self.judged_ns = 0
        # No reference to the policy itself: a transfer may last for hours, and would keep all its tables.
        self.policy_rev = in_force.rev
        self.policy_epoch = in_force.epoch
        self.closed = False
        self.reserved = False
        """Whether the trail keeps a place for its event."""
        self.stamped = False
        self.cacheable = False
        self.outcome: ForwardOutcome | None = None
        """What became of it at the store, where it came that far."""
        self.bearer = ""
        """The caller's own token, where an upstream may have to be asked; never recorded."""
        self.access_key_id = ""
        self.catalog = ""
        self.table_uuid = ""
        self.expires_at = ""
        self.subject: Subject | None = None
        self.target: Target | None = None
        self.wire: WireRequest | None = None
        self.asked: ForwardWire | None = None
        """What the S3 listener was asked, not believed."""
        self.request: S3Request | None = None
        self.allow: Allow | None = None
        self.deny: Deny | None = None
        self.carried: SealedContext | None = None
        self.lease = Lease()
        self.waits_among: PlaceKeeper | None = None
        """The places of which it takes one before it waits; None where it has what it needs."""

    def judged_by(self, state: PolicyState) -> None:
        """Take note of the policy that the request is judged by from now on; its event names the last one."""
        self.policy_rev = state.rev
        self.policy_epoch = state.epoch
        self.decided_ns = perf_counter_ns()

    async def waits_for(self, answer: Awaitable[T]) -> T:
        """Return an answer once it is there, with a place among the requests that wait. Raise Refused without one."""
        return await waited(answer, self._take_place)

    def _take_place(self) -> None:
        places = self.waits_among
        if places is not None and self.subject is not None:
            self.lease.take(places, self.subject.caller.name)
