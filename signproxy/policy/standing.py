"""Hold what stands in a decision beside the grants of the policy, such as an upstream's answer to the caller."""

from __future__ import annotations

import msgspec

from signproxy.errors import Reason
from signproxy.model import Deny, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.rights import SIGN_S3_READ_REQUEST, PolicyAuthority, Rights
from signproxy.policy.table import Table


class Standing(msgspec.Struct, frozen=True, gc=False):
    """What another party than the policy vouches for, and what only that party knows of the request."""

    voucher: str = ""
    """Who vouches, as the audit trail names it: `upstream@table:lake.sales.orders`."""
    mask: int = 0
    """The privileges that it vouches for, on every table of the decision."""
    sources: tuple[Table, ...] | None = None
    """The tables that own the source of a copy, where the catalog itself does not know them all."""
    restricted: tuple[TableId, ...] = ()
    """The tables of which the upstream keeps rows or columns from the caller: no whole file of theirs may reach it."""

    def refusal_of(self, tables: tuple[Table, ...]) -> Deny | None:
        """Return the refusal of a caller for whom one of the tables is restricted."""
        for table in tables:
            if table.id in self.restricted:
                return restricted(table.id)
        return None

    def authority(
        self,
        catalog: Catalog,
        own: Rights,
        owners: tuple[Table, ...],
        need: int,
        read_from: tuple[Table, ...],
    ) -> VouchedAuthority:
        """Return who stands behind an `Allow`; `own` are the rights that the policy gives."""
        need &= ~self.mask
        if not need:
            return VouchedAuthority(self.voucher, None)
        if not SIGN_S3_READ_REQUEST & ~self.mask:
            read_from = ()
        return VouchedAuthority(self.voucher, PolicyAuthority(catalog, own, owners, need, read_from))


class VouchedAuthority(msgspec.Struct, frozen=True, gc=False):
    """The voucher behind an `Allow`, and the grants of the policy for what it does not vouch for."""

    voucher: str
    policy: PolicyAuthority | None

    @property
    def rule_id(self) -> str:
        """The voucher and the deciding grants, joined by `+`."""
        if self.policy is None:
            return self.voucher
        return f"{self.voucher}+{self.policy.rule_id}" if self.voucher else self.policy.rule_id


def restricted(table: TableId) -> Deny:
    """Return the refusal of a caller of whom the upstream keeps a part of a table."""
    detail = f"the upstream restricts what the caller may read of {table} (read-restrictions)"
    return Deny(Reason.READ_RESTRICTED, detail, table)
