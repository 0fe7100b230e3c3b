"""Hold granted against used: which grants are not used, how far each principal reaches, and what could be withdrawn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.findings import count_by
from signproxy.pipeline.grant_use import Action, GrantState, Period, grant_use, recommendations
from signproxy.pipeline.job import JobContext, JobOutcome, options_of
from signproxy.pipeline.places import LEVEL
from signproxy.pipeline.policy_snapshot import Export, exports_of, grants_in, held_grants, read_lines, tables_in
from signproxy.pipeline.reach import blast_radius
from signproxy.pipeline.schemas import DAY
from signproxy.pipeline.uses import bearers, catalogs_with_calls, trail_of, uses
from signproxy.pipeline.warehouse import Warehouse

_STEPS = 5
MAX_PATCH = 100_000
"""Entries of a patch; more than an operator reviews, and as much as the driver holds with ease."""


PATCH_SCHEMA = "signproxy.policy-patch/1"

_HEAD = """\
# What could be withdrawn from the policy without taking a right that was used.
# Nothing applies this by itself:
#     signproxy policy patch --policy POLICY FILE                  shows the difference
#     signproxy policy patch --policy POLICY FILE --output COPY    writes a copy without it
"""


def run(context: JobContext) -> JobOutcome:
    """Enter the newest export, judge its grants by the trail, and write the patch where one was asked for."""
    warehouse, progress = context.warehouse, context.progress
    events = warehouse.read("events", context.days)
    trail = trail_of(events)
    if trail is None:
        raise Invalid([Finding("", "events", "holds no event of these days: nothing can be said of what is used")])
    progress.begin("privileges", _STEPS, "steps")
    newest = _enter(context)
    progress.advance(1)
    options = options_of(context, "privileges")
    period = Period(trail, options["age"], options["observed"])
    used = uses(events, trail.since(period.age)).persist()
    grants = warehouse.read("grants").where(F.col(DAY) == F.lit(newest.day))
    declared = grants.select("principal", "principal_role").where(F.col("principal").isNotNull()).distinct()
    held = held_grants(grants, bearers(events))
    warehouse.replace("grant_use", grant_use(held, used, period, catalogs_with_calls(used)))
    progress.advance(1)
    # Marked is what the policy itself gives to a principal: a role that a token brings is not the policy's to take.
    own = declared.withColumn("declared", F.lit(True))
    judged = warehouse.read("grant_use").join(own, ["principal", "principal_role"], "left").fillna(False, ["declared"])
    warehouse.replace("recommendations", recommendations(judged, period))
    progress.advance(1)
    tables = warehouse.read("policy_tables").where(F.col(DAY) == F.lit(newest.day))
    warehouse.replace("blast_radius", blast_radius(events, used, held, tables, trail))
    progress.advance(1)
    used.unpersist()
    notes = _patch(context, newest)
    progress.advance(1)
    progress.end()
    return _outcome(warehouse, period, notes)


def _enter(context: JobContext) -> Export:
    """Write the newest export's grants and tables under its day, and return it."""
    warehouse = context.warehouse
    lines = read_lines(context.spark, context.inputs)
    exports = exports_of(lines)
    newest = exports[-1]
    since = context.options.get("granted")
    known = warehouse.read("grants").where(F.col(DAY) < F.lit(newest.day))
    last = known.agg(F.max(DAY).alias("day")).first()
    before = known.where(F.col(DAY) == F.lit(last["day"] if last is not None else None))
    part = {DAY: str(newest.day)}
    granted = grants_in(lines, exports, before, date.fromisoformat(since) if since else None)
    warehouse.replace("grants", granted, part)
    warehouse.replace("policy_tables", tables_in(lines, newest), part)
    return newest


def _patch(context: JobContext, newest: Export) -> tuple[str, ...]:
    path = context.options.get("patch")
    if not path:
        return ()
    acting = F.col("action").isin(Action.WITHDRAW_GRANT, Action.TAKE_ROLE)
    rows = context.warehouse.read("recommendations").where(acting).limit(MAX_PATCH).collect()
    write_patch(Path(path), [row.asDict() for row in rows], newest.policy_rev)
    return (f"{path}: {len(rows):,} withdrawals proposed; `signproxy policy patch` shows what they change",)


def _outcome(warehouse: Warehouse, period: Period, notes: tuple[str, ...]) -> JobOutcome:
    states = count_by(warehouse.read("grant_use"), "state")
    widest = (
        warehouse.read("blast_radius")
        .agg(F.max("n_root").alias("root"), F.max("entitled").alias("entitled"), F.max("held_max").alias("held"))
        .first()
    )
    root, held = (widest["root"] or 0, widest["held"] or 0) if widest is not None else (0, 0)
    told = [
        f"{states.get(state, 0):,} grants {state}"
        for state in (GrantState.USED, GrantState.UNUSED, GrantState.TOO_YOUNG)
    ]
    if states.get(GrantState.NOT_OBSERVED):
        told.append(f"{states[GrantState.NOT_OBSERVED]:,} whose use would leave no trace")
    if held:
        told.append(f"{root:,} tables, at most {held:,} open at once to any principal ({root / held:,.0f} times fewer)")
    if not period.suffices:
        days = round(period.trail.days + 0.5)
        told.append(f"the trail is of {days} days: nothing is recommended before it is of {period.age} (--observed)")
    total = sum(states.values())
    return JobOutcome(
        total, total, 0, notes=(*told, *notes), numbers={f"grants_{state}": count for state, count in states.items()}
    )


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
