"""Ask the admin listener how the server is, with as little as that takes.

An exec probe pays for the interpreter each time, so nothing here imports a library that the question does not need: a
socket is enough for one request, TLS only where the listener speaks it, YAML only where a settings file says where the
listener is. The settings are not validated either: a file that was broken after the start is the server's to refuse,
and must not make a probe call it dead.
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import Mapping
from time import monotonic
from typing import NamedTuple

from signproxy.errors import Finding, SettingsInvalid

CONFIG_VARIABLE = "SIGNPROXY_CONFIG"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9181
MAX_ANSWER = 64 * 1024
"""A list of checks has some hundred bytes; whatever else answers on the port is not read to its end."""

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_PREFIX = "SIGNPROXY__ADMIN__"


class ProbeAddress(NamedTuple):
    """Where the admin listener is."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    tls: bool = False
    unix: str = ""
    """A Unix socket instead."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.unix or f"{'https' if self.tls else 'http'}://{host}:{self.port}"


class ProbeAnswer(NamedTuple):
    """What it said: an HTTP status (0 without an answer), and the failing checks, or why there was no answer."""

    status: int
    lines: tuple[str, ...]

    @property
    def good(self) -> bool:
        return self.status == 200


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how the listener is found."""
    parser.add_argument("--url", metavar="URL", help="where the admin listener is, for example http://127.0.0.1:9181")
    parser.add_argument("--admin", metavar="HOST:PORT", help="the same, as `serve` takes it")
    parser.add_argument("--socket", metavar="PATH", help="the Unix socket of admin.socket")
    parser.add_argument("--config", metavar="FILE", help=f"settings file that says it; default: ${CONFIG_VARIABLE}")
    parser.add_argument(
        "--check",
        choices=("ready", "live", "started"),
        default="ready",
        help="what to ask: /readyz (default), /livez or /startupz",
    )


def path_of(options: argparse.Namespace) -> str:
    """Return the path that answers the question."""
    return {"ready": "/readyz", "live": "/livez", "started": "/startupz"}[options.check]


def address_of(options: argparse.Namespace, environ: Mapping[str, str]) -> ProbeAddress:
    """Return where to ask: flags win over the environment, which wins over the settings file."""
    if options.url:
        return _of_url(options.url)
    if options.socket:
        return ProbeAddress(unix=options.socket)
    said = _of_file(options.config or environ.get(CONFIG_VARIABLE, "")) | _of_environment(environ)
    if options.admin:
        host, colon, port = options.admin.rpartition(":")
        if not colon:
            raise _wrong("command line", "--admin", f"HOST:PORT expected, got {options.admin!r}")
        said |= {"host": host.strip("[]"), "port": port}
    if said.get("enabled", "true").lower() == "false":
        raise _wrong("settings", "admin.enabled", "is false: there is no admin listener to ask")
    host = said.get("host", DEFAULT_HOST)
    return ProbeAddress(_WILDCARDS.get(host, host), _port(said.get("port", str(DEFAULT_PORT))), bool(said.get("tls")))


def ask(address: ProbeAddress, path: str, timeout: float) -> ProbeAnswer:
    """Return what the listener says; never raises for a listener that does not answer."""
    try:
        with _connected(address, timeout) as connection:
            host = "localhost" if address.unix else str(address).partition("://")[2]
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("latin-1"))
            return _read(_all(connection, monotonic() + timeout))
    # TLS faults are OSErrors as well; a host name that is none is a UnicodeError.
    except (OSError, UnicodeError) as error:
        told = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        return ProbeAnswer(0, (f"{address}: {told}",))


def _connected(address: ProbeAddress, timeout: float) -> socket.socket:
    if address.unix:
        return _connect(socket.AF_UNIX, address.unix, timeout)
    host, port = address.host, address.port
    if ":" in host:
        plain = _connect(socket.AF_INET6, (host, port), timeout)
    elif host.replace(".", "").isdecimal():
        # Nothing to resolve: that loads the tables for names in other scripts, a tenth of this command.
        plain = _connect(socket.AF_INET, (host, port), timeout)
    else:
        plain = socket.create_connection((host, port), timeout)
    if not address.tls:
        return plain
    import ssl

    from signproxy.outbound.tls import client_tls

    context = client_tls()
    if plain.getpeername()[0] in ("127.0.0.1", "::1"):
        # The certificate is for the name that others use, and only this machine answers on loopback.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        return context.wrap_socket(plain, server_hostname=address.host)
    except OSError:
        plain.close()
        raise


def _connect(family: socket.AddressFamily, to: str | tuple[str, int], timeout: float) -> socket.socket:
    connection = socket.socket(family)
    connection.settimeout(timeout)
    try:
        connection.connect(to)
    except BaseException:
        connection.close()
        raise
    return connection


def _all(connection: socket.socket, ends: float) -> bytes:
    received = bytearray()
    while len(received) < MAX_ANSWER and (chunk := connection.recv(MAX_ANSWER - len(received))):
        received += chunk
        if monotonic() > ends:
            raise TimeoutError("timed out")
    return bytes(received)


def _read(answer: bytes) -> ProbeAnswer:
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not (words[1].isdigit() and len(words[1]) == 3):
        return ProbeAnswer(0, ("what answers there is no HTTP server",))
    status = int(words[1])
    lines = tuple(body.decode("utf-8", "replace").splitlines())
    return ProbeAnswer(
        status, lines if status in (200, 503) else (f"HTTP status {status}: no admin listener", *lines[:5])
    )


def _of_url(url: str) -> ProbeAddress:
    scheme, _, rest = url.partition("://")
    rest = rest.rstrip("/")
    host, bracket, tail = rest.removeprefix("[").partition("]") if rest.startswith("[") else (rest, "", "")
    if not bracket:
        host, colon, port = rest.partition(":")
        tail = colon + port
    if scheme not in ("http", "https") or not host or set(host + tail) & set("/@?#[]") or tail[:1] not in ("", ":"):
        raise _wrong("command line", "--url", f"http(s)://HOST:PORT expected, got {url!r}")
    return ProbeAddress(host, _port(tail[1:] or {"http": "80", "https": "443"}[scheme]), scheme == "https")


def _of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    names = {"host": "HOST", "port": "PORT", "enabled": "ENABLED", "tls": "TLS__CERT_FILE"}
    return {key: environ[_PREFIX + name] for key, name in names.items() if _PREFIX + name in environ}


def _of_file(file: str) -> dict[str, str]:
    """Return what a settings file says of the listener; nothing where it cannot be read as one."""
    if not file:
        return {}
    from pathlib import Path

    # Not the strict reader of the server, which costs as much again as the rest of this command: what the two read
    # differently the server does not start with.
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        document = yaml.load(Path(file).read_text(encoding="utf-8-sig"), loader)  # noqa: S506 - either one is safe
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError):
        return {}
    admin = document.get("admin") if isinstance(document, dict) else None
    if not isinstance(admin, dict):
        return {}
    said = {key: str(admin[key]) for key in ("host", "port", "enabled") if key in admin}
    tls = admin.get("tls")
    if isinstance(tls, dict) and tls.get("cert_file"):
        said["tls"] = str(tls["cert_file"])
    return said


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= 65_535):
        raise _wrong("settings", "admin.port", f"{text!r} is no port that can be asked; name it with --admin")
    return int(text)


def _wrong(source: str, path: str, problem: str) -> SettingsInvalid:
    return SettingsInvalid([Finding(source, path, problem)])
