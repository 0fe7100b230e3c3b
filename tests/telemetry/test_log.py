"""What stands in a log line, and what never does."""

from __future__ import annotations

import io
import json
import sys
from enum import Enum
from typing import Any

import pytest

from signproxy.telemetry import log
from signproxy.telemetry.log import LogThreshold, configure, get_logger, never_log


def lines(log_lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_lines.getvalue().splitlines()]


@never_log
class Hidden:
    """A type that must not be shown, with a representation that gives everything away."""

    def __repr__(self) -> str:
        return "s3cret"


class Colour(Enum):
    """A closed set."""

    RED = "red"


def test_a_line_is_json_with_time_level_and_event_first(log_lines: io.StringIO) -> None:
    """Collectors parse lines; people read their beginnings."""
    get_logger("signproxy.x").info("policy loaded", tables=3)
    (line,) = lines(log_lines)
    assert list(line)[:3] == ["ts", "level", "event"]
    assert (line["level"], line["event"], line["logger"], line["tables"]) == ("info", "policy loaded", "signproxy.x", 3)
    assert line["ts"].endswith("Z")


@pytest.mark.parametrize("level", LogThreshold)
def test_only_the_level_and_above_is_written(level: LogThreshold, log_lines: io.StringIO) -> None:
    """Debug lines of a busy server are more than its disk holds."""
    configure(level, log_lines)
    logger = get_logger("x")
    for write in (logger.debug, logger.info, logger.warning, logger.error):
        write("event")
    assert [line["level"] for line in lines(log_lines)] == [
        each.value for each in list(LogThreshold)[list(LogThreshold).index(level) :]
    ]


def test_a_logger_that_exists_follows_the_settings(log_lines: io.StringIO) -> None:
    """Rooms make theirs at import, before the settings are read."""
    logger = get_logger("x")
    logger.info("first")
    other = io.StringIO()
    configure(LogThreshold.WARNING, other)
    logger.info("second")
    logger.warning("third")
    assert [line["event"] for line in lines(log_lines)] == ["first"]
    assert [line["event"] for line in lines(other)] == ["third"]


def test_a_bound_field_is_in_every_line(log_lines: io.StringIO) -> None:
    """With the request id all lines of a request are found."""
    logger = get_logger("x").bind(request_id="r-1")
    logger.info("one")
    logger.error("two", status=503)
    assert [(line["request_id"], line["logger"]) for line in lines(log_lines)] == [("r-1", "x")] * 2


def test_lines_go_to_standard_error_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output may be the audit trail, where a log line would be a corrupt event."""
    configure()
    get_logger("x").info("hello")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["event"] == "hello"


@pytest.mark.parametrize(
    "value",
    (
        Hidden(),
        [Hidden()],
        {"deep": {"deeper": (Hidden(),)}},
        {Hidden()},
        # Deeper than a line is looked into.
        [[[[[[Hidden()]]]]]],
    ),
)
def test_a_secret_type_never_shows(log_lines: io.StringIO, value: object) -> None:
    """The author of a log line does not think of what lies inside a structure."""
    get_logger("x").info("event", value=value)
    assert "s3cret" not in log_lines.getvalue()


@pytest.mark.parametrize(
    "name",
    ("authorization", "Authorization", "bearer_token", "secret_access_key", "password", "set_cookie", "signature"),
)
def test_a_field_named_like_a_secret_never_shows(log_lines: io.StringIO, name: str) -> None:
    """A header dump is the usual way for tokens to get into logs."""
    get_logger("x").info("event", **{name: "s3cret"}, headers={name: "s3cret"})
    assert "s3cret" not in log_lines.getvalue()


def test_numbers_under_such_names_stay(log_lines: io.StringIO) -> None:
    """The length of a token is what one needs to know when it is too long."""
    get_logger("x").info("event", token_bytes=17_000, credentials_expire=None)
    (line,) = lines(log_lines)
    assert (line["token_bytes"], line["credentials_expire"]) == (17_000, None)


def test_an_exception_brings_its_trace(log_lines: io.StringIO) -> None:
    """Without it a fault in production cannot be found."""
    empty: dict[str, int] = {}
    try:
        _ = empty["which one"]
    except KeyError:
        get_logger("x").exception("request failed", request_id="r-1")
    (line,) = lines(log_lines)
    assert (line["level"], line["request_id"]) == ("error", "r-1")
    assert "KeyError: 'which one'" in line["exception"]
    assert "test_log.py" in line["exception"]


def test_a_strangers_text_cannot_act_on_the_terminal(log_lines: io.StringIO) -> None:
    """Keys and user agents are logged too, and `kubectl logs` shows them raw."""
    get_logger("x").info("event", key="\x1b[2J\x9b\u202e", nested=["\x07"], **{"\x1bname": 1})
    assert log_lines.getvalue().removesuffix("\n").isprintable()
    (line,) = lines(log_lines)
    assert line["key"] == "\\x1b[2J\\x9b\\u202e"


@pytest.mark.parametrize("value", ("\udcff", b"\xff", object, Colour.RED, 1.5, True, None, float("nan"), 2**80))
def test_any_value_can_be_logged(log_lines: io.StringIO, value: object) -> None:
    """A log line that raises turns a warning into an outage."""
    get_logger("x").info("event", value=value)
    assert len(lines(log_lines)) == 1


def test_an_enum_is_logged_as_its_value(log_lines: io.StringIO) -> None:
    """The same word in code, settings and log."""
    get_logger("x").info("event", colour=Colour.RED)
    assert lines(log_lines)[0]["colour"] == "red"


def test_a_huge_value_makes_no_huge_line(log_lines: io.StringIO) -> None:
    """A refused request of 64 KiB must not become a log line of 64 KiB."""
    get_logger("x").info("event", value="x" * 100_000)
    assert len(log_lines.getvalue()) < 2 * log.MAX_VALUE_CHARACTERS


def test_the_stream_is_looked_up_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that redirects standard error after the first line means the others too."""
    configure()
    logger = get_logger("x")
    first, second = io.StringIO(), io.StringIO()
    for stream in (first, second):
        monkeypatch.setattr(sys, "stderr", stream)
        logger.info("event")
    assert (len(lines(first)), len(lines(second))) == (1, 1)
