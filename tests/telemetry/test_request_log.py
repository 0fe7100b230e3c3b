"""Which requests are logged, and that no caller can fill the disk with them."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest

from signproxy.telemetry.families import Counter
from signproxy.telemetry.request_log import (
    BURST,
    LINES_PER_SECOND,
    MAX_NAME_CHARACTERS,
    SUMMARY_SECONDS,
    UNKNOWN_BURST,
    RequestLine,
    RequestLog,
)

DENIED = RequestLine(
    request_id="r-1",
    event_id="e-1",
    principal="idp/etl",
    table="lake.sales.orders",
    op="PutObject",
    decision="deny",
    reason="no_write_data",
    status=403,
    ms=0.123,
)


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(log_lines: io.StringIO, event: str = "") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log_lines.getvalue().splitlines()]
    return [line for line in found if event in ("", line["event"])]


def changed(**fields: object) -> RequestLine:
    return msgspec.structs.replace(DENIED, **fields)


def test_a_refusal_is_one_line_with_what_one_searches_for(log_lines: io.StringIO) -> None:
    """A user sends a request id; the operator finds who, what, where and why with one search."""
    RequestLog().refused(DENIED)
    (line,) = lines(log_lines)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "event": "request refused",
        "logger": "signproxy.requests",
        "request_id": "r-1",
        "event_id": "e-1",
        "principal": "idp/etl",
        "table": "lake.sales.orders",
        "op": "PutObject",
        "decision": "deny",
        "reason": "no_write_data",
        "status": 403,
        "ms": 0.123,
    }


@pytest.mark.parametrize(
    ("status", "level", "event"),
    (
        (403, "warning", "request refused"),
        (429, "warning", "request refused"),
        # A client that went away is no fault of ours.
        (499, "warning", "request refused"),
        (503, "error", "request failed"),
    ),
)
def test_faults_of_ours_are_errors(status: int, level: str, event: str, log_lines: io.StringIO) -> None:
    """An operator who filters by level must find faults, and not a thousand callers' mistakes."""
    RequestLog().refused(changed(status=status))
    (line,) = lines(log_lines)
    assert (line["level"], line["event"]) == (level, event)


def test_a_flood_is_bounded_and_counted(log_lines: io.StringIO) -> None:
    """A job that retries in a loop would fill the disk of the node with its refusals."""
    clock, suppressed = Clock(), Counter()
    log = RequestLog(suppressed=suppressed, clock=clock)
    seconds, each = 60, 1_000
    for _ in range(seconds):
        for _ in range(each):
            log.refused(DENIED)
        clock.now += 1
    log.flush()
    single = lines(log_lines, "request refused")
    summaries = lines(log_lines, "requests not logged one by one")
    assert len(single) <= BURST + seconds * LINES_PER_SECOND
    assert len(single) >= BURST
    assert len(summaries) <= seconds / SUMMARY_SECONDS + 1
    # Every request is told once, in one way or the other.
    assert len(single) + sum(line["count"] for line in summaries) == seconds * each
    assert suppressed.value == seconds * each - len(single)
    assert all(line["reasons"] == {"no_write_data": line["count"]} for line in summaries)
    assert len(log_lines.getvalue()) < 500 * (BURST + seconds * LINES_PER_SECOND + 10)


def test_a_burst_is_seen_whole(log_lines: io.StringIO) -> None:
    """The hundred tasks of a job fail together, and each of them may have failed for another reason."""
    log = RequestLog(clock=Clock())
    for number in range(BURST):
        log.refused(changed(request_id=f"r-{number}"))
    assert [line["request_id"] for line in lines(log_lines)] == [f"r-{number}" for number in range(BURST)]


def test_strangers_cannot_use_up_the_lines_of_known_callers(log_lines: io.StringIO) -> None:
    """A stranger without a token would hide what a job is refused for."""
    log = RequestLog(clock=Clock())
    for _ in range(10_000):
        log.refused(changed(principal="", reason="token_missing", status=401))
    log.refused(DENIED)
    assert len(lines(log_lines)) == UNKNOWN_BURST + 1
    assert lines(log_lines)[-1]["principal"] == "idp/etl"


def test_what_was_counted_is_told_after_the_flood(log_lines: io.StringIO) -> None:
    """The last requests of a flood have no successor that would bring the line about."""
    clock = Clock()
    log = RequestLog(clock=clock)
    for _ in range(BURST):
        log.refused(DENIED)
    log.refused(changed(reason="table_unknown"))
    log.refused(changed(reason="table_unknown"))
    log.refused(DENIED)
    log.roll()
    assert lines(log_lines, "requests not logged one by one") == []
    clock.now += SUMMARY_SECONDS
    log.roll()
    log.roll()
    (line,) = lines(log_lines, "requests not logged one by one")
    assert (line["count"], line["seconds"]) == (3, SUMMARY_SECONDS)
    assert line["reasons"] == {"table_unknown": 2, "no_write_data": 1}
    log.flush()
    assert len(lines(log_lines, "requests not logged one by one")) == 1


def test_names_are_cut_and_harmless(log_lines: io.StringIO) -> None:
    """A path may name a table of 24 KiB, and a terminal shows the log."""
    RequestLog().refused(changed(table="\x1b[2J" + "x" * 24_000, principal="p" * 24_000))
    (line,) = lines(log_lines)
    assert line["principal"] == "p" * MAX_NAME_CHARACTERS
    assert line["table"].startswith("\\x1b[2Jxxx")
    assert len(log_lines.getvalue()) < 2_000


@pytest.mark.parametrize(("sample", "logged"), ((0, []), (1, [0, 1, 2, 3, 4, 5, 6]), (3, [0, 3, 6])))
def test_a_sample_of_what_is_served(sample: int, logged: list[int], log_lines: io.StringIO) -> None:
    """All of it would be more than the audit trail; none of it hides that the server works at all."""
    log = RequestLog(allowed_sample=sample)
    assert log.samples is bool(sample)
    for number in range(7):
        if log.samples and log.takes():
            log.allowed(changed(request_id=str(number), status=200, decision="allow", reason="allowed"))
    assert [int(line["request_id"]) for line in lines(log_lines, "request served")] == logged
    assert {line["level"] for line in lines(log_lines)} <= {"info"}
