"""Handle requests: route, limit, identify, pass the gate, take the way, record, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from time import perf_counter_ns

import msgspec
from aiohttp import web

from signproxy.audit.event import Kind
from signproxy.audit.ids import new_event_id
from signproxy.catalog.client_config import DELEGATION_HEADER, client_config
from signproxy.credentials.store import CredentialStore
from signproxy.errors import Reason, Refused
from signproxy.gate.gate import CatalogAddress, Gate
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.model import Allow, Principal, Subject
from signproxy.s3.query import parse_query
from signproxy.s3.storage import Stamp
from signproxy.server.message import MAX_BULK_MESSAGE, read_bearer, read_message, read_request_id
from signproxy.server.reply import Reply
from signproxy.server.routes import Endpoint, Route, find_route
from signproxy.server.wire import NO_CACHE, PRIVATE, answer, refusal
from signproxy.signing.sign import RequestSigner
from signproxy.telemetry.log import get_logger

BODY_TIMEOUT = 10.0
"""Seconds for the body of a sign request to arrive; real ones come with the first packets."""

_log = get_logger("signproxy.server")

# Looking a member up in its class calls Python code; the hot path does without.
_SIGN = Endpoint.SIGN
_KIND_SIGN = Kind.SIGN
_QUERY = Stamp.QUERY

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
        self._gate = gate
        self._authenticator = authenticator
        self._credentials = credentials
        self._signer = signer
        self._recorder = recorder
        self._public_url = public_url
        self._client_cache = client_cache

    async def __call__(self, request: web.BaseRequest) -> Reply:
        """Answer a request; whatever happens, exactly one event closes it."""
        headers = request.headers
        passage = _passage(request.remote or "", headers)
        try:
            path, _, query = request.raw_path.partition("?")
            route = find_route(path)
            if route.endpoint.method != request.method:
                raise Refused(Reason.METHOD_NOT_ALLOWED, f"{request.method} {path!r}")  # noqa: TRY301
            if route.endpoint is not _SIGN:
                return await self._config(passage, route, request, query)
            principal = self._authenticator.authenticate(read_bearer(headers.get("Authorization")))
            # An exact type: `isinstance` against an abstract class costs more than the decision.
            if type(principal) is not Principal:
                principal = await principal  # type: ignore[misc]  # else it is awaitable
            passage.subject = subject = Subject(principal, principal)
            content = request.content
            body = content.read_nowait() if content.is_eof() else await _read_body(request)
            allowed = self._gate.judge(passage, subject, route.address, route.target, read_message(body))
            return self._sign(passage, subject, allowed if type(allowed) is Allow else await allowed)  # type: ignore[misc]
        except Refused as refused:
            return self._refuse(passage, refused.reason, refused.detail)
        except (ConnectionError, web.RequestPayloadError) as gone:
            return self._refuse(passage, Reason.CLIENT_GONE, type(gone).__name__)
        except asyncio.CancelledError:
            self._refuse(passage, Reason.CLIENT_GONE, "cancelled")
            raise
        except Exception:  # noqa: BLE001 - the outermost wrapper: a fault of ours is an answer, an event and a trace
            return self._fail(passage)

    def at_once(self, raw_path: str, headers: Mapping[str, str], remote: str, body: bytes) -> Reply | None:
        """Answer a POST that is there whole; None, and no event, where something has to be waited for.

        The same steps in the same order as `__call__`, without a task: nearly every sign request is one of these.
        """
        passage = _passage(remote, headers)
        try:
            route = find_route(raw_path.partition("?")[0])
            if route.endpoint is not _SIGN:
                return None
            principal = self._authenticator.authenticate(read_bearer(headers.get("Authorization")))
            if type(principal) is not Principal:
                _forsake(principal)
                return None
            passage.subject = subject = Subject(principal, principal)
            allowed = self._gate.judge(passage, subject, route.address, route.target, read_message(body))
            if type(allowed) is not Allow:
                _forsake(allowed)
                return None
            return self._sign(passage, subject, allowed)
        except Refused as refused:
            return self._refuse(passage, refused.reason, refused.detail)
        except Exception:  # noqa: BLE001 - see `__call__`
            return self._fail(passage)

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

    async def _config(self, passage: Passage, route: Route, request: web.BaseRequest, query: str) -> Reply:
        passage.kind = Kind.CONFIG
        principal = self._authenticator.authenticate(read_bearer(request.headers.get("Authorization")))
        if not isinstance(principal, Principal):
            principal = await principal
        passage.subject = subject = Subject(principal, principal)
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
        return refusal(reason, passage.request_id)


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


def _warehouse(query: str) -> str | None:
    """Return the catalog that `?warehouse=` names, if any."""
    return parse_query(query).get("warehouse") if query else None
