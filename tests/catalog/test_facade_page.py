"""The facade's page: its tables are the code's."""

from __future__ import annotations

import re
from pathlib import Path

from signproxy.catalog.call import AnswerChange, CallKind, Where
from signproxy.catalog.client_properties import PASSED
from signproxy.catalog.needs import PURGE, REPLACES_TABLE, TABLE_ARRIVES, VIEW_ARRIVES
from signproxy.errors import Reason
from signproxy.policy.privileges import Privilege

PAGE = Path(__file__).parents[2] / "docs" / "facade.md"

_ANSWER = {
    AnswerChange.MERGED: "merged with signproxy's own",
    AnswerChange.SIGNER: "keys out, signer in, learned from",
    AnswerChange.LEARNED: "the table alone, learned from",
    AnswerChange.FILTERED: "filtered",
    AnswerChange.FIELDS: "known members",
    AnswerChange.EMPTY: "no body",
}
_PLACE = {
    Where.NOWHERE: "",
    Where.PARENT: "parent, or catalog",
    Where.NAMESPACE: "namespace",
    Where.TABLE: "table",
    Where.VIEW: "view",
}
_BODY = {
    CallKind.CREATE_NAMESPACE: "parent, or catalog",
    CallKind.RENAME_TABLE: "table",
    CallKind.RENAME_VIEW: "view",
    CallKind.COMMIT_TRANSACTION: "each table",
}


def _names(mask: int) -> str:
    return ", ".join(f"`{privilege.name}`" for privilege in Privilege if mask & privilege)


def _needs(kind: CallKind) -> str:
    place = _BODY.get(kind) or _PLACE[kind.where]
    told = f"{_names(kind.privileges)} on {place}" if kind.privileges else "to be known in the catalog"
    creates = _names(CallKind.CREATE_TABLE.privileges)
    extra = {
        CallKind.TOKENS: "nothing",
        CallKind.DROP_TABLE: f"{told}; with `purgeRequested` {_names(PURGE)}",
        CallKind.REGISTER_TABLE: f"{told}; with `overwrite` {_names(REPLACES_TABLE)} on the table, too",
        CallKind.UPDATE_TABLE: f"{told}; {creates} on namespace with `assert-create`",
        CallKind.COMMIT_TRANSACTION: f"as UPDATE_TABLE, {place}",
        CallKind.RENAME_TABLE: f"{told}, {_names(TABLE_ARRIVES)} on the new namespace",
        CallKind.RENAME_VIEW: f"{told}, {_names(VIEW_ARRIVES)} on the new namespace",
    }
    return extra.get(kind, told)


def rows() -> list[str]:
    """Return the table of calls as the page has it."""
    lines = []
    for kind in CallKind:
        method, _, path = kind.value.partition(" ")
        path = path.removeprefix("/v1/").removeprefix("{prefix}/")
        answer = "signproxy's own: [Vending](vending.md)" if kind is CallKind.LOAD_CREDENTIALS else _ANSWER[kind.change]
        lines.append(f"| {kind.name} | `{method} {path}` | {_needs(kind)} | {answer} |")
    return lines


def test_every_call_is_described_as_it_is_judged() -> None:
    """An operator would grant too little, or too much."""
    found = [
        line for line in PAGE.read_text().splitlines() if re.match(r"\| [A-Z_]+ \| `(GET|HEAD|POST|DELETE) ", line)
    ]
    assert found == rows()


def test_every_property_that_passes_is_described() -> None:
    """An operator would look in vain for what the catalog sends."""
    section = PAGE.read_text().partition("## Client properties")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z0-9.\-]+)`", section.partition("pass:")[2].partition("\n\n")[0])
    assert sorted(named) == sorted(PASSED)


def test_every_fault_of_an_upstream_is_described() -> None:
    """An operator who is called at night looks here first."""
    page = PAGE.read_text()
    for reason in Reason:
        if reason.name.startswith("UPSTREAM_"):
            assert f"| {reason.status} | `{reason.code}` |" in page
