"""The jobs find what was planted in a month that none of them knows, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.demo_chain import Chain, run_chain
from tests.pipeline.demo_month import lines_of, moment, the_month
from tools.sample_data.truth import Fault, read_requests

EXACT = (
    *("denied_but_served", "proxy_key_without_stamp", "unknown_stamp", "stamp_key_mismatch", "stamp_method_mismatch"),
    *("replay", "ip_mismatch", "allowed_but_s3_denied", "unattributed"),
)
# A chain of eleven runs on a machine that has other things to do.
pytestmark = pytest.mark.timeout(1800)

PROVEN = ("stamp", "request_id", "session")
Key = tuple[str, str]


@pytest.fixture(scope="module")
def chain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """The seed is printed: a failure is repeated with it."""
    return run_chain(spark, the_month(), str(tmp_path_factory.mktemp("chain") / "warehouse"))


def _of_class(chain: Chain, *, planted: bool) -> dict[str, list[Fault]]:
    found: dict[str, list[Fault]] = defaultdict(list)
    for one in chain.month.faults:
        if one.planted is planted:
            found[one.class_].append(one)
    return found


def _keys(faults: Iterable[Fault]) -> set[Key]:
    return {key for one in faults for key in one.requests}


def _name(row: dict[str, Any]) -> Key:
    return row["source"], row["request_id"]


def _findings(chain: Chain, class_: str) -> list[dict[str, Any]]:
    return [row for row in chain.rows("findings") if row["class"] == class_]


def test_nothing_that_comes_in_vanishes(chain: Chain) -> None:
    """Rows in are rows that are kept and rows that are in quarantine, counted against what the generator wrote."""
    summary, outcome = chain.month.summary, chain.outcomes["ingest"]
    assert outcome.rows_out == chain.warehouse.read("events").count() == summary.events
    assert outcome.rows_bad == summary.bad_lines
    told = read_requests(chain.month.truth)
    whole = {_name(row) for row in chain.rows("access_attribution")}
    # CloudTrail and S3's own log may tell of the same request.
    assert whole <= told.keys()
    assert {key for key in told.keys() - whole if key[0] != "cloudtrail"} == set()


def test_every_request_has_the_class_that_is_right(chain: Chain) -> None:
    """An attribution that is wrong blames one principal for what another did."""
    told = read_requests(chain.month.truth)
    rows = chain.rows("access_attribution")
    wrong = [
        (_name(row), row["class"], told[_name(row)][0])
        for row in rows
        if row["class"] not in told[_name(row)][0] and row["class"] != "probable"
    ]
    assert wrong == []
    proven = [row for row in rows if row["class"] in PROVEN]
    assert len(proven) > len(rows) / 2
    assert [_name(row) for row in proven if row["event_id"] != told[_name(row)][1]] == []


def test_probable_is_mostly_right_and_says_nothing_where_it_cannot_be(chain: Chain) -> None:
    """The stated figures: 99 of 100 that are called probable name who it was; 95 of 100 are found."""
    told = read_requests(chain.month.truth)
    of = {row["event_id"]: row["principal"] for row in chain.warehouse.read("events").collect()}
    rows = chain.rows("access_attribution")
    called = [row for row in rows if row["class"] == "probable"]
    right = [row for row in called if row["principal"] == of.get(told[_name(row)][1])]
    expected = [row for row in rows if "probable" in told[_name(row)][0]]
    assert len(expected) > 20
    assert len(right) >= 0.99 * len(called), (len(right), len(called))
    assert len(right) >= 0.95 * len(expected), (len(right), len(expected))


@pytest.mark.parametrize("class_", EXACT)
def test_exact_classes_are_found_wholly_and_alone(chain: Chain, class_: str) -> None:
    """A fault that is missed is an attacker who is; one that is made up is why the report is no longer read."""
    planted = _of_class(chain, planted=True)
    found = {_name(row) for row in chain.rows("access_attribution") if class_ in (row["faults"] or ())}
    wanted = _keys(planted[class_])
    also = _keys(one for each in planted.values() for one in each if class_ in one.also)
    if class_ == "replay":
        # Both uses are of the fault; the one that was too many is told.
        events = [set(one.requests) for one in planted[class_]]
        assert [each for each in events if not each & found] == []
        assert found <= wanted
    else:
        assert found >= wanted
        assert found - wanted <= also
    assert not found & _keys(_of_class(chain, planted=False)[class_])
    assert wanted


def test_a_client_that_got_no_whole_answer_is_not_told_to_be_a_thief(chain: Chain) -> None:
    """Each is a retry and no replay; who had its answer, or is another client, has no such excuse."""
    class_ = "signature_retried"
    found = {_name(row) for row in chain.rows("access_attribution") if class_ in (row["faults"] or ())}
    planted = _of_class(chain, planted=True)[class_]
    assert [one.what for one in planted if not set(one.requests) & found] == []
    assert not found & _keys(_of_class(chain, planted=False)[class_])
    # What ordinary traffic has of them follows answers of 503.
    failed = {row["stamp"] for row in chain.rows("s3_access") if row["status"] == 503}
    others = {_name(row): row["stamp"] for row in chain.rows("access_attribution")}
    assert {others[key] for key in found - _keys(planted)} <= failed
    assert {row["severity"] for row in _findings(chain, class_)} == {"info"}


@pytest.mark.parametrize("class_", EXACT)
def test_each_fault_is_in_a_finding(chain: Chain, class_: str) -> None:
    """A row that is marked but not reported is no finding; its evidence is what a reader can look up."""
    told: set[str] = set()
    n = 0
    for row in _findings(chain, class_):
        told |= set(row["evidence"].get("request_ids", "").split(","))
        n += row["n"]
        assert row["fix"]
        assert row["severity"]
    marked = [row for row in chain.rows("access_attribution") if class_ in (row["faults"] or ())]
    assert n == len(marked)
    assert told <= {row["request_id"] for row in marked}


def test_late_uses_are_found_wholly_and_alone(chain: Chain) -> None:
    """A principal that goes on after a revoke has what signproxy cannot take back, or an uninformed worker."""
    found = {key for row in _findings(chain, "late_after_revoke") for key in row["evidence"]["request_ids"].split(",")}
    planted = _of_class(chain, planted=True)["late_after_revoke"]
    assert found == {request_id for _, request_id in _keys(planted)}
    assert planted


def test_revocations_last_as_long_as_they_did(chain: Chain) -> None:
    """The one number that says what a revoke is worth, by way and to the second."""
    measured = {
        (row["principal"], row["resource"], row["kind"]): row["seconds"]
        for row in chain.rows("revocation_latency")
        if row["n"]
    }
    for one in lines_of(chain.month.truth / "revocations.ndjson"):
        found = [seconds for (who, _, way), seconds in measured.items() if (who, way) == (one["principal"], one["way"])]
        assert set(found) == {float(one["seconds"])}, one


def test_gaps_are_found_wholly_and_alone(chain: Chain) -> None:
    """Each number that is missing is told, and none that is there."""
    found = set()
    for row in _findings(chain, "audit_gap"):
        for part in row["evidence"]["missing"].split(", "):
            first, _, last = part.partition(" to ")
            found |= {(row["evidence"]["boot_id"], seq) for seq in range(int(first), int(last or first) + 1)}
    planted = _of_class(chain, planted=True)["audit_gap"]
    told = {
        (one.expect["boot_id"], seq)
        for one in planted
        for seq in range(one.expect["first_seq"], one.expect["last_seq"] + 1)
    }
    assert found == told
    assert told


def test_segments_are_judged_as_they_were_spoiled(chain: Chain) -> None:
    """Cut, altered, renamed, twice: each is told for what it is, and no sound one for any of it."""
    told = {(one.expect["segment"], one.expect["verdict"]) for one in _of_class(chain, planted=True)["bad_segment"]}
    found = {(row["segment"], row["verdict"]) for row in chain.rows("segments") if row["verdict"] != "whole"}
    assert found == told


def test_bad_lines_are_in_quarantine(chain: Chain) -> None:
    """A line that is no event is kept as it was, with its segment and its reason."""
    told: dict[str, int] = defaultdict(int)
    for one in _of_class(chain, planted=True)["bad_line"]:
        told[one.expect["segment"]] += one.n
    found: dict[str, int] = defaultdict(int)
    logs = {row["path"].rpartition("/")[2] for row in chain.rows("s3log_files")}
    for row in chain.rows("quarantine"):
        if row["line"] is not None and row["segment"] not in logs:
            found[row["segment"]] += 1
    assert found == told


def test_traps_in_the_logs_make_no_finding(chain: Chain) -> None:
    """What is to be read is read, what is not is in quarantine or without a stamp."""
    read = {_name(row): row for row in chain.rows("s3_access")}
    for trap in lines_of(chain.month.truth / "quality.ndjson"):
        if not trap["request_id"]:
            continue
        row = read.get((trap["source"], trap["request_id"]))
        assert (row is not None and row["stamp"] is not None) is trap["read"] or row is None or trap["read"], trap
        if trap["read"]:
            assert row is not None, trap


@pytest.mark.parametrize(
    ("class_", "precision", "recall"), (("denial_burst", 0.9, 1.0), ("enumeration", 0.9, 1.0), ("first_seen", 1.0, 1.0))
)
def test_habits_are_found_as_well_as_stated(chain: Chain, class_: str, precision: float, recall: float) -> None:
    """Anomalies are no proof: what they are worth is a figure, which this is."""
    planted = _of_class(chain, planted=True)
    found = {(row["principal"], row["table"] or "") for row in _findings(chain, class_)}
    if class_ == "first_seen":
        wanted = {(one.principal, f"lake.{one.namespace}.{one.table}") for one in planted[class_]}
        assert wanted <= found
        # All other first uses of the second half are as true; the planted ones' near misses are not.
        assert (
            not {
                (one.principal, f"lake.{one.namespace}.{one.table}") for one in _of_class(chain, planted=False)[class_]
            }
            & found
        )
        return
    wanted_who = {one.principal for one in planted[class_]}
    also = {one.principal for each in planted.values() for one in each if class_ in one.also}
    who = {name for name, _ in found}
    assert len(wanted_who & who) >= recall * len(wanted_who)
    assert len(who & (wanted_who | also)) >= precision * len(who)
    assert not who & ({one.principal for one in _of_class(chain, planted=False)[class_]} - wanted_who - also)


def test_grants_are_judged_as_they_were_used(chain: Chain) -> None:
    """A grant that is called unused and is not breaks a job tomorrow; one that is called used stays for ever."""
    states = {(row["principal"], row["privilege"], row["resource"]): row["state"] for row in chain.rows("grant_use")}
    # The truth is of objects alone; a catalog's own calls, as to load a table, need rights of their own.
    called = {
        (row["principal"], f"namespace:lake.{row['namespace']}")
        for row in chain.warehouse.read("events").where("kind = 'catalog' AND decision = 'allow'").collect()
    }
    wrong = []
    for one in lines_of(chain.month.truth / "grants.ndjson"):
        key = (one["principal"], one["privilege"], one["securable"])
        is_called = states.get(key) == "used" and (one["principal"], one["securable"]) in called
        if not one["ambiguous"] and states.get(key) != one["state"] and not is_called:
            wrong.append((key, one["state"], states.get(key)))
    assert wrong == []


def test_ten_thousand_becomes_few(chain: Chain) -> None:
    """Entitled tables of each principal are those that its grants reach, and used those that it touched."""
    told = {one["principal"]: one for one in lines_of(chain.month.truth / "principals.ndjson")}
    radius = chain.rows("blast_radius")
    assert {row["n_root"] for row in radius} == {chain.month.summary.tables}
    wrong = [
        (row["principal"], row["entitled"], told[row["principal"]]["entitled"])
        for row in radius
        if row["principal"] in told and row["entitled"] != told[row["principal"]]["entitled"]
    ]
    assert wrong == []
    assert len(radius) >= len(told)


def test_findings_say_what_a_person_needs(chain: Chain) -> None:
    """When, how bad, what to do; and the same name in each run, so that a ticket can hold it."""
    rows = chain.rows("findings")
    assert len({row["finding_id"] for row in rows}) == len(rows)
    month = chain.month.summary
    first = datetime.fromisoformat(f"{month.first_day}T00:00:00+00:00").timestamp()
    for row in rows:
        assert row["fix"], row
        assert row["n"] >= 1, row
        if row["first_ts"] is not None and not row["class"].startswith("audit"):
            assert row["first_ts"].astimezone(UTC).timestamp() >= first - 86_400
            assert row["first_ts"] <= row["last_ts"]
    assert moment(f"{month.first_day}T00:00:00Z") == first
