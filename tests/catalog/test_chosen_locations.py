"""Which places a body chooses: one that is overlooked is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import MAX_PROPERTIES, MAX_UPDATES, Pace
from signproxy.catalog.chosen_locations import ChosenLocations, may_choose, read_chosen
from signproxy.errors import Reason, Refused
from tests.catalog.charged import Charged, body_of, chosen_of

K = CallKind
EVIL = "s3://lake/victim"


def chosen(kind: CallKind, body: Any) -> tuple[ChosenLocations, ...]:
    call = CatalogCall(kind=kind, path="", namespace="ns", name="t")
    return chosen_of(call, body if isinstance(body, bytes) else json.dumps(body).encode())


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


def _pieces(kind: CallKind, body: object, most: int = 10_000_000) -> int:
    """Return how often others have their turn while the choices of a body are read."""
    call = CatalogCall(kind=kind, path="", namespace="ns", name="t")
    read = body_of(call, json.dumps(body).encode())
    return sum(1 for _ in read_chosen(call, read, Pace(Charged(most))))


def test_a_long_transaction_is_read_piece_by_piece() -> None:
    """Every other caller would wait for the last of ten thousand tables."""
    assert _pieces(K.COMMIT_TRANSACTION, {"table-changes": [change("t", move())] * 1000}) > 1000 // 128


_MANY: tuple[tuple[CallKind, Callable[[int], object], int], ...] = (
    (K.UPDATE_TABLE, lambda count: {"updates": [{"action": "x"}] * count}, MAX_UPDATES),
    (
        K.COMMIT_TRANSACTION,
        lambda count: {"table-changes": [change("t", *([{"action": "x"}] * count))]},
        MAX_UPDATES,
    ),
    (K.UPDATE_TABLE, lambda count: {"updates": [properties(**_many(count))]}, MAX_PROPERTIES),
    (K.UPDATE_TABLE, lambda count: {"updates": [properties("updated", **_many(count))]}, MAX_PROPERTIES),
    (K.CREATE_TABLE, lambda count: {"name": "t", "properties": _many(count)}, MAX_PROPERTIES),
    (K.CREATE_NAMESPACE, lambda count: {"namespace": ["a"], "properties": _many(count)}, MAX_PROPERTIES),
    (K.UPDATE_NAMESPACE, lambda count: {"updates": _many(count)}, MAX_PROPERTIES),
)


def _many(count: int) -> dict[str, str]:
    return {f"p{number}": "" for number in range(count)}


@pytest.mark.parametrize(("kind", "body_with", "limit"), _MANY)
def test_what_stands_in_one_table_is_read_piece_by_piece_up_to_its_limit(
    kind: CallKind, body_with: Callable[[int], object], limit: int
) -> None:
    """Others had their turn between two tables alone: half a million updates of one kept them waiting for seconds."""
    assert _pieces(kind, body_with(limit)) >= limit // 256
    with pytest.raises(Refused) as refused:
        _pieces(kind, body_with(limit + 1))
    assert refused.value.reason is Reason.MESSAGE_MALFORMED
    assert refused.value.detail.endswith(f"at most {limit} are read")


@pytest.mark.parametrize(("kind", "body_with", "limit"), _MANY)
def test_what_stands_in_one_table_is_charged_before_it_is_read(
    kind: CallKind, body_with: Callable[[int], object], limit: int
) -> None:
    """A limit that is generous to clients would be generous to a caller that sends nothing else."""
    with pytest.raises(Refused) as refused:
        _pieces(kind, body_with(min(limit, 1000)), most=999)
    assert refused.value.reason is Reason.RATE_LIMITED
