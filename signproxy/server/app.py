"""Handle requests: route, limit, identify, pass the gate, take the way, record, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, cast

import msgspec
from aiohttp import web

from signproxy.audit.event import Kind
from signproxy.audit.ids import new_event_id
from signproxy.catalog.carried import read_carried
from signproxy.catalog.client_config import DELEGATION_HEADER, client_config
from signproxy.config.settings import LimitSettings
from signproxy.credentials.store import CredentialStore
from signproxy.errors import Reason, Refused
from signproxy.gate.gate import CatalogAddress, Gate
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.model import Allow, Principal, Subject
from signproxy.s3.storage import Stamp
from signproxy.server import work
from signproxy.server.bodies import FOR_TOO_MUCH, hear_out, read_whole
from signproxy.server.calls import Call, find_call_of
from signproxy.server.facade import Facade
from signproxy.server.forsaken import forsake
from signproxy.server.key_calls import KeyCalls
from signproxy.server.limits import Hold, Limits
from signproxy.server.message import (
    MAX_BULK_MESSAGE,
    SignMessage,
    own_bearer,
    read_bearer,
    read_message,
    read_request_id,
    read_warehouse,
)
from signproxy.server.plain import Head
from signproxy.server.reply import Reply
from signproxy.server.routes import Endpoint, Route, find_route
from signproxy.server.s3.steering import Steering
from signproxy.server.wire import NO_CACHE, PRIVATE, answer, refusal
from signproxy.signing.sign import RequestSigner
from signproxy.telemetry.log import get_logger

if TYPE_CHECKING:
    from signproxy.server.exchange import Parsed

BODY_TIMEOUT = 10.0
"""Seconds for the body of a sign request to arrive; real ones come with the first packets."""

_log = get_logger("signproxy.server")

# Looking a member up in its class calls Python code; the hot path does without.
_SIGN = Endpoint.SIGN
_CALL = Endpoint.CALL
_KEYS = Endpoint.KEYS
_KIND_SIGN = Kind.SIGN
_QUERY = Stamp.QUERY
_WITHOUT_BODY = Reason.DELETE_WITHOUT_BODY


_STATE_UNKNOWN = frozenset({Reason.UPSTREAM_TIMEOUT, Reason.UPSTREAM_INVALID})
_STRANGERS = ""
"""Stands among the names of principals for all who ask for a token."""

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
        self.facade: Facade | None = None
        """Answers catalog calls; None where no catalog has an upstream."""
        self.keys: KeyCalls | None = None
        """Issues S3 keys; None where no listener takes any."""
        self.steering: Steering | None = None
        """Leads what cannot be signed safely to the S3 listener; None where that is switched off."""
        self.listener = ""
        """The URL of the S3 listener, for clients that sign by themselves; empty where they cannot be told one."""

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
        passage = _passage(self._gate, request.remote or "", headers)
        late: Hold | None = None
        try:
            route = find_route(request.raw_path.partition("?")[0])
            call = self._call_of(passage, route, request)
            if call is not None and call.asks_for_token:
                reply = await self._tokens(passage, call, request)
            else:
                token = read_bearer(headers.get("Authorization"))
                principal = self._authenticator.authenticate(token)
                if not isinstance(principal, Principal):
                    principal = await principal
                passage.subject = subject = Subject(principal, principal)
                late = self.limits.admit(principal.name, perf_counter_ns())
                with self.limits.waiting(principal.name):
                    if call is not None:
                        reply = await self._answer(passage, subject, call, request, token)
                    else:
                        reply = await self._own(passage, subject, route, request, token)
        except Refused as refused:
            reply = self._told(passage, refused)
            await hear_out(request, passage, refused.reason, reply)
        except (ConnectionError, web.RequestPayloadError) as gone:
            reply = self._refuse(passage, Refused(Reason.CLIENT_GONE, type(gone).__name__))
        except asyncio.CancelledError:
            self._refuse(passage, Refused(Reason.CLIENT_GONE, "cancelled"))
            raise
        except Exception:  # noqa: BLE001 - the outermost wrapper: a fault of ours is an answer, an event and a trace
            reply = self._fail(passage)
        if passage.call and self.facade is not None:
            self.facade.count(passage.call, reply.status)
        return self._finished(reply, late)

    def at_once(self, head: Head, remote: str, body: bytes) -> Reply | None:
        """Answer a POST that is there whole; None, and no event, where something has to be waited for.

        The same steps in the same order as `__call__`, without a task: nearly every sign request is one of these.
        """
        passage = _passage(self._gate, remote, head.headers)
        late: Hold | None = None
        try:
            path, _, query = head.path.partition("?")
            route = find_route(path)
            if route.endpoint is not _SIGN:
                if route.endpoint is _CALL and self.facade is None:
                    raise Refused(Reason.ROUTE_UNKNOWN, f"path {path!r}")  # noqa: TRY301
                return None
            authenticator = self._authenticator
            principal = authenticator.again(head.known)
            if principal is None:
                found = authenticator.authenticate(read_bearer(head.headers.get("Authorization")))
                # An exact type: `isinstance` against an abstract class costs more than the decision.
                if type(found) is not Principal:
                    forsake(found)
                    return None
                principal = found
                head.known = authenticator.known(principal)
            passage.subject = subject = Subject(principal, principal)
            # Before anything that costs more than knowing who asks.
            late = self.limits.admit(principal.name, passage.started_ns)
            message, charged = read_message(body), 0
            if message.body:
                charged = work.of_bulk_delete(message.body)
                self.limits.charge(principal.name, charged, passage.started_ns)
            if query or message.properties is not None:
                self._note(passage, subject, message, query)
            if self.facade is not None:
                passage.bearer = own_bearer(head.headers)
            allowed = self._gate.judge(passage, subject, route.address, route.target, message)
            if type(allowed) is not Allow:
                forsake(allowed)
                self.limits.give_back(principal.name, charged)
                return None
            reply = self._sign(passage, subject, allowed)
        except Refused as refused:
            reply = self._told(passage, refused)
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

    def _call_of(self, passage: Passage, route: Route, request: web.BaseRequest) -> Call | None:
        """Return the catalog call that a route is; None for the others. Raise Refused for what is no route."""
        if route.endpoint is _CALL:
            if self.facade is None:
                raise Refused(Reason.ROUTE_UNKNOWN, f"path {request.raw_path!r}")
            passage.kind = Kind.CATALOG
            passage.method = request.method
            call = find_call_of(route, request.method)
            passage.call = call.name
            return call
        if route.endpoint is _KEYS and self.keys is None:
            raise Refused(Reason.ROUTE_UNKNOWN, "no listener takes keys that would be issued here")
        if route.endpoint.method != request.method:
            raise Refused(Reason.METHOD_NOT_ALLOWED, f"{request.method} {request.raw_path!r}")
        if route.endpoint is _KEYS:
            passage.kind = Kind.ISSUE
        elif route.endpoint is not _SIGN:
            passage.kind = Kind.CONFIG
        return None

    async def _own(
        self, passage: Passage, subject: Subject, route: Route, request: web.BaseRequest, token: str
    ) -> Reply:
        """Answer what is no catalog call."""
        if route.endpoint is _SIGN:
            return await self._judge(passage, subject, route, request, token)
        if route.endpoint is _KEYS and self.keys is not None:
            if self.facade is not None:
                passage.bearer = self._authenticator.upstream_bearer(token)
            return await self.keys.answer(passage, subject, route.address, request)
        return await self._config(passage, subject, route, request, token)

    async def _judge(
        self, passage: Passage, subject: Subject, route: Route, request: web.BaseRequest, token: str
    ) -> Reply:
        content = request.content
        body = content.read_nowait() if content.is_eof() else await read_whole(request, MAX_BULK_MESSAGE, BODY_TIMEOUT)
        name, charged = subject.caller.name, work.of_bytes(len(body))
        self.limits.charge(name, charged, perf_counter_ns())
        message = read_message(body)
        query = request.raw_path.partition("?")[2]
        if query or message.properties is not None:
            self._note(passage, subject, message, query)
        if self.facade is not None:
            passage.bearer = self._authenticator.upstream_bearer(token)
        if not message.body:
            allowed = self._gate.judge(passage, subject, route.address, route.target, message)
        else:
            self.limits.charge(name, work.of_bulk_delete(message.body), perf_counter_ns(), own=charged)
            allowed = self._gate.judge_bulk(passage, subject, route.address, route.target, message)
        return self._sign(passage, subject, allowed if isinstance(allowed, Allow) else await allowed)

    def _note(self, passage: Passage, subject: Subject, message: SignMessage, query: str) -> None:
        """Take note of what a sign request carries."""
        carried = read_carried(message.properties, query)
        if carried is None:
            return
        passage.application, passage.query_id = carried.application, carried.query_id
        if carried.context and self.facade is not None:
            passage.carried = self.facade.carried(carried.context, subject, passage.wall)

    async def _answer(
        self, passage: Passage, subject: Subject, call: Call, request: web.BaseRequest, token: str
    ) -> Reply:
        facade = self.facade
        assert facade is not None  # noqa: S101 - without one nothing is a call
        with cast("Parsed", request.protocol).connection.needed():
            account = work.Account(self.limits, subject.caller.name)
            reply = await facade.answer(passage, subject, token, call.address, call.call, request, account)
        reply.known = True
        await hear_out(request, passage, Reason.ALLOWED, reply)
        return reply

    async def _tokens(self, passage: Passage, call: Call, request: web.BaseRequest) -> Reply:
        """Answer a request for a token: its caller has nothing to show yet, and counts as a stranger until it has."""
        facade = self.facade
        assert facade is not None  # noqa: S101 - without one nothing is a call
        if self.limits.stranger(perf_counter_ns()) is not None:
            raise Refused(Reason.RATE_LIMITED, "requests for tokens")
        with self.limits.waiting(_STRANGERS), cast("Parsed", request.protocol).connection.needed():
            reply = await facade.tokens(passage, call.address, request)
        if reply.known:
            self.limits.proved()
        return reply

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

    def _told(self, passage: Passage, refused: Refused) -> Reply:
        """Return the way to the S3 listener for what only it can judge; the refusal of everything else."""
        steering, subject, wire = self.steering, passage.subject, passage.wire
        if refused.reason is _WITHOUT_BODY and steering is not None and subject is not None and wire is not None:
            try:
                steered = steering.steer(passage, subject, self._gate.state.catalogs[passage.catalog], wire)
                if steered is not None:
                    self._recorder.passed(passage, 200, "bulk delete without body, led to the S3 listener")
                    return answer(steered, passage.request_id)
            except Refused as other:
                return self._refuse(passage, other)
            except Exception:  # noqa: BLE001 - no other wrapper is around this one
                return self._fail(passage)
        return self._refuse(passage, refused)

    async def _config(
        self, passage: Passage, subject: Subject, route: Route, request: web.BaseRequest, token: str
    ) -> Reply:
        address = CatalogAddress(route.address.name, read_warehouse(request.raw_path.partition("?")[2]))
        if self.facade is not None:
            with cast("Parsed", request.protocol).connection.needed():
                reply = await self.facade.config(passage, subject, token, address, request)
            if reply is not None:
                reply.known = True
                return reply
        state, signing = self._gate.state, True
        try:
            catalog = self._gate.catalog(passage, state, subject, address)
        except Refused as refused:
            if refused.reason not in (Reason.REMOTE_SIGNING_OFF, Reason.CATALOG_FEDERATED):
                raise
            catalog, signing = state.catalogs[passage.catalog], False
        asked = request.headers.get(DELEGATION_HEADER, "")
        config = client_config(catalog, self._public_url, signing=signing, delegation=asked, listener=self.listener)
        self._recorder.answered(passage)
        return answer(config, passage.request_id)

    def _fail(self, passage: Passage) -> Reply:
        _log.exception("request failed", request_id=passage.request_id)
        return self._refuse(passage, Refused(Reason.INTERNAL))

    def _refuse(self, passage: Passage, refused: Refused) -> Reply:
        try:
            self._recorder.refused(passage, refused.reason, refused.detail)
        except Refused as unrecorded:
            # The audit trail took neither: nothing is served, a refusal least of all. That a change may have been made
            # has to be told all the same: a client that believes it was not would undo what is there.
            if refused.reason not in _STATE_UNKNOWN:
                # Not itself: this frame, which is in its traceback, would keep it.
                refused = Refused(unrecorded.reason)
        reply = refusal(refused, passage.request_id)
        if passage.subject is None:
            reply.hold = self.limits.stranger(perf_counter_ns())
        elif refused.reason in FOR_TOO_MUCH:
            reply.hold = self.limits.callers.penalty()
        return reply


def _passage(gate: Gate, remote: str, headers: Mapping[str, str]) -> Passage:
    event_id = new_event_id()
    request_id = read_request_id(headers.get("X-Request-Id"), event_id)
    return Passage(_KIND_SIGN, event_id, request_id, remote, headers.get("User-Agent", ""), gate.state)
