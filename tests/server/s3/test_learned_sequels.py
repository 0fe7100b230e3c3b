"""Reads of a table that an upstream told of are served at once for as long as its word holds, and no longer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import time
from typing import NamedTuple

import pytest

from signproxy.inventory.learned.learned_resolver import LearnedResolver
from signproxy.inventory.learned.sighting import Answered, Changed, Dropped, Gone, Live, Renamed, TableFacts
from signproxy.policy.table import table_key
from signproxy.server.s3.connection import S3Connection
from tests.forward.upstream import Script, serving
from tests.inventory.learned_rig import FakeUpstream, facts
from tests.policies import MemoryPolicySource
from tests.product import Product, token_of
from tests.server.s3.door import POLICY, Door, answer_of, opened
from tests.server.s3.test_sequels import FOLDER, Warm, asking, lasting, then
from tests.waiting import until

LEARNED = (
    POLICY.replace(
        "lake: {storages: [main], remote_signing: true}",
        'lake: {storages: [main], remote_signing: true, tables: upstream, roots: ["s3://data/wh"], authorizer: policy}',
    )
    .replace(
        """tables:
  - {name: t1, namespace: ns, location: "s3://data/wh/t1"}
  - {name: t2, namespace: ns, location: "s3://data/wh/t2"}
""",
        "",
    )
    .replace("namespace: ns, table: t1, ", "")
)


class Lake(NamedTuple):
    """A door whose tables are an upstream's, and a connection on which two of their objects were read."""

    warmed: Warm
    upstream: FakeUpstream
    product: Product

    def tell(self, sighting: object) -> None:
        """Let something be heard of the upstream."""
        self.product.catalogs.learned.take(sighting, time())  # type: ignore[arg-type]  # any sighting

    async def is_at_once(self, name: str = "x") -> bool:
        """Read another object; say whether that was served at once."""
        generally = len(self.warmed.generally)
        assert (await self.warmed.ask(name)).status == 200
        return len(self.warmed.generally) == generally


@asynccontextmanager
async def lake(authorizer: str = "policy", folder: str = FOLDER, script: Script | None = None) -> AsyncIterator[Lake]:
    policy = LEARNED.replace("authorizer: policy", f"authorizer: {authorizer}")
    async with opened(script or serving(b"content"), policy=policy) as door:
        product, upstream = door.product, FakeUpstream()
        upstream.put(_table())
        product.catalogs.resolver = LearnedResolver(product.catalogs.learned, upstream)
        product.assemble()
        product.catalogs.learned.take(Live("lake", _table()), time())
        warmed = Warm(door, await door.connect())
        # The first asks the upstream for its caller; what is told then is looked at by the second.
        for name in ("first", "second", "third"):
            assert (await warmed.send(asking(name, folder=folder))).status == 200
        yield Lake(warmed, upstream, product)
        await warmed.client.close()


def _table(name: str = "t1", location: str = "s3://data/wh/t1", uuid: str = "uuid-t1") -> TableFacts:
    return facts(name, location, uuid, namespace="ns")


@pytest.mark.parametrize("authorizer", ("policy", "catalog", "both"))
async def test_reads_of_a_learned_table_are_served_at_once(authorizer: str) -> None:
    """Most users' tables are learned; each of their small reads would cost three times as much."""
    async with lake(authorizer) as at:
        for number in range(5):
            assert await at.is_at_once(f"{number}")
        assert len(at.upstream.asked) == 1


async def test_what_is_recorded_is_what_the_ordinary_way_records() -> None:
    """The event of a read would depend on which read of a connection it was."""
    async with lake() as at:
        assert await at.is_at_once("same")
        again = await at.warmed.door.connect()
        first = Warm(at.warmed.door, again)
        assert (await first.ask("same")).status == 200
        assert len(first.generally) == 1
        quick, ordinary = at.warmed.door.events()[-2:]
        assert lasting(quick) == lasting(ordinary)
        assert (quick.table, quick.table_uuid, quick.namespace) == ("t1", "uuid-t1", "ns")
        await again.close()


def _moved(at: Lake) -> None:
    at.upstream.put(_table(location="s3://data/wh/elsewhere"))
    at.tell(Changed("lake", "ns", "t1"))


def _gone(at: Lake) -> None:
    at.upstream.remove("t1", "ns")
    at.tell(Gone("lake", "ns", "t1"))


def _dropped(at: Lake) -> None:
    at.upstream.remove("t1", "ns")
    at.tell(Dropped("lake", "ns", "t1", "writer", time(), "uuid-t1"))


def _restricted(at: Lake) -> None:
    token = token_of("reader")
    at.upstream.restricted.add((token, "t1"))
    for held in list(at.product.catalogs.learned.vouchers._held):
        at.tell(Answered("lake", "ns", "t1", "uuid-t1", held[2], held[3], time() + 60, restricted=True))


def _replaced(at: Lake) -> None:
    at.upstream.put(_table(location="s3://data/wh/t9", uuid="another"))
    at.tell(Live("lake", _table(location="s3://data/wh/t9", uuid="another")))


REFUSED = {"gone": _gone, "dropped": _dropped, "restricted": _restricted, "replaced": _replaced}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
async def test_what_ends_an_upstream_s_word_ends_the_reads(change: Callable[[Lake], None]) -> None:
    """A reader would go on reading a table that was dropped, or that is another one by now, for as long as it likes."""
    async with lake() as at:
        assert await at.is_at_once()
        change(at)
        sent = len(at.warmed.door.upstream.requests)
        assert (await at.warmed.ask("later")).status == 403
        assert len(at.warmed.door.upstream.requests) == sent


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
async def test_what_ends_it_while_the_store_is_asked_ends_a_slow_read(change: Callable[[Lake], None]) -> None:
    """A store that is slow would give out what the reader may not read any more."""
    async with lake(script=then(lambda talk: talk.answer(b"content"), lambda talk: talk.stall())) as at:
        door, (guest,) = at.warmed.door, at.warmed.door.service._listener.guests._open  # type: ignore[union-attr]
        assert isinstance(guest, S3Connection)
        sent, events = len(door.upstream.requests), len(door.events())
        await at.warmed.client.send(asking("slow"))
        await until(lambda: len(door.upstream.requests) > sent)
        change(at)
        assert guest.sequels is not None
        guest.sequels.hand_on()
        assert (await answer_of(at.warmed.client)).status == 403
        (event,) = door.events()[events:]
        assert (event.decision.value, event.stamped, event.event_id) == ("deny", True, door.upstream.requests[-1].stamp)
        assert (door.service.in_flight, door.product.trail._reserved) == (0, 0)


async def test_a_word_that_is_old_is_asked_for_again() -> None:
    """A table that the upstream takes away from a reader would stay open to connections that never rest."""
    async with lake() as at:
        known = at.product.catalogs.learned.ground.of("lake").by_name[table_key("ns", "t1")]
        known.soft = time() - 1
        assert not await at.is_at_once()
        assert len(at.upstream.asked) == 2
        # The answer came beside the read; from then on it holds again.
        await at.is_at_once()
        assert await at.is_at_once()


async def test_a_table_that_was_renamed_is_recorded_by_its_new_name() -> None:
    """The audit would tell of reads of a table that was no more."""
    async with lake() as at:
        assert await at.is_at_once()
        at.upstream.remove("t1", "ns")
        at.upstream.put(_table("t2"))
        at.tell(Renamed("lake", "ns", "t1", "ns", "t2"))
        await at.warmed.ask("later")
        await at.warmed.ask("later")
        assert at.warmed.door.events()[-1].table == "t2"


@pytest.mark.parametrize("authorizer", ("policy", "catalog", "both"))
async def test_a_table_that_was_renamed_away_from_its_reader_is_read_no_more(authorizer: str) -> None:
    """What a reader was told of a table by its old name would open it by a name that is closed to the reader."""
    async with lake(authorizer) as at:
        assert await at.is_at_once()
        at.upstream.remove("t1", "ns")
        at.upstream.put(_table("t2"))
        at.upstream.hidden.add((token_of("reader"), "t2"))
        at.tell(Renamed("lake", "ns", "t1", "ns", "t2"))
        for name in ("x", "y", "z"):
            assert (await at.warmed.ask(name)).status == 403


async def test_a_table_in_use_is_not_forgotten_first() -> None:
    """Where there are too many, one that is read all the time would make room, and its reads wait for the upstream."""
    async with lake() as at:
        known = at.product.catalogs.learned.ground.of("lake").by_name[table_key("ns", "t1")]
        known.used = False
        assert await at.is_at_once()
        assert known.used


async def test_a_new_policy_is_judged_by() -> None:
    """A revoke would not reach readers of learned tables that keep their connections."""
    async with lake() as at:
        assert await at.is_at_once()
        door: Door = at.warmed.door
        text = (LEARNED % door.upstream.port).replace("TABLE_READ_DATA", "TABLE_LIST")
        at.product.state = MemoryPolicySource(text, single_issuer=True).load(2)
        assert (await at.warmed.ask("later")).status == 403


async def test_of_two_catalogs_in_a_bucket_each_is_asked_for_each_read() -> None:
    """A second catalog may come to own the place meanwhile, by what its own upstream tells."""
    policy = LEARNED.replace(
        "catalogs:\n", 'catalogs:\n  other: {storages: [main], remote_signing: true, roots: ["s3://data/other"]}\n'
    )
    policy = policy.replace("readers: {lake: [reader]}", "readers: {lake: [reader], other: [guest]}")
    policy = policy.replace("catalog_roles: {", "catalog_roles: {other: [guest], ")
    async with opened(serving(b"content"), policy=policy) as door:
        upstream = FakeUpstream()
        upstream.put(_table())
        door.product.catalogs.resolver = LearnedResolver(door.product.catalogs.learned, upstream)
        door.product.assemble()
        door.product.catalogs.learned.take(Live("lake", _table()), time())
        warmed = Warm(door, await door.connect())
        for number in range(4):
            assert (await warmed.ask(f"{number}")).status == 200
        assert len(warmed.generally) == 4
        await warmed.client.close()
