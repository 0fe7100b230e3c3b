"""Plant what the stores' logs prove against the audit trail, and what only looks like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from signproxy.audit.event import Verdict
from tools.sample_data.rows import encoded, stamp
from tools.sample_data.stage import Stage, on_namespace
from tools.sample_data.world import (
    CATALOG_ROLE,
    FILE,
    REPLICATION_ROLE,
    STRANGER,
    STRANGER_KEY,
    TRAIL,
    WEBHOOK,
    Bucket,
    Principal,
    Table,
)

Scene = Callable[[Stage, Bucket], None]

_EITHER = "stamp|unattributed"
"""A stamp that contradicts its event may be believed for the class, or not."""


def _cast(stage: Stage, bucket: Bucket, way: str = "sign", *, loopback: bool = False) -> tuple[Principal, Table, float]:
    person = stage.person("svc-report", way, loopback=loopback)
    table = stage.table(bucket)
    stage.grant(person, on_namespace(table), writes=True)
    return person, table, stage.moment()


def denied_but_served(stage: Stage, bucket: Bucket) -> None:
    """Refused, and served all the same; and twice where it only looks like that."""
    person, table, at = _cast(stage, bucket)
    event = stage.denied(person, table, at)
    row = stage.row(person, table, at + 2, event, class_=_EITHER)
    what = "the request was refused, and the store served one with its event's id"
    stage.fault("denied_but_served", what, person=person, table=table, events=[event], rows=[row])
    event = stage.denied(person, table, at + 300)
    row = stage.row(person, table, at + 302, event, status=403, error="SignatureDoesNotMatch", sent=0, class_=_EITHER)
    what = "the store refused what bears the refused request's id"
    stage.near("denied_but_served", what, person=person, table=table, events=[event], rows=[row])
    refused = stage.denied(person, table, at + 600)
    allowed = stage.event(person, table, at + 640, key=refused.key)
    row = stage.row(person, table, at + 641, allowed)
    what = "the same object was refused first and then allowed, under another id"
    stage.near("denied_but_served", what, person=person, table=table, events=[refused, allowed], rows=[row])


def proxy_key_without_stamp(stage: Stage, bucket: Bucket) -> None:
    """Signproxy's key, without signproxy; and with it, as forwarded requests are."""
    person, table, at = _cast(stage, bucket)
    row = stage.row(person, table, at)
    what = "signproxy's key was used, and nothing of signproxy's is in the request"
    stage.fault("proxy_key_without_stamp", what, person=None, table=table, rows=[row], also=("unattributed",))
    person, table, at = _cast(stage, bucket, "forward")
    told: dict[str, Any] = {"person": person, "table": table}
    event, row = stage.forwarded(person, table, at, stamped=False)
    what = "forwarded without a stamp, as once all were; the event knows the store's id of it"
    stage.near("proxy_key_without_stamp", what, **told, events=[event], rows=[row])
    event, row = stage.lost(person, table, at + 300, stamped=True)
    what = "forwarded with a stamp; the answer came too late, so the event knows no id of the store's"
    stage.near("proxy_key_without_stamp", what, **told, events=[event], rows=[row])
    event, row = stage.lost(person, table, at + 600, stamped=False)
    what = "forwarded without a stamp, and the answer came too late; the event is for the same object at that time"
    stage.near("proxy_key_without_stamp", what, **told, events=[event], rows=[row])


def claimed_key(stage: Stage, bucket: Bucket) -> None:
    """Versitygw logs the key that was claimed, also of a request whose signature it refused."""
    person, table, at = _cast(stage, bucket)
    row = stage.row(person, table, at, status=403, error="SignatureDoesNotMatch", sent=0, remote_ip="10.200.3.9")
    what = "the store refused the signature and logs the key that was claimed: no caller proved to have it"
    stage.near("proxy_key_without_stamp", what, table=table, rows=[row])


def without_stamp_in_log(stage: Stage, _bucket: Bucket) -> None:
    """CloudTrail does not show the query."""
    person, table, at = _cast(stage, TRAIL)
    event = stage.event(person, table, at)
    row = stage.row(person, table, at + 1, event)
    what = "this log never shows stamps; bucket, key, method and address are those of an event a second before"
    stage.near("proxy_key_without_stamp", what, person=person, table=table, events=[event], rows=[row])


def unknown_stamp(stage: Stage, bucket: Bucket) -> None:
    """A stamp that was never given; and one of the day before."""
    person, table, at = _cast(stage, bucket)
    row = stage.row(person, table, at, query=stamp(stage.unknown_id(at)))
    what = "the stamp is of no event"
    also = ("proxy_key_without_stamp", "unattributed")
    stage.fault("unknown_stamp", what, table=table, rows=[row], also=also)
    midnight = stage.world.first + 86_400 * round(stage.world.days / 2)
    event = stage.event(person, table, midnight - 3)
    row = stage.row(person, table, midnight + 8, event)
    what = "the event is of the day before"
    stage.near("unknown_stamp", what, person=person, table=table, events=[event], rows=[row])


def stamp_key_mismatch(stage: Stage, bucket: Bucket) -> None:
    """A stamp of another object; and the same object, written otherwise."""
    person, table, at = _cast(stage, bucket)
    event = stage.event(person, table, at)
    row = stage.row(person, table, at + 1, event, key=stage.key(stage.table(bucket)), class_=_EITHER)
    what = "the stamp was given for another object"
    stage.fault("stamp_key_mismatch", what, person=person, table=table, events=[event], rows=[row])
    if bucket is not FILE:
        # Its keys are not quoted: a space ends the column, which is a trap of its own.
        key = f"{table.location}/data/region=São Paulo/a+b %41=1-00001.parquet"
        event = stage.event(person, table, at + 60, key=key)
        row = stage.row(person, table, at + 61, event)
        what = "the key is written with escapes in the log, and decoded in the event"
        stage.near("stamp_key_mismatch", what, person=person, table=table, events=[event], rows=[row])


def stamp_method_mismatch(stage: Stage, bucket: Bucket) -> None:
    """A stamp of another method; and one of HEAD."""
    person, table, at = _cast(stage, bucket)
    event = stage.event(person, table, at)
    row = stage.row(person, table, at + 1, event, method="PUT", s3_op="PutObject", sent=0, class_=_EITHER)
    what = "signed for GET, served as PUT"
    stage.fault("stamp_method_mismatch", what, person=person, table=table, events=[event], rows=[row])
    event = stage.event(person, table, at + 60, "HeadObject")
    row = stage.row(person, table, at + 61, event, sent=0)
    what = "HEAD is what was signed"
    stage.near("stamp_method_mismatch", what, person=person, table=table, events=[event], rows=[row])


def replay(stage: Stage, bucket: Bucket) -> None:
    """A signature used too often or too long, in each way; and as often as is right."""
    person, table, at = _cast(stage, bucket)
    told: dict[str, Any] = {"person": person, "table": table}
    event = stage.event(person, table, at)
    rows = [stage.row(person, table, at + 1, event), stage.row(person, table, at + 9, event)]
    stage.fault("replay", "used twice, and not cacheable", **told, events=[event], rows=rows)
    event = stage.event(person, table, at + 60)
    rows = [stage.row(person, table, at + 60 + 1900, event)]
    stage.fault("replay", "used half an hour after it was signed", **told, events=[event], rows=rows)
    event = stage.event(person, table, at + 120, cacheable=True)
    rows = [stage.row(person, table, at + 121, event), stage.row(person, table, at + 121 + 300, event)]
    stage.fault("replay", "cacheable, and used again after five minutes", **told, events=[event], rows=rows)
    event = stage.event(person, table, at + 180, cacheable=True)
    rows = [stage.row(person, table, at + 181, event), stage.row(person, table, at + 201, event)]
    stage.near("replay", "cacheable, and used again after twenty seconds", **told, events=[event], rows=rows)
    event = stage.event(person, table, at + 240)
    rows = [stage.row(person, table, at + 240 + 840, event)]
    stage.near("replay", "used once, a minute before the signature ended", **told, events=[event], rows=rows)
    event = stage.event(person, table, at + 300)
    rows = [
        stage.row(person, table, at + 301, event, status=503, error="SlowDown", sent=0),
        stage.row(person, table, at + 303, event),
    ]
    stage.near("replay", "repeated because the store answered 503", **told, events=[event], rows=rows)
    stage.fault("signature_retried", "repeated because the store answered 503", **told, events=[event], rows=rows)


def signature_retried(stage: Stage, bucket: Bucket) -> None:
    """A signature used again by a client that got no whole answer; and by a client that has no such reason."""
    person, table, at = _cast(stage, bucket)
    told: dict[str, Any] = {"person": person, "table": table}
    event = stage.event(person, table, at)
    rows = [
        stage.row(person, table, at + 1, event, status=404, error="NoSuchKey", sent=300),
        stage.row(person, table, at + 3, event),
    ]
    what = "the object was not there yet"
    stage.fault("signature_retried", what, **told, events=[event], rows=rows)
    stage.near("replay", what, **told, events=[event], rows=rows)
    event = stage.event(person, table, at + 60)
    rows = [stage.row(person, table, at + 61, event), stage.row(person, table, at + 63, event)]
    what = "used again by the same client, which had the whole object"
    stage.fault("replay", what, **told, events=[event], rows=rows)
    stage.near("signature_retried", what, **told, events=[event], rows=rows)
    if bucket in (WEBHOOK, FILE):
        # versitygw does not log how much of an object it sent.
        return
    cut: dict[str, Any] = {"sent": 300_000}
    event = stage.event(person, table, at + 120)
    rows = [stage.row(person, table, at + 121, event, **cut), stage.row(person, table, at + 123, event)]
    what = "the first answer was cut off"
    stage.fault("signature_retried", what, **told, events=[event], rows=rows)
    stage.near("replay", what, **told, events=[event], rows=rows)
    event = stage.event(person, table, at + 180)
    rows = [
        stage.row(person, table, at + 181, event, **cut),
        stage.row(person, table, at + 183, event, remote_ip="203.0.113.77"),
    ]
    what = "the first answer was cut off, and another client used the signature"
    stage.fault("replay", what, **told, events=[event], rows=rows)
    stage.fault("ip_mismatch", what, **told, events=[event], rows=rows[1:])
    stage.near("signature_retried", what, **told, events=[event], rows=rows)


def ip_mismatch(stage: Stage, bucket: Bucket) -> None:
    """A signature used by another address; and by a pod that a sidecar sees as loopback."""
    person, table, at = _cast(stage, bucket)
    event = stage.event(person, table, at)
    row = stage.row(person, table, at + 1, event, remote_ip="203.0.113.77")
    what = "another address used the signature than the one that it was given to"
    stage.fault("ip_mismatch", what, person=person, table=table, events=[event], rows=[row])
    person, table, at = _cast(stage, bucket, loopback=True)
    event = stage.event(person, table, at)
    row = stage.row(person, table, at + 1, event)
    what = "a sidecar sees loopback, where the store sees the pod"
    stage.near("ip_mismatch", what, person=person, table=table, events=[event], rows=[row])


def allowed_but_s3_denied(stage: Stage, bucket: Bucket) -> None:
    """Allowed and refused by the store; and what only was not there."""
    person, table, at = _cast(stage, bucket)
    event = stage.event(person, table, at)
    row = stage.row(person, table, at + 1, event, status=403, error="AccessDenied", sent=0)
    what = "signproxy allowed what the store refuses: its role lacks the right"
    stage.fault("allowed_but_s3_denied", what, person=person, table=table, events=[event], rows=[row])
    event = stage.event(person, table, at + 60)
    row = stage.row(person, table, at + 61, event, status=404, error="NoSuchKey", sent=300)
    what = "the object is not there, which is no refusal"
    stage.near("allowed_but_s3_denied", what, person=person, table=table, events=[event], rows=[row])
    event = stage.event(person, table, at + 120, decision=Verdict.DENY, reason="no_read_data", http_status=403)
    what = "signproxy refused it, and nothing reached the store"
    stage.near("allowed_but_s3_denied", what, person=person, table=table, events=[event], times=(at + 120, at + 120))


def unattributed(stage: Stage, bucket: Bucket) -> None:
    """Another party's key; and services that are known."""
    person, table, at = _cast(stage, bucket)
    stranger: dict[str, Any] = {"requester": STRANGER if bucket.is_aws else STRANGER_KEY, "access_key": STRANGER_KEY}
    row = stage.row(person, table, at, **stranger)
    stage.fault("unattributed", "another party's key reads a table", table=table, rows=[row])
    if bucket.is_aws:
        for requester, what in (
            (CATALOG_ROLE, "the catalog reads its own metadata"),
            (REPLICATION_ROLE, "the lake is replicated"),
        ):
            known: dict[str, Any] = {
                "requester": requester,
                "access_key": "ASIAQ3EGUHT7SERVICE1",
                "class_": "known_service",
            }
            row = stage.row(person, table, at + 60, remote_ip="10.0.0.9", **known)
            stage.near("unattributed", what, table=table, rows=[row])


def several_rows(stage: Stage, bucket: Bucket) -> None:
    """A bulk delete and a copy leave several rows with one stamp at AWS; plain ones elsewhere."""
    if bucket.source != "aws":
        return
    person, table, at = _cast(stage, bucket)
    event = stage.event(person, table, at, "DeleteObjects", key_count=3)
    row = stage.row(person, table, at + 1, event, key="", query=f"delete=&{stamp(event.event_id)}")
    for class_ in ("stamp_key_mismatch", "stamp_method_mismatch", "replay"):
        what = "a bulk delete: one row of the request, and one for each of its keys"
        stage.near(class_, what, person=person, table=table, events=[event], rows=[row])
    event = stage.event(person, table, at + 60, "CopyObject")
    row = stage.row(person, table, at + 61, event)
    for class_ in ("stamp_key_mismatch", "stamp_method_mismatch", "replay"):
        what = "a copy: one row of the target, and one of the source"
        stage.near(class_, what, person=person, table=table, events=[event], rows=[row])


def vended_use(stage: Stage, bucket: Bucket) -> None:
    """Vended keys, used twice in their life."""
    if not bucket.has_sessions:
        return
    person, table, at = _cast(stage, bucket, "vend")
    event, rows = stage.vended(person, table, at, [at + 5, at + 1800])
    what = "vended keys bear no stamp; their session ends with the event's id"
    stage.near("unattributed", what, person=person, table=table, events=[event], rows=rows)


STAMPED_SCENES: tuple[Scene, ...] = (
    denied_but_served,
    proxy_key_without_stamp,
    unknown_stamp,
    stamp_key_mismatch,
    stamp_method_mismatch,
    replay,
    signature_retried,
    ip_mismatch,
    allowed_but_s3_denied,
    unattributed,
    several_rows,
    vended_use,
)
"""Scenes for each bucket whose log shows the stamp."""


def play(stage: Stage, buckets: tuple[Bucket, ...]) -> None:
    """Play each scene at each bucket."""
    for bucket in buckets:
        for scene in STAMPED_SCENES if bucket.stamped else (unattributed, vended_use, without_stamp_in_log):
            scene(stage, bucket)
        if bucket in (WEBHOOK, FILE):
            claimed_key(stage, bucket)


def source_path(table: Table) -> str:
    """Return the path that a copy of a scene reads, as its second row has it."""
    return encoded(f"{table.location}/data/event_day=2026-09-29/source-00001.parquet")
