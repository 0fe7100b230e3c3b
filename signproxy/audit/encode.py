"""Turn accepted events into JSON lines, whatever a caller managed to put into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import sleep

import msgspec

from signproxy.audit.event import MAX_TEXT_BYTES, MAX_USER_AGENT_BYTES, AuditEvent, to_the_second
from signproxy.audit.neutralise import harmless_json, without_surrogates
from signproxy.errors import Reason

Accepted = tuple[int, float, AuditEvent]
"""Sequence number, Unix time and event."""

_FEW_EVENTS = 64
_PIECES = 8
"""Events are encoded so few at a time, a third of a millisecond's work, and in so many pieces where they are many.

In between the event loop has its turn: it would else wait for the five milliseconds after which the interpreter is
given away. As long as that lasts the writer waits for it in turn, so that fewer pieces are what lets it catch up.
"""

_SHORT_USER_AGENT = MAX_USER_AGENT_BYTES // 4
"""No character takes more than four bytes, so these many need no counting."""

_LONG_LINE = 4096
"""Bytes from which, at the latest with its double, a line's free text is cut; honest lines have about 900."""

# Text that is no Unicode, and values of types that the schema does not have.
_UNENCODABLE = (UnicodeEncodeError, TypeError, ValueError, OverflowError)

# What a caller writes freely. A principal is never cut: two that share a beginning would become one.
_FREE_TEXT = (
    "detail",
    "key",
    "bucket",
    "namespace",
    "table",
    "method",
    "request_id",
    "rule_id",
    "application",
    "query_id",
    "volume",
    "upstream_request_id",
    "upstream_result",
    "payload",
)


class LineEncoder:
    """Complete and encode events of one boot."""

    __slots__ = ("_boot_id", "_encoder")

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._encoder = msgspec.json.Encoder()

    def encode(self, batch: Sequence[Accepted]) -> bytes:
        """Return one line per event. An event that cannot be written as it is leaves a line all the same."""
        size = max(_FEW_EVENTS, -(-len(batch) // _PIECES))
        lines = []
        for at in range(0, len(batch), size):
            if at:
                sleep(0)
            lines.append(self._lines(batch[at : at + size]))
        return b"".join(lines)

    def _lines(self, batch: Iterable[Accepted]) -> bytes:
        events = self._completed(batch)
        try:
            for event in events:
                if len(event.user_agent) > _SHORT_USER_AGENT:
                    event.user_agent = cut(event.user_agent, MAX_USER_AGENT_BYTES)
            # All at once costs half of one by one.
            lines = self._encoder.encode_lines(events)
        except _UNENCODABLE:
            lines = b""
        if not lines or _has_long_line(lines):
            lines = b"".join([self._line(event) for event in events])
        return harmless_json(lines)

    def _completed(self, batch: Iterable[Accepted]) -> list[AuditEvent]:
        boot_id = self._boot_id
        events = []
        second, day_and_time = -1, ""
        for seq, at, event in batch:
            if int(at) != second:
                second = int(at)
                day_and_time = to_the_second(second)
            event.boot_id = boot_id
            event.seq = seq
            event.ts = f"{day_and_time}.{int((at - second) * 1_000_000):06d}Z"
            events.append(event)
        return events

    def _line(self, event: AuditEvent) -> bytes:
        encode = self._encoder.encode
        try:
            line = encode(event)
            if len(line) > _LONG_LINE:
                line = encode(_with_short_text(event))
        except UnicodeEncodeError:
            line = encode(_with_short_text(_with_sound_text(event)))
        except _UNENCODABLE as error:
            # A fault of ours: the request was served, so its trace must not be lost with it.
            line = encode(_remains(event, error))
        return line + b"\n"


def _has_long_line(lines: bytes) -> bool:
    """Return whether a line is longer than two windows, which must then hold a window without a line end."""
    windows = range(0, len(lines) - _LONG_LINE, _LONG_LINE)
    return any(lines.find(b"\n", start, start + _LONG_LINE) < 0 for start in windows)


def cut(text: str, limit: int) -> str:
    """Return the text, or as many whole characters of it as fit into `limit` bytes of UTF-8."""
    encoded = without_surrogates(text).encode()
    return text if len(encoded) <= limit else encoded[:limit].decode(errors="ignore")


def _with_short_text(event: AuditEvent) -> AuditEvent:
    return msgspec.structs.replace(event, **{name: cut(getattr(event, name), MAX_TEXT_BYTES) for name in _FREE_TEXT})


def _with_sound_text(event: AuditEvent) -> AuditEvent:
    sound: dict[str, object] = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, str):
            sound[name] = without_surrogates(value)
        elif isinstance(value, tuple):
            sound[name] = tuple(map(without_surrogates, value))
    return msgspec.structs.replace(event, **sound)


def _remains(event: AuditEvent, error: Exception) -> AuditEvent:
    """Return what can still be said of an event with a value of the wrong type in it."""
    return AuditEvent(
        event_id=str(event.event_id),
        boot_id=event.boot_id,
        seq=event.seq,
        ts=event.ts,
        kind=event.kind,
        request_id=without_surrogates(str(event.request_id)),
        principal=without_surrogates(str(event.principal)),
        decision=event.decision,
        reason=Reason.INTERNAL.code,
        policy_rev=str(event.policy_rev),
        http_status=event.http_status,
        detail=f"the event could not be written: {type(error).__name__}",
    )
