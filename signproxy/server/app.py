"""Handle requests: route, limit, identify, pass the gate, take the way, record, answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from time import perf_counter_ns

import msgspec
from aiohttp import web

from signproxy.audit.event import Kind
from signproxy.audit.ids import new_event_id
from signproxy.catalog.client_config import DELEGATION_HEADER, client_config
from signproxy.config.settings import LimitSettings
from signproxy.credentials.store import CredentialStore
from signproxy.errors import Reason, Refused
from signproxy.gate.gate import CatalogAddress, Gate
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.model import Allow, Principal, Subject
from signproxy.s3.query import parse_query
from signproxy.s3.storage import Stamp
from signproxy.server.limits import BYTES_PER_REQUEST, Hold, Limits
from signproxy.server.message import MAX_BULK_MESSAGE, MAX_MESSAGE, read_bearer, read_message, read_request_id
from signproxy.server.plain import Head
from signproxy.server.reply import Reply
from signproxy.server.routes import Endpoint, Route, find_route
from signproxy.server.wire import NO_CACHE, PRIVATE, answer, refusal
from signproxy.signing.sign import RequestSigner
from signproxy.telemetry.log import get_logger

BODY_TIMEOUT = 10.0
"""Seconds for the body of a sign request to arrive; real ones come with the first packets."""

DISCARD_SECONDS = 2.0
"""For what is left of the body of a refused request: the refusal reaches only a client that was heard out."""

_log = get_logger("signproxy.server")

# Looking a member up in its class calls Python code; the hot path does without.
_SIGN = Endpoint.SIGN
_KIND_SIGN = Kind.SIGN
_QUERY = Stamp.QUERY

_FOR_TOO_MUCH = frozenset({Reason.RATE_LIMITED, Reason.IN_FLIGHT_LIMITED})
_NOT_HEARD_OUT = frozenset({Reason.BODY_TIMEOUT, Reason.CLIENT_GONE})

_HINT = 4
"""Last characters of the access key id that the audit keeps."""


class ClientCache(msgspec.Struct, frozen=True):
    """Whether GET and HEAD answers may be kept by the client; off unless the operator switched it on."""

    reads: bool = False


class Handler:
    """The one request handler. Callable, as `aiohttp.web.Server` wants it."""

    def __init__(
        self,
        *,
        gate: Gate,
        authenticator: Authenticator,
        credentials: CredentialStore,
        signer: RequestSigner,
        recorder: Recorder,
        public_url: str,
        client_cache: ClientCache,
    ) -> None:
        self.limits = Limits(LimitSettings())
        self._draining = False
        self._gate = gate
        self._authenticator = authenticator
        self._credentials = credentials
        self._signer = signer
        self._recorder = recorder
        self._public_url = public_url
        self._client_cache = client_cache

    def reconfigure(
        self,
        *,
        gate: Gate,
        signer: RequestSigner,
        public_url: str,
        client_cache: ClientCache,
        limits: LimitSettings,
    ) -> None:
        """Answer by other settings from the next request on."""
        self.limits.replace(limits)
        self._gate = gate
        self._signer = signer
        self._public_url = public_url
        self._client_cache = client_cache

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return self.limits.connections.open

    @property
    def in_flight(self) -> int:
        """Requests that are waited for."""
        return self.limits.in_flight

    def drain(self) -> None:
        """Let every connection end with its next answer, so that clients go elsewhere without losing a request."""
        self._draining = True

    async def __call__(self, request: web.BaseRequest) -> Reply:
        """Answer a request; whatever happens, exactly one event closes it."""
        headers = request.headers
        passage = _passage(request.remote or "", headers)
        late: Hold | None = None
        try:
            path, _, query = request.raw_path.partition("?")
            route = find_route(path)
            if route.endpoint.method != request.method:
                raise Refused(Reason.METHOD_NOT_ALLOWED, f"{request.method} {path!r}")  # noqa: TRY301
            if route.endpoint is not _SIGN:
                passage.kind = Kind.CONFIG
            principal = self._authenticator.authenticate(read_bearer(headers.get("Authorization")))
            if not isinstance(principal, Principal):
                principal = await principal
            passage.subject = subject = Subject(principal, principal)
            late = self.limits.admit(principal.name, perf_counter_ns())
            with self.limits.waiting(principal.name):
                if route.endpoint is _SIGN:
                    reply = await self._judge(passage, subject, route, request)
                else:
                    reply = self._config(passage, subject, route, request, query)
        except Refused as refused:
            reply = self._refuse(passage, refused.reason, refused.detail)
            await _hear_out(request, passage, refused.reason, reply)
        except (ConnectionError, web.RequestPayloadError) as gone:
            reply = self._refuse(passage, Reason.CLIENT_GONE, type(gone).__name__)
        except asyncio.CancelledError:
            self._refuse(passage, Reason.CLIENT_GONE, "cancelled")
            raise
        except Exception:  # noqa: BLE001 - the outermost wrapper: a fault of ours is an answer, an event and a trace
            reply = self._fail(passage)
        return self._finished(reply, late)

    def at_once(self, head: Head, remote: str, body: bytes) -> Reply | None:
        """Answer a POST that is there whole; None, and no event, where something has to be waited for.

        The same steps in the same order as `__call__`, without a task: nearly every sign request is one of these.
        """
        passage = _passage(remote, head.headers)
        late: Hold | None = None
        try:
            route = find_route(head.path.partition("?")[0])
            if route.endpoint is not _SIGN:
                return None
            authenticator = self._authenticator
            principal = authenticator.again(head.known)
            if principal is None:
                found = authenticator.authenticate(read_bearer(head.headers.get("Authorization")))
                # An exact type: `isinstance` against an abstract class costs more than the decision.
                if type(found) is not Principal:
                    _forsake(found)
                    return None
                principal = found
                head.known = authenticator.known(principal)
            passage.subject = subject = Subject(principal, principal)
            # Before anything that costs more than knowing who asks.
            late = self.limits.admit(principal.name, passage.started_ns)
            if len(body) >= BYTES_PER_REQUEST:
                self.limits.charge(principal.name, len(body))
            allowed = self._gate.judge(passage, subject, route.address, route.target, read_message(body))
            if type(allowed) is not Allow:
                _forsake(allowed)
                self.limits.give_back(principal.name, len(body))
                return None
            reply = self._sign(passage, subject, allowed)
        except Refused as refused:
            reply = self._refuse(passage, refused.reason, refused.detail)
        except Exception:  # noqa: BLE001 - see `__call__`
            reply = self._fail(passage)
        if late is not None or self._draining:
            return self._finished(reply, late)
        return reply

    def _finished(self, reply: Reply, late: Hold | None) -> Reply:
        """Return the answer as the connection has to treat it."""
        if reply.hold is None:
            reply.hold = late
        if self._draining:
            reply.closes = True
        return reply

    async def _judge(self, passage: Passage, subject: Subject, route: Route, request: web.BaseRequest) -> Reply:
        content = request.content
        body = content.read_nowait() if content.is_eof() else await _read_body(request)
        self.limits.charge(subject.caller.name, len(body))
        allowed = self._gate.judge(passage, subject, route.address, route.target, read_message(body))
        return self._sign(passage, subject, allowed if isinstance(allowed, Allow) else await allowed)

    def _sign(self, passage: Passage, subject: Subject, allow: Allow) -> Reply:
        judged = passage.request
        assert judged is not None  # noqa: S101 - an Allow stands on a classified request
        passage.judged_ns = perf_counter_ns()
        credentials = self._credentials.current(judged.storage, judged.bucket)
        signer, now = self._signer, passage.wall
        signed = signer.sign(allow, judged, credentials, event_id=passage.event_id, now=now)
        passage.expires_at = signer.expires_at(now)
        passage.stamped = judged.storage.stamp is _QUERY
        passage.access_key_id = credentials.access_key_id[-_HINT:]
        cache = NO_CACHE
        # Any other answer could be replayed by the client's cache for another body, or after a revoke.
        if self._client_cache.reads and judged.method in ("GET", "HEAD") and not subject.delegated:
            cache = PRIVATE
            passage.cacheable = True
        self._recorder.signed(passage, allow)
        return answer(signed, passage.request_id, cache)

    def _config(self, passage: Passage, subject: Subject, route: Route, request: web.BaseRequest, query: str) -> Reply:
        address = CatalogAddress(route.address.name, _warehouse(query))
        signing = True
        state = self._gate.state
        try:
            catalog = self._gate.catalog(passage, state, subject, address)
        except Refused as refused:
            if refused.reason not in (Reason.REMOTE_SIGNING_OFF, Reason.CATALOG_FEDERATED):
                raise
            catalog, signing = state.catalogs[passage.catalog], False
        config = client_config(
            catalog, self._public_url, signing=signing, delegation=request.headers.get(DELEGATION_HEADER, "")
        )
        self._recorder.answered(passage)
        return answer(config, passage.request_id)

    def _fail(self, passage: Passage) -> Reply:
        _log.exception("request failed", request_id=passage.request_id)
        return self._refuse(passage, Reason.INTERNAL, "")

    def _refuse(self, passage: Passage, reason: Reason, detail: str) -> Reply:
        try:
            self._recorder.refused(passage, reason, detail)
        except Refused as refused:
            # The audit trail took neither: nothing is served, a refusal least of all.
            reason = refused.reason
        reply = refusal(reason, passage.request_id)
        if passage.subject is None:
            reply.hold = self.limits.stranger(perf_counter_ns())
        elif reason in _FOR_TOO_MUCH:
            reply.hold = self.limits.callers.penalty()
        return reply


def _passage(remote: str, headers: Mapping[str, str]) -> Passage:
    event_id = new_event_id()
    return Passage(
        _KIND_SIGN,
        event_id,
        read_request_id(headers.get("X-Request-Id"), event_id),
        remote,
        headers.get("User-Agent", ""),
    )


def _forsake(awaitable: object) -> None:
    """Close a coroutine that is not going to be awaited: whoever waits begins anew."""
    if isinstance(awaitable, Coroutine):
        awaitable.close()


async def _read_body(request: web.BaseRequest) -> bytes:
    """Read at most the largest message; what lies beyond is not read."""
    length = request.content_length
    if length is not None and length > MAX_BULK_MESSAGE:
        raise Refused(Reason.BODY_TOO_LARGE, f"{length} bytes announced")
    chunks = bytearray()
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # An interim answer is none: aiohttp takes a started one for a reason not to send an error.
        request.writer.output_size = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            while chunk := await request.content.readany():
                chunks += chunk
                if len(chunks) > MAX_BULK_MESSAGE:
                    raise Refused(Reason.BODY_TOO_LARGE, f"more than {MAX_BULK_MESSAGE} bytes")
    except TimeoutError:
        raise Refused(Reason.BODY_TIMEOUT, f"{len(chunks)} bytes in {BODY_TIMEOUT:.0f} s") from None
    return bytes(chunks)


async def _hear_out(request: web.BaseRequest, passage: Passage, reason: Reason, reply: Reply) -> None:
    """Read and forget what is left of a refused request's body; end the connection if that is too much."""
    content = request.content
    if content.is_eof():
        return
    closes, reply.closes = reply.closes, True
    if reason in _NOT_HEARD_OUT or "Expect" in request.headers:
        return
    # Whoever is not known, or asks too much, cannot make the server read more than a message.
    left = MAX_MESSAGE if passage.subject is None or reason in _FOR_TOO_MUCH else 2 * MAX_BULK_MESSAGE
    with contextlib.suppress(TimeoutError, ConnectionError, web.RequestPayloadError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while left > 0 and (chunk := await content.readany()):
                left -= len(chunk)
    reply.closes = closes or not content.is_eof()


def _warehouse(query: str) -> str | None:
    """Return the catalog that `?warehouse=` names, if any."""
    return parse_query(query).get("warehouse") if query else None
