"""What of an upstream's error a client is told."""

from __future__ import annotations

import json

import pytest

from signproxy.catalog.upstream_error import MAX_TEXT, error_of, oauth_error_of


def test_an_iceberg_error_keeps_its_words_and_gets_the_status_as_code() -> None:
    """Java acts on the code in the body: one that differs from the status is another exception."""
    said = {"error": {"message": "m", "type": "NoSuchTableException", "code": 200, "stack": ["at x"], "more": 1}}
    error = error_of(404, json.dumps(said).encode())
    assert error.type == "NoSuchTableException"
    assert json.loads(error.body) == {"error": {"message": "m", "type": "NoSuchTableException", "code": 404}}


@pytest.mark.parametrize(
    "content",
    (
        b"",
        b"<html>",
        b"null",
        b"[]",
        b'"x"',
        b'{"error": "x"}',
        b'{"error": {"message": 1, "type": "T"}}',
        b'{"error": {"message": "m"}}',
        b'{"message": "m"}',
        b"\xff",
        b"[" * 20_000,
    ),
)
@pytest.mark.parametrize(
    ("status", "kind"), ((401, "NotAuthorizedException"), (404, "NotFoundException"), (502, "ServiceFailureException"))
)
def test_anything_else_becomes_one(content: bytes, status: int, kind: str) -> None:
    """A client's parser would fail on it, and its user see a trace instead of a status."""
    error = error_of(status, content)
    # No type of the upstream's: nothing may be learned from it.
    assert error.type == ""
    told = json.loads(error.body)["error"]
    assert told == {"message": f"The catalog answered with status {status}", "type": kind, "code": status}


def test_a_message_is_bounded() -> None:
    """Servers put whole requests into their messages, and clients write them into logs."""
    said = {"error": {"message": "x" * 100_000, "type": "y" * 100_000, "code": 1}}
    told = json.loads(error_of(400, json.dumps(said).encode()).body)["error"]
    assert (len(told["message"]), len(told["type"])) == (MAX_TEXT, MAX_TEXT)


def test_a_message_may_be_left_out() -> None:
    """The type alone says what to do."""
    told = json.loads(error_of(409, b'{"error": {"type": "CommitFailedException"}}').body)["error"]
    assert told == {"message": "", "type": "CommitFailedException", "code": 409}


@pytest.mark.parametrize(
    ("content", "told"),
    (
        (b'{"error": "invalid_client", "error_uri": "u", "trace": "t"}', {"error": "invalid_client", "error_uri": "u"}),
        (b'{"error": "invalid_client", "error_description": 7}', {"error": "invalid_client"}),
        (
            b'{"error": {"message": "m", "type": "T"}}',
            {"error": {"message": "m", "type": "T", "code": 400}},
        ),
        (
            b"<html>",
            {"error": {"message": "The catalog answered with status 400", "type": "BadRequestException", "code": 400}},
        ),
    ),
)
def test_errors_of_token_endpoints_have_their_own_form(content: bytes, told: object) -> None:
    """Clients tell a wrong secret from a wrong scope by it (RFC 6749, section 5.2)."""
    assert json.loads(oauth_error_of(400, content)) == told
