"""`signproxy keys issue`: a key from a running server, in the form that its reader takes, and no secret elsewhere."""

from __future__ import annotations

import asyncio
import configparser
import json
import shlex
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli import main
from signproxy.cli.key_forms import KeyEndpoint, variables
from signproxy.cli.key_request import Key, KeyRefusal, address_of, ask, is_exposed
from signproxy.errors import Invalid
from signproxy.model import KeyScope
from tests.product import token_of
from tests.server.api.test_key_way import Issuing

TOKEN = token_of("reader")
KEY = Key("SPK1AAAAAAAAAAAAAAAA", "geheim-geheim", "spk1.abc.def", "2030-01-01T00:00:00Z")
PARTS = ("access-key-id", "secret-access-key", "session-token", "expires-at")


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNPROXY_TOKEN", TOKEN)


async def issue(product: Issuing, *words: str) -> int:
    return await asyncio.to_thread(main, ["keys", "issue", "--url", product.url, *words])


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Answer each connection with these bytes; yield where that is, and what was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def serve() -> None:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                asked.append(connection.recv(65_536))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        server.close()
        thread.join(10)


def _shell(script: str) -> str:
    done = subprocess.run(["/bin/sh", "-c", script], env={}, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout


def _from_env(text: str) -> dict[str, str]:
    """Read it as a shell does."""
    found = dict(line.split("=", 1) for line in _shell(f"{text}\nenv").splitlines() if line.startswith("AWS_"))
    assert (found["AWS_REGION"], found["AWS_ENDPOINT_URL_S3"]) == ("eu-central-1", "http://127.0.0.1:8182")
    return {
        "access-key-id": found["AWS_ACCESS_KEY_ID"],
        "secret-access-key": found["AWS_SECRET_ACCESS_KEY"],
        "session-token": found["AWS_SESSION_TOKEN"],
    }


def _from_process(text: str) -> dict[str, str]:
    """Read it as botocore's ProcessProvider does."""
    told = json.loads(text)
    assert told["Version"] == 1
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    return dict(zip(PARTS, (told[name] for name in names), strict=True))


@pytest.mark.parametrize(
    ("form", "read"), (("env", _from_env), ("json", json.loads), ("process", _from_process), (None, _from_env))
)
async def test_each_form_holds_a_key_that_opens(
    form: str | None, read: Callable[[str], dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A client would be given something that is refused with each request."""
    async with Issuing().running() as product:
        words = ["--s3-url", "http://127.0.0.1:8182", "--region", "eu-central-1"]
        assert await issue(product, *words, *(() if form is None else ("--format", form))) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert product.holder(read(out)).name == "static/reader"


async def test_a_client_that_takes_no_session_token_is_given_none(capsys: pytest.CaptureFixture[str]) -> None:
    """What is left of another key in the shell would be sent along, and the key be refused."""
    async with Issuing().running() as product:
        told = {}
        for form in ("json", "process", "env"):
            assert await issue(product, "--without-token", "--format", form) == 0
            told[form] = capsys.readouterr().out
    assert product.holder(json.loads(told["json"])).name == "static/reader"
    assert set(json.loads(told["json"])) == {*PARTS} - {"session-token"}
    assert "SessionToken" not in json.loads(told["process"])
    shown = _shell(f"export AWS_SESSION_TOKEN=old\n{told['env']}\nenv")
    assert "AWS_ACCESS_KEY_ID=SPK1." in shown
    assert "AWS_SESSION_TOKEN" not in shown


@pytest.mark.parametrize(
    ("words", "scope"),
    (
        ((), None),
        (("--catalog", "lake"), KeyScope("lake")),
        (("--catalog", "lake", "--namespace", "a.b c"), KeyScope("lake", "a\x1fb c")),
        (("--namespace", "ns", "--table", "t2", "--seconds", "2m"), KeyScope("lake", "ns", "t2")),
    ),
)
async def test_a_key_is_good_for_what_was_asked(
    words: tuple[str, ...], scope: KeyScope | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job would be given more than was meant for it."""
    async with Issuing().running() as product:
        assert await issue(product, "--format", "json", *words) == 0
        holder = product.holder(json.loads(capsys.readouterr().out))
        assert holder.key_scope == scope


async def test_the_token_may_be_in_a_file_or_another_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Projected tokens come in files, and are exchanged there."""
    monkeypatch.delenv("SIGNPROXY_TOKEN")
    (tmp_path / "token").write_text(f"{token_of('writer')}\n")
    monkeypatch.setenv("MY_TOKEN", token_of("half"))
    async with Issuing().running() as product:
        for words, name in (
            (("--token-file", str(tmp_path / "token")), "writer"),
            (("--token-env", "MY_TOKEN"), "half"),
        ):
            assert await issue(product, "--format", "json", *words) == 0
            assert product.holder(json.loads(capsys.readouterr().out)).name == f"static/{name}"
        assert await issue(product) == 1
    assert "SIGNPROXY_TOKEN: holds no token" in capsys.readouterr().err


async def test_a_refusal_is_told_with_its_request(capsys: pytest.CaptureFixture[str]) -> None:
    """An operator who reads the log could not help a caller that is refused."""
    async with Issuing().running() as product:
        assert await issue(product, "--catalog", "hidden") == 1
        out, err = capsys.readouterr()
        assert out == ""
        (event,) = product.events()
    assert err == f"signproxy: 403 Insufficient privileges (request {event.request_id})\n"


async def test_a_catalogs_address_may_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """A user who is given the catalog's address could not use it here."""
    async with Issuing().running() as product:
        url = f"{product.url}/catalogs/located/"
        assert await asyncio.to_thread(main, ["keys", "issue", "--url", url, "--format", "json"]) == 0
        assert product.holder(json.loads(capsys.readouterr().out)).key_scope == KeyScope("located")


# -- a profile that gets its own keys


def _profile(text: str, name: str = "signproxy") -> configparser.SectionProxy:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return parser[f"profile {name}"]


def test_a_profile_runs_the_command_and_holds_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """A key in a file outlives its use, and a token there belongs to each of its readers."""
    words = ["--url", "http://127.0.0.1:8181", "--token-file", "/run/my secrets/token", "--namespace", "a.b"]
    words += ["--seconds", "1h", "--s3-url", "http://127.0.0.1:8182", "--region", "eu-central-1", "--profile", "lake"]
    assert main(["keys", "issue", "--format", "aws-config", *words]) == 0
    out = capsys.readouterr().out
    assert TOKEN not in out
    profile = _profile(out, "lake")
    assert (profile["region"], profile["endpoint_url"]) == ("eu-central-1", "http://127.0.0.1:8182")
    assert "addressing_style = path" in profile["s3"]
    assert "signature_version = s3v4" in profile["s3"]
    command = shlex.split(profile["credential_process"])
    assert command[:3] == ["signproxy", "keys", "issue"]
    assert command[command.index("--token-file") + 1] == "/run/my secrets/token"
    assert command[command.index("--seconds") + 1] == "3600"
    assert command[-2:] == ["--format", "process"]


async def test_botocore_gets_its_keys_by_the_printed_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The profile would be read otherwise by the SDKs that it is printed for."""
    import botocore.session

    async with Issuing().running() as product:
        assert await issue(product, "--format", "aws-config", "--catalog", "lake", "--profile", "lake") == 0
        text = capsys.readouterr().out
        command = f"{shlex.quote(sys.executable)} -m signproxy"
        config = tmp_path / "config"
        config.write_text(text.replace("= signproxy ", f"= {command} "))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))

        def resolve() -> Any:
            session = botocore.session.Session(profile="lake")
            return session.get_credentials().get_frozen_credentials()

        got = await asyncio.to_thread(resolve)
        told = {"access-key-id": got.access_key, "secret-access-key": got.secret_key, "session-token": got.token}
        assert product.holder(told).key_scope == KeyScope("lake")


@pytest.mark.parametrize(
    ("words", "told"),
    (
        (["--table", "t"], "--table: goes with --namespace"),
        (["--url", "ftp://127.0.0.1"], "--url: http(s)://HOST:PORT"),
        (["--url", "http://me:geheim@127.0.0.1"], "--url: http(s)://HOST:PORT"),
        (["--url", "http://127.0.0.1/?x"], "--url: http(s)://HOST:PORT"),
        (["--url", "http://127.0.0.1:99999"], "--url: holds no host and port"),
        (["--url", "http://127.0.0.1/ x"], "--url: http(s)://HOST:PORT"),
        (["--s3-url", "http://x\ny"], "--s3-url: printable ASCII"),
        (["--region", "a b"], "--region: printable ASCII"),
        (["--profile", "a]", "--format", "aws-config"], "--profile: printable ASCII"),
        (["--catalog", "a\nb = c", "--format", "aws-config"], "cannot hold control characters"),
        (["--token-env", "1X"], "is no name of a variable"),
        (["--token-file", "/nowhere/token"], "/nowhere/token: cannot be read"),
    ),
)
def test_what_cannot_be_asked_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake would be sent, with the token, to wherever it leads; or end up in a line of a file."""
    assert main(["keys", "issue", "--url", "http://127.0.0.1:1", *words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert "geheim" not in err


# -- who answers


@pytest.mark.parametrize(
    ("answer", "told"),
    (
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "200: what answers there is no signproxy"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "200: what answers there is no signproxy"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\n<", "404: what answers there is no signproxy"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"[" * 9000, "200: what answers there"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "302: what answers"),
        (b"not http\r\n\r\n", "127.0.0.1"),
        (b"", "127.0.0.1"),
    ),
)
def test_what_is_no_signproxy_is_told(answer: bytes, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong port would end in a stack trace, and a redirection take the token to another host."""
    with answering(answer) as (url, asked):
        assert main(["keys", "issue", "--url", url]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert TOKEN not in err
    assert asked[0].startswith(b"POST /v1/s3-keys HTTP/1.1\r\n")


def test_a_server_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A client would be told of a refused key, where signproxy is not running."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert main(["keys", "issue", "--url", f"http://127.0.0.1:{port}"]) == 1
    assert "Connection refused" in capsys.readouterr().err


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token would travel through a machine that it is not meant for."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with answering(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n") as (url, _):
        assert "404" in str(ask(address_of(url), "x", {}))


def test_a_token_that_could_end_a_header_is_not_sent() -> None:
    """A file with several lines would be several headers."""
    for token in ("a\r\nX-Evil: 1", "ü"):
        with pytest.raises(Invalid):
            ask(address_of("http://127.0.0.1:1"), token, {})


@pytest.mark.parametrize(
    ("url", "exposed"),
    (
        ("http://127.0.0.1:8181", False),
        ("http://localhost", False),
        ("http://[::1]:1/catalogs/lake", False),
        ("https://sign.example", False),
        ("http://sign.example", True),
        ("http://10.0.0.1:8181", True),
    ),
)
def test_a_token_in_the_clear_is_warned_of(url: str, exposed: bool) -> None:
    """Others on the way could read token and key without a warning."""
    assert is_exposed(address_of(url)) is exposed


def test_the_warning_goes_beside_the_key(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential process would print something that no SDK can read."""
    monkeypatch.setattr("signproxy.cli.keys_issue.ask", lambda *_: KEY)
    assert main(["keys", "issue", "--url", "http://sign.example", "--format", "process"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["AccessKeyId"] == KEY.access_key_id
    assert "without TLS" in err


def test_a_private_authority_is_trusted_where_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A gateway with a certificate of its own could not be asked; or any certificate would do."""
    asked: list[str | None] = []

    def context(*, cafile: str | None, cadata: str | None) -> ssl.SSLContext:
        assert cadata is None
        asked.append(cafile)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    monkeypatch.setattr(ssl, "create_default_context", context)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for ca_file in ("", str(tmp_path / "ca.pem")):
        assert isinstance(ask(address_of(f"https://127.0.0.1:{port}"), "x", {}, ca_file), KeyRefusal)
    assert asked == [None, str(tmp_path / "ca.pem")]


def test_a_key_is_not_shown_by_accident() -> None:
    """A stack trace would hold the secret."""
    assert "geheim" not in repr(KEY)


def test_variables_are_quoted() -> None:
    """What a server answers would be run by the shell that takes it."""
    evil = Key("a", "$(touch x)", "`b`; c", "")
    lines = "\n".join(variables(evil, KeyEndpoint("http://h/$(d)", "r")))
    shown = subprocess.run(
        ["/bin/sh", "-c", f"{lines}\nenv"], env={}, capture_output=True, text=True, check=True, timeout=30
    )
    assert "AWS_SECRET_ACCESS_KEY=$(touch x)" in shown.stdout
    assert "AWS_SESSION_TOKEN=`b`; c" in shown.stdout
