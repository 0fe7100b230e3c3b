"""Compare what is signed after any sequence of sightings with a model that is nothing but lists and text.

The model knows no trees, no turns and no policies: tables are in the order in which they came, and places meet
if one text begins with the other. So it cannot be wrong in the way in which the code could be.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.enquiries import Allowance
from signproxy.inventory.learned.learned_table import Freshness
from signproxy.inventory.learned.registry import registration_of
from signproxy.inventory.learned.sighting import Changed, Dropped, Gone, Live, Renamed, Staged
from signproxy.inventory.learned.vouchers import AsksAs
from signproxy.model import Allow, TableId
from signproxy.policy.table import table_key
from tests.inventory.learned_rig import Site, facts, policy

NAMES = ("a", "b", "c")
UUIDS = ("1", "2")
# Below `wh`: nested, equal but for their spelling, neighbours that begin alike, and one outside of every root.
PLACES = ("x", "x/y", "x/y/z", "xy", "x/y2", "../out")
SPELLINGS = ("s3://lake/wh/{}", "s3a://lake/wh/{}/")
DECLARED = {"plain": (), "fixed": (("d", "x/y"),), "named": (("a", "v"),)}
KEPT, LATE = 100.0, 5.0
"""Seconds: how long a dropped table's files may be cleared away, and how old the oldest answer is."""


@dataclass
class Known:
    name: str
    uuid: str
    place: str
    principal: str = ""
    since: float = 0.0
    gone: bool = False


@dataclass
class Kept:
    """What is kept of a name, though the policy may not let its table stand: places, and how many were kept before."""

    uuid: str
    places: list[tuple[str, int]] = field(default_factory=list)

    def add(self, place: str, age: int) -> None:
        if place in PLACES[:-1] and not any(within(place, known) for known, _ in self.places):
            self.places.append((place, age))


def within(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/")


def meets(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def inside(key: str, place: str) -> bool:
    return key.startswith(f"{place}/")


@dataclass
class Model:
    """What ought to be signed."""

    live: list[Known] = field(default_factory=list)
    staged: list[Known] = field(default_factory=list)
    dropped: list[Known] = field(default_factory=list)
    ended: dict[tuple[str, str], float] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)
    declared: tuple[tuple[str, str], ...] = ()
    now: float = 0.0
    ages: int = 0

    def is_anothers(self, name: str, place: str) -> bool:
        """Whether a place meets one that another table was seen to have before, and may have now."""
        own = self.kept.get(name, Kept(""))
        since = min((age for known, age in own.places if within(place, known)), default=self.ages + 1)
        return any(
            meets(place, known) and age <= since and not any(meets(known, declared) for _, declared in self.declared)
            for other, kept in self.kept.items()
            if other != name and not self.is_declared(other)
            for known, age in kept.places
        )

    def is_taken(self, place: str) -> bool:
        return any(meets(place, other) for _, other in self.declared) or any(
            meets(place, known.place) for known in self.live
        )

    def is_declared(self, name: str) -> bool:
        return any(name == declared for declared, _ in self.declared)

    def claim(self, place: str) -> None:
        self.dropped = [known for known in self.dropped if not meets(place, known.place)]

    def see_live(self, name: str, uuid: str, place: str, age: float) -> None:
        if self.now - age <= self.ended.get((name, uuid), -2 * LATE) or self.is_declared(name):
            return
        if place in PLACES[:-1]:
            self.claim(place)
        for known in self.live:
            if known.name == name and known.uuid == uuid:
                known.gone = False
                return
        for known in [known for known in self.live if known.name == name]:
            self.live.remove(known)
            self.ended[known.name, known.uuid] = self.now
        kept = self.kept.get(name)
        if kept is None or kept.uuid != uuid:
            self.kept.pop(name, None)
            kept = Kept(uuid)
        # It is where it was first seen, wherever it was moved since.
        first = kept.places[0][0] if kept.places else place
        if first in PLACES[:-1] and not self.is_taken(first) and not self.is_anothers(name, first):
            self.staged = [known for known in self.staged if not meets(first, known.place)]
            self.live.append(Known(name, uuid, first))
            self.ages += 1
            kept.add(first, self.ages)
            kept.add(place, self.ages)
            self.kept[name] = kept

    def see_staged(self, name: str, uuid: str, place: str, principal: str) -> None:
        if self.is_declared(name) or place not in PLACES[:-1]:
            return
        others = [known.place for known in self.live if known.name != name]
        others += [known.place for known in self.staged if known.principal != principal]
        others += [declared for _, declared in self.declared]
        if any(meets(place, other) for other in others) or self.is_anothers(name, place):
            return
        self.claim(place)
        self.staged = [known for known in self.staged if (known.name, known.principal) != (name, principal)]
        self.staged.insert(0, Known(name, uuid, place, principal))

    def see_dropped(self, name: str, principal: str) -> None:
        self.kept.pop(name, None)
        for known in [known for known in self.live if known.name == name]:
            self.live.remove(known)
            self.ended[known.name, known.uuid] = self.now
            self.dropped.insert(0, Known(name, known.uuid, known.place, principal, self.now))
        # What is staged under its name is looked at from now on.
        self.judge()

    def see_renamed(self, name: str, to: str) -> None:
        if name != to:
            self.live = [known for known in self.live if known.name != to]
            for known in self.live:
                if known.name == name:
                    known.name = to
            self.kept.pop(to, None)
            if name in self.kept:
                self.kept[to] = self.kept.pop(name)
            self.judge()
            # Only a table of the same name may yet turn out to be gone.
            self.staged = [
                known
                for known in self.staged
                if not any(meets(known.place, other.place) and known.name != other.name for other in self.live)
            ]

    def see_gone(self, name: str) -> None:
        for known in self.live:
            known.gone = known.gone or known.name == name

    def is_looked_at(self, staged: Known) -> bool:
        """Whether any of the requests that follow each step looks at a staged table; no policy ends it otherwise."""
        if not self.is_declared(staged.name) and not any(known.name == staged.name for known in self.live):
            return True
        held = [known.place for known in self.live] + [place for _, place in self.declared]
        return any(inside(key, staged.place) and not any(inside(key, place) for place in held) for key in _KEYS)

    def judge(self) -> None:
        """Judge everything by the policy that is now in force."""

        def stands(known: Known) -> bool:
            return not any(meets(known.place, place) for _, place in self.declared)

        self.live = [known for known in self.live if stands(known) and not self.is_declared(known.name)]
        self.staged = [known for known in self.staged if stands(known) or not self.is_looked_at(known)]
        self.dropped = [known for known in self.dropped if stands(known)]

    def reload(self, declared: tuple[tuple[str, str], ...]) -> None:
        """Put another policy in force: what it does not let stand is forgotten; what was kept is not."""
        self.declared = declared
        for tables in (self.live, self.staged, self.dropped):
            tables[:] = [known for known in tables if not self.is_anothers(known.name, known.place)]
        self.judge()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.dropped = [known for known in self.dropped if self.now < known.since + KEPT]

    def uuids_for(self, who: str, key: str, name: str | None, method: str) -> set[str]:
        """Return the UUIDs of the tables for which this may be signed: none, or one, or several of that caller."""
        may = who != "reader" or method == "GET"
        for declared, place in self.declared:
            if (name is None and inside(key, place)) or name == declared:
                return {""} if inside(key, place) and may else set()
        live = [known for known in self.live if (inside(key, known.place) if name is None else known.name == name)]
        if any(inside(key, known.place) for known in live):
            return {live[0].uuid} if may and not live[0].gone else set()
        personal = [] if live else [known for known in self.staged if not self.is_taken(known.place)]
        if method != "PUT":
            personal = personal + self.dropped
        return {
            known.uuid
            for known in personal
            if known.principal == who and inside(key, known.place) and name in (None, known.name)
        }


_name = st.sampled_from(NAMES)
_who = st.sampled_from(("owner", "boss"))
_table = st.tuples(_name, st.sampled_from(UUIDS), st.sampled_from(PLACES), st.sampled_from(SPELLINGS))
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("live"), _table, st.just(0.0)),
        st.tuples(st.just("live"), _table, st.sampled_from((0.0, 0.5, LATE))),
        st.tuples(st.just("staged"), _table, _who),
        st.tuples(st.just("dropped"), _name, _who),
        st.tuples(st.just("renamed"), _name, st.sampled_from((*NAMES, "d"))),
        st.tuples(st.just("gone"), _name),
        st.tuples(st.just("changed"), _name),
        st.tuples(st.just("reload"), st.sampled_from(tuple(DECLARED))),
        st.tuples(st.just("wait"), st.sampled_from((1.0, LATE, KEPT))),
    ),
    min_size=1,
    max_size=14,
)
Step = tuple[object, ...]

_KEYS = tuple(f"{place}/f" for place in (*PLACES[:-1], "v"))


def _text(declared: tuple[tuple[str, str], ...]) -> str:
    tables = ", ".join(
        f'{{namespace: sales, name: {name}, location: "s3://lake/wh/{place}"}}' for name, place in declared
    )
    return (
        policy(more=f"tables: [{tables}]" if tables else "")
        .replace("roots: [", 'roots: ["s3://lake/wh/", ')
        .replace("principals:\n", "principals:\n  corp/boss: {roles: [owners]}\n")
    )


def _see(site: Site, model: Model, step: Step) -> None:
    match step:
        case ("live", (str(name), str(uuid), str(place), str(spelling)), float(age)):
            model.see_live(name, uuid, place, age)
            site.take(Live("lake", facts(name, spelling.format(place), uuid)), site.clock.now - age)
        case ("staged", (str(name), str(uuid), str(place), str(spelling)), str(who)):
            model.see_staged(name, uuid, place, who)
            site.take(Staged("lake", facts(name, spelling.format(place), uuid), f"corp/{who}", 4e9))
        case ("dropped", str(name), str(who)):
            model.see_dropped(name, who)
            site.take(Dropped("lake", "sales", name, f"corp/{who}", site.clock.now, site.uuid_of(name)))
        case ("renamed", str(name), str(to)):
            model.see_renamed(name, to)
            site.take(Renamed("lake", "sales", name, "sales", to))
        case ("gone", str(name)):
            model.see_gone(name)
            site.take(Gone("lake", "sales", name))
        case ("changed", str(name)):
            site.take(Changed("lake", "sales", name))
        case ("reload", str(name)):
            model.reload(DECLARED[name])
            site.reload(_text(DECLARED[name]))
        case ("wait", float(seconds)):
            model.wait(seconds)
            site.clock.forward(seconds)
        case _:
            raise AssertionError(step)


async def _signed(site: Site, who: str, key: str, name: str | None, method: str) -> str | None:
    judged = await site.sign(f"wh/{key}", name, who, method=method)
    return site.judgement.table_uuid if isinstance(judged, Allow) else None


async def _follow(steps: list[Step]) -> None:
    forever = Freshness(soft=1e9, hard=1e9, absent=0.0, staged=1e9, dropped=KEPT)
    site = Site(_text(()), forever, Allowance(1e9, 1e9))
    # What callers may read of a table is proved elsewhere: here no upstream is asked.
    site.upstream.as_ = AsksAs.NONE
    # What is in doubt stays in doubt.
    site.upstream.fault = Refused(Reason.UPSTREAM_UNAVAILABLE, "down")
    model = Model()
    for number, step in enumerate(steps):
        _see(site, model, step)
        for who, method in (("reader", "GET"), ("owner", "DELETE"), ("boss", "PUT")):
            for key in _KEYS:
                for name in (*NAMES, "d", None):
                    expected = model.uuids_for(who, key, name, method)
                    found = await _signed(site, who, key, name, method)
                    told = (number, step, who, method, key, name)
                    assert (found in expected) if expected else found is None, told


def _live(name: str, uuid: str, place: str) -> Step:
    return ("live", (name, uuid, place, SPELLINGS[0]), 0.0)


# What chance finds too seldom: a right that was ended comes back once the table that ended it is gone, and an answer
# of before.
@example([_live("a", "1", "x"), ("dropped", "a", "owner"), _live("b", "2", "x/y"), ("dropped", "b", "boss")])
@example(
    [
        _live("a", "1", "xy"),
        ("gone", "a"),
        ("staged", _live("a", "1", "x")[1], "owner"),
        _live("a", "1", "x"),
        ("wait", KEPT),
    ]
)
@example([_live("a", "1", "x"), ("dropped", "a", "owner"), ("staged", _live("b", "2", "x")[1], "boss"), ("wait", KEPT)])
@example([_live("a", "1", "x"), ("dropped", "a", "owner"), _live("a", "1", "x"), ("wait", 1.0), _live("a", "1", "x")])
@example(
    [
        *(_live("a", "1", "x"), ("wait", 1.0), ("dropped", "a", "owner"), ("wait", LATE)),
        ("live", ("a", "1", "x", SPELLINGS[0]), LATE),
    ]
)
@example([("staged", _live("a", "1", "x")[1], "boss"), _live("b", "2", "x/y"), ("dropped", "b", "owner")])
# A table that the policy does not let stand for a while has its place again, though another took it meanwhile.
@example([_live("a", "1", "x"), ("reload", "named"), _live("b", "1", "x"), ("reload", "plain")])
@example([_live("a", "1", "x"), ("reload", "fixed"), ("reload", "plain"), _live("a", "1", "x/y")])
@example(
    [_live("a", "1", "x"), _live("a", "2", "xy"), ("staged", _live("b", "1", "x")[1], "boss"), ("reload", "fixed")]
)
@example(
    [
        *(_live("a", "2", "xy"), ("staged", _live("a", "1", "x/y")[1], "owner"), ("reload", "fixed")),
        *(("dropped", "a", "owner"), ("reload", "plain")),
    ]
)
@given(_steps)
def test_no_sequence_of_sightings_lets_a_table_be_signed_inside_anothers_place(steps: list[Step]) -> None:
    """A caller that can make an upstream say something would read, write or delete what is another's."""
    asyncio.run(_follow(steps))


_claims = st.lists(st.tuples(_table, st.sampled_from(("lake", "other"))), min_size=2, max_size=20)


@given(_claims)
def test_places_of_two_catalogs_never_meet_in_one_bucket(claims: list[tuple[tuple[str, str, str, str], str]]) -> None:
    """One catalog's users would reach the other's tables."""
    text = policy(catalogs='  other: {storages: [aws], roots: ["s3://lake/wh"], tables: upstream, overlap: allowed}')
    site = Site(text)
    for (name, uuid, place, spelling), catalog in claims:
        site.take(Live(catalog, facts(name, spelling.format(place), uuid)))
    held = {
        catalog: [table.place.prefix for table in site.tables.ground.of(catalog).by_name.values()]
        for catalog in ("lake", "other")
    }
    for one in held["lake"]:
        assert not any(meets(one[:-1], other[:-1]) for other in held["other"])


_CLAIMS: tuple[dict[str, str], ...] = (
    {},
    {"write_data_path": "s3://lake/wh/x/data"},
    {"write_data_path": "s3://cold/data/a"},
    {"write_metadata_path": "no location"},
)
_LISTED = policy(more='tables: [{namespace: sales, name: a, locations: ["s3://cold/data/a"]}]')
_POLICIES = {**{name: _text(declared) for name, declared in DECLARED.items()}, "listed": _LISTED}
_told = st.lists(
    st.one_of(
        st.tuples(st.just("live"), _table, st.sampled_from((0.0, LATE)), st.sampled_from(_CLAIMS)),
        st.tuples(st.just("dropped"), _name, _who),
        st.tuples(st.just("renamed"), _name, _name),
        st.tuples(st.just("gone"), _name),
        st.tuples(st.just("changed"), _name),
        st.tuples(st.just("reload"), st.sampled_from(tuple(_POLICIES))),
        st.tuples(st.just("listed"), _table),
        st.tuples(st.just("denied"), _name),
        st.tuples(st.just("wait"), st.just(1.0)),
        st.tuples(st.just("again"), st.integers(0, 3)),
    ),
    min_size=2,
    max_size=20,
)


def _tell(site: Site, step: Step) -> object:
    match step:
        case ("live", (str(name), str(uuid), str(place), str(spelling)), float(age), dict(claims)):
            return site.take(Live("lake", facts(name, spelling.format(place), uuid, **claims)), site.clock.now - age)
        case ("reload", str(name)):
            site.reload(_POLICIES[name])
        case ("denied", str(name)):
            site.tables.denials.absent("lake", table_key("sales", name), "corp/reader", site.clock.now)
        case ("listed", (str(name), str(uuid), str(place), str(spelling))):
            # An inventory, or another process, tells of it.
            site.tables.registry.replay(
                (registration_of(TableId("lake", "sales", name), facts(name, spelling.format(place), uuid), 1, None),)
            )
        case _:
            _see(site, Model(), step)
    return None


def _kept_of(site: Site) -> object:
    """Return all that is known of live tables, and how long it is relied on."""
    tables = site.tables
    known = {
        key: (str(table.id), table.facts, table.table, table.soft, table.hard, table.doubt, table.used)
        for key, table in tables.ground.of("lake").by_name.items()
    }
    return known, sorted(tables.registry.of("lake"), key=str), tables.denials._held


_A = ("a", "1", "x", SPELLINGS[0])


@example([("live", _A, 0.0, _CLAIMS[2]), ("live", _A, 0.0, _CLAIMS[2]), ("reload", "listed"), ("again", 0)])
@example(
    [("reload", "listed"), ("live", _A, 0.0, _CLAIMS[2]), ("renamed", "a", "b"), ("renamed", "b", "a"), ("again", 1)]
)
@example([("live", _A, 0.0, {}), ("listed", ("a", "2", "xy", SPELLINGS[0])), ("again", 0)])
@example(
    [
        ("live", _A, 0.0, {}),
        ("wait", 1.0),
        ("dropped", "a", "owner"),
        ("wait", 1.0),
        ("again", 0),
        ("live", _A, LATE, {}),
    ]
)
@example([("live", _A, 0.0, {}), ("denied", "a"), ("gone", "a"), ("again", 0), ("reload", "named"), ("again", 0)])
@example(
    [
        *(("reload", "listed"), ("live", _A, 0.0, _CLAIMS[2]), ("renamed", "a", "b")),
        ("live", ("b", *_A[1:]), 0.0, _CLAIMS[2]),
    ]
)
@given(_told)
def test_a_table_that_is_told_of_as_it_is_held_ends_as_one_that_is_judged_whole(steps: list[Step]) -> None:
    """What is found early to be known would be relied on where a whole judgement refuses it."""
    quick, whole = Site(_text(())), Site(_text(()))
    whole.tables._unchanged = lambda *_: None  # type: ignore[method-assign]
    for number, step in enumerate(steps):
        made = steps[step[1] % len(steps)] if step[0] == "again" and isinstance(step[1], int) else step
        if made[0] == "again":
            continue
        assert _tell(quick, made) == _tell(whole, made), (number, made)
        assert _kept_of(quick) == _kept_of(whole), (number, made)
