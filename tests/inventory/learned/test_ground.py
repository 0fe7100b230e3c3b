"""Prove that learned tables outlive a reload and are judged by it, and that their memory is bounded."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

from signproxy.errors import Reason
from signproxy.inventory.learned import ground as ground_module
from signproxy.inventory.learned.alarms import AlarmKind
from signproxy.inventory.learned.ground import Ground
from signproxy.inventory.learned.sighting import Live
from signproxy.model import Allow
from tests.inventory.learned_rig import NOW, Site, facts, policy

KEY = "wh/orders/data/f"
_ROOTS = '"s3://lake/wh"'


def _tables(text: str) -> str:
    return policy(more=f"tables: [{text}]")


async def test_learned_tables_outlive_a_reload() -> None:
    """Every reload would send all callers to the upstream at once."""
    site = Site()
    site.live(facts())
    site.reload(policy())
    assert await site.reason(KEY) is Reason.ALLOWED
    assert site.upstream.asked == []


async def test_a_reload_judges_nothing_before_it_is_used() -> None:
    """With a hundred thousand tables a reload would stop the server for a second."""
    site = Site()
    site.live(*(facts(f"t{number}") for number in range(50)))
    site.reload(policy().replace(_ROOTS, '"s3://lake/elsewhere"'))
    assert await site.reason("wh/t7/f", "t7") is not Reason.ALLOWED
    assert len(site.tables.ground) == 49
    assert len({table.turn for table in site.tables.ground.of("lake").by_name.values()}) == 1


@pytest.mark.parametrize("route", ("orders", None))
async def test_a_reload_that_takes_the_root_away_bites_at_once(route: str | None) -> None:
    """An operator closes a directory and sees it signed for, until every table was forgotten."""
    site = Site()
    site.live(facts())
    site.reload(policy().replace(_ROOTS, '"s3://lake/elsewhere"'))
    assert await site.reason(KEY, route) is not Reason.ALLOWED
    site.reload(policy().replace("buckets: [lake, cold]", "buckets: [cold]").replace(f"{_ROOTS}, ", ""))
    assert await site.reason(KEY, route) is not Reason.ALLOWED


async def test_a_reload_changes_what_is_granted_on_a_learned_table() -> None:
    """A revoke that does not bite is none."""
    site = Site()
    site.live(facts())
    before, after = (
        "reader, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]",
        "reader, privileges: [TABLE_REMOTE_SIGN]",
    )
    site.reload(policy().replace(before, after))
    assert await site.reason(KEY) is Reason.NO_READ_DATA
    site.reload(policy(more="- {role: reader, namespace: sales, table: orders, privileges: [TABLE_WRITE_DATA]}"))
    assert await site.reason(KEY, method="PUT") is Reason.ALLOWED


async def test_a_reload_gives_and_takes_listed_places() -> None:
    """What is listed today must serve today."""
    site = Site()
    site.live(facts(write_data_path="s3://cold/data/orders"))
    site.reload(_tables('{namespace: sales, name: orders, locations: ["s3://cold/data/orders"]}'))
    assert await site.reason("data/orders/f", bucket="cold") is Reason.ALLOWED
    site.reload(policy())
    assert await site.reason("data/orders/f", bucket="cold") is Reason.OUTSIDE_TABLE
    assert await site.reason("data/orders/f", None, bucket="cold") is Reason.LOCATION_UNOWNED


@pytest.mark.parametrize("location", ("s3://lake/wh/orders", "s3://lake/wh/orders/data"))
async def test_a_table_that_is_declared_over_a_learned_one_wins(location: str) -> None:
    """The operator settles a dispute by writing down whose place it is."""
    site = Site()
    site.live(facts())
    site.upstream.put(facts("rightful", location, namespace="a"))
    site.reload(_tables(f'{{namespace: a, name: rightful, location: "{location}"}}'))
    allow = await site.sign("wh/orders/data/f", None)
    assert isinstance(allow, Allow)
    assert allow.table is not None
    assert allow.table.name == "rightful"
    assert await site.reason(KEY) is Reason.LOCATION_DISPUTED
    assert site.tables.alarms.counts[AlarmKind.DISPUTED] >= 1


async def test_a_listed_place_wins_over_the_table_that_was_learned_there() -> None:
    """Listing is the same word of the operator as declaring."""
    site = Site()
    site.live(facts("thief", "s3://lake/wh/orders"))
    site.reload(_tables('{namespace: sales, name: orders, locations: ["s3://lake/wh/orders"]}'))
    assert await site.reason(KEY, "thief") is Reason.LOCATION_DISPUTED
    assert site.live(facts()) == [None]
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_a_table_that_is_declared_under_a_learned_name_wins() -> None:
    """Two tables of one name would answer to one route."""
    site = Site()
    site.live(facts())
    site.reload(_tables('{namespace: sales, name: orders, location: "s3://lake/wh/fixed"}'))
    assert await site.reason(KEY, None) is Reason.LOCATION_UNOWNED
    assert await site.reason("wh/fixed/f") is Reason.ALLOWED
    assert len(site.tables.ground) == 0


@pytest.mark.parametrize("first", ("s3://lake/wh/shared", "s3://lake/wh/shared/deep", "s3://lake/wh"))
@pytest.mark.parametrize("asked", ("older", "younger"))
async def test_when_sharing_is_forbidden_again_the_older_table_keeps_the_place(first: str, asked: str) -> None:
    """Whichever of them is asked for first, the answer must be the same."""
    root = 'roots: ["s3://lake"'
    site = Site(policy("overlap: allowed").replace(f"roots: [{_ROOTS}", root))
    site.live(facts("older", first), facts("younger", "s3://lake/wh/shared"))
    site.upstream.tables.clear()
    assert await site.reason("wh/shared/deep/f", "younger") is Reason.ALLOWED
    site.reload(policy().replace(f"roots: [{_ROOTS}", root))
    await site.reason("wh/shared/deep/f", asked)
    assert await site.reason("wh/shared/deep/f", "older") is Reason.ALLOWED
    assert await site.reason("wh/shared/deep/f", "younger") is Reason.TABLE_UNKNOWN


async def test_a_table_that_the_policy_no_longer_stands_keeps_no_other_out() -> None:
    """It was not asked for since the reload, so it was not judged; its place is free all the same."""
    site = Site(policy().replace(_ROOTS, f'{_ROOTS}, "s3://lake/old"'))
    site.live(facts("old", "s3://lake/old/x"))
    site.reload(policy().replace(_ROOTS, f'{_ROOTS}, "s3://lake/old/x"'))
    # Only what lies deeper may be believed now.
    assert site.live(facts("new", "s3://lake/old/x/y")) == [None]
    site.reload(
        policy(more='tables: [{namespace: sales, name: old, location: "s3://lake/wh/z"}]').replace(
            _ROOTS, '"s3://lake/wh", "s3://lake/old"'
        )
    )
    assert site.live(facts("newest", "s3://lake/old/x/z")) == [None]


async def test_an_old_policy_is_freed_however_many_tables_were_learned_under_it() -> None:
    """A million declared tables would stay in memory for one learned table that is not asked for."""
    site = Site()
    site.live(facts(), facts("other"))
    site.take(site.stage(facts("staged"), "writer"))
    site.drop("other")
    assert await site.reason(KEY) is Reason.ALLOWED
    old = weakref.ref(site.state)
    catalog = site.state.catalogs["lake"]
    site.said.clear()
    site.gate._admitted.clear()
    site.reload(policy())
    gc.collect()
    assert old() is None
    # This name and the call itself.
    assert sys.getrefcount(catalog) == 2


def _seen(site: Site, *names: str) -> None:
    for name in names:
        site.upstream.put(facts(name))
        site.take(Live("lake", facts(name)))


async def test_the_tables_that_are_not_used_make_room() -> None:
    """Each user who creates tables would fill the memory; emptying all would free the places of all at once."""
    site = Site(at_most=3)
    _seen(site, "a", "b", "c")
    for table in site.tables.ground.of("lake").by_name.values():
        table.used = False
    assert await site.reason("wh/a/f", "a") is Reason.ALLOWED
    _seen(site, "d")
    assert [table.id.name for table in site.tables.ground.of("lake").by_name.values()] == ["a", "c", "d"]
    assert site.tables.ground.forgotten == 1
    # Its place is free, and it can be learned again.
    assert site.live(facts("b")) == [None]
    assert len(site.tables.ground) == 3


def test_where_all_are_in_use_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for one that is not used must not take longer the more there are."""
    monkeypatch.setattr(ground_module, "SPARED", 2)
    site = Site(at_most=5)
    _seen(site, "a", "b", "c", "d", "e", "f")
    names = [table.id.name for table in site.tables.ground.of("lake").by_name.values()]
    assert names == ["a", "b", "d", "e", "f"]


def test_made_up_names_find_no_room() -> None:
    """Only an upstream's answers are kept as tables."""
    site = Site(at_most=3)
    _seen(site, "a")
    for number in range(100):
        site.tables.denials.absent("lake", f"sales\0x{number}", "corp/reader", NOW)
    assert len(site.tables.ground) == 1


def test_equal_settings_are_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand copies of the same settings are twenty megabytes."""
    site = Site()
    _seen(site, "a", "b")
    one, two = site.tables.ground.of("lake").by_name.values()
    assert one.table.settings is two.table.settings
    monkeypatch.setattr(ground_module, "SETTINGS_AT_MOST", 1)
    site.take(Live("lake", facts("c", "s3://cold/data/c")))
    site.take(Live("lake", facts("d")))
    assert [table.table.settings.bucket for table in site.tables.ground.of("lake").by_name.values()][2:] == [
        "cold",
        "lake",
    ]


def test_a_catalog_that_was_never_seen_holds_nothing() -> None:
    """Looking is no claim."""
    site = Site()
    fresh = Ground(lambda: site.state)
    assert len(fresh.of("lake").by_name) == 0
    assert len(fresh) == 0


@pytest.mark.parametrize(
    ("level", "said", "key", "expected"),
    (
        ("sealed", {}, "wh/orders/metadata/m.avro", Reason.METADATA_SEALED),
        ("sealed", {"write_metadata_path": "s3://lake/wh/orders/m"}, "wh/orders/m/m.avro", Reason.METADATA_SEALED),
        ("sealed", {"write_metadata_path": "s3://lake/wh/orders"}, KEY, Reason.ALLOWED),
        ("sealed", {"write_metadata_path": "s3://lake/wh/other"}, KEY, Reason.ALLOWED),
        (
            "sealed",
            {"metadata_location": "s3://lake/wh/orders/x/v1.json"},
            "wh/orders/x/m.avro",
            Reason.METADATA_SEALED,
        ),
        ("sealed", {"metadata_location": "s3://lake/wh/orders/v1.metadata.json"}, KEY, Reason.ALLOWED),
        # Nothing but the file itself says that the place is the table's.
        ("sealed", {"metadata_location": "s3://lake/wh/other/v1.metadata.json"}, KEY, Reason.LOCATION_UNVOUCHED),
        ("sealed", {"metadata_location": "s3://lake/wh/orders/metadata/1.json"}, KEY, Reason.ALLOWED),
        ("protected", {}, "wh/orders/metadata/v1.metadata.json", Reason.METADATA_PROTECTED),
        ("protected", {"metadata_location": "s3://lake/wh/orders/x/v1.json"}, "wh/orders/x/m.avro", Reason.ALLOWED),
        ("open", {}, "wh/orders/metadata/v1.metadata.json", Reason.ALLOWED),
    ),
)
async def test_the_metadata_of_a_learned_table_is_closed_as_the_catalog_says(
    level: str, said: dict[str, str], key: str, expected: Reason
) -> None:
    """Where the metadata lies is learned, too; sealing the wrong folder seals nothing, or everything."""
    site = Site(policy(f"metadata: {level}"))
    site.live(facts(**said))
    assert await site.reason(key) is expected
