"""What the status says: the verdict, what is wrong, and what to do."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest

from signproxy.diagnosis import Urgency
from signproxy.errors import Reason
from signproxy.server.status.readiness import Readiness
from signproxy.server.status.report import FleetReport, KeysReport, ReloadReport
from signproxy.server.status.status import SHOWN_REFUSALS, State, Status, as_json, grouped, status_of
from signproxy.server.status.times import ago, ahead, moment, span
from tests.server.status.reports import (
    AUDIT,
    CERTIFICATE,
    CREDENTIALS,
    DAY,
    HOUR,
    KEYS,
    NOW,
    REFUSAL,
    fleet,
    hostile_fleet,
    worker,
)

SINCE = "2027-01-15 07:00:00 UTC (60 min ago)"
JUST_NOW = "2027-01-15 07:59:00 UTC, 60 s ago"

changed = msgspec.structs.replace


def seen(report: FleetReport, *, started: bool = True) -> Status:
    readiness = Readiness()
    if started:
        readiness.judge(fleet())
    return status_of(report, readiness.judge(report), NOW)


# -- the verdict -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "state", "verdict"),
    (
        (
            fleet(worker(0), worker(1)),
            State.READY,
            f"Ready. Policy 5f2c9d01ab34 in force on 2 of 2 workers since {SINCE}.",
        ),
        (fleet(), State.READY, f"Ready. Policy 5f2c9d01ab34 in force since {SINCE}."),
        (
            fleet(worker(0), wanted_workers=2),
            State.READY_BUT,
            f"Ready, with problems. Policy 5f2c9d01ab34 in force on 1 of 2 workers since {SINCE}.",
        ),
        (
            fleet(worker(problems={"audit": "disk full", "credentials": "lake: expired"})),
            State.NOT_READY,
            f"Not ready: credentials, audit. Policy 5f2c9d01ab34 in force since {SINCE}.",
        ),
        (
            fleet(draining=True),
            State.DRAINING,
            "Draining. It finishes what it has (1 in flight) and then ends; clients are sent elsewhere.",
        ),
        (fleet(workers=(), wanted_workers=2), State.NOT_READY, "Not ready: workers. No policy is in force."),
    ),
)
def test_the_first_sentence_answers_the_first_question(report: FleetReport, state: State, verdict: str) -> None:
    """An operator who was woken up reads one line before deciding what to do."""
    status = seen(report)
    assert (status.state, status.verdict) == (state, verdict)


def test_a_server_that_has_never_been_ready_says_so() -> None:
    """A start that takes long is not an outage."""
    status = seen(fleet(worker(problems={"token keys": "idp: connection refused"})), started=False)
    assert status.verdict.startswith("Not ready yet: token keys. ")
    assert not status.started


def test_nothing_is_wrong_where_all_is_well() -> None:
    """A page that always complains is not read."""
    assert seen(fleet(worker(0), worker(1))).troubles == ()


# -- what is wrong -----------------------------------------------------------------------------------------------------

DROPPED = changed(AUDIT, dropped=5)
UNSHIPPED = changed(AUDIT, waiting=7, shipping_problem="the store answered 403 AccessDenied to PUT")
FAILED = ReloadReport(
    NOW - 60, accepted=False, seconds=0.1, findings=("policy.yaml: grants[4].role: no role 'reeder'",)
)
PENDING = ReloadReport(NOW - 60, accepted=True, seconds=0.1, needs_restart=("listen.port: 8181 -> 8182",))

TROUBLES: tuple[tuple[str, FleetReport, Urgency, str, str], ...] = (
    (
        "a check",
        fleet(worker(problems={"audit": "No space left on device"})),
        Urgency.WRONG,
        "audit: No space left on device",
        "volume",
    ),
    (
        "a check of some workers",
        fleet(*(worker(n, problems={"audit": "disk full" if n else ""}) for n in range(3))),
        Urgency.WRONG,
        "audit: disk full (workers 1, 2)",
        "volume",
    ),
    (
        "a missing worker",
        fleet(worker(0), wanted_workers=2),
        Urgency.WRONG,
        "workers: 1 of 2 answer",
        "replaced",
    ),
    (
        "a refused reload",
        fleet(last_reload=FAILED),
        Urgency.WRONG,
        f"the last reload was not taken over ({JUST_NOW}); what is in force is that of 2027-01-15 07:00:00 UTC",
        "check-config",
    ),
    (
        "a setting that waits for a restart",
        fleet(last_reload=PENDING),
        Urgency.LOOK,
        f"settings changed that are read at the start only ({JUST_NOW})",
        "Restart",
    ),
    (
        "keys that could not be fetched",
        fleet(worker(keys=(changed(KEYS, age=3 * HOUR, last_error="timed out", failures=9),))),
        Urgency.LOOK,
        "keys of issuer idp could not be fetched; those in use are 3 h old",
        "24 h",
    ),
    (
        "credentials that could not be renewed",
        fleet(worker(credentials=(changed(CREDENTIALS, problem="denied", failures=4),))),
        Urgency.LOOK,
        "credentials of lake could not be renewed 4 times; those in use expire in 60 min",
        "provider",
    ),
    (
        "credentials of a bucket that do not expire",
        fleet(worker(credentials=(changed(CREDENTIALS, bucket="b", expires_at=None, problem="denied", failures=1),))),
        Urgency.LOOK,
        "credentials of lake, bucket b could not be renewed 1 times; those in use do not expire",
        "provider",
    ),
    (
        "a certificate that expired",
        fleet(worker(certificates=(changed(CERTIFICATE, expires_at=NOW - HOUR),))),
        Urgency.WRONG,
        "the certificate of listen expired 60 min ago",
        "without a restart",
    ),
    (
        "a certificate that ends soon",
        fleet(worker(certificates=(changed(CERTIFICATE, expires_at=NOW + 6 * DAY, loaded_at=NOW - 80 * DAY),))),
        Urgency.LOOK,
        "the certificate of listen expires in 6 d",
        "without a restart",
    ),
    (
        "a short certificate in its last fifth",
        fleet(worker(certificates=(changed(CERTIFICATE, expires_at=NOW + 4 * HOUR, loaded_at=NOW - 20 * HOUR),))),
        Urgency.LOOK,
        "the certificate of listen expires in 4 h",
        "without a restart",
    ),
    (
        "segments that are not shipped",
        fleet(worker(audit=UNSHIPPED), worker(1)),
        Urgency.LOOK,
        "7 sealed audit segments are not shipped",
        "goes with the pod",
    ),
    (
        "lost events",
        fleet(worker(audit=DROPPED)),
        Urgency.WRONG,
        "5 audit events were lost since the start",
        "`seq`",
    ),
    (
        "a late loop",
        fleet(worker(0, lag_seconds=1.5), worker(1)),
        Urgency.LOOK,
        "the event loop was late by 1.5 s (worker 0)",
        "CPU",
    ),
    (
        "a worker that died",
        fleet(worker(0), worker(1, started_at=NOW - 600), restarts=2),
        Urgency.LOOK,
        "a worker ended unasked and was replaced 10 min ago; 2 did since the start",
        "log",
    ),
)


@pytest.mark.parametrize(("_name", "report", "weight", "what", "remedy"), TROUBLES, ids=[name for name, *_ in TROUBLES])
def test_what_is_wrong_is_told_with_what_to_do(
    _name: str, report: FleetReport, weight: Urgency, what: str, remedy: str
) -> None:
    """A number in a table is not seen by a reader who does not know what it should be."""
    (trouble,) = seen(report).troubles
    assert (trouble.weight, str(trouble)) == (weight, what)
    assert remedy in trouble.remedy


def test_the_findings_of_a_refused_reload_are_told() -> None:
    """They name the file and the line; without them one has to search the log."""
    assert seen(fleet(last_reload=FAILED)).troubles[0].details == FAILED.findings
    assert seen(fleet(last_reload=PENDING)).troubles[0].details == PENDING.needs_restart


@pytest.mark.parametrize(
    "report",
    (
        # Short by design, and fresh.
        fleet(worker(certificates=(changed(CERTIFICATE, expires_at=NOW + 20 * HOUR, loaded_at=NOW - 4 * HOUR),))),
        # Long ago.
        fleet(worker(0), worker(1), restarts=7),
        fleet(worker(lag_seconds=0.9)),
        # An issuer without keys is a failing check, not a second trouble.
        fleet(worker(keys=(KeysReport("idp", 0, math.inf, 3, "refused"),))),
        fleet(worker(keys=(changed(KEYS, failures=3),))),
    ),
)
def test_what_is_no_trouble_is_not_told(report: FleetReport) -> None:
    """A page that cries wolf is not believed."""
    assert seen(report).troubles == ()


def test_the_worst_comes_first() -> None:
    """A page is read from its top."""
    report = fleet(worker(lag_seconds=3.0, audit=DROPPED, problems={"audit": "disk full"}), last_reload=PENDING)
    weights = [trouble.weight for trouble in seen(report).troubles]
    assert weights == [Urgency.WRONG, Urgency.WRONG, Urgency.LOOK, Urgency.LOOK]


# -- everything known --------------------------------------------------------------------------------------------------


def test_of_several_workers_the_worst_is_shown() -> None:
    """Eight workers with three issuers would be a table that is not read."""
    bad_keys = KeysReport("idp", 1, 900.0, 4, "timed out")
    bad = worker(
        1,
        keys=(bad_keys,),
        credentials=(changed(CREDENTIALS, expires_at=NOW + 60, failures=2),),
        certificates=(changed(CERTIFICATE, expires_at=NOW + DAY),),
    )
    status = seen(fleet(worker(0), bad, worker(2)))
    assert status.keys == (bad_keys,)
    assert [(each.expires_at, each.failures) for each in status.credentials] == [(NOW + 60, 2)]
    assert [each.expires_at for each in status.certificates] == [NOW + DAY]
    missing = worker(0, credentials=(changed(CREDENTIALS, expires_at=0.0),))
    unlimited = worker(1, credentials=(changed(CREDENTIALS, expires_at=None),))
    assert seen(fleet(unlimited, missing)).credentials[0].expires_at == 0


def test_workers_are_shown_in_their_order() -> None:
    """A replaced worker reports last, and rows that swap places between two looks are misread."""
    status = seen(fleet(worker(2), worker(0), worker(1)))
    assert [each.worker for each in status.fleet.workers] == [0, 1, 2]


def test_refusals_that_are_alike_are_one_with_the_newest() -> None:
    """A job that retries a hundred times hides what another was refused for."""
    refusals = [changed(REFUSAL, at=NOW - second, event_id=str(second)) for second in (9, 3, 5)]
    other = changed(REFUSAL, at=NOW - 4, reason="token_expired", principal="")
    first, second = grouped([*refusals, other])
    assert (first.count, first.last.event_id) == (3, "3")
    assert (second.count, second.last) == (1, other)
    assert first.status == 403
    assert first.meaning == Reason.NO_WRITE_DATA.value.meaning
    assert first.remedy == Reason.NO_WRITE_DATA.value.remedy


@pytest.mark.parametrize("field", ("reason", "principal", "catalog", "table", "operation"))
def test_refusals_that_differ_stay_apart(field: str) -> None:
    """Two callers with the same trouble are two callers."""
    assert len(grouped([REFUSAL, changed(REFUSAL, **{field: "another"})])) == 2


def test_of_all_workers_the_newest_refusals_are_shown() -> None:
    """Each worker keeps its own."""
    workers = [
        worker(
            number,
            refusals=tuple(
                changed(REFUSAL, at=NOW - 10 * each - number, table=f"{number}.{each}") for each in range(40)
            ),
        )
        for number in range(3)
    ]
    groups = seen(fleet(*workers)).refusals
    ages = [NOW - group.last.at for group in groups]
    assert len(groups) == SHOWN_REFUSALS
    assert ages == sorted(10 * each + number for each in range(40) for number in range(3))[:SHOWN_REFUSALS]


def test_a_reason_that_is_not_known_is_shown_as_it_is() -> None:
    """Workers of a newer version may know more reasons."""
    (group,) = grouped([changed(REFUSAL, reason="from_the_future")])
    assert (group.status, group.meaning, group.remedy) == (403, "", "")


# -- JSON --------------------------------------------------------------------------------------------------------------


def parsed(report: FleetReport) -> Any:
    return json.loads(as_json(seen(report)))


def test_json_holds_what_the_page_does() -> None:
    """A script that has to read the page breaks with its next sentence."""
    document = parsed(fleet(worker(refusals=(REFUSAL,), lag_seconds=2.0)))
    assert document["state"] == "ready, with problems"
    assert document["verdict"].startswith("Ready, with problems. ")
    assert [trouble["weight"] for trouble in document["troubles"]] == ["look"]
    assert document["fleet"]["workers"][0]["policy_rev"] == "5f2c9d01ab34"
    assert document["fleet"]["last_reload"]["changes"] == ["grant reader on catalog lake added"]
    assert document["refusals"][0]["last"]["event_id"] == "event-1"
    assert document["refusals"][0]["remedy"] == Reason.NO_WRITE_DATA.value.remedy
    assert {check["name"] for check in document["checks"]} >= {"draining", "credentials", "audit"}
    # A scrape has them.
    assert document["fleet"]["workers"][0]["metrics"] == []


def test_json_is_whole_and_harmless_whatever_it_holds() -> None:
    """It is printed on a terminal, and the names in it are of others."""
    raw = as_json(seen(hostile_fleet()))
    assert all(line.isprintable() for line in raw.decode().split("\n"))
    document = json.loads(raw)
    names = {group["last"]["principal"] for group in document["refusals"]}
    # As they are, for programs; only what JSON has no place for is written out.
    assert any(name.endswith("\x9b31m\\udcff\ufeff") for name in names)


def test_what_never_was_is_null_in_json() -> None:
    """JSON has no infinity, and a reader that chokes on one is blind when it matters."""
    document = parsed(fleet(worker(keys=(KeysReport("idp", 0, math.inf, 3, "refused"),))))
    assert document["keys"][0]["age"] is None


# -- times -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    (
        (0, "0 s"),
        (59.6, "60 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3_600, "60 min"),
        (7_199, "120 min"),
        (7_200, "2 h"),
        (DAY, "24 h"),
        (2 * DAY, "2 d"),
        (400 * DAY, "400 d"),
        (-300, "5 min"),
        (math.inf, "for ever"),
    ),
)
def test_a_span_has_the_unit_that_fits(seconds: float, text: str) -> None:
    """`1 h` for everything between 30 and 90 minutes does not help an operator who compares it with a log."""
    assert span(seconds) == text


def test_moments_are_in_utc() -> None:
    """The log and the audit trail are, and the operator who compares them sits somewhere else."""
    assert moment(NOW) == "2027-01-15 08:00:00 UTC"
    assert [moment(each) for each in (0.0, -1.0, math.inf, math.nan)] == ["never"] * 4
    assert moment(1e300).endswith(" s")


def test_before_and_ahead_are_told_apart() -> None:
    """A certificate that expired an hour ago is not one that expires in an hour."""
    assert (ago(3_600), ago(0.2), ago(-5)) == ("60 min ago", "just now", "just now")
    assert (ahead(3_600), ahead(-3_600)) == ("in 60 min", "60 min ago")
