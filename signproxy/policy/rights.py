"""Add up what a principal's roles were granted on a table and above it, and what others vouch for beside that."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from signproxy.errors import Reason
from signproxy.model import NAMESPACE_SEPARATOR, Deny, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.privileges import Privilege
from signproxy.policy.table import Grants, Table

REMOTE_SIGN = int(Privilege.TABLE_REMOTE_SIGN)
READ_DATA = int(Privilege.TABLE_READ_DATA)
WRITE_DATA = int(Privilege.TABLE_WRITE_DATA)
FULL_METADATA = int(Privilege.TABLE_FULL_METADATA)

SIGN_S3_READ_REQUEST = REMOTE_SIGN | READ_DATA
SIGN_S3_WRITE_REQUEST = REMOTE_SIGN | WRITE_DATA

MAX_AUTHORITIES = 4096
"""Combinations of namespace, grants and need whose authority a principal's rights remember; some 300 bytes each."""

_AuthorityKey = tuple[int, int, int] | tuple[int, int, int, TableId]


class PolicyAuthority(msgspec.Struct, frozen=True, gc=False):
    """The grants of the policy that stand behind an `Allow`."""

    rule_id: str
    """The deciding grants, `role@catalog:…`, `role@namespace:…` or `role@table:…`, joined by `+`."""


class Rights(msgspec.Struct, frozen=True, gc=False):
    """A principal's catalog roles in one catalog, and what they were granted on the catalog itself."""

    roles: frozenset[int]
    mask: int
    authorities: dict[_AuthorityKey, PolicyAuthority] = msgspec.field(default_factory=dict)
    """What `authority` returned, by the identities of namespace and grants, which live as long as these rights do, and
    by what is needed. Where a grant on the table itself counts, by the table's name besides."""
    _rules: dict[tuple[int, int, int], tuple[str, tuple[str, ...]]] = msgspec.field(default_factory=dict)
    """What such tables share: the text of the levels above them, and the roles whose grants on the table count."""

    def authority(self, catalog: Catalog, table: Table, need: int) -> PolicyAuthority:
        """Return the grants that give `need` on a table, each level only where those above do not."""
        key = (id(table.namespace), id(table.grants), need)
        held = self.authorities.get(key) or self.authorities.get((*key, table.id))
        if held is not None:
            return held
        for remembered in (self.authorities, self._rules):
            if len(remembered) >= MAX_AUTHORITIES:
                remembered.clear()
        rules = self._rules.get(key)
        if rules is None:
            rules = self._rules[key] = self._rules_of(catalog, table, need)
        above, roles = rules
        if not roles:
            held = self.authorities[key] = PolicyAuthority(above)
            return held
        own = "+".join([f"{role}@table:{table.id}" for role in roles])
        held = self.authorities[(*key, table.id)] = PolicyAuthority(f"{above}+{own}" if above else own)
        return held

    def _rules_of(self, catalog: Catalog, table: Table, need: int) -> tuple[str, tuple[str, ...]]:
        above: dict[str, None] = {}
        own: dict[str, None] = {}
        for ground in grounds(catalog, table, self.roles):
            if ground.mask & need:
                need &= ~ground.mask
                if ground.securable.startswith("table:"):
                    own[ground.role] = None
                else:
                    above[ground.rule_id] = None
        return "+".join(above), tuple(own)


NO_RIGHTS = Rights(frozenset(), 0)
"""Of a principal that the policy does not know, where another party vouches for it."""


def granted(grants: Grants, roles: frozenset[int]) -> int:
    """Return the mask that these grants give to a holder of the roles."""
    mask = 0
    # The shorter side is walked: a namespace may have hundreds of grants, a service principal hundreds of roles.
    if len(grants) <= len(roles):
        for role, given in grants.items():
            if role in roles:
                mask |= given
    else:
        for role in roles:
            mask |= grants.get(role, 0)
    return mask


def mask_on(rights: Rights, table: Table) -> int:
    """Return everything that the holder may do on a table."""
    return rights.mask | granted(table.grants, rights.roles)


class ReachingGrant(msgspec.Struct, frozen=True, gc=False):
    """One grant that reaches a table: which role, on which securable, and the mask that it gives."""

    role: str
    securable: str
    mask: int

    @property
    def rule_id(self) -> str:
        return f"{self.role}@{self.securable}"


def grounds(catalog: Catalog, table: Table, roles: frozenset[int] | None = None) -> Iterator[ReachingGrant]:
    """Yield the grants to these roles (all roles where None) that reach a table, from the catalog downwards."""
    for securable, grants in _levels(catalog, table):
        for role, mask in sorted(grants.items()):
            if roles is None or role in roles:
                yield ReachingGrant(catalog.roles.get(role, str(role)), securable, mask)


def authority_of(
    catalog: Catalog, rights: Rights, tables: tuple[Table, ...], need: int, read_from: tuple[Table, ...] = ()
) -> PolicyAuthority:
    """Return the grants that give `need` on tables, and let those be read that own the source of a copy."""
    if len(tables) == 1 and not read_from:
        return rights.authority(catalog, tables[0], need)
    given = [rights.authority(catalog, table, need) for table in tables]
    given += [rights.authority(catalog, table, SIGN_S3_READ_REQUEST) for table in read_from]
    return PolicyAuthority("+".join(dict.fromkeys("+".join([each.rule_id for each in given]).split("+"))))


def _levels(catalog: Catalog, table: Table) -> Iterator[tuple[str, Grants]]:
    yield f"catalog:{catalog.name}", catalog.grants
    chain = [table.namespace]
    while (parent := chain[-1].parent) is not None:
        chain.append(parent)
    for namespace in reversed(chain):
        levels = namespace.name.split(NAMESPACE_SEPARATOR)
        yield f"namespace:{'.'.join((catalog.name, *levels))}", namespace.own
    above = table.namespace.grants
    # What the namespaces give already is not the table's grant.
    added = {role: mask & ~above.get(role, 0) for role, mask in table.grants.items()}
    yield f"table:{table.id}", {role: mask for role, mask in added.items() if mask}


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
    ) -> PolicyAuthority:
        """Return who stands behind an `Allow`: the voucher, and the grants for what it does not vouch for.

        `own` are the rights that the policy gives.
        """
        need &= ~self.mask
        if not need:
            return PolicyAuthority(self.voucher)
        if not SIGN_S3_READ_REQUEST & ~self.mask:
            read_from = ()
        granted = authority_of(catalog, own, owners, need, read_from)
        return PolicyAuthority(f"{self.voucher}+{granted.rule_id}") if self.voucher else granted


def restricted(table: TableId) -> Deny:
    """Return the refusal of a caller of whom the upstream keeps a part of a table."""
    detail = f"the upstream restricts what the caller may read of {table} (read-restrictions)"
    return Deny(Reason.READ_RESTRICTED, detail, table)
