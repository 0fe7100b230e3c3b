"""What credentials hold, and that it stays in them."""

from __future__ import annotations

import copy
import io
import json
import math
import pickle
import traceback

import msgspec
import pytest

from signproxy.credentials.credentials import Credentials, redacted_id
from signproxy.errors import ProviderInvalid
from signproxy.telemetry.log import configure, get_logger

KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOKEN = "IQoJb3JpZ2luX2VjEXAMPLETOKEN=="


@pytest.fixture
def credentials() -> Credentials:
    return Credentials(KEY_ID, SECRET, TOKEN, 1_800_000_000.0)


def test_they_hold_what_they_were_given(credentials: Credentials) -> None:
    """The signer reads these four."""
    held = (credentials.access_key_id, credentials.secret_access_key, credentials.session_token, credentials.expires_at)
    assert held == (KEY_ID, SECRET, TOKEN, 1_800_000_000.0)
    assert (Credentials(KEY_ID, SECRET).session_token, Credentials(KEY_ID, SECRET).expires_at) == ("", None)


def test_no_way_of_showing_them_shows_a_secret(credentials: Credentials) -> None:
    """Logs, traces, debuggers and f-strings all end in one of these."""
    shown = [repr(credentials), str(credentials), f"{credentials}", f"{credentials!s:>300}", f"{[credentials]}"]
    shown.append("%s %r" % (credentials, {"held": credentials}))  # noqa: UP031 - the way of old loggers
    for text in shown:
        assert SECRET not in text
        assert TOKEN not in text
        assert KEY_ID not in text
        assert "MPLE" in text


def test_a_trace_shows_no_secret(credentials: Credentials) -> None:
    """A trace with local variables is what error collectors send away."""
    held = credentials

    def fails() -> None:
        local = held
        raise LookupError(local)

    with pytest.raises(LookupError) as caught:
        fails()
    described = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert SECRET not in "".join(described.format()).replace(f"SECRET = {SECRET!r}", "")


@pytest.mark.parametrize(
    "attempt",
    (pickle.dumps, copy.copy, copy.deepcopy, json.dumps, msgspec.json.encode, msgspec.to_builtins, vars, dict, iter),
    ids=lambda each: each.__name__,
)
def test_generic_code_cannot_take_them_apart(credentials: Credentials, attempt: object) -> None:
    """Serialisers and state dumps look into everything they meet."""
    assert callable(attempt)
    with pytest.raises(TypeError) as caught:
        attempt(credentials)
    assert SECRET not in str(caught.value)


def test_a_dump_that_falls_back_to_text_shows_no_secret(credentials: Credentials) -> None:
    """`default=str` is how most JSON logs are written."""
    assert SECRET not in json.dumps({"held": credentials}, default=str)


def test_a_log_line_drops_them(credentials: Credentials) -> None:
    """A line that logs the wrong variable must not publish the keys of the lake."""
    stream = io.StringIO()
    configure(stream=stream)
    get_logger("x").info("event", value=credentials, nested=[{"deep": credentials}])
    configure()
    assert "MPLE" not in stream.getvalue()


def test_they_have_no_room_for_more(credentials: Credentials) -> None:
    """Without a dictionary there is nothing for a generic dump to find."""
    assert not hasattr(credentials, "__dict__")
    with pytest.raises(AttributeError):
        credentials.secret_access_key = "other"


@pytest.mark.parametrize(
    ("other", "equal"),
    (
        (Credentials(KEY_ID, SECRET, TOKEN, 1_800_000_000.0), True),
        (Credentials(KEY_ID, SECRET + "x", TOKEN, 1_800_000_000.0), False),
        (Credentials(KEY_ID + "x", SECRET, TOKEN, 1_800_000_000.0), False),
        (Credentials(KEY_ID, SECRET, "", 1_800_000_000.0), False),
        (Credentials(KEY_ID, SECRET, TOKEN, None), False),
        (SECRET, False),
    ),
)
def test_they_are_equal_only_in_everything(credentials: Credentials, other: object, equal: bool) -> None:
    """A rotation that changes one part must reach the signer."""
    assert (credentials == other) is equal
    assert not equal or hash(credentials) == hash(other)


@pytest.mark.parametrize(
    ("arguments", "field"),
    (
        (("", SECRET), "access_key_id"),
        ((KEY_ID, ""), "secret_access_key"),
        # Pasted with a line end, or with the quotation marks of a word processor.
        ((KEY_ID + "\n", SECRET), "access_key_id"),
        ((KEY_ID, SECRET + " x"), "secret_access_key"),
        ((KEY_ID, "\u201c" + SECRET), "secret_access_key"),
        ((KEY_ID, SECRET, "token\r\nX-Header: 1"), "session_token"),
        ((KEY_ID, SECRET, "", math.inf), "expires_at"),
        ((KEY_ID, SECRET, "", math.nan), "expires_at"),
    ),
)
def test_what_cannot_sign_is_refused_by_field_without_its_value(arguments: tuple[str, ...], field: str) -> None:
    """Otherwise the store answers every request with `SignatureDoesNotMatch`, and gives no reason."""
    with pytest.raises(ProviderInvalid) as caught:
        Credentials(*arguments)  # type: ignore[arg-type]  # the rows differ
    assert [finding.path for finding in caught.value.findings] == [field]
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("key_id", "shown"),
    (
        (KEY_ID, "…MPLE"),
        ("twelve-chars", "…hars"),
        # Four of eleven characters are too much of a key id that an operator chose.
        ("eleven-char", "…"),
        ("minio", "…"),
    ),
)
def test_of_a_key_id_only_the_end_is_shown(key_id: str, shown: str) -> None:
    """Enough to tell two keys apart, too little to use."""
    assert redacted_id(key_id) == shown
