"""Answer the requests of the API that are not to be signed: catalog calls, tokens, and the configuration."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, cast

from aiohttp import web

from signproxy.answers.bodies import hear_out
from signproxy.answers.reply import Reply
from signproxy.answers.wire import answer
from signproxy.audit.event import Kind
from signproxy.catalog.client_config import DELEGATION_HEADER, client_config
from signproxy.errors import Reason, Refused
from signproxy.gate import work
from signproxy.gate.gate import CatalogAddress
from signproxy.gate.limits import Limits
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.model import Subject
from signproxy.server.api.calls import Call, find_call_of
from signproxy.server.api.message import read_warehouse
from signproxy.server.api.routes import Endpoint, Route
from signproxy.server.process.rooms import ApiRooms

if TYPE_CHECKING:
    from signproxy.server.api.connection import Parsed

_STRANGERS = ""
"""Stands among the names of principals for all who ask for a token."""


def call_of(rooms: ApiRooms, passage: Passage, route: Route, method: str, target: str) -> Call | None:
    """Return the catalog call that a route is; None for the others. Raise Refused for what is no route."""
    if route.endpoint is Endpoint.CALL:
        if rooms.facade is None:
            raise Refused(Reason.ROUTE_UNKNOWN, f"path {target!r}")
        passage.kind = Kind.CATALOG
        passage.method = method
        call = find_call_of(route, method)
        passage.call = call.name
        return call
    if route.endpoint is Endpoint.KEYS and rooms.keys is None:
        raise Refused(Reason.ROUTE_UNKNOWN, "no listener takes keys that would be issued here")
    if route.endpoint.method != method:
        raise Refused(Reason.METHOD_NOT_ALLOWED, f"{method} {target!r}")
    if route.endpoint is Endpoint.KEYS:
        passage.kind = Kind.ISSUE
    elif route.endpoint is not Endpoint.SIGN:
        passage.kind = Kind.CONFIG
    return None


async def answer_call(
    rooms: ApiRooms, limits: Limits, passage: Passage, subject: Subject, call: Call, request: web.BaseRequest
) -> Reply:
    """Answer a call of a catalog from its upstream. Raise Refused."""
    facade = rooms.facade
    assert facade is not None  # noqa: S101 - without one nothing is a call
    with cast("Parsed", request.protocol).connection.needed():
        account = work.Account(limits, subject.caller.name)
        reply = await facade.answer(passage, subject, call.address, call.call, request, account)
    reply.known = True
    await hear_out(request, passage, Reason.ALLOWED, reply)
    return reply


async def answer_token_request(
    rooms: ApiRooms, limits: Limits, passage: Passage, call: Call, request: web.BaseRequest
) -> Reply:
    """Answer a request for a token: its caller has nothing to show yet, and counts as a stranger until it has."""
    facade = rooms.facade
    assert facade is not None  # noqa: S101 - without one nothing is a call
    if limits.stranger(perf_counter_ns()) is not None:
        raise Refused(Reason.RATE_LIMITED, "requests for tokens")
    passage.lease.take(limits.waiting, _STRANGERS)
    with cast("Parsed", request.protocol).connection.needed():
        reply = await facade.tokens(passage, call.address, request)
    if reply.known:
        limits.proved()
    return reply


async def answer_config(
    rooms: ApiRooms, recorder: Recorder, passage: Passage, subject: Subject, route: Route, request: web.BaseRequest
) -> Reply:
    """Answer with what a client configures itself by, of the upstream or of signproxy alone. Raise Refused."""
    address = CatalogAddress(route.address.name, read_warehouse(request.raw_path.partition("?")[2]))
    if rooms.facade is not None:
        with cast("Parsed", request.protocol).connection.needed():
            reply = await rooms.facade.config(passage, subject, address, request)
        if reply is not None:
            reply.known = True
            return reply
    state, signing = rooms.gate.state, True
    try:
        catalog = rooms.gate.catalog(passage, state, subject, address)
    except Refused as refused:
        if refused.reason not in (Reason.REMOTE_SIGNING_OFF, Reason.CATALOG_FEDERATED):
            raise
        catalog, signing = state.catalogs[passage.catalog], False
    asked = request.headers.get(DELEGATION_HEADER, "")
    config = client_config(catalog, rooms.public_url, signing=signing, delegation=asked, listener=rooms.listener)
    recorder.answered(passage)
    return answer(config, passage.request_id)
