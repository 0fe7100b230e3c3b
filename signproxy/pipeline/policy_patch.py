"""Write what is recommended as a patch of the policy, for people to read and for `signproxy policy patch` to show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from signproxy.pipeline.grant_use import Action

PATCH_SCHEMA = "signproxy.policy-patch/1"
LEVEL = "\x1f"

_HEAD = """\
# What could be withdrawn from the policy without taking anything from anybody who used it.
# Nothing applies this by itself:
#     signproxy policy patch --policy POLICY FILE                  shows the difference
#     signproxy policy patch --policy POLICY FILE --output COPY    writes a copy without it
"""


def patch_lines(rows: Iterable[Mapping[str, Any]], policy_rev: str) -> Iterator[str]:
    """Yield the lines of a patch: YAML, an entry a line. `rows` are recommendations."""
    withdrawn: dict[tuple[Any, ...], dict[str, Any]] = {}
    taken = []
    for row in sorted(rows, key=_order):
        if row["action"] == Action.WITHDRAW_GRANT:
            where = tuple(row[name] or "" for name in ("catalog", "via_role", "namespace", "table", "volume"))
            entry = withdrawn.setdefault(where, _withdrawal(row))
            entry["privileges"].append(row["privilege"])
        elif row["action"] == Action.TAKE_ROLE:
            reason = _reason(row)
            taken.append({"principal": row["principal"], "role": row["principal_role"], "reason": reason})
    yield _HEAD
    yield f"schema: {PATCH_SCHEMA}\n"
    yield f"policy_rev: {json.dumps(policy_rev)}\n"
    yield from _list("withdraw", withdrawn.values())
    yield from _list("take", taken)


def write_patch(path: Path, rows: Iterable[Mapping[str, Any]], policy_rev: str) -> None:
    """Write the patch wholly or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text("".join(patch_lines(rows, policy_rev)), encoding="utf-8")
    part.replace(path)


def _withdrawal(row: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"catalog": row["catalog"], "role": row["via_role"]}
    if row["namespace"]:
        entry["namespace"] = row["namespace"].split(LEVEL)
    for name in ("table", "volume"):
        if row[name]:
            entry[name] = row[name]
    return entry | {"privileges": [], "reason": _reason(row)}


def _reason(row: Mapping[str, Any]) -> str:
    last = row["last_used"]
    return f"{row['reason']}; last used {last:%Y-%m-%d}" if last is not None else str(row["reason"])


def _order(row: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("catalog", "resource", "via_role", "principal", "principal_role", "privilege")
    return tuple(row[name] or "" for name in names)


def _list(name: str, entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    lines = [f"  - {json.dumps(entry, ensure_ascii=True)}\n" for entry in entries]
    yield f"{name}:\n" if lines else f"{name}: []\n"
    yield from lines
