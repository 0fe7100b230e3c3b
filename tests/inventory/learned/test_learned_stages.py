"""Prove that a staged create is signed for the caller that staged it, inside what it got, until it is committed."""

from __future__ import annotations

import msgspec
import pytest

from signproxy.errors import Reason, Refused
from signproxy.inventory.learned import personal_ground
from signproxy.inventory.learned.learned_table import Freshness
from signproxy.inventory.learned.personal_ground import LONGEST_STAGE
from signproxy.inventory.learned.sighting import Dropped, Staged, TableFacts
from signproxy.model import Allow
from tests.inventory.learned_rig import NOW, Site, facts, policy

KEY = "wh/new/data/f"
MANIFEST = "wh/new/metadata/m.avro"
NEW = facts("new")


def _staged(text: str = "", who: str = "writer", seconds: float = 3600.0) -> tuple[Site, Staged]:
    site = Site(text or policy())
    staged = site.stage(NEW, who, seconds)
    assert site.take(staged) is None
    return site, staged


@pytest.mark.parametrize("route", ("new", None))
@pytest.mark.parametrize("key", (KEY, MANIFEST))
async def test_a_staged_table_is_written_before_it_exists(route: str | None, key: str) -> None:
    """CREATE TABLE AS SELECT writes its files first and commits the table last."""
    site, _ = _staged()
    allow = await site.sign(key, route, "writer", method="PUT")
    assert isinstance(allow, Allow)
    assert allow.authority.rule_id == "staged@table:lake.sales.new+writer@catalog:lake"
    assert await site.reason(key, route, "writer") is Reason.ALLOWED
    assert await site.reason(key, route, "writer", method="DELETE") is Reason.ALLOWED
    assert site.upstream.asked == []


@pytest.mark.parametrize("route", ("new", None))
@pytest.mark.parametrize("who", ("owner", "reader"))
async def test_no_other_caller_reads_or_writes_what_is_staged(route: str | None, who: str) -> None:
    """A caller that guesses the name would read a table before its owner has granted anything."""
    site, _ = _staged()
    for method in ("GET", "PUT", "DELETE"):
        assert await site.reason(KEY, route, who, method=method) is not Reason.ALLOWED


async def test_grants_are_judged_for_a_staged_table_as_for_any_other() -> None:
    """Staging needs no more than TABLE_CREATE; writing files needs the data privilege."""
    site, _ = _staged(who="reader")
    assert await site.reason(KEY, "new", "reader") is Reason.ALLOWED
    assert await site.reason(KEY, "new", "reader", method="PUT") is Reason.NO_WRITE_DATA


@pytest.mark.parametrize("key", ("wh/newer/f", "wh/other/f", "elsewhere/f", "wh/new"))
async def test_a_staged_table_is_written_inside_what_was_handed_out(key: str) -> None:
    """CVE-2026-42809: a location that the caller chose was served before the upstream had looked at it."""
    site, _ = _staged()
    assert await site.reason(key, "new", "writer", method="PUT") is Reason.OUTSIDE_TABLE


async def test_a_staged_table_ends_with_its_time() -> None:
    """A create that is never committed must not stay a place of one's own."""
    site, _ = _staged(seconds=100.0)
    site.clock.forward(99.0)
    assert await site.reason(KEY, "new", "writer") is Reason.ALLOWED
    site.clock.forward(1.0)
    assert await site.reason(KEY, "new", "writer") is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY, None, "writer") is Reason.LOCATION_UNOWNED
    far = Site()
    far.take(far.stage(NEW, "writer", 10 * LONGEST_STAGE))
    far.clock.forward(LONGEST_STAGE)
    assert await far.reason(KEY, "new", "writer") is Reason.TABLE_UNKNOWN


async def test_a_commit_makes_it_live_for_every_caller() -> None:
    """From then on grants alone decide."""
    site, _ = _staged()
    assert site.live(NEW) == [None]
    assert await site.reason(KEY, "new", "reader") is Reason.ALLOWED
    allow = await site.sign(KEY, None, "writer", method="PUT")
    assert isinstance(allow, Allow)
    assert allow.authority.rule_id == "writer@catalog:lake"
    assert len(site.tables.ground.of("lake").staged) == 0


async def test_anothers_commit_at_the_place_ends_the_stage() -> None:
    """Of two who create a table one commits; the other must not go on writing into it."""
    site, _ = _staged()
    assert site.live(facts("new", uuid="anothers")) == [None]
    assert await site.reason(KEY, "new", "reader") is Reason.ALLOWED
    assert site.judgement.table_uuid == "anothers"
    assert len(site.tables.ground.of("lake").staged) == 0


@pytest.mark.parametrize(
    "location",
    (
        "s3://lake/wh/orders",
        "s3://lake/wh/orders/x",
        "s3://lake/elsewhere",
        "s3://lake/wh",
        "s3://away/x",
        "x",
        "s3://lake/wh/fixed",
    ),
)
async def test_nothing_is_staged_where_another_table_lies_or_none_may(location: str) -> None:
    """Staging is the cheapest claim: the upstream creates nothing, and hands out what it was asked for."""
    site = Site(policy(more='tables: [{namespace: a, name: fixed, location: "s3://lake/wh/fixed"}]'))
    site.live(facts())
    refusal = site.take(site.stage(facts("new", location), "writer"))
    assert refusal is not None
    assert refusal.reason in (Reason.LOCATION_DISPUTED, Reason.LOCATION_OUTSIDE_ROOTS)
    assert await site.reason("wh/orders/x/f", "new", "writer", method="PUT") is Reason.TABLE_UNKNOWN
    allow = await site.sign("wh/orders/x/f", None, "writer", method="PUT")
    assert isinstance(allow, Allow)
    assert allow.table is not None
    assert allow.table.name == "orders"


async def test_the_caller_that_staged_first_keeps_the_place_from_others() -> None:
    """Reading what another is about to create, or writing into it, takes no more than staging the same name."""
    site, _ = _staged()
    refusal = site.take(site.stage(facts("new", uuid="two"), "owner"))
    assert refusal is not None
    assert refusal.reason is Reason.LOCATION_DISPUTED
    assert await site.reason(KEY, "new", "owner") is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY, "new", "writer") is Reason.ALLOWED
    # The same caller may begin again.
    assert site.take(site.stage(facts("new", uuid="three"), "writer")) is None
    assert await site.reason(KEY, "new", "writer") is Reason.ALLOWED
    assert site.judgement.table_uuid == "three"
    assert len(site.tables.ground.of("lake").staged) == 1


async def test_a_stage_never_keeps_a_live_table_out() -> None:
    """Staging everywhere would be a way to keep all others from creating anything."""
    site, _ = _staged()
    assert site.live(facts("theirs", "s3://lake/wh/new/deep")) == [None]
    assert await site.reason("wh/new/deep/f", "theirs") is Reason.ALLOWED
    assert await site.reason(KEY, "new", "writer") is Reason.TABLE_UNKNOWN


@pytest.mark.parametrize("broken", (facts(""), facts("new", namespace="")))
def test_a_stage_without_place_or_caller_is_not_kept(broken: TableFacts) -> None:
    """A broken sighting must not become a table of every caller."""
    site = Site()
    assert site.take(Staged("lake", broken, "corp/writer", NOW + 10)) is not None
    assert site.take(Staged("lake", NEW, "", NOW + 10)) is not None
    assert site.take(Staged("lake", NEW, "corp/writer", NOW)) is not None
    assert len(site.tables.ground.of("lake").staged) == 0


async def test_a_declared_name_is_not_staged() -> None:
    """The policy says where that table is."""
    site = Site(policy(more='tables: [{namespace: sales, name: new, location: "s3://lake/wh/fixed"}]'))
    site.upstream.put(facts("new", "s3://lake/wh/fixed"))
    assert site.take(site.stage(NEW, "writer")) is None
    assert await site.reason(KEY, "new", "writer", method="PUT") is Reason.OUTSIDE_TABLE
    carried = site.stage(NEW, "writer")
    assert await site.reason(KEY, None, "writer", method="PUT", carried=carried) is Reason.LOCATION_UNOWNED


async def test_a_stage_is_judged_again_by_another_policy() -> None:
    """A reload that takes the root away, or gives the place away, must bite at once."""
    site, _ = _staged()
    site.reload(policy().replace('"s3://lake/wh"', '"s3://lake/elsewhere"'))
    assert await site.reason(KEY, "new", "writer") is Reason.TABLE_UNKNOWN
    site, _ = _staged()
    site.reload(policy())
    assert await site.reason(KEY, "new", "writer") is Reason.ALLOWED
    site.reload(policy(more='tables: [{namespace: a, name: heir, location: "s3://lake/wh/new"}]'))
    assert await site.reason(KEY, "new", "writer") is Reason.TABLE_UNKNOWN
    assert len(site.tables.ground.of("lake").staged) == 0


async def test_a_stage_looks_now_and_then_whether_it_was_committed_elsewhere() -> None:
    """Another replica may have seen the commit, and the drop, and the successor's create."""
    site, _ = _staged()
    site.clock.forward(Freshness().staged)
    assert await site.reason(KEY, "new", "writer") is Reason.ALLOWED
    assert await site.reason(KEY, "new", "writer") is Reason.ALLOWED
    assert site.upstream.asked == [("new", "writer-token")]
    site.clock.forward(Freshness().staged)
    site.upstream.put(facts("new", uuid="anothers"))
    assert await site.reason(KEY, "new", "writer") is Reason.ALLOWED
    assert site.judgement.table_uuid == "anothers"


async def test_a_stage_that_was_seen_here_outlives_an_upstream_that_is_down() -> None:
    """What was known keeps being signed."""
    site, _ = _staged()
    site.clock.forward(Freshness().staged)
    site.upstream.fault = Refused(Reason.UPSTREAM_UNAVAILABLE, "down")
    assert await site.reason(KEY, "new", "writer") is Reason.ALLOWED
    assert await site.reason(KEY, "new", "writer") is Reason.ALLOWED
    assert len(site.upstream.asked) == 1


# What comes back through a client to a process that never saw the stage.


@pytest.mark.parametrize("fault", (None, Refused(Reason.UPSTREAM_UNAVAILABLE, "down")))
async def test_a_stage_whose_name_is_a_table_s_elsewhere_is_asked_for_once_in_a_while(fault: Refused | None) -> None:
    """Each write would ask the upstream nine times, and then be refused, once a minute had passed."""
    site = Site()
    assert site.live(facts("new", "s3://lake/wh/elsewhere", "another")) == [None]
    site.take(site.stage(NEW, "writer"))
    assert await site.reason(KEY, None, "writer", method="PUT") is Reason.ALLOWED
    site.upstream.fault = fault
    for seconds in (Freshness().staged + 1, Freshness().staged + 1):
        site.clock.forward(seconds)
        asked = len(site.upstream.asked)
        for _ in range(3):
            assert await site.reason(KEY, None, "writer", method="PUT") is Reason.ALLOWED
        assert len(site.upstream.asked) <= asked + 2


@pytest.mark.parametrize("route", ("new", None))
@pytest.mark.parametrize("is_carried", (False, True))
async def test_a_stage_does_not_stand_in_for_its_table_that_is_not_believed(
    route: str | None, *, is_carried: bool
) -> None:
    """A caller would go on writing for a day at a place that each alarm says is not the table's."""
    site, staged = _staged()
    carried = staged if is_carried else None
    assert await site.reason(KEY, route, "writer", method="PUT", carried=carried) is Reason.ALLOWED
    site.upstream.put(facts("new", metadata_location="s3://lake/wh/mine/v1.metadata.json"))
    site.clock.forward(Freshness().staged + 1)
    for _ in range(3):
        said = await site.reason(KEY, route, "writer", method="PUT", carried=carried)
        assert said in {Reason.LOCATION_UNVOUCHED, Reason.LOCATION_UNOWNED}


@pytest.mark.parametrize("route", ("new", None))
async def test_a_carried_stage_is_believed_once_the_upstream_has_no_such_table(route: str | None) -> None:
    """Behind a load balancer the files are signed for by another replica than the one that saw the create."""
    site = Site()
    carried = site.stage(NEW, "writer")
    allow = await site.sign(KEY, route, "writer", method="PUT", carried=carried)
    assert isinstance(allow, Allow)
    assert allow.authority.rule_id == "staged@table:lake.sales.new+writer@catalog:lake"
    assert site.upstream.asked == [("new", "writer-token")]
    # Remembered as if it had been seen.
    assert await site.reason(KEY, route, "writer", method="PUT", carried=carried) is Reason.ALLOWED
    assert len(site.upstream.asked) == 1


async def test_a_carried_stage_gives_way_to_the_live_table() -> None:
    """Another principal may have committed the name meanwhile."""
    site = Site()
    site.upstream.put(facts("new", uuid="anothers"))
    assert await site.reason(KEY, "new", "writer", method="PUT", carried=site.stage(NEW, "writer")) is Reason.ALLOWED
    assert site.judgement.table_uuid == "anothers"
    moved = Site()
    moved.upstream.put(facts("new", "s3://lake/wh/new-2", "anothers"))
    carried = moved.stage(NEW, "writer")
    assert await moved.reason(KEY, "new", "writer", method="PUT", carried=carried) is Reason.OUTSIDE_TABLE


async def test_a_carried_stage_needs_an_upstream_that_answers() -> None:
    """It is not known here whether the table was committed and dropped: known tables alone are signed for then."""
    site = Site()
    site.upstream.fault = Refused(Reason.UPSTREAM_UNAVAILABLE, "down")
    asked = await site.reason(KEY, "new", "writer", method="PUT", carried=site.stage(NEW, "writer"))
    assert asked is Reason.UPSTREAM_UNAVAILABLE


@pytest.mark.parametrize("changed", ({"principal": "corp/owner"}, {"catalog": "other"}, {"principal": ""}))
@pytest.mark.parametrize("route", ("new", None))
async def test_what_another_caller_was_handed_is_refused(changed: dict[str, str], route: str | None) -> None:
    """A context that leaks from one job's configuration must open nothing for another's."""
    site = Site()
    carried = msgspec.structs.replace(site.stage(NEW, "writer"), **changed)
    assert await site.reason(KEY, route, "writer", method="PUT", carried=carried) is Reason.CONTEXT_INVALID


@pytest.mark.parametrize("location", ("s3://lake/wh/orders", "s3://lake/wh/orders/x"))
async def test_a_carried_stage_gives_no_place_of_another(location: str) -> None:
    """What was free when it was staged may be another table's by now."""
    site = Site()
    site.live(facts())
    carried = site.stage(facts("new", location), "writer")
    asked = await site.reason("wh/orders/x/f", "new", "writer", method="PUT", carried=carried)
    assert asked is Reason.LOCATION_DISPUTED


async def test_a_carried_stage_that_is_over_is_none() -> None:
    """A caller that keeps it must gain nothing by that: neither after its time, nor after the table was dropped."""
    site = Site()
    old = site.stage(NEW, "writer", seconds=0.0)
    assert await site.reason(KEY, "new", "writer", method="PUT", carried=old) is Reason.TABLE_UNKNOWN
    site, carried = _staged()
    site.live(NEW)
    site.upstream.tables.clear()
    site.take(Dropped("lake", "sales", "new", "corp/owner", NOW))
    assert await site.reason(KEY, "new", "writer", method="PUT", carried=carried) is Reason.TABLE_UNKNOWN
    refusal = site.tables.adopt(carried, NOW)
    assert refusal is not None


async def test_a_carried_stage_of_another_name_is_left_alone() -> None:
    """A client brings what it has to every table of a file system that it shares."""
    site = Site()
    site.live(facts())
    carried = site.stage(NEW, "writer")
    assert await site.reason("wh/orders/f", "orders", "writer", carried=carried) is Reason.ALLOWED
    assert await site.reason(KEY, "absent", "writer", carried=carried) is Reason.TABLE_UNKNOWN
    assert len(site.tables.ground.of("lake").staged) == 0


async def test_a_name_that_is_staged_again_after_a_drop_elsewhere_is_found_out() -> None:
    """Dropped by an engine without signproxy, created again through it, where the catalog always puts the name."""
    site = Site()
    site.live(facts("new", uuid="old"))
    site.upstream.tables.clear()
    refusal = site.take(site.stage(NEW, "writer"))
    assert refusal is not None
    assert refusal.reason is Reason.TABLE_UNKNOWN
    assert sum(site.tables.alarms.counts.values()) == 0
    assert await site.reason(KEY, "new", "writer", method="PUT") is Reason.ALLOWED
    assert site.judgement.table_uuid == "uuid-new"
    assert site.upstream.asked == [("new", "writer-token")]


async def test_a_name_that_an_upstream_let_be_staged_although_it_is_taken_stays_the_tables() -> None:
    """Not every upstream looks whether a name is free before it hands out its location."""
    site = Site()
    site.live(facts("new", uuid="old"))
    site.take(site.stage(NEW, "writer"))
    for _ in range(2):
        assert await site.reason(KEY, "new", "writer", method="PUT") is Reason.ALLOWED
        assert site.judgement.table_uuid == "old"
    assert await site.reason(KEY, None, "reader") is Reason.ALLOWED
    assert site.judgement.table_uuid == "old"


async def test_a_caller_that_may_not_write_a_table_cannot_free_its_name_by_staging_it() -> None:
    """The upstream says that there is no such table, because the caller may not see it."""
    site = Site(policy(more="- {role: lender, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA, TABLE_CREATE]}"))
    site.live(facts("new", uuid="victim"))
    site.upstream.hidden.add(("lender-token", "new"))
    site.take(site.stage(NEW, "lender"))
    assert await site.reason(KEY, "new", "lender") is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY, None, "lender") is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY, "new", "reader") is Reason.ALLOWED
    assert site.judgement.table_uuid == "victim"


@pytest.mark.parametrize(
    ("authorizer", "rule"),
    (("catalog", "staged@table:lake.sales.new"), ("both", "staged@table:lake.sales.new+owner@catalog:lake")),
)
async def test_where_the_upstream_authorizes_its_answer_to_the_stage_counts(authorizer: str, rule: str) -> None:
    """There is no table yet that it could be asked to load."""
    site, _ = _staged(policy(f"authorizer: {authorizer}"), "owner")
    read = await site.sign(KEY, "new", "owner")
    assert isinstance(read, Allow)
    assert read.authority.rule_id == rule
    assert await site.reason(KEY, "new", "owner", method="PUT") is Reason.ALLOWED
    stranger, _ = _staged(policy(f"authorizer: {authorizer}"), "stranger")
    told = await stranger.reason(KEY, "new", "stranger")
    assert told is (Reason.ALLOWED if authorizer == "catalog" else Reason.PRINCIPAL_UNKNOWN)
    if authorizer == "catalog":
        assert await stranger.reason(KEY, "new", "stranger", method="PUT") is Reason.NO_WRITE_DATA


async def test_a_copy_inside_a_staged_table_is_signed() -> None:
    """Multipart uploads of large files and server-side copies are part of writing a table."""
    for binding in ("strict", "by-location"):
        site, _ = _staged(policy(f"binding: {binding}"))
        site.live(facts())
        assert await site.reason(KEY, "new", "writer", method="PUT", source="/lake/wh/new/data/g") is Reason.ALLOWED
        outside = await site.reason(KEY, "new", "writer", method="PUT", source="/lake/wh/elsewhere/g")
        assert outside is Reason.COPY_SOURCE_OUTSIDE


async def test_a_stage_around_the_former_table_of_its_name_waits_until_that_is_gone() -> None:
    """What is staged contains the old table's directory: until that is known, it is the old table's."""
    site = Site()
    site.live(facts("new", "s3://lake/wh/new/v1", "old"))
    refusal = site.take(site.stage(NEW, "writer"))
    assert refusal is not None
    assert await site.reason(KEY, None, "writer", method="PUT") is Reason.LOCATION_UNOWNED
    site.upstream.tables.clear()
    assert await site.reason(KEY, "new", "writer", method="PUT") is Reason.ALLOWED
    assert await site.reason(KEY, None, "writer", method="PUT") is Reason.ALLOWED


async def test_tables_that_ended_are_remembered_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog where tables come and go by the thousand a day must not remember them all."""
    monkeypatch.setattr(personal_ground, "ENDED_AT_MOST", 2)
    site = Site()
    for name in ("a", "b", "a", "c"):
        site.live(facts(name, uuid=f"{name}-{site.clock.forward(10.0)}"))
        site.drop(name)
    assert len(site.tables.personal._ended) == 2
