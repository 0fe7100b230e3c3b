"""Ask an upstream catalog, as if every answer and redirect were hostile, and the network as unreliable as it is."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter, time
from typing import Protocol, TypeVar

import aiohttp
import msgspec
import yarl

from signproxy.catalog.token_exchange import TokenExchange
from signproxy.catalog.upstream_answer import UpstreamAnswer
from signproxy.catalog.upstream_fault import CallResult, Loss, UpstreamFault, UpstreamHealth, fault_of
from signproxy.catalog.upstream_spec import Effect, ExchangedToken, SameToken, Secret, ServiceToken, UpstreamSpec
from signproxy.errors import Refused, anew
from signproxy.outbound.client import PoolLimits, Timeouts, http_client
from signproxy.outbound.tls import client_tls, no_tls

T = TypeVar("T")

KEEPALIVE_SECONDS = 4.0
"""How long an idle connection is used again. Some servers close theirs after 5 s (uvicorn), and what is sent on a
connection that is being closed is lost."""

AGAIN_SECONDS = 0.1
"""Before a connection that was refused is tried once more: the other side may be exchanging its listener."""

_AUTO = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""What aiohttp would add by itself. An upstream is sent what the caller sent."""

_PART = 256 * 1024
_REPEATABLE = frozenset({"GET", "HEAD"})
_RESULTS = {
    Loss.UNSENT: CallResult.UNREACHABLE,
    Loss.LATE: CallResult.LATE,
    Loss.LOST: CallResult.LOST,
    Loss.INVALID: CallResult.INVALID,
}
_REDIRECTS = frozenset({300, 301, 302, 303, 305, 307, 308})


class Body(Protocol):
    """What a call carries."""

    @property
    def length(self) -> int | None:
        """Bytes; None where that is unknown before the end."""

    @property
    def fault(self) -> Refused | None:
        """Why it ended early; the call then failed because of that, and not of the upstream."""

    def parts(self) -> AsyncIterator[bytes]:
        """Return the content, from its beginning."""


class Whole:
    """A body that is there whole."""

    __slots__ = ("_content",)

    fault = None

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def length(self) -> int:
        return len(self._content)

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield it in parts that a transport takes at once."""
        for start in range(0, len(self._content), _PART):
            yield self._content[start : start + _PART]


class Question(msgspec.Struct, frozen=True):
    """One call to make. `target` is the raw path and query below the upstream's URI, sent byte for byte."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    effect: Effect = Effect.NONE
    body: Body | None = None
    within: float | None = None
    """Seconds for all of it; None where the answer may be long."""


def own_question(target: str, authorization: str | None, request_id: str, within: float) -> Question:
    """Return what signproxy asks for itself, and not for a call of a client; the id may be empty."""
    headers = [("Accept", "application/json"), ("Accept-Encoding", "identity")]
    if request_id:
        headers.append(("X-Request-ID", request_id))
    if authorization is not None:
        headers.append(("Authorization", authorization))
    return Question("GET", target, headers, within=within)


class _Lost(aiohttp.ClientError):
    """A connection ended; of a class that aiohttp itself does not send again on. It would repeat even a DELETE."""


class Upstream:
    """One upstream and its connections. Make it in the loop that uses it; `aclose` it there."""

    def __init__(
        self, spec: UpstreamSpec, tls: ssl.SSLContext, *, observe: Callable[[float], None] | None = None
    ) -> None:
        self.spec = spec
        self.health = UpstreamHealth(spec.catalog, spec.uri)
        """How it is doing."""
        self._observe = observe
        self._idle: asyncio.Future[None] | None = None
        self._calls = _client(spec, tls, keep_seconds=KEEPALIVE_SECONDS)
        # A commit has a connection of its own: on one that is used again there is no telling whether the other
        # side was just closing it, and a commit is never repeated.
        self._changes = _client(spec, tls, keep_seconds=0)
        forwarding = spec.forwarding
        self._exchange = (
            TokenExchange(forwarding, self._calls, spec.times) if isinstance(forwarding, ExchangedToken) else None
        )

    async def authorization(self, bearer: str, expires_at: float) -> str | None:
        """Return the Authorization header that stands for this caller. Raise Refused if there is none to be had."""
        if self._exchange is not None:
            return f"Bearer {await self._exchange.token_for(bearer, expires_at)}"
        match self.spec.forwarding:
            case SameToken():
                return f"Bearer {bearer}"
            case ServiceToken(token=Secret() as token):
                return f"Bearer {token.reveal()}"
            case _:
                return None

    async def ask(self, question: Question) -> UpstreamAnswer:
        """Return the answer once its head is there; to be closed. Raise Refused with a reason UPSTREAM_*.

        A change that was sent, and whose answer is lost, is UPSTREAM_TIMEOUT: never a status that lets a client
        believe that nothing happened.
        """
        self.health.in_flight += 1
        started = perf_counter()
        try:
            response = await self._head(question)
        except BaseException:
            self._closed()
            raise
        if self._observe is not None:
            self._observe(perf_counter() - started)
        self.health.answered(response.status, time())
        return UpstreamAnswer(response, self.spec, lambda fault: self._failed(fault, question), self._closed)

    async def idle(self) -> None:
        """Wait until the calls that are under way have their answers; for one that is asked nothing more."""
        if self.health.in_flight:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    async def aclose(self) -> None:
        """End every connection, whatever is under way."""
        if self._exchange is not None:
            await self._exchange.aclose()
        await self._calls.close()
        await self._changes.close()

    async def _head(self, question: Question) -> aiohttp.ClientResponse:
        try:
            return self._not_elsewhere(await self._send(question), question)
        except (aiohttp.ClientError, OSError) as error:
            fault = fault_of(error)
            again = fault.loss is Loss.UNSENT or (fault.loss is Loss.LOST and question.method in _REPEATABLE)
            if not again or question.within is not None:
                raise self._failed(fault, question) from None
            if fault.loss is Loss.UNSENT:
                await asyncio.sleep(AGAIN_SECONDS)
        try:
            return self._not_elsewhere(await self._send(question), question)
        except (aiohttp.ClientError, OSError) as error:
            raise self._failed(fault_of(error), question) from None

    def _not_elsewhere(self, response: aiohttp.ClientResponse, question: Question) -> aiohttp.ClientResponse:
        """Refuse to be sent elsewhere: what was sent here, the token above all, is for no other party."""
        if response.status in _REDIRECTS or response.status < 200:
            response.close()
            raise self._failed(UpstreamFault(Loss.INVALID, f"status {response.status}; nothing is followed"), question)
        return response

    def _send(self, question: Question) -> Awaitable[aiohttp.ClientResponse]:
        body, times = question.body, self.spec.times
        headers = question.headers
        if body is not None and body.length is not None:
            headers = [*headers, ("Content-Length", str(body.length))]
        session = self._calls if question.effect is Effect.NONE else self._changes
        return session.request(
            question.method,
            # `encoded`: sent byte for byte. A second parser's reading of the path is not what was judged.
            yarl.URL(f"{self.spec.uri}/{question.target}", encoded=True),
            headers=headers,
            data=None if body is None else body.parts(),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=question.within, connect=times.connect, sock_connect=times.connect, sock_read=times.answer
            ),
        )

    def _failed(self, fault: UpstreamFault, question: Question) -> Refused:
        if question.body is not None and question.body.fault is not None:
            return anew(question.body.fault)
        self.health.failed(_RESULTS[fault.loss], fault.problem, time())
        return Refused(fault.reason(question.effect), f"upstream of {self.spec.catalog!r}: {fault.problem}")

    def _closed(self) -> None:
        self.health.in_flight -= 1
        if not self.health.in_flight and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)


async def open_upstream(spec: UpstreamSpec, *, observe: Callable[[float], None] | None = None) -> Upstream:
    """Return an upstream that can be asked."""
    if any(url.startswith("https:") for url in (spec.uri, getattr(spec.forwarding, "url", ""))):
        # Reading the system's certificates takes milliseconds, during which the loop would serve no request.
        tls = await asyncio.to_thread(client_tls, "", spec.ca)
    else:
        tls = no_tls()
    return Upstream(spec, tls, observe=observe)


def _client(spec: UpstreamSpec, tls: ssl.SSLContext, *, keep_seconds: float) -> aiohttp.ClientSession:
    return http_client(
        tls,
        Timeouts(spec.times.connect, spec.times.answer),
        PoolLimits(spec.connections, keep_seconds),
        unsent=_AUTO,
        middleware=_once,
    )


async def _once(
    request: aiohttp.ClientRequest, send: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    try:
        return await send(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        # Nothing was sent.
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Lost(type(error).__name__) from None
