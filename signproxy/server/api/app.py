"""Serve the API: an application of aiohttp, and beside it the sign requests that are answered as they arrive.

Each request becomes a way (sign, call, configuration, token, key) and is served by the one order of the gate. Where a
path leads is told by `routes`: namespaces are decoded once, and split before that, which no router of aiohttp does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, cast

from aiohttp import web
from yarl import URL

from signproxy.answers.api_way import ApiWay, Message
from signproxy.answers.bodies import hear_out
from signproxy.answers.reply import Reply
from signproxy.audit.event import Kind
from signproxy.audit.ids import new_event_id
from signproxy.catalog.call import CallKind
from signproxy.errors import Reason, Refused, anew
from signproxy.facade.call_way import CallWay
from signproxy.facade.config_way import ConfigWay
from signproxy.facade.token_way import TokenWay
from signproxy.gate.begun import Waiting, begin
from signproxy.gate.judgement import Judgement
from signproxy.gate.limits import Limits
from signproxy.gate.order import Order
from signproxy.gate.outcome import Outcome
from signproxy.gate.recorder import Recorder
from signproxy.gate.request import AskedFor, CatalogAddress, Request, arrived
from signproxy.model import Subject
from signproxy.server.api.connection import connection_of
from signproxy.server.api.container_way import ContainerWay
from signproxy.server.api.key_way import KeyWay
from signproxy.server.api.plain import Head
from signproxy.server.api.routes import Endpoint, Route, find_call_of, find_route
from signproxy.server.process.rooms import House, Rooms
from signproxy.signing.sign_way import SignWay
from signproxy.vending.resolve_way import CALL as RESOLVE_CALL
from signproxy.vending.resolve_way import ResolveWay
from signproxy.vending.vend_way import VendWay

# Looking a member up in its class calls Python code; the hot path does without.
_SIGN = Endpoint.SIGN
_KIND_SIGN = Kind.SIGN

_CREDENTIALS = CallKind.LOAD_CREDENTIALS.segments[-1]

_NAMED = (Kind.CATALOG, Kind.VEND)
"""Kinds of events that say what was called, and how."""

_ANYWHERE = CatalogAddress()

_OF_CATALOGS = (Endpoint.CONFIG, Endpoint.CALL)
"""What nothing waits for once its client is gone."""


class FoundPath(web.UrlMappingMatchInfo):
    """The handler, and what it need not find out again: a path is read once."""

    leads_to: Route | Refused
    """A refusal where it leads nowhere."""


class ApiPaths(web.AbstractResource):
    """Every path there is: those of `routes.ROUTES` and of catalog calls, below each mount, and what leads nowhere.

    aiohttp's own resources look at paths that are decoded already, in which two namespaces may be one.
    """

    def __init__(self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(name="api")
        self._route = web.ResourceRoute("*", handler, self, expect_handler=_expect)

    @property
    def canonical(self) -> str:
        """The path below which all of them lie."""
        return "/"

    async def resolve(self, request: web.Request) -> tuple[web.UrlMappingMatchInfo | None, set[str]]:
        """Return the handler, as every resource does."""
        return await self.found(request), set()

    async def found(self, request: web.Request) -> web.UrlMappingMatchInfo:
        """Return the handler, whatever method and path a request has, and where the path leads."""
        found = FoundPath({}, self._route)
        try:
            found.leads_to = find_route(request.raw_path.partition("?")[0])
        except Refused as refused:
            # The handler says why, so that the refusal has its event.
            found.leads_to = refused.with_traceback(None)
        return found

    def url_for(self, **_parts: str) -> URL:
        """Return the path below which all of them lie: clients are told their URLs by the configured one."""
        return URL(self.canonical)

    def add_prefix(self, _prefix: str) -> None:
        """Do nothing: mounts are part of the paths."""

    def raw_match(self, _path: str) -> bool:
        """Return that no path is this resource alone."""
        return False

    def get_info(self) -> Any:
        """Return what it is called."""
        return {"path": self.canonical}

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[web.AbstractRoute]:
        yield self._route


async def _expect(_request: web.Request) -> None:
    """Let the handler say whether the body is wanted, once it knows the caller."""


class Api:
    """Answers the requests of the API."""

    def __init__(self, house: House, recorder: Recorder, limits: Limits) -> None:
        self.limits = limits
        self._house = house
        self._order = Order(recorder, limits)

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
        self.limits.connections.draining = True

    def application(self) -> web.Application:
        """Return what answers whatever is not answered at once."""
        application = web.Application()
        paths = ApiPaths(self.answer)
        application.router.register_resource(paths)
        # aiohttp's own way to a resource cuts the path slash by slash, which is work that a stranger could order, and
        # asks none of them about a target without a path: its answer to that would have no event.
        application.router.resolve = paths.found  # type: ignore[method-assign]  # the one hook that is not deprecated
        return application

    def at_once(self, head: Head, remote: str, body: bytes) -> Reply | Waiting[Reply] | None:
        """Answer a POST that is there whole, or return what waits; None for one that is left to aiohttp.

        Nearly every one is to be signed. What else there is may be long, and is answered in parts.
        """
        route = head.route or _route_of(head)
        if route is None:
            return None
        rooms, headers = self._house.rooms, head.headers
        user_agent, request_id = headers.get("User-Agent", ""), headers.get("X-Request-Id")
        request = arrived(_KIND_SIGN, new_event_id(), rooms.generation.state, request_id, remote, user_agent)
        message = Message(headers, head.query, body, head)
        way = SignWay(request, message, self.limits, rooms.api.signing, route.address, route.target)
        return begin(self._order.take(way))

    async def answer(self, message: web.Request) -> web.StreamResponse:
        """Answer a request that takes longer, or leads nowhere."""
        found = cast("FoundPath", message.match_info).leads_to
        if isinstance(found, Route) and found.endpoint in _OF_CATALOGS:
            with connection_of(message).needed():
                return await self._answer(message, found)
        return await self._answer(message, found)

    async def _answer(self, message: web.Request, found: Route | Refused) -> Reply:
        rooms = self._house.rooms
        try:
            if isinstance(found, Refused):
                raise anew(found)
            way = _WAYS[found.endpoint](rooms, self.limits, message, found)
        except Refused as refused:
            is_call = isinstance(found, Route) and found.endpoint is Endpoint.CALL
            kind = Kind.CATALOG if is_call and rooms.api.config.facade is not None else _KIND_SIGN
            request, received = _request_of(rooms, message, kind), _message_of(message)
            way = LostWay(request, received, self.limits, rooms.api.signing, _ANYWHERE)
            way.refused = refused
        reply = await self._order.take(way)
        facade = rooms.api.config.facade
        if way.request.call and facade is not None:
            facade.count(way.request.call, reply.status)
        await hear_out(message, way.refused_for, reply, known=bool(way.lease.principal))
        return reply


class LostWay(ApiWay):
    """A request that leads nowhere."""

    refused: Refused

    def identify(self) -> Subject:
        """Raise Refused: whose request it is does not matter."""
        raise anew(self.refused)

    def ask(self, _subject: Subject | None) -> AskedFor:
        """Raise Refused, as every step would."""
        raise anew(self.refused)

    def serve(self, _judgement: Judgement, _outcome: Outcome) -> Reply:
        """Raise Refused, as every step would."""
        raise anew(self.refused)


def _sign_way(rooms: Rooms, limits: Limits, message: web.Request, found: Route) -> ApiWay:
    _check_method(message, "POST")
    request = _request_of(rooms, message, _KIND_SIGN)
    return SignWay(request, _message_of(message), limits, rooms.api.signing, found.address, found.target)


def _config_way(rooms: Rooms, limits: Limits, message: web.Request, found: Route) -> ApiWay:
    _check_method(message, "GET")
    request = _request_of(rooms, message, Kind.CONFIG)
    return ConfigWay(request, _message_of(message), limits, rooms.api.config, found.address)


def _key_way(rooms: Rooms, limits: Limits, message: web.Request, found: Route) -> ApiWay:
    if rooms.api.keys is None:
        raise Refused(Reason.ROUTE_UNKNOWN, "no listener takes keys that would be issued here")
    _check_method(message, "POST")
    return KeyWay(_request_of(rooms, message, Kind.ISSUE), _message_of(message), limits, rooms.api.keys, found.address)


def _container_way(rooms: Rooms, limits: Limits, message: web.Request, found: Route) -> ApiWay:
    if rooms.api.keys is None:
        raise Refused(Reason.ROUTE_UNKNOWN, "no listener takes keys that would be issued here")
    request = _request_of(rooms, message, Kind.ISSUE)
    way = ContainerWay(request, _message_of(message), limits, rooms.api.keys, found.address)
    (way.name,) = found.parts
    return way


def _resolve_way(rooms: Rooms, limits: Limits, message: web.Request, found: Route) -> ApiWay:
    _check_method(message, "POST")
    request = _request_of(rooms, message, Kind.VEND, RESOLVE_CALL)
    return ResolveWay(request, _message_of(message), limits, rooms.api.vending, found.address)


def _call_way(rooms: Rooms, limits: Limits, message: web.Request, found: Route) -> ApiWay:
    facade = rooms.api.config.facade
    if facade is None and found.parts[-1] != _CREDENTIALS:
        raise Refused(Reason.ROUTE_UNKNOWN, f"path {message.raw_path!r}")
    received = _message_of(message)
    address, call = find_call_of(found, message.method)
    if call.kind is CallKind.LOAD_CREDENTIALS:
        request = _request_of(rooms, message, Kind.VEND, call.kind.word)
        vend = VendWay(request, received, limits, rooms.api.vending, address)
        vend.call = call
        return vend
    if facade is None:
        raise Refused(Reason.ROUTE_UNKNOWN, f"path {message.raw_path!r}")
    request = _request_of(rooms, message, Kind.CATALOG, call.kind.word)
    if call.kind is CallKind.TOKENS:
        return TokenWay(request, received, limits, facade, address)
    way = CallWay(request, received, limits, facade, address)
    way.call = call
    return way


_WAYS: Mapping[Endpoint, Callable[[Rooms, Limits, web.Request, Route], ApiWay]] = {
    Endpoint.SIGN: _sign_way,
    Endpoint.CONFIG: _config_way,
    Endpoint.KEYS: _key_way,
    Endpoint.RESOLVE: _resolve_way,
    Endpoint.CONTAINER: _container_way,
    Endpoint.CALL: _call_way,
}


def _check_method(message: web.Request, method: str) -> None:
    if message.method != method:
        raise Refused(Reason.METHOD_NOT_ALLOWED, f"{message.method} {message.raw_path!r}")


def _route_of(head: Head) -> Route | None:
    """Return where a request that is to be signed leads, and keep it; None for every other one."""
    path, _, query = head.path.partition("?")
    try:
        route = find_route(path)
    except Refused:
        # Told where aiohttp's routes end.
        return None
    if route.endpoint is not _SIGN:
        return None
    head.route, head.query = route, query
    return route


def _request_of(rooms: Rooms, message: web.Request, kind: Kind, call: str = "") -> Request:
    headers = message.headers
    return arrived(
        kind,
        new_event_id(),
        rooms.generation.state,
        headers.get("X-Request-Id"),
        message.remote or "",
        headers.get("User-Agent", ""),
        message.method if kind in _NAMED else "",
        call,
    )


def _message_of(message: web.Request) -> Message:
    return Message(message.headers, message.raw_path.partition("?")[2], parsed=message)
