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

MAX_RULES = 4096
"""Combinations of namespace and grants whose text a principal's rights remember; some 300 bytes each."""


class Rights(msgspec.Struct, frozen=True, gc=False):
    """A principal's catalog roles in one catalog, and what they were granted on the catalog itself."""

    roles: frozenset[int]
    mask: int
    _rules: dict[tuple[int, int, int], tuple[str, tuple[str, ...]]] = msgspec.field(default_factory=dict)
    """What `rules` remembers."""

    def rules(self, catalog: Catalog, table: Table, need: int) -> str:
        """Return the grants that give `need` on a table, joined by `+`, each level only where those above do not.

        Tables of one namespace with equal grants share their text but for the table's own name; namespaces and
        grants live as long as these rights do, so their identities are exact keys.
        """
        key = (id(table.namespace), id(table.grants), need)
        held = self._rules.get(key)
        if held is None:
            if len(self._rules) >= MAX_RULES:
                self._rules.clear()
            held = self._rules[key] = self._name_rules(catalog, table, need)
        above, roles = held
        if not roles:
            return above
        own = "+".join([f"{role}@table:{table.id}" for role in roles])
        return f"{above}+{own}" if above else own

    def _name_rules(self, catalog: Catalog, table: Table, need: int) -> tuple[str, tuple[str, ...]]:
        """Return the text of the levels above the table, and the roles whose grants on the table itself count."""
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


class PolicyAuthority(msgspec.Struct, frozen=True, gc=False):
    """The grants of the policy that stand behind an `Allow`; they are named only when asked for."""

    catalog: Catalog
    rights: Rights
    tables: tuple[Table, ...]
    need: int
    read_from: tuple[Table, ...] = ()
    """The tables that own the source of a copy."""

    @property
    def rule_id(self) -> str:
        """The deciding grants, `role@catalog:…`, `role@namespace:…` or `role@table:…`, joined by `+`."""
        rights, catalog = self.rights, self.catalog
        if len(self.tables) == 1 and not self.read_from:
            return rights.rules(catalog, self.tables[0], self.need)
        rules = [rights.rules(catalog, table, self.need) for table in self.tables]
        rules += [rights.rules(catalog, table, SIGN_S3_READ_REQUEST) for table in self.read_from]
        return "+".join(dict.fromkeys("+".join(rules).split("+")))


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
