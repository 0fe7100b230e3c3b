"""Say what becomes of the answer to each catalog call."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from signproxy.catalog.call import CallKind
from signproxy.catalog.config_answer import config_answer
from signproxy.catalog.field_answer import (
    NAMESPACE,
    NAMESPACE_CHANGE,
    PLAN,
    TASKS,
    TOKEN,
    credentials_answer,
    field_answer,
    view_answer,
)
from signproxy.catalog.list_answer import Visible, list_answer
from signproxy.catalog.table_answer import TableAnswer, read_table

__all__ = ["AnswerChange", "TableAnswer", "Visible", "config_answer", "list_answer", "plain_answer", "read_table"]


class AnswerChange(Enum):
    """What is changed in a 200 of the upstream."""

    MERGED = "merged with signproxy's own: `config_answer`"
    SIGNER = "keys out, facts learned, signer in: `read_table`, `TableAnswer.with_grant`"
    LEARNED = "facts learned, the table alone passes: `read_table`, `TableAnswer.of_commit`"
    FILTERED = "what may not be seen is left out: `list_answer`"
    FIELDS = "only the specification's members pass, keys never: `plain_answer`"
    EMPTY = "has no body"


CHANGES = {
    CallKind.CONFIG: AnswerChange.MERGED,
    CallKind.TOKENS: AnswerChange.FIELDS,
    CallKind.LIST_NAMESPACES: AnswerChange.FILTERED,
    CallKind.CREATE_NAMESPACE: AnswerChange.FIELDS,
    CallKind.LOAD_NAMESPACE: AnswerChange.FIELDS,
    CallKind.NAMESPACE_EXISTS: AnswerChange.EMPTY,
    CallKind.DROP_NAMESPACE: AnswerChange.EMPTY,
    CallKind.UPDATE_NAMESPACE: AnswerChange.FIELDS,
    CallKind.LIST_TABLES: AnswerChange.FILTERED,
    CallKind.CREATE_TABLE: AnswerChange.SIGNER,
    CallKind.REGISTER_TABLE: AnswerChange.SIGNER,
    CallKind.LOAD_TABLE: AnswerChange.SIGNER,
    CallKind.TABLE_EXISTS: AnswerChange.EMPTY,
    CallKind.UPDATE_TABLE: AnswerChange.LEARNED,
    CallKind.DROP_TABLE: AnswerChange.EMPTY,
    CallKind.RENAME_TABLE: AnswerChange.EMPTY,
    CallKind.COMMIT_TRANSACTION: AnswerChange.EMPTY,
    CallKind.REPORT_METRICS: AnswerChange.EMPTY,
    CallKind.LOAD_CREDENTIALS: AnswerChange.FIELDS,
    CallKind.PLAN_TABLE: AnswerChange.FIELDS,
    CallKind.FETCH_PLAN: AnswerChange.FIELDS,
    CallKind.CANCEL_PLAN: AnswerChange.EMPTY,
    CallKind.FETCH_TASKS: AnswerChange.FIELDS,
    CallKind.LIST_VIEWS: AnswerChange.FILTERED,
    CallKind.CREATE_VIEW: AnswerChange.FIELDS,
    CallKind.LOAD_VIEW: AnswerChange.FIELDS,
    CallKind.VIEW_EXISTS: AnswerChange.EMPTY,
    CallKind.REPLACE_VIEW: AnswerChange.FIELDS,
    CallKind.DROP_VIEW: AnswerChange.EMPTY,
    CallKind.RENAME_VIEW: AnswerChange.EMPTY,
    CallKind.REGISTER_VIEW: AnswerChange.FIELDS,
}

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
    assert CHANGES[kind] is AnswerChange.EMPTY  # noqa: S101 - every other change has a function of its own
    return b""
