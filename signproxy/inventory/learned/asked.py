"""Name what the search for a request's tables is given, and what it can end in."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from signproxy.errors import Reason
from signproxy.inventory.learned.learned_table import LearnedTable, PersonalTable
from signproxy.inventory.learned.sighting import Staged
from signproxy.inventory.learned.vouchers import Recipient
from signproxy.model import Subject, TableId, Target
from signproxy.policy.catalog import Authorizer, Catalog
from signproxy.policy.reach import mask_at
from signproxy.policy.rights import Rights, Standing
from signproxy.policy.table import Table
from signproxy.s3.request import S3Request

Holder = Table | LearnedTable | PersonalTable
"""The owner of what a request addresses: a table of the policy, a learned one, or one that is not live."""

SealedContext = Callable[[], Staged | None]
"""Opens what the caller brought back that signproxy had sealed, and returns the staged create that the request belongs
to; None where its time is over. Raises Refused (CONTEXT_INVALID) for what is not the caller's. Most requests need none,
so it is called only where one is needed."""


class Asker(msgspec.Struct, frozen=True, gc=False):
    """The caller with whose token an upstream is asked for the tables of a catalog."""

    catalog: Catalog
    subject: Subject
    rights: Rights | None
    """What the policy itself gives the effective principal."""
    bearer: str
    """The caller's own token."""

    @property
    def trusts_policy(self) -> bool:
        """Whether the policy alone says what a caller may do; an upstream's restrictions count all the same."""
        return self.catalog.authorizer is Authorizer.POLICY

    def mask(self, table: TableId) -> int:
        """Return what the policy itself lets the caller do with a table."""
        return 0 if self.rights is None else mask_at(self.catalog, self.rights, table.namespace, table.name)


class Asked(Asker, frozen=True, gc=False):
    """A request to a catalog whose tables are learned, and when it was made."""

    target: Target
    request: S3Request
    recipient: Recipient | None
    """Whom the upstream answers; None where it is not asked at all."""
    carried: SealedContext | None
    now: float

    @property
    def principal(self) -> str:
        """Who may have staged or dropped a table; empty where the caller acts on another's rights."""
        return self.subject.owner

    @property
    def who(self) -> str:
        """Whose an upstream's denial is: the principal's, and of this very token where the upstream knows it."""
        name, recipient = self.subject.caller.name, self.recipient
        return name if recipient is None or not recipient.token else f"{name}\0{recipient.token.hex()}"


class Found(msgspec.Struct, frozen=True, gc=False):
    """The tables that own what a request addresses, and what stands beside the policy's grants on them."""

    owners: tuple[Table, ...]
    standing: Standing | None = None


class FoundByName(msgspec.Struct, frozen=True, gc=False):
    """The table of a name, and what stands beside the policy's grants on it."""

    table: Table
    standing: Standing | None
    spelled: str
    """Its location as the upstream has it; empty for a table that the policy declares."""
    staged: bool = False
    """It is not there yet, and another table may come to lie at its place."""


class Missing(msgspec.Struct, frozen=True, gc=False):
    """A table that has to be asked for; the reason is that of the refusal if there is none."""

    table: TableId
    reason: Reason


def table_in(holder: Holder) -> Table:
    """Return the table that a decision about the holder is made of."""
    return holder if isinstance(holder, Table) else holder.table
