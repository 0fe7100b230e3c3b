"""Talk between the process that keeps order and one that serves: calls and answers over a socket pair, both ways.

Both ends are signproxy of the same version, and no other process can reach the pair, which has no name.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from signproxy.errors import Invalid, Reason, Refused
from signproxy.server.process.control import Answer, Call, Failed, Faulty, NotLet
from signproxy.server.process.fleet import WorkerGone
from signproxy.telemetry import log

MAX_FRAME = 64 * 1024 * 1024
"""Far beyond any report; a torn frame must not make a process ask for all memory."""

_LENGTH = struct.Struct("!I")

_log = log.get_logger("signproxy.workers")

Act = Callable[[Call], Awaitable[Answer]]
"""Does what the other end asks for. May raise Invalid and Refused, as the rooms do."""


class _Question(msgspec.Struct, frozen=True, tag=True):
    number: int
    call: Call


class _Reply(msgspec.Struct, frozen=True, tag=True):
    number: int
    answer: Answer


_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[_Question | _Reply] = msgspec.msgpack.Decoder(_Question | _Reply)
_reasons = {reason.code: reason for reason in Reason}

T = TypeVar("T", bound=Answer)


class WorkerFailed(Exception):
    """The other end met a fault of its own; its log has the trace."""


class Conversation:
    """One end of the pair. Calls are answered each in a task of its own, and begun in the order in which they came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, act: Act) -> None:
        self._reader = reader
        self._writer = writer
        self._act = act
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._number = 0
        self._answering: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()
        """The other end has hung up, as a process does that ends."""
        self._task = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def begin(cls, end: socket.socket, act: Act) -> Conversation:
        """Talk over one end of the pair."""
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end, limit=1 << 20), act)

    async def ask(self, call: Call, expected: type[T], patience: float) -> T:
        """Return the answer to a call. Raise WorkerGone where none comes in time, or what the other end raised."""
        if self.ended.is_set():
            raise WorkerGone
        self._number += 1
        number = self._number
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(_frame(_encode(_Question(number, call))))
            async with asyncio.timeout(patience):
                answer = await answered
        except (TimeoutError, ConnectionError):
            raise WorkerGone from None
        finally:
            del self._waiting[number]
        match answer:
            case Faulty():
                raise Invalid(answer.findings)
            case NotLet():
                raise Refused(_reasons[answer.reason], answer.detail)
            case Failed():
                raise WorkerFailed(answer.problem)
            case _ if isinstance(answer, expected):
                return answer
            case _:
                raise WorkerFailed(f"{type(answer).__name__} is no answer to {type(call).__name__}")

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
                if isinstance(message, _Question):
                    task = loop.create_task(self._answer(message))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)
                    continue
                waiting = self._waiting.get(message.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message.answer)
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

    async def _answer(self, question: _Question) -> None:
        self._writer.write(_frame(_encode(_Reply(question.number, await _outcome(self._act, question.call)))))


async def _outcome(act: Act, call: Call) -> Answer:
    try:
        return await act(call)
    except Invalid as invalid:
        return Faulty(invalid.findings)
    except Refused as refused:
        return NotLet(refused.reason.code, refused.detail)
    except Exception as error:  # noqa: BLE001 - the outermost wrapper of a call: a fault must be answered too
        _log.exception("a call failed", call=type(call).__name__)
        return Failed(f"{type(error).__name__} in {type(call).__name__}")


def _frame(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Return a message, or None where the other end has hung up."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > MAX_FRAME:
            raise ConnectionError(f"a frame of {length} bytes")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None
