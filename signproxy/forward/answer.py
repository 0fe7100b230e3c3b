"""Write a store's answer to the client: everything that the client needs as it came, and the id of the audit event."""

from __future__ import annotations

from signproxy.forward.exchange import ReceivedHead
from signproxy.transfer.body import Outgoing
from signproxy.transfer.channel import Channel
from signproxy.transfer.head import HOP_BY_HOP, BodyFraming, RequestHead, ResponseHead

EVENT_ID = "x-signproxy-event-id"
REQUEST_ID = "x-amz-request-id"

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# Looking a member up in its class calls Python code; the hot path does without.
_NONE, _SIZED = BodyFraming.NONE, BodyFraming.SIZED
_RENAMED = HOP_BY_HOP | {EVENT_ID}
_BUT_CONNECTION = _RENAMED - {"connection"}
_KEEP_ALIVE = b"\r\nConnection: keep-alive\r\n"


class Answer:
    """The one answer to a request: whether it has begun, how it is framed, and whether the connection outlives it."""

    __slots__ = ("_added", "_asked", "_client", "_expected", "_request_id", "begun", "closes", "status")

    def __init__(self, client: Channel, head: RequestHead, event_id: str, request_id: str) -> None:
        self._client = client
        self._asked = head
        self._added = f"{EVENT_ID}: {event_id}\r\n"
        self._request_id = request_id
        self._expected = head.expects_continue
        self.begun = False
        """Whether anything was written that is not taken back: from then on a fault ends the connection."""
        self.closes = head.closes
        """Whether the connection ends with this answer; set it before the answer begins."""
        self.status = 0

    @property
    def location(self) -> str:
        """The address of the object, as the client asked for it."""
        scheme = "https" if self._client.is_tls else "http"
        return f"{scheme}://{self._asked.fields['host']}{self._asked.target.partition('?')[0]}"

    def invite(self) -> None:
        """Tell a client that waits for it to send its body; once."""
        if self._expected:
            self._expected = False
            self._client.write(_CONTINUE)

    def at_once(self, heard: ReceivedHead, most: int) -> int | None:
        """Write an answer of which everything is there, as it is; return how long its body is.

        None, and nothing is written, where something is still to come, or the body has more than `most` bytes.
        """
        head = heard.head
        # Without a body its headers may speak of one all the same: of the one that GET would have.
        body = b""
        if head.body is not _NONE:
            taken = heard.channel.take_whole(head.length) if head.body is _SIZED and head.length <= most else None
            if taken is None:
                return None
            body = taken
        self._client.write_soon(self._head(head, heard.raw, "") + body)
        return len(body)

    def whole(self, heard: ReceivedHead, body: bytes) -> None:
        """Write an answer with a body that is there, in one piece: each write is a packet to a client that waits."""
        head = heard.head
        framing = "" if head.body is _SIZED and head.length == len(body) else f"Content-Length: {len(body)}\r\n"
        self._client.write_soon(self._head(head, heard.raw, framing) + body)

    def start(self, heard: ReceivedHead) -> Outgoing:
        """Write the head, and return what takes the body: as long as the store says, or in chunks."""
        head = heard.head
        if head.body is _SIZED:
            self._client.write(self._head(head, heard.raw, ""))
            return Outgoing(self._client, _SIZED, head.length)
        self._client.write(self._head(head, heard.raw, "Transfer-Encoding: chunked\r\n"))
        return Outgoing(self._client, BodyFraming.CHUNKED)

    def _head(self, head: ResponseHead, raw: bytes, framing: str) -> bytes:
        self.begun = True
        self.status = head.status
        added = self._added if REQUEST_ID in head.fields else f"{self._added}{REQUEST_ID}: {self._request_id}\r\n"
        if self.closes:
            added += "Connection: close\r\n"
        return head_of(head, raw, added, framing)


def head_of(head: ResponseHead, raw: bytes, added: str, framing: str = "") -> bytes:
    """Return a store's head as the client gets it, with lines added; its framing is the store's unless one is given.

    `raw` is the store's own, which is passed on byte for byte wherever nothing of it speaks of the connection.
    """
    if not framing:
        kept, fields, dropped = raw, head.fields, _RENAMED
        if fields.get("connection") == "keep-alive":
            # Stores in other letters than these are served all the same, a little slower.
            kept = raw.replace(_KEEP_ALIVE, b"\r\n", 1)
            if len(kept) < len(raw):
                dropped = _BUT_CONNECTION
        if dropped.isdisjoint(fields) and kept.startswith(b"HTTP/1.1 "):
            return b"%b%b\r\n" % (kept[:-2], added.encode("ascii"))
    dropped = _RENAMED | _named_by_connection(head)
    if framing:
        dropped |= {"content-length"}
    lines = [
        f"{spelled}: {value}\r\n"
        for spelled, (name, value) in zip(head.names, head.headers, strict=True)
        if name not in dropped
    ]
    return f"HTTP/1.1 {head.status} {head.reason}\r\n{''.join(lines)}{added}{framing}\r\n".encode("latin-1")


def _named_by_connection(head: ResponseHead) -> frozenset[str]:
    """Return the headers that the store says are for this connection alone."""
    option = head.fields.get("connection", "")
    return frozenset([token.strip().lower() for token in option.split(",")]) - _NEEDED


# A store that called them its connection's would take them from the client.
_NEEDED = frozenset(("content-length", "content-type", "content-range", "content-encoding", "etag", "last-modified"))
