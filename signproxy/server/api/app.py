"""Handle requests of the API: route, identify, limit, pass the gate, take the way, record, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter_ns

from aiohttp import web

from signproxy.answers.bodies import FOR_TOO_MUCH, MAX_BULK_MESSAGE, hear_out, read_whole
from signproxy.answers.reply import Reply
from signproxy.answers.wire import NO_CACHE, PRIVATE, answer, refusal
from signproxy.audit.event import Kind
from signproxy.audit.ids import new_event_id
from signproxy.catalog.carried import read_carried
from signproxy.errors import Reason, Refused
from signproxy.gate import work
from signproxy.gate.begun import Waiting, begin, waited
from signproxy.gate.limits import Limits
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.model import Principal, Subject
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Stamp
from signproxy.server.api.catalog_calls import answer_call, answer_config, answer_token_request, call_of
from signproxy.server.api.message import SignMessage, read_bearer, read_message, read_request_id
from signproxy.server.api.plain import Head
from signproxy.server.api.routes import Endpoint, Route, find_route
from signproxy.server.process.rooms import ApiRooms, House
from signproxy.telemetry.log import get_logger

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
_HINT = 4
"""Last characters of the access key id that the audit keeps."""


class Arrival:
    """A request as it came: whole, or by aiohttp's hands."""

    __slots__ = ("body", "head", "headers", "method", "remote", "request", "route", "target")

    def __init__(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        remote: str,
        body: bytes | None = None,
        head: Head | None = None,
        route: Route | None = None,
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.remote = remote
        self.body = body
        """None where it is still to be read."""
        self.head = head
        """Where several requests had the same: what was found out of it is kept there."""
        self.route = route
        """Where it leads, if that was looked up."""
        self.request: web.BaseRequest | None = None

    @classmethod
    def by_aiohttp(cls, request: web.BaseRequest) -> Arrival:
        """Return a request whose body may be on its way."""
        arrival = cls(request.method, request.raw_path, request.headers, request.remote or "")
        arrival.request = request
        return arrival

    @property
    def parsed(self) -> web.BaseRequest:
        """aiohttp's request: catalog calls read and answer in parts."""
        assert self.request is not None  # noqa: S101 - only sign requests are served otherwise
        return self.request


class Handler:
    """Answers the requests of the API: one order for all of them, whatever they ask for and however they came."""

    def __init__(self, house: House, recorder: Recorder, limits: Limits) -> None:
        self.limits = limits
        self._house = house
        self._recorder = recorder
        self._draining = False

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return self.limits.connections.open

    @property
    def in_flight(self) -> int:
        """Requests that are waited for."""
        return self.limits.waiting.taken

    def drain(self) -> None:
        """Let every connection end with its next answer, so that clients go elsewhere without losing a request."""
        self._draining = True

    def at_once(self, head: Head, remote: str, body: bytes) -> Reply | Waiting[Reply] | None:
        """Answer a POST that is there whole, or return what waits; None for one that is left to aiohttp.

        Nearly every one is to be signed. What else there is may be long, and is answered in parts.
        """
        target = head.path
        route: Route | None = None
        try:
            route = find_route(target.partition("?")[0])
            endpoint = route.endpoint
        except Refused:
            # Told where the order comes to it, so that it has its event.
            pass
        else:
            if endpoint is not _SIGN and (endpoint is not _CALL or self._house.rooms.api.facade is not None):
                return None
        return begin(self._serve(Arrival("POST", target, head.headers, remote, body, head, route)))

    async def __call__(self, request: web.BaseRequest) -> Reply:
        """Answer a request by aiohttp's hands."""
        return await self._serve(Arrival.by_aiohttp(request))

    async def _serve(self, arrival: Arrival) -> Reply:
        """Answer a request; whatever happens, exactly one event closes it.

        It waits for nothing where everything is at hand, and runs in no task until it has to.
        """
        served = self._house.rooms
        rooms = served.api
        passage = _passage(served.generation.state, arrival)
        passage.waits_among = self.limits.waiting
        lease = passage.lease
        try:
            reply = await self._pass(rooms, passage, arrival)
        except Refused as refused:
            reply = self._told(rooms, passage, refused)
            if arrival.request is not None:
                lease.close()
                await hear_out(arrival.request, passage, refused.reason, reply)
        except (ConnectionError, web.RequestPayloadError) as gone:
            reply = self._refuse(passage, Refused(Reason.CLIENT_GONE, type(gone).__name__))
        except asyncio.CancelledError:
            self._refuse(passage, Refused(Reason.CLIENT_GONE, "cancelled"))
            raise
        except Exception:  # noqa: BLE001 - the outermost wrapper: a fault of ours is an answer, an event and a trace
            reply = self._fail(passage)
        finally:
            if lease.places is not None:
                lease.close()
        if passage.call and rooms.facade is not None:
            rooms.facade.count(passage.call, reply.status)
        if reply.hold is None:
            reply.hold = lease.late
        if self._draining:
            reply.closes = True
        return reply

    async def _pass(self, rooms: ApiRooms, passage: Passage, arrival: Arrival) -> Reply:
        """Take the steps that are the same for all, and then the way that the route names. Raise Refused."""
        path, _, query = arrival.target.partition("?")
        route = arrival.route or find_route(path)
        is_sign = route.endpoint is _SIGN
        call = None
        if not is_sign or arrival.method != "POST":
            call = call_of(rooms, passage, route, arrival.method, arrival.target)
        if call is not None and call.asks_for_token:
            return await answer_token_request(rooms, self.limits, passage, call, arrival.parsed)
        subject = _known_again(rooms, passage, arrival) or await _identified(rooms, passage, arrival)
        # Before anything that costs more than knowing who asks.
        late = self.limits.admit(subject.caller.name, perf_counter_ns())
        if late is not None:
            passage.lease.late = late
        if is_sign:
            return await self._sign(rooms, passage, subject, route, query, arrival)
        passage.lease.take(self.limits.waiting, subject.caller.name)
        if call is not None:
            return await answer_call(rooms, self.limits, passage, subject, call, arrival.parsed)
        if route.endpoint is _KEYS and rooms.keys is not None:
            return await rooms.keys.answer(passage, subject, route.address, arrival.parsed)
        return await answer_config(rooms, self._recorder, passage, subject, route, arrival.parsed)

    async def _sign(
        self, rooms: ApiRooms, passage: Passage, subject: Subject, route: Route, query: str, arrival: Arrival
    ) -> Reply:
        """Judge a request that is to be signed, and sign it."""
        name, body = subject.caller.name, arrival.body
        if body is None:
            body = await self._body_of(passage, name, arrival.parsed)
        charged = len(body) // work.BYTES_PER_REQUEST
        if charged:
            self.limits.charge(name, charged, perf_counter_ns())
        message = read_message(body)
        if query or message.properties is not None:
            _note(rooms, passage, subject, message, query)
        gate = rooms.gate
        if not message.body:
            allow = await gate.judge(passage, subject, route.address, route.target, message)
        else:
            self.limits.charge(name, work.of_bulk_delete(message.body), perf_counter_ns(), own=charged)
            allow = await gate.judge_bulk(passage, subject, route.address, route.target, message)
        judged = passage.request
        assert judged is not None  # noqa: S101 - an Allow stands on a classified request
        passage.judged_ns = perf_counter_ns()
        credentials = rooms.credentials.current(judged.storage, judged.bucket)
        signer, now = rooms.signer, passage.wall
        signed = signer.sign(allow, judged, credentials, event_id=passage.event_id, now=now)
        passage.expires_at = signer.expires_at(now)
        passage.stamped = judged.storage.stamp is _QUERY
        passage.access_key_id = credentials.access_key_id[-_HINT:]
        cache = NO_CACHE
        # Any other answer could be replayed by the client's cache for another body, or after a revoke.
        if rooms.client_cache and judged.method in ("GET", "HEAD") and not subject.delegated:
            cache = PRIVATE
            passage.cacheable = True
        self._recorder.signed(passage, allow)
        return answer(signed, passage.request_id, cache)

    async def _body_of(self, passage: Passage, name: str, request: web.BaseRequest) -> bytes:
        """Read the message of a sign request, with a place among the requests that wait."""
        passage.lease.take(self.limits.waiting, name)
        content = request.content
        if content.is_eof():
            return content.read_nowait()
        return await read_whole(request, MAX_BULK_MESSAGE, BODY_TIMEOUT)

    def _told(self, rooms: ApiRooms, passage: Passage, refused: Refused) -> Reply:
        """Return the way to the S3 listener for what only it can judge; the refusal of everything else."""
        steering, subject, wire = rooms.steering, passage.subject, passage.wire
        if refused.reason is _WITHOUT_BODY and steering is not None and subject is not None and wire is not None:
            try:
                steered = steering.steer(passage, subject, rooms.gate.state.catalogs[passage.catalog], wire)
                if steered is not None:
                    self._recorder.passed(passage, 200, "bulk delete without body, led to the S3 listener")
                    return answer(steered, passage.request_id)
            except Refused as other:
                return self._refuse(passage, other)
            except Exception:  # noqa: BLE001 - no other wrapper is around this one
                return self._fail(passage)
        return self._refuse(passage, refused)

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


def _known_again(rooms: ApiRooms, passage: Passage, arrival: Arrival) -> Subject | None:
    """Return who asks, where a request with the same head showed it before."""
    head = arrival.head
    principal = None if head is None else rooms.authenticator.again(head.known)
    if head is None or principal is None:
        return None
    passage.bearer = head.bearer
    passage.subject = subject = Subject(principal, principal)
    return subject


async def _identified(rooms: ApiRooms, passage: Passage, arrival: Arrival) -> Subject:
    """Return who asks by the token that the request shows. Raise Refused."""
    authenticator, head = rooms.authenticator, arrival.head
    token = read_bearer(arrival.headers.get("Authorization"))
    found = authenticator.authenticate(token)
    if not isinstance(found, Principal):
        # Of a caller that is not known yet: among the requests that wait, none is counted for it.
        found = await waited(found)
        # Not remembered either: what these rooms find out need not hold for those that are in force by now.
        head = None
    if rooms.facade is not None:
        passage.bearer = authenticator.upstream_bearer(token)
    if head is not None:
        head.known, head.bearer = authenticator.known(found), passage.bearer
    passage.subject = subject = Subject(found, found)
    return subject


def _note(rooms: ApiRooms, passage: Passage, subject: Subject, message: SignMessage, query: str) -> None:
    """Take note of what a sign request carries."""
    carried = read_carried(message.properties, query)
    if carried is None:
        return
    passage.application, passage.query_id = carried.application, carried.query_id
    if carried.context and rooms.facade is not None:
        passage.carried = rooms.facade.carried(carried.context, subject, passage.wall)


def _passage(in_force: PolicyState, arrival: Arrival) -> Passage:
    event_id = new_event_id()
    headers = arrival.headers
    given = headers.get("X-Request-Id")
    request_id = event_id if given is None else read_request_id(given, event_id)
    return Passage(_KIND_SIGN, event_id, request_id, arrival.remote, headers.get("User-Agent", ""), in_force)
