"""Hold that each flood does the work that it is measured for: what is refused at once is no work."""

from __future__ import annotations

from functools import cache

import pytest

from bench.floods import COLUMNS, Flood, floods
from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import MAX_PROPERTIES, MAX_REQUIREMENTS, MAX_TABLES, MAX_UPDATES, commas_in
from signproxy.errors import Reason, Refused
from tests.catalog.charged import Charged, chosen_of, read_with

_CALLS = {
    "transactions": (CallKind.COMMIT_TRANSACTION, MAX_TABLES),
    "requirements": (CallKind.UPDATE_TABLE, MAX_REQUIREMENTS),
    "updates": (CallKind.UPDATE_TABLE, MAX_UPDATES),
    "properties": (CallKind.CREATE_TABLE, MAX_PROPERTIES),
    "columns": (CallKind.CREATE_TABLE, 1),
}


@cache
def _floods() -> dict[str, Flood]:
    return {flood.name: flood for flood in floods("a-token")}


def _body(flood: Flood) -> bytes:
    return flood.content.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("name", _CALLS)
def test_a_flood_of_catalog_calls_is_within_what_is_read(name: str) -> None:
    """The bench would show how quickly they are refused, and nothing of what reading them does to others."""
    kind, parts = _CALLS[name]
    call = CatalogCall(kind=kind, path="", namespace="big", name="t0")
    content = _body(_floods()[name])
    assert commas_in(kind, content) > min(parts, COLUMNS) // 2
    charged = Charged()
    read_with(charged, call, content)
    assert charged.units >= parts


def test_a_flood_that_is_refused_is_refused_for_what_it_says() -> None:
    """A body that the parser never sees would not keep it busy."""
    call = CatalogCall(kind=CallKind.CREATE_TABLE, path="", namespace="big")
    content = _body(_floods()["members"])
    commas_in(call.kind, content)
    with pytest.raises(Refused) as refused:
        chosen_of(call, content)
    assert refused.value.reason is Reason.MESSAGE_MALFORMED
    assert "100001 members" in refused.value.detail


def test_the_names_of_floods_are_those_of_rows() -> None:
    """Two floods of one name would be one row."""
    names = [flood.name for flood in floods("a-token")]
    assert len(names) == len(set(names)) >= 14
