"""Say what becomes of the answer to each catalog call: the specification's members pass, and never those with keys."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from signproxy.catalog.call import AnswerChange, CallKind
from signproxy.catalog.client_properties import passed
from signproxy.catalog.json_object import JsonInvalid, member, read_object
from signproxy.errors import Reason, Refused

NAMESPACE = frozenset({"namespace", "properties"})
NAMESPACE_CHANGE = frozenset({"updated", "removed", "missing"})
PLAN = frozenset({"status", "plan-id", "plan-tasks", "file-scan-tasks", "delete-files", "error"})
"""Not `storage-credentials`: without them Iceberg reads the planned files as it reads the table's others."""
TASKS = frozenset({"plan-tasks", "file-scan-tasks", "delete-files"})
VIEW = frozenset({"metadata-location", "metadata", "config"})
TOKEN = frozenset({"access_token", "token_type", "expires_in", "issued_token_type", "refresh_token", "scope"})
"""RFC 6749 and 8693; what a caller gets for its own credentials is its own."""

_encode = msgspec.json.Encoder().encode


def field_answer(upstream: bytes, kept: frozenset[str]) -> bytes:
    """Return an answer with these members alone, byte for byte. Raise Refused (UPSTREAM_INVALID)."""
    members = _members(upstream)
    # Nearly always: then nothing is copied.
    return upstream if members.keys() <= kept else _encode({name: members[name] for name in members if name in kept})


def view_answer(upstream: bytes) -> bytes:
    """Return a view with as little of its `config` as a client is told of a table's. Raise Refused."""
    members = _members(upstream)
    config = member(members, "config")
    try:
        told = {} if config is None else passed(read_object(config))
    except JsonInvalid as invalid:
        raise _refused(invalid) from None
    return _encode({**{name: members[name] for name in members if name in VIEW}, "config": told})


def credentials_answer(upstream: bytes) -> bytes:
    """Return that there are none, whatever the upstream would hand out. Raise Refused (UPSTREAM_INVALID)."""
    _members(upstream)
    return b'{"storage-credentials":[]}'


def _members(upstream: bytes) -> dict[str, Raw]:
    try:
        return read_object(upstream)
    except JsonInvalid as invalid:
        raise _refused(invalid) from None


def _refused(invalid: JsonInvalid) -> Refused:
    return Refused(Reason.UPSTREAM_INVALID, f"an answer: {invalid}")


_PLAIN: dict[CallKind, Callable[[bytes], bytes]] = {
    CallKind.TOKENS: lambda upstream: field_answer(upstream, TOKEN),
    CallKind.CREATE_NAMESPACE: lambda upstream: field_answer(upstream, NAMESPACE),
    CallKind.LOAD_NAMESPACE: lambda upstream: field_answer(upstream, NAMESPACE),
    CallKind.UPDATE_NAMESPACE: lambda upstream: field_answer(upstream, NAMESPACE_CHANGE),
    CallKind.LOAD_CREDENTIALS: credentials_answer,
    CallKind.PLAN_TABLE: lambda upstream: field_answer(upstream, PLAN),
    CallKind.FETCH_PLAN: lambda upstream: field_answer(upstream, PLAN),
    CallKind.FETCH_TASKS: lambda upstream: field_answer(upstream, TASKS),
    CallKind.CREATE_VIEW: view_answer,
    CallKind.LOAD_VIEW: view_answer,
    CallKind.REPLACE_VIEW: view_answer,
    CallKind.REGISTER_VIEW: view_answer,
}


def plain_answer(kind: CallKind, upstream: bytes) -> bytes:
    """Return a 200 whose change needs nothing but itself; of a call without a body, nothing. Raise Refused."""
    change = _PLAIN.get(kind)
    if change is not None:
        return change(upstream)
    # An upstream that sends a body where the specification has none could say anything in it.
    assert kind.change is AnswerChange.EMPTY  # noqa: S101 - every other change has a function of its own
    return b""
