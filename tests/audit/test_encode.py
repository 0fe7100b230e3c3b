"""What stands in the file: complete lines, whatever a caller put into the event."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.audit.encode import cut
from signproxy.audit.event import MAX_TEXT_BYTES, MAX_USER_AGENT_BYTES, SCHEMA, AuditEvent, Kind, Verdict, rfc3339
from signproxy.errors import Reason
from tests.audit.events import an_event, decoded, encoded, refusal

AT = 1_800_000_000.25


def lines_of(*events: AuditEvent) -> bytes:
    return encoded("BOOT", [(seq, AT, event) for seq, event in enumerate(events, 1)])


def line_of(event: AuditEvent) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(lines_of(event))
    return line


def test_a_line_is_flat_and_says_what_it_is() -> None:
    """The pipeline reads columns by these names, and the version from the line alone."""
    line = line_of(an_event(roles=("reader", "writer")))
    assert list(line)[:6] == ["schema", "event_id", "boot_id", "seq", "ts", "kind"]
    assert line["schema"] == SCHEMA == "signproxy.audit/1"
    assert (line["boot_id"], line["seq"], line["kind"], line["decision"]) == ("BOOT", 1, "sign", "allow")
    assert line["roles"] == ["reader", "writer"]
    assert not [value for value in line.values() if isinstance(value, dict)]


def test_what_every_reader_relies_on_is_always_there() -> None:
    """A field that is left out where it is zero or empty would read as one that was never recorded."""
    bare = AuditEvent(event_id="E", kind=Kind.CONFIG, decision=Verdict.DENY, reason="", policy_rev="", http_status=0)
    required = {"schema", "event_id", "boot_id", "seq", "ts", "kind", "decision", "reason", "policy_rev", "http_status"}
    assert set(line_of(bare)) == required


@pytest.mark.parametrize(
    ("at", "expected"),
    (
        (1_800_000_000.25, "2027-01-15T08:00:00.250000Z"),
        # On the second the microseconds stay: text that sorts needs one length.
        (1_800_000_000.0, "2027-01-15T08:00:00.000000Z"),
        (1_799_999_999.9999998, "2027-01-15T07:59:59.999999Z"),
    ),
)
def test_times_have_microseconds_and_sort_as_text(at: float, expected: str) -> None:
    """Mixed precision breaks both sorting and Spark's timestamp format."""
    (event,) = decoded(encoded("BOOT", [(1, at, refusal())]))
    assert event.ts == expected
    assert datetime.fromisoformat(event.ts).tzinfo == UTC


def test_expiries_are_written_as_times_are() -> None:
    """One parser for all times of an event."""
    assert rfc3339(1_800_000_000) == "2027-01-15T08:00:00Z"


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=4),
    st.integers(0, 2**53),
)
def test_whatever_a_caller_sent_comes_back_unchanged(text: str, many: list[str], number: int) -> None:
    """An audit line that changes what it records is no evidence."""
    event = an_event(key=text, roles=tuple(many), total_us=number, principal=text)
    lines = lines_of(event)
    assert lines.count(b"\n") == 1
    assert decoded(lines) == [event]
    line = json.loads(lines)
    assert (line["key"] if text else "") == text


@pytest.mark.parametrize(
    "text",
    (
        "\x1b[2J\x1b]0;title\x07",
        "\x7f",
        "\x9b31m",  # CSI in one character, which 8-bit terminals obey
        "part\u202ekcehc.gnp",  # reads backwards
        "a\u2066b\u2069",
        "zero\u200bwidth",
        "line\u2028separator",
        "tag\U000e0041",
    ),
)
def test_no_line_acts_on_the_terminal_that_shows_it(text: str) -> None:
    """`tail -f` on the trail must not let a caller write to the operator's terminal, nor hide a key."""
    lines = lines_of(an_event(key=text, user_agent=text))
    assert lines.decode().removesuffix("\n").isprintable()
    assert decoded(lines)[0].key == text


@pytest.mark.parametrize("field", ("key", "user_agent", "principal", "detail", "request_id"))
def test_a_lone_surrogate_does_not_lose_the_event(field: str) -> None:
    r"""Header bytes that are no UTF-8 arrive as lone surrogates; they stay visible as ``\udcNN``."""
    lines = lines_of(refusal(), an_event(**{field: "a\udcffb", "roles": ("r\udc80",)}), refusal())
    events = decoded(lines)
    assert len(events) == 3
    assert getattr(events[1], field) == "a\\udcffb"
    assert events[1].roles == ("r\\udc80",)


@pytest.mark.parametrize(
    ("user_agent", "kept"),
    (
        ("a" * MAX_USER_AGENT_BYTES, MAX_USER_AGENT_BYTES),
        ("a" * (MAX_USER_AGENT_BYTES + 1), MAX_USER_AGENT_BYTES),
        # Three bytes each: 85 whole characters fit into 256 bytes, and none is torn.
        ("\u20ac" * 85, 85),
        ("\u20ac" * 86, 85),
        ("\udcff" * 300, 42),
    ),
)
def test_a_user_agent_is_kept_to_256_bytes(user_agent: str, kept: int) -> None:
    """It is the one header that every caller fills freely."""
    recorded = decoded(lines_of(an_event(user_agent=user_agent)))[0].user_agent
    assert len(recorded.encode()) <= MAX_USER_AGENT_BYTES
    assert recorded.startswith("a" if user_agent[0] == "a" else recorded[:1])
    assert len(recorded) in (kept, kept * 6, kept * 6 + 4)


@pytest.mark.parametrize(
    "field",
    (
        *("detail", "key", "bucket", "namespace", "table", "method", "request_id", "rule_id"),
        *("application", "query_id"),
    ),
)
def test_a_huge_field_does_not_make_a_huge_line(field: str) -> None:
    """A refused request of 64 KiB must cost the disk no more than any other."""
    lines = lines_of(an_event(), an_event(**{field: "x" * 60_000}), an_event())
    events = decoded(lines)
    assert len(getattr(events[1], field)) == MAX_TEXT_BYTES
    assert len(lines) < 8192
    assert events[0].key == events[2].key == an_event().key


def test_the_longest_key_of_s3_is_kept_whole() -> None:
    """Cut, two objects would become one in the trail."""
    key = "k" * 1024
    assert decoded(lines_of(an_event(key=key, detail="d" * 9000)))[0].key == key


def test_a_principal_is_never_cut() -> None:
    """Two principals that share a beginning would become one."""
    principal = "idp/" + "p" * 9000
    assert decoded(lines_of(an_event(principal=principal)))[0].principal == principal


@pytest.mark.parametrize("wrong", (object(), b"bytes\xff", None, 2**70, ("nested", object())))
@pytest.mark.parametrize("field", ("detail", "total_us", "user_agent"))
def test_an_event_with_a_wrong_value_leaves_a_trace(field: str, wrong: object) -> None:
    """A fault in signproxy must not swallow the evidence of a request that was served, nor of its neighbours."""
    odd = an_event()
    setattr(odd, field, wrong)
    lines = [json.loads(line) for line in lines_of(an_event(), odd, an_event()).splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert lines[1]["event_id"] == odd.event_id
    assert lines[1]["principal"] == "idp/alice"
    assert lines[0]["reason"] == lines[2]["reason"] == "allowed"


@pytest.mark.parametrize(("text", "limit", "expected"), (("abc", 3, "abc"), ("abcd", 3, "abc"), ("a\u20ac", 3, "a")))
def test_cutting_keeps_whole_characters(text: str, limit: int, expected: str) -> None:
    """Half a character is no text, and would break every reader of the line."""
    assert cut(text, limit) == expected


def test_every_reason_code_and_kind_can_be_read_back() -> None:
    """The pipeline's enumerations are these; a code that does not survive the line is lost to it."""
    events = [refusal(reason.code) for reason in Reason]
    assert [event.reason for event in decoded(lines_of(*events))] == [reason.code for reason in Reason]
    kinds = [an_event(kind=kind) for kind in Kind]
    assert [event.kind for event in decoded(lines_of(*kinds))] == list(Kind)


def test_a_line_of_another_schema_is_not_taken_for_ours() -> None:
    """A reader that half understands a later version reports wrong facts."""
    other = lines_of(refusal()).replace(SCHEMA.encode(), b"signproxy.audit/2")
    with pytest.raises(msgspec.ValidationError):
        decoded(other)
