"""What is read of a call's body, so that what is judged is what the upstream does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import (
    MAX_COMMAS,
    MAX_MEMBERS,
    MAX_NAMESPACE,
    MAX_REQUIREMENTS,
    MAX_TABLES,
    CallBody,
    Commit,
    Creation,
    NamespaceCreation,
    Pace,
    Renaming,
    Transaction,
    commas_in,
    read_body,
    reads_body,
)
from signproxy.catalog.names import MAX_LEVELS
from signproxy.errors import Reason, Refused
from tests.catalog.charged import Charged, body_of
from tests.pieces import drained

K = CallKind


def call(kind: CallKind) -> CatalogCall:
    return CatalogCall(kind=kind, path="", namespace="ns", name="t")


def read(kind: CallKind, body: object) -> CallBody | None:
    return body_of(call(kind), body if isinstance(body, bytes) else json.dumps(body).encode()).said


def identifier(name: str, *levels: str) -> dict[str, Any]:
    return {"namespace": list(levels), "name": name}


_CREATE = {"type": "assert-create"}
_UUID = {"type": "assert-table-uuid", "uuid": "x"}

_READ: tuple[tuple[CallKind, object, CallBody], ...] = (
    (K.CREATE_NAMESPACE, {"namespace": ["a", "b"], "properties": {"x": "y"}}, NamespaceCreation("a\x1fb")),
    (K.CREATE_TABLE, {"name": "t", "schema": {"fields": []}}, Creation("t")),
    (K.CREATE_TABLE, {"name": "t", "stage-create": True}, Creation("t", staged=True)),
    (K.CREATE_TABLE, {"name": "t", "stage-create": False}, Creation("t")),
    (K.CREATE_TABLE, {"name": "t", "stage-create": None}, Creation("t")),
    # Jackson takes these for true.
    (K.CREATE_TABLE, {"name": "t", "stage-create": "true"}, Creation("t", staged=True)),
    (K.CREATE_TABLE, {"name": "t", "stage-create": 1}, Creation("t", staged=True)),
    (K.REGISTER_TABLE, {"name": "t", "metadata-location": "s3://b/m"}, Creation("t")),
    (K.REGISTER_TABLE, {"name": "t", "overwrite": True}, Creation("t", overwrite=True)),
    (K.CREATE_VIEW, {"name": "v", "view-version": {}}, Creation("v")),
    (K.REGISTER_VIEW, {"name": "v"}, Creation("v")),
    (
        K.RENAME_TABLE,
        {"source": identifier("t", "a"), "destination": identifier("u", "b", "c")},
        Renaming(("a", "t"), ("b\x1fc", "u")),
    ),
    (
        K.RENAME_VIEW,
        {"destination": identifier("u", "b"), "source": identifier("t", "a")},
        Renaming(("a", "t"), ("b", "u")),
    ),
    (K.UPDATE_TABLE, {"requirements": [_UUID], "updates": []}, Commit(("ns", "t"))),
    (K.UPDATE_TABLE, {"requirements": [_UUID, _CREATE], "updates": []}, Commit(("ns", "t"), creates=True)),
    (K.UPDATE_TABLE, {"identifier": identifier("t", "ns"), "requirements": []}, Commit(("ns", "t"))),
    (K.UPDATE_TABLE, {"identifier": None, "requirements": None}, Commit(("ns", "t"))),
    (K.UPDATE_TABLE, {}, Commit(("ns", "t"))),
    # It is no requirement of the table.
    (K.UPDATE_TABLE, {"requirements": [], "updates": [_CREATE]}, Commit(("ns", "t"))),
    (K.REPLACE_VIEW, {"identifier": identifier("t", "ns"), "updates": []}, Commit(("ns", "t"))),
    (
        K.COMMIT_TRANSACTION,
        {
            "table-changes": [
                {"identifier": identifier("t", "a"), "requirements": [_UUID], "updates": [{"action": "x"}]},
                {"identifier": identifier("u", "a", "b"), "requirements": [_CREATE], "updates": []},
            ]
        },
        Transaction((Commit(("a", "t")), Commit(("a\x1fb", "u"), creates=True))),
    ),
    (K.COMMIT_TRANSACTION, {"table-changes": []}, Transaction(())),
)


@pytest.mark.parametrize(("kind", "body", "expected"), _READ)
def test_what_a_body_names_is_read(kind: CallKind, body: object, expected: CallBody) -> None:
    """A call would be judged for another place, or for nothing."""
    assert read(kind, body) == expected


def test_bodies_that_decide_are_read() -> None:
    """A kind that is forgotten here is sent on unseen."""
    assert {kind for kind in K if reads_body(kind)} == {kind for kind, _, _ in _READ}
    for kind in K:
        if not reads_body(kind):
            assert read(kind, b'{"name":"t"}') is None


_REFUSED: tuple[tuple[CallKind, object], ...] = (
    (K.CREATE_NAMESPACE, {}),
    (K.CREATE_NAMESPACE, {"namespace": "a"}),
    (K.CREATE_NAMESPACE, {"namespace": []}),
    (K.CREATE_NAMESPACE, {"namespace": [""]}),
    (K.CREATE_NAMESPACE, {"namespace": [1]}),
    # One level here, two for a reader that splits it.
    (K.CREATE_NAMESPACE, {"namespace": ["a\x1fb"]}),
    (K.CREATE_NAMESPACE, {"namespace": ["a", "b\x1fc"]}),
    (K.CREATE_NAMESPACE, {"namespace": ["a/b"]}),
    (K.CREATE_NAMESPACE, {"namespace": [".."]}),
    (K.CREATE_NAMESPACE, {"namespace": ["mine"], "Namespace": ["yours"]}),
    (K.CREATE_NAMESPACE, b'{"namespace":["yours"],"namespace":["mine"]}'),
    (K.CREATE_TABLE, {}),
    (K.CREATE_TABLE, {"name": ""}),
    (K.CREATE_TABLE, {"name": None}),
    (K.CREATE_TABLE, {"name": 1}),
    (K.CREATE_TABLE, {"name": "a/b"}),
    (K.CREATE_TABLE, {"name": ".."}),
    (K.CREATE_TABLE, {"name": "a\x00"}),
    (K.CREATE_TABLE, {"name": "t", "NAME": "u"}),
    (K.CREATE_TABLE, {"name": "t", "Stage-Create": True}),
    (K.CREATE_TABLE, b'{"name":"t","name":"u"}'),
    (K.CREATE_TABLE, b'{"name":"t","n\\u0061me":"u"}'),
    (K.CREATE_TABLE, b"[]"),
    (K.CREATE_TABLE, b""),
    (K.CREATE_TABLE, b"\xef\xbb\xbf{}"),
    (K.CREATE_TABLE, '{"name":"t"}'.encode("utf-16")),
    (K.CREATE_TABLE, b'{"name":' + b"[" * 100_000),
    (K.REGISTER_TABLE, {"name": "t", "Overwrite": True}),
    (K.RENAME_TABLE, {"source": identifier("t", "a")}),
    (K.RENAME_TABLE, {"source": identifier("t", "a"), "destination": None}),
    (K.RENAME_TABLE, {"source": {"name": "t"}, "destination": identifier("u", "a")}),
    (K.RENAME_TABLE, {"source": identifier("t"), "destination": identifier("u", "a")}),
    (K.RENAME_TABLE, {"source": {**identifier("t", "a"), "Name": "x"}, "destination": identifier("u", "a")}),
    (
        K.RENAME_TABLE,
        b'{"source":{"namespace":["a"],"name":"t","name":"x"},"destination":{"namespace":["a"],"name":"u"}}',
    ),
    # The upstream might go by the body instead of the path.
    (K.UPDATE_TABLE, {"identifier": identifier("other", "ns")}),
    (K.UPDATE_TABLE, {"identifier": identifier("t", "other")}),
    (K.UPDATE_TABLE, {"Identifier": identifier("t", "other")}),
    (K.UPDATE_TABLE, {"requirements": [{"kind": "assert-create"}]}),
    (K.UPDATE_TABLE, {"requirements": [{"type": "assert-create", "Type": "x"}]}),
    (K.UPDATE_TABLE, {"requirements": [{"type": 1}]}),
    (K.UPDATE_TABLE, {"requirements": {}}),
    (K.UPDATE_TABLE, b'{"requirements":[],"requirements":[{"type":"assert-create"}]}'),
    (K.UPDATE_TABLE, b'{"requirements":[{"type":"x","type":"assert-create"}]}'),
    (K.REPLACE_VIEW, {"identifier": identifier("other", "ns")}),
    (K.COMMIT_TRANSACTION, {}),
    (K.COMMIT_TRANSACTION, {"table-changes": {}}),
    (K.COMMIT_TRANSACTION, {"table-changes": [{"requirements": []}]}),
    (K.COMMIT_TRANSACTION, {"table-changes": [{"identifier": None}]}),
    (K.COMMIT_TRANSACTION, {"table-changes": [], "Table-Changes": []}),
    (K.COMMIT_TRANSACTION, b'{"table-changes":[],"table-changes":[]}'),
    (K.COMMIT_TRANSACTION, {"table-changes": [{"identifier": identifier("t", "a")}] * (MAX_TABLES + 1)}),
)


@pytest.mark.parametrize(("kind", "body"), _REFUSED, ids=lambda value: str(value)[:40])
def test_a_body_that_could_be_read_otherwise_is_refused(kind: CallKind, body: object) -> None:
    """A caller that may change one table could name a second one that only the upstream sees."""
    with pytest.raises(Refused) as refused:
        read(kind, body)
    assert refused.value.reason is Reason.MESSAGE_MALFORMED
    assert refused.value.detail.startswith(kind.name.lower())


def test_a_transaction_may_have_as_many_tables_as_it_says() -> None:
    """The limit is not one less than it is said to be."""
    body = read(K.COMMIT_TRANSACTION, {"table-changes": [{"identifier": identifier("t", "a")}] * MAX_TABLES})
    assert isinstance(body, Transaction)
    assert len(body.commits) == MAX_TABLES


def _full(kind: CallKind, *, over: int) -> bytes:
    """Return a body that holds as many of everything as it may, and so many more."""
    requirements = [_UUID] * (MAX_REQUIREMENTS + over)
    if kind is K.COMMIT_TRANSACTION:
        change = {"identifier": identifier("t", "a"), "requirements": requirements, "updates": []}
        return json.dumps({"table-changes": [change]}).encode()
    return json.dumps({"requirements": requirements, "updates": []}).encode()


def _members(count: int) -> dict[str, int]:
    return {f"m{number}": number for number in range(count)}


@pytest.mark.parametrize(
    ("kind", "body_with", "limit"),
    (
        (K.UPDATE_TABLE, lambda over: _full(K.UPDATE_TABLE, over=over), "10000 are read"),
        (K.REPLACE_VIEW, lambda over: _full(K.REPLACE_VIEW, over=over), "10000 are read"),
        (K.COMMIT_TRANSACTION, lambda over: _full(K.COMMIT_TRANSACTION, over=over), "10000 are read"),
        (
            K.CREATE_NAMESPACE,
            lambda over: json.dumps({"namespace": ["a"] * (MAX_LEVELS + over)}).encode(),
            "64 are read",
        ),
        (
            K.CREATE_NAMESPACE,
            lambda over: b'{"namespace":["a"%b]}' % (b" " * (MAX_NAMESPACE - 5 + over)),
            f"{MAX_NAMESPACE} are read",
        ),
        (
            K.CREATE_TABLE,
            lambda over: json.dumps({"name": "t", **_members(MAX_MEMBERS - 1 + over)}).encode(),
            "1000 are read",
        ),
        (
            K.UPDATE_TABLE,
            lambda over: json.dumps({"requirements": [{**_UUID, **_members(MAX_MEMBERS - 2 + over)}]}).encode(),
            "1000 are read",
        ),
        (
            K.RENAME_TABLE,
            lambda over: json.dumps(
                {
                    "source": {**identifier("t", "a"), **_members(MAX_MEMBERS - 2 + over)},
                    "destination": identifier("u", "a"),
                }
            ).encode(),
            "1000 are read",
        ),
    ),
)
def test_as_many_are_read_as_may_be_and_no_more(kind: CallKind, body_with: Callable[[int], bytes], limit: str) -> None:
    """A caller could keep the loop busy for seconds with things that no client sends, each of a dozen bytes."""
    assert read(kind, body_with(0)) is not None
    with pytest.raises(Refused) as refused:
        read(kind, body_with(1))
    assert refused.value.reason is Reason.MESSAGE_MALFORMED
    assert refused.value.detail.endswith(limit)


def test_what_the_parser_may_find_in_one_go_is_bounded() -> None:
    """Four million elements took it half a second, which nothing can interrupt."""
    assert commas_in(K.UPDATE_TABLE, b"," * MAX_COMMAS) == MAX_COMMAS
    with pytest.raises(Refused) as refused:
        commas_in(K.UPDATE_TABLE, b"," * (MAX_COMMAS + 1))
    assert refused.value.reason is Reason.MESSAGE_MALFORMED
    assert refused.value.detail == f"update_table: {MAX_COMMAS + 1} commas, at most {MAX_COMMAS} are in a body"


@pytest.mark.parametrize("kind", (K.UPDATE_TABLE, K.REPLACE_VIEW, K.COMMIT_TRANSACTION))
def test_the_requirements_of_one_table_are_read_piece_by_piece(kind: CallKind) -> None:
    """Others had their turn between two tables, and every requirement of one was read in one go."""
    content = _full(kind, over=0)
    # A requirement is an element with two members.
    assert sum(1 for _ in read_body(call(kind), content, Pace(Charged()))) > 3 * MAX_REQUIREMENTS // (256 + 3) - 1


def test_a_long_text_is_a_piece_of_its_own() -> None:
    """Eight megabytes are passed over several times; each time is some milliseconds."""
    change = {"identifier": identifier("t", "a"), "requirements": [], "updates": [{"action": "x" * 1024 * 1024}]}
    content = json.dumps({"table-changes": [change]}).encode()
    pieces = read_body(call(K.COMMIT_TRANSACTION), content, Pace(Charged()))
    # The body, and the list of its tables.
    assert sum(1 for _ in pieces) == 2


def test_a_short_body_is_read_in_one_piece() -> None:
    """Each turn of others is one more time that a plain commit waits."""
    content = json.dumps({"requirements": [_UUID] * 3, "updates": []}).encode()
    assert list(read_body(call(K.UPDATE_TABLE), content, Pace(Charged()))) == []


@pytest.mark.parametrize(
    ("kind", "body", "parts"),
    (
        # The members of the body, two requirements and the two members of each.
        (K.UPDATE_TABLE, {"requirements": [_UUID, _UUID], "updates": []}, 2 + 2 + 4),
        # The member of the body, its levels.
        (K.CREATE_NAMESPACE, {"namespace": ["a", "b", "c"]}, 1 + 3),
        # The member of the body; a table: its members, the identifier's, its level, a requirement and its members.
        (
            K.COMMIT_TRANSACTION,
            {"table-changes": [{"identifier": identifier("t", "a"), "requirements": [_UUID]}]},
            1 + 1 + 2 + 2 + 1 + 1 + 2,
        ),
    ),
)
def test_every_part_is_charged_before_it_is_read(kind: CallKind, body: object, parts: int) -> None:
    """Six hundred thousand requirements cost what their bytes cost, which is next to nothing."""
    content = json.dumps(body).encode()
    charged = Charged()
    drained(read_body(call(kind), content, Pace(charged)))
    assert charged.units == parts
    for most in range(parts):
        with pytest.raises(Refused) as refused:
            drained(read_body(call(kind), content, Pace(Charged(most))))
        assert refused.value.reason is Reason.RATE_LIMITED


def test_the_tables_of_a_transaction_are_charged_before_they_are_read_and_others_have_their_turn() -> None:
    """Ten thousand tables take a fifth of a second; every other caller would wait for the last of them."""
    content = json.dumps({"table-changes": [{"identifier": identifier("t", "a")}] * 1000}).encode()
    assert sum(1 for _ in read_body(call(K.COMMIT_TRANSACTION), content, Pace(Charged()))) > 1000 // 64
    # A table that could not be read is not reached.
    content = content.replace(b'"t"', b"7")
    with pytest.raises(Refused) as refused:
        drained(read_body(call(K.COMMIT_TRANSACTION), content, Pace(Charged(1000))))
    assert refused.value.reason is Reason.RATE_LIMITED
