"""Name what the process that keeps order and those that serve ask of each other, and what they answer."""

from __future__ import annotations

import msgspec

from signproxy.errors import Finding
from signproxy.server.process.fleet import Candidate
from signproxy.server.process.generation import Scope
from signproxy.server.process.heard import Heard
from signproxy.server.status.report import WorkerReport


class Start(msgspec.Struct, frozen=True, tag=True):
    """Load everything."""

    number: int
    epoch: int
    file: str
    overrides: dict[str, str]
    secret: bytes
    """Known to the supervisor and its workers, and to no other process."""

    def __repr__(self) -> str:
        return f"Start(number={self.number}, epoch={self.epoch}, file={self.file!r}, …)"


class Listen(msgspec.Struct, frozen=True, tag=True):
    """Begin to serve."""

    port: int
    """The port that the supervisor holds for all workers; 0 where there is none."""
    socket_fd: int = -1
    """A Unix socket that already listens; -1 where there is none."""
    s3_port: int = 0
    s3_socket_fd: int = -1
    """The same of the listener that speaks S3."""


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """Read everything anew."""

    epoch: int
    scope: Scope


class CommitPrepared(msgspec.Struct, frozen=True, tag=True):
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


class Hear(msgspec.Struct, frozen=True, tag=True):
    """Take in what another worker saw; asked of workers."""

    heard: tuple[Heard, ...]


class Tell(msgspec.Struct, frozen=True, tag=True):
    """Let the other workers hear of this; asked by workers."""

    heard: Heard


Call = (
    Start
    | Listen
    | Prepare
    | CommitPrepared
    | Discard
    | RefreshCredentials
    | Reopen
    | Report
    | RolesOf
    | Drain
    | Stop
    | Hear
    | Tell
)


class Done(msgspec.Struct, frozen=True, tag=True):
    """It is done."""


class Listening(msgspec.Struct, frozen=True, tag=True):
    """The worker serves here."""

    addresses: tuple[str, ...]
    s3_addresses: tuple[str, ...] = ()


class ReadyToCommit(msgspec.Struct, frozen=True, tag=True):
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


Answer = Done | Listening | ReadyToCommit | Reported | Roles | Faulty | NotLet | Failed
