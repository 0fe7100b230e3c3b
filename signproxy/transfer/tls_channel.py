"""Carry bytes over one connection of TLS, without a buffer of its own for what is not there.

The event loops' own TLS keeps some hundred KiB for each connection, and copies each byte once more than this.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable

from signproxy.transfer.channel import Buffer, Channel

FED = 64 * 1024
"""Given to OpenSSL at a time to be encrypted: for each connection it keeps room for as much as it was once given."""

SEALED = 256 * 1024
"""Read at a time of what is encrypted. That costs more to hand on, so that small pieces cost more."""

_RECORD = 16 * 1024
"""The most that one record of TLS holds; the beginning of one may have been received before."""


_HEAD = 5
"""Bytes of a record's head: kind, version, and its length in the last two (RFC 8446, section 5.1)."""


class Records:
    """Finds where records end, in one direction of a connection from its first byte, cut as the network cuts it.

    OpenSSL finds the end of a record by itself, and raises an exception each time that there is less: that costs as
    much as a quarter of a record. What it is given at a time is kept in memory of its own, which is quick as long as it
    is small.
    """

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""
        """The beginning of a head of which the rest is still to come."""
        self._left = 0
        """Bytes that are missing of the record that has begun."""

    def ends(self, piece: memoryview) -> list[int]:
        """Return the places in what comes next at which a record is complete."""
        size, end, head = len(piece), self._left, self._head
        if head:
            missing = _HEAD - len(head)
            head += bytes(piece[:missing])
            if len(head) < _HEAD:
                self._head = head
                return []
            self._head = b""
            end = missing + (head[3] << 8 | head[4])
        found = []
        while end <= size:
            if end:
                found.append(end)
            if size - end < _HEAD:
                self._head, self._left = bytes(piece[end:]), 0
                return found
            end += _HEAD + (piece[end + 3] << 8 | piece[end + 4])
        self._left = end - size
        return found


class _SealedScratch(threading.local):
    """What all connections of a thread read into: what is encrypted, and what comes out of it."""

    def __init__(self) -> None:
        self.sealed = memoryview(bytearray(SEALED))
        self.opened = memoryview(bytearray(SEALED + _RECORD))


_shared = _SealedScratch()


class TlsChannel(Channel):
    """The client's side of a connection. What ends without TLS's own end is broken: an attacker can have cut it."""

    __slots__ = ("_incoming", "_outgoing", "_over", "_records", "_sealed", "_secured", "_tls")

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        super().__init__()
        self._sealed = _shared.sealed
        # What is decrypted is taken from where other connections read to.
        self._scratch = _shared.opened
        self._incoming = ssl.MemoryBIO()
        self._records = Records()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._secured: asyncio.Future[None] = self._loop.create_future()
        self._over = False
        """Whether the other side has said that it sends no more."""

    async def secured(self) -> None:
        """Return when it is known who is at the other side. Raise OSError where that is not who it should be."""
        await self._secured

    # -- what is sent ----------------------------------------------------------------------------------------------

    def write_view(self, view: memoryview) -> None:
        """Send what stands in memory that may change afterwards."""
        self.write(view)

    def _encrypt(self, data: Buffer) -> None:
        view = memoryview(data)
        try:
            for at in range(0, len(view), FED):
                self._tls.write(view[at : at + FED])
            self._flush()
        except ssl.SSLError as error:
            self.abort()
            raise ConnectionResetError(f"TLS: {error.reason}") from error

    # -- its end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection when everything is sent."""
        if self._transport is not None and not self.closed:
            self.send_now()
            with contextlib.suppress(ssl.SSLError, ValueError):
                # It has nothing to wait for: what the other side says to it is not read any more.
                self._tls.unwrap()
            self._flush()
        super().close()

    # -- what the event loop calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, by saying who is wanted."""
        super().connection_made(transport)
        self.is_tls = True
        self._bare = -1
        self._send = self._encrypt
        self._shake_hands()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Say where to read to."""
        return self._sealed

    def buffer_updated(self, nbytes: int) -> None:
        """Take what arrived."""
        if self._secured.done():
            self._open(self._sealed[:nbytes])
        else:
            received = self._sealed[:nbytes]
            self._records.ends(received)
            self._incoming.write(received)
            self._shake_hands()

    def eof_received(self) -> bool:
        """Take note that nothing more comes: the connection is lost, unless the other side had said so."""
        if not self._over:
            self.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        if not self._secured.done():
            self._refuse(self.lost or ConnectionResetError())

    # -- TLS -------------------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            # The other side is told as well.
            self._flush()
            self._refuse(error)
            return
        self._flush()
        self._secured.set_result(None)
        # What came together with the end of the handshake.
        self._hand_on(self._decrypt(0))

    def _refuse(self, error: Exception) -> None:
        self._secured.set_exception(error)
        # A caller that gave up waiting for it does not ask.
        self._secured.exception()

    def _open(self, sealed: memoryview) -> None:
        """Decrypt all that was received, record by record, and hand it on."""
        write, filled, start = self._incoming.write, 0, 0
        for end in self._records.ends(sealed):
            write(sealed[start:end])
            start = end
            filled = self._decrypt(filled)
        if start < len(sealed):
            # The beginning of a record, which gives nothing yet.
            write(sealed[start:])
        self._hand_on(filled)

    def _decrypt(self, filled: int) -> int:
        """Decrypt what OpenSSL has whole, behind what is filled; return how much is filled then."""
        opened, incoming = self._scratch, self._incoming
        # With memory to read to it returns a number, whatever its annotation says.
        read: Callable[[int, memoryview], int] = self._tls.read  # type: ignore[assignment]
        room = len(opened)
        try:
            while True:
                count = read(room - filled, opened[filled:])
                if not count:
                    self._over = True
                    return filled
                filled += count
                if not incoming.pending:
                    # There is room for the whole of a record, so that nothing of it is left either.
                    return filled
        except ssl.SSLWantReadError:
            # A record of TLS's own.
            return filled
        except ssl.SSLError:
            # It was changed on its way.
            self.abort()
            return filled

    def _hand_on(self, filled: int) -> None:
        # An answer to what TLS itself asks in between.
        self._flush()
        if filled:
            super().buffer_updated(filled)
        if self._over and not self._ended:
            super().eof_received()

    def _flush(self) -> None:
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())
