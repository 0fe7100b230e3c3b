"""Say in words what each class of finding means, and give the query that shows its rows again.

The queries are plain SQL that Spark and DuckDB both run. Nothing but days stands in them: a name could carry a quote.
"""

from __future__ import annotations

from datetime import date

import msgspec

from signproxy.pipeline.report.data import FindingGroup


class Meaning(msgspec.Struct, frozen=True):
    """What a class of finding is about."""

    title: str
    what: str
    sql: str
    """With `{days}`, a condition on the days, and the alias of the table that it is about before it."""
    dated: str = ""


def _requests(name: str, *columns: str) -> str:
    """Return the query for the requests that have a fault, beside the events that they were held against."""
    shown = ", ".join(f"a.{column}" for column in ("ts", "bucket", "key", "method", "status", *columns, "request_id"))
    return f"SELECT {shown}\nFROM access_attribution a\nWHERE array_contains(a.faults, '{name}'){{days}}\nORDER BY a.ts"


MEANINGS = {
    "denied_but_served": Meaning(
        "Refused by signproxy, served by the store",
        "The store served a request that carries the id of a refusal. Either the store does not verify signatures, or "
        "the request was signed past signproxy.",
        _requests("denied_but_served", "principal", "event_id", "decision", "rule_id"),
        "a",
    ),
    "broken_off_but_served": Meaning(
        "Broken off by signproxy, carried out by the store",
        "signproxy ended a forwarded request with a refusal after it had begun to send it, and the store carried it "
        "out.",
        _requests("broken_off_but_served", "principal", "event_id", "rule_id"),
        "a",
    ),
    "proxy_key_without_stamp": Meaning(
        "signproxy's own key, without an event",
        "A request was signed with signproxy's access key, and no event of the trail explains it. A client cannot "
        "take a stamp off: either the trail lacks the event, or the key is used by another program.",
        _requests("proxy_key_without_stamp", "requester", "remote_ip", "stamp"),
        "a",
    ),
    "unknown_stamp": Meaning(
        "A stamp without a decision",
        "The store's log has a stamp that no audit event gave. Either the event was lost or is not ingested yet, or "
        "the stamp is made up.",
        _requests("unknown_stamp", "stamp", "requester", "remote_ip"),
        "a",
    ),
    "stamp_key_mismatch": Meaning(
        "A stamp on another object",
        "The stamp belongs to a decision about another object than the one that was asked for.",
        _requests("stamp_key_mismatch", "event_id", "principal", "event_key"),
        "a",
    ),
    "stamp_method_mismatch": Meaning(
        "A stamp on another method",
        "The stamp belongs to a decision about another HTTP method than the one that was used.",
        _requests("stamp_method_mismatch", "event_id", "principal", "event_method"),
        "a",
    ),
    "replay": Meaning(
        "A signature that was used again",
        "One signature served more requests, or served for longer, than its decision was for.",
        _requests("replay", "event_id", "principal", "event_ts", "age_seconds"),
        "a",
    ),
    "signature_retried": Meaning(
        "A signature that was used again after a failure",
        "A client used a signature again after an answer that was cut off, failed or said 404: it repeats what it did "
        "not get.",
        _requests("signature_retried", "event_id", "principal", "bytes_sent", "object_size"),
        "a",
    ),
    "ip_mismatch": Meaning(
        "Signed for one address, used from another",
        "The address that asked for the signature is not the one that used it. Behind NAT or a proxy that is ordinary; "
        "elsewhere a signature may have been handed on.",
        _requests("ip_mismatch", "event_id", "principal", "remote_ip", "event_ip"),
        "a",
    ),
    "late_after_revoke": Meaning(
        "Used after it was withdrawn",
        "A right went on to work for longer than its way allows after it had been withdrawn.",
        _requests("late_after_revoke", "event_id", "principal", "event_ts", "age_seconds"),
        "a",
    ),
    "allowed_but_s3_denied": Meaning(
        "Allowed by signproxy, refused by the store",
        "signproxy allowed it and the store refused: its own policy may be narrower, or signproxy's key may have lost "
        "a right.",
        _requests("allowed_but_s3_denied", "event_id", "principal", "rule_id", "error"),
        "a",
    ),
    "unattributed": Meaning(
        "Served, and explained by nothing",
        "The store served requests that no event, no known session and no known service explains. Either the trail "
        "lacks events, or there is a way to the data past signproxy.",
        _requests("unattributed", "requester", "remote_ip", "op"),
        "a",
    ),
    "signed_not_used": Meaning(
        "Signed and never seen in a log",
        "A signature has no request in the store's log. Logs are delivered at best effort, so one of these proves "
        "nothing; many of them mean that a log is not read.",
        "SELECT e.event_date, e.bucket, count(*) AS n\nFROM events e LEFT JOIN s3_access s ON s.stamp = e.event_id\n"
        "WHERE e.kind = 'sign' AND e.decision = 'allow' AND s.stamp IS NULL{days}\n"
        "GROUP BY e.event_date, e.bucket\nORDER BY n DESC",
        "e",
    ),
    "audit_gap": Meaning(
        "Events are missing",
        "Numbers are missing between two events of one process. What happened there is not known.",
        "SELECT * FROM (\n  SELECT s.boot_id, s.number, s.segment, s.first_seq, s.last_seq, s.said,\n"
        "    lag(s.last_seq) OVER (PARTITION BY s.boot_id ORDER BY s.number) AS before\n"
        "  FROM segments s WHERE s.verdict IN ('whole', 'miscounted', 'contradicts')\n) found\n"
        "WHERE first_seq > coalesce(before, 0) + 1 OR said < last_seq - first_seq + 1\nORDER BY boot_id, number",
    ),
    "audit_chain": Meaning(
        "A broken chain of segments",
        "A segment says another digest of the one before it than that one has.",
        "SELECT * FROM (\n  SELECT s.boot_id, s.number, s.segment, s.previous_sha256,\n"
        "    lag(s.sha256) OVER (PARTITION BY s.boot_id ORDER BY s.number) AS before_sha256\n"
        "  FROM segments s WHERE s.verdict IN ('whole', 'miscounted', 'contradicts')\n) found\n"
        "WHERE previous_sha256 <> before_sha256\nORDER BY boot_id, number",
    ),
    "audit_segment": Meaning(
        "A segment that cannot be believed",
        "A segment of the audit trail is cut short, has another digest, or contradicts itself or another one.",
        "SELECT s.boot_id, s.number, s.segment, s.verdict, s.said, s.good, s.quarantined, s.path\nFROM segments s\n"
        "WHERE s.verdict NOT IN ('whole', 'duplicate')\nORDER BY s.boot_id, s.number",
    ),
    "denial_burst": Meaning(
        "A burst of refusals",
        "A principal was refused far more often in a minute than in the fourteen days before.",
        "SELECT principal, minute, n, median, mad\nFROM denial_bursts b\nWHERE n > 0{days}\nORDER BY n DESC",
        "b",
    ),
    "enumeration": Meaning(
        "Trying one table after the other",
        "A principal asked for unusually many different tables in a short time.",
        "SELECT principal, hour, tables, refused\nFROM enumeration b\nWHERE tables > 0{days}\nORDER BY tables DESC",
        "b",
    ),
    "first_seen": Meaning(
        "A first use of a table",
        "A principal used a table for the first time.",
        "SELECT principal, catalog, namespace, b.table, access, first_ts\nFROM first_seen b\n"
        "WHERE first_ts IS NOT NULL{days}\nORDER BY first_ts",
        "b",
    ),
}


def meaning_of(name: str) -> Meaning:
    """Return what a class means; of one that is not known here, its name."""
    known = MEANINGS.get(name)
    if known is not None:
        return known
    title = name.replace("_", " ").capitalize()
    return Meaning(title, "", "SELECT *\nFROM findings\nORDER BY last_ts DESC")


def query_of(group: FindingGroup) -> str:
    """Return the query that shows the rows behind a group's findings."""
    meaning = meaning_of(group.class_)
    days = [at.date() for one in group.findings for at in (one.first, one.last) if at is not None]
    condition = ""
    if meaning.dated and days:
        condition = f"\n  AND {meaning.dated}.event_date BETWEEN {_day(min(days))} AND {_day(max(days))}"
    return meaning.sql.replace("{days}", condition)


def _day(day: date) -> str:
    return f"DATE '{day.isoformat()}'"
