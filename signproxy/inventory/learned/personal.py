"""Keep the tables that one principal alone has business with: those it staged, and those it dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from signproxy.inventory.learned.learned_table import PersonalTable
from signproxy.policy.places import PlaceTree
from signproxy.policy.table import Place, table_key

AT_MOST = 10_000
"""Tables of all principals; some 2 KiB each."""

EACH_AT_MOST = 500
"""Tables of one principal, so that none can push out what others staged or dropped."""


class PersonalTables:
    """Personal tables of one catalog, by name and by place. Where there are too many, the oldest is forgotten."""

    __slots__ = ("_by_name", "_by_principal", "_places", "_records")

    def __init__(self) -> None:
        self._records: OrderedDict[int, PersonalTable] = OrderedDict()
        self._by_name: dict[tuple[str, str], tuple[PersonalTable, ...]] = {}
        self._by_principal: dict[str, OrderedDict[int, PersonalTable]] = {}
        self._places: PlaceTree[PersonalTable] = PlaceTree()

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[PersonalTable]:
        return iter(tuple(self._records.values()))

    def __contains__(self, name: tuple[str, str]) -> bool:
        """Whether a principal may have a table of a name: the table's key, and the principal."""
        return name in self._by_name

    def add(self, record: PersonalTable) -> None:
        """Keep a table."""
        of_principal = self._by_principal.get(record.principal)
        if of_principal is not None and len(of_principal) >= EACH_AT_MOST:
            self.remove(next(iter(of_principal.values())))
        elif len(self._records) >= AT_MOST:
            self.remove(next(iter(self._records.values())))
        key = _key(record)
        self._records[id(record)] = record
        self._by_principal.setdefault(record.principal, OrderedDict())[id(record)] = record
        self._by_name[key] = (record, *self._by_name.get(key, ()))
        self._places.add(record.place.bucket, record.place.prefix, record)

    def remove(self, record: PersonalTable) -> None:
        """Forget a table that is kept."""
        key = _key(record)
        del self._records[id(record)]
        of_principal = self._by_principal[record.principal]
        del of_principal[id(record)]
        if not of_principal:
            del self._by_principal[record.principal]
        rest = tuple(other for other in self._by_name[key] if other is not record)
        if rest:
            self._by_name[key] = rest
        else:
            del self._by_name[key]
        self._places.remove(record.place.bucket, record.place.prefix, record)

    def of(self, namespace: str, name: str, principal: str, now: float) -> tuple[PersonalTable, ...]:
        """Return the principal's tables of a name, the newest first."""
        found = self._by_name.get((table_key(namespace, name), principal), ())
        return self._in_time(found, now) if found else ()

    def over(self, bucket: str, key: str, principal: str, now: float) -> tuple[PersonalTable, ...]:
        """Return the principal's tables that a key or list prefix lies in."""
        found = self._places.over(bucket, key)
        return tuple(record for record in self._in_time(found, now) if record.principal == principal) if found else ()

    def meeting(self, place: Place, now: float) -> tuple[PersonalTable, ...]:
        """Return every table whose place nests in this one, equals or contains it."""
        if not self._places:
            return ()
        found = {id(record): record for record in self._places.over(place.bucket, place.prefix)}
        found |= {id(record): record for record in self._places.below(place.bucket, place.prefix)}
        return self._in_time(tuple(found.values()), now)

    def _in_time(self, found: tuple[PersonalTable, ...], now: float) -> tuple[PersonalTable, ...]:
        for record in found:
            if record.until <= now:
                self.remove(record)
        return tuple(record for record in found if record.until > now)


def _key(record: PersonalTable) -> tuple[str, str]:
    return table_key(record.id.namespace, record.id.name), record.principal
