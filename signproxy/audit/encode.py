"""Turn accepted events into JSON lines, whatever a caller managed to put into them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from signproxy.audit.event import MAX_TEXT_BYTES, MAX_USER_AGENT_BYTES, AuditEvent, rfc3339
from signproxy.audit.neutralise import harmless_json, without_surrogates
from signproxy.errors import Reason

Accepted = tuple[int, float, AuditEvent]
"""Sequence number, Unix time and event."""

_LONG_LINE = 4096
"""Bytes from which a line is looked at for text that must be cut; honest ones have about 900."""

# What a caller writes freely. A principal is never cut: two that share a beginning would become one.
_FREE_TEXT = ("detail", "key", "bucket", "namespace", "table", "method", "request_id", "rule_id")


class LineEncoder:
    """Complete and encode events of one boot."""

    __slots__ = ("_boot_id", "_encode_into")

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._encode_into = msgspec.json.Encoder().encode_into

    def encode(self, batch: Iterable[Accepted]) -> bytes:
        """Return one line per event. An event that cannot be written as it is leaves a line all the same."""
        lines = bytearray()
        for seq, at, event in batch:
            event.boot_id = self._boot_id
            event.seq = seq
            event.ts = rfc3339(at)
            start = len(lines)
            try:
                event.user_agent = cut(event.user_agent, MAX_USER_AGENT_BYTES)
                self._encode_into(event, lines, start)
                if len(lines) - start > _LONG_LINE:
                    self._encode_into(_with_short_text(event), lines, start)
            except UnicodeEncodeError:
                self._encode_into(_with_short_text(_with_sound_text(event)), lines, start)
            except (TypeError, ValueError, AttributeError, OverflowError) as error:
                # A fault of ours: the request was served, so its trace must not be lost with it.
                self._encode_into(_remains(event, error), lines, start)
            lines += b"\n"
        return harmless_json(bytes(lines))


def cut(text: str, limit: int) -> str:
    """Return the text, or as many whole characters of it as fit into `limit` bytes of UTF-8."""
    # No character takes more than four bytes, so short text needs no encoding to be known as short.
    if len(text) * 4 <= limit or (len(text) <= limit and text.isascii()):
        return text
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
