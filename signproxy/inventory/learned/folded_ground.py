"""Keep the learned tables of a catalog by place without regard to case, for stores that have none."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from signproxy.inventory.learned.learned_table import LearnedTable
from signproxy.policy.places import PlaceTree, folded


class FoldedGround:
    """The tables by folded place. Those that were there before it are entered piece by piece."""

    def __init__(self, tables: Iterable[LearnedTable]) -> None:
        self._waiting = {table.serial: table for table in tables}
        self._places: PlaceTree[LearnedTable] = PlaceTree()

    def enter(self) -> Generator[None, None, None]:
        """Enter those that wait, and let others have their turn in between."""
        while self._waiting:
            self.add(self._waiting.popitem()[1])
            yield

    def add(self, table: LearnedTable) -> None:
        """Enter a table that was learned."""
        self._places.add(table.place.bucket, folded(table.place.prefix), table)

    def remove(self, table: LearnedTable) -> None:
        """Forget a table."""
        if self._waiting.pop(table.serial, None) is None:
            self._places.remove(table.place.bucket, folded(table.place.prefix), table)

    def meeting(self, bucket: str, place: str) -> tuple[LearnedTable, ...]:
        """Return the tables whose place equals a folded one, holds it or lies in it."""
        return tuple(self._places.meeting(bucket, place))
