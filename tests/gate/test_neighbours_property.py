"""Compare, after any sequence of what may happen to learned tables, what holds for a neighbour with a judgement of it.

The judgement is made the long way: what a caller was found to be clear for is forgotten before. So no short cut that
both ways share can be wrong unseen.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.gate.judgement import Judgement
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.inventory.learned.enquiries import Allowance
from signproxy.inventory.learned.sighting import Answered, Changed, Dropped, Gone, Live, Renamed, Staged
from signproxy.inventory.learned.unquestioned import Unquestioned
from signproxy.inventory.learned.vouchers import AsksAs, recipient_of
from signproxy.model import Subject
from signproxy.policy.neighbours import Neighbours
from signproxy.policy.state import PolicyState
from signproxy.s3.forward_wire import ForwardWire
from tests.inventory.learned_rig import NOW, Site, facts, policy, principal

NAMES, PLACES = ("a", "b"), ("x", "x/data", "y")
CALLERS = {name: principal(name, expires_at=NOW + life) for name, life in (("reader", 500.0), ("owner", 4e9))}
_BESIDE = (
    '  beside: {storages: [aws], roots: ["s3://lake/beside", "s3://lake/wh/y"], remote_signing: true, tables: upstream}'
)
POLICIES = {
    **{authorizer: policy(f"authorizer: {authorizer}") for authorizer in ("policy", "catalog", "both")},
    "sealed": policy("authorizer: policy, metadata: sealed"),
    "overlap": policy("authorizer: policy, overlap: allowed"),
    "closed": policy("authorizer: policy").replace("remote_signing: true, tables", "remote_signing: false, tables"),
    "revoked": policy().replace("role: reader, privileges: [TABLE_REMOTE_SIGN, ", "role: reader, privileges: ["),
    "declared": policy(more='tables: [{namespace: sales, name: d, location: "s3://lake/wh/x/data"}]'),
    "named": policy(more='tables: [{namespace: sales, name: a, location: "s3://lake/wh/v"}]'),
    "listed": policy(more='tables: [{namespace: sales, name: b, locations: ["s3://lake/wh/x"]}]'),
    "volume": policy(more="volumes: [{name: v, storage: aws, bucket: lake, prefix: raw}]"),
    "beside": policy(catalogs=_BESIDE)
    .replace("readers: {lake: [reader]}", "readers: {lake: [reader], beside: [reader]}")
    .replace("catalog_roles: {", "catalog_roles: {beside: [reader], "),
}


class _Precedent(NamedTuple):
    state: PolicyState
    judgement: Judgement
    neighbours: Neighbours
    learned: Unquestioned | None

    def holds(self, site: Site) -> bool:
        """Whether a neighbour would be served by it, as `Sequels.begin` finds out."""
        key = self.neighbours.key_of("another")
        learned = self.learned
        return self.state is site.state and (learned is None or learned.holds("lake", key, site.clock.now))


def _asked(who: str, place: str, name: str) -> AskedFor:
    wire = ForwardWire(
        method="GET", bucket="lake", raw_key=f"wh/{place}/{name}", raw_query=None, headers=(), names=(), host="lake"
    )
    return AskedFor(CatalogAddress("lake"), None, None, wire, bearer=f"{who}-token")


def _said(judgement: Judgement) -> object:
    allow = judgement.allow
    assert allow is not None, judgement.refused
    return judgement.catalog, judgement.table_uuid, allow.table, allow.authority.rule_id, allow.write_once


async def _read(site: Site, precedents: dict[tuple[str, str], _Precedent], who: str, place: str) -> None:
    """Read an object: as the neighbour of another where that holds, and then as any other."""
    caller, precedent = CALLERS[who], precedents.pop((who, place), None)
    if site.clock.now >= caller.expires_at:
        return
    subject, vouchers, told = Subject.of(caller), site.tables.vouchers, len(site.upstream.asked)
    if precedent is not None and precedent.holds(site):
        cleared = dict(vouchers._at_once)
        vouchers._at_once.clear()
        judgement = await site.judge(subject, _asked(who, place, "another"))
        assert _said(judgement) == _said(precedent.judgement)
        assert len(site.upstream.asked) == told
        vouchers._at_once |= cleared
    else:
        for name in ("first", "second"):
            await site.judge(subject, _asked(who, place, name))
    found = site.gate.forward.neighbours(subject, _asked(who, place, "second"))
    if found is not None:
        precedents[who, place] = _Precedent(site.state, *found)


def _placed(site: Site, what: str, name: str, place: str, uuid: str) -> None:
    """Let the upstream have a table at a place, or a caller have staged one, and be heard of it."""
    location = f"s3://lake/wh/{place}"
    more = {"write_metadata_path": f"{location}/data"} if what == "sealed" else {}
    table = facts(name, location, uuid, **more)
    if what == "staged":
        site.take(Staged("lake", table, "corp/owner", 4e9))
        return
    site.upstream.put(table)
    if what == "moved":
        site.take(Changed("lake", "sales", name))
    else:
        site.take(Live("beside" if what == "beside" else "lake", table))


def _named(site: Site, what: str, name: str) -> None:
    """Let the upstream take away a table, or its name, and be heard of it."""
    table = site.upstream.tables.pop(("lake", "sales", name), None)
    if what == "dropped":
        site.take(Dropped("lake", "sales", name, "corp/owner", site.clock.now, site.uuid_of(name)))
    elif what == "gone":
        site.take(Gone("lake", "sales", name))
    else:
        to = "b" if name == "a" else "a"
        if table is not None:
            site.upstream.put(facts(to, table.location, table.uuid))
        site.take(Renamed("lake", "sales", name, "sales", to))


def _happens(site: Site, step: tuple[object, ...]) -> None:
    upstream = site.upstream
    match step:
        case (str(what), str(name), str(place), str(uuid)):
            _placed(site, what, name, place, uuid)
        case ("hidden" | "restricted", str(who), str(name)):
            held = upstream.hidden if step[0] == "hidden" else upstream.restricted
            held ^= {(f"{who}-token", name)}
        case ("answered", str(who), str(name)):
            recipient = recipient_of(CALLERS[who], f"{who}-token")
            restricted = (f"{who}-token", name) in upstream.restricted
            site.take(Answered("lake", "sales", name, site.uuid_of(name) or "1", *recipient, restricted))
        case ("policy", str(name)):
            site.reload(POLICIES[name])
        case ("down", bool(down)):
            upstream.fault = Refused(Reason.UPSTREAM_UNAVAILABLE, "down") if down else None
        case ("upstream", AsksAs() as asks_as):
            # Another one speaks for the catalog.
            upstream.as_ = asks_as
            site.tables.forget("lake")
        case ("wait", float(seconds)):
            site.clock.forward(seconds)
        case (str(what), str(name)):
            _named(site, what, name)
        case _:
            raise AssertionError(step)


_name, _who = st.sampled_from(NAMES), st.sampled_from(tuple(CALLERS))
_place = st.sampled_from(PLACES)
_placings = st.sampled_from(("live", "live", "sealed", "moved", "staged", "beside"))
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("read"), _who, _place),
        st.tuples(_placings, _name, _place, st.sampled_from(("1", "2"))),
        st.tuples(st.sampled_from(("dropped", "gone", "renamed", "renamed")), _name),
        st.tuples(st.sampled_from(("hidden", "restricted", "answered")), _who, _name),
        st.tuples(st.just("policy"), st.sampled_from(tuple(POLICIES))),
        st.tuples(st.just("down"), st.booleans()),
        st.tuples(st.just("upstream"), st.sampled_from((AsksAs.CALLER, AsksAs.SERVICE))),
        st.tuples(st.just("wait"), st.sampled_from((5.0, 7.0, 31.0, 55.0, 301.0, 601.0))),
    ),
    max_size=16,
)


async def _follow(steps: list[tuple[object, ...]]) -> None:
    site = Site(POLICIES["policy"], allowance=Allowance(1e9, 1e9), at_most=2)
    precedents: dict[tuple[str, str], _Precedent] = {}
    for step in [_LIVE, _READ, *steps, *(("read", who, "x") for who in CALLERS)]:
        match step:
            case ("read", str(who), str(place)):
                await _read(site, precedents, who, place)
                await _read(site, precedents, who, place)
                await site.settle()
            case _:
                _happens(site, step)


_LIVE, _READ = ("live", "a", "x", "1"), ("read", "reader", "x")
_BELOW = ("read", "reader", "x/data")


# What chance finds too seldom.
@example([("policy", "catalog"), _READ, ("hidden", "reader", "b"), ("renamed", "a")])
@example([("upstream", AsksAs.SERVICE), _LIVE, _READ, ("hidden", "reader", "a"), ("policy", "catalog")])
@example([("restricted", "reader", "a"), ("answered", "reader", "a")])
@example([("policy", "catalog"), _READ, ("down", True), ("wait", 55.0), _READ, _LIVE, ("wait", 7.0)])
@example([("policy", "sealed"), _BELOW, ("sealed", "a", "x", "1"), _BELOW])
@settings(max_examples=300, deadline=None)
@given(_steps)
def test_what_holds_for_a_neighbour_is_what_it_would_be_judged(steps: list[tuple[object, ...]]) -> None:
    """A read on a connection that was used before would be served, or recorded, as no fresh one would be."""
    asyncio.run(_follow(steps))
