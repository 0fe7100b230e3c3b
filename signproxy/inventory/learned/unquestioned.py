"""Say of a learned table that a request was judged for whether the next request would find the same, without asking."""

from __future__ import annotations

import msgspec

from signproxy.inventory.learned.known_tables import KnownTables
from signproxy.inventory.learned.learned_table import LearnedTable
from signproxy.model import Principal
from signproxy.policy.table import Table


class Unquestioned(msgspec.Struct, frozen=True, gc=False):
    """The one table that owns a key, as it was found for a caller; the policy that it was found under is not its own.

    Where it still holds, `LearnedResolver.resolve` would find it, and ask nothing: it looks at the same.
    """

    tables: KnownTables
    known: LearnedTable
    table: Table
    caller: Principal

    def holds(self, bucket: str, key: str, now: float) -> bool:
        """Whether a key of the same caller's is found to be this table's, by all that is known at a Unix time."""
        known, ground = self.known, self.tables.ground
        owners = ground.of(known.id.catalog).places.over(bucket, key)
        if not (
            len(owners) == 1
            and owners[0] is known
            and known.table is self.table
            and known.turn == ground.turn
            and now < known.soft
            and self.tables.vouchers.is_clear(self.caller, known, now)
        ):
            return False
        known.used = True
        return True
