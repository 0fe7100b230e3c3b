"""Say which of the places that callers choose are vouched for: by the operator, or by the upstream's own layout.

A caller that may create tables could otherwise choose the place of a table that this process has not seen, and be
believed first. What the upstream chooses itself needs no voucher.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from signproxy.inventory.learned.claims import Unbelieved, is_listed, is_operators, location_in, place_of
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.model import TableId
from signproxy.policy.catalog import Catalog, Learning
from signproxy.policy.location import Location, LocationInvalid, parse_root
from signproxy.policy.table import Place, table_key

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_S3 = frozenset({"s3", "s3a", "s3n"})

# What Trino, Nessie and others put behind a table's name, so that no two tables of one name share a folder.
_UNIQUE = re.compile(r"[-_.](?:[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


class UnvouchedChoice(msgspec.Struct, frozen=True, gc=False):
    """A chosen place that the policy does not vouch for; the upstream's layout still may."""

    text: str
    """As the caller spells it."""
    location: Location | None
    """None where it cannot be read: the upstream may read it otherwise, so nothing can vouch for it."""


class ChosenPlaces(NamedTuple):
    """Judges by the policy in force and by what is known of the tables."""

    tables: LearnedTables

    def of_table(
        self, catalog: Catalog, table: TableId, texts: Iterable[str], principal: str, now: float
    ) -> tuple[UnvouchedChoice, ...]:
        """Return the places that were chosen for a table and that neither the policy nor its history vouches for.

        A place that no table of the catalog can have is left out: it is never believed. `principal` is the caller, or
        empty where it acts on another's rights.
        """
        unvouched: list[UnvouchedChoice] = []
        for text in texts:
            if not may_be_s3(text):
                continue
            location = location_in(text)
            if location is None:
                unvouched.append(UnvouchedChoice(text, None))
                continue
            found = place_of(catalog, str(location))
            if isinstance(found, Unbelieved) or is_operators(catalog.learns, location):
                continue
            if not self._is_own(catalog, table, found[1], principal, now):
                unvouched.append(UnvouchedChoice(text, location))
        return tuple(unvouched)

    def _is_own(self, catalog: Catalog, table: TableId, place: Place, principal: str, now: float) -> bool:
        """Whether the place is the table's already: declared, listed, known, or staged or dropped by the caller."""
        declared = catalog.table(table.namespace, table.name)
        if declared is not None:
            return any(own.holds(place.bucket, place.prefix) for own in declared.places)
        listing = catalog.learns.listings.get(table_key(table.namespace, table.name))
        if is_listed(listing, place):
            return True
        known = self.tables.named(catalog, table.namespace, table.name, now)
        if known is not None:
            return known.place.holds(place.bucket, place.prefix)
        if not principal:
            return False
        holdings, personal = self.tables.ground.of(catalog.name), self.tables.personal
        staged = holdings.staged.of(table.namespace, table.name, principal, now)
        # What a caller has just dropped it may register again, under any name.
        dropped = holdings.dropped.over(place.bucket, place.prefix, principal, now)
        return any(
            record.place.holds(place.bucket, place.prefix)
            for record in (
                *personal.usable_staged(catalog, staged, now),
                *personal.usable_dropped(catalog, dropped),
            )
        )


def of_namespace(catalog: Catalog, texts: Iterable[str]) -> tuple[UnvouchedChoice, ...]:
    """Return the places that were chosen for a namespace and that the policy does not vouch for.

    The upstream puts tables and namespaces below it, so that one around a root counts as well.
    """
    unvouched: list[UnvouchedChoice] = []
    for text in texts:
        if not may_be_s3(text):
            continue
        location = _root(text)
        if location is None:
            unvouched.append(UnvouchedChoice(text, None))
        elif catalog.storage_of(location.bucket) is not None and not is_operators(catalog.learns, location):
            unvouched.append(UnvouchedChoice(text, location))
    return tuple(unvouched)


def follows_layout(learning: Learning, reported: str, location: Location, name: str) -> bool:
    """Whether a place is the one of this name below the location that the upstream reports for the namespace.

    It is `<namespace's location>/<name>`, or has a UUID behind the name, or lies below such a folder. Any other folder
    there may be another table's. The namespace has to lie below a root: in one that is a root itself, a table that is
    called like another namespace would contain all of its tables.
    """
    above = location_in(reported)
    if above is None or not any(root.contains(above) for root in learning.roots) or not above.contains(location):
        return False
    folder = location.path.removeprefix(above.prefix).partition("/")[0]
    return folder == name or (folder.startswith(name) and _UNIQUE.fullmatch(folder, len(name)) is not None)


def may_be_s3(text: str) -> bool:
    """Whether an upstream could read the text as a place in S3. Without a scheme it may complete it."""
    scheme = _SCHEME.match(text)
    return scheme is None or scheme[1].lower() in _S3


def _root(text: str) -> Location | None:
    try:
        return parse_root(text)
    except LocationInvalid:
        return None
