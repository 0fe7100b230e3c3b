"""Which places a body chooses: one that is overlooked is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import read_body, read_transaction
from signproxy.catalog.chosen_locations import ChosenLocations, may_choose, read_chosen
from signproxy.errors import Reason, Refused
from tests.pieces import drained

K = CallKind
EVIL = "s3://lake/victim"


def chosen(kind: CallKind, body: Any) -> tuple[ChosenLocations, ...]:
    call = CatalogCall(kind=kind, path="", namespace="ns", name="t")
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    is_transaction = kind is K.COMMIT_TRANSACTION
    said = drained(read_transaction(content, lambda _: None)) if is_transaction else read_body(call, content)
    return drained(read_chosen(call, said, content))


def move(location: object = EVIL, action: str = "set-location") -> dict[str, object]:
    return {"action": action, "location": location}


def properties(member: str = "updates", **given: object) -> dict[str, object]:
    return {"action": "set-properties", member: {name.replace("_", "."): value for name, value in given.items()}}


def change(name: str, *updates: object) -> dict[str, object]:
    return {"identifier": {"namespace": ["a", "b"], "name": name}, "requirements": [], "updates": list(updates)}


@pytest.mark.parametrize(
    ("kind", "body", "found"),
    (
        (K.CREATE_TABLE, {"name": "x"}, ()),
        (K.CREATE_TABLE, {"name": "x", "location": None, "properties": None}, ()),
        (K.CREATE_TABLE, {"name": "x", "properties": {"owner": EVIL, "write.data.path": None}}, ()),
        (K.CREATE_TABLE, {"name": "x", "location": EVIL}, (EVIL,)),
        (
            K.CREATE_TABLE,
            {"name": "x", "location": "1", "properties": {"write.data.path": "3", "write.metadata.path": "2"}},
            ("1", "2", "3"),
        ),
        (
            K.CREATE_TABLE,
            {"name": "x", "properties": {"write.folder-storage.path": "2", "write.object-storage.path": "1"}},
            ("1", "2"),
        ),
        (K.REGISTER_TABLE, {"name": "x", "metadata-location": f"{EVIL}/metadata/1.json"}, (f"{EVIL}/metadata",)),
        (K.UPDATE_TABLE, {"updates": [move()]}, (EVIL,)),
        # Java compares actions in any case, and reads the former name of the properties.
        (K.UPDATE_TABLE, {"updates": [move(action="SET-Location")]}, (EVIL,)),
        (
            K.UPDATE_TABLE,
            {"updates": [properties(write_data_path="1"), properties("updated", write_data_path="2")]},
            ("1", "2"),
        ),
        (K.UPDATE_TABLE, {"updates": [{"action": "remove-properties", "removals": ["write.data.path"]}]}, ()),
        (K.UPDATE_TABLE, {"updates": None}, ()),
        (K.CREATE_NAMESPACE, {"namespace": ["ns"], "properties": {"location": EVIL}}, (EVIL,)),
        (K.CREATE_NAMESPACE, {"namespace": ["ns"], "properties": {"Default-Base-Location": EVIL}}, (EVIL,)),
        (K.CREATE_NAMESPACE, {"namespace": ["ns"], "properties": {"owner": "x"}}, ()),
        (K.UPDATE_NAMESPACE, {"updates": {"managed-location": EVIL}, "removals": ["location"]}, (EVIL,)),
        (K.UPDATE_NAMESPACE, {"removals": ["location"]}, ()),
        (K.CREATE_VIEW, {"name": "v", "location": EVIL}, ()),
    ),
)
def test_every_choice_is_found(kind: CallKind, body: object, found: tuple[str, ...]) -> None:
    """A place in a member that is not looked at would be believed."""
    assert tuple(text for each in chosen(kind, body) for text in each.locations) == found


def test_each_table_of_a_transaction_is_judged_by_its_own_name() -> None:
    """A place would be vouched for by another table's layout."""
    body = {"table-changes": [change("x"), change("y", move("1")), change("z", move("2"), move("3"))]}
    assert chosen(K.COMMIT_TRANSACTION, body) == (
        ChosenLocations("a\x1fb", "y", ("1",), creates=False),
        ChosenLocations("a\x1fb", "z", ("2", "3"), creates=False),
    )


def test_a_first_commit_creates() -> None:
    """The upstream would be asked for a table that cannot be there yet."""
    body = {"requirements": [{"type": "Assert-Create"}], "updates": [move()]}
    assert chosen(K.UPDATE_TABLE, body) == (ChosenLocations("ns", "t", (EVIL,), creates=True),)


@pytest.mark.parametrize(
    ("kind", "body"),
    (
        (K.CREATE_TABLE, {"name": "x", "Location": EVIL}),
        (K.CREATE_TABLE, {"name": "x", "PROPERTIES": {}}),
        (K.CREATE_TABLE, b'{"name":"x","location":"a","location":"b"}'),
        (K.CREATE_TABLE, b'{"name":"x","properties":{"write.data.path":"a","write.data.path":"b"}}'),
        (K.CREATE_TABLE, {"name": "x", "location": ["a"]}),
        (K.REGISTER_TABLE, {"name": "x", "Metadata-Location": EVIL}),
        (K.UPDATE_TABLE, {"Updates": [move()]}),
        (K.UPDATE_TABLE, {"updates": [{"Action": "set-location", "location": EVIL}]}),
        (K.UPDATE_TABLE, {"updates": [{"action": "set-location", "LOCATION": EVIL}]}),
        (K.UPDATE_TABLE, {"updates": [{"action": "set-properties", "Updates": {}}]}),
        (K.UPDATE_TABLE, {"updates": [7]}),
        (K.CREATE_NAMESPACE, {"namespace": ["ns"], "Properties": {"location": EVIL}}),
        (K.UPDATE_NAMESPACE, {"UPDATES": {"location": EVIL}}),
        (K.UPDATE_NAMESPACE, b"[]"),
    ),
)
def test_what_two_parsers_read_as_two_choices_is_refused(kind: CallKind, body: object) -> None:
    """The upstream would use the place that signproxy did not look at."""
    with pytest.raises(Refused) as refused:
        chosen(kind, body)
    assert refused.value.reason is Reason.MESSAGE_MALFORMED


def test_calls_without_a_choice_are_not_read() -> None:
    """A plan of megabytes would be held whole."""
    assert {kind for kind in CallKind if may_choose(kind)} == {
        K.CREATE_NAMESPACE,
        K.UPDATE_NAMESPACE,
        K.CREATE_TABLE,
        K.REGISTER_TABLE,
        K.UPDATE_TABLE,
        K.COMMIT_TRANSACTION,
    }


def test_a_long_transaction_is_read_piece_by_piece() -> None:
    """Every other caller would wait for the last of ten thousand tables."""
    change = {"identifier": {"namespace": ["a"], "name": "t"}, "updates": [move()]}
    content = json.dumps({"table-changes": [change] * 1000}).encode()
    call = CatalogCall(kind=K.COMMIT_TRANSACTION, path="")
    said = drained(read_transaction(content, lambda _: None))
    assert sum(1 for _ in read_chosen(call, said, content)) == 1000 // 32
