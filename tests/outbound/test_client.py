"""The clients that signproxy makes: whom they believe, how long they wait, and what they never do."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pytest_aiohttp.plugin import AiohttpServer

from signproxy.outbound.client import PoolLimits, Timeouts, http_client
from signproxy.outbound.tls import client_tls, no_tls
from tests.authority import Authority
from tests.waiting import until

PATIENT = Timeouts(5.0, 5.0, 5.0)


class Scene:
    """A server that counts connections, sets a cookie, compresses what it can and redirects."""

    def __init__(self) -> None:
        self.asked: list[web.Request] = []
        self.peers: set[object] = set()
        self.pause = 0.0
        self.app = web.Application()
        self.app.router.add_route("*", "/{path:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        assert request.transport is not None
        self.peers.add(request.transport.get_extra_info("peername"))
        await asyncio.sleep(self.pause)
        headers = {"Content-Encoding": "gzip", "Set-Cookie": "session=1; Path=/"}
        return web.Response(body=b"\x1f\x8b is no gzip", headers=headers)


def tls_server(authority: Authority, directory: Path) -> ssl.SSLContext:
    authority.issue().write(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context


async def https(aiohttp_server: AiohttpServer, authority: Authority, directory: Path) -> TestServer:
    return await aiohttp_server(Scene().app, ssl=tls_server(authority, directory))


async def test_a_server_is_believed_by_the_authorities_that_were_named(
    aiohttp_server: AiohttpServer, tmp_path: Path
) -> None:
    """A private store or catalog could not be reached, or any server could take its place."""
    authority, stranger = Authority(), Authority()
    server = await https(aiohttp_server, authority, tmp_path)
    file = tmp_path / "ca.pem"
    file.write_text(authority.pem)
    for tls in (client_tls(str(file)), client_tls(ca=authority.pem)):
        async with http_client(tls, PATIENT, PoolLimits(1)) as client, client.get(server.make_url("/")) as answer:
            assert answer.status == 200
    for tls in (client_tls(ca=stranger.pem), no_tls()):
        async with http_client(tls, PATIENT, PoolLimits(1)) as client:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await client.get(server.make_url("/"))


async def test_a_certificate_for_another_name_is_not_believed(aiohttp_server: AiohttpServer, tmp_path: Path) -> None:
    """A host with any certificate of the same authority could read the tokens of every caller."""
    authority = Authority()
    authority.issue("other.example").write(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    server = await aiohttp_server(Scene().app, ssl=context)
    async with http_client(client_tls(ca=authority.pem), PATIENT, PoolLimits(1)) as client:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.get(server.make_url("/"))


def test_a_tls_context_verifies_and_speaks_what_we_speak() -> None:
    """TLS 1.0 can be broken, and after HTTP/2 was agreed on, an answer in it would be a fault."""
    for context in (client_tls(), no_tls()):
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert no_tls().get_ca_certs() == []


@pytest.mark.parametrize("given", ({"ca": "no certificate"}, {"ca_file": __file__}, {"ca_file": "/nonexistent"}))
def test_authorities_that_are_none_are_found_before_anything_connects(given: dict[str, str]) -> None:
    """A reload would put a client in force that trusts no server."""
    with pytest.raises((OSError, ssl.SSLError, ValueError)):
        client_tls(**given)


async def test_no_proxy_of_the_environment_is_asked(
    aiohttp_server: AiohttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that was meant for something else would show every caller's token to the proxy."""
    scene, proxy = Scene(), Scene()
    server, between = await aiohttp_server(scene.app), await aiohttp_server(proxy.app)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, str(between.make_url("/")))
        monkeypatch.setenv(name.upper(), str(between.make_url("/")))
    async with http_client(no_tls(), PATIENT, PoolLimits(1)) as client, client.get(server.make_url("/")) as answer:
        assert answer.status == 200
    assert (len(scene.asked), proxy.asked) == (1, [])


async def test_nothing_of_an_answer_is_kept_or_unfolded(aiohttp_server: AiohttpServer) -> None:
    """A cookie would be the next caller's session, and a kilobyte could unfold to a gigabyte."""
    scene = Scene()
    server = await aiohttp_server(scene.app)
    async with http_client(no_tls(), PATIENT, PoolLimits(1, 5.0), unsent=("User-Agent",)) as client:
        for _ in range(2):
            async with client.get(server.make_url("/")) as answer:
                assert await answer.read() == b"\x1f\x8b is no gzip"
    assert [{"Cookie", "User-Agent"} & set(request.headers) for request in scene.asked] == [set(), set()]
    assert len(scene.peers) == 1


async def test_a_client_that_keeps_no_connection_opens_one_for_each_request(aiohttp_server: AiohttpServer) -> None:
    """A change would be sent on a connection that the other side is closing, and is never sent again."""
    scene = Scene()
    server = await aiohttp_server(scene.app)
    async with http_client(no_tls(), PATIENT, PoolLimits(1)) as client:
        for _ in range(3):
            await (await client.post(server.make_url("/"))).read()
    assert len(scene.peers) == 3


@pytest.mark.parametrize("timeouts", (Timeouts(5.0, 0.05), Timeouts(5.0, 5.0, 0.05)))
async def test_a_server_that_says_nothing_is_given_up(aiohttp_server: AiohttpServer, timeouts: Timeouts) -> None:
    """A caller would wait as long as the other server likes."""
    scene = Scene()
    scene.pause = 10.0
    server = await aiohttp_server(scene.app)
    async with http_client(no_tls(), timeouts, PoolLimits(1)) as client:
        with pytest.raises(TimeoutError):
            await client.get(server.make_url("/"))


async def test_a_connection_that_is_not_to_be_had_is_given_up(aiohttp_server: AiohttpServer) -> None:
    """Requests would pile up behind one that hangs."""
    scene = Scene()
    scene.pause = 10.0
    server = await aiohttp_server(scene.app)
    async with http_client(no_tls(), Timeouts(0.05, 5.0), PoolLimits(1)) as client:
        first = asyncio.ensure_future(client.get(server.make_url("/")))
        await until(lambda: scene.asked)
        with pytest.raises(TimeoutError):
            await client.get(server.make_url("/"))
        first.cancel()


async def test_an_address_that_is_off_limits_is_not_connected_to(aiohttp_server: AiohttpServer) -> None:
    """A name that resolves to an internal address would let an outsider's URL reach it."""
    scene = Scene()
    server = await aiohttp_server(scene.app)

    def refuse(_: object) -> None:
        raise PermissionError(13, "off limits")

    async with http_client(no_tls(), PATIENT, PoolLimits(1), open_socket=refuse) as client:  # type: ignore[arg-type]  # it never returns
        with pytest.raises(aiohttp.ClientConnectorError, match="off limits"):
            await client.get(server.make_url("/"))
    assert scene.asked == []


LEAN = """
import asyncio, sys
from signproxy.server.process.lean import lean_imports
with lean_imports():
    import aiohttp
from signproxy.outbound.client import PoolLimits, Timeouts, http_client
from signproxy.outbound.tls import client_tls
async def main():
    async with http_client(client_tls(), Timeouts(5, 5), PoolLimits(1)) as client:
        async with client.get(sys.argv[1]) as answer:
            print(answer.status)
asyncio.run(main())
"""


async def test_a_client_of_a_serving_process_believes_the_systems_authorities(
    aiohttp_server: AiohttpServer, tmp_path: Path
) -> None:
    """A server imports aiohttp so that its own context trusts no authority: a client with that one reaches no host."""
    authority = Authority()
    server = await https(aiohttp_server, authority, tmp_path)
    (tmp_path / "ca.pem").write_text(authority.pem)
    environment = {"SSL_CERT_FILE": str(tmp_path / "ca.pem"), "PYTHONPATH": ":".join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEAN, str(server.make_url("/")), env=environment, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output == b"200\n"
