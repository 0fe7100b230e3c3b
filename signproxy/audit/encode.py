"""Turn accepted events into JSON lines, whatever a caller managed to put into them."""

from __future__ import annotations

import msgspec

from signproxy.audit.event import MAX_TEXT_BYTES, MAX_USER_AGENT_BYTES, AuditEvent, to_the_second
from signproxy.audit.neutralise import harmless_json, without_surrogates
from signproxy.errors import Reason

_SHORT_USER_AGENT = MAX_USER_AGENT_BYTES // 4
"""No character takes more than four bytes, so these many need no counting."""

_LONG_LINE = 4096
"""Bytes from which a line's free text is cut; honest lines have about 900."""

# Text that is no Unicode, and values of types that the schema does not have.
_UNENCODABLE = (UnicodeEncodeError, TypeError, ValueError, OverflowError)

# What a caller writes freely. A principal is never cut: two that share a beginning would become one.
_FREE_TEXT = tuple(
    "detail key bucket namespace table method request_id rule_id application query_id volume upstream_request_id "
    "upstream_result payload".split()
)


class LineEncoder:
    """Complete and encode events of one boot."""

    __slots__ = ("_boot_id", "_encode", "_second")

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._encode = msgspec.json.Encoder().encode
        self._second = (-1, "")

    def line(self, seq: int, at: float, event: AuditEvent) -> bytes:
        """Return the line of an event, without its end. One that cannot be written as it is leaves a line all the same.

        Made as the event is taken, and not by the writer: a thread that encodes keeps the interpreter from the event
        loop for as long as it has work, and every request of that time waits for it.
        """
        second, day_and_time = self._second
        if int(at) != second:
            self._second = second, day_and_time = int(at), to_the_second(int(at))
        event.boot_id = self._boot_id
        event.seq = seq
        # Half the time of an f-string.
        event.ts = "%s.%06dZ" % (day_and_time, (at - second) * 1_000_000)  # noqa: UP031 - see above
        try:
            if len(event.user_agent) > _SHORT_USER_AGENT:
                event.user_agent = cut(event.user_agent, MAX_USER_AGENT_BYTES)
            line = self._encode(event)
        except _UNENCODABLE:
            line = b""
        if line and len(line) <= _LONG_LINE and line.isascii() and b"\x7f" not in line:
            return line
        return harmless_json(self._with_care(event))

    def _with_care(self, event: AuditEvent) -> bytes:
        encode = self._encode
        try:
            line = encode(event)
            return line if len(line) <= _LONG_LINE else encode(_with_short_text(event))
        except UnicodeEncodeError:
            return encode(_with_short_text(_with_sound_text(event)))
        except _UNENCODABLE as error:
            # A fault of ours: the request was served, so its trace must not be lost with it.
            return encode(_remains(event, error))


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
