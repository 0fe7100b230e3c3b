"""Tell operators what an upstream says of its tables that is not believed."""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum

import msgspec

from signproxy.errors import Reason
from signproxy.model import TableId
from signproxy.telemetry.log import get_logger

_log = get_logger("signproxy.learned")

TOLD_FOR = 600.0
"""Seconds before the same alarm is logged again; a client repeats its request until an operator looks."""

TOLD_AT_MOST = 1_000
"""Alarms that are remembered as told; with more at a time the log is full of them anyway."""


class SightingRefusal(msgspec.Struct, frozen=True, gc=False):
    """Why a sighting, or a part of it, is not believed; for operators alone."""

    reason: Reason
    detail: str
    table: TableId
    other: TableId | None = None
    """The learned table that stands in the way: the upstream may have changed it since."""


class AlarmKind(Enum):
    """What was refused to a learned table, as the metric's label has it."""

    DISPUTED = "disputed"
    OUTSIDE = "outside"
    UNVOUCHED = "unvouched"


class Alarms:
    """Counts every alarm, and logs each of them once in a while."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[TableId, str], float] = OrderedDict()
        self.counts: dict[AlarmKind, int] = dict.fromkeys(AlarmKind, 0)
        """Since the start, for a metric."""

    def sound(self, refusal: SightingRefusal, now: float) -> None:
        """Count a refusal, and log it unless that was done a short while ago."""
        kind = _KINDS.get(refusal.reason)
        if kind is None:
            return
        self.counts[kind] += 1
        key = (refusal.table, refusal.detail)
        if now < self._told.get(key, 0.0):
            return
        self._told[key] = now + TOLD_FOR
        self._told.move_to_end(key)
        if len(self._told) > TOLD_AT_MOST:
            self._told.popitem(last=False)
        _log.warning(
            "location not believed",
            table=str(refusal.table),
            reason=refusal.reason.code,
            detail=refusal.detail,
            other=str(refusal.other or ""),
        )


_KINDS = {
    Reason.LOCATION_DISPUTED: AlarmKind.DISPUTED,
    Reason.LOCATION_OUTSIDE_ROOTS: AlarmKind.OUTSIDE,
    Reason.LOCATION_UNVOUCHED: AlarmKind.UNVOUCHED,
}
