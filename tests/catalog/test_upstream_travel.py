"""Which headers travel to the upstream and back, which prefix its paths have, and how upstreams are exchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from signproxy.catalog.flights import Flights
from signproxy.catalog.travel import back, onward
from signproxy.catalog.upstream import Question
from signproxy.catalog.upstream_spec import CallTimeouts, UpstreamSpec
from signproxy.catalog.upstreams import Bound, Upstreams
from signproxy.errors import Reason, Refused
from tests.catalog.scripted import Asked, Line, Scripted, answer, error, scripted
from tests.waiting import never

TIMES = CallTimeouts(connect=1.0, answer=1.0, read=1.0, load=0.5)


@asynccontextmanager
async def bound(**changes: object) -> AsyncIterator[tuple[Scripted, Bound]]:
    async with scripted() as server:
        upstreams = Upstreams()
        spec = msgspec.structs.replace(UpstreamSpec("lake", server.url, times=TIMES), **changes)
        upstreams.commit(await upstreams.prepare([spec]))
        found = upstreams.of("lake")
        assert found is not None
        try:
            yield server, found
        finally:
            await upstreams.aclose()


class TestHeaders:
    """A header may mean something to the upstream that nothing here has judged."""

    @pytest.mark.parametrize(
        "name",
        (
            "Accept",
            "content-type",
            "User-Agent",
            "Idempotency-Key",
            "X-Client-Version",
            "X-Iceberg-Anything",
            "traceparent",
            "Polaris-Realm",
        ),
    )
    def test_what_clients_say_to_the_catalog_is_sent_on(self, name: str) -> None:
        """The catalog would answer another client than the one that asks."""
        assert onward([(name, "v")], frozenset({"polaris-realm"})) == [(name, "v")]

    @pytest.mark.parametrize(
        "name",
        (
            "Authorization",
            "Host",
            "Cookie",
            "Connection",
            "Keep-Alive",
            "Transfer-Encoding",
            "TE",
            "Upgrade",
            "Expect",
            "Content-Length",
            "Content-Encoding",
            "Accept-Encoding",
            "Proxy-Authorization",
            "Forwarded",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Prefix",
            "X-Forwarded-User",
            "X-Real-IP",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-HTTP-Method-Override",
            "X-Iceberg-Access-Delegation",
            "X-Remote-User",
            "X-Amz-Security-Token",
            "Polaris-Realm",
        ),
    )
    def test_everything_else_ends_here(self, name: str) -> None:
        """A caller could name another method, path, host or user than the one that was judged."""
        assert onward([(name, "v"), (name.lower(), "v")], frozenset()) == []

    def test_no_setting_lets_headers_of_the_connection_pass(self) -> None:
        """The upstream would read another end of the message."""
        names = ["host", "transfer-encoding", "authorization", "content-length", "cookie"]
        assert onward([(name, "v") for name in names], frozenset(names)) == []

    def test_what_connection_names_ends_with_it(self) -> None:
        """RFC 9110, section 7.6.1; a client that sends both expects the header to be gone."""
        given = [("Connection", "close, X-Iceberg-A"), ("x-iceberg-a", "1"), ("X-Iceberg-B", "2")]
        assert onward(given, frozenset()) == [("X-Iceberg-B", "2")]

    @pytest.mark.parametrize("value", ("a\r\nX: 1", "a\nb", "a\0b", "\x7f", "\u00e9"))
    def test_what_could_end_a_line_is_not_sent(self, value: str) -> None:
        """One header could become two."""
        assert onward([("X-Iceberg-A", value)], frozenset()) == []
        assert back({"Retry-After": value}) == []

    def test_little_comes_back(self) -> None:
        """The upstream could set cookies at our host, have the answer kept, or send the client elsewhere."""
        given = {
            "Content-Type": "application/json",
            "Retry-After": "3",
            "Set-Cookie": "a=b",
            "Location": "http://elsewhere",
            "Cache-Control": "public",
            "Server": "s",
            "Strict-Transport-Security": "max-age=1",
            "Alt-Svc": "h3",
        }
        assert back(given) == [("Retry-After", "3")]


def config(prefix: object = None, defaults: object = None) -> bytes:
    overrides = {} if prefix is None else {"prefix": prefix}
    return answer(200, {"defaults": {} if defaults is None else {"prefix": defaults}, "overrides": overrides})


class TestPrefix:
    """The prefix that an upstream puts before the namespaces of a warehouse."""

    @pytest.mark.parametrize(
        ("said", "target"),
        (
            (config("p"), "v1/p/namespaces"),
            (config(None, "d"), "v1/d/namespaces"),
            (config("o", "d"), "v1/o/namespaces"),
            (config(), "v1/namespaces"),
            (config("main%7Cwh"), "v1/main%7Cwh/namespaces"),
            (config("catalogs/123"), "v1/catalogs/123/namespaces"),
        ),
    )
    async def test_it_is_asked_for_once(self, said: bytes, target: str) -> None:
        """Every call would cost two."""
        async with bound(warehouse="my wh") as (server, found):
            server.says(said)
            for _ in range(3):
                assert await found.paths.target("namespaces", "", "Bearer t", "r1") == target
            assert await found.paths.target("namespaces", "a=b", "Bearer t", "r1") == f"{target}?a=b"
        assert [asked.target for asked in server.asked] == ["/v1/config?warehouse=my%20wh"]
        assert server.last.headers["authorization"] == "Bearer t"

    async def test_the_settings_go_first(self) -> None:
        """An upstream that answers `/v1/config` wrongly could not be used."""
        async with bound(prefix="set") as (server, found):
            assert await found.paths.target("namespaces", "", None, "r1") == "v1/set/namespaces"
            found.paths.note(b'{"overrides": {"prefix": "other"}}')
            assert await found.paths.target("namespaces", "", None, "r1") == "v1/set/namespaces"
        assert not server.asked

    @pytest.mark.parametrize(
        "prefix", ("../admin", "a/../b", "/a", "%2e%2e", "a?b", "a#b", "a b", "x" * 1025, "%zz", 7)
    )
    async def test_a_prefix_that_leads_elsewhere_is_refused(self, prefix: object) -> None:
        """Calls would go to another place of the upstream than the one that was judged."""
        async with bound() as (server, found):
            server.says(config(prefix))
            with pytest.raises(Refused) as caught:
                await found.paths.target("namespaces", "", None, "r1")
        assert caught.value.reason is Reason.UPSTREAM_INVALID

    @pytest.mark.parametrize(
        ("said", "reason"),
        (
            (error(401, "NotAuthorizedException"), Reason.UPSTREAM_UNAUTHORIZED),
            (error(419, "AuthenticationTimeoutException"), Reason.UPSTREAM_UNAUTHORIZED),
            (error(403, "ForbiddenException"), Reason.CALL_NOT_PERMITTED),
            (error(404, "NotFoundException"), Reason.UPSTREAM_INVALID),
            (error(500, "InternalServerError"), Reason.UPSTREAM_FAILED),
            (error(501, "UnsupportedOperationException"), Reason.UPSTREAM_FAILED),
            (error(502, "BadGateway"), Reason.UPSTREAM_UNAVAILABLE),
            (error(503, "ServiceUnavailableException"), Reason.UPSTREAM_UNAVAILABLE),
            (error(504, "GatewayTimeout"), Reason.UPSTREAM_UNAVAILABLE),
            (error(429, "TooManyRequestsException"), Reason.UPSTREAM_UNAVAILABLE),
            (answer(200, b"<html>"), Reason.UPSTREAM_INVALID),
            (answer(200, b"[" * 50_000), Reason.UPSTREAM_INVALID),
            (answer(200, b"\xff"), Reason.UPSTREAM_INVALID),
            (answer(200, b" " * 1_100_000), Reason.UPSTREAM_INVALID),
        ),
    )
    async def test_a_failure_is_told_and_not_kept(self, said: bytes, reason: Reason) -> None:
        """One bad answer at the start would fail every call from then on."""
        async with bound() as (server, found):
            server.says(said)
            with pytest.raises(Refused) as caught:
                await found.paths.target("namespaces", "", None, "r1")
            assert caught.value.reason is reason
            server.says(config("p"))
            assert await found.paths.target("namespaces", "", None, "r1") == "v1/p/namespaces"

    async def test_those_who_come_together_ask_together_but_never_for_one_another(self) -> None:
        """A caller whose token is refused would have others refused."""
        async with bound() as (server, found):

            async def script(asked: Asked, line: Line) -> bytes:
                await asyncio.sleep(0.05)
                good = asked.headers["authorization"] == "Bearer good"
                return config("p") if good else error(401, "NotAuthorizedException")

            server.script = script
            tokens = ["good"] * 5 + ["bad"] * 5
            found_targets = await asyncio.gather(
                *(found.paths.target("namespaces", "", f"Bearer {token}", "r1") for token in tokens),
                return_exceptions=True,
            )
        assert found_targets[:5] == ["v1/p/namespaces"] * 5
        assert {type(each) for each in found_targets[5:]} == {Refused}
        assert len(server.asked) == 2

    async def test_a_config_that_passes_by_teaches_it(self) -> None:
        """The prefix would be asked for again although every client asks for it first; and never change."""
        async with bound() as (server, found):
            found.paths.note(b'{"overrides": {"prefix": "a"}}')
            assert await found.paths.target("x", "", None, "r1") == "v1/a/x"
            found.paths.note(b'{"overrides": {"prefix": "b"}}')
            assert await found.paths.target("x", "", None, "r1") == "v1/b/x"
        assert not server.asked


def speaking(separator: str) -> bytes:
    return answer(200, {"defaults": {}, "overrides": {"prefix": "p", "namespace-separator": separator}})


class TestSeparator:
    """Iceberg's own test server takes %2E between levels and nothing else; Nessie takes %1F alone."""

    @pytest.mark.parametrize(
        ("path", "query", "target"),
        (
            ("namespaces/a%1Fb%1Fc/tables/t", "", "v1/p/namespaces/a%2Eb%2Ec/tables/t"),
            ("namespaces/a%1Fb", "x=%1F", "v1/p/namespaces/a%2Eb?x=%1F"),
            ("namespaces", "pageSize=1&parent=a%1Fb%1fc", "v1/p/namespaces?pageSize=1&parent=a%2Eb%2Ec"),
            ("namespaces", "myparent=a%1Fb", "v1/p/namespaces?myparent=a%1Fb"),
            ("namespaces/a/tables/t.x", "", "v1/p/namespaces/a/tables/t.x"),
            ("tables/rename", "", "v1/p/tables/rename"),
        ),
    )
    async def test_levels_are_separated_as_the_upstream_does(self, path: str, query: str, target: str) -> None:
        """Every table of a nested namespace would be unknown; Spark asks for one with each metadata table."""
        async with bound() as (server, found):
            server.says(speaking("%2E"))
            assert await found.paths.target(path, query, None, "r1") == target

    @pytest.mark.parametrize("said", (speaking("%1F"), config("p")))
    async def test_otherwise_as_the_specification_does(self, said: bytes) -> None:
        """A catalog that says nothing would be spoken to in another's way."""
        async with bound() as (server, found):
            server.says(said)
            assert await found.paths.target("namespaces/a%1Fb", "", None, "r1") == "v1/p/namespaces/a%1Fb"

    async def test_it_is_asked_for_where_the_prefix_is_set(self) -> None:
        """A setting that spares one question would make another go wrong."""
        async with bound(prefix="set") as (server, found):
            server.says(speaking("."))
            assert await found.paths.target("namespaces/a/tables/t", "", None, "r1") == "v1/set/namespaces/a/tables/t"
            assert not server.asked
            for _ in range(2):
                assert await found.paths.target("namespaces/a%1Fb", "", None, "r1") == "v1/set/namespaces/a.b"
        assert len(server.asked) == 1

    async def test_the_settings_go_first(self) -> None:
        """An upstream that answers `/v1/config` wrongly could not be used."""
        async with bound(prefix="set", separator="%2E") as (server, found):
            assert await found.paths.target("namespaces/a%1Fb", "", None, "r1") == "v1/set/namespaces/a%2Eb"
            found.paths.note(b'{"overrides": {"namespace-separator": "-"}}')
            assert await found.paths.target("namespaces/a%1Fb", "", None, "r1") == "v1/set/namespaces/a%2Eb"
        assert not server.asked

    async def test_a_level_that_holds_it_is_refused(self) -> None:
        """One namespace here would be two there, and the caller was judged for the one."""
        async with bound(prefix="set", separator="-") as (_, found):
            with pytest.raises(Refused) as caught:
                await found.paths.target("namespaces/a-b/tables/t", "", None, "r1")
            assert caught.value.reason is Reason.ROUTE_MALFORMED
            assert (
                await found.paths.target("namespaces/a/tables/t-x", "", None, "r1") == "v1/set/namespaces/a/tables/t-x"
            )

    @pytest.mark.parametrize(
        "separator", ("/", "%2F", "%5C", "%00", "%0A", "?", "#", "%25", "a b", "x" * 33, "%zz", ";")
    )
    async def test_a_separator_that_changes_the_path_is_refused(self, separator: str) -> None:
        """A call would go to another place of the upstream than the one that was judged."""
        async with bound() as (server, found):
            server.says(speaking(separator))
            with pytest.raises(Refused) as caught:
                await found.paths.target("namespaces/a%1Fb", "", None, "r1")
        assert caught.value.reason is Reason.UPSTREAM_INVALID


class TestExchangedOnReload:
    """A reload changes where calls go, and loses none."""

    async def test_the_same_settings_keep_the_connections(self) -> None:
        """Each reload of a policy would break every stream."""
        async with scripted() as server:
            upstreams = Upstreams()
            spec = UpstreamSpec("lake", server.url)
            upstreams.commit(await upstreams.prepare([spec]))
            before = upstreams.of("lake")
            assert upstreams.commit(await upstreams.prepare([msgspec.structs.replace(spec)])) == ()
            assert upstreams.of("lake") is before
            await upstreams.aclose()

    async def test_a_call_under_way_ends_where_it_began(self) -> None:
        """A commit would be cut off, and the client could not know whether it was made."""
        async with scripted() as server:
            upstreams = Upstreams()
            spec = UpstreamSpec("lake", server.url)
            upstreams.commit(await upstreams.prepare([spec]))
            before = upstreams.of("lake")
            assert before is not None
            release = asyncio.Event()

            async def wait(asked: Asked, line: Line) -> bytes:
                await release.wait()
                return answer(200, {"old": True})

            server.script = wait
            asked = asyncio.ensure_future(before.upstream.ask(Question("GET", "v1/x", [])))
            await server.until_asked()
            moved = msgspec.structs.replace(spec, uri=f"{server.url}/moved")
            assert upstreams.commit(await upstreams.prepare([moved])) == ("lake",)
            release.set()
            async with await asked as found:
                assert found.status == 200
                assert await found.whole() == b'{"old": true}'
            await upstreams.aclose()

    async def test_what_was_learned_is_forgotten_only_where_it_was_learned_elsewhere(self) -> None:
        """A new time limit would make every table be asked for again; a new catalog would keep the old one's tables."""
        upstreams = Upstreams()
        spec = UpstreamSpec("lake", "http://127.0.0.1:1")
        upstreams.commit(await upstreams.prepare([spec]))
        changed = msgspec.structs.replace
        assert upstreams.commit(await upstreams.prepare([changed(spec, connections=3)])) == ()
        assert upstreams.commit(await upstreams.prepare([changed(spec, warehouse="other")])) == ("lake",)
        assert upstreams.commit(await upstreams.prepare([])) == ("lake",)
        assert upstreams.of("lake") is None
        await upstreams.aclose()

    async def test_what_is_discarded_leaves_what_serves(self) -> None:
        """A reload that another worker refused would end the connections in use."""
        async with scripted() as server:
            server.says(answer(200, {}))
            upstreams = Upstreams()
            spec = UpstreamSpec("lake", server.url)
            upstreams.commit(await upstreams.prepare([spec]))
            prepared = await upstreams.prepare([spec, msgspec.structs.replace(spec, catalog="other")])
            await upstreams.discard(prepared)
            found = upstreams.of("lake")
            assert found is not None
            async with await found.upstream.ask(Question("GET", "v1/x", [])) as said:
                assert said.status == 200
            assert upstreams.of("other") is None
            assert [report.catalog for report in upstreams.reports()] == ["lake"]
            await upstreams.aclose()


async def test_flights_end_with_their_owner() -> None:
    """A worker that stops would leave tasks behind that nothing waits for."""
    flights: Flights[str, int] = Flights()

    async def hangs() -> int:
        await never()
        return 1

    waiting = asyncio.ensure_future(flights.join("a", hangs))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(flights) == 1
    await flights.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(flights) == 0
