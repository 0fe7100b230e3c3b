"""Prove what is believed of an upstream's tables: every sentence of the rule on locations, with its attack."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.inventory.learned.alarms import AlarmKind, SightingRefusal
from signproxy.inventory.learned.sighting import Changed, Dropped, Gone, Live, Renamed, TableFacts
from signproxy.model import Allow, TableId
from tests.inventory.learned_rig import Site, facts, policy

KEY = "wh/orders/data/f"

DECLARED = 'tables: [{namespace: sales, name: fixed, location: "s3://lake/wh/fixed/place"}]'


def _reason(refusal: SightingRefusal | None) -> Reason | None:
    return None if refusal is None else refusal.reason


async def test_a_table_that_was_seen_is_signed_for_without_asking() -> None:
    """Each sign call would cost the upstream a load."""
    site = Site()
    assert site.live(facts()) == [None]
    assert await site.reason(KEY) is Reason.ALLOWED
    assert site.judgement.table_uuid == "uuid-orders"
    assert site.upstream.asked == []


@pytest.mark.parametrize(
    "location",
    (
        "s3://lake/elsewhere/orders",
        # The root itself: its table would own all the others.
        "s3://lake/wh",
        "s3://lake/wh/",
        "s3://lake/whole/orders",
        "s3://lake/WH/orders",
        "s3://away/wh/orders",
        "s3://unknown/wh/orders",
        "s3://lake/wh/../other/orders",
        "s3://lake/wh/./orders",
        "s3://lake/wh//orders",
        "s3://lake/wh/orders//",
        "https://lake.s3.us-east-1.amazonaws.com/wh/orders",
        "file:///wh/orders",
        "wh/orders",
        "",
        "s3://lake/wh/or\u200bders",
        "s3://lake/wh/orders?x",
    ),
)
async def test_only_locations_below_a_root_and_in_a_bucket_of_the_catalog_are_believed(location: str) -> None:
    """A hostile catalog would have everything signed that the server's keys can reach."""
    site = Site()
    [refusal] = site.live(facts(location=location))
    assert _reason(refusal) is Reason.LOCATION_OUTSIDE_ROOTS
    assert site.tables.alarms.counts[AlarmKind.OUTSIDE] == 1
    assert await site.reason(KEY) is Reason.LOCATION_OUTSIDE_ROOTS
    assert await site.reason(KEY, None) is Reason.LOCATION_UNOWNED
    assert len(site.tables.ground) == 0


@pytest.mark.parametrize(
    "location", ("s3://lake/wh/orders", "s3://lake/wh/orders/", "s3a://lake/wh/orders", "s3n://lake/wh/orders/")
)
async def test_one_place_has_several_spellings(location: str) -> None:
    """Hadoop's schemes and a final slash are how engines write the same place; two of them must not be two places."""
    site = Site()
    assert site.live(facts(location=location)) == [None]
    assert await site.reason(KEY) is Reason.ALLOWED
    [refusal] = site.live(facts("twin", "s3://lake/wh/orders"))
    assert _reason(refusal) is Reason.LOCATION_DISPUTED


@pytest.mark.parametrize(
    "neighbour", ("s3://lake/wh/orders2", "s3://lake/wh/order", "s3://lake/wh/Orders", "s3://cold/data/wh/orders")
)
async def test_a_neighbour_that_only_looks_alike_is_no_dispute(neighbour: str) -> None:
    """Names that begin alike are the rule, not an attack."""
    site = Site()
    assert site.live(facts(), facts("other", neighbour)) == [None, None]
    assert await site.reason(KEY, None) is Reason.ALLOWED
    assert site.tables.alarms.counts[AlarmKind.DISPUTED] == 0


_MEETING = (
    "s3://lake/wh/team/orders",  # equal
    "s3a://lake/wh/team/orders/",
    "s3://lake/wh/team/orders/data",  # inside
    "s3://lake/wh/team/orders/a/b/c",
    "s3://lake/wh/team",  # around
)


@pytest.mark.parametrize("claim", _MEETING)
async def test_the_older_of_two_learned_tables_keeps_the_place(claim: str) -> None:
    """A caller that may create a table would read and write a neighbour's by naming its directory."""
    site = Site()
    site.live(facts("orders", "s3://lake/wh/team/orders"))
    [refusal] = site.live(facts("thief", claim))
    assert _reason(refusal) is Reason.LOCATION_DISPUTED
    assert refusal is not None
    assert (refusal.table, refusal.other) == (TableId("lake", "sales", "thief"), TableId("lake", "sales", "orders"))
    assert site.tables.alarms.counts[AlarmKind.DISPUTED] == 1
    assert await site.reason("wh/team/orders/data/f", "thief") is Reason.LOCATION_DISPUTED
    assert await site.reason("wh/team/f", "thief") is Reason.LOCATION_DISPUTED
    assert await site.reason("wh/team/orders/data/f", "orders") is Reason.ALLOWED
    allow = await site.sign("wh/team/orders/data/f", None)
    assert isinstance(allow, Allow)
    assert allow.table is not None
    assert allow.table.name == "orders"


@pytest.mark.parametrize("claim", ("s3://lake/wh/fixed/place", "s3://lake/wh/fixed/place/x", "s3://lake/wh/fixed"))
async def test_a_declared_table_keeps_its_place_from_learned_ones(claim: str) -> None:
    """What the operator wrote down would be worth less than what a user told a catalog."""
    site = Site(policy(more=DECLARED))
    site.upstream.put(facts("fixed", "s3://lake/wh/fixed/place"))
    [refusal] = site.live(facts("thief", claim))
    assert _reason(refusal) is Reason.LOCATION_DISPUTED
    assert await site.reason("wh/fixed/place/f", "thief") is Reason.LOCATION_DISPUTED
    assert await site.reason("wh/fixed/place/f", "fixed") is Reason.ALLOWED


LISTING = """
tables:
- {namespace: sales, name: orders, locations: ["s3://cold/data/orders"], metadata: open, overwrite: forbid%s}
"""


@pytest.mark.parametrize("claim", ("s3://cold/data/orders", "s3://cold/data/orders/x"))
async def test_a_listed_place_is_the_listed_tables_own(claim: str) -> None:
    """Another table could take the place before the listed one is first seen."""
    site = Site(policy(more=LISTING % ""))
    [refusal] = site.live(facts("thief", claim))
    assert _reason(refusal) is Reason.LOCATION_DISPUTED
    assert site.live(facts(write_data_path="s3://cold/data/orders")) == [None]
    assert await site.reason("data/orders/f", "orders", bucket="cold") is Reason.ALLOWED
    assert await site.reason("data/orders/f", None, bucket="cold") is Reason.ALLOWED


@pytest.mark.parametrize(
    "name", ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
)
@pytest.mark.parametrize("path", ("s3://cold/data/orders", "s3://lake/wh/other", "s3://lake/wh"))
async def test_a_further_location_is_not_believed_because_the_upstream_says_so(name: str, path: str) -> None:
    """A commit that sets one property would open the directory of a table that was not loaded yet."""
    site = Site()
    table = TableFacts("sales", "orders", "u", "s3://lake/wh/orders", {name: path})
    [refusal] = site.live(table)
    # A root is no table's, however it is claimed.
    assert _reason(refusal) is (Reason.LOCATION_OUTSIDE_ROOTS if path.endswith("wh") else Reason.LOCATION_DISPUTED)
    assert sum(site.tables.alarms.counts.values()) == 1
    assert await site.reason(KEY) is Reason.ALLOWED
    assert await site.reason("wh/other/f") is Reason.OUTSIDE_TABLE
    assert await site.reason("data/orders/f", bucket="cold") is Reason.OUTSIDE_TABLE
    # The owner takes it, later than that.
    assert site.live(facts("other")) == [None]
    assert await site.reason("wh/other/f", "other") is Reason.ALLOWED


async def test_a_further_location_inside_the_first_is_nothing_new() -> None:
    """Layouts with a folder of their own for data are everyday."""
    site = Site()
    table = facts(write_data_path="s3://lake/wh/orders/d", write_metadata_path="s3a://lake/wh/orders/m/")
    assert site.live(table) == [None]
    assert await site.reason("wh/orders/d/f") is Reason.ALLOWED


@pytest.mark.parametrize(("pinned", "signed"), (("", True), (", uuid: uuid-orders", True), (", uuid: another", False)))
async def test_a_listing_may_be_of_one_uuid_alone(pinned: str, signed: bool) -> None:
    """A successor of the same name would inherit its predecessor's further places."""
    site = Site(policy(more=LISTING % pinned))
    [refusal] = site.live(facts(write_data_path="s3://cold/data/orders/x"))
    assert (refusal is None) is signed
    assert (await site.reason("data/orders/x/f", bucket="cold") is Reason.ALLOWED) is signed
    assert (await site.reason("data/orders/x/f", None, bucket="cold") is Reason.ALLOWED) is signed
    # No other caller's either.
    assert _reason(site.live(facts("thief", "s3://cold/data/orders"))[0]) is Reason.LOCATION_DISPUTED


async def test_a_listing_sets_the_levels_of_a_learned_table() -> None:
    """`overwrite: forbid` could be had for declared tables alone."""
    site = Site(policy(more=LISTING % ""))
    site.live(facts(), facts("plain"))
    once = await site.sign(KEY, who="writer", method="PUT")
    plain = await site.sign("wh/plain/f", "plain", "writer", method="PUT")
    assert isinstance(once, Allow)
    assert isinstance(plain, Allow)
    assert (once.write_once, plain.write_once) == (True, False)
    assert await site.reason("wh/orders/metadata/v1.metadata.json") is Reason.ALLOWED
    assert await site.reason("wh/plain/metadata/v1.metadata.json", "plain") is Reason.METADATA_PROTECTED


async def test_a_table_that_moves_keeps_where_it_was_first_seen_and_gains_nothing() -> None:
    """Setting a location is one commit: it would be the shortest way into a directory that was not loaded yet."""
    site = Site()
    site.live(facts())
    [refusal] = site.live(facts(location="s3://lake/wh/other"))
    assert _reason(refusal) is Reason.LOCATION_DISPUTED
    assert await site.reason(KEY) is Reason.ALLOWED
    assert await site.reason("wh/other/f") is Reason.OUTSIDE_TABLE
    assert site.live(facts("other")) == [None]
    # Back, and further down, it is where it always was.
    assert site.live(facts(), facts(location="s3://lake/wh/orders/deeper")) == [None, None]
    assert await site.reason(KEY) is Reason.ALLOWED
    [outside] = site.live(facts(location="s3://elsewhere/x"))
    assert _reason(outside) is Reason.LOCATION_OUTSIDE_ROOTS
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_a_table_may_move_to_where_the_policy_lists_it() -> None:
    """Tables do move, and their operator says so."""
    site = Site(policy(more=LISTING % ""))
    site.live(facts())
    assert site.live(facts(location="s3://cold/data/orders/v2")) == [None]
    assert await site.reason("data/orders/v2/f", bucket="cold") is Reason.ALLOWED
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_another_uuid_under_a_name_is_another_table() -> None:
    """A successor would be served with its predecessor's place, or keep others out of it."""
    site = Site()
    site.live(facts(uuid="one"))
    assert site.live(facts(uuid="two", location="s3://lake/wh/orders-2")) == [None]
    assert await site.reason(KEY) is Reason.OUTSIDE_TABLE
    assert await site.reason("wh/orders-2/f") is Reason.ALLOWED
    assert site.judgement.table_uuid == "two"
    assert site.live(facts("heir", "s3://lake/wh/orders", "three")) == [None]
    assert await site.reason(KEY, "heir") is Reason.ALLOWED


async def test_a_successor_may_take_its_predecessors_place() -> None:
    """Drop and create at the same location is what every catalog with fixed locations does."""
    site = Site()
    site.live(facts(uuid="one"))
    assert site.live(facts(uuid="two")) == [None]
    assert await site.reason(KEY) is Reason.ALLOWED
    assert site.judgement.table_uuid == "two"


async def test_a_table_without_uuid_is_known_by_its_place() -> None:
    """Format version 1 needs no UUID; whatever had the name would count as the same table."""
    site = Site()
    site.live(facts(uuid=""))
    assert site.live(facts(uuid="", location="s3://lake/wh/elsewhere")) == [None]
    assert await site.reason(KEY) is Reason.OUTSIDE_TABLE
    assert await site.reason("wh/elsewhere/f") is Reason.ALLOWED


async def test_a_second_name_for_a_known_table_is_refused() -> None:
    """Registering a victim's metadata file under a name of one's own gives the same UUID and the same place."""
    site = Site()
    site.live(facts(uuid="one"))
    [refusal] = site.live(facts("mine", "s3://lake/wh/orders", "one", namespace="thief"))
    assert _reason(refusal) is Reason.LOCATION_DISPUTED
    assert await site.reason(KEY, "mine", namespace="thief") is Reason.LOCATION_DISPUTED
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_a_known_uuid_gives_no_right_to_its_place() -> None:
    """UUIDs are no secrets, and the caller that registers a table writes the metadata that holds one."""
    site = Site()
    site.live(facts(uuid="one"))
    # Made up beside it: harmless, and it inherits nothing.
    assert site.live(facts("mine", "s3://lake/wh/mine", "one")) == [None]
    assert await site.reason(KEY, "mine") is Reason.OUTSIDE_TABLE
    # Older by its UUID, were that an age: the victim came first all the same.
    site.take(Dropped("lake", "sales", "orders", "corp/owner", site.clock.now))
    site.live(facts("heir", "s3://lake/wh/orders", "two"))
    [refusal] = site.live(facts("orders", "s3://lake/wh/orders", "one", namespace="thief"))
    assert _reason(refusal) is Reason.LOCATION_DISPUTED
    assert await site.reason(KEY, "heir") is Reason.ALLOWED


async def test_a_renamed_table_is_the_same_table() -> None:
    """A rename would leave the table without its files, or its old name with them."""
    site = Site()
    site.live(facts())
    site.upstream.tables.clear()
    site.upstream.put(facts("old", "s3://lake/wh/orders", "uuid-orders", namespace="archive"))
    assert site.take(Renamed("lake", "sales", "orders", "archive", "old")) is None
    assert await site.reason(KEY, "old", namespace="archive") is Reason.ALLOWED
    assert await site.reason(KEY, "orders") is Reason.TABLE_UNKNOWN
    [refusal] = site.live(facts())
    assert _reason(refusal) is Reason.LOCATION_DISPUTED


async def test_a_rename_replaces_what_was_thought_to_have_the_name() -> None:
    """An upstream gives a table only a name that is free; who had it before is gone."""
    site = Site()
    site.live(facts("a"), facts("b"))
    site.take(Renamed("lake", "sales", "a", "sales", "b"))
    site.upstream.put(facts("b", "s3://lake/wh/a", "uuid-a"))
    assert await site.reason("wh/a/f", "b") is Reason.ALLOWED
    assert await site.reason("wh/b/f", "b") is Reason.OUTSIDE_TABLE
    assert site.live(facts("c", "s3://lake/wh/b")) == [None]


@pytest.mark.parametrize("to", (("sales", "orders"), ("", "x"), ("sales", ""), ("sa\0les", "x"), ("sales", "x" * 2000)))
async def test_a_rename_to_no_other_name_changes_nothing(to: tuple[str, str]) -> None:
    """A broken sighting must not lose a table."""
    site = Site()
    site.live(facts())
    assert site.take(Renamed("lake", "sales", "orders", *to)) is None
    assert await site.reason(KEY) is Reason.ALLOWED
    assert site.take(Renamed("lake", "sales", "nobody", "sales", "x")) is None
    assert len(site.tables.ground) == 1


async def test_grants_follow_the_name() -> None:
    """Polaris grants by name: a table that was lent must not stay lent when it is called otherwise."""
    site = Site()
    site.live(facts("lent"))
    assert await site.reason("wh/lent/f", "lent", "lender") is Reason.ALLOWED
    site.take(Renamed("lake", "sales", "lent", "sales", "kept"))
    assert await site.reason("wh/lent/f", "kept", "lender") is Reason.NO_REMOTE_SIGN
    assert await site.reason("wh/lent/f", None, "lender") is Reason.NO_REMOTE_SIGN


OTHER = "  {name}: {{storages: [{storage}], roots: [{root}], remote_signing: true, tables: {tables}}}"


def _beside(storage: str, root: str, tables: str = "upstream") -> str:
    return OTHER.format(name="other", storage=storage, root=root, tables=tables)


@pytest.mark.parametrize("options", ("", "overlap: allowed"))
async def test_tables_of_another_catalog_keep_their_place_in_a_bucket_of_both(options: str) -> None:
    """One bucket behind two catalogs: a caller that may create in one would read in the other."""
    site = Site(policy(options, catalogs=_beside("aws", '"s3://lake"')))
    site.live(facts())
    [refusal] = site.live(facts("thief", "s3://lake/wh/orders/data"), catalog="other")
    assert _reason(refusal) is Reason.LOCATION_DISPUTED
    assert site.live(facts("fine", "s3://lake/wh/fine"), catalog="other") == [None]
    [back] = site.live(facts("back", "s3://lake/wh/fine/x"))
    assert _reason(back) is Reason.LOCATION_DISPUTED


async def test_catalogs_share_the_buckets_that_both_have_and_no_others() -> None:
    """One bucket in common must not make all of them common."""
    text = policy(catalogs=_beside("cold", '"s3://cold"')).replace(
        "catalogs:\n", "  cold: {kind: aws, region: us-east-1, buckets: [cold]}\ncatalogs:\n", 1
    )
    site = Site(text)
    assert site.live(facts(), facts("cold", "s3://cold/data/x")) == [None, None]
    [refusal] = site.live(facts("thief", "s3://cold/data/x"), catalog="other")
    assert _reason(refusal) is Reason.LOCATION_DISPUTED


async def test_declared_tables_of_another_catalog_keep_their_place() -> None:
    """The other catalog may know of no upstream at all."""
    declared = 'tables: [{catalog: other, namespace: a, name: t, location: "s3://lake/wh/theirs"}]'
    site = Site(policy(more=declared, catalogs=_beside("aws", '"s3://lake"', "declared")))
    for claim in ("s3://lake/wh/theirs", "s3://lake/wh/theirs/x"):
        [refusal] = site.live(facts("thief", claim))
        assert _reason(refusal) is Reason.LOCATION_DISPUTED
    assert site.live(facts("fine")) == [None]


async def test_equal_names_of_buckets_on_different_stores_are_different_places() -> None:
    """Two stores behind one signproxy may well use the same names."""
    text = policy(catalogs=_beside("elsewhere", '"s3://lake"')).replace(
        "catalogs:\n",
        "  elsewhere: {kind: s3-compatible, region: eu-1, buckets: [lake], endpoints: [{url: 'http://s.local'}]}\n"
        "catalogs:\n",
        1,
    )
    site = Site(text)
    site.live(facts())
    assert site.live(facts(), catalog="other") == [None]


async def test_a_declared_table_wins_over_what_the_upstream_says_of_its_name() -> None:
    """Listing a valuable table in the policy must settle where it is."""
    site = Site(policy(more=DECLARED))
    assert site.live(facts("fixed", "s3://lake/wh/elsewhere")) == [None]
    assert await site.reason("wh/elsewhere/f", "fixed") is Reason.OUTSIDE_TABLE
    assert await site.reason("wh/fixed/place/f", "fixed") is Reason.ALLOWED
    assert site.upstream.asked == []
    assert len(site.tables.ground) == 0


@pytest.mark.parametrize(
    "sighting", (Live("other", facts()), Gone("other", "sales", "orders"), Live("nobody", facts()))
)
def test_nothing_is_learned_for_a_catalog_that_declares_its_tables(sighting: Live | Gone) -> None:
    """An answer that reached the wrong catalog must change nothing."""
    site = Site(policy(catalogs=_beside("away", '"s3://away"', "declared")))
    refusal = site.take(sighting)
    assert _reason(refusal) is Reason.CATALOG_UNKNOWN
    assert len(site.tables.ground) == 0
    assert sum(site.tables.alarms.counts.values()) == 0


@pytest.mark.parametrize(
    "broken",
    (
        facts(namespace=""),
        facts(""),
        facts("a\0b"),
        facts(namespace="a\0b"),
        facts("x" * 1100),
        facts(metadata_location="x" * 9000),
        facts(uuid="u" * 9000),
        facts(write_data_path="x" * 9000),
    ),
)
def test_what_has_no_name_or_no_end_is_not_kept(broken: TableFacts) -> None:
    """A caller that creates tables would fill the memory, or find two names that meet in one."""
    site = Site()
    assert _reason(site.take(Live("lake", broken))) is Reason.TABLE_UNKNOWN
    assert len(site.tables.ground) == 0


async def test_sightings_of_unknown_tables_change_nothing() -> None:
    """Drops, commits and misses pass by for tables that were never loaded here."""
    site = Site()
    for sighting in (
        Gone("lake", "sales", "x"),
        Changed("lake", "sales", "x"),
        Dropped("lake", "sales", "x", "corp/owner", site.clock.now),
    ):
        assert site.take(sighting) is None
    assert len(site.tables.ground) == 0


async def test_a_forgotten_catalog_is_learned_anew() -> None:
    """When the settings name another upstream, what the former one said must not be served."""
    site = Site()
    site.live(facts(), facts("other"))
    site.upstream.tables.clear()
    site.tables.forget("lake")
    site.tables.forget("nobody")
    assert len(site.tables.ground) == 0
    assert await site.reason(KEY) is Reason.TABLE_UNKNOWN
    assert site.live(facts("thief", "s3://lake/wh/orders")) == [None]


async def test_an_upstreams_denial_frees_no_place() -> None:
    """A caller that may not see a table is told that there is none; asking would be enough to take its place."""
    site = Site()
    site.live(facts())
    site.take(Gone("lake", "sales", "orders"))
    [refusal] = site.live(facts("thief", "s3://lake/wh/orders"))
    assert _reason(refusal) is Reason.LOCATION_DISPUTED
    # Asked again, it is still there.
    assert await site.reason(KEY) is Reason.ALLOWED
    assert len(site.upstream.asked) == 1
