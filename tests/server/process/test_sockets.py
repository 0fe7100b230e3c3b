"""Sockets that listeners serve on: who may connect, from which moment on, and what becomes of what was there before."""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from signproxy.errors import SettingsInvalid
from signproxy.server.process import sockets as module
from signproxy.server.process.sockets import MAX_PATH_BYTES, Sharing, UnixSocket, address_of, bind_tcp, bind_unix


def problem_of(path: Path, mode: int = 0o600) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        bind_unix(path, mode)
    (finding,) = caught.value.findings
    return str(finding)


@contextmanager
def bound(path: Path, mode: int = 0o600) -> Iterator[UnixSocket]:
    made = bind_unix(path, mode)
    try:
        yield made
    finally:
        made.close()


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@pytest.mark.parametrize("mode", (0o600, 0o660, 0o666, 0o400, 0o777))
@pytest.mark.parametrize("umask", (0o000, 0o022, 0o077))
def test_a_socket_has_exactly_the_permissions_that_are_asked_for(short_directory: Path, mode: int, umask: int) -> None:
    """The umask of the user that starts the server would decide who can open the socket."""
    path = short_directory / "s.sock"
    before = os.umask(umask)
    try:
        with bound(path, mode):
            assert stat.S_IMODE(path.stat().st_mode) == mode
        assert os.umask(umask) == umask
    finally:
        os.umask(before)


def test_there_is_no_moment_in_which_others_may_connect(short_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for the moment between `bind` and `chmod` would be let in for good."""
    modes = []
    bind = socket.socket.bind

    class Watched(socket.socket):
        def bind(self, address: object) -> None:
            bind(self, str(address))
            modes.append(stat.S_IMODE(os.stat(str(address)).st_mode))  # noqa: PTH116

    monkeypatch.setattr(socket, "socket", Watched)
    bind_unix(short_directory / "s.sock", 0o600).close()
    assert modes == [0o600]


def test_a_client_that_connects_waits_to_be_accepted(short_directory: Path) -> None:
    """Clients would be refused while workers load their policy."""
    with bound(short_directory / "s.sock"):
        assert connects(short_directory / "s.sock")


def test_the_file_goes_with_the_server(short_directory: Path) -> None:
    """The next start would find a file, and clients a socket without an answer."""
    with bound(short_directory / "s.sock") as made:
        assert address_of(made.socket) == f"unix:{short_directory}/s.sock"
    assert [*short_directory.iterdir()] == []
    made.close()


def test_the_file_of_a_dead_server_is_replaced(short_directory: Path) -> None:
    """After a crash, nothing could start until an operator removes a file by hand."""
    path = short_directory / "s.sock"
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
        dead.listen()
    assert path.exists()
    with bound(path):
        assert connects(path)


@pytest.mark.parametrize("backlog", (0, 16))
def test_a_living_server_is_not_replaced(short_directory: Path, backlog: int) -> None:
    """A second start would take the clients of the first one, which would never know."""
    path = short_directory / "s.sock"
    with closing(socket.socket(socket.AF_UNIX)) as living:
        living.bind(str(path))
        living.listen(backlog)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(0 if backlog else 2)]
        for client in waiting:
            # So many that no more are let in: it is alive all the same.
            client.setblocking(False)
            client.connect_ex(str(path))
        assert problem_of(path) == f"listen.socket: {str(path)!r} is in use: a server answers on it"
        for client in waiting:
            client.close()
    assert path.exists()


@pytest.mark.parametrize("kind", ("file", "directory", "link"))
def test_what_is_no_socket_is_not_removed(short_directory: Path, kind: str) -> None:
    """A slip in the settings would remove a user's file."""
    path = short_directory / "s.sock"
    if kind == "file":
        path.write_text("mine")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(short_directory / "elsewhere")
    assert problem_of(path) == f"listen.socket: {str(path)!r} is there already and no socket; it is not replaced"
    assert path.is_symlink() or path.exists()


def test_what_became_of_the_path_meanwhile_is_not_removed(short_directory: Path) -> None:
    """An old server that ends would take the socket of its successor with it."""
    path = short_directory / "s.sock"
    old = bind_unix(path, 0o600)
    path.unlink()
    with bound(path):
        old.close()
        assert connects(path)
    assert not path.exists()


def test_a_directory_that_is_gone_keeps_no_process_from_ending() -> None:
    """The last step of an orderly end would fail."""
    with TemporaryDirectory(prefix="s") as name:
        made = bind_unix(Path(name) / "s.sock", 0o600)
    made.close()


@pytest.mark.parametrize(("extra", "fits"), ((0, True), (1, False)))
def test_a_path_that_is_too_long_is_told(short_directory: Path, extra: int, fits: bool) -> None:
    """`AF_UNIX path too long` says neither which nor how long."""
    # Counted in bytes, not in characters.
    name = "\u00fc" + "s" * (MAX_PATH_BYTES - len(os.fsencode(short_directory)) - 3 + extra)
    path = short_directory / name
    assert len(os.fsencode(path)) == MAX_PATH_BYTES + extra
    if fits:
        bind_unix(path, 0o600).close()
    else:
        told = f"has {MAX_PATH_BYTES + 1} bytes, and a socket's path may have {MAX_PATH_BYTES}"
        assert told in problem_of(path)


def test_a_missing_directory_is_told(short_directory: Path) -> None:
    """The fault would be told of the socket, which is right."""
    path = short_directory / "nowhere" / "s.sock"
    assert problem_of(path) == f"listen.socket: {str(path.parent)!r} is no directory"


def test_servers_that_start_at_once_do_not_replace_each_other(short_directory: Path) -> None:
    """Each would find the other's file before it listens, take it for stale, and remove it."""
    path = short_directory / "s.sock"
    path_taken = threading.Barrier(8)
    made: list[UnixSocket] = []
    refused: list[str] = []

    def start() -> None:
        path_taken.wait()
        try:
            made.append(bind_unix(path, 0o600))
        except SettingsInvalid as invalid:
            refused.append(invalid.findings[0].problem)

    # In threads, the umask is shared; all of them want the same.
    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert refused == [f"{str(path)!r} is in use: a server answers on it"] * 7
    assert connects(path)
    made[0].close()


def test_a_held_directory_is_told_in_time(short_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start would hang for ever on another that hangs."""
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.05)
    with module._locked(short_directory):
        assert "cannot listen on" in problem_of(short_directory / "s.sock")


def test_a_name_gets_all_its_addresses_on_one_port() -> None:
    """`localhost` would be two ports, one of which no client is told."""
    made = bind_tcp("localhost", 0)
    try:
        addresses = [address_of(each) for each in made]
        assert len({address.rpartition(":")[2] for address in addresses}) == 1
        assert {address.rpartition(":")[0] for address in addresses} <= {"127.0.0.1", "[::1]"}
    finally:
        for each in made:
            each.close()


class Addresses:
    """Two addresses of one name, of which `127.0.0.2` may be refused."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *refusals: int) -> None:
        self.refusals = list(refusals)
        self.made: list[socket.socket] = []
        bind = socket.socket.bind
        addresses = self

        class Watched(socket.socket):
            def bind(self, address: tuple[str, int]) -> None:  # type: ignore[override]
                addresses.made.append(self)
                if address[0] == "127.0.0.2" and addresses.refusals:
                    code = addresses.refusals.pop(0)
                    raise OSError(code, os.strerror(code))
                bind(self, address)

        def both(_host: str, port: int, **_options: object) -> list[object]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{n}", port)) for n in (1, 2)]

        monkeypatch.setattr(socket, "getaddrinfo", both)
        monkeypatch.setattr(socket, "socket", Watched)

    def bind(self, port: int = 0) -> list[str]:
        """Return the addresses that were bound; all sockets are closed."""
        made = bind_tcp("localhost", port)
        bound = [address_of(each).rpartition(":")[0] for each in made]
        assert len({each.getsockname()[1] for each in made}) == 1
        for each in made:
            each.close()
        self.assert_closed()
        return bound

    def assert_closed(self) -> None:
        assert {each.fileno() for each in self.made} == {-1}


def test_an_address_that_this_machine_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """`localhost` could not be listened on where IPv6 is off."""
    assert Addresses(monkeypatch, errno.EADDRNOTAVAIL).bind() == ["127.0.0.1"]


def test_a_port_that_is_free_on_one_address_alone_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start with a free port would fail now and then."""
    assert Addresses(monkeypatch, *[errno.EADDRINUSE] * 7).bind() == ["127.0.0.1", "127.0.0.2"]


@pytest.mark.parametrize(
    ("port", "refusals", "told"),
    ((0, [errno.EADDRINUSE] * 8, "Address already in use"), (0, [errno.EACCES], "Permission denied")),
)
def test_what_cannot_be_bound_is_told_and_leaves_nothing_open(
    port: int, refusals: list[int], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that embeds this one would leak sockets."""
    addresses = Addresses(monkeypatch, *refusals)
    with pytest.raises(SettingsInvalid, match=f"listen: cannot listen on localhost:{port}: {told}"):
        bind_tcp("localhost", port)
    addresses.assert_closed()
    assert addresses.refusals == []


def test_an_address_that_is_asked_for_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server would run that listens nowhere."""
    addresses = Addresses(monkeypatch, errno.EADDRNOTAVAIL)
    both = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: both(*args, **options)[1:])
    with pytest.raises(SettingsInvalid, match="Cannot assign requested address"):
        bind_tcp("localhost", 0)
    addresses.assert_closed()


def test_processes_share_a_port_where_asked() -> None:
    """Workers could not listen beside each other, and the supervisor could not keep their port for them."""
    (kept,) = bind_tcp("127.0.0.1", 0, sharing=Sharing.PROCESSES)
    port = kept.getsockname()[1]
    workers = [bind_tcp("127.0.0.1", port, sharing=Sharing.PROCESSES)[0] for _ in range(2)]
    for worker in workers:
        worker.listen()
        worker.settimeout(20)
    # The one that is kept takes no connection from them.
    accepted = 0
    for _ in range(32):
        with socket.create_connection(("127.0.0.1", port), timeout=20):
            ready, _, _ = select.select(workers, [], [], 20)
            ready[0].accept()[0].close()
            accepted += 1
    assert accepted == 32
    with pytest.raises(SettingsInvalid, match="Address already in use"):
        bind_tcp("127.0.0.1", port)
    for each in (kept, *workers):
        each.close()


@pytest.mark.parametrize("host", ("no.such.host.invalid", "a" * 70, "127.0.0.1.1"))
def test_a_host_that_is_none_is_told(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slip in the settings would end in a stack trace."""

    def unknown(*_arguments: object, **_options: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    if len(host) < 64:
        # Tests ask no name server.
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(SettingsInvalid) as caught:
        bind_tcp(host, 0, section="admin")
    (finding,) = caught.value.findings
    assert (finding.path, finding.problem[: len(host) + 20]) == ("admin", f"cannot listen on {host}:0:")
