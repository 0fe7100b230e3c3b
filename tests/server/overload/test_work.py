"""Work is charged by its units before it is done: one caller's bulk deletes do not stop the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter_ns

import msgspec
import pytest

from signproxy.config.settings import LimitSettings
from signproxy.errors import Reason, Refused
from signproxy.gate import turns, work
from signproxy.gate.limits import Limits
from signproxy.server.api import direct
from tests.catalog.scripted import Asked, Line, Script, answer, error
from tests.facade.front import POLICY as POLICY_OF_TABLES
from tests.facade.front import Front, front, loaded, only
from tests.forward.upstream import serving
from tests.listening import started_client
from tests.product import HOST, SIGN_T1, Product, sign_message, token_of
from tests.server.overload.test_overload import limited
from tests.server.s3.door import POLICY, opened
from tests.server.status.test_admin import Desk
from tests.server.talk import Talk

RESULT = serving(b"<DeleteResult></DeleteResult>")


def deletion(prefix: str, count: int) -> bytes:
    keys = "".join([f"<Object><Key>{prefix}{number}</Key></Object>" for number in range(count)])
    return f"<Delete>{keys}</Delete>".encode()


@pytest.mark.parametrize(
    ("prefix", "status"),
    (
        ("wh/t1/data/", 200),
        # Refused keys cost the most, and their request is refused as a whole.
        ("wh/t2/data/", 403),
        ("wh/t1/v1.metadata.json", 200),
    ),
)
async def test_the_keys_of_a_forwarded_bulk_delete_are_charged(prefix: str, status: int) -> None:
    """Thirty-two connections of one caller let no other caller through, at a rate of requests that looks modest."""
    async with opened(RESULT, callers=LimitSettings(requests_per_second=1, burst=100)) as door:
        body = deletion(prefix, 800)
        # A hundred requests' worth of keys, and some of bytes: the first one owed nothing.
        assert [(await door.ask("POST", "/data?delete", body=body)).status for _ in range(2)] == [status, 503]
        assert (await door.ask("GET", "/data/wh/t1/data/a")).status == 503
        # Another caller is not concerned.
        assert (await door.ask("GET", "/data/wh/t1/data/a", who="reader")).status == 200


async def test_bulk_deletes_that_come_together_are_refused_before_they_are_judged() -> None:
    """All of them are admitted before the first body is there: the keys of each would be judged."""
    async with opened(RESULT, callers=LimitSettings(requests_per_second=1, burst=100)) as door:
        body = deletion("wh/t2/data/", 1000)
        answers = await asyncio.gather(*[door.ask("POST", "/data?delete", body=body) for _ in range(8)])
        assert sorted(answer.status for answer in answers) == [403] + [503] * 7
        # The others were refused for their number, before a key of theirs was looked at.
        assert {event.reason for event in door.events()} == {"no_remote_sign", "rate_limited"}


async def test_a_body_that_is_not_read_costs_no_more_than_its_head() -> None:
    """Two mebibytes of each of a hundred connections would be read, and forgotten."""
    async with opened(RESULT, callers=LimitSettings(requests_per_second=1, burst=10)) as door:
        body = deletion("wh/t1/data/", 10) + b" " * 1024 * 1024
        assert (await door.ask("POST", "/data?delete", body=body)).status == 200
        client = await door.connect()
        await client.send(
            b"POST /data?delete HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %b\r\n"
            b"Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n" % token_of("writer").encode()
        )
        assert (await client.reader.readline()).startswith(b"HTTP/1.1 503 ")
        await client.close()


def _sign(prefix: str, count: int) -> bytes:
    message = sign_message("POST", f"{HOST}?delete", body=deletion(prefix, count).decode())
    content = msgspec.json.encode(message)
    return (
        f"POST {SIGN_T1} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('writer')}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    ).encode() + content


@pytest.mark.parametrize("count", (56, 800))
async def test_the_keys_of_a_signed_bulk_delete_are_charged(count: int) -> None:
    """A signer is kept as busy by them as the S3 listener is."""
    async with limited(requests_per_second=1, burst=count // 8) as product:
        talk = await Talk.with_(product.url)
        content = _sign("wh/t1/data/", count)
        # The first is answered without a task.
        assert (len(deletion("wh/t1/data/", count)) < direct.AT_ONCE - 1000) is (count == 56)
        answers = [await talk.ask(content) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 429]
        assert answers[0].body["headers"]
        await talk.close()


async def test_a_long_signed_bulk_delete_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign requests of the same worker would wait for every key of it."""
    monkeypatch.setattr(turns, "LONGEST", 0.0)
    had = 0

    async def others() -> None:
        nonlocal had
        while True:
            had += 1
            await asyncio.sleep(0)

    async with Product().running() as product:
        talk = await Talk.with_(product.url)
        content = _sign("wh/t1/data/" + "x" * 900, 1000)
        beside = asyncio.create_task(others())
        assert (await talk.ask(content)).status == 200
        beside.cancel()
        # A piece has 4 KiB.
        assert had > 200
        await talk.close()


async def test_a_signed_bulk_delete_that_cannot_be_read_is_refused_in_its_turn() -> None:
    """A fault of the body would be told before one of the address, and before who may not ask at all."""
    async with Product().running() as product:
        talk = await Talk.with_(product.url)
        for uri, reason in (
            ("https://elsewhere.local/?delete", "endpoint_unknown"),
            (f"{HOST}?delete&acl", "operation_unknown"),
            (f"{HOST}?delete", "delete_body"),
        ):
            content = msgspec.json.encode(sign_message("POST", uri, body="<Delete>" + "x" * 5000))
            head = (
                f"POST {SIGN_T1} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('writer')}\r\n"
                f"Content-Length: {len(content)}\r\n\r\n"
            )
            assert (await talk.ask(head.encode() + content)).status in (400, 403)
            assert product.events()[-1].reason == reason
        await talk.close()


def _changed(said: bytes) -> Script:
    """Tell of a table, and answer to every change with this."""

    async def script(asked: Asked, _: Line) -> bytes:
        await asyncio.sleep(0)
        return loaded() if asked.method == "GET" else said

    return script


_CONFLICT = error(409, "CommitFailedException")


def _changes(product: Front) -> int:
    """Return how many changes the upstream was asked for."""
    return sum(1 for asked in product.upstream.asked if asked.method == "POST")


async def _statuses(product: Front, *calls: tuple[str, str, object], burst: int = 60) -> list[int]:
    product.handler.limits.replace(LimitSettings(requests_per_second=1, burst=burst))
    return [(await product.ask(method, path, body=body)).status for method, path, body in calls]


_LIST = "/v1/lake/namespaces/ns/tables"
_COMMIT = "/v1/lake/transactions/commit"


async def test_the_names_of_a_list_are_charged() -> None:
    """A list of a namespace with ten thousand tables costs as much as hundreds of reads, whatever is shown of it."""
    async with front() as product:
        names = [{"namespace": ["ns"], "name": f"t{number}"} for number in range(3000)]
        product.upstream.says(answer(200, {"identifiers": names}))
        assert await _statuses(product, ("GET", _LIST, None), ("GET", _LIST, None)) == [200, 429]


async def test_what_a_call_announces_is_charged_before_it_is_read() -> None:
    """A megabyte of each of a caller's connections was read every second, to be refused for its length afterwards."""
    async with front() as product:
        product.upstream.says(answer(409, {"error": {"message": "no", "type": "AlreadyExistsException", "code": 409}}))
        body = {"name": "t", "properties": {"a": "x" * 1_000_000}}
        assert await _statuses(product, ("POST", _LIST, body)) == [409]
        talk = await Talk.with_(product.url)
        await talk.send(
            f"POST {_LIST} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token_of('writer')}\r\n"
            "Content-Type: application/json\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        # Not "100 Continue": the body is not even asked for.
        assert (await talk.answer()).status == 429
        await talk.close()


async def test_the_tables_of_a_transaction_are_charged_before_they_are_judged() -> None:
    """Ten thousand tables were judged in one go, for the price of one request."""
    async with front() as product:
        product.upstream.script = _changed(answer(204))
        change = {"identifier": {"namespace": ["ns"], "name": "t1"}, "requirements": [], "updates": []}
        body = {"table-changes": [change] * 400}
        assert await _statuses(product, ("POST", _COMMIT, body), ("POST", _COMMIT, body)) == [204, 429]
        assert _changes(product) == 1


async def test_the_bytes_of_calls_and_answers_are_charged() -> None:
    """Plans of many megabytes are looked through member by member."""
    async with front() as product:
        plan = {"plan-status": "completed", "file-scan-tasks": [], "x": "y" * 900_000}
        product.upstream.says(answer(200, plan), answer(200, plan))
        path = f"{_LIST}/t1/plan"
        assert await _statuses(product, ("POST", path, {}), ("POST", path, {}), burst=10) == [200, 429]
    async with front() as product:
        product.upstream.says(answer(200, {"namespace": ["n"], "properties": {}}))
        body = {"namespace": ["n"], "properties": {"x": "y" * 900_000}}
        path = "/v1/lake/namespaces"
        assert await _statuses(product, ("POST", path, body), ("POST", path, body), burst=10) == [200, 429]


_T1 = f"{_LIST}/t1"
_UUID = {"type": "assert-table-uuid", "uuid": "x"}
_KEPT = {"action": "upgrade-format-version", "format-version": 2}
_TABLE = {"identifier": {"namespace": ["ns"], "name": "t1"}}


def _plain(body: dict[str, object], size: int) -> bytes:
    """Return a body of the same call that holds next to nothing in as many bytes."""
    kept = {name: value for name, value in body.items() if name in ("name", "namespace")}
    content = msgspec.json.encode(kept or {"table-changes": [_TABLE]})
    return content + b" " * (size - len(content))


class Others:
    """What others of the same process get meanwhile."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.turns = 0
        """Of the loop."""
        self.answers = 0
        """Of `/livez`."""

    async def take_turns(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    async def probe(self) -> None:
        while True:
            assert (await self._desk.get("/livez")).status == 200
            self.answers += 1


@asynccontextmanager
async def others_beside() -> AsyncIterator[Others]:
    """Let others take their turns, and probes ask for health."""
    desk = await Desk().serve(started_client)
    others = Others(desk)
    tasks = [asyncio.create_task(others.take_turns()), asyncio.create_task(others.probe())]
    try:
        yield others
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await desk.aclose()


def _properties(count: int) -> dict[str, str]:
    return {f"p{number}": "" for number in range(count)}


WITHIN_ONE_TABLE = (
    pytest.param(_T1, {"requirements": [_UUID] * 10_000, "updates": []}, id="requirements"),
    pytest.param(_T1, {"requirements": [], "updates": [_KEPT] * 10_000}, id="updates"),
    pytest.param(
        _COMMIT,
        {"table-changes": [{**_TABLE, "requirements": [_UUID] * 5000, "updates": [_KEPT] * 5000}]},
        id="a transaction",
    ),
    pytest.param(
        _T1,
        {"updates": [{"action": "set-properties", "updates": _properties(10_000)}] * 2},
        id="properties of updates",
    ),
    pytest.param(_LIST, {"name": "t2", "properties": _properties(10_000)}, id="properties of a table"),
    pytest.param(
        "/v1/lake/namespaces", {"namespace": ["n"], "properties": _properties(10_000)}, id="properties of a namespace"
    ),
    pytest.param(
        "/v1/lake/namespaces/ns/properties", {"updates": _properties(10_000)}, id="changed properties of a namespace"
    ),
)
"""As many as are read, or the same work: ten thousand and more parts."""


@pytest.mark.parametrize(("path", "body"), WITHIN_ONE_TABLE)
async def test_many_elements_within_one_table_let_others_have_their_turn(
    path: str, body: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a million requirements of one commit stopped the whole service, and the probes restarted the pod."""
    monkeypatch.setattr(turns, "LONGEST", 0.0)
    async with front() as product, others_beside() as others:
        product.upstream.script = _changed(_CONFLICT)
        taken: list[tuple[int, int]] = []
        content = msgspec.json.encode(body)
        for sent in (*[_plain(body, len(content))] * 4, content):
            had, answers = others.turns, others.answers
            assert (await product.ask("POST", path, body=sent)).status == 409
            taken.append((others.turns - had, others.answers - answers))
        # Of calls as long as it: the last one had more turns while it was read. A piece has some 64 parts.
        *plain, (had, answers) = taken
        assert had - min(turns for turns, _ in plain) >= 10_000 // 64 - 20
        assert answers - min(answers for _, answers in plain) >= 3


@pytest.mark.parametrize(("path", "body"), WITHIN_ONE_TABLE)
async def test_many_elements_within_one_table_are_charged(path: str, body: object) -> None:
    """They cost what their bytes cost: a second and more of work for a few requests."""
    async with front() as product:
        product.upstream.script = _changed(_CONFLICT)
        # Ten thousand parts are worth 312 requests: the first call owed nothing.
        assert await _statuses(product, ("POST", path, body), ("POST", path, body), burst=200) == [409, 429]
        assert _changes(product) == 1


async def test_what_the_parser_may_find_is_charged_before_it_is_asked() -> None:
    """A body that is refused for its members costs as much as one that is read."""
    async with front() as product:
        body = {"namespace": ["n"], **_properties(50_000)}
        path = "/v1/lake/namespaces"
        assert await _statuses(product, ("POST", path, body), ("POST", path, body), burst=200) == [400, 429]
        limit = product.events()[0].detail
        assert limit == "create_namespace: 50001 members of an object, at most 1000 are read"


def test_parts_are_charged_however_few_there_are_at_a_time() -> None:
    """A transaction of ten thousand tables has three requirements in each, and none of them would cost anything."""
    limits = Limits(LimitSettings(requests_per_second=1, burst=10))
    bill = work.CallBill(work.Account(limits, "caller"))
    for _ in range(20 * work.PARTS_PER_REQUEST):
        # What it owes by itself is no reason to refuse it.
        bill.parts(1)
    bill.commas(work.COMMAS_PER_REQUEST - 1)
    with pytest.raises(Refused) as refused:
        work.CallBill(work.Account(limits, "caller")).parts(work.PARTS_PER_REQUEST)
    assert refused.value.reason is Reason.RATE_LIMITED
    # Half of the twenty requests are paid after ten seconds; the burst allows the rest.
    limits.charge("caller", 1, perf_counter_ns() + 11_000_000_000)


async def test_long_calls_are_read_one_at_a_time_and_short_ones_do_not_wait() -> None:
    """A turn of the loop would be as long as a piece of each of a caller's connections."""
    async with front() as product:
        product.upstream.script = _changed(_CONFLICT)
        short, long_ = b"{}", b"{" + b" " * work.SHORT_CALL + b"}"
        async with work.turn_of(len(long_)):
            waiting = asyncio.create_task(product.ask("POST", _T1, body=long_))
            assert (await product.ask("POST", _T1, body=short)).status == 409
            assert not waiting.done()
            assert _changes(product) == 1
        assert (await waiting).status == 409


@pytest.mark.parametrize(
    ("path", "who"),
    (
        (_T1, "reader"),
        (_LIST, "reader"),
        ("/v1/lake/namespaces/ns/register", "reader"),
        ("/v1/lake/namespaces/ns/properties", "half"),
        ("/v1/lake/namespaces/ns/views", "reader"),
        ("/v1/lake/namespaces/ns/views/v", "sign-only"),
    ),
)
async def test_the_body_of_a_caller_without_the_right_is_not_read(path: str, who: str) -> None:
    """Eight megabytes were received, read and charged before they were refused."""
    async with front() as product:
        talk = await Talk.with_(product.url)
        await talk.send(
            f"POST /catalogs/lake{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of(who)}\r\n"
            "Content-Length: 8000000\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        # Not 100: the client need not send it.
        refused = await talk.answer()
        await talk.close()
        assert refused.status == 403
        event = only(product.events())
        assert (event.reason, event.http_status) == ("call_not_permitted", 403)
        assert (event.namespace, event.table) == ("ns", path.split("/")[6] if path.count("/") > 5 else "")


async def test_a_caller_who_may_only_create_may_commit_what_it_has_staged() -> None:
    """Until the body is read, a commit may need either of two rights: having one of them is enough."""
    policy = POLICY_OF_TABLES.replace("[CATALOG_MANAGE_CONTENT]", "[TABLE_CREATE]")
    async with front(policy=policy) as product:
        product.upstream.script = _changed(_CONFLICT)
        creates = {"requirements": [{"type": "assert-create"}], "updates": []}
        assert (await product.ask("POST", _T1, body=creates)).status == 409
        assert (await product.ask("POST", _T1, body={"requirements": [], "updates": []})).status == 403
        allowed, denied = product.events()
        assert (allowed.reason, denied.reason) == ("allowed", "call_not_permitted")
        assert _changes(product) == 1


async def test_a_namespace_of_two_thousand_levels_is_not_looked_for() -> None:
    """Each level is a place above to look for, as long as the path to it: milliseconds for one request."""
    async with front() as product:
        levels = "%1F".join("a" * 2000)
        statuses = await _statuses(
            product,
            ("GET", f"/v1/lake/namespaces/{levels}", None),
            ("POST", f"/v1/lake/namespaces/{levels}/tables/t/sign", {}),
            ("GET", f"/v1/lake/namespaces?parent={levels}", None),
            ("POST", "/v1/lake/namespaces", {"namespace": ["a"] * 2000}),
        )
        assert statuses == [400] * 4
        assert not product.upstream.asked


async def test_a_list_of_buckets_is_charged_for_all_that_are_judged() -> None:
    """Every bucket of every storage is judged, whatever is shown."""
    policy = POLICY.replace("[data, other]", _listed(1600))
    async with opened(callers=LimitSettings(requests_per_second=1, burst=60), policy=policy) as door:
        assert [(await door.ask("GET", "/", who="reader")).status for _ in range(2)] == [200, 503]


async def test_stores_that_are_asked_for_their_buckets_are_charged() -> None:
    """One request becomes one to each storage, and ten thousand names to read."""
    names = b"".join([b"<Bucket><Name>made-%d</Name></Bucket>" % number for number in range(1000)])
    document = b"<ListAllMyBucketsResult><Buckets>%b</Buckets></ListAllMyBucketsResult>" % names
    async with opened(serving(document), callers=LimitSettings(requests_per_second=1, burst=60)) as door:
        assert [(await door.ask("GET", "/", who="maker")).status for _ in range(2)] == [200, 503]
        assert len(door.upstream.requests) == 1


def _listed(count: int) -> str:
    return f"[{', '.join(['data', 'other', *[f'bucket-{number}' for number in range(count)]])}]"
