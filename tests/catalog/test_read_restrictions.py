"""Which answers restrict what their reader may see of a table."""

from __future__ import annotations

import json

import pytest

from signproxy.catalog.json_object import JsonInvalid, read_members
from signproxy.catalog.table_answer import RESTRICTIONS, read_table, restricts
from tests.facade.front import table

MASK = {"field-id": 3, "action": "mask-alphanum"}
FILTER = {"type": "eq", "term": "region", "value": "EU"}


def _answer(restrictions: str, name: str = RESTRICTIONS) -> bytes:
    text = json.dumps(table())
    return f'{text[:-1]},"{name}":{restrictions}}}'.encode()


@pytest.mark.parametrize(
    "said",
    (
        "null",
        "{}",
        " { } ",
        '{"required-row-filter":null}',
        '{"required-row-filter": true}',
        '{"required-row-filter":{"type":"true"}}',
        '{"required-row-filter":{ "type" : "true" }}',
        '{"required-column-projections":[]}',
        '{"required-column-projections": [ ]}',
        '{"required-column-projections":null,"required-row-filter":null}',
        # A member of later days that says nothing.
        '{"required-sampling":null}',
    ),
)
def test_what_the_specification_says_restricts_nothing_does_not(said: str) -> None:
    """Servers that always send the member would have every one of their tables refused."""
    assert read_table(_answer(said), "ns", "t1").restricted is False


@pytest.mark.parametrize(
    "said",
    (
        json.dumps({"required-row-filter": FILTER}),
        json.dumps({"required-column-projections": [MASK]}),
        json.dumps({"required-column-projections": [], "required-row-filter": FILTER}),
        json.dumps({"required-column-projections": [MASK], "required-row-filter": None}),
        # Nothing that is there may be read as nothing, unless it is known to be.
        '{"required-row-filter":false}',
        '{"required-row-filter":{}}',
        '{"required-row-filter":{"type":"false"}}',
        '{"required-row-filter":{"type":"true","term":"x"}}',
        '{"required-row-filter":{"type":"false","type":"true"}}',
        '{"required-row-filter":"true"}',
        '{"required-row-filter":[]}',
        '{"required-row-filter":""}',
        '{"required-row-filter":0}',
        '{"required-column-projections":{}}',
        '{"required-column-projections":[null]}',
        '{"required-column-projections":""}',
        '{"required-column-projections":true}',
        # A later specification, or a vendor's own.
        '{"required-sampling":{"rows":0.1}}',
        '{"required-sampling":true}',
        '{"required-sampling":[]}',
        "[]",
        '""',
        '"none"',
        "false",
        "true",
        "0",
        # White space without end is not looked through.
        '{"required-column-projections":[' + " " * 63 + "]}",
    ),
)
def test_everything_else_restricts(said: str) -> None:
    """Whole files would reach a caller from whom the catalog keeps rows or columns."""
    assert read_table(_answer(said), "ns", "t1").restricted is True


@pytest.mark.parametrize("name", ("Read-Restrictions", "READ-RESTRICTIONS"))
def test_another_spelling_of_the_name_restricts(name: str) -> None:
    """Parsers that take names of another case for the same would enforce what signproxy had not seen."""
    assert read_table(_answer("{}", name), "ns", "t1").restricted is True
    assert read_table(_answer("null", name), "ns", "t1").restricted is False


def test_without_the_member_nothing_is_restricted() -> None:
    """No upstream of today sends it."""
    assert read_table(json.dumps(table()).encode(), "ns", "t1").restricted is False
    assert restricts(read_members(b'{"read-restriction":{"required-row-filter":1}}')) is False


def test_white_space_up_to_its_bound_is_read() -> None:
    """A server that indents its answers sends some."""
    assert (
        restricts(read_members(b'{"read-restrictions":{"required-column-projections":[' + b" " * 62 + b"]}}")) is False
    )


def test_members_that_are_given_twice_make_no_answer() -> None:
    """Of an empty filter and one that counts, the client might take the one and signproxy the other."""
    with pytest.raises(JsonInvalid):
        read_members(b'{"read-restrictions":{"required-row-filter":1,"required-row-filter":null}}')
