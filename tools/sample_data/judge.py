"""Say what a perfect pipeline finds about rights: which grants are in use, and how much of what is held is used."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.sample_data.clock import ISO, UTC
from tools.sample_data.recorder import Seen
from tools.sample_data.truth import write_lines
from tools.sample_data.world import CATALOG, READ, SIGN, WRITE, Grant, World

AGE = 90 * 86_400
"""A grant that is younger and unused is too young to be called so."""

_Uses = dict[tuple[str, str], set[str]]
"""Principal and privilege -> the places where it was needed: tables, their namespaces, the catalog."""


def grants_of(world: World, grants: Iterable[Grant], seen: Seen) -> list[dict[str, Any]]:
    """Return each grant with its state."""
    uses = _uses(seen)
    rows = []
    for grant in grants:
        used = grant.securable in uses.get((grant.principal, grant.privilege), ())
        read = grant.securable in uses.get((grant.principal, READ), ())
        young = grant.granted_at > world.end - AGE
        rows.append(
            {
                "principal": grant.principal,
                "via_role": grant.via_role,
                "privilege": grant.privilege,
                "securable": grant.securable,
                "granted_at": UTC.text(grant.granted_at),
                "state": "used" if used else "too_young" if young else "unused",
                "ambiguous": grant.privilege == WRITE and not used and read,
            }
        )
    return rows


def principals_of(world: World, grants: Iterable[Grant], seen: Seen) -> list[dict[str, Any]]:
    """Return how many tables each principal may read or write, and how many it did."""
    below: dict[str, set[int]] = {f"catalog:{CATALOG}": set(range(len(world.tables)))}
    for table in world.tables:
        below.setdefault(f"namespace:{CATALOG}.{table.namespace}", set()).add(table.number)
        below[f"table:{table.text}"] = {table.number}
    entitled: dict[str, set[int]] = {}
    for grant in grants:
        if grant.privilege in (READ, WRITE):
            entitled.setdefault(grant.principal, set()).update(below[grant.securable])
    used: dict[str, set[tuple[str, str]]] = {}
    for effective, _, namespace, table_name, _ in seen.used:
        used.setdefault(effective, set()).add((namespace, table_name))
    return [
        {"principal": name, "entitled": len(entitled.get(name, ())), "used": len(used.get(name, ()))}
        for name in sorted(entitled.keys() | used.keys())
    ]


def write_first_seen(path: Path, seen: Seen) -> None:
    """Write when each principal first touched each table, by access."""
    rows = [
        {
            "principal": principal,
            "effective_principal": effective,
            "catalog": CATALOG,
            "namespace": namespace,
            "table": table,
            "access": access,
            "first_ts": f"{ISO.text(at)}.{int((at - int(at)) * 1_000_000):06d}Z",
        }
        for (principal, effective, namespace, table, access), at in sorted(seen.first.items())
    ]
    write_lines(path, rows)


def _uses(seen: Seen) -> _Uses:
    uses: _Uses = {}
    for effective, _, namespace, table, access in seen.used:
        for privilege in (WRITE if access in ("write", "delete") else READ, SIGN):
            uses.setdefault((effective, privilege), set()).update(
                (f"catalog:{CATALOG}", f"namespace:{CATALOG}.{namespace}", f"table:{CATALOG}.{namespace}.{table}")
            )
    return uses
