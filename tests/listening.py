"""Serve a handler as the product serves it, to pytest-aiohttp's client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

from aiohttp import DummyCookieJar, UnixConnector
from aiohttp.test_utils import BaseTestServer, TestClient
from aiohttp.typedefs import StrOrURL
from pytest_aiohttp.plugin import AiohttpClient
from yarl import URL

from signproxy.server.api.listener import Listener, RequestHandler
from signproxy.server.process.sockets import bind_tcp, bind_unix

Client = TestClient[Any, None]


class ListenerServer(BaseTestServer):
    """The product's own listener, with its parser, its limits and its way to end, as a server of aiohttp's tests.

    aiohttp's own test servers drop options that they do not know, and with them the limits. This one takes none.
    """

    def __init__(
        self, handler: RequestHandler, *, unix: Path | None = None, section: str = "listen", grace: float = 1.0
    ) -> None:
        super().__init__()
        self._handler = handler
        self.unix = unix
        self._section = section
        self._grace = grace
        self._listener: Listener | None = None

    async def start_server(self, loop: object = None, **options: Any) -> None:
        """Serve on a free port of loopback, or on the Unix socket."""
        if options:
            raise TypeError(f"these options would have no effect: {', '.join(options)}")
        if self._listener is None:
            sockets = (bind_unix(self.unix, 0o600).socket,) if self.unix else bind_tcp(self.host, 0)
            self._listener = await Listener.open(self._handler, sockets, section=self._section)
            self.port = 0 if self.unix else sockets[0].getsockname()[1]
            self._root = URL("http://localhost" if self.unix else f"http://{self.host}:{self.port}")

    async def _make_runner(self, **_options: Any) -> NoReturn:
        raise TypeError("the listener runs by itself")

    @property
    def started(self) -> bool:
        return self._listener is not None

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        assert self._root is not None
        return str(self._root.origin())

    def make_url(self, path: StrOrURL) -> URL:
        """Return the URL of a path and query, which are sent as they are written."""
        return URL(f"{self.url}{path}", encoded=True)

    async def close(self) -> None:
        """Let requests in flight be answered, then end every connection."""
        if self._listener is not None and not self.closed:
            self._closed = True
            await self._listener.finish(self._grace)


ClientOf = Callable[[ListenerServer], Awaitable[Client]]
"""Starts a server, and returns a client of it."""


def client_options(server: ListenerServer) -> dict[str, Any]:
    """Return how a client is made that keeps no cookies, and shows bodies as they arrive."""
    options: dict[str, Any] = {"cookie_jar": DummyCookieJar(), "auto_decompress": False}
    return options | ({"connector": UnixConnector(str(server.unix))} if server.unix else {})


async def connect(aiohttp_client: AiohttpClient, server: ListenerServer) -> Client:
    """Return pytest-aiohttp's client of a server that runs until the test ends."""
    return await aiohttp_client(server, **client_options(server))


async def started_client(server: ListenerServer) -> Client:
    """Return the same client, to be closed by its user: for rigs, and for loops of a test's own."""
    client: Client = TestClient(server, **client_options(server))
    await client.start_server()
    return client
