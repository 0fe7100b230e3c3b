"""Bind the sockets that listeners serve on: TCP ports, and Unix sockets that are files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from signproxy.config.s3 import S3Settings
from signproxy.config.settings import AdminSettings, ListenSettings
from signproxy.errors import Finding, SettingsInvalid

BACKLOG = 1_024
"""Connections that may wait to be accepted: all executors of a large job come at the same moment."""

MAX_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""What a Unix socket's address has room for, https://man7.org/linux/man-pages/man7/unix.7.html ."""

_LOCK_SECONDS = 5.0
"""Far longer than another start holds the directory."""
_PROBE_SECONDS = 1.0
_PORT_ATTEMPTS = 8
"""Free ports that are tried until one is free on each address of a name (`localhost` has two)."""


class Sharing(Enum):
    """Who else may listen on a port."""

    ALONE = "alone"
    PROCESSES = "processes"
    """Processes of the same user, among which the kernel spreads connections."""


def bind_tcp(
    host: str, port: int, *, sharing: Sharing = Sharing.ALONE, section: str = "listen"
) -> tuple[socket.socket, ...]:
    """Return a bound socket for each address of the host, all on one port; raise SettingsInvalid.

    None of them listens yet. Kept like that by a supervisor, they reserve a port for its workers.
    """
    problem = ""
    for _ in range(_PORT_ATTEMPTS):
        try:
            return _bound(host, port, sharing)
        except UnicodeError:
            problem = "the name is malformed"
        except OSError as error:
            problem = error.strerror or type(error).__name__
            # With port 0, the port that was free on the first address may be taken on the second.
            if port == 0 and error.errno == errno.EADDRINUSE:
                continue
        break
    raise SettingsInvalid([Finding("", section, f"cannot listen on {_shown(host, port)}: {problem}")])


def bind(
    stack: contextlib.AsyncExitStack, where: ListenSettings | AdminSettings | S3Settings, section: str, sharing: Sharing
) -> tuple[socket.socket, ...]:
    """Return the sockets that a section of the settings names; a Unix socket's file goes when `stack` closes."""
    sockets: tuple[socket.socket, ...] = ()
    if isinstance(where, AdminSettings) or where.tcp:
        sockets += bind_tcp(where.host, where.port, sharing=sharing, section=section)
    if where.socket:
        unix = bind_unix(Path(where.socket), int(where.socket_mode, 8), section=section)
        stack.callback(unix.close)
        sockets += (unix.socket,)
    return sockets


def address_of(bound: socket.socket) -> str:
    """Return `host:port`, or `unix:/path`."""
    name = bound.getsockname()
    return _shown(*name[:2]) if isinstance(name, tuple) else f"unix:{name}"


class UnixSocket:
    """A Unix socket that listens; the process that made it removes its file."""

    def __init__(self, listening: socket.socket, path: Path, identity: tuple[int, int]) -> None:
        self.socket = listening
        self._path = path
        self._identity = identity

    def close(self) -> None:
        """Close it and remove its file, unless another server has put its own there."""
        self.socket.close()
        # A directory that is gone or cannot be locked keeps no server from ending: a file without a server is stale.
        with contextlib.suppress(OSError), _locked(self._path.parent):
            if _identity(self._path) == self._identity:
                self._path.unlink()


def bind_unix(path: Path, mode: int, *, section: str = "listen") -> UnixSocket:
    """Return a socket that listens with exactly these permissions from its first moment; raise SettingsInvalid.

    The file of a server that is no more is replaced. A client that connects from now on waits to be accepted.
    """
    for problem in unix_problems(path):
        raise _fault(section, problem)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Two servers that start at once would each find the other's file stale, before it listens.
        with _locked(path.parent):
            _remove_stale(path)
            with _umask(~mode & 0o777):
                bound.bind(str(path))
            identity = _identity(path)
            bound.listen(BACKLOG)
    except _Occupied as occupied:
        bound.close()
        raise _fault(section, f"{str(path)!r} {occupied}") from None
    except OSError as error:
        bound.close()
        raise _fault(section, f"cannot listen on {str(path)!r}: {error.strerror}") from None
    return UnixSocket(bound, path, identity)


def unix_problems(path: Path) -> Iterator[str]:
    """Yield what keeps a socket from being made there, as far as looking can tell."""
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        yield f"{str(path)!r} has {length} bytes, and a socket's path may have {MAX_PATH_BYTES}"
        return
    directory = path.parent
    if not directory.is_dir():
        yield f"{str(directory)!r} is no directory"
    elif not os.access(directory, os.W_OK | os.X_OK):
        yield f"{str(directory)!r} cannot be written to"
    else:
        try:
            found = path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(found.st_mode):
            yield f"{str(path)!r} is there already and no socket; it is not replaced"


class _Occupied(Exception):
    """The path cannot be taken; the text says why."""


def _remove_stale(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise _Occupied("is no socket; it is not replaced")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except FileNotFoundError:
            return
        except (BlockingIOError, TimeoutError):
            # So many wait for it that no more are let in: it lives.
            pass
        except OSError as error:
            raise _Occupied(f"cannot be asked whether a server answers on it: {error.strerror}") from None
    raise _Occupied("is in use: a server answers on it")


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold a directory against other servers of this kind; raise OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _umask(mask: int) -> Iterator[None]:
    """Let files be made with other permissions: a `chmod` afterwards would leave a moment, and follow links."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _bound(host: str, port: int, sharing: Sharing) -> tuple[socket.socket, ...]:
    sockets: list[socket.socket] = []
    unavailable: OSError | None = None
    # Text is encoded by IDNA, whose tables every idle sidecar would hold. An IPv4 address needs none.
    name = host.encode("ascii") if host.isascii() and host.replace(".", "").isdecimal() else host
    addresses = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with contextlib.ExitStack() as failure:
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            bound = failure.enter_context(socket.socket(family, kind, protocol))
            bound.setblocking(False)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if sharing is Sharing.PROCESSES:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                # `::` and `0.0.0.0` are two settings, on every system alike.
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                bound.bind((address[0], sockets[0].getsockname()[1] if sockets else port, *address[2:]))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
                # A name may have an address that this machine lacks, as `localhost` where IPv6 is off.
                unavailable = error
                bound.close()
            else:
                sockets.append(bound)
        if sockets:
            failure.pop_all()
    if not sockets and unavailable is not None:
        raise unavailable
    return tuple(sockets)


def _shown(host: object, port: object) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _fault(section: str, problem: str) -> SettingsInvalid:
    return SettingsInvalid([Finding("", f"{section}.socket", problem)])
