"""Talk between the process that keeps order and one that serves: calls and answers over a socket pair, both ways.

Both ends are signproxy of the same version, and no other process can reach the pair, which has no name. A call is a
method of the other end; what it is given and returns is what its annotations say.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Protocol, TypeVar, TypeVarTuple, get_type_hints

import msgspec

from signproxy.errors import Finding, Invalid, Reason, Refused
from signproxy.server.process.fleet import Member, WorkerFailed, WorkerGone
from signproxy.server.process.sightings import Heard
from signproxy.server.status.report import WorkerReport
from signproxy.telemetry import log


class Start(msgspec.Struct, frozen=True):
    """What a worker begins with."""

    number: int
    epoch: int
    file: str
    overrides: dict[str, str]
    secret: bytes
    """Known to the supervisor and its workers, and to no other process."""

    def __repr__(self) -> str:
        return f"Start(number={self.number}, epoch={self.epoch}, file={self.file!r}, …)"


class Listen(msgspec.Struct, frozen=True):
    """Where a worker serves."""

    port: int
    """The port that the supervisor holds for all workers; 0 where there is none."""
    socket_fd: int = -1
    """A Unix socket that already listens; -1 where there is none."""
    s3_port: int = 0
    s3_socket_fd: int = -1
    """The same of the listener that speaks S3."""


class Listening(msgspec.Struct, frozen=True):
    """The addresses at which a worker serves."""

    addresses: tuple[str, ...]
    s3_addresses: tuple[str, ...] = ()


class Duty(Member, Protocol):
    """What the supervisor asks of a worker, beside what is asked of every process that serves."""

    async def start(self, start: Start) -> None:
        """Load everything."""

    async def listen(self, where: Listen) -> Listening:
        """Begin to serve."""

    async def hear(self, heard: tuple[Heard, ...]) -> None:
        """Take in what another worker saw."""

    async def drain(self) -> None:
        """Ask clients to go elsewhere, and go on answering."""

    async def stop(self) -> WorkerReport:
        """Finish what is in flight and end; tell a last time how it went."""


class Telling(Protocol):
    """What a worker asks of the supervisor."""

    async def tell(self, heard: Heard) -> None:
        """Let the other workers hear of this."""


MAX_FRAME = 64 * 1024 * 1024
"""Far beyond any report; a torn frame must not make a process ask for all memory."""

_LENGTH = struct.Struct("!I")

_log = log.get_logger("signproxy.workers")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Find = Callable[[str], Callable[..., Awaitable[object]]]
"""Returns what does a call of this name; that may raise Invalid and Refused, as the rooms do."""


class _Call(msgspec.Struct, frozen=True, tag=True):
    number: int
    method: str
    arguments: msgspec.Raw
    """May hold a token or a secret."""

    def __repr__(self) -> str:
        return f"{self.method}(***)"


class _Answer(msgspec.Struct, frozen=True, tag=True):
    number: int
    content: msgspec.Raw


class _Faulty(msgspec.Struct, frozen=True, tag=True):
    number: int
    findings: tuple[Finding, ...]


class _NotLet(msgspec.Struct, frozen=True, tag=True):
    number: int
    reason: str
    detail: str


class _Failed(msgspec.Struct, frozen=True, tag=True):
    number: int
    problem: str


_Reply = _Answer | _Faulty | _NotLet | _Failed

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[_Call | _Reply] = msgspec.msgpack.Decoder(_Call | _Reply)
_reasons = {reason.code: reason for reason in Reason}


class Conversation:
    """One end of the pair. Calls are answered each in a task of its own, and begun in the order in which they came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, duty: type, find: Find) -> None:
        self._reader = reader
        self._writer = writer
        self._duty = duty
        self._find = find
        self._waiting: dict[int, asyncio.Future[_Reply]] = {}
        self._number = 0
        self._answering: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()
        """The other end has hung up, as a process does that ends."""
        self._task = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def begin(cls, end: socket.socket, duty: type, find: Find) -> Conversation:
        """Talk over one end of the pair; `duty` is the protocol of what the other end may ask for."""
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end, limit=1 << 20), duty, find)

    async def ask(self, patience: float, method: Callable[[Any, *Ts], Awaitable[T]], *arguments: *Ts) -> T:
        """Return what a method of the other end returns.

        Raise WorkerGone where no answer comes in time, or what the other end raised.
        """
        if self.ended.is_set():
            raise WorkerGone
        self._number += 1
        number, name = self._number, method.__name__
        answered: asyncio.Future[_Reply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            self._write(_Call(number, name, _raw(arguments)))
            async with asyncio.timeout(patience):
                reply = await answered
        except (TimeoutError, ConnectionError):
            raise WorkerGone from None
        finally:
            del self._waiting[number]
        match reply:
            case _Answer():
                try:
                    answer: T = _types(method)[1].decode(reply.content)
                except msgspec.MsgspecError as error:
                    raise WorkerFailed(f"no answer to {name}: {error}") from None
                return answer
            case _Faulty():
                raise Invalid(reply.findings)
            case _NotLet():
                raise Refused(_reasons[reply.reason], reply.detail)
            case _Failed():
                raise WorkerFailed(reply.problem)

    async def aclose(self) -> None:
        """Answer what was asked, and hang up; the other end takes that for the end."""
        self._task.cancel()
        await asyncio.gather(self._task, *self._answering, return_exceptions=True)
        self._writer.close()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while (content := await _read_frame(self._reader)) is not None:
                message = _decoder.decode(content)
                if isinstance(message, _Call):
                    task = loop.create_task(self._answer(message))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)
                    continue
                waiting = self._waiting.get(message.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        except ConnectionResetError:
            # It ended with something left unread.
            _log.debug("another process is gone")
        except (ConnectionError, msgspec.MsgspecError) as error:
            _log.error("another process cannot be understood", error=str(error))
        finally:
            self.ended.set()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(WorkerGone())

    async def _answer(self, call: _Call) -> None:
        self._write(await self._outcome(call))

    async def _outcome(self, call: _Call) -> _Reply:
        try:
            arguments, _ = _types(getattr(self._duty, call.method))
            return _Answer(call.number, _raw(await self._find(call.method)(*arguments.decode(call.arguments))))
        except Invalid as invalid:
            return _Faulty(call.number, invalid.findings)
        except Refused as refused:
            return _NotLet(call.number, refused.reason.code, refused.detail)
        except Exception as error:  # noqa: BLE001 - the outermost wrapper of a call: a fault must be answered too
            _log.exception("a call failed", call=call.method)
            return _Failed(call.number, f"{type(error).__name__} in {call.method}")

    def _write(self, message: _Call | _Reply) -> None:
        content = _encode(message)
        self._writer.write(_LENGTH.pack(len(content)) + content)


@cache
def _types(method: Callable[..., object]) -> tuple[msgspec.msgpack.Decoder[Any], msgspec.msgpack.Decoder[Any]]:
    """Return what reads the arguments of a method, and what reads its answer."""
    hints = get_type_hints(method)
    answer = hints.pop("return")
    return msgspec.msgpack.Decoder(tuple[tuple(hints.values())]), msgspec.msgpack.Decoder(answer)  # type: ignore[misc]  # made of annotations


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Return a message, or None where the other end has hung up."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > MAX_FRAME:
            raise ConnectionError(f"a frame of {length} bytes")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None
