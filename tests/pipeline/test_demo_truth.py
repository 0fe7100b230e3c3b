"""The truth beside the generated month is what plain Python finds in it: no more, no less, and the same classes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise

from tests.pipeline.demo_month import Json, Request, lines_of, moment, the_events, the_month, the_requests
from tools.sample_data.truth import Request as Key
from tools.sample_data.truth import read_requests

_EXACT = (
    *("denied_but_served", "unknown_stamp", "stamp_key_mismatch", "stamp_method_mismatch", "replay", "ip_mismatch"),
    *("allowed_but_s3_denied", "proxy_key_without_stamp", "unattributed", "late_after_revoke"),
)
_ALL = (
    *_EXACT,
    *("signature_retried", "audit_gap", "denial_burst", "enumeration", "first_seen", "unused_grant", "too_young_grant"),
    *("over_entitlement", "revocation_latency", "bad_line", "bad_segment"),
)
_BOUND = {"sign": 930, "forward": 60, "vend": 3600}
_SIGNATURE_ERRORS = ("SignatureDoesNotMatch",)


@cache
def _by_id() -> dict[str, Json]:
    return {event["event_id"]: event for event in the_events()}


@cache
def _by_request_id() -> dict[str, Json]:
    return {event["upstream_request_id"]: event for event in the_events() if "upstream_request_id" in event}


@cache
def _lost() -> set[tuple[str, str, str]]:
    """Return bucket, key and method of what was forwarded without a stamp and whose answer was lost."""
    return {
        (event["bucket"], event["key"], event["method"])
        for event in the_events()
        if event["kind"] == "forward"
        and event["reason"] == "store_timeout"
        and not event.get("stamped")
        and "upstream_request_id" not in event
    }


def _classify(row: Request) -> tuple[str, Json | None]:
    """Return what an exact join says of a row; `probable` where there is none and the log has no query."""
    summary = the_month().summary
    event = _by_id().get(row.stamp)
    if event is not None:
        return "stamp", event
    event = _by_request_id().get(row.request_id)
    if event is not None:
        return "request_id", event
    if f":assumed-role/{summary.vending_role}/" in row.requester:
        return "session", _by_id()[row.requester[-26:]]
    if any(fnmatchcase(row.requester, pattern) for pattern in summary.known_services):
        return "known_service", None
    if row.requester == summary.proxy[row.bucket] and (
        row.source == "cloudtrail" or (row.bucket, row.key, row.method) in _lost()
    ):
        return "probable", None
    return "unattributed", None


def _found() -> set[tuple[str, Key]]:
    """Return the exact findings of a detector that knows nothing of the generator."""
    found: set[tuple[str, Key]] = set()
    uses: dict[str, list[Request]] = defaultdict(list)
    forged = {one["request_id"] for one in lines_of(the_month().truth / "quality.ndjson") if not one["read"]}
    for row in the_requests():
        class_, event = _classify(row)
        key = (row.source, row.request_id)
        if row.request_id in forged:
            # A plain reader of CSV falls for it; what it has to do is not to find a stamp in it.
            assert class_ != "stamp"
            continue
        if class_ == "stamp" and event is not None:
            found.update((name, key) for name in _contradictions(row, event))
            uses[row.stamp].append(row)
        elif row.stamp:
            found.add(("unknown_stamp", key))
        elif class_ == "unattributed" and row.error not in _SIGNATURE_ERRORS and _served(row):
            is_ours = row.requester == the_month().summary.proxy[row.bucket]
            found.add(("proxy_key_without_stamp" if is_ours else "unattributed", key))
        if event is not None and _served(row) and _is_late(row, event):
            found.add(("late_after_revoke", key))
    for stamp, rows in uses.items():
        if _is_replayed(_by_id()[stamp], rows):
            found.update(("replay", (row.source, row.request_id)) for row in rows)
    return found


def _served(row: Request) -> bool:
    return 200 <= row.status < 300


def _contradictions(row: Request, event: Json) -> Iterator[str]:
    """Yield what is wrong with a row that bears an event's stamp."""
    if event["decision"] == "deny" and _served(row):
        yield "denied_but_served"
    if row.key != ("" if event.get("key_count") else event.get("key", "")):
        yield "stamp_key_mismatch"
    if row.method != event["method"]:
        yield "stamp_method_mismatch"
    if event["kind"] == "sign" and event["remote_ip"] not in (row.ip, "127.0.0.1"):
        yield "ip_mismatch"
    if event["decision"] == "allow" and row.status == 403:
        yield "allowed_but_s3_denied"


def _is_replayed(event: Json, rows: list[Request]) -> bool:
    """Whether a signature was used too long, or by one who had its answer, or by another client."""
    rows = sorted(rows, key=lambda row: row.at)
    if rows[-1].at > moment(event["ts"]) + 901:
        return True
    for before, row in pairwise(rows):
        is_cached = bool(event.get("cacheable")) and row.at - rows[0].at <= 30
        is_retry = row.ip == before.ip and (before.status >= 404 or (before.method == "GET" and before.sent < row.sent))
        if not is_cached and not is_retry:
            return True
    return False


@cache
def _since(kind: str, field: str) -> dict[tuple[str, str], float]:
    return {(one["principal"], one["resource"]): moment(one[field]) for one in _policy(kind)}


def _is_late(row: Request, event: Json) -> bool:
    held = (event["principal"], f"namespace:lake.{event.get('namespace')}")
    revoked = _since("revoked", "at").get(held)
    if revoked is None or row.at <= revoked + _BOUND[event["kind"]]:
        return False
    return row.at < _since("grant", "granted_at").get(held, float("inf"))


def _effective(event: Json) -> str:
    return str(event.get("effective_principal", event["principal"]))


def _policy(kind: str) -> list[Json]:
    newest = max((the_month().directory / "policy").glob("*.ndjson"))
    return [one for one in lines_of(newest) if one["kind"] == kind]


def test_every_class_is_planted_and_has_a_near_miss() -> None:
    """A class without a planted fault tests no recall, and one without a near miss no precision."""
    classes = Counter((one.class_, one.planted) for one in the_month().faults)
    assert [name for name in _ALL if not classes[name, True]] == []
    assert [name for name in _ALL if not classes[name, False]] == []


def test_planted_faults_are_all_there_is() -> None:
    """If ordinary traffic held an unplanned fault, every honest detector would be blamed for finding it."""
    month = the_month()
    planted = {
        (one.class_, key) for one in month.faults if one.planted and one.class_ in _EXACT for key in one.requests
    }
    near = {(one.class_, key) for one in month.faults if not one.planted for key in one.requests}
    found = _found()
    assert found == planted
    assert not found & near


def test_each_row_has_the_class_that_an_exact_join_gives_it() -> None:
    """If the truth named another class than the rows prove, precision and recall would measure the generator."""
    told = read_requests(the_month().truth)
    assert len(told) == sum(the_month().summary.requests.values())
    seen = 0
    for row in the_requests():
        classes, event_id = told.get((row.source, row.request_id), ((), ""))
        if not classes:
            continue
        seen += 1
        class_, event = _classify(row)
        assert class_ in classes, row
        if class_ in ("stamp", "request_id", "session"):
            assert event is not None
            assert event["event_id"] == event_id
    assert seen == len(told)


def test_probable_rows_have_an_event_for_the_same_object_shortly_before() -> None:
    """If nothing were near it, calling a row probable would be a guess."""
    told = read_requests(the_month().truth)
    rows = [(row, told[row.source, row.request_id]) for row in the_requests() if row.source == "cloudtrail"]
    checked = 0
    for row, (classes, event_id) in rows:
        if classes == ("probable",):
            event = _by_id()[event_id]
            assert (event["bucket"], event.get("key", ""), event["method"]) == (row.bucket, row.key, row.method)
            assert -2 <= row.at - moment(event["ts"]) <= 900
            checked += 1
    assert checked > 50


def test_gaps_are_where_the_truth_has_them() -> None:
    """If events were missing elsewhere, `audit_gap` would be found and counted as wrong."""
    seqs: dict[str, set[int]] = defaultdict(set)
    for event in the_events():
        seqs[event["boot_id"]].add(event["seq"])
    missing = {(boot, seq) for boot, held in seqs.items() for seq in range(1, max(held) + 1) if seq not in held}
    told = {
        (one.expect["boot_id"], seq)
        for one in the_month().faults
        if one.class_ == "audit_gap" and one.planted
        for seq in range(one.expect["first_seq"], one.expect["last_seq"] + 1)
    }
    assert missing == told


def test_numbers_are_those_of_the_content() -> None:
    """A benchmark that divides by the wrong number of events says nothing."""
    summary = the_month().summary
    events = the_events()
    assert len(events) == summary.events
    assert Counter(f"{event['kind']}/{event['decision']}" for event in events) == Counter(summary.kinds)
    assert len({event["event_id"] for event in events}) == len(events)
    assert len(list(the_month().directory.glob("audit/v1/*/*.gz"))) == summary.segments
    requests = Counter(row.source for row in the_requests())
    assert {name: count for name, count in summary.requests.items() if requests[name] < count} == {}


def test_habits_stand_out_as_told() -> None:
    """If a burst were no burst, not finding it would be right and count as wrong."""
    faults = [one for one in the_month().faults if one.planted]
    denials = Counter((event["principal"], event["ts"][:16]) for event in the_events() if event["decision"] == "deny")
    for one in faults:
        if one.class_ == "denial_burst":
            assert denials[one.principal, one.expect["minute"][:16]] == one.expect["n"]
        if one.class_ == "enumeration":
            hour = one.expect["hour"][:13]
            tried = [
                event for event in the_events() if event.get("principal") == one.principal and event["ts"][:13] == hour
            ]
            assert len({(event["namespace"], event["table"]) for event in tried}) == one.expect["tables"]


def test_first_uses_are_the_first() -> None:
    """`first_seen` is held against this list in both directions."""
    first: dict[tuple[str, ...], str] = {}
    for event in sorted(the_events(), key=lambda one: str(one["ts"])):
        if (
            event["decision"] == "allow"
            and event.get("table")
            and event["kind"] in ("sign", "forward", "vend", "refresh")
        ):
            effective = _effective(event)
            first.setdefault(
                (event["principal"], effective, event["namespace"], event["table"], event.get("access", "")),
                event["ts"],
            )
    told = {
        (one["principal"], one["effective_principal"], one["namespace"], one["table"], one["access"]): one["first_ts"]
        for one in lines_of(the_month().truth / "first_seen.ndjson")
    }
    assert told == first


def test_grants_are_used_as_told() -> None:
    """A grant that is called unused although a job depends on it would be taken away."""
    used: set[tuple[str, str, str]] = set()
    for event in the_events():
        if event["decision"] != "allow" or not event.get("table") or event["kind"] == "catalog":
            continue
        who = _effective(event)
        data = "TABLE_WRITE_DATA" if event.get("access") in ("write", "delete") else "TABLE_READ_DATA"
        needs = {"TABLE_REMOTE_SIGN", data}
        if event.get("s3_op") == "CopyObject":
            needs.add("TABLE_READ_DATA")
        full = f"lake.{event['namespace']}.{event['table']}"
        around = ("catalog:lake", f"namespace:lake.{event['namespace']}", f"table:{full}")
        used |= {(who, need, securable) for need in needs for securable in around}
    told = lines_of(the_month().truth / "grants.ndjson")
    for one in told:
        is_used = (one["principal"], one["privilege"], one["securable"]) in used
        assert (one["state"] == "used") == is_used, one
    exported = {(one["principal"], one["privilege"], one["resource"]) for one in _policy("grant")}
    assert {(one["principal"], one["privilege"], one["securable"]) for one in told} == exported


def test_every_principal_had_the_right_to_what_was_allowed() -> None:
    """If events were allowed that no grant stands behind, entitled and used could not be compared."""
    held: dict[str, set[str]] = defaultdict(set)
    for one in (*_policy("grant"), *_policy("revoked")):
        held[one["principal"]].add(one["resource"])
    for event in the_events():
        if event["decision"] == "allow" and event["kind"] in ("sign", "forward", "vend", "refresh"):
            who = _effective(event)
            full = f"lake.{event['namespace']}.{event['table']}"
            around = {"catalog:lake", f"namespace:lake.{event['namespace']}", f"table:{full}"}
            assert around & held[who], event
            rules = {rule.partition("@")[2] for rule in event["rule_id"].split("+")}
            assert rules <= held[who]


def test_revocations_last_as_long_as_told() -> None:
    """`revocation_latency` is asserted to the second for each way."""
    told = lines_of(the_month().truth / "revocations.ndjson")
    assert {one["way"] for one in told} == {"sign", "forward", "vend"}
    for one in told:
        at = moment(one["revoked_at"])
        last = 0.0
        for row in the_requests():
            _, event = _classify(row)
            if event is not None and event["principal"] == one["principal"] and 0 < row.status < 300:
                last = max(last, row.at)
        assert int(last) - int(at) == one["seconds"]
