"""An upstream that is down, slow or breaks off, and what a client is told: its files depend on it."""

from __future__ import annotations

import asyncio
import errno
import time
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

import pytest

from signproxy.audit.trail_state import OnError
from signproxy.catalog.upstream_spec import CallTimeouts
from signproxy.errors import Reason, Refused
from signproxy.facade.call_answers import CallAnswers
from tests.catalog.scripted import Line, answer, error
from tests.facade.front import MOUNT, POLICY, T1, Front, front, loaded, only
from tests.product import token_of
from tests.waiting import never, until

COMMIT: tuple[str, str, Any] = ("POST", T1, {"requirements": [], "updates": []})
RENAME = {"source": {"namespace": ["ns"], "name": "t1"}, "destination": {"namespace": ["ns"], "name": "t2"}}
CHANGE = {"identifier": {"namespace": ["ns"], "name": "t1"}, "requirements": [], "updates": []}
CHANGES: tuple[tuple[str, str, Any], ...] = (
    COMMIT,
    ("POST", "/v1/lake/namespaces/ns/tables", {"name": "t1"}),
    ("POST", "/v1/lake/namespaces/ns/register", {"name": "t1", "metadata-location": "s3://lakehouse/t1/m"}),
    ("DELETE", T1, None),
    ("POST", "/v1/lake/tables/rename", RENAME),
    ("POST", "/v1/lake/transactions/commit", {"table-changes": [CHANGE]}),
    ("POST", "/v1/lake/namespaces", {"namespace": ["new"]}),
    ("POST", "/v1/lake/namespaces/ns/properties", {"updates": {}}),
    ("DELETE", "/v1/lake/namespaces/ns", None),
    ("POST", "/v1/lake/namespaces/ns/views", {"name": "v"}),
    ("POST", "/v1/lake/namespaces/ns/views/v", {"updates": []}),
    ("DELETE", "/v1/lake/namespaces/ns/views/v", None),
    ("POST", "/v1/lake/views/rename", RENAME),
)
READS: tuple[tuple[str, str, Any], ...] = (
    ("GET", T1, None),
    ("HEAD", T1, None),
    ("GET", "/v1/lake/namespaces", None),
    ("POST", f"{T1}/plan", {}),
    ("POST", f"{T1}/tasks", {"plan-task": "x"}),
    ("POST", f"{T1}/metrics", {"report-type": "scan-report"}),
    ("GET", "/v1/config", None),
)


async def lose(line: Line, point: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    match point:
        case "hangs":
            await never()
        case "resets":
            line.reset()
        case "closes":
            line.hang_up()
        case "half head":
            await line.send(head[:30])
            line.reset()
        case _:
            await line.send(head + b'{"metadata": {')
            line.hang_up()


POINTS = ("hangs", "resets", "closes", "half head", "half body")
BRIEF = CallTimeouts(connect=1.0, answer=0.25, read=0.25, load=0.25)


def losing(point: str) -> AbstractAsyncContextManager[Front]:
    """Serve in front of an upstream that loses an answer; one that hangs is waited for briefly."""
    return front(times=BRIEF) if point == "hangs" else front()


class TestFaults:
    """503 says that nothing happened, and to come again; 504 that it is not known."""

    @pytest.mark.parametrize(("method", "path", "body"), (*CHANGES, *READS))
    async def test_an_upstream_that_is_down_is_503(self, method: str, path: str, body: object) -> None:
        """A catalog that restarts would fail jobs instead of delaying them."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            uri = "http://127.0.0.1:1"
            (spec,) = (_moved(spec, uri) for spec in product.specs)
            product.upstreams.commit(await product.upstreams.prepare([spec]))
            found = await product.ask(method, path, body=body)
            assert found.status == 503
            assert found.headers["Retry-After"] == "5"
            if method != "HEAD":
                assert found.error["type"] == "ServiceUnavailableException"
            # And what is known goes on being signed.
            assert await product.signs(method="PUT") == 200

    @pytest.mark.parametrize("point", POINTS)
    @pytest.mark.parametrize(("method", "path", "body"), READS)
    async def test_a_lost_answer_of_a_read_is_503(self, method: str, path: str, body: object, point: str) -> None:
        """Java repeats a read on 503 with `Retry-After`, and gives the job up on anything else."""
        if point == "half body" and (method == "HEAD" or path.endswith("/metrics")):
            # No body is waited for, and the head says all there is to say.
            point = "half head"
        async with losing(point) as product:
            product.upstream.does(lambda line: lose(line, point))
            found = await product.ask(method, path, body=body)
            assert found.status == 503
            assert "Retry-After" in found.headers
            assert only(product.events()).reason == "upstream_unavailable"

    @pytest.mark.parametrize("point", POINTS)
    @pytest.mark.parametrize(("method", "path", "body"), CHANGES)
    async def test_a_lost_answer_of_a_change_is_504(self, method: str, path: str, body: object, point: str) -> None:
        """On 503 or 4xx Java deletes the files of a commit that was made: the table is broken for good."""
        if point == "half body" and (method == "DELETE" or "rename" in path or "transactions" in path):
            # No body is waited for, and the head says all there is to say.
            point = "half head"
        async with losing(point) as product:
            product.upstream.says(loaded())
            await product.load()
            asked = len(product.upstream.asked)
            product.upstream.does(lambda line: lose(line, point))
            found = await product.ask(method, path, body=body)
            assert found.status == 504
            assert found.error["type"] == "GatewayTimeoutException"
            assert "Retry-After" not in found.headers
            assert len(product.upstream.asked) == asked + 1
            event = product.events()[-1]
        assert (event.reason, event.decision.value, event.http_status) == ("upstream_timeout", "error", 504)

    @pytest.mark.parametrize(("method", "path", "body"), CHANGES[:6])
    async def test_what_may_have_changed_is_asked_for_again(self, method: str, path: str, body: object) -> None:
        """A table that was dropped or moved by a call without an answer would be signed for as before."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.does(lambda line: lose(line, "resets"))
            assert (await product.ask(method, path, body=body)).status == 504
            product.upstream.says(loaded())
            asked = len(product.upstream.asked)
            assert await product.signs() == 200
            assert len(product.upstream.asked) == asked + 1

    @pytest.mark.parametrize(
        "said",
        (
            answer(200, b"<html>"),
            answer(200, {"metadata": {"location": "s3://lakehouse/t1"}}),
            answer(307, None, {"Location": "http://127.0.0.1:1/"}),
            b"SSH-2.0-OpenSSH\r\n\r\n",
        ),
    )
    async def test_a_commit_with_an_answer_that_is_none_is_502(self, said: bytes) -> None:
        """Java takes 502 for an unknown state as well, and keeps the files."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.says(said)
            found = await product.ask(*COMMIT[:2], body=COMMIT[2])
            assert found.status == 502
            assert found.error["type"] == "BadGatewayException"

    @pytest.mark.parametrize("status", (500, 502, 503, 504))
    async def test_the_upstream_s_own_word_on_a_commit_passes(self, status: int) -> None:
        """It knows what became of it: Java acts on the difference."""
        async with front() as product:
            product.upstream.says(loaded())
            await product.load()
            product.upstream.says(error(status, "CommitStateUnknownException"))
            found = await product.ask(*COMMIT[:2], body=COMMIT[2])
            assert (found.status, found.error["type"]) == (status, "CommitStateUnknownException")

    async def test_a_fault_of_our_own_does_not_undo_a_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A bug here would answer 503 to a commit that was made."""

        async def fail(*_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(CallAnswers, "of", fail)
        async with front() as product:
            product.upstream.says(loaded())
            assert (await product.ask(*COMMIT[:2], body=COMMIT[2])).status == 504
            assert (await product.load()).status == 503

    async def test_a_trail_that_is_down_keeps_a_commit_from_being_made(self) -> None:
        """A full disk of the audit trail would make clients delete the files of commits that were made."""
        async with front(on_error=OnError.DENY) as product:
            product.upstream.says(loaded())
            await product.load()
            asked = len(product.upstream.asked)
            product.trail._told(f"no space: {errno.ENOSPC}")
            found = await product.ask(*COMMIT[:2], body=COMMIT[2])
            assert found.status == 503
            # Nothing is told without proof, either.
            found = await product.load()
            assert found.status == 503
            assert b"lakehouse" not in found.content
            assert len(product.upstream.asked) == asked

    @pytest.mark.parametrize(
        ("said", "status"), ((loaded(), 200), (error(409, "CommitFailedException"), 409), (error(500, "X"), 500))
    )
    async def test_a_trail_that_goes_down_meanwhile_does_not_undo_a_commit(self, said: bytes, status: int) -> None:
        """The place of its event was kept: what became of a commit is told, and not that the disk is full."""
        async with front(on_error=OnError.DENY) as product:
            product.upstream.says(loaded())
            await product.load()

            async def fail(line: Line) -> None:
                product.trail._told(f"no space: {errno.ENOSPC}")
                await line.send(said)

            product.upstream.does(fail)
            found = await product.ask(*COMMIT[:2], body=COMMIT[2])
            assert found.status == status

    async def test_a_client_that_leaves_in_the_middle_of_a_commit_leaves_doubt(self) -> None:
        """The table would be signed for as it was, whatever the commit did to it."""
        async with front(times=CallTimeouts()) as product:
            product.upstream.says(loaded())
            await product.load()

            async def wait(line: Line) -> None:
                await never()

            product.upstream.does(wait)
            writer = await _post(product, b'{"requirements":[],"updates":[]}')
            await product.upstream.until_asked(2)
            writer.close()
            await asyncio.wait_for(product.upstream.gone.wait(), 5)
            await until(lambda: product.handler.in_flight == 0)
            product.upstream.says(loaded())
            assert await product.signs() == 200
            assert product.upstream.last.method == "GET"

    async def test_a_body_that_never_comes_is_no_fault_of_the_upstream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The alarm on failing upstreams would ring because of a client."""
        from signproxy.answers import bodies

        monkeypatch.setattr(bodies, "PART_SECONDS", 0.1)
        async with front() as product:
            product.upstream.says(answer(204))
            reader, writer = await product.opened()
            writer.write(_head(f"{T1}/metrics", 1000) + b"{")
            status = (await asyncio.wait_for(reader.readuntil(b"\r\n"), 5)).split()[1]
            assert status == b"400"
            assert product.upstreams.reports()[0].problem == ""
            writer.close()

    async def test_many_who_wait_do_not_hold_up_others(self) -> None:
        """A catalog that hangs would take the sidecar with it."""
        async with front(times=CallTimeouts()) as product:
            product.upstream.says(loaded())
            await product.load()
            over = asyncio.Event()

            async def wait(line: Line) -> None:
                await over.wait()

            product.upstream.does(wait)
            waiting = [asyncio.ensure_future(product.ask("GET", "/v1/lake/namespaces")) for _ in range(50)]
            await product.upstream.until_asked(20)
            assert await product.signs() == 200
            assert not any(asked.done() for asked in waiting)
            over.set()
            assert {found.status for found in await asyncio.gather(*waiting)} == {503}

    async def test_one_caller_may_wait_for_so_much_and_no_more(self) -> None:
        """One job with a thousand threads would use up every connection to the catalog."""
        from signproxy.config.settings import LimitSettings

        async with front() as product:
            product.handler.limits.replace(LimitSettings(in_flight=2))

            async def wait(line: Line) -> None:
                await never()

            product.upstream.does(wait)
            waiting = [asyncio.ensure_future(product.ask("GET", "/v1/lake/namespaces")) for _ in range(2)]
            await product.upstream.until_asked(2)
            found = await product.ask("GET", "/v1/lake/namespaces")
            assert found.status == 429
            await asyncio.gather(*waiting)


async def test_an_exchange_that_fails_is_told_before_anything_is_sent() -> None:
    """A commit would count as lost although nothing was sent."""
    async with front() as product:

        async def no_token(bearer: str, expires_at: float) -> str:
            raise Refused(Reason.UPSTREAM_UNAVAILABLE, "token exchange: down")

        bound = product.upstreams.of("lake")
        assert bound is not None
        bound.upstream.authorization = no_token  # type: ignore[method-assign]
        assert (await product.ask(*COMMIT[:2], body=COMMIT[2])).status == 503
        assert not product.upstream.asked


async def test_a_call_over_a_reload_names_the_policy_that_admitted_it() -> None:
    """A drop that was admitted would be told as allowed by a policy in which no caller may drop anything."""
    async with front() as product:
        before = product.state.rev

        async def script(asked: Any, line: Line) -> bytes:
            product.policy(POLICY.replace("CATALOG_MANAGE_CONTENT", "TABLE_LIST"))
            return loaded()

        product.upstream.script = script
        assert (await product.ask("GET", T1)).status == 200
        event = only(product.events())
        assert (event.decision.value, event.policy_rev, event.policy_epoch) == ("allow", before, 1)
        assert product.state.epoch == 2


async def test_a_drop_that_waits_says_when_it_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """A revocation that falls into the wait would be told to have been ignored: a false alarm at night."""
    from signproxy.facade.seen import Seen
    from signproxy.gate import events

    monkeypatch.setattr(events, "_APART", 50_000_000)
    async with front() as product:
        revoked: list[float] = []

        async def removable(*_: object) -> None:
            await asyncio.sleep(0.1)
            product.policy(POLICY.replace("CATALOG_MANAGE_CONTENT", "TABLE_LIST"))
            revoked.append(time.time())
            await asyncio.sleep(0.1)

        monkeypatch.setattr(Seen, "removable", removable)
        product.upstream.says(answer(204))
        assert (await product.ask("DELETE", T1)).status == 204
        event = only(product.events())
        assert (event.decision.value, event.policy_epoch) == ("allow", 1)
        assert datetime.fromisoformat(event.decided_at).timestamp() < revoked[0]


async def test_a_call_that_is_refused_names_the_policy_that_refused_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its body may be long on its way: the policy of its arrival is not the one that an operator has to look at."""
    from signproxy.answers import bodies
    from signproxy.facade import call_way

    read_whole = bodies.read_whole

    async def slowly(*given: Any) -> bytes:
        content = await read_whole(*given)
        product.policy(POLICY.replace("CATALOG_MANAGE_CONTENT", "TABLE_LIST"))
        return content

    async with front() as product:
        monkeypatch.setattr(call_way, "read_whole", slowly)
        assert (await product.ask(*COMMIT[:2], body=COMMIT[2])).status == 403
        event = only(product.events())
        assert (event.reason, event.policy_epoch) == ("call_not_permitted", 2)
        assert not product.upstream.asked


def _moved(spec: Any, uri: str) -> Any:
    import msgspec

    return msgspec.structs.replace(spec, uri=uri)


def _head(path: str, length: int) -> bytes:
    lines = (
        f"POST {MOUNT}{path} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {token_of('writer')}",
        f"Content-Length: {length}",
    )
    return "\r\n".join([*lines, "", ""]).encode()


async def _post(product: Front, body: bytes) -> asyncio.StreamWriter:
    _, writer = await product.opened()
    writer.write(_head(T1, len(body)) + body)
    return writer
