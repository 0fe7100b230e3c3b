"""Remember the last refusals, so that an operator can ask why without searching the audit trail."""

from __future__ import annotations

from collections import deque

import msgspec

from signproxy.audit.event import AuditEvent
from signproxy.model import NAMESPACE_SEPARATOR

KNOWN_CALLERS = 40
UNKNOWN_CALLERS = 10
"""Places of their own: callers without a token must not wash away what a job was refused for."""

MAX_NAME_CHARACTERS = 256
MAX_DETAIL_CHARACTERS = 1024
"""A caller writes part of it; fifty of these are 64 KiB, and fifty sign requests would be 3 MiB."""


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """A request that was refused. `detail` is the operator's alone, and is a caller's text in part."""

    at: float
    request_id: str
    event_id: str
    operation: str
    reason: str
    status: int
    """What the caller was told, which S3's clients are told otherwise than Iceberg's."""
    principal: str
    catalog: str
    table: str
    """With its namespace, levels joined by dots; or the volume."""
    detail: str


class LastRefusals:
    """The newest refusals of known callers, and of unknown ones."""

    __slots__ = ("_known", "_unknown")

    def __init__(self) -> None:
        self._known: deque[Refusal] = deque(maxlen=KNOWN_CALLERS)
        self._unknown: deque[Refusal] = deque(maxlen=UNKNOWN_CALLERS)

    def add(self, event: AuditEvent, at: float) -> None:
        """Remember a refusal instead of the oldest one of its kind of caller."""
        refusal = Refusal(
            at,
            event.request_id,
            event.event_id,
            event.s3_op or event.kind.value,
            event.reason,
            event.http_status,
            event.principal[:MAX_NAME_CHARACTERS],
            event.catalog[:MAX_NAME_CHARACTERS],
            table_of(event)[:MAX_NAME_CHARACTERS],
            event.detail[:MAX_DETAIL_CHARACTERS],
        )
        (self._known if event.principal else self._unknown).append(refusal)

    def newest_first(self) -> tuple[Refusal, ...]:
        """Return all that are remembered."""
        return tuple(sorted((*self._known, *self._unknown), key=lambda refusal: refusal.at, reverse=True))


def table_of(event: AuditEvent) -> str:
    """Return the table with its namespace, as people write it, or the volume; empty where neither is known."""
    if event.volume:
        return f"volume {event.volume}"
    if not event.table:
        return ""
    levels = event.namespace.split(NAMESPACE_SEPARATOR) if event.namespace else []
    return ".".join((*levels, event.table))
