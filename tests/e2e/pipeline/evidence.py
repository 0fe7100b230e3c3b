"""Say what has to come of a store's own log, from what was done and from nothing that the pipeline computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from signproxy.audit.segment import SUFFIX
from tests.e2e.faults.deployment import segment_events
from tests.e2e.pipeline.warehouse import Rows

INFORMATION = "info"


class Asked(NamedTuple):
    """A request that was made past signproxy, as it stands in a log."""

    method: str
    key: str


GONE = ("client_gone", "chunk_incomplete")
"""Why a request has failed whose client went away."""


@dataclass(slots=True)
class Scene:
    """A store's log and the trail of the signproxy before it, and what was done past that."""

    source: str
    bucket: str
    access_key: str
    logs: Path
    trail: Path
    logged: int = 0
    with_keys: Counter[Asked] = field(default_factory=Counter)
    """With the store's own keys, past signproxy."""
    anonymous: Counter[Asked] = field(default_factory=Counter)
    """With no keys, of objects that are public."""
    sent: Counter[str] | None = None
    """The stamps of the requests that clients sent, where a relay between them and the store wrote them down."""
    has_catalog: bool = False
    """Whether a catalog writes its tables' metadata with the store's own keys, which is not decided about."""

    def events(self) -> list[dict[str, Any]]:
        """Return the trail, read without the pipeline; all of it has to be sealed."""
        assert not list(self.trail.glob(f"audit/v1/dt=*/.*{SUFFIX}"))
        return segment_events(self.trail)


def check(scene: Scene, tables: Mapping[str, Rows]) -> None:
    """Check that each request of the log has the decision behind it, and that those without one are found."""
    events = {event["event_id"]: event for event in scene.events()}
    rows = [row for row in tables["access_attribution"] if row["source"] == scene.source]
    mine = [row for row in rows if row["bucket"] == scene.bucket]
    _check_nothing_is_missing(scene, tables, events, rows)
    _check_signed(scene, mine, events)
    _check_forwarded(mine, events)
    _check_past(scene, mine)
    _check_findings(scene, tables, mine)


def _check_nothing_is_missing(
    scene: Scene, tables: Mapping[str, Rows], events: Mapping[str, dict[str, Any]], rows: Rows
) -> None:
    held = {row["event_id"] for row in tables["events"]}
    assert events.keys() <= held, f"{len(events.keys() - held)} events were not ingested"
    assert tables["quarantine"] == []
    assert {row["verdict"] for row in tables["segments"]} == {"whole"}
    access = [row for row in tables["s3_access"] if row["source"] == scene.source]
    assert len(access) == scene.logged, "lines of the log were lost"
    assert len(rows) == scene.logged, "requests have no class, or two"
    assert len({row["request_key"] for row in rows}) == scene.logged


def _check_signed(scene: Scene, rows: Rows, events: Mapping[str, dict[str, Any]]) -> None:
    """What signproxy signed, for a client or to forward it, leads to its event about the very same request."""
    stamped = [row for row in rows if row["stamp"]]
    assert stamped, "the log has no stamps"
    for row in stamped:
        assert row["class"] == "stamp", row
        event = events[row["stamp"]]
        assert (row["event_id"], row["principal"]) == (event["event_id"], event["principal"]), row
        assert (row["table"], row["rule_id"]) == (event.get("table"), event.get("rule_id")), row
        assert event["kind"] in ("sign", "forward"), event
        assert event["stamped"], event
        assert event["decision"] == "allow" or event["reason"] in GONE, event
    by_clients = [row["stamp"] for row in stamped if events[row["stamp"]]["kind"] == "sign"]
    # A client may sign and not send; one that is refused has nothing to send.
    signed = {id_ for id_, event in events.items() if event["kind"] == "sign" and event["decision"] == "allow"}
    assert set(by_clients) <= signed
    if scene.sent is not None:
        assert Counter(by_clients) == scene.sent


def _check_forwarded(rows: Rows, events: Mapping[str, dict[str, Any]]) -> None:
    """Every request that signproxy passed on is found: by its stamp, or else by the store's own id of it."""
    passed = [event for event in events.values() if event["kind"] == "forward" and event.get("upstream_request_id")]
    found = {row["event_id"]: row for row in rows}
    for event in passed:
        row = found[event["event_id"]]
        assert row["class"] == ("stamp" if event.get("stamped") else "request_id"), row
        assert row["request_id"] == event["upstream_request_id"].partition(",")[0], row
        assert (row["principal"], row["method"]) == (event["principal"], event["method"]), row


def _check_past(scene: Scene, rows: Rows) -> None:
    """What no decision stands behind is what was done past signproxy, one for one."""
    left = [row for row in rows if row["class"] not in ("stamp", "request_id")]
    assert {row["class"] for row in left} <= {"unattributed"}, Counter(row["class"] for row in left)
    asked = _asked(left)
    assert scene.with_keys + scene.anonymous <= asked, asked
    others = asked - scene.with_keys - scene.anonymous
    assert scene.has_catalog or not others, others
    assert all("/metadata/" in each.key for each in others), others
    assert _asked(row for row in left if row["requester"] == scene.access_key) == asked - scene.anonymous


def _check_findings(scene: Scene, tables: Mapping[str, Rows], rows: Rows) -> None:
    """The two kinds are told apart, in the right number; nothing else is found, whatever the clients did."""
    grave = [row for row in tables["findings"] if row["severity"] != INFORMATION and row["bucket"] == scene.bucket]
    counts: Counter[str] = Counter()
    for finding in grave:
        counts[finding["class"]] += finding["n"]
    past = {row["request_id"] for row in rows if row["class"] == "unattributed"}
    mine = {"proxy_key_without_stamp": len(past) - scene.anonymous.total(), "unattributed": scene.anonymous.total()}
    assert counts == mine
    stolen = next(row for row in grave if row["class"] == "proxy_key_without_stamp")
    assert stolen["severity"] == "critical"
    assert stolen["evidence"]["requester"] == scene.access_key
    assert set(stolen["evidence"]["request_ids"].split(",")) <= past


def _asked(rows: Iterable[Mapping[str, Any]]) -> Counter[Asked]:
    return Counter(Asked(row["method"], row["key"] or "") for row in rows)


def classes(rows: Collection[Mapping[str, Any]]) -> Counter[str]:
    """Count rows by class."""
    return Counter(row["class"] for row in rows)
