"""Answers of which only the specification's members pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signproxy.catalog.answer import plain_answer
from signproxy.catalog.call import AnswerChange, CallKind
from signproxy.errors import Reason, Refused
from tests.catalog.answers import KEYS, VENDED, encoded

K = CallKind

_TASKS = {"plan-tasks": ["a"], "file-scan-tasks": [{"data-file": {"file-path": "s3://x"}}], "delete-files": []}
_NAMESPACE = {"namespace": ["a"], "properties": {"owner": "me"}}
_VIEW = {"metadata-location": "s3://x", "metadata": {"view-uuid": "u", "properties": {}}, "config": {"token": "x"}}

_PASSING: tuple[tuple[CallKind, dict[str, Any]], ...] = (
    (K.TOKENS, {"access_token": "mine", "token_type": "bearer", "expires_in": 60, "scope": "catalog"}),
    (K.CREATE_NAMESPACE, _NAMESPACE),
    (K.LOAD_NAMESPACE, {"namespace": ["a"], "properties": None}),
    (K.UPDATE_NAMESPACE, {"updated": ["a"], "removed": [], "missing": None}),
    (K.PLAN_TABLE, {"status": "completed", "plan-id": "p", **_TASKS}),
    (K.FETCH_PLAN, {"status": "failed", "error": {"message": "m", "type": "t", "code": 500}}),
    (K.FETCH_TASKS, _TASKS),
)
_VIEWS = (K.CREATE_VIEW, K.LOAD_VIEW, K.REPLACE_VIEW, K.REGISTER_VIEW)


@pytest.mark.parametrize(("kind", "answer"), _PASSING)
def test_the_specifications_members_pass_byte_for_byte(kind: CallKind, answer: dict[str, Any]) -> None:
    """A plan of thousands of files would be written anew, and perhaps otherwise."""
    content = json.dumps(answer, indent=1).encode()
    assert plain_answer(kind, content) == content


@pytest.mark.parametrize(("kind", "answer"), _PASSING)
def test_everything_else_goes(kind: CallKind, answer: dict[str, Any]) -> None:
    """Keys come with plans by the specification, and could come with anything."""
    content = encoded(
        {"storage-credentials": VENDED, **answer, "config": KEYS, "remote-signing-config": KEYS, "x": KEYS}
    )
    told = plain_answer(kind, content)
    assert json.loads(told) == answer
    for value in KEYS.values():
        assert value.encode() not in told


@pytest.mark.parametrize("kind", _VIEWS)
def test_a_view_has_its_metadata_and_no_keys(kind: CallKind) -> None:
    """The token of a view's configuration would stand for the caller's own."""
    metadata = b'{ "view-uuid" : "u", "versions":[1.0] }'
    content = (
        b'{"storage-credentials":[1],"metadata":' + metadata + b',"metadata-location":"s3://x","config":{"token":"T"}}'
    )
    told = plain_answer(kind, content)
    assert metadata in told
    assert json.loads(told) == {"metadata": json.loads(metadata), "metadata-location": "s3://x", "config": {}}


def test_credentials_are_never_handed_out() -> None:
    """A caller that gets a key needs no signature."""
    assert plain_answer(K.LOAD_CREDENTIALS, encoded({"storage-credentials": VENDED})) == b'{"storage-credentials":[]}'


@pytest.mark.parametrize("kind", [kind for kind in K if kind.change is AnswerChange.EMPTY])
def test_a_call_without_an_answer_has_none(kind: CallKind) -> None:
    """An upstream could say anything where nothing is expected."""
    assert plain_answer(kind, encoded({"storage-credentials": VENDED})) == b""


def test_every_call_has_its_change() -> None:
    """An answer that was not foreseen would pass as it is, or end as a fault."""
    plain = {kind for kind, _ in _PASSING} | {*_VIEWS, K.LOAD_CREDENTIALS}
    assert plain == {kind for kind in K if kind.change is AnswerChange.FIELDS}
    for kind in K:
        if kind.change not in (AnswerChange.FIELDS, AnswerChange.EMPTY):
            with pytest.raises(AssertionError):
                plain_answer(kind, b"{}")
    # By the specification these answer 204.
    assert all(
        kind.method in ("HEAD", "DELETE") or kind.value.endswith(("rename", "commit", "metrics"))
        for kind in K
        if kind.change is AnswerChange.EMPTY
    )


@pytest.mark.parametrize("kind", [kind for kind in K if kind.change is AnswerChange.FIELDS])
@pytest.mark.parametrize(
    "content",
    (
        b"",
        b"[]",
        b"null",
        b"<html>",
        b"\xef\xbb\xbf{}",
        b'{"x":NaN}',
        b'{"x":"\xff"}',
        b'{"x":1,"x":2}',
        b'{"x":' + b"[" * 100_000,
    ),
    ids=lambda content: str(content)[:20],
)
def test_an_answer_that_is_none_is_refused(kind: CallKind, content: bytes) -> None:
    """What cannot be read cannot be rid of its keys."""
    with pytest.raises(Refused) as refused:
        plain_answer(kind, content)
    assert refused.value.reason is Reason.UPSTREAM_INVALID


def test_a_views_configuration_that_is_none_is_refused() -> None:
    """It would pass unread."""
    with pytest.raises(Refused):
        plain_answer(K.LOAD_VIEW, encoded({**_VIEW, "config": ["token"]}))
    assert json.loads(plain_answer(K.LOAD_VIEW, encoded({**_VIEW, "config": None})))["config"] == {}
