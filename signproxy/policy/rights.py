"""Add up what a principal's roles were granted on a table and above it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from signproxy.model import NAMESPACE_SEPARATOR
from signproxy.policy.catalog import Catalog
from signproxy.policy.privileges import Privilege
from signproxy.policy.table import Grants, Table

REMOTE_SIGN = int(Privilege.TABLE_REMOTE_SIGN)
READ_DATA = int(Privilege.TABLE_READ_DATA)
WRITE_DATA = int(Privilege.TABLE_WRITE_DATA)
FULL_METADATA = int(Privilege.TABLE_FULL_METADATA)

SIGN_S3_READ_REQUEST = REMOTE_SIGN | READ_DATA
SIGN_S3_WRITE_REQUEST = REMOTE_SIGN | WRITE_DATA


class Rights(msgspec.Struct, frozen=True, gc=False):
    """A principal's catalog roles in one catalog, and what they were granted on the catalog itself."""

    roles: frozenset[int]
    mask: int


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


class Ground(msgspec.Struct, frozen=True, gc=False):
    """One grant that reaches a table: which role, on which securable, and the mask that it gives."""

    role: str
    securable: str
    mask: int

    @property
    def rule_id(self) -> str:
        return f"{self.role}@{self.securable}"


def grounds(catalog: Catalog, table: Table, roles: frozenset[int] | None = None) -> Iterator[Ground]:
    """Yield the grants to these roles (all roles where None) that reach a table, from the catalog downwards."""
    for securable, grants in _levels(catalog, table):
        for role, mask in sorted(grants.items()):
            if roles is None or role in roles:
                yield Ground(catalog.roles.get(role, str(role)), securable, mask)


class PolicyAuthority(msgspec.Struct, frozen=True, gc=False):
    """The grants of the policy that stand behind an `Allow`; they are named only when somebody asks."""

    catalog: Catalog
    rights: Rights
    tables: tuple[Table, ...]
    need: int
    read_from: tuple[Table, ...] = ()
    """The tables that own the source of a copy."""

    @property
    def rule_id(self) -> str:
        """The deciding grants, `role@catalog:…`, `role@namespace:…` or `role@table:…`, joined by `+`."""
        rules: dict[str, None] = {}
        needed = [(table, self.need) for table in self.tables]
        needed += [(table, SIGN_S3_READ_REQUEST) for table in self.read_from]
        for table, need in needed:
            lacking = need
            for ground in grounds(self.catalog, table, self.rights.roles):
                if ground.mask & lacking:
                    rules[ground.rule_id] = None
                    lacking &= ~ground.mask
        return "+".join(rules)


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
