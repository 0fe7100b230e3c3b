"""A finding is one fault of one subject, with its evidence, and the same one tomorrow."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from signproxy.pipeline.finding_specs import SPECS
from signproxy.pipeline.findings import FindingClass, findings_of
from signproxy.pipeline.sealed import SegmentVerdict
from tests.pipeline.event_rows import at, rows

JOB = "reconcile"


def faulty(number: int, *faults: FindingClass, **changes: Any) -> dict[str, Any]:
    ts = at(minutes=number)
    made = {
        "request_key": f"aws:R{number:03d}", "request_id": f"R{number:03d}", "ts": ts, "event_date": ts.date(),
        "bucket": "lake", "key": f"wh/{number}", "requester": "arn:aws:iam::1:user/x", "remote_ip": "198.51.100.9",
        "method": "GET", "status": 200, "op": "REST.GET.OBJECT", "source": "aws",
        "faults": [fault.code for fault in faults],
    }  # fmt: skip
    return made | changes


def _found(spark: SparkSession, *given: dict[str, Any]) -> list[Row]:
    return sorted(findings_of(rows(spark, "access_attribution", given), JOB).collect(), key=lambda row: row["first_ts"])


def test_the_same_fault_of_the_same_subject_is_one_finding(spark: SparkSession) -> None:
    """A thief who reads a thousand objects is one thing to look at, and not a thousand."""
    stolen = [faulty(number, FindingClass.PROXY_KEY_WITHOUT_STAMP) for number in range(30)]
    other = faulty(40, FindingClass.PROXY_KEY_WITHOUT_STAMP, remote_ip="203.0.113.1")
    next_day = faulty(24 * 60, FindingClass.PROXY_KEY_WITHOUT_STAMP)
    first, elsewhere, tomorrow = _found(spark, *stolen, other, next_day)
    assert (first["n"], elsewhere["n"], tomorrow["n"]) == (30, 1, 1)
    assert first["severity"] == "critical"
    assert (first["first_ts"], first["last_ts"]) == (stolen[0]["ts"].replace(tzinfo=None), first["last_ts"])
    assert first["evidence"]["request_ids"].split(",") == [f"R{number:03d}" for number in range(10)]
    assert first["evidence"]["key"] == "wh/0"
    assert first["fix"] == FindingClass.PROXY_KEY_WITHOUT_STAMP.spec.fix
    assert len({each["finding_id"] for each in (first, elsewhere, tomorrow)}) == 3


def test_a_request_with_two_faults_is_in_two_findings(spark: SparkSession) -> None:
    """Each says what to do about it, and one does not hide the other."""
    found = _found(spark, faulty(1, FindingClass.STAMP_KEY_MISMATCH, FindingClass.STAMP_METHOD_MISMATCH, event_id="E"))
    assert {row["class"] for row in found} == {"stamp_key_mismatch", "stamp_method_mismatch"}
    assert {row["evidence"]["event_ids"] for row in found} == {"E"}


def test_a_finding_keeps_its_name(spark: SparkSession) -> None:
    """A ticket names it; if it were another one in each run, a reader could not tell what is new."""
    one = _found(spark, faulty(1, FindingClass.UNATTRIBUTED))
    more = _found(spark, faulty(0, FindingClass.UNATTRIBUTED, key="wh/other"), faulty(1, FindingClass.UNATTRIBUTED))
    assert [row["finding_id"] for row in one] == [row["finding_id"] for row in more]


@pytest.mark.parametrize("each", FindingClass)
def test_every_class_says_what_it_means_and_what_to_do(each: FindingClass) -> None:
    """The operator who is woken by it has never seen it before."""
    assert each.spec.what.endswith(".")
    assert each.spec.fix.endswith(".")
    assert len(each.spec.fix) > 40
    assert each.spec.subject
    assert each.spec.shown or each.spec.sql


_CULPRIT = re.compile(r"stolen|thief|in other hands|somebody|made (it|them)? ?up|passed on|handed on|past signproxy")
_CONDITION = re.compile(r"\b([Ii]f|may|[Ee]ither|or|where|see whether)\b")


def _said() -> dict[str, str]:
    """Return every sentence that tells of a finding, by where it stands."""
    texts: dict[str, str] = {}
    for name, spec in SPECS.items():
        texts |= {f"{name}: title": spec.title, f"{name}: what": spec.what, f"{name}: fix": spec.fix}
        texts |= {f"{name}: fix, {case}": fix for case, fix in spec.fixes.items()}
    return {
        f"{place}, {number}": sentence
        for place, text in texts.items()
        for number, sentence in enumerate(re.split(r"(?<=[.:]) ", text))
    }


def test_no_text_states_a_cause_that_the_data_does_not_prove() -> None:
    """An operator who is told that a key is stolen replaces it at night, when a segment was late."""
    said = _said()
    assert len(said) > 60
    accused = {place for place, text in said.items() if _CULPRIT.search(text)}
    assert len(accused) > 5
    assert [(place, said[place]) for place in sorted(accused) if not _CONDITION.search(said[place])] == []


def test_every_verdict_on_a_segment_says_what_to_do() -> None:
    """A finding about it would have no advice at all."""
    assert set(SPECS["audit_segment"].fixes) == set(SegmentVerdict.FAULTS)
