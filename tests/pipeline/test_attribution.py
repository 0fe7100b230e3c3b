"""Every class of a request and every fault of the two sides together, each beside the twin that is none."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from signproxy.pipeline.attribution import attribution
from signproxy.pipeline.findings import FindingClass
from signproxy.pipeline.matching import CLASSES, KnownRequesters
from signproxy.pipeline.s3log.rows import Quality
from tests.pipeline.event_rows import at, event, rows

PROXY = "arn:aws:iam::111122223333:user/signer"
STRANGER = "arn:aws:iam::999900001111:user/mallory"
VENDING = "signproxy-vending"
SERVICES = ("arn:aws:sts::*:assumed-role/replication/*", "cloudfront")
KNOWN = KnownRequesters(proxy=(PROXY,), services=SERVICES, vending_role=VENDING)
IP = "10.0.0.7"

_EVENTS: list[dict[str, Any]] = []
_REQUESTS: list[dict[str, Any]] = []
EXPECTED: dict[str, tuple[str, tuple[str, ...]]] = {}


_READABLE = str.maketrans("UOIL", "V011", "-")


def _id(name: str) -> str:
    """Return an event's id that shows what it is of."""
    return f"01{name.upper().translate(_READABLE):0<24}"[:26]


def decided(name: str, **changes: Any) -> str:
    """Let something be decided, on an object of its own; return the event's id."""
    made: dict[str, Any] = {
        "event_id": _id(name), "bucket": "lake", "key": f"wh/{name}", "method": "GET", "remote_ip": IP, "stamped": True,
        "cacheable": False, "access_key_id": "9XYZ", "rule_id": "r1", "policy_rev": "p1",
    } | changes  # fmt: skip
    _EVENTS.append(event(at(), **made))
    return str(made["event_id"])


def asked(name: str, class_: str, *faults: FindingClass, of: str = "", after: float = 5.0, **changes: Any) -> None:
    """Let a store have a request, of which this has to be said; `of` is whose object it is, where not its own."""
    made: dict[str, Any] = {
        "ts": at(seconds=after), "bucket": "lake", "key": f"wh/{of or name}", "method": "GET", "op": "REST.GET.OBJECT",
        "status": 200, "request_id": name, "requester": PROXY, "remote_ip": IP, "source": "aws",
        "object_size": 4096,
    } | changes  # fmt: skip
    made["event_date"] = made["ts"].date()
    _REQUESTS.append(made)
    EXPECTED[name] = class_, tuple(sorted(fault.code for fault in faults))


def signed(
    name: str, class_: str, *faults: FindingClass, of_event: dict[str, Any] | None = None, **changes: Any
) -> None:
    """Let something be decided and asked for with its stamp."""
    asked(name, class_, *faults, stamp=decided(name, **(of_event or {})), **changes)


C = FindingClass

# -- stamps: believed only about the very same thing

signed("plain", "stamp")
signed("denied-served", "stamp", C.DENIED_BUT_SERVED, of_event={"decision": "deny"})
signed("denied-refused", "stamp", of_event={"decision": "deny"}, status=403)
signed("denied-304", "stamp", C.DENIED_BUT_SERVED, of_event={"decision": "deny"}, status=304)
asked("made-up", "unattributed", C.UNKNOWN_STAMP, stamp=_id("nobody"))
asked("made-up-badly-signed", "unattributed", stamp=_id("nobody"), status=403, requester=None,
      quality=[Quality.CLAIMED_KEY])  # fmt: skip
signed("other-key", "unattributed", C.STAMP_KEY_MISMATCH, key="wh/secret")
signed("other-bucket", "unattributed", C.STAMP_KEY_MISMATCH, bucket="vault")
signed("other-method", "unattributed", C.STAMP_METHOD_MISMATCH, method="DELETE", op="REST.DELETE.OBJECT")
signed("other-both", "unattributed", C.STAMP_KEY_MISMATCH, C.STAMP_METHOD_MISMATCH, key="wh/secret", method="PUT",
       op="REST.PUT.OBJECT")  # fmt: skip
signed("same-signer", "stamp", access_key_id="AKIAEXAMPLE9XYZ")
signed("other-signer", "unattributed", C.UNATTRIBUTED, access_key_id="AKIAEXAMPLEOTHER")
# A stamp is of a signature: an event that signed nothing has none.
signed("not-signed", "unattributed", C.UNKNOWN_STAMP, of_event={"kind": "vend"})
# The event of a bulk delete names its first key, the request none.
signed("bulk", "stamp", of_event={"method": "POST", "key_count": 3}, method="POST", key=None,
       op="REST.POST.MULTI_OBJECT_DELETE")  # fmt: skip
asked("bulk-key", "stamp", of="deleted", request_id="bulk", op="BATCH.DELETE.OBJECT", method="DELETE", status=204)
signed("list", "stamp", of_event={"key": ""}, key=None, op="REST.GET.BUCKET")

# -- one signature, used again

signed("again", "stamp")
asked("again-2", "stamp", C.REPLAY, of="again", stamp=_id("again"), after=6)
signed("again-refused", "stamp")
asked("again-refused-2", "stamp", C.ALLOWED_BUT_S3_DENIED, of="again-refused", stamp=_id("again-refused"), after=6,
      status=403)  # fmt: skip
signed("again-none", "stamp")
asked("again-none-2", "stamp", C.REPLAY, of="again-none", stamp=_id("again-none"), after=6, status=404)


def again(name: str, *faults: FindingClass, first: dict[str, Any] | None = None, **changes: Any) -> None:
    """Let a signature be used by its client, and once more: `first` says what came of the first use."""
    whole: dict[str, Any] = {"bytes_sent": 4096, "user_agent": "java/1"}
    signed(name, "stamp", of_event={"method": changes.get("method", "GET")}, **(whole | (first or {})))
    asked(f"{name}-2", "stamp", *faults, of=name, stamp=_id(name), **(whole | {"after": 6} | changes))


# A client that got no whole answer asks again with the same signature, and does what a client should.
again("after-503", C.RETRY, first={"status": 503, "bytes_sent": 0})
again("after-404", C.RETRY, first={"status": 404, "bytes_sent": 300})
again("after-cut", C.RETRY, first={"bytes_sent": 4095})
again("after-nothing", C.RETRY, first={"bytes_sent": 0})
again("after-cut-range", C.RETRY, first={"status": 206, "bytes_sent": 99}, status=206, bytes_sent=100)
again("after-cut-unsized", C.RETRY, first={"object_size": None, "bytes_sent": 99}, object_size=None, bytes_sent=100)
# A log that counts whole seconds has both at the same one, in whichever order.
again("after-cut-at-once", C.RETRY, first={"bytes_sent": 4095}, after=5)
asked("a-whole", "stamp", C.RETRY, of="z-cut", stamp=decided("z-cut"), bytes_sent=4096)
asked("z-cut", "stamp", stamp=_id("z-cut"), bytes_sent=100)
# Their near misses: the first answer was whole, or another client has the signature too.
again("after-whole", C.REPLAY)
again("after-whole-range", C.REPLAY, first={"status": 206, "bytes_sent": 100}, status=206, bytes_sent=100)
again("after-whole-unsized", C.REPLAY, first={"object_size": None}, object_size=None)
again("after-untold", C.REPLAY, first={"bytes_sent": None})
again("after-put", C.REPLAY, first={"bytes_sent": 0, "method": "PUT", "op": "REST.PUT.OBJECT"},
      bytes_sent=0, method="PUT", op="REST.PUT.OBJECT")  # fmt: skip
again("cut-other-ip", C.REPLAY, C.IP_MISMATCH, first={"bytes_sent": 4095}, remote_ip="198.51.100.9")
again("cut-other-agent", C.REPLAY, first={"bytes_sent": 4095}, user_agent="curl/8")
again("503-other-agent", C.REPLAY, first={"status": 503, "bytes_sent": 0}, user_agent="curl/8")
again("404-other-agent", C.REPLAY, first={"status": 404, "bytes_sent": 300}, user_agent="curl/8")
# A retry that came through ends it.
again("third", C.RETRY, first={"bytes_sent": 4095})
asked("third-3", "stamp", C.REPLAY, of="third", stamp=_id("third"), after=7, bytes_sent=4096, user_agent="java/1")
# An old signature is not retried, whatever became of its first use.
again("retried-late", C.REPLAY, first={"bytes_sent": 4095}, after=901)
signed("cached", "stamp", of_event={"cacheable": True})
asked("cached-30", "stamp", of="cached", stamp=_id("cached"), after=35)
asked("cached-31", "stamp", C.REPLAY, of="cached", stamp=_id("cached"), after=36)
signed("old-900", "stamp", after=900)
signed("old-901", "stamp", C.REPLAY, after=901)
# The same row twice, as logs are delivered.
signed("row-twice", "stamp")
_REQUESTS.append(dict(_REQUESTS[-1]))

# -- where from, and what the store made of it

signed("other-ip", "stamp", C.IP_MISMATCH, remote_ip="198.51.100.9")
signed("sidecar", "stamp", of_event={"remote_ip": "127.0.0.1"}, remote_ip="198.51.100.9")
signed("sidecar-6", "stamp", of_event={"remote_ip": "::1"}, remote_ip="198.51.100.9")
signed("store-refused", "stamp", C.ALLOWED_BUT_S3_DENIED, status=403)
signed("store-found-none", "stamp", status=404)

# -- forwarded: the store's own id

decided("forwarded", kind="forward", upstream_request_id="forwarded", decided_at=at(seconds=-30).isoformat())
asked("forwarded", "request_id")
decided("forwarded-twice", kind="forward", upstream_request_id="forwarded-twice, forwarded-twice")
asked("forwarded-twice", "request_id")
# signproxy sent it, and found what was wrong while its body went by: neither store nor key are to blame.
PUT: dict[str, Any] = {"method": "PUT", "op": "REST.PUT.OBJECT"}
decided("broken-off", kind="forward", decision="deny", method="PUT")
asked("broken-off", "stamp", C.BROKEN_OFF_BUT_SERVED, stamp=_id("broken-off"), **PUT)
decided("broken-off-refused", kind="forward", decision="deny", method="PUT")
asked("broken-off-refused", "stamp", stamp=_id("broken-off-refused"), status=400, **PUT)
decided("broken-off-read", kind="forward", upstream_request_id="broken-off-read", decision="deny")
asked("broken-off-read", "request_id")
# Stamped, as what is signed: its own address is signproxy's, and no other one's.
decided("forwarded-stamped", kind="forward", upstream_request_id="forwarded-stamped", remote_ip="192.0.2.1")
asked("forwarded-stamped", "stamp", stamp=_id("forwarded-stamped"))
# The answer was lost: the store timed out, or the client left within its upload.
decided("timed-out", kind="forward", decision="error")
asked("timed-out", "stamp", stamp=_id("timed-out"))
decided("left", kind="forward", decision="error", method="PUT")
asked("left", "stamp", stamp=_id("left"), method="PUT", op="REST.PUT.OBJECT")
# The store's own id counts more than how its log writes a key.
decided("written-otherwise", kind="forward", upstream_request_id="written-otherwise")
asked("written-otherwise", "stamp", stamp=_id("written-otherwise"), key="wh/written%20otherwise")
decided("forwarded-other-key", kind="forward", upstream_request_id="elsewhere")
asked("forwarded-other-key", "unattributed", C.STAMP_KEY_MISMATCH, stamp=_id("forwarded-other-key"), key="wh/x")
# An event without a stamp gave none: who shows its id has read it in an answer.
decided("forwarded-without", kind="forward", stamped=False, upstream_request_id="elsewhere")
asked("forwarded-without", "unattributed", C.UNKNOWN_STAMP, stamp=_id("forwarded-without"))
decided("buckets", kind="forward", bucket=None, key=None, upstream_repeats=1)
asked("buckets", "stamp", stamp=_id("buckets"), bucket=None, key=None)
asked("buckets-2", "stamp", stamp=_id("buckets"), bucket=None, key=None, after=6)
# signproxy itself asked again on a new connection, and says how often; one more use is another client's.
decided("sent-twice", kind="forward", upstream_request_id="sent-twice-2", upstream_repeats=1)
asked("sent-twice", "stamp", stamp=_id("sent-twice"))
asked("sent-twice-2", "stamp", of="sent-twice", stamp=_id("sent-twice"), after=6)
asked("sent-twice-3", "stamp", C.REPLAY, of="sent-twice", stamp=_id("sent-twice"), after=7)
# Another store may give the same id.
decided("forwarded-elsewhere", kind="forward", upstream_request_id="forwarded-elsewhere", bucket="other")
asked("forwarded-elsewhere", "unattributed", C.PROXY_KEY_WITHOUT_STAMP)

# -- vended: the session's name


def vended(name: str, class_: str, *faults: FindingClass, role: str = VENDING, **changes: Any) -> None:
    session = f"sp-lake-{_id(name)}"
    arn = f"arn:aws:sts::111122223333:assumed-role/{role}/{session}"
    asked(name, class_, *faults, role=role, session_name=session, **({"requester": arn} | changes))


decided("vended", kind="vend")
vended("vended", "session", after=3000)
decided("refreshed", kind="refresh")
vended("refreshed", "session", method="PUT", op="REST.PUT.OBJECT", key="wh/new")
decided("vended-otherwise", kind="vend")
vended("vended-otherwise", "unattributed", C.UNATTRIBUTED, role="another-ones")
decided("vended-not", kind="vend", decision="deny")
vended("vended-not", "unattributed", C.UNATTRIBUTED)
decided("vended-long-ago", kind="vend")
vended("vended-long-ago", "unattributed", C.UNATTRIBUTED, after=12 * 3600 + 1)
# A key for signproxy's own listener opens no session of the store.
decided("issued", kind="issue")
vended("issued", "unattributed", C.UNATTRIBUTED)
decided("vended-claimed", kind="vend")
vended("vended-claimed", "unattributed", status=403, quality=[Quality.CLAIMED_KEY])

# -- who needs no decision, and who has none

asked("replicated", "known_service", requester="arn:aws:sts::111122223333:assumed-role/replication/s3")
asked("not-replicated", "unattributed", C.UNATTRIBUTED, requester="arn:aws:sts::1:assumed-role/replication-x/s3")
asked("expired", "known_service", op="S3.EXPIRE.OBJECT", requester="AmazonS3", method=None, status=None)
asked("claims-to-be-replication", "unattributed", requester="cloudfront", status=403, quality=[Quality.CLAIMED_KEY])
asked("stranger", "unattributed", C.UNATTRIBUTED, requester=STRANGER)
asked("stranger-refused", "unattributed", requester=STRANGER, status=403)
asked("anonymous", "unattributed", C.UNATTRIBUTED, requester=None)
asked("anonymous-refused", "unattributed", requester=None, status=403)
# signproxy ships its segments with a key that it may sign with, too; reading one is nothing that it needs to do.
SHIPPED = "prod/audit/v1/dt=2026-11-01/pod-01KABCDEFGHJKMNPQRSTVWXYZ0-1.ndjson.gz"
asked("ships", "known_service", key=SHIPPED, method="PUT", op="REST.PUT.OBJECT", after=0)
asked("compares", "known_service", key=SHIPPED, method="HEAD", op="REST.HEAD.OBJECT", after=0)
asked("reads-the-trail", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, key=SHIPPED)
asked("ships-elsewhere", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, key=f"{SHIPPED}x", method="PUT")
asked("stranger-ships", "unattributed", C.UNATTRIBUTED, key=SHIPPED, method="PUT", requester=STRANGER)
asked("own-key", "unattributed", C.PROXY_KEY_WITHOUT_STAMP)
asked("own-key-404", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, status=404)
asked("own-key-refused", "unattributed", status=403)
asked("own-key-claimed", "unattributed", status=403, quality=[Quality.CLAIMED_KEY])

# -- a log without queries: the last event that may stand behind a request, if it is one principal's

TRAIL: dict[str, Any] = {"source": "cloudtrail", "op": "GetObject"}
decided("near")
asked("near", "probable", **TRAIL)
decided("near-900")
asked("near-902", "probable", of="near-900", after=902, **TRAIL)
asked("near-903", "unattributed", C.UNATTRIBUTED, of="near-900", after=903, **TRAIL)
decided("near-sidecar", remote_ip="127.0.0.1")
asked("near-sidecar", "probable", **TRAIL)
decided("near-other-ip", remote_ip="10.9.9.9")
asked("near-other-ip", "unattributed", C.UNATTRIBUTED, **TRAIL)
decided("near-before")
asked("near-before", "unattributed", C.UNATTRIBUTED, after=-10, **TRAIL)
decided("near-denied", decision="deny")
asked("near-denied", "unattributed", C.UNATTRIBUTED, **TRAIL)
# Whose it was is not known; that some decision stands behind it is as likely as with one principal.
decided("near-two")
decided("near-two-b", key="wh/near-two", principal="idp/bob")
asked("near-two", "unattributed", **TRAIL)
decided("near-stranger")
asked("near-stranger", "unattributed", C.UNATTRIBUTED, requester=STRANGER, **TRAIL)
# A log with queries: whatever was signed with a stamp bears it there.
decided("visible")
asked("visible", "unattributed", C.PROXY_KEY_WITHOUT_STAMP)
decided("unstamped", stamped=False, bucket="plain")
asked("unstamped", "probable", bucket="plain")


# -- forwarded without a stamp (`stamp: off`, an older segment), and the answer was lost: no proof against a principal


def lost(name: str, **changes: Any) -> None:
    """Let a request be forwarded for a second, without a stamp; the event is written at its end, without an id."""
    made: dict[str, Any] = {"kind": "forward", "decision": "error", "stamped": False, "total_us": 1_000_000}
    decided(name, **(made | {"remote_ip": "192.0.2.1"} | changes))


lost("lost")
asked("lost", "probable", after=-1)
lost("lost-later")
asked("lost-later", "probable", after=30)
lost("lost-off", bucket="plain")
asked("lost-off", "probable", bucket="plain", after=-1)
lost("lost-long", total_us=3600_000_000)
asked("lost-long", "probable", after=-3600)
lost("lost-long-ago")
asked("lost-long-ago", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, after=-10)
lost("lost-long-after")
asked("lost-long-after", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, after=903)
lost("lost-other-method", method="PUT")
asked("lost-other-method", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, after=0)
lost("lost-other-key", key="wh/somewhere")
asked("lost-other-key", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, after=0)
lost("lost-stranger")
asked("lost-stranger", "unattributed", C.UNATTRIBUTED, after=0, requester=STRANGER)
# The event knows the id of its request: this is another one.
lost("lost-known", decision="allow", upstream_request_id="another")
asked("lost-known", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, after=0)
lost("lost-repeated", decision="allow", upstream_request_id="another", upstream_repeats=1)
asked("lost-repeated", "probable", after=0)
# Its request would bear the stamp.
lost("lost-stamped", stamped=True)
asked("lost-stamped", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, after=0)
lost("lost-denied", decision="deny")
asked("lost-denied", "unattributed", C.PROXY_KEY_WITHOUT_STAMP, after=0)
lost("lost-broken-off", decision="deny", upstream_us=5000)
asked("lost-broken-off", "probable", after=0)
lost("lost-two")
lost("lost-two-b", key="wh/lost-two", principal="idp/bob")
asked("lost-two", "unattributed", after=0)
# A log without ids, as some stores have it: neither is there to be seen.
lost("lost-nameless", decision="allow", upstream_request_id="another", bucket="nameless")
asked("lost-nameless", "probable", bucket="nameless", after=0, request_id=None)


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Row]]:
    events, requests = rows(spark, "events", _EVENTS), rows(spark, "s3_access", _REQUESTS)
    by_name: dict[str, list[Row]] = {}
    for row in attribution(events, requests, KNOWN).collect():
        name = "bulk-key" if row["op"] == "BATCH.DELETE.OBJECT" else row["request_id"] or row["key"].removeprefix("wh/")
        by_name.setdefault(name, []).append(row)
    return by_name


def test_every_request_has_one_row(found: dict[str, list[Row]]) -> None:
    """A request that is missing is an access that is not seen; one that is there twice is an access that never was."""
    assert {name: len(each) for name, each in found.items()} == dict.fromkeys(EXPECTED, 1)
    assert {row["class"] for [row] in found.values()} == set(CLASSES)


@pytest.mark.parametrize("name", EXPECTED)
def test_class_and_faults(found: dict[str, list[Row]], name: str) -> None:
    """Each of them is an accusation, or the lack of one."""
    [row] = found[name]
    assert (row["class"], tuple(sorted(row["faults"] or ()))) == EXPECTED[name]


def test_every_fault_has_a_case_and_a_twin() -> None:
    """A fault that is never found, and never not found, is tested by nothing."""
    told = {fault for _, faults in EXPECTED.values() for fault in faults}
    others = {FindingClass.LATE_AFTER_REVOKE.code, FindingClass.SIGNED_NOT_USED.code}
    assert told | others == {each.code for each in FindingClass}


def test_the_decision_is_told(found: dict[str, list[Row]]) -> None:
    """The answer to who it was, through which table, by which rule."""
    for name in ("plain", "forwarded", "vended", "near"):
        [row] = found[name]
        assert (row["principal"], row["table"], row["rule_id"], row["policy_rev"]) == ("idp/ann", "orders", "r1", "p1")
        assert row["event_id"] == _id(name)


def test_the_time_of_the_decision_is_that_of_the_event_unless_it_says_another(found: dict[str, list[Row]]) -> None:
    """A transfer that ends after a revoke would count as decided after it; events of old segments say no time."""
    for name, seconds in (("plain", 0), ("forwarded", -30)):
        [row] = found[name]
        assert row["event_ts"].timestamp() == at().timestamp()
        assert row["decided_at"].timestamp() == at(seconds=seconds).timestamp()


def test_a_stamp_that_does_not_hold_names_no_principal_as_the_one_that_asked(found: dict[str, list[Row]]) -> None:
    """A thief of a stamp would otherwise put requests on its owner's account."""
    [row] = found["other-key"]
    assert row["table"] is None
    assert row["decision"] is None
    assert (row["event_id"], row["event_key"], row["key"]) == (_id("other-key"), "wh/other-key", "wh/secret")


def test_nothing_that_other_jobs_need_is_lost(found: dict[str, list[Row]]) -> None:
    """Without the object's size each read of a range would be one of a small file."""
    assert {row["object_size"] for name in ("plain", "forwarded", "vended", "near") for row in found[name]} == {4096}


def test_parts_belong_to_their_request(found: dict[str, list[Row]]) -> None:
    """The keys of a bulk delete have rows of their own, without a stamp: as if a stranger had the key."""
    [head], [part] = found["bulk"], found["bulk-key"]
    assert part["event_id"] == head["event_id"]
    assert part["request_key"] != head["request_key"]
