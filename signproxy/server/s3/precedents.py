"""Find what of a request that was served holds for those that are like it, if anything does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from weakref import ref

import msgspec

from signproxy.audit.event import Kind
from signproxy.errors import Refused
from signproxy.forward.forward import Forwarder
from signproxy.gate.gate import Gate
from signproxy.gate.outcome import ForwardOutcome
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.identity.s3_caller import Caller, S3Callers
from signproxy.model import Subject
from signproxy.policy.state import PolicyState
from signproxy.s3.forwarded import ForwardWire
from signproxy.server.api.message import read_request_id
from signproxy.server.s3.likeness import Likeness
from signproxy.server.s3.sequels import Precedent
from signproxy.transfer.head import RequestHead

_KIND = Kind.FORWARD


class _Rule(msgspec.Struct, frozen=True, gc=False):
    """A rule by its name alone: the rule itself holds on to its policy."""

    rule_id: str


class Served(Protocol):
    """What answered the requests."""

    @property
    def callers(self) -> S3Callers:
        """Tells who they are from."""
        ...

    @property
    def gate(self) -> Gate:
        """Judges them."""
        ...

    @property
    def forwarder(self) -> Forwarder:
        """Forwards them."""
        ...


class Precedents:
    """Finds them, for one generation of settings.

    What is found must not hold on to its rooms: their gate remembers policies, and an idle connection would keep a
    million tables that were replaced.
    """

    __slots__ = ("_in_force", "_is_current", "_recorder", "_rooms")

    def __init__(
        self, rooms: Served, recorder: Recorder, in_force: Callable[[], PolicyState], is_current: Callable[[], bool]
    ) -> None:
        """`in_force` returns the policy in force; `is_current` says whether these rooms are."""
        self._rooms = rooms
        self._recorder = recorder
        self._in_force = in_force
        self._is_current = is_current

    def find(self, head: RequestHead, served: Passage, caller: Caller, wire: ForwardWire) -> Precedent | None:
        """Return what holds for requests that are like one that was served; None where each is looked at as a whole.

        The caller is identified, and the request judged, once more: what was found then may have changed since.
        """
        if "?" in head.target or not wire.raw_key or len(head.fields) != len(head.headers):
            return None
        try:
            shown = self._rooms.callers.shown(caller, head.method, head.target, head.headers, head.fields)
        except Refused:
            return None
        if shown is None:
            return None
        principal = shown.known.principal
        state = self._rooms.gate.state
        request_id = read_request_id(head.fields.get("x-request-id"), "")
        passage = Passage(_KIND, "", request_id, served.remote_ip, served.user_agent, state)
        passage.subject = subject = Subject(principal, principal)
        found = self._rooms.gate.neighbours(passage, subject, wire)
        if found is None:
            return None
        passed, neighbours = found
        repeated = self._rooms.forwarder.repeated(passed, head)
        outcome = ForwardOutcome(status=0, payload=passed.forwardable.mode._value_, stamped=repeated.stamped)
        event = self._recorder.draft(passage, passed, outcome)
        passage.allow = msgspec.structs.replace(passed.allow, authority=_Rule(event.rule_id))
        sent = {spelled: at for at, (spelled, _) in enumerate(repeated.headers)}
        return Precedent(
            likeness=Likeness(head, sent, shown.signed),
            neighbours=neighbours,
            shown=shown,
            callers=self._rooms.callers,
            is_current=self._while(state),
            request=passed.forwardable.request,
            repeated=repeated,
            event=event,
            passage=passage,
            request_id=passage.request_id,
        )

    def _while(self, state: PolicyState) -> Callable[[], bool]:
        in_force, is_served_by = self._in_force, self._is_current
        judged_by = ref(state)
        return lambda: judged_by() is in_force() and is_served_by()
