"""The store's own log names the audit event of each request that signproxy sends, unless the storage says `off`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.forward.addresses import Address
from signproxy.forward.answer import Answer
from signproxy.forward.underway import Underway
from signproxy.gate.outcome import StoreOutcome
from signproxy.s3.forwarded_operations import _TABLE_SHAPES, _VOLUME_SHAPES
from signproxy.s3.operation import Operation
from signproxy.s3.storage import STAMP, Stamp
from signproxy.s3.unsigned_operations import UNSIGNED
from signproxy.transfer.body import Incoming
from signproxy.transfer.channel import Channel
from signproxy.transfer.head import read_request_head
from tests.forward.rig import EVENT_ID, PLAIN, Rig, Story, connected, passed_of, request, serving_rig, storage
from tests.forward.test_faults import once_then
from tests.forward.test_requests import forwarded, verified
from tests.forward.upstream import Upstream, serve, serving
from tests.waiting import until

_STAMP = f"{STAMP}={EVENT_ID}"


@pytest.mark.parametrize(
    ("method", "target", "sent"),
    (
        ("GET", "/data/k", f"/data/k?{_STAMP}"),
        ("HEAD", "/data/k", f"/data/k?{_STAMP}"),
        ("DELETE", "/data/k", f"/data/k?{_STAMP}"),
        ("PUT", "/data/k", f"/data/k?{_STAMP}"),
        ("GET", "/data/k?", f"/data/k?{_STAMP}"),
        ("GET", "/data/a%20b+c", f"/data/a%20b+c?{_STAMP}"),
        ("GET", "/data/k?tagging", f"/data/k?tagging&{_STAMP}"),
        ("GET", "/data/k?partNumber=2&x-id=GetObject", f"/data/k?partNumber=2&x-id=GetObject&{_STAMP}"),
        ("GET", "/data?prefix=wh%2F&list-type=2", f"/data?prefix=wh%2F&list-type=2&{_STAMP}"),
        ("POST", "/data/k?uploads", f"/data/k?uploads&{_STAMP}"),
    ),
)
async def test_what_is_sent_carries_the_id_under_the_signature(method: str, target: str, sent: str) -> None:
    """Where the answer is lost there is no id of the store's: the request would look like a thief's."""
    async with Upstream(serve) as store:
        async with serving_rig(Rig(storage(store.port))) as rig:
            await forwarded(rig, request(method, target, body=b"x" if method == "PUT" else b""))
            assert rig.outcomes[0].stamped
        assert verified(store.requests[0]).stamped_target == sent


async def test_a_streamed_upload_carries_it() -> None:
    """The upload that a client breaks off is the request whose answer is lost."""
    async with Upstream(serve) as store:
        async with serving_rig(Rig(storage(store.port))) as rig:
            await forwarded(rig, request("PUT", "/data/k", body=b"x" * 300_000))
        assert verified(store.requests[0]).stamped_target == f"/data/k?{_STAMP}"


async def test_a_storage_without_stamps_gets_what_the_client_sent() -> None:
    """A store that refuses unknown parameters could not be used."""
    async with Upstream(serve) as store:
        rig = Rig(replace(storage(store.port), stamp=Stamp.OFF))
        async with serving_rig(rig):
            await forwarded(rig, request(target="/data/k?tagging"))
            assert not rig.outcomes[0].stamped
        assert verified(store.requests[0]).stamped_target == "/data/k?tagging"


async def test_the_older_list_goes_without_it() -> None:
    """SeaweedFS answers 501 to ListObjects with a parameter that it does not know, and 200 to all else."""
    async with Upstream(serve) as store:
        async with serving_rig(Rig(storage(store.port))) as rig:
            rig.story = Story(operation=Operation.LIST_OBJECTS)
            await forwarded(rig, request(target="/data?prefix=wh%2F"))
            assert not rig.outcomes[0].stamped
        assert verified(store.requests[0]).stamped_target == "/data?prefix=wh%2F"


async def test_a_request_that_is_sent_again_says_so() -> None:
    """The second one would look like a stolen signature, used again."""
    async with (
        Upstream(once_then("closed"), serve) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        for _ in range(2):
            await client.send(request())
            await client.answer()
        assert [outcome.requests for outcome in rig.outcomes] == [1, 2]


# -- what was refused on its way ---------------------------------------------------------------------------------------

HEAD = read_request_head(request())


async def test_what_was_sent_before_is_said_to_be_sent_whatever_is_refused_now() -> None:
    """A quick request that goes the ordinary way: the store's log would have one that no event says was sent."""
    async with serving_rig(Rig(storage(1))) as rig:
        passed = passed_of(rig.store, HEAD, PLAIN)
        for stamped in (True, False):
            outcome = StoreOutcome(status=0)
            underway = Underway(None, None, None)
            underway.stamped = stamped
            client = Channel()
            answer, body = Answer(client, HEAD, EVENT_ID, ""), Incoming(client, HEAD.body, HEAD.length, idle=1)
            rig.keys.now = Refused(Reason.CREDENTIALS_UNAVAILABLE)
            with pytest.raises(Refused):
                await rig.forwarder.forward(
                    passed, client, body, HEAD, answer, event_id=EVENT_ID, outcome=outcome, underway=underway
                )
            assert (outcome.requests, outcome.stamped) == (1, stamped)


async def test_what_was_sent_before_is_counted_although_nothing_more_is_asked() -> None:
    """A store that is down by now has the request in its log all the same."""
    async with Upstream(serve) as store:
        port = store.port
    async with serving_rig(Rig(storage(port))) as rig:
        passed = passed_of(rig.store, HEAD, PLAIN)
        outcome, client = StoreOutcome(status=0), Channel()
        answer, body = Answer(client, HEAD, EVENT_ID, ""), Incoming(client, HEAD.body, HEAD.length, idle=1)
        with pytest.raises(Refused) as caught:
            await rig.forwarder.forward(
                passed,
                client,
                body,
                HEAD,
                answer,
                event_id=EVENT_ID,
                outcome=outcome,
                underway=Underway(None, None, None),
            )
        assert caught.value.reason is Reason.STORE_UNAVAILABLE
        assert outcome.requests == 1
        assert outcome.upstream_us > 0


async def test_a_list_of_buckets_says_how_long_the_store_was_asked() -> None:
    """Its event is refused where the list is too much for its caller, and would not say that the store was asked."""
    document = b"<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>"
    async with Upstream(serving(document)) as store, serving_rig(Rig(storage(store.port))) as rig:
        outcome, client = StoreOutcome(status=200), await rig.pool.connect(Address("127.0.0.1", store.port))
        try:
            assert await rig.forwarder.buckets(rig.store, client, outcome, event_id=EVENT_ID) == []
        finally:
            client.abort()
            await until(lambda: rig.pool.open == rig.pool.idle)
        assert outcome.requests == 1
        assert outcome.upstream_us > 0


def test_it_sorts_behind_every_name_that_a_query_may_have() -> None:
    """It is appended to a query that is canonical already: a name behind it would break every signature."""
    shapes = [shape for table in (_TABLE_SHAPES, _VOLUME_SHAPES) for each in table.values() for shape in each]
    told = {name for shape in shapes for name in shape.required | shape.optional}
    told |= {name for rows in UNSIGNED.values() for _, names in rows for name in names}
    assert len(told) > 60
    assert max(told | {"withUpdatedAt", "x-id", "x-amz-checksum-crc32"}) < STAMP
