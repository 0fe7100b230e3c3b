"""The rig notices what it is there to notice: a request that signproxy did not sign, or signed and did not record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.e2e.clients.relay import S3Call
from tests.e2e.clients.rig import Run

pytestmark = pytest.mark.ci

PRINCIPALS = frozenset({"idp/etl"})

CALL = S3Call(
    method="PUT",
    target="/lake/wh/t/city%3Da%2520b/f?x-signproxy-id=01",
    headers={"host": "127.0.0.1:1", "x-amz-date": "now", "range": "bytes=0-"},
    access_key="ours",
    signed_headers=("host", "x-amz-date"),
    status=200,
)
EVENT = {
    "event_id": "01",
    "principal": "idp/etl",
    "decision": "allow",
    "method": "PUT",
    "s3_op": "PutObject",
    "key": "wh/t/city=a%20b/f",
}


def _run(calls: list[S3Call], events: list[dict[str, Any]]) -> Run:
    return Run({}, events, calls, "ours")


def test_what_is_signed_and_recorded_passes() -> None:
    """A check that fails for good requests would be taken off."""
    _run([CALL], [EVENT]).check_trail(PRINCIPALS)
    _run([CALL], [EVENT, {**EVENT, "event_id": "02", "decision": "deny"}]).check_trail(PRINCIPALS)
    read = replace(CALL, method="GET")
    _run([read, read], [{**EVENT, "method": "GET", "cacheable": True}]).check_trail(PRINCIPALS, cached=True)


@pytest.mark.parametrize(
    "wrong",
    (
        lambda call: replace(call, access_key=""),
        lambda call: replace(call, access_key="theirs"),
        lambda call: replace(call, target="/lake/wh/t/city%3Da%2520b/f"),
        lambda call: replace(call, target=call.target.replace("id=01", "id=02")),
        lambda call: replace(call, target=call.target.replace("/f?", "/g?")),
        lambda call: replace(call, method="DELETE"),
        lambda call: replace(call, signed_headers=("host",)),
        lambda call: replace(call, signed_headers=("x-amz-date",)),
        lambda call: replace(call, status=403),
    ),
    ids=("unsigned", "another key's", "no stamp", "no event", "key", "method", "unsigned x-amz", "no host", "refused"),
)
def test_a_request_that_is_not_signproxys_is_found(wrong: Callable[[S3Call], S3Call]) -> None:
    """One request that went out with other keys, and the sentence `no client ever had a key` is worth nothing."""
    with pytest.raises(AssertionError):
        _run([wrong(CALL)], [EVENT]).check_trail(PRINCIPALS)


@pytest.mark.parametrize(
    "events",
    (
        [{**EVENT, "principal": "idp/analyst"}],
        [EVENT, {**EVENT, "event_id": "02"}],
        [EVENT, EVENT],
        [{**EVENT, "count": 2}],
    ),
    ids=("another user's", "never sent", "twice in the trail", "several in one"),
)
def test_a_trail_that_tells_another_story_is_found(events: list[dict[str, Any]]) -> None:
    """Who asks the trail who wrote a file must find one event, and the right user in it."""
    with pytest.raises(AssertionError):
        _run([CALL], events).check_trail(PRINCIPALS)


def test_a_signature_that_is_used_twice_is_found() -> None:
    """Two requests with one stamp are one event too few, unless the client was told that it may keep the signature."""
    with pytest.raises(AssertionError):
        _run([CALL, CALL], [{**EVENT, "cacheable": True}]).check_trail(PRINCIPALS)
    with pytest.raises(AssertionError):
        _run([CALL, CALL], [EVENT]).check_trail(PRINCIPALS, cached=True)
