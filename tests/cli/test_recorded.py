"""`signproxy explain --event`: a request of the past is explained from its audit event."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.cli import main
from signproxy.errors import Check, Reason


def event(**fields: object) -> AuditEvent:
    known: dict[str, object] = {
        "event_id": "e-1",
        "request_id": "r-1",
        "kind": Kind.SIGN,
        "principal": "idp/ann",
        "catalog": "lake",
        "namespace": "sales",
        "table": "orders",
        "bucket": "acme-lake",
        "key": "warehouse/sales/orders/data/f",
        "method": "PUT",
        "s3_op": "PutObject",
        "decision": Verdict.DENY,
        "reason": Reason.NO_WRITE_DATA.code,
        "policy_rev": "abc",
        "http_status": 403,
        "detail": "principal 'idp/ann' lacks TABLE_WRITE_DATA",
    }
    return AuditEvent(**(known | fields))  # type: ignore[arg-type]  # a test builds events from parts


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    """Write a trail with lines of every kind around two events."""
    events = [
        event(event_id="e-0", request_id="has e-1 inside", key="e-1"),
        event(),
        event(
            event_id="e-2",
            request_id="r-2",
            decision=Verdict.ALLOW,
            reason="allowed",
            http_status=200,
            rule_id="w@t",
            detail="",
        ),
        event(event_id="e-3", request_id="r-3", reason="of_the_future"),
        event(
            event_id="e-4",
            request_id="r-4",
            reason="token_missing",
            http_status=401,
            principal="",
            detail="\x1b[2J\u202e",
        ),
        event(event_id="e-5", request_id="r-5", decision=Verdict.ERROR, reason="audit_unavailable", http_status=503),
    ]
    lines = [msgspec.json.encode(each) for each in events]
    file = tmp_path / "audit.ndjson"
    file.write_bytes(b"\n".join([b"no json e-1", b'{"schema":"other/9","event_id":"e-1"}', *lines, lines[0][:50]]))
    return file


def explain(trail: Path, event_id: str, *words: str) -> int:
    return main(["explain", "--event", event_id, "--audit", str(trail), *words])


@pytest.mark.parametrize("asked", ("e-1", "r-1"))
def test_a_denial_is_explained(asked: str, trail: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user with a request id could not be told why it was refused."""
    assert explain(trail, asked, "--json") == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["decision"], found["reason"], found["http_status"]) == ("deny", "no_write_data", 403)
    assert found["fix"] == Reason.NO_WRITE_DATA.value.remedy
    outcomes = {check["check"]: (check["outcome"], check["fact"]) for check in found["checks"]}
    assert outcomes["token"] == ("passed", "principal idp/ann")
    assert outcomes["operation"] == ("passed", "PUT is PutObject")
    assert outcomes["privilege"] == ("failed", "principal 'idp/ann' lacks TABLE_WRITE_DATA")
    assert outcomes["location"] == ("skipped", "")
    assert [check["check"] for check in found["checks"]] == [check.name.lower() for check in Check]


def test_an_allowed_request_is_explained(trail: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An auditor could not see which rule let a request pass."""
    assert explain(trail, "e-2") == 0
    out = capsys.readouterr().out
    assert "allow: allowed" in out
    assert "rule: w@t" in out
    assert out.count("\u2713") == len(Check)


def test_an_error_is_no_permission(trail: Path) -> None:
    """A request that failed would be reported as served."""
    assert explain(trail, "e-5") == 3


def test_what_a_caller_wrote_cannot_act(trail: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An anonymous caller would rewrite the operator's screen."""
    assert explain(trail, "e-4") == 3
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert "\\x1b[2J\\u202e" in out


@pytest.mark.parametrize(
    ("asked", "told"),
    (
        ("e-9", "has no event with the id 'e-9'"),
        ("e-3", "event e-3: reason 'of_the_future' is of another version"),
        ("inside", "has no event with the id 'inside'"),
    ),
)
def test_an_event_that_is_not_there_is_told(
    asked: str, told: str, trail: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some other request would be explained instead."""
    assert explain(trail, asked) == 1
    assert told in capsys.readouterr().err


def test_an_unreadable_trail_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong path would end in a stack trace."""
    assert explain(tmp_path / "none", "e-1") == 1
    assert explain(tmp_path, "e-1") == 1
    assert capsys.readouterr().err.count("cannot be read") == 2
