"""How a key document is fetched from servers, names and networks that may be hostile."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from signproxy.identity import fetch as module
from signproxy.identity.fetch import MAX_DOCUMENT, Fetched, Trust, fetch
from signproxy.identity.key_url import FetchReach, KeysUnusable, check_address, parse_key_url
from tests.identity.rig import KeyServer, ec_key, pem, private_pem


async def get(url: str, trust: Trust | None = None) -> Fetched:
    return await fetch(parse_key_url(url), trust or Trust())


async def problem(url: str, trust: Trust | None = None) -> str:
    with pytest.raises(KeysUnusable) as caught:
        await get(url, trust)
    return str(caught.value)


async def test_a_document_is_fetched() -> None:
    """No issuer's keys could be had."""
    async with KeyServer(b'{"keys":[]}', {"Cache-Control": "max-age=60"}) as server:
        assert await get(f"{server.url}/keys?v=1") == Fetched(b'{"keys":[]}', 60.0)
        request = server.requests[0]
        assert (request.method, request.raw_path) == ("GET", "/keys?v=1")
        assert request.headers["Accept-Encoding"] == "identity"
        assert "Authorization" not in request.headers
        assert "Cookie" not in request.headers


@pytest.mark.parametrize("status", (301, 302, 303, 307, 308))
async def test_redirects_are_not_followed(status: int) -> None:
    """A redirect on the issuer's host could bring an attacker's keys, or reach inner services."""
    async with KeyServer() as server, KeyServer(b"{}") as evil:
        server.status = status
        server.headers = {"Location": f"{evil.url}/keys"}
        assert f"status {status}; redirects are not followed" in await problem(server.url)
        assert (server.count, evil.count) == (1, 0)


@pytest.mark.parametrize("status", (201, 204, 206, 401, 403, 404, 500, 503))
async def test_only_a_plain_answer_counts(status: int) -> None:
    """An error page could replace the keys."""
    async with KeyServer() as server:
        server.status = status
        assert f"status {status}" in await problem(server.url)


@pytest.mark.parametrize(("extra", "accepted"), ((0, True), (1, False)))
async def test_documents_are_bounded(extra: int, accepted: bool) -> None:
    """A server could fill the sidecar's memory."""
    async with KeyServer(b" " * (MAX_DOCUMENT + extra)) as server:
        if accepted:
            assert len((await get(server.url)).body) == MAX_DOCUMENT
        else:
            assert "longer than" in await problem(server.url)


async def test_an_endless_document_is_left_early() -> None:
    """A server could keep signproxy reading for ever."""
    async with KeyServer() as server:
        sent = 0

        async def endless(request: web.Request) -> web.StreamResponse:
            nonlocal sent
            response = web.StreamResponse()
            await response.prepare(request)
            while sent < 64 * MAX_DOCUMENT:
                await response.write(b" " * 65_536)
                sent += 65_536
            return response

        server.answers["/keys"] = endless
        assert "longer than" in await problem(f"{server.url}/keys")
        # What the sockets' buffers hold is written into the void; a reader to the end would have asked for all.
        assert sent < 64 * MAX_DOCUMENT


@pytest.mark.parametrize("drip", (False, True))
async def test_a_slow_server_is_given_up(drip: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers would wait as long as the identity provider likes."""
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    over = asyncio.Event()
    async with KeyServer() as server:

        async def slow(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            if drip:
                await response.prepare(request)
            while not over.is_set():
                if drip:
                    await response.write(b" ")
                await asyncio.sleep(0.01)
            raise ConnectionResetError

        server.answers["/keys"] = slow
        assert "no answer within" in await problem(f"{server.url}/keys")
        over.set()


async def test_a_compressed_answer_is_refused() -> None:
    """A kilobyte could unfold to a gigabyte."""
    async with KeyServer(b"\x1f\x8b", {"Content-Encoding": "gzip"}) as server:
        assert "compressed" in await problem(server.url)


async def test_an_issuer_that_is_not_there_is_an_error_of_ours() -> None:
    """An exception of the HTTP library would reach the caller."""
    async with KeyServer() as server:
        gone = server.url
    assert "ClientConnectorError" in await problem(gone)


async def test_an_answer_that_is_no_http_is_an_error_of_ours() -> None:
    """An exception of the HTTP library would reach the caller."""

    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n\x00\xff")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await problem(f"http://127.0.0.1:{port}/keys")


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy variable meant for something else would see, and could answer, the fetch."""
    async with KeyServer(b"{}") as server, KeyServer(b"{}") as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.upper(), proxy.url)
        await get(server.url)
        assert (server.count, proxy.count) == (1, 0)


async def test_a_token_file_is_read_anew_each_time(tmp_path: Path) -> None:
    """A cluster's API server would answer 401 as soon as the pod's token has rotated."""
    file = tmp_path / "token"
    async with KeyServer(b"{}") as server:
        for text in ("first", "second\n"):
            file.write_text(text)
            await get(server.url, Trust(token_file=str(file)))
        sent = [request.headers["Authorization"] for request in server.requests]
        assert sent == ["Bearer first", "Bearer second"]
        file.unlink()
        assert "FileNotFoundError" in await problem(server.url, Trust(token_file=str(file)))
        file.write_text("no\ntoken")
        assert await problem(server.url, Trust(token_file=str(file)))
        file.write_bytes(b"\xff")
        assert "UnicodeDecodeError" in await problem(server.url, Trust(token_file=str(file)))
        assert server.count == 2


def certificate(path: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that is its own authority, and its key."""
    key = ec_key("P-256")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "identity tests")])
    today = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    from cryptography.hazmat.primitives.serialization import Encoding

    ca_file, key_file = path / "ca.pem", path / "key.pem"
    ca_file.write_bytes(made.public_bytes(Encoding.PEM))
    key_file.write_bytes(private_pem(key))
    return ca_file, key_file


async def test_https_needs_a_trusted_certificate(tmp_path: Path) -> None:
    """Any hop on the way could bring keys of its own."""
    ca_file, key_file = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca_file, key_file)
    async with KeyServer(b"{}", tls=context) as server:
        assert (await get(server.url, Trust(ca_file=str(ca_file)))).body == b"{}"
        assert "Certificate" in await problem(server.url)
        # The right authority, another name.
        assert "Certificate" in await problem(server.url.replace("127.0.0.1", "localhost"), Trust(ca_file=str(ca_file)))
        garbage = tmp_path / "garbage.pem"
        garbage.write_bytes(pem(ec_key("P-256")))
        assert await problem(server.url, Trust(ca_file=str(garbage)))
        assert await problem(server.url, Trust(ca_file=str(tmp_path / "missing.pem")))


# -- names that lead astray


@pytest.mark.parametrize(
    ("url", "address"),
    (
        ("https://idp.example/keys", "127.0.0.1"),
        ("https://idp.example/keys", "::1"),
        ("https://idp.example/keys", "169.254.169.254"),
        ("https://idp.example/keys", "fe80::1%lo"),
        ("https://idp.example/keys", "::ffff:169.254.169.254"),
        ("https://idp.example/keys", "fd00:ec2::254"),
        ("https://idp.example/keys", "0.0.0.0"),
        # And the other way round: a loopback URL does not leave the machine.
        ("http://localhost:{port}/keys", "192.0.2.1"),
        ("http://localhost:{port}/keys", "169.254.169.254"),
    ),
)
async def test_a_name_that_leads_astray_is_not_connected_to(
    url: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the name could read metadata services or inner ports through signproxy, key by key."""
    async with KeyServer(b"{}") as server:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET

        async def rebound(_host: str, port: int, **_more: object) -> list[tuple[object, ...]]:
            rest = (0, 0) if family == socket.AF_INET6 else ()
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, *rest))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", rebound)
        found = await problem(url.replace("{port}", str(server.port)))
        assert "not on loopback" in found or "is loopback, link-local" in found
        assert server.count == 0


@pytest.mark.parametrize(
    "address",
    (
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::a9fe:a9fe%eth0",
        "fd00:ec2::254",
        "fd20:ce::254",
        "ff02::1",
        # The packet ends at the address inside.
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b::127.0.0.1",
        "2002:a9fe:a9fe::1",
        "2002:7f00:1::1",
        "::127.0.0.1",
        "not an address",
        "",
    ),
)
def test_addresses_that_are_no_issuers_are_refused(address: str) -> None:
    """A fetch could read a metadata service."""
    with pytest.raises(KeysUnusable):
        check_address(address, FetchReach.NETWORK)


@pytest.mark.parametrize(
    "address",
    (
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "93.184.216.34",
        "fd12:3456::1",
        "2606:2800::1",
        "64:ff9b::93.184.216.34",  # an IPv4 host, seen from an IPv6-only cluster
    ),
)
def test_addresses_where_issuers_live_are_accepted(address: str) -> None:
    """Issuers inside a cluster or a company could not be used."""
    check_address(address, FetchReach.NETWORK)
    with pytest.raises(KeysUnusable):
        check_address(address, FetchReach.LOOPBACK)


@pytest.mark.parametrize("address", ("127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"))
def test_loopback_urls_reach_loopback(address: str) -> None:
    """Tests and sidecars beside their issuer could not fetch keys."""
    check_address(address, FetchReach.LOOPBACK)


@pytest.mark.parametrize(
    ("text", "host", "reach"),
    (
        ("https://idp.example", "idp.example", FetchReach.NETWORK),
        ("https://IDP.Example:8443/Keys?a=b", "idp.example", FetchReach.NETWORK),
        ("https://10.0.0.1/keys", "10.0.0.1", FetchReach.NETWORK),
        ("https://[fd12::1]:443/keys", "fd12::1", FetchReach.NETWORK),
        ("http://127.0.0.1:8080/keys", "127.0.0.1", FetchReach.LOOPBACK),
        ("http://[::1]/keys", "::1", FetchReach.LOOPBACK),
        ("http://localhost/keys", "localhost", FetchReach.LOOPBACK),
        ("https://localhost/keys", "localhost", FetchReach.LOOPBACK),
        ("https://idp.example/" + "a" * (2_048 - 20), "idp.example", FetchReach.NETWORK),
    ),
)
def test_plain_urls_are_accepted(text: str, host: str, reach: FetchReach) -> None:
    """An issuer's ordinary URL could not be configured."""
    url = parse_key_url(text)
    assert (url.text, url.host, url.reach) == (text, host, reach)


@pytest.mark.parametrize(
    "text",
    (
        "",
        "idp.example/keys",
        "ftp://idp.example/keys",
        "file:///etc/passwd",
        "HTTPS://idp.example/keys",
        "http://idp.example/keys",
        "http://10.0.0.1/keys",
        "https://user@idp.example/keys",
        "https://user:password@idp.example/keys",
        "https://idp.example\\@evil.example/keys",
        "https://idp.example/keys#fragment",
        "https://idp.example/ keys",
        "https://idp.example/keys\n",
        "https://idp.example/\x00",
        "https://idp.example/schlüssel",
        "https://idp。example/keys",
        "https://idp.example:/keys",
        "https://idp.example:65536/keys",
        "https://idp.example:123456/keys",
        "https:///keys",
        "https://[idp.example]/keys",
        "https://[::ffff:169.254.169.254]/keys",
        "https://169.254.169.254/latest/meta-data",
        "https://2852039166/latest",
        "https://169.254.43518/latest",
        "https://0xa9fea9fe/latest",
        "https://0/keys",
        "https://-idp.example/keys",
        "https://idp.example./keys",
        "https://idp.example/" + "a" * (2_049 - 20),
    ),
)
def test_odd_urls_are_refused(text: str) -> None:
    """Two parsers could disagree on where the keys are fetched from."""
    with pytest.raises(KeysUnusable):
        parse_key_url(text)
