"""Serve health, metrics and status to kubelet, Prometheus and the operator, on a listener of their own.

Nothing here changes anything, is logged as a request, or is audited. Probes and metrics are for every client of the
listener, so they name no caller, no table and no file; what went wrong in words is for those who may see `/status`:
the operator at the machine, and no other by accident. A connection from loopback is not proof enough by itself. A page
of a foreign site can have the operator's browser ask loopback addresses, under a name that it resolves itself (DNS
rebinding) or as a request of its own; and a service mesh hands every request from outside on from a loopback address.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from time import monotonic, time
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from signproxy.answers.reply import Reply
from signproxy.config.addresses import is_loopback
from signproxy.errors import Refused
from signproxy.gate.bearer_way import read_bearer
from signproxy.server.status.measures import show_fleet
from signproxy.server.status.readiness import Readiness, ReadinessJudgement
from signproxy.server.status.report import FleetReport
from signproxy.telemetry import log
from signproxy.telemetry.metrics import Metrics
from signproxy.telemetry.neutralise import neutralise

_LOOPBACK_PEERS = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
"""Where connections of this machine come from. Others of 127.0.0.0/8 are taken by meshes: Istio's is 127.0.0.6."""

_PROXY_PREFIXES = ("x-forwarded-", "x-envoy-")
_PROXY_HEADERS = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})

_OWN_SITES = frozenset({"none", "same-origin"})
"""What a browser says of an address that was typed or bookmarked, and of a page's own links."""


def why_not_local(request: web.BaseRequest) -> str:
    """Return why a request does not count as one of this machine's operator; nothing if it does."""
    transport = request.transport
    if transport is None:
        return "its connection is closed"
    if any(_is_of_proxy(name) for name in request.headers):
        return "it was forwarded by a proxy"
    peer = transport.get_extra_info("peername")
    if not _is_unix(transport.get_extra_info("socket")):
        if not isinstance(peer, tuple) or peer[0] not in _LOOPBACK_PEERS:
            return "it does not come from loopback"
        if not _is_loopback_host(request.headers.getall("Host", [])):
            return "its Host is no loopback address"
    if "Origin" in request.headers:
        return "a web page asked for it"
    if request.headers.get("Sec-Fetch-Site", "none").lower() not in _OWN_SITES:
        return "it was reached through another site: type the address instead"
    return ""


def _is_of_proxy(name: str) -> bool:
    lowered = name.lower()
    return lowered in _PROXY_HEADERS or lowered.startswith(_PROXY_PREFIXES)


def _is_unix(connection: object) -> bool:
    return getattr(connection, "family", None) == socket.AF_UNIX


def _is_loopback_host(hosts: list[str]) -> bool:
    """Whether there is one Host, and it names this machine without asking a name server."""
    if len(hosts) != 1:
        return False
    host, bracket, rest = hosts[0].partition("]")
    if bracket:
        name, port = host.removeprefix("["), rest.removeprefix(":")
        if not host.startswith("[") or rest[:1] not in ("", ":"):
            return False
    else:
        name, _, port = hosts[0].partition(":")
    if port and not (port.isascii() and port.isdecimal()):
        return False
    return is_loopback(name.lower())


REPORT_SECONDS = 0.7
"""How long an answer waits for the workers' reports; a kubelet waits a second by default."""

KEEP_SECONDS = 15.0
"""How long the last report speaks for workers that are slow to make another."""

PATHS = ("/livez", "/readyz", "/startupz", "/metrics", "/status")
"""Everything that is served here. The last shows who was refused what, and is for operators alone."""

_log = log.get_logger("signproxy.admin")

_GUARDS = (
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
    "X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\nVary: Accept\r\n"
)
_TEXT = "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
_METRICS = "Content-Type: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nVary: Accept\r\n"
_JSON = f"Content-Type: application/json\r\n{_GUARDS}"

_NO_REPORT = "the workers do not answer\n"
_HOW = (
    "/status shows who was refused what, and is for operators alone: {why}.\n"
    "It is answered\n"
    "  on this machine: http://127.0.0.1:<admin port>/status, also through `kubectl port-forward`;\n"
    "  on the Unix socket of admin.socket;\n"
    "  from elsewhere to a bearer token that brings the role of admin.role.\n"
)


class AdminHandler:
    """`/livez`, `/readyz`, `/startupz`, `/metrics` and `/status`.

    `fleet` reports on all workers, `metrics` are those of this process, `roles_of` tells which principal roles a
    bearer token brings, and `role` is the one of them that opens `/status` from beyond this machine.
    """

    def __init__(
        self,
        fleet: Callable[[], Coroutine[Any, Any, FleetReport]],
        metrics: Metrics,
        roles_of: Callable[[str], Awaitable[tuple[str, ...]]] | None = None,
        *,
        role: str = "",
        clock: Callable[[], float] = time,
    ) -> None:
        self._fleet = fleet
        self._metrics = metrics
        self._role = role
        self._roles_of = roles_of
        self._clock = clock
        self._readiness = Readiness()
        self._asking: asyncio.Task[FleetReport] | None = None
        self._last: FleetReport | None = None
        self._last_at = 0.0

    async def __call__(self, request: web.BaseRequest) -> Reply:
        """Answer a probe, a scrape or an operator."""
        try:
            return await self._answer(request)
        except Exception:  # noqa: BLE001 - the outermost wrapper: a probe needs an answer, and the fault a trace
            _log.exception("admin request failed")
            return _text(503, "a fault in signproxy; the log has the trace\n")

    async def _answer(self, request: web.BaseRequest) -> Reply:
        if request.method not in ("GET", "HEAD"):
            return Reply(405, f"{_TEXT}Allow: GET, HEAD\r\n", b"GET or HEAD\n")
        path, _, query = request.raw_path.partition("?")
        if path not in PATHS:
            return _text(404, f"not found; there are {' '.join(PATHS)}\n")
        match path:
            case "/livez":
                judgement, _ = await self._judged()
                return _text(200, "ok\n") if judgement.alive else _text(503, _NO_REPORT)
            case "/startupz":
                judgement, _ = await self._judged()
                detail = not why_not_local(request)
                return _text(200, "ok\n") if judgement.started else _text(503, _lines(judgement, detail=detail))
            case "/readyz":
                return await self._ready(request, query)
            case "/metrics":
                return await self._exposition(",".join(request.headers.getall("Accept", [])))
            case _:
                return await self._may_see(request) or await self._status(request, query)

    async def _ready(self, request: web.BaseRequest, query: str) -> Reply:
        judgement, _ = await self._judged()
        detail = not why_not_local(request)
        verbose = "verbose" in parse_qs(query, keep_blank_values=True)
        told = _lines(judgement, detail=detail, verbose=verbose)
        if not judgement.ready:
            return _text(503, told)
        return _text(200, told if verbose else f"ok\n{told}")

    async def _exposition(self, accept: str) -> Reply:
        judgement, report = await self._judged()
        if report is None:
            # Without the workers' counts the sum would fall, which a scraper takes for a restart of all of them.
            return _text(503, _NO_REPORT)
        show_fleet(self._metrics, report, judgement)
        shown = self._metrics.render(*(worker.metrics for worker in report.workers), accept=accept)
        return Reply(200, _METRICS.format(shown.content_type), shown.body)

    async def _status(self, request: web.BaseRequest, query: str) -> Reply:
        judgement, report = await self._judged()
        if report is None:
            return _text(503, _NO_REPORT)
        # Only once the status is asked for: a sidecar that never shows it does not load it.
        from signproxy.server.status import status as views  # noqa: PLC0415

        status = views.status_of(report, judgement, self._clock())
        if not _wants_page(request.headers.get("Accept", ""), query):
            return Reply(200, _JSON, views.as_json(status))
        from signproxy.server.status.status_page import POLICY, page  # noqa: PLC0415

        head = f"Content-Type: text/html; charset=utf-8\r\nContent-Security-Policy: {POLICY}\r\n{_GUARDS}"
        return Reply(200, head, page(status).encode())

    async def _may_see(self, request: web.BaseRequest) -> Reply | None:
        """Return the refusal of a client that may not see the status."""
        why = why_not_local(request)
        if not why:
            return None
        authorization = request.headers.get("Authorization")
        if authorization is None:
            return _text(403, _HOW.format(why=why))
        if self._roles_of is None or not self._role:
            return _text(403, _HOW.format(why="admin.role is not set, so that no token opens it"))
        try:
            roles = await self._roles_of(read_bearer(authorization))
        except Refused as refused:
            spec = refused.reason.value
            return _text(spec.status, f"{spec.message}\n")
        if self._role in roles:
            return None
        return _text(403, _HOW.format(why="the token does not bring the role of admin.role"))

    async def _judged(self) -> tuple[ReadinessJudgement, FleetReport | None]:
        report = await self._report()
        return self._readiness.judge(report), report

    async def _report(self) -> FleetReport | None:
        """Return how the workers are, or were a moment ago; None where that is not known."""
        if self._asking is None:
            # One question for all who ask at the time: every client can send probes.
            self._asking = asyncio.get_running_loop().create_task(self._fleet())
            self._asking.add_done_callback(self._answered)
        await asyncio.wait((self._asking,), timeout=REPORT_SECONDS)
        if self._last is not None and monotonic() - self._last_at <= KEEP_SECONDS:
            return self._last
        return None

    def _answered(self, asking: asyncio.Task[FleetReport]) -> None:
        self._asking = None
        if asking.cancelled():
            return
        fault = asking.exception()
        if fault is not None:
            _log.error("no report", error=f"{type(fault).__name__}: {fault}")
            return
        self._last, self._last_at = asking.result(), monotonic()


def _wants_page(accept: str, query: str) -> bool:
    """Whether a browser asks; scripts and `curl` get JSON."""
    wanted = parse_qs(query).get("format", [""])[-1]
    return wanted == "html" if wanted else "text/html" in accept.lower()


def _lines(judgement: ReadinessJudgement, *, detail: bool, verbose: bool = False) -> str:
    checks = judgement.checks if verbose else judgement.failing
    # An error may quote what a server somewhere answered.
    return "".join(f"{neutralise(check.line(detail=detail))}\n" for check in checks)


def _text(status: int, text: str) -> Reply:
    return Reply(status, _TEXT, text.encode("ascii", "backslashreplace"))
