"""Plant rights: unused and too young ones, too many of them, and withdrawn ones that go on to work."""

from __future__ import annotations

from typing import Any

import msgspec

from signproxy.audit.event import AuditEvent
from tools.sample_data.clock import UTC
from tools.sample_data.rows import Row
from tools.sample_data.stage import DAY, Revoked, Stage, on_namespace, on_table
from tools.sample_data.world import AWS, CATALOG, Principal, Table

RELOAD_SECONDS = 2
"""From the change of the policy to its being in force."""


def play(stage: Stage) -> None:
    """Play all scenes once."""
    unused(stage)
    entitled(stage)
    for way in ("sign", "forward", "vend"):
        in_time(stage, way)
        too_late(stage, way)
    granted_again(stage)


def unused(stage: Stage) -> None:
    """One principal with grants of every age."""
    person = stage.person("svc-dashboard")
    used, never, young, once = (stage.table(AWS) for _ in range(4))
    stage.grant(person, on_table(used))
    for day in range(1, stage.world.days, 3):
        at = stage.world.first + day * DAY + 36_000.25
        stage.row(person, used, at + 1, stage.event(person, used, at))
    for class_, table, age, state in (
        ("unused_grant", never, 200.0, "unused"),
        ("too_young_grant", young, 10.0, "too_young"),
    ):
        for grant in stage.grant(person, on_table(table), age=age):
            stage.fault(
                class_,
                "no principal used it",
                person=person,
                table=table,
                privilege=grant.privilege,
                securable=grant.securable,
                via_role=grant.via_role,
                granted_at=UTC.text(grant.granted_at),
                state=state,
            )
    fresh = stage.table(AWS)
    at = stage.world.end - 5 * DAY + 0.5
    event = stage.event(person, fresh, at)
    row = stage.row(person, fresh, at + 1, event)
    for grant in stage.grant(person, on_table(fresh), age=10):
        told: dict[str, Any] = {
            "privilege": grant.privilege,
            "securable": grant.securable,
            "via_role": grant.via_role,
            "state": "used",
        }
        stage.near("too_young_grant", "young, and used", person=person, table=fresh, events=[event], rows=[row], **told)
    at = stage.world.first + 4000.5
    event = stage.event(person, once, at)
    row = stage.row(person, once, at + 1, event)
    for grant in stage.grant(person, on_table(once)):
        stage.near(
            "unused_grant",
            "used once, on the first day",
            person=person,
            table=once,
            events=[event],
            rows=[row],
            privilege=grant.privilege,
            securable=grant.securable,
            via_role=grant.via_role,
            state="used",
        )


def entitled(stage: Stage) -> None:
    """The 10,000 of which 4 are used, and the 4 of which all are."""
    tables = [stage.table(AWS) for _ in range(4)]
    wide, narrow = stage.person("svc-pricing"), stage.person("svc-ranking")
    stage.grant(wide, f"catalog:{CATALOG}")
    stage.grant(narrow, *map(on_table, tables))
    for person in (wide, narrow):
        for number, table in enumerate(tables):
            at = stage.world.first + stage.world.days * DAY * 0.5 + number * 100 + 0.5
            stage.row(person, table, at + 1, stage.event(person, table, at))
    what = "entitled to every table of the catalog, and uses four"
    stage.fault("over_entitlement", what, person=wide, entitled=len(stage.world.tables), used=len(tables))
    what = "entitled to four tables, and uses them all"
    stage.near("over_entitlement", what, person=narrow, entitled=len(tables), used=len(tables))


def _withdrawn(stage: Stage, way: str) -> tuple[Principal, Table, int]:
    """Return a principal that used a table for weeks, the table, and when its grants were withdrawn."""
    person, table = stage.person("svc-export", way), stage.table(AWS)
    grants = stage.grant(person, on_namespace(table))
    at = int(stage.moment(0.6, 0.8))
    for day in range(1, stage.world.days // 2, 4):
        _use(stage, person, table, stage.world.first + day * DAY + 30_000.125, 1)
    for grant in grants:
        stage.grants.remove(grant)
        stage.revoked.append(Revoked(grant, at))
    for minutes in (31, 32, 45):
        stage.denied(person, table, at + 60 * minutes)
    return person, table, at


def _use(
    stage: Stage, person: Principal, table: Table, at: float, after: float, **changes: Any
) -> tuple[AuditEvent, Row]:
    """Ask signproxy, and use what it gives some seconds later."""
    if person.way == "forward":
        return stage.forwarded(person, table, at, **changes)
    if person.way == "vend":
        event, rows = stage.vended(person, table, at, [at + after], **changes)
        return event, rows[0]
    event = stage.event(person, table, at, **changes)
    return event, stage.row(person, table, at + after, event)


def in_time(stage: Stage, way: str) -> None:
    """What was given before the revoke works until it ends, which is known and bounded."""
    person, table, at = _withdrawn(stage, way)
    # As early as to lie before the new policy, as late as to be used after it.
    asked = at + 1 if way == "forward" else at - 30
    event, row = _use(stage, person, table, asked, {"sign": 430, "vend": 2430, "forward": 0}[way])
    what = "given before the policy changed, and used within its life"
    told: dict[str, Any] = {"person": person, "table": table, "events": [event], "rows": [row]}
    stage.near("late_after_revoke", what, **told)
    _latency(stage, way, at, row, what, told)


def too_late(stage: Stage, way: str) -> None:
    """A process that never heard of the revoke goes on to allow."""
    person, table, at = _withdrawn(stage, way)
    after = {"sign": 1, "vend": 3000, "forward": 0}[way]
    event, row = _use(stage, person, table, at + 1800, after, policy_epoch=1, policy_rev="stale")
    what = "allowed half an hour after the revoke, by a policy of before"
    told: dict[str, Any] = {"person": person, "table": table, "events": [event], "rows": [row]}
    stage.fault("late_after_revoke", what, **told)
    _latency(stage, way, at, row, what, told)


def granted_again(stage: Stage) -> None:
    """A principal gets back what was taken from it by mistake."""
    person, table, at = _withdrawn(stage, "sign")
    again = stage.grant(person, on_namespace(table))
    for grant in again:
        stage.grants.remove(grant)
        stage.grants.append(msgspec.structs.replace(grant, granted_at=at + 7200))
    stage.given_back.append(at + 7200)
    event, row = _use(stage, person, table, at + 10_800, 1)
    what = "granted again an hour before"
    told: dict[str, Any] = {"person": person, "table": table, "events": [event], "rows": [row]}
    stage.near("late_after_revoke", what, **told)
    stage.near(
        "revocation_latency",
        what,
        **told,
        way="sign",
        securable=on_namespace(table),
        revoked_at=UTC.text(at),
        seconds=0,
    )


def _latency(stage: Stage, way: str, at: int, row: Row, what: str, told: dict[str, Any]) -> None:
    seconds = max(0, int(row.at) - at)
    expect: dict[str, Any] = {
        "way": way,
        "securable": on_namespace(told["table"]),
        "revoked_at": UTC.text(at),
        "last_success": UTC.text(row.at),
        "seconds": seconds,
    }
    stage.fault("revocation_latency", what, **told, **expect)
    stage.revocations.append({"principal": told["person"].name, **expect, "n": 1})
