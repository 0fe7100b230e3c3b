"""Asking a server from the command line how it is, and waiting until it is ready."""

from __future__ import annotations

import argparse
import http.server
import os
import re
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from signproxy.cli import main, wait
from signproxy.cli.probe import DEFAULT_HOST, DEFAULT_PORT, MAX_ANSWER, ProbeAddress, address_of, arguments, ask
from signproxy.config.settings import AdminSettings
from signproxy.errors import SettingsInvalid
from tests.identity.test_fetch import certificate

Answers = Callable[[str], tuple[int, str]]


class Asked:
    """A server on loopback that answers paths as a test says."""

    def __init__(self, answer: Answers, unix: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[str, str]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(handler) -> None:  # noqa: N805 - `self` is the test's
                self.requests.append((handler.path, handler.headers["Host"]))
                status, text = answer(handler.path)
                handler.send_response(status)
                handler.send_header("Content-Length", str(len(text.encode())))
                handler.end_headers()
                handler.wfile.write(text.encode())

            def address_string(handler) -> str:  # noqa: N805 - see above
                return ""

            def log_message(handler, *_: object) -> None:  # noqa: N805 - see above
                pass

        if unix is None:
            self._server: socketserver.BaseServer = http.server.HTTPServer(("127.0.0.1", 0), Handler)
            self.port = int(self._server.server_address[1])
        else:
            self._server = socketserver.UnixStreamServer(str(unix), Handler)
        if tls is not None:
            server = self._server
            assert isinstance(server, http.server.HTTPServer)
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def ready(_path: str) -> tuple[int, str]:
    return 200, "ok\n"


def ill(_path: str) -> tuple[int, str]:
    return 503, "credentials: lake: expired\naudit: disk \x1b[2Jfull\n"


@contextmanager
def _silent() -> Iterator[int]:
    """Accept connections and say nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments(parser)
    return parser.parse_args(words)


# -- where it is -------------------------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_settings() -> None:
    """A healthcheck without options would ask another port than the server listens on."""
    admin = AdminSettings()
    assert (admin.host, admin.port) == (DEFAULT_HOST, DEFAULT_PORT)
    assert address_of(options(), {}) == ProbeAddress(admin.host, admin.port)


@pytest.mark.parametrize(
    ("words", "environ", "file", "expected"),
    (
        ([], {}, "admin: {host: 10.0.0.5, port: 9000}", ProbeAddress("10.0.0.5", 9000)),
        # What a server listens on everywhere is asked where only it can answer.
        ([], {}, "admin: {host: 0.0.0.0, port: 9000}", ProbeAddress("127.0.0.1", 9000)),
        ([], {}, "admin: {host: '::'}", ProbeAddress("::1", 9181)),
        ([], {}, "admin: {tls: {cert_file: c.pem, key_file: k.pem}}", ProbeAddress(tls=True)),
        ([], {"SIGNPROXY__ADMIN__PORT": "9001"}, "admin: {host: 10.0.0.5, port: 9000}", ProbeAddress("10.0.0.5", 9001)),
        (
            [],
            {"SIGNPROXY__ADMIN__HOST": "::1", "SIGNPROXY__ADMIN__TLS__CERT_FILE": "c"},
            "",
            ProbeAddress("::1", tls=True),
        ),
        (["--admin", "localhost:9002"], {"SIGNPROXY__ADMIN__PORT": "9001"}, "", ProbeAddress("localhost", 9002)),
        (["--admin", "[::1]:9002"], {}, "", ProbeAddress("::1", 9002)),
        (["--admin", "0.0.0.0:9002"], {}, "", ProbeAddress("127.0.0.1", 9002)),
        (["--socket", "/run/admin.sock"], {"SIGNPROXY__ADMIN__PORT": "x"}, "", ProbeAddress(unix="/run/admin.sock")),
        (["--url", "http://127.0.0.1:9003"], {"SIGNPROXY__ADMIN__PORT": "x"}, "", ProbeAddress("127.0.0.1", 9003)),
        (["--url", "https://signproxy.ops.svc/"], {}, "", ProbeAddress("signproxy.ops.svc", 443, tls=True)),
        (["--url", "http://[::1]:9003"], {}, "", ProbeAddress("::1", 9003)),
        (["--url", "http://[::1]"], {}, "", ProbeAddress("::1", 80)),
        # Settings that the server would refuse, or that were broken after its start, are not this command's.
        ([], {}, "admin: {port: 9000}\nlisten: {prot: 1}\n", ProbeAddress(port=9000)),
        ([], {}, "admin: [", ProbeAddress()),
        ([], {}, "admin: 1", ProbeAddress()),
        ([], {}, "- a list", ProbeAddress()),
        ([], {}, "a: &a [*a]", ProbeAddress()),
        ([], {}, "admin: {tls: on}", ProbeAddress()),
    ),
)
def test_the_listener_is_found(
    words: list[str], environ: dict[str, str], file: str, expected: ProbeAddress, tmp_path: Path
) -> None:
    """In a container the same variables and the same file configure the server and its probe."""
    settings = tmp_path / "signproxy.yaml"
    settings.write_text(file)
    assert address_of(options(*words, "--config", str(settings)), environ) == expected
    assert address_of(options(*words), {**environ, "SIGNPROXY_CONFIG": str(settings)}) == expected


@pytest.mark.parametrize(
    ("words", "environ", "told"),
    (
        (["--url", "ftp://127.0.0.1:9"], {}, "--url"),
        (["--url", "127.0.0.1:9181"], {}, "--url"),
        (["--url", "http://127.0.0.1:9181/readyz"], {}, "--url"),
        (["--url", "http://user@127.0.0.1:9181"], {}, "--url"),
        (["--url", "http://127.0.0.1:x"], {}, "admin.port"),
        (["--admin", "9181"], {}, "HOST:PORT expected"),
        (["--admin", "localhost:x"], {}, "admin.port"),
        ([], {"SIGNPROXY__ADMIN__PORT": "0"}, "name it with --admin"),
        ([], {"SIGNPROXY__ADMIN__ENABLED": "False"}, "there is no admin listener"),
    ),
)
def test_a_listener_that_cannot_be_asked_is_told(words: list[str], environ: dict[str, str], told: str) -> None:
    """A probe that asks no listener fails for a reason that operators search for in the wrong place."""
    with pytest.raises(SettingsInvalid, match=re.escape(told)):
        address_of(options(*words), environ)


# -- healthcheck -------------------------------------------------------------------------------------------------------


def test_a_server_that_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is all that an orchestrator reads."""
    with Asked(ready) as asked:
        assert main(["healthcheck", "--admin", f"127.0.0.1:{asked.port}"]) == 0
        assert capsys.readouterr().out == "ok\n"
        assert asked.requests == [("/readyz", f"127.0.0.1:{asked.port}")]


def test_a_server_that_is_not_says_what_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """`docker inspect` shows these lines, and they are all that one has of a container without a shell."""
    with Asked(ill) as asked:
        assert main(["healthcheck", "--url", f"http://127.0.0.1:{asked.port}"]) == 1
    told = capsys.readouterr().err
    assert told == "signproxy: credentials: lake: expired\nsignproxy: audit: disk \\x1b[2Jfull\n"


@pytest.mark.parametrize(("check", "path"), (("ready", "/readyz"), ("live", "/livez"), ("started", "/startupz")))
def test_each_question_has_its_path(check: str, path: str) -> None:
    """A liveness probe that asks for readiness restarts a pod whose identity provider is down."""
    with Asked(lambda asked: (200, "") if asked == path else (503, "")) as asked:
        assert main(["healthcheck", "--admin", f"127.0.0.1:{asked.port}", "--check", check]) == 0


def test_a_unix_socket_is_asked(tmp_path: Path) -> None:
    """Where a port would be too many."""
    path = tmp_path / "admin.sock"
    with Asked(ready, unix=path) as asked:
        assert main(["healthcheck", "--socket", str(path)]) == 0
        # A name that the listener takes for this machine's, so that it says why.
        assert asked.requests == [("/readyz", "localhost")]


def test_a_certificate_is_not_judged_on_loopback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is for the name that others use; a probe inside the pod would never succeed."""
    cert_file, key_file = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert_file, key_file)
    with Asked(ready, tls=tls) as asked:
        assert main(["healthcheck", "--url", f"https://127.0.0.1:{asked.port}"]) == 0
        # Another protocol than the listener's is told, and does not hang.
        assert main(["healthcheck", "--url", f"http://127.0.0.1:{asked.port}"]) == 1
    with Asked(ready) as plain:
        assert main(["healthcheck", "--url", f"https://127.0.0.1:{plain.port}"]) == 1
    assert "SSL" in capsys.readouterr().err.upper()


@pytest.mark.parametrize(
    ("answer", "told"),
    (
        ((404, "no such page\n"), "HTTP status 404: no admin listener"),
        ((302, ""), "HTTP status 302: no admin listener"),
        ((503, ""), "not well"),
        ((503, "x" * 200_000), "x"),
    ),
)
def test_something_else_on_the_port_is_not_taken_for_the_server(
    answer: tuple[int, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any web server answers 200 on some path; none but ours on this one."""
    with Asked(lambda _: answer) as asked:
        assert main(["healthcheck", "--url", f"http://127.0.0.1:{asked.port}"]) == 1
    err = capsys.readouterr().err
    assert told in err
    assert len(err) < MAX_ANSWER + 1_000


@pytest.mark.parametrize("said", (b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 2000 OK\r\n\r\n", b"HTTP/1.1\r\n\r\n"))
def test_what_speaks_no_http_is_told(said: bytes) -> None:
    """A port that was taken by something else answers as it likes."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1_000)
            self.request.sendall(said)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        answer = ask(ProbeAddress(port=server.server_address[1]), "/readyz", 10.0)
        thread.join()
    assert (answer.status, answer.good) == (0, False)
    assert "no HTTP server" in answer.lines[0]


def test_a_server_that_is_not_there_or_hangs_is_told(tmp_path: Path) -> None:
    """A probe must come back before the kubelet that asked for it kills it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = ProbeAddress(port=free.getsockname()[1])
        assert ask(closed, "/readyz", 1.0).lines == (f"http://127.0.0.1:{closed.port}: Connection refused",)
    missing = ask(ProbeAddress(unix=str(tmp_path / "none.sock")), "/readyz", 1.0)
    assert missing.lines == (f"{tmp_path / 'none.sock'}: No such file or directory",)
    with _silent() as port:
        answer = ask(ProbeAddress(port=port), "/readyz", 0.1)
        assert answer.status == 0
        assert "timed out" in answer.lines[0]
        assert ask(ProbeAddress("::1", 9), "/readyz", 0.1).status == 0
        assert ask(ProbeAddress("localhost", port), "/readyz", 0.1).status == 0
    assert ask(ProbeAddress("a" * 300), "/readyz", 0.1).status == 0


def test_a_server_that_trickles_is_given_up() -> None:
    """A byte a minute keeps each single wait short, and the whole one endless."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1_000)
            try:
                for _ in range(1_000):
                    self.request.sendall(b"H")
                    time.sleep(0.02)
            except OSError:
                pass

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        answer = ask(ProbeAddress(port=server.server_address[1]), "/readyz", 0.2)
        thread.join()
    assert "timed out" in answer.lines[0]


def test_it_imports_next_to_nothing() -> None:
    """An exec probe pays for the interpreter every ten seconds; the server's libraries would be ten times that."""
    heavy = {"aiohttp", "asyncio", "http.client", "json", "msgspec", "ssl", "urllib.request", "yaml", "structlog"}
    code = (
        "import sys; from signproxy.cli import main; main(['healthcheck', '--url', 'http://127.0.0.1:9']);"
        f"print(sorted({heavy - {'json'}!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# -- wait --------------------------------------------------------------------------------------------------------------


def test_waiting_ends_with_the_first_good_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """A container that starts beside the server would fail its first requests, or wait longer than it has to."""
    answers = iter([(503, "token keys: idp: not fetched yet\n"), (503, ""), (200, "ok\n")])
    with Asked(lambda _: next(answers)) as asked:
        assert main(["wait", "--admin", f"127.0.0.1:{asked.port}", "--max", "50s"]) == 0
        assert len(asked.requests) == 3
    assert capsys.readouterr().err == ""


def test_waiting_begins_before_the_server_does() -> None:
    """That is the point of it: the port is not open yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "signproxy", "wait", "--admin", f"127.0.0.1:{port}", "--max", "50s"]
    process = subprocess.Popen(command, env={**os.environ})
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        server = http.server.HTTPServer(("127.0.0.1", port), _Ready)
        with server:
            server.timeout = 50
            server.handle_request()
        assert process.wait(50) == 0
    finally:
        process.kill()
        process.wait()


class _Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_waiting_ends_when_time_is_up_and_says_what_was_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """A job that waits for ever is found the next morning."""
    with Asked(ill) as asked:
        assert main(["wait", "--admin", f"127.0.0.1:{asked.port}", "--max", "200ms"]) == 1
    told = capsys.readouterr().err
    assert "credentials: lake: expired" in told
    assert told.endswith("signproxy: not ready after 0.2 s\n")


@pytest.mark.parametrize(
    ("text", "expected"), (("30s", 30.0), ("2m", 120.0), ("500ms", 0.5), ("1h", 3600.0), ("7", 7.0), ("1.5s", 1.5))
)
def test_times_are_read_as_people_write_them(text: str, expected: float) -> None:
    """`30s` is what its neighbours take."""
    assert wait.seconds(text) == expected


@pytest.mark.parametrize("text", ("", "s", "-1s", "30d", "1e9", "nan", "30 s x", "48h"))
def test_a_time_that_is_none_is_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped limit must not become none."""
    assert main(["wait", f"--max={text}"]) == 2
    assert "--max" in capsys.readouterr().err
