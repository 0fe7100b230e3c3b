"""Take an inventory of the upstream of a catalog, for the policy or for the file of sightings."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from signproxy.catalog.upstream import open_upstream
from signproxy.catalog.upstream_inventory import UpstreamInventory
from signproxy.catalog.upstream_spec import UpstreamSpec
from signproxy.catalog.upstreams import Bound
from signproxy.cli import configuration
from signproxy.cli.partial_inventory import PartialInventory
from signproxy.cli.terminal import complain, say, write_whole
from signproxy.config import Settings
from signproxy.errors import Finding, Invalid, Refused, nearest
from signproxy.inventory.declared.catalog_draft import LOCATION_PROPERTIES
from signproxy.inventory.learned.claims import Unbelieved, location_in, place_of
from signproxy.inventory.learned.registry import Holding, LocationRegistry, Registration, Shelf, Stocktaking
from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import NAMESPACE_SEPARATOR, TableId
from signproxy.policy.catalog import Catalog, Overlap
from signproxy.policy.table import Place
from signproxy.sealing import Purpose, Sealer
from signproxy.server.process import build
from signproxy.server.process.inventory_keeper import digest_of_upstream
from signproxy.server.process.seals import secrets_of
from signproxy.server.process.sightings_file import SightingsFile
from signproxy.server.process.upstreams import upstreams_of

DONE = 0
INCOMPLETE = 1

MOST_TABLES = 5_000_000

_encode = msgspec.json.Encoder().encode


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    configuration.arguments(parser)
    parser.add_argument(
        "--from-upstream", metavar="CATALOG", required=True, help="the catalog of the policy whose upstream is listed"
    )
    parser.add_argument("--output", metavar="FILE", help="write NDJSON that a policy names under `inventories`")
    parser.add_argument(
        "--sightings", action="store_true", help="put what is found into `sightings.file`, as a server would"
    )


def run(options: argparse.Namespace) -> int:
    """Take it; one that is cut off goes on from where it was when the same command is run again."""
    settings = configuration.settings_of(options)
    spec, catalog = _spec(settings, options.from_upstream), _catalog(settings, options.from_upstream)
    sightings = _sightings(settings) if options.sightings else None
    if sightings is None and not options.output:
        raise _wrong("--output", "or --sightings says where it goes")
    path = Path(options.output) if options.output else Path(settings.sightings.file)
    upstream = digest_of_upstream(spec)
    with PartialInventory(path.with_name(f"{path.name}.partial"), catalog.name, upstream, time.time()) as partial:
        if partial.tables:
            complain(f"goes on with {len(partial.tables):,} tables that were listed before")
        try:
            unreadable = asyncio.run(_take(spec, partial))
        except Refused as refused:
            complain(f"not complete: {refused}; {len(partial.tables):,} tables so far are in {str(partial.path)!r}")
            return INCOMPLETE
        for namespace, name in unreadable:
            complain(f"warning: the upstream cannot load table {str(TableId(catalog.name, namespace, name))!r}")
        left_out = 0
        taken = Stocktaking(catalog.name, upstream, partial.began)
        if sightings is not None:
            _keep(sightings, taken, partial.tables, settings.sightings.max_tables)
            say(f"{settings.sightings.file}: {len(partial.tables):,} tables of catalog {catalog.name}")
        if options.output:
            lines, left_out = _lines(catalog, taken, partial.tables)
            write_whole(Path(options.output), (line + b"\n" for line in lines))
            say(f"{options.output}: {len(lines):,} tables of catalog {catalog.name}, {left_out:,} left out")
        partial.finish()
    return INCOMPLETE if left_out else DONE


async def _take(spec: UpstreamSpec, partial: PartialInventory) -> list[tuple[str, str]]:
    bound = Bound(await open_upstream(spec))
    known = frozenset(partial.tables)
    inventory = UpstreamInventory(bound, spec.inventory, partial.add, known=known, at_most=MOST_TABLES)
    try:
        await inventory.run()
    finally:
        await bound.aclose()
    return inventory.unreadable


def _keep(file: SightingsFile, taken: Stocktaking, tables: dict[tuple[str, str], TableFacts], most: int) -> None:
    registry = LocationRegistry(MOST_TABLES)
    registry.replay(file.load())
    registry.note_upstream(taken.catalog, taken.upstream)
    if len(registry) - len(registry.of(taken.catalog)) + len(tables) > most:
        raise Invalid([Finding("", "sightings.max_tables", f"{len(tables):,} tables; the setting is {most:,}")])
    named = [(TableId(taken.catalog, *name), facts) for name, facts in tables.items()]
    if not file.take_over(taken, list(registry.found(taken, named))):
        raise Invalid([Finding("", "sightings.max_mib", "the inventory does not fit into the file")])


def _lines(catalog: Catalog, taken: Stocktaking, tables: dict[tuple[str, str], TableFacts]) -> tuple[list[bytes], int]:
    """Return the lines of tables that a policy can hold, and how many it cannot; complain of each of those."""
    registry = LocationRegistry(MOST_TABLES)
    named = {TableId(taken.catalog, *name): facts for name, facts in tables.items()}
    registry.adopt(taken, Shelf(registry.found(taken, named.items())))
    lines: list[bytes] = []
    for registration in registry.of(taken.catalog):
        table, facts = registration.table, named[registration.table]
        problem = _problem(catalog, registry, registration, facts)
        if problem:
            complain(f"left out: table {str(table)!r}: {problem}")
            continue
        line = {
            "kind": "table",
            "catalog": table.catalog,
            "namespace": table.namespace.split(NAMESPACE_SEPARATOR),
            "name": table.name,
            "uuid": facts.uuid,
            "location": facts.location,
            "properties": dict(_properties(catalog, registry, table, facts)),
        }
        lines.append(_encode({name: value for name, value in line.items() if value}))
    return lines, len(tables) - len(lines)


def _problem(catalog: Catalog, registry: LocationRegistry, registration: Registration, facts: TableFacts) -> str:
    place = _place(catalog, facts.location)
    if place is None:
        return f"{facts.location!r} lies below no root of the catalog"
    if not registration.table.name.isprintable():
        return "no policy can name it"
    if catalog.overlap is Overlap.FORBIDDEN:
        other = _locations(registry.conflicts(catalog.name, place, registration.table), registration)
        if other is not None:
            return f"{str(place)!r} meets {str(other)!r} of table {str(other.table)!r}; neither is written"
    return ""


def _locations(conflicts: Iterator[Holding], own: Registration) -> Holding | None:
    """Return a conflict with another table's location; what properties claim comes after those."""
    return next((each for each in conflicts if each.since <= own.holdings[0].since), None)


def _properties(
    catalog: Catalog, registry: LocationRegistry, table: TableId, facts: TableFacts
) -> Iterator[tuple[str, str]]:
    """Yield the location properties whose places are no other table's, so that a policy may believe them."""
    for name in LOCATION_PROPERTIES:
        text = facts.properties.get(name, "")
        place = _place(catalog, text) if text else None
        if place is not None and next(registry.conflicts(catalog.name, place, table), None) is None:
            yield name, text


def _place(catalog: Catalog, text: str) -> Place | None:
    if catalog.learning is None or location_in(text) is None:
        return None
    found = place_of(catalog, text)
    return None if isinstance(found, Unbelieved) else found[1]


def _spec(settings: Settings, catalog: str) -> UpstreamSpec:
    specs = {spec.catalog: spec for spec in upstreams_of(settings.upstreams)}
    spec = specs.get(catalog)
    if spec is None:
        raise _wrong("--from-upstream", f"`upstreams` has no {catalog!r}{nearest(catalog, specs)}")
    return spec


def _catalog(settings: Settings, name: str) -> Catalog:
    state = build.policy_source(settings).load(0)
    catalog = state.catalogs.get(name)
    if catalog is None or catalog.learning is None:
        raise _wrong("--from-upstream", f"the policy has no catalog {name!r} with `tables: upstream`")
    return catalog


def _sightings(settings: Settings) -> SightingsFile:
    kept = settings.sightings
    if not kept.file:
        raise _wrong("--sightings", "needs `sightings.file`")
    sealer = Sealer(secrets_of(settings.context), Purpose.SIGHTINGS)
    return SightingsFile(Path(kept.file), sealer, kept.max_mib << 20)


def _wrong(option: str, problem: str) -> Invalid:
    return Invalid([Finding("command line", option, problem)])
