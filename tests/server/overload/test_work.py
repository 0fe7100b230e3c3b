"""Work is charged by its units before it is done: one caller's bulk deletes do not stop the service."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from signproxy.config.settings import LimitSettings
from signproxy.server import exchange
from tests.catalog.scripted import answer
from tests.forward.upstream import serving
from tests.product import HOST, SIGN_T1, Product, sign_message, token_of
from tests.server.facade import Front, front
from tests.server.overload.test_overload import briefly, limited
from tests.server.s3.door import POLICY, opened
from tests.server.talk import Talk

__all__ = ["briefly"]

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
        assert (len(deletion("wh/t1/data/", count)) < exchange.AT_ONCE - 1000) is (count == 56)
        answers = [await talk.ask(content) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 429]
        assert answers[0].body["headers"]
        await talk.close()


async def test_a_long_signed_bulk_delete_lets_others_have_their_turn() -> None:
    """Sign requests of the same worker would wait for every key of it."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with Product().running() as product:
        talk = await Talk.with_(product.url)
        content = _sign("wh/t1/data/" + "x" * 900, 1000)
        beside = asyncio.create_task(others())
        assert (await talk.ask(content)).status == 200
        beside.cancel()
        # A piece has 16 KiB.
        assert turns > 50
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


async def _statuses(product: Front, *calls: tuple[str, str, object], burst: int = 60) -> list[int]:
    product.handler.limits.replace(LimitSettings(requests_per_second=1, burst=burst))
    return [(await product.ask(method, path, body=body)).status for method, path, body in calls]


_LIST = "/v1/lake/namespaces/ns/tables"
_COMMIT = "/v1/lake/transactions/commit"


@pytest.mark.usefixtures("briefly")
async def test_the_names_of_a_list_are_charged() -> None:
    """A list of a namespace with ten thousand tables costs as much as hundreds of reads, whatever is shown of it."""
    async with front() as product:
        names = [{"namespace": ["ns"], "name": f"t{number}"} for number in range(3000)]
        product.upstream.says(answer(200, {"identifiers": names}))
        assert await _statuses(product, ("GET", _LIST, None), ("GET", _LIST, None)) == [200, 429]


@pytest.mark.usefixtures("briefly")
async def test_the_tables_of_a_transaction_are_charged_before_they_are_judged() -> None:
    """Ten thousand tables were judged in one go, for the price of one request."""
    async with front() as product:
        product.upstream.says(answer(204), answer(204))
        change = {"identifier": {"namespace": ["ns"], "name": "t1"}, "requirements": [], "updates": []}
        body = {"table-changes": [change] * 400}
        assert await _statuses(product, ("POST", _COMMIT, body), ("POST", _COMMIT, body)) == [204, 429]
        assert len(product.upstream.asked) == 1


@pytest.mark.usefixtures("briefly")
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
