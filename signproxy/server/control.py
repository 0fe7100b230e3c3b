"""Talk between the process that keeps order and one that serves: calls and answers over a socket pair.

Both ends are signproxy of the same version, and nobody else can reach the pair, which has no name.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from signproxy.errors import Finding, Invalid, Reason, Refused
from signproxy.server.fleet import Candidate, Gone
from signproxy.server.generation import Scope
from signproxy.server.report import WorkerReport
from signproxy.telemetry import log

MAX_FRAME = 64 * 1024 * 1024
"""Far beyond any report; a torn frame must not make a process ask for all memory."""

_LENGTH = struct.Struct("!I")

_log = log.get_logger("signproxy.workers")


class Start(msgspec.Struct, frozen=True, tag=True):
    """Load everything."""

    number: int
    epoch: int
    file: str
    overrides: dict[str, str]


class Listen(msgspec.Struct, frozen=True, tag=True):
    """Begin to serve."""

    port: int
    """The port that the supervisor holds for all workers; 0 where there is none."""
    socket_fd: int = -1
    """A Unix socket that already listens; -1 where there is none."""


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """Read everything anew."""

    epoch: int
    scope: Scope


class Commit(msgspec.Struct, frozen=True, tag=True):
    """Use what was prepared."""


class Discard(msgspec.Struct, frozen=True, tag=True):
    """Forget what was prepared."""


class RefreshCredentials(msgspec.Struct, frozen=True, tag=True):
    """Ask every credential provider now."""


class Reopen(msgspec.Struct, frozen=True, tag=True):
    """Begin a new audit file."""


class Report(msgspec.Struct, frozen=True, tag=True):
    """Tell how you are doing."""


class RolesOf(msgspec.Struct, frozen=True, tag=True):
    """Say what roles a bearer token brings."""

    token: str

    def __repr__(self) -> str:
        return "RolesOf(token=***)"


class Drain(msgspec.Struct, frozen=True, tag=True):
    """Ask clients to go elsewhere, and go on answering."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Finish what is in flight and end."""


Call = Start | Listen | Prepare | Commit | Discard | RefreshCredentials | Reopen | Report | RolesOf | Drain | Stop


class Done(msgspec.Struct, frozen=True, tag=True):
    """It is done."""


class Listening(msgspec.Struct, frozen=True, tag=True):
    """The worker serves here."""

    addresses: tuple[str, ...]


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """Everything was read."""

    candidate: Candidate


class Reported(msgspec.Struct, frozen=True, tag=True):
    """How the worker is doing."""

    report: WorkerReport


class Roles(msgspec.Struct, frozen=True, tag=True):
    """What the token brings."""

    roles: tuple[str, ...]


class Faulty(msgspec.Struct, frozen=True, tag=True):
    """What an operator wrote cannot be used."""

    findings: tuple[Finding, ...]


class NotLet(msgspec.Struct, frozen=True, tag=True):
    """A token was refused."""

    reason: str
    detail: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The worker could not do it, for a reason of its own."""

    problem: str


Answer = Done | Listening | Prepared | Reported | Roles | Faulty | NotLet | Failed


class _Question(msgspec.Struct, frozen=True):
    number: int
    call: Call


class _Reply(msgspec.Struct, frozen=True):
    number: int
    answer: Answer


_encode = msgspec.msgpack.Encoder().encode
_question = msgspec.msgpack.Decoder(_Question)
_reply = msgspec.msgpack.Decoder(_Reply)
_reasons = {reason.code: reason for reason in Reason}

T = TypeVar("T", bound=Answer)


class Asking:
    """The end that calls."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._number = 0
        self.ended = asyncio.Event()
        """The other end has hung up, as a process does that ends."""
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def ask(self, call: Call, expected: type[T], patience: float) -> T:
        """Return the answer to a call. Raise Gone where none comes in time, or what the worker raised."""
        if self.ended.is_set():
            raise Gone
        self._number += 1
        number = self._number
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(_frame(_encode(_Question(number, call))))
            async with asyncio.timeout(patience):
                answer = await answered
        except (TimeoutError, ConnectionError):
            raise Gone from None
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
        """Hang up; the worker takes that for the end."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()

    async def _read(self) -> None:
        try:
            while (content := await _read_frame(self._reader)) is not None:
                reply = _reply.decode(content)
                waiting = self._waiting.get(reply.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply.answer)
        except (ConnectionError, msgspec.MsgspecError) as error:
            _log.error("a worker cannot be understood", error=str(error))
        finally:
            self.ended.set()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(Gone())


class WorkerFailed(Exception):
    """A worker met a fault of its own; its log has the trace."""


async def connect(end: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams of one end of the pair."""
    end.setblocking(False)
    return await asyncio.open_unix_connection(sock=end, limit=1 << 20)


async def answer_calls(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, act: Callable[[Call], Awaitable[Answer]]
) -> None:
    """Answer every call, each in a task of its own, until the other end hangs up."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def answer_one(question: _Question) -> None:
        writer.write(_frame(_encode(_Reply(question.number, await _outcome(act, question.call)))))

    try:
        while (content := await _read_frame(reader)) is not None:
            task = loop.create_task(answer_one(_question.decode(content)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    finally:
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()


async def _outcome(act: Callable[[Call], Awaitable[Answer]], call: Call) -> Answer:
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
