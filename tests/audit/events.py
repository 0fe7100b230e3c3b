"""Make audit events for tests."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from signproxy.audit.encode import LineEncoder
from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.ids import new_event_id


def an_event(**changes: object) -> AuditEvent:
    """Return an event of a signed read, changed as told."""
    event = AuditEvent(
        event_id=new_event_id(),
        kind=Kind.SIGN,
        principal="idp/alice",
        remote_ip="127.0.0.1",
        user_agent="Apache Iceberg/1.12",
        catalog="prod",
        namespace="sales",
        table="orders",
        bucket="lake",
        key="sales/orders/data/part-0.parquet",
        method="GET",
        s3_op="GetObject",
        access="read",
        decision=Verdict.ALLOW,
        reason="allowed",
        policy_rev="5f2c",
        http_status=200,
    )
    return msgspec.structs.replace(event, **changes)


def refusal(reason: str = "token_missing") -> AuditEvent:
    """Return an event of a request whose caller is not known."""
    return AuditEvent(
        event_id=new_event_id(),
        kind=Kind.SIGN,
        decision=Verdict.DENY,
        reason=reason,
        policy_rev="5f2c",
        http_status=401,
    )


def decoded(lines: bytes) -> list[AuditEvent]:
    """Return the events of whole JSON lines; fail if a line is none."""
    assert not lines or lines.endswith(b"\n")
    return [msgspec.json.decode(line, type=AuditEvent) for line in lines.splitlines()]


def encoded(boot_id: str, events: Iterable[tuple[int, float, AuditEvent]]) -> bytes:
    """Return the lines of events with their numbers and times, as the trail writes them."""
    encoder = LineEncoder(boot_id)
    return b"".join([encoder.line(*event) + b"\n" for event in events])
