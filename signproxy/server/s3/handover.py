"""Hold what a request was given on the fast path, from when the general way takes over until its event is written."""

from __future__ import annotations

from copy import copy
from typing import Protocol

from msgspec.structs import replace

from signproxy.errors import Reason
from signproxy.forward.underway import Underway
from signproxy.gate.limits import Limits
from signproxy.gate.outcome import ForwardOutcome
from signproxy.gate.passage import Passage
from signproxy.gate.places import Places
from signproxy.gate.recorder import Recorder
from signproxy.s3.request import S3Request


class Common(Protocol):
    """What all connections have in common, as far as a handover gives it back."""

    recorder: Recorder
    limits: Limits
    transfers: Places


class Handover:
    """What a request holds that was admitted and sent to a store; closed exactly once.

    It holds a transfer slot, a place in the audit trail, and the conversation with the store. The rate that it was
    charged stays charged. None of this has to be won a second time: the store's log has the request already, so the
    trail must have its event.
    """

    __slots__ = ("_common", "_judged_ns", "_key", "_passage", "_principal", "_request", "underway")

    def __init__(
        self, common: Common, underway: Underway, passage: Passage, request: S3Request, key: str, judged_ns: int
    ) -> None:
        """`passage` and `request` are those of the precedent; `judged_ns` is when this request was judged like it."""
        self._common = common
        self._passage: Passage | None = passage
        self._request = request
        self._key = key
        self._judged_ns = judged_ns
        assert passage.subject is not None  # noqa: S101 - a precedent was allowed to a caller
        self._principal = passage.subject.caller.name
        self.underway = underway
        """The conversation with the store; its event id is the one that the store was sent."""

    def continue_as(self, passage: Passage) -> None:
        """Let a passage record the request. From now on exactly one event of it must follow, which has its place.

        Until it is judged anew, it was judged as the precedent was.
        """
        judged, self._passage = self._passage, None
        assert judged is not None  # noqa: S101 - a request is served on once
        passage.subject = judged.subject
        passage.policy_rev, passage.policy_epoch = judged.policy_rev, judged.policy_epoch
        passage.started_ns = self.underway.started_ns
        passage.judged_ns = passage.decided_ns = self._judged_ns
        # Whatever becomes of it now, the store was sent it.
        passage.outcome = ForwardOutcome(status=0, requests=1, stamped=self.underway.stamped)
        passage.reserved = True

    def close(self) -> None:
        """Give back what is left. A request that was not served on has its event now."""
        self.underway.abandon()
        try:
            if self._passage is not None:
                passage = self._as_judged(self._passage)
                self.continue_as(passage)
                self._common.recorder.refused(passage, Reason.CLIENT_GONE, "cancelled")
        finally:
            self._common.transfers.end(self._principal)

    def _as_judged(self, precedent: Passage) -> Passage:
        """Return the passage of the request as the fast path judged it."""
        passage = copy(precedent)
        passage.event_id = self.underway.event_id
        passage.request_id = precedent.request_id or passage.event_id
        passage.request = replace(self._request, key=self._key)
        return passage
