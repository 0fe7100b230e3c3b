"""The admin listener: what probes, Prometheus and operators are answered, and who is told nothing."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop
from aiohttp import ClientResponse, ClientSession, TCPConnector
from prometheus_client.parser import text_string_to_metric_families
from pytest_aiohttp.plugin import AiohttpClient

from signproxy.errors import Reason, Refused
from signproxy.server.status import admin
from signproxy.server.status.admin import AdminHandler
from signproxy.server.status.report import FleetReport
from signproxy.telemetry.exposition import Exposition
from signproxy.telemetry.metrics import Metrics
from tests.listening import Client, ClientOf, ListenerServer, connect, started_client
from tests.scrape import OPEN_METRICS, parsed
from tests.server.status.reports import HOSTILE, NOW, REFUSAL, fleet, worker
from tests.waiting import turns, until

TOKEN = "an-operators-token"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ILL = {"credentials": "lake: /run/secrets/id: cannot be read"}

Headers = Sequence[tuple[str, str]]


class Answer(NamedTuple):
    """What a client was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Desk:
    """An admin handler on a listener, and the report that it is given."""

    def __init__(self, report: FleetReport | None = None, *, role: str = "operators") -> None:
        self.report = report or fleet(worker(refusals=(REFUSAL,)))
        self.asked = 0
        self.wait: Callable[[], Awaitable[object]] | None = None
        self.metrics = Metrics("1")
        self.handler = AdminHandler(self._fleet, self.metrics, self._roles_of, role=role, clock=lambda: NOW)
        self._client: Client | None = None

    async def _fleet(self) -> FleetReport:
        self.asked += 1
        if self.wait is not None:
            await self.wait()
        return self.report

    async def _roles_of(self, token: str) -> tuple[str, ...]:
        await asyncio.sleep(0)
        if token == TOKEN:
            return ("readers", "operators")
        if token == "a-readers-token":
            return ("readers",)
        if token == "keys-are-missing":
            raise Refused(Reason.KEYS_UNAVAILABLE, "idp: connection refused")
        raise Refused(Reason.TOKEN_MALFORMED)

    async def serve(self, client_of: ClientOf, unix: Path | None = None) -> Desk:
        """Serve on a free loopback port, or on a Unix socket, to the client that is returned for the server."""
        self._client = await client_of(ListenerServer(self.handler, unix=unix, section="admin"))
        return self

    async def aclose(self) -> None:
        """End the client and the server."""
        assert self._client is not None
        await self._client.close()

    async def get(self, target: str, *headers: tuple[str, str], method: str = "GET", source: str = "") -> Answer:
        """Send one request as it stands; `Host` is as a local client sends it unless it is among the headers."""
        assert self._client is not None
        server = self._client.server
        assert isinstance(server, ListenerServer)
        if source:
            async with ClientSession(connector=TCPConnector(local_addr=(source, 0))) as elsewhere:
                return await _answer(elsewhere.request(method, server.make_url(target), headers=headers))
        if target.startswith("http:"):
            # The whole URL in the first line, as a proxy is asked.
            return await _answer(self._client.session.request(method, target, headers=headers, proxy=server.url))
        return await _answer(self._client.request(method, target, headers=headers))


async def _answer(asked: AbstractAsyncContextManager[ClientResponse]) -> Answer:
    async with asked as answer:
        return Answer(answer.status, answer.headers, await answer.read())


Attend = Callable[[Desk], Awaitable[Desk]]


@pytest.fixture
def attend(aiohttp_client: AiohttpClient) -> Attend:
    """Serve a desk until the test ends, to pytest-aiohttp's client."""
    return lambda desk: desk.serve(partial(connect, aiohttp_client))


# -- probes ------------------------------------------------------------------------------------------------------------


async def test_probes_of_a_server_in_which_all_is_well(attend: Attend) -> None:
    """Kubelet reads the status alone; people read the words."""
    desk = await attend(Desk(fleet()))
    for path in ("/livez", "/startupz", "/readyz"):
        answer = await desk.get(path)
        assert (answer.status, answer.text) == (200, "ok\n")
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
    verbose = await desk.get("/readyz?verbose")
    assert verbose.text.splitlines() == [
        "draining: ok",
        "configuration: ok",
        "token keys: ok",
        "credentials: ok",
        "audit: ok",
    ]
    head = await desk.get("/readyz", method="HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", "0")


async def test_the_startup_probe_waits_for_the_first_time_that_all_are_ready(attend: Attend) -> None:
    """A native sidecar's engine starts on this word, and a restart for a later trouble does not help."""
    desk = await attend(Desk(fleet(worker(0), worker(1, problems=ILL))))
    answer = await desk.get("/startupz")
    assert (answer.status, answer.text) == (503, "worker 1 credentials: lake: /run/secrets/id: cannot be read\n")
    assert (await desk.get("/readyz")).status == 503
    assert (await desk.get("/livez")).status == 200
    desk.report = fleet(worker(0), worker(1))
    assert (await desk.get("/startupz")).status == 200
    desk.report = fleet(worker(0, problems=ILL), worker(1, problems=ILL))
    assert (await desk.get("/startupz")).status == 200
    assert (await desk.get("/readyz")).status == 503


async def test_a_server_that_is_ready_still_tells_what_is_not_well(attend: Attend) -> None:
    """One worker of two is enough for traffic while the other is replaced; that it is missing must not stay unseen."""
    desk = await attend(Desk(fleet(worker(0), worker(1))))
    assert (await desk.get("/readyz")).status == 200
    desk.report = fleet(worker(0), wanted_workers=2)
    answer = await desk.get("/readyz")
    assert answer.status == 200
    assert answer.text == "ok\nworkers: 1 of 2 answer\n"


async def test_draining_is_seen_by_the_next_probe(attend: Attend) -> None:
    """A balancer that still sends while the door closes gets connection errors, which Java does not repeat."""
    desk = await attend(Desk(fleet()))
    assert (await desk.get("/readyz")).status == 200
    desk.report = fleet(worker(problems={"draining": "yes"}), draining=True)
    answer = await desk.get("/readyz")
    assert (answer.status, answer.text) == (503, "draining: yes\n")
    assert (await desk.get("/livez")).status == 200


@pytest.mark.parametrize(
    "headers",
    ((("Host", "10.0.0.7:9181"),), (("X-Forwarded-For", "10.0.0.7"),), (("Sec-Fetch-Site", "cross-site"),)),
)
async def test_probes_tell_others_which_check_fails_and_not_why(headers: Headers, attend: Attend) -> None:
    """Every pod in the cluster reaches the probes; errors name files, hosts and issuers."""
    desk = await attend(Desk(fleet(worker(problems=ILL))))
    for path in ("/readyz", "/readyz?verbose", "/startupz"):
        answer = await desk.get(path, *headers)
        assert answer.status == 503
        assert "credentials: failing\n" in answer.text
        assert "secrets" not in answer.text
    assert "secrets" in (await desk.get("/readyz")).text


async def test_text_of_others_in_a_check_adds_no_line_and_acts_on_no_terminal(attend: Attend) -> None:
    """An issuer's answer stands in its error."""
    desk = await attend(Desk(fleet(worker(problems={"token keys": f"idp: {HOSTILE}"}))))
    answer = await desk.get("/readyz")
    assert all(line.isprintable() and line.isascii() for line in answer.text.split("\n"))
    assert answer.text.count("\n") == 1


@pytest.mark.parametrize("path", ("/livez", "/readyz", "/status", "/nowhere"))
async def test_nothing_here_can_be_changed(path: str, attend: Attend) -> None:
    """What is reachable by probes must not be an interface for commands."""
    desk = await attend(Desk())
    answer = await desk.get(path, ("Content-Length", "0"), method="POST")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "target", ("/", "/v1/config", "/status/", "/STATUS", "/%73tatus", "http://127.0.0.1/status", "//status")
)
async def test_other_paths_lead_nowhere(target: str, attend: Attend) -> None:
    """A second spelling of a guarded path is how guards are passed."""
    desk = await attend(Desk())
    answer = await desk.get(target)
    assert answer.status == 404
    assert "/readyz" in answer.text
    assert REFUSAL.principal not in answer.text


# -- workers that do not answer ----------------------------------------------------------------------------------------


async def test_many_who_ask_at_once_are_one_question_to_the_workers(
    monkeypatch: pytest.MonkeyPatch, attend: Attend
) -> None:
    """Any client can send probes; each of them must not cost every worker a report."""
    monkeypatch.setattr(admin, "REPORT_SECONDS", 20.0)
    desk = await attend(Desk(fleet()))
    released = asyncio.Event()
    desk.wait = released.wait
    asking = [asyncio.create_task(desk.get("/readyz")) for _ in range(5)]
    await until(lambda: desk.asked)
    await turns()
    assert desk.asked == 1
    released.set()
    assert {answer.status for answer in await asyncio.gather(*asking)} == {200}


async def test_slow_workers_are_spoken_for_by_their_last_report(
    monkeypatch: pytest.MonkeyPatch, attend: Attend
) -> None:
    """Kubelet gives up after a second, and a machine under load would restart the pod."""
    desk = await attend(Desk(fleet()))
    assert (await desk.get("/readyz")).status == 200
    monkeypatch.setattr(admin, "REPORT_SECONDS", 0.05)
    released = asyncio.Event()
    desk.wait = released.wait
    for path in ("/livez", "/readyz", "/metrics", "/status"):
        assert (await desk.get(path)).status == 200
    monkeypatch.setattr(admin, "KEEP_SECONDS", 0.0)
    for path in ("/livez", "/readyz", "/metrics", "/status"):
        answer = await desk.get(path)
        assert answer.status == 503
        assert "answer" in answer.text
    released.set()


async def test_a_fault_in_the_report_is_an_answer_and_a_trace(log_lines: io.StringIO, attend: Attend) -> None:
    """A probe that gets no answer looks like a hanging server."""
    desk = await attend(Desk())

    async def fail() -> None:
        raise ZeroDivisionError

    desk.wait = fail
    assert (await desk.get("/readyz")).status == 503
    # It is not known yet whether it ever started.
    assert (await desk.get("/livez")).status == 200
    assert (await desk.get("/metrics")).status == 503
    assert "ZeroDivisionError" in log_lines.getvalue()


async def test_a_fault_in_an_answer_is_told_without_its_content(
    monkeypatch: pytest.MonkeyPatch, log_lines: io.StringIO, attend: Attend
) -> None:
    """The page of the library would show nothing, and its log the request."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(admin, "show_fleet", fail)
    desk = await attend(Desk())
    answer = await desk.get("/metrics")
    assert (answer.status, answer.text) == (503, "a fault in signproxy; the log has the trace\n")
    assert "admin request failed" in log_lines.getvalue()


async def test_admin_requests_leave_no_line_and_no_event(log_lines: io.StringIO, attend: Attend) -> None:
    """Probes come every second; they would bury what the log is for."""
    desk = await attend(Desk())
    for path in ("/livez", "/readyz", "/startupz", "/metrics", "/status", "/status?format=html", "/nowhere"):
        await desk.get(path)
        await desk.get(path, ("Host", "evil.example"))
    assert log_lines.getvalue() == ""


# -- metrics -----------------------------------------------------------------------------------------------------------


async def test_a_scrape_adds_up_all_workers_and_what_is_true_of_them_together(attend: Attend) -> None:
    """Whichever process answers, it must speak for all."""
    workers = [Metrics("1") for _ in range(2)]
    for number, each in enumerate(workers, 1):
        for _ in range(number):
            each.answered("GetObject", "allow", "allowed", 10)
    report = fleet(*(worker(number, metrics=each.snapshot()) for number, each in enumerate(workers)))
    desk = await attend(Desk(report))
    answer = await desk.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert [sample.value for sample in families["signproxy_requests"].samples] == [3]
    assert [sample.value for sample in families["signproxy_workers"].samples] == [2]
    assert [sample.value for sample in families["signproxy_ready"].samples] == [1]
    # Prometheus scrapes from elsewhere, through whatever stands in between.
    assert (await desk.get("/metrics", ("Host", "10.0.0.7"), ("X-Forwarded-For", "10.0.0.8"))).status == 200


async def test_a_scraper_that_asks_for_open_metrics_gets_the_events_behind_the_numbers(attend: Attend) -> None:
    """Prometheus stores exemplars only from OpenMetrics; in its text format an operator searches the trail by hand."""
    each = Metrics("1")
    event_id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    each.answered("GetObject", "allow", "allowed", 10, event_id)
    desk = await attend(Desk(fleet(worker(0, metrics=each.snapshot()))))
    answer = await desk.get("/metrics", ("Accept", "text/html"), ("Accept", f"{OPEN_METRICS}, */*;q=0.1"))
    assert answer.headers["Content-Type"] == f"{OPEN_METRICS}; charset=utf-8; escaping=underscores"
    assert answer.headers["Vary"] == "Accept"
    shown = Exposition(answer.headers["Content-Type"], answer.text.encode())
    samples = [sample for family in parsed(shown) for sample in family.samples if sample.exemplar is not None]
    assert [sample.name for sample in samples] == [
        "signproxy_requests_total",
        "signproxy_request_duration_seconds_bucket",
    ]
    assert {sample.exemplar.labels["event_id"] for sample in samples if sample.exemplar} == {
        "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    }
    # A version that does not exist is not claimed to be answered, and breaks nothing.
    odd = await desk.get("/metrics", ("Accept", "application/openmetrics-text;version=one"))
    assert (odd.status, odd.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    # Nor is a format sent that the scraper refuses, in whichever of its lines.
    refused = await desk.get("/metrics", ("Accept", f"{OPEN_METRICS};q=0"), ("Accept", "*/*"))
    assert refused.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_a_scrape_names_no_principal_and_no_table(attend: Attend) -> None:
    """Every pod in the cluster can scrape."""
    desk = await attend(Desk())
    text = (await desk.get("/metrics")).text
    text += (await desk.get("/metrics", ("Accept", OPEN_METRICS))).text
    for secret in (REFUSAL.principal, REFUSAL.table, REFUSAL.detail, REFUSAL.event_id):
        assert secret not in text


# -- status ------------------------------------------------------------------------------------------------------------


async def test_the_status_is_a_page_for_browsers_and_json_for_programs(attend: Attend) -> None:
    """`curl` in a script and a browser at three in the morning ask the same address."""
    desk = await attend(Desk())
    for target, accept, kind in (
        ("/status", BROWSER, "text/html"),
        ("/status", "application/json", "application/json"),
        ("/status", "*/*", "application/json"),
        ("/status?format=json", BROWSER, "application/json"),
        ("/status?format=html", "*/*", "text/html"),
        ("/status?format=", BROWSER, "text/html"),
    ):
        answer = await desk.get(target, ("Accept", accept))
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith(kind), (target, accept)
    assert (await desk.get("/status")).json["verdict"].startswith("Ready. Policy 5f2c9d01ab34 in force since ")
    page = await desk.get("/status", ("Accept", BROWSER))
    assert "<h1" in page.text
    assert REFUSAL.principal in page.text


@pytest.mark.parametrize("accept", (BROWSER, "application/json"))
async def test_the_status_is_kept_from_caches_frames_and_other_sites(accept: str, attend: Attend) -> None:
    """It names callers and tables; a browser hands on what it is not told to keep."""
    desk = await attend(Desk())
    headers = (await desk.get("/status", ("Accept", accept))).headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers


REFUSED: tuple[tuple[str, Headers], ...] = (
    # A page resolves its own name to 127.0.0.1 and reads the answer as its own.
    ("rebinding", (("Host", "evil.example"),)),
    ("rebinding with the port", (("Host", "evil.example:9181"),)),
    ("rebinding below localhost", (("Host", "localhost.evil.example"),)),
    ("an address in a name", (("Host", "127.0.0.1.evil.example"),)),
    ("a name in user information", (("Host", "localhost@evil.example"),)),
    ("an address of the network", (("Host", "10.0.0.7:9181"),)),
    ("any address", (("Host", "0.0.0.0:9181"),)),
    ("no host", (("Host", ""),)),
    ("half an address", (("Host", "[::1"),)),
    ("a port that is none", (("Host", "localhost:9181x"),)),
    ("brackets and more", (("Host", "[::1]evil.example"),)),
    # A page of another site asks, or links.
    ("an origin", (("Origin", "https://evil.example"),)),
    ("a local origin", (("Origin", "http://localhost:8080"),)),
    ("a hidden origin", (("Origin", "null"),)),
    ("another site", (("Sec-Fetch-Site", "cross-site"),)),
    ("another port of this machine", (("Sec-Fetch-Site", "same-site"),)),
    # Something hands on what comes from elsewhere.
    ("a proxy", (("X-Forwarded-For", "10.0.0.7"),)),
    ("a mesh", (("X-Envoy-External-Address", "10.0.0.7"),)),
    ("a client certificate of a mesh", (("x-forwarded-client-cert", "Hash=1"),)),
    ("the standard header", (("Forwarded", "for=10.0.0.7"),)),
    ("via", (("Via", "1.1 proxy"),)),
    ("a real address", (("X-Real-IP", "10.0.0.7"),)),
)


@pytest.mark.parametrize(("_name", "headers"), REFUSED, ids=[name for name, _ in REFUSED])
async def test_loopback_alone_opens_nothing(_name: str, headers: Headers, attend: Attend) -> None:
    """The names of callers and tables would be any web page's, or any pod's of the mesh."""
    desk = await attend(Desk())
    for accept in (BROWSER, "application/json"):
        answer = await desk.get("/status", ("Accept", accept), *headers)
        assert answer.status == 403
        assert REFUSAL.principal not in answer.text
        # And how it is done right.
        assert "kubectl port-forward" in answer.text
        assert "admin.role" in answer.text
        assert "evil" not in answer.text


@pytest.mark.parametrize(
    "headers",
    (
        (),
        (("Host", "localhost"),),
        (("Host", "LOCALHOST:12345"),),
        (("Host", "127.0.0.1"),),
        (("Host", "[::1]:9181"),),
        (("Host", "[::1]"),),
        (("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "navigate")),
        (("Sec-Fetch-Site", "same-origin"),),
    ),
)
async def test_an_operator_at_the_machine_needs_no_token(headers: Headers, attend: Attend) -> None:
    """At three in the morning the identity provider may be what is down."""
    desk = await attend(Desk())
    assert (await desk.get("/status", *headers)).status == 200


@pytest.mark.parametrize("source", ("127.0.0.6", "127.0.0.2"))
async def test_what_a_mesh_hands_on_is_not_local(source: str, attend: Attend) -> None:
    """Istio delivers requests of any pod from 127.0.0.6, and their headers are the sender's own."""
    desk = await attend(Desk())
    answer = await desk.get("/status", source=source)
    assert answer.status == 403
    assert "does not come from loopback" in answer.text


async def test_a_unix_socket_is_guarded_by_its_permissions(tmp_path: Path, aiohttp_client: AiohttpClient) -> None:
    """A process that may open it is the operator's; what a browser or proxy sends is none all the same."""
    desk = await Desk().serve(partial(connect, aiohttp_client), tmp_path / "admin.sock")
    assert (await desk.get("/status", ("Host", "whatever"))).status == 200
    for headers in ((("Origin", "https://evil.example"),), (("X-Forwarded-For", "10.0.0.7"),)):
        assert (await desk.get("/status", *headers)).status == 403


@pytest.mark.parametrize(
    ("authorization", "status"),
    (
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        ("Bearer a-readers-token", 403),
        ("Bearer nobodys-token", 401),
        ("Bearer", 401),
        ("Basic b3BlcmF0b3I6", 401),
        ("Bearer keys-are-missing", 503),
    ),
)
async def test_from_elsewhere_the_role_opens_it(authorization: str, status: int, attend: Attend) -> None:
    """An operator of a gateway does not sit in its pod; and being known is not being an operator."""
    desk = await attend(Desk())
    answer = await desk.get("/status", ("Host", "signproxy.ops.svc"), ("Authorization", authorization))
    assert answer.status == status
    assert (REFUSAL.principal in answer.text) is (status == 200)
    assert "connection refused" not in answer.text


async def test_without_a_role_in_the_settings_no_token_opens_it(attend: Attend) -> None:
    """An empty role must not be one that every caller has."""
    desk = await attend(Desk(role=""))
    answer = await desk.get("/status", ("Host", "signproxy.ops.svc"), ("Authorization", f"Bearer {TOKEN}"))
    assert answer.status == 403
    assert "admin.role is not set" in answer.text


def test_uvloop_tells_the_same_of_a_connection(tmp_path: Path) -> None:
    """The server runs on it where it is installed, and its transports are its own."""

    async def look() -> None:
        desk = await Desk().serve(started_client)
        assert (await desk.get("/status")).status == 200
        assert (await desk.get("/status", source="127.0.0.6")).status == 403
        assert (await desk.get("/status", ("Host", "evil.example"))).status == 403
        await desk.aclose()
        desk = await Desk().serve(started_client, tmp_path / "admin.sock")
        assert (await desk.get("/status", ("Host", "whatever"))).status == 200
        await desk.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(look())
