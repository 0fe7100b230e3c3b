"""How an upstream catalog is asked, over a network and by servers as bad as they come."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from signproxy.catalog.upstream import Question, Upstream, Whole, open_upstream
from signproxy.catalog.upstream_spec import CallTimeouts, Effect, UpstreamSpec
from signproxy.errors import Reason, Refused
from signproxy.outbound.tls import no_tls
from tests.authority import Authority
from tests.catalog.scripted import Line, Scripted, answer, chunked, packed, scripted
from tests.waiting import never

SPEC = UpstreamSpec("lake", "", times=CallTimeouts(connect=1.0, answer=0.3, read=0.3, load=0.5))
GET = Question("GET", "v1/namespaces", [])
COMMIT = Question("POST", "v1/namespaces/n/tables/t", [], Effect.CHANGE, Whole(b"{}"))
PLAN = Question("POST", "v1/namespaces/n/tables/t/plan", [], Effect.NONE, Whole(b"{}"))


@asynccontextmanager
async def asking(url: str, **changes: object) -> AsyncIterator[Upstream]:
    upstream = await open_upstream(msgspec.structs.replace(SPEC, uri=url, **changes))
    try:
        yield upstream
    finally:
        await upstream.aclose()


@asynccontextmanager
async def pair(**changes: object) -> AsyncIterator[tuple[Scripted, Upstream]]:
    async with scripted() as other, asking(other.url, **changes) as upstream:
        yield other, upstream


async def whole(upstream: Upstream, question: Question = GET) -> tuple[int, bytes]:
    async with await upstream.ask(question) as found:
        return found.status, await found.whole()


async def refusal(upstream: Upstream, question: Question = GET) -> Refused:
    with pytest.raises(Refused) as caught:
        await whole(upstream, question)
    return caught.value


class TestWhatIsSent:
    """The upstream judges what it is sent; it must be what signproxy judged."""

    @pytest.mark.parametrize(
        "target",
        (
            "v1/p/namespaces/a%1Fb/tables/t%20x",
            "v1/p/namespaces/a+b/tables/%C3%A9%2B%3D",
            "v1/p/namespaces/a%1fb/tables/%7e~%7E",
            "v1/p/namespaces/a/tables/t?referenced-by=n%1Fv%2Cw,n%1Fx&snapshots=all",
            "v1/p/namespaces?parent=a%1Fb&pageToken=&pageSize=10",
            "v1/main%7Cwarehouse/namespaces",
        ),
    )
    async def test_a_path_goes_out_byte_for_byte(self, target: str) -> None:
        """Another spelling can be another table for a server that decodes differently."""
        async with pair() as (other, upstream):
            other.says(answer(200, {}))
            await whole(upstream, msgspec.structs.replace(GET, target=target))
        assert other.last.target == f"/{target}"

    async def test_nothing_is_added_to_the_headers(self) -> None:
        """A default of the HTTP library would ask for a packed answer, or claim to be another client."""
        async with pair() as (other, upstream):
            other.says(answer(200, {}))
            await whole(upstream, msgspec.structs.replace(GET, headers=[("X-Client-Version", "1.12")]))
            await whole(upstream, PLAN)
        assert set(other.asked[0].headers) == {"host", "x-client-version"}
        assert other.asked[0].headers["host"] == other.url.removeprefix("http://")
        assert set(other.asked[1].headers) == {"host", "content-length"}

    async def test_a_body_is_sent_with_its_length_or_in_chunks(self) -> None:
        """A length that is not the content's would let the rest of it pass for another request."""

        class Unknown:
            length = None
            fault = None

            async def parts(self) -> AsyncIterator[bytes]:
                yield b"ab"
                yield b"cd"

        async with pair() as (other, upstream):
            other.says(answer(200, {}))
            await whole(upstream, msgspec.structs.replace(COMMIT, body=Whole(b"x" * 3_000_000)))
            await whole(upstream, msgspec.structs.replace(COMMIT, body=Unknown()))
        assert other.asked[0].headers["content-length"] == "3000000"
        assert other.asked[0].body == b"x" * 3_000_000
        assert other.asked[1].headers["transfer-encoding"] == "chunked"
        assert other.asked[1].body == b"abcd"

    async def test_cookies_are_not_kept(self) -> None:
        """One caller's session at the upstream would become the next caller's."""
        async with pair() as (other, upstream):
            other.says(answer(200, {}, {"Set-Cookie": "session=1; Path=/"}))
            await whole(upstream)
            await whole(upstream)
        assert "cookie" not in other.last.headers

    async def test_a_proxy_of_the_environment_is_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A user who sets a variable of the process would be sent every caller's token."""
        async with scripted() as proxy, pair() as (other, upstream):
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
                monkeypatch.setitem(os.environ, name, proxy.url)
            other.says(answer(200, {}))
            assert (await whole(upstream))[0] == 200
        assert not proxy.asked

    @pytest.mark.parametrize("status", (300, 301, 302, 303, 307, 308))
    @pytest.mark.parametrize("question", (GET, COMMIT))
    async def test_a_redirect_is_not_followed(self, status: int, question: Question) -> None:
        """A catalog could send callers' tokens to any host, and internal services requests of signproxy."""
        async with scripted() as elsewhere, pair() as (other, upstream):
            other.says(answer(status, None, {"Location": f"{elsewhere.url}/v1/namespaces"}))
            refused = await refusal(upstream, question)
        assert refused.reason is Reason.UPSTREAM_INVALID
        assert not elsewhere.asked
        assert len(other.asked) == 1


class TestWhatComesBack:
    """Answers in every form that HTTP has, and in some that it has not."""

    @pytest.mark.parametrize(
        "said",
        (
            answer(200, {"a": 1}),
            chunked(b'{"a": 1}'),
            packed({"a": 1}),
            chunked(b'{"a": 1}', 1),
            b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"a": 1}',
            b'HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}',
            b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}',
        ),
    )
    async def test_an_answer_is_read_in_any_framing(self, said: bytes) -> None:
        """A catalog behind another server would not work."""
        async with pair() as (other, upstream):
            if b"Connection: close" in said:

                async def close(line: Line) -> None:
                    await line.send(said)
                    line.hang_up()

                other.does(close)
            else:
                other.says(said)
            status, body = await whole(upstream)
        assert (status, json.loads(body)) == (200, {"a": 1})

    async def test_a_large_answer_is_read_whole(self) -> None:
        """Tables with many snapshots have metadata of megabytes."""
        content = json.dumps({"a": "x" * 5_000_000}).encode()
        async with pair() as (other, upstream):
            other.says(answer(200, content), chunked(content, 100_000))
            assert (await whole(upstream))[1] == content
            assert (await whole(upstream))[1] == content

    @pytest.mark.parametrize("said", (answer(200, b"x" * 1001), chunked(b"x" * 1001), packed("x" * 1000)))
    async def test_an_answer_over_the_bound_is_refused(self, said: bytes) -> None:
        """One answer could use up the memory of the sidecar; packed, a small one."""
        async with pair(max_answer=1000) as (other, upstream):
            other.says(said)
            refused = await refusal(upstream)
            assert refused.reason is Reason.UPSTREAM_INVALID
            other.says(answer(200, b"x" * 1000), packed("x" * 998))
            assert len((await whole(upstream))[1]) == 1000
            assert len((await whole(upstream))[1]) == 1000

    @pytest.mark.parametrize(
        "said",
        (
            answer(200, b"x" * 50, {"Content-Encoding": "br"}),
            answer(200, b"no gzip", {"Content-Encoding": "gzip"}),
            answer(200, packed({"a": 1}).partition(b"\r\n\r\n")[2][:-9], {"Content-Encoding": "gzip"}),
        ),
    )
    async def test_what_cannot_be_unpacked_is_refused(self, said: bytes) -> None:
        """A client would be handed noise as metadata."""
        async with pair() as (other, upstream):
            other.says(said)
            assert (await refusal(upstream)).reason is Reason.UPSTREAM_INVALID

    @pytest.mark.parametrize(
        "said", (b"nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
    )
    @pytest.mark.parametrize("question", (GET, COMMIT))
    async def test_what_is_no_http_is_refused(self, said: bytes, question: Question) -> None:
        """A wrong port would end in a trace instead of a message that names the upstream."""
        async with pair() as (other, upstream):
            other.says(said)
            assert (await refusal(upstream, question)).reason is Reason.UPSTREAM_INVALID


class TestFaults:
    """What a caller is told decides whether it deletes the files of a commit that was made."""

    async def test_nothing_listens(self) -> None:
        """A catalog that restarts would fail jobs that could have waited."""
        async with scripted() as other:
            url = other.url
        async with asking(url) as upstream:
            # Nothing was sent, so this is as good as nothing done.
            for question in (GET, PLAN, COMMIT):
                assert (await refusal(upstream, question)).reason is Reason.UPSTREAM_UNAVAILABLE
        assert upstream.health.results["unreachable"] == 3

    async def test_a_listener_that_is_exchanged_is_tried_once_more(self) -> None:
        """A restart of the catalog would fail a commit that nothing had been sent of."""
        async with scripted() as other:
            url = other.url
        port = int(url.rpartition(":")[2])
        async with asking(url) as upstream, contextlib.AsyncExitStack() as stack:
            asked = asyncio.ensure_future(whole(upstream, COMMIT))
            await asyncio.sleep(0.02)

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer(200, {}))
                await writer.drain()
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", port)
            stack.push_async_callback(server.wait_closed)
            stack.callback(server.close)
            assert (await asked)[0] == 200

    @pytest.mark.parametrize(
        ("question", "reason"),
        (
            (GET, Reason.UPSTREAM_UNAVAILABLE),
            (PLAN, Reason.UPSTREAM_UNAVAILABLE),
            (COMMIT, Reason.UPSTREAM_TIMEOUT),
            (msgspec.structs.replace(COMMIT, method="DELETE", body=None), Reason.UPSTREAM_TIMEOUT),
        ),
    )
    @pytest.mark.parametrize(
        "point", ("hangs", "resets", "closes", "half head", "half body", "half chunk", "body hangs")
    )
    async def test_an_answer_is_lost(self, point: str, question: Question, reason: Reason) -> None:
        """After 503 to a commit that was made, the client deletes its files or commits twice: data is lost."""
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"

        async def lose(line: Line) -> None:
            match point:
                case "hangs":
                    await never()
                case "resets":
                    line.reset()
                case "closes":
                    line.hang_up()
                case "half head":
                    await line.send(head[:20])
                    line.hang_up()
                case "half body":
                    await line.send(head + b"12345")
                    line.hang_up()
                case "half chunk":
                    await line.send(chunked(b"1234567890", end=False))
                    line.reset()
                case _:
                    await line.send(head + b"12345")
                    await never()

        async with pair() as (other, upstream):
            other.does(lose)
            assert (await refusal(upstream, question)).reason is reason
            repeated = question.method == "GET" and point in ("resets", "closes", "half head")
            assert len(other.asked) == 1 + repeated
            # And the next call finds a connection.
            other.says(answer(200, {}))
            assert (await whole(upstream, question))[0] == 200

    @pytest.mark.parametrize("method", ("DELETE", "POST", "PUT"))
    async def test_a_change_is_sent_once(self, method: str) -> None:
        """The HTTP library repeats a DELETE on a lost connection: the drop of a table's successor."""
        async with pair() as (other, upstream):

            async def close(line: Line) -> None:
                line.hang_up()

            other.does(close)
            await refusal(upstream, msgspec.structs.replace(COMMIT, method=method, body=None))
        assert len(other.asked) == 1

    async def test_a_read_is_repeated_once(self) -> None:
        """Servers close idle connections at the very moment in which they are used again."""
        async with pair() as (other, upstream):
            other.says(answer(200, {}))
            await whole(upstream)
            calls = len(other.asked)

            async def script(_: object, line: Line) -> bytes | None:
                if len(other.asked) == calls + 1:
                    line.hang_up()
                    return None
                return answer(200, {"second": True})

            other.script = script
            assert json.loads((await whole(upstream))[1]) == {"second": True}
        assert len(other.asked) == calls + 2

    async def test_changes_have_connections_of_their_own(self) -> None:
        """A commit that is sent on a connection which is just being closed is neither made nor known not to be."""
        async with pair() as (other, upstream):
            other.says(answer(200, {}))
            for question in (GET, GET, COMMIT, COMMIT, GET):
                await whole(upstream, question)
        first, second, third, fourth, fifth = [asked.connection for asked in other.asked]
        assert first == second == fifth
        assert len({first, third, fourth}) == 3
        assert other.asked[2].headers["connection"] == "close"

    async def test_a_full_pool_is_no_connection(self) -> None:
        """Calls would pile up behind a catalog that hangs, and a commit in the queue would count as sent."""
        times = CallTimeouts(connect=0.1, answer=2.0, read=2.0)
        async with pair(connections=1, times=times) as (other, upstream):
            over = asyncio.Event()

            async def wait(line: Line) -> None:
                await over.wait()

            other.does(wait)
            slow = asyncio.ensure_future(refusal(upstream, COMMIT))
            await other.until_asked()
            assert (await refusal(upstream, COMMIT)).reason is Reason.UPSTREAM_UNAVAILABLE
            assert len(other.asked) == 1
            over.set()
            assert (await slow).reason is Reason.UPSTREAM_TIMEOUT

    async def test_a_question_may_be_bounded_as_a_whole(self) -> None:
        """A sign request would wait for a catalog that sends a byte now and then."""
        async with pair() as (other, upstream):

            async def dribble(line: Line) -> None:
                await line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
                for _ in range(100):
                    await asyncio.sleep(0.1)
                    await line.send(b" ")

            other.does(dribble)
            question = msgspec.structs.replace(GET, within=0.4)
            async with asyncio.timeout(3):
                assert (await refusal(upstream, question)).reason is Reason.UPSTREAM_UNAVAILABLE

    async def test_who_goes_away_ends_the_call(self) -> None:
        """A catalog would plan scans for clients that are gone."""
        async with pair(times=CallTimeouts()) as (other, upstream):

            async def wait(line: Line) -> None:
                await never()

            other.does(wait)
            asked = asyncio.ensure_future(whole(upstream))
            await other.until_asked()
            asked.cancel()
            await asyncio.wait_for(other.gone.wait(), 5)
            assert upstream.health.in_flight == 0


class TestTls:
    """The token goes to the server that shows the right certificate, and to no other."""

    async def test_a_certificate_of_the_given_authority_is_trusted(self, tmp_path: Path) -> None:
        """A catalog with a certificate of the company's own could not be used."""
        authority = Authority()
        async with (
            scripted(server_context(authority, tmp_path)) as other,
            asking(other.url, ca=authority.pem) as upstream,
        ):
            other.says(answer(200, {}))
            assert (await whole(upstream))[0] == 200

    @pytest.mark.parametrize("hosts", ((), ("catalog.example",)))
    async def test_any_other_certificate_is_not(self, hosts: tuple[str, ...], tmp_path: Path) -> None:
        """A host between the two would get the tokens of all callers."""
        authority = Authority()
        # Signed by another authority, or made out to another host.
        trusted = authority.pem if hosts else Authority().pem
        context = server_context(authority, tmp_path, *hosts)
        async with scripted(context) as other, asking(other.url, ca=trusted) as upstream:
            refused = await refusal(upstream)
        assert refused.reason is Reason.UPSTREAM_UNAVAILABLE
        assert "TLS" in refused.detail
        assert not other.asked


def server_context(authority: Authority, directory: Path, *hosts: str) -> ssl.SSLContext:
    where = authority.issue(*hosts).write(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(where / "tls.crt", where / "tls.key")
    return context


class TestHealth:
    """What an operator sees of an upstream."""

    async def test_each_call_is_counted_once(self) -> None:
        """The alarm on failing upstreams would ring for nothing, or not at all."""
        async with pair() as (other, upstream):
            other.says(answer(200, {}), answer(404, {}), answer(503, {}), answer(200, b"{}"))
            for _ in range(4):
                await whole(upstream)
            report = upstream.health
        assert {name: count for name, count in report.results.items() if count} == {"ok": 2, "refused": 1, "failed": 1}
        assert report.problem == ""
        assert report.last_success_at >= report.last_failure_at > 0

    async def test_the_last_problem_stands_until_there_is_an_answer(self) -> None:
        """An operator could not tell a fault that is over from one that lasts."""
        async with pair() as (other, upstream):
            other.says(answer(502, b"<html>"))
            await whole(upstream)
            assert upstream.health.problem == "status 502"
            other.says(answer(200, {}))
            await whole(upstream)
            assert upstream.health.problem == ""

    async def test_how_long_the_answer_took_is_measured(self) -> None:
        """Slow sign requests could not be told from a slow catalog."""
        seen: list[float] = []
        async with scripted() as other:
            upstream = Upstream(msgspec.structs.replace(SPEC, uri=other.url), no_tls(), observe=seen.append)
            other.says(answer(200, {}))
            await whole(upstream)
            await upstream.aclose()
        assert len(seen) == 1
        assert 0 < seen[0] < 5
