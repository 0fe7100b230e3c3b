"""What each call needs, and where: Polaris' operations."""

from __future__ import annotations

import pytest

from signproxy.catalog.call import CallKind, CatalogCall, Where
from signproxy.catalog.call_body import CallBody, Commit, Creation, NamespaceCreation, Renaming, Transaction, reads_body
from signproxy.catalog.needs import MAX_QUERY, Need, needs, needs_beforehand, parent_asked, purges
from signproxy.errors import Reason, Refused
from signproxy.policy.privileges import Privilege as P  # noqa: N817 - a table of them

K = CallKind

_Place = tuple[P, str | None, str | None] | tuple[P, str | None, str | None, str]

_TABLE: tuple[tuple[CallKind, str, CallBody | None, tuple[_Place, ...]], ...] = (
    (K.CONFIG, "", None, ((P(0), None, None),)),
    (K.TOKENS, "", None, ((P(0), None, None),)),
    (K.LIST_NAMESPACES, "", None, ((P.NAMESPACE_LIST, None, None),)),
    (K.LIST_NAMESPACES, "parent=", None, ((P.NAMESPACE_LIST, None, None),)),
    (K.LIST_NAMESPACES, "pageToken=&parent=a%1Fb", None, ((P.NAMESPACE_LIST, "a\x1fb", None),)),
    (K.CREATE_NAMESPACE, "", NamespaceCreation("a"), ((P.NAMESPACE_CREATE, None, None),)),
    (K.CREATE_NAMESPACE, "", NamespaceCreation("a\x1fb\x1fc"), ((P.NAMESPACE_CREATE, "a\x1fb", None),)),
    # A query is not what says where.
    (K.CREATE_NAMESPACE, "parent=mine", NamespaceCreation("a\x1fb"), ((P.NAMESPACE_CREATE, "a", None),)),
    (K.CREATE_NAMESPACE, "parent=mine", None, ((P.NAMESPACE_CREATE, None, None),)),
    (K.LOAD_NAMESPACE, "", None, ((P.NAMESPACE_READ_PROPERTIES, "ns", None),)),
    (K.NAMESPACE_EXISTS, "", None, ((P.NAMESPACE_LIST, "ns", None),)),
    (K.DROP_NAMESPACE, "", None, ((P.NAMESPACE_DROP, "ns", None),)),
    (K.UPDATE_NAMESPACE, "", None, ((P.NAMESPACE_WRITE_PROPERTIES, "ns", None),)),
    (K.LIST_TABLES, "pageToken=x", None, ((P.TABLE_LIST, "ns", None),)),
    (K.CREATE_TABLE, "", Creation("new"), ((P.TABLE_CREATE, "ns", None),)),
    (K.CREATE_TABLE, "", Creation("new", staged=True), ((P.TABLE_CREATE, "ns", None),)),
    (K.REGISTER_TABLE, "", Creation("new"), ((P.TABLE_CREATE, "ns", None),)),
    (
        K.REGISTER_TABLE,
        "",
        Creation("old", overwrite=True),
        ((P.TABLE_CREATE, "ns", None), (P.TABLE_FULL_METADATA, "ns", "old")),
    ),
    (K.LOAD_TABLE, "snapshots=all", None, ((P.TABLE_READ_PROPERTIES, "ns", "t"),)),
    (K.TABLE_EXISTS, "", None, ((P.TABLE_LIST, "ns", "t"),)),
    (K.UPDATE_TABLE, "", Commit(("ns", "t")), ((P.TABLE_WRITE_PROPERTIES, "ns", "t"),)),
    (K.UPDATE_TABLE, "", Commit(("ns", "t"), creates=True), ((P.TABLE_CREATE, "ns", None, "t"),)),
    (K.DROP_TABLE, "", None, ((P.TABLE_DROP, "ns", "t"),)),
    (K.DROP_TABLE, "purgeRequested=false", None, ((P.TABLE_DROP, "ns", "t"),)),
    (K.DROP_TABLE, "purgeRequested=True", None, ((P.TABLE_DROP | P.TABLE_WRITE_DATA, "ns", "t"),)),
    (
        K.RENAME_TABLE,
        "",
        Renaming(("a", "t"), ("b", "u")),
        ((P.TABLE_DROP, "a", "t"), (P.TABLE_LIST | P.TABLE_CREATE, "b", None)),
    ),
    (
        K.COMMIT_TRANSACTION,
        "",
        Transaction((Commit(("a", "t")), Commit(("b", "u"), creates=True), Commit(("a", "t")))),
        ((P.TABLE_WRITE_PROPERTIES, "a", "t"), (P.TABLE_CREATE, "b", None, "u")),
    ),
    (K.COMMIT_TRANSACTION, "", Transaction(()), ((P.TABLE_WRITE_PROPERTIES, None, None),)),
    (K.REPORT_METRICS, "", None, ((P.TABLE_READ_PROPERTIES, "ns", "t"),)),
    (K.LOAD_CREDENTIALS, "", None, ((P.TABLE_READ_DATA, "ns", "t"),)),
    (K.PLAN_TABLE, "", None, ((P.TABLE_READ_DATA, "ns", "t"),)),
    (K.FETCH_PLAN, "", None, ((P.TABLE_READ_DATA, "ns", "t"),)),
    (K.CANCEL_PLAN, "", None, ((P.TABLE_READ_DATA, "ns", "t"),)),
    (K.FETCH_TASKS, "", None, ((P.TABLE_READ_DATA, "ns", "t"),)),
    (K.LIST_VIEWS, "", None, ((P.VIEW_LIST, "ns", None),)),
    (K.CREATE_VIEW, "", Creation("v"), ((P.VIEW_CREATE, "ns", None),)),
    (K.LOAD_VIEW, "", None, ((P.VIEW_READ_PROPERTIES, "ns", "t"),)),
    (K.VIEW_EXISTS, "", None, ((P.VIEW_LIST, "ns", "t"),)),
    (K.REPLACE_VIEW, "", Commit(("ns", "t")), ((P.VIEW_WRITE_PROPERTIES, "ns", "t"),)),
    # What would be a create of a table is none of a view.
    (K.REPLACE_VIEW, "", Commit(("ns", "t"), creates=True), ((P.VIEW_WRITE_PROPERTIES, "ns", "t"),)),
    (K.DROP_VIEW, "purgeRequested=true", None, ((P.VIEW_DROP, "ns", "t"),)),
    (
        K.RENAME_VIEW,
        "",
        Renaming(("a", "t"), ("b", "u")),
        ((P.VIEW_DROP, "a", "t"), (P.VIEW_LIST | P.VIEW_CREATE, "b", None)),
    ),
    (K.REGISTER_VIEW, "", Creation("v"), ((P.VIEW_CREATE, "ns", None),)),
)


def _call(kind: CallKind) -> CatalogCall:
    named = "{table}" in kind.value or "{view}" in kind.value
    namespace = "ns" if "{namespace}" in kind.value else ""
    return CatalogCall(kind=kind, path="", namespace=namespace, name="t" if named else "")


@pytest.mark.parametrize(("kind", "query", "body", "expected"), _TABLE)
def test_a_call_needs_what_polaris_asks_for(
    kind: CallKind, query: str, body: CallBody | None, expected: tuple[_Place, ...]
) -> None:
    """Roles that were granted for Polaris would mean something else here."""
    assert needs(_call(kind), query, body) == tuple(Need(int(mask), *place) for mask, *place in expected)


def test_every_kind_has_a_rule() -> None:
    """A call without a rule would be a fault of signproxy, or admitted."""
    assert {kind for kind, *_ in _TABLE} == set(K)
    assert {kind for kind in K if not kind.privileges} == {K.CONFIG, K.TOKENS}
    for kind in K:
        assert (kind.where is Where.BODY) <= reads_body(kind)
        if kind.where in (Where.TABLE, Where.VIEW):
            assert f"{{{kind.where.value}}}" in kind.value


@pytest.mark.parametrize("kind", [kind for kind in K if reads_body(kind)])
def test_a_body_that_was_not_read_makes_a_call_no_easier(kind: CallKind) -> None:
    """A slip of the body's reader must not open what the body would have closed."""
    (need,) = needs(_call(kind), "parent=mine&purgeRequested=false", None)
    assert need.privileges
    if kind.where is Where.BODY:
        assert need == Need(kind.privileges)


@pytest.mark.parametrize(
    "query",
    (
        "parent=a&parent=b",
        "parent=a&Parent=b",
        "parent=a&p%61rent=a",
        "parent=a%1F%1Fb",
        "parent=%1Fa",
        "parent=a%2Fb",
        "parent=..",
        "parent=a;parent=b",
        "parent=%FF",
        "parent=\u00e9",
        "&".join(f"a{number}=b" for number in range(40)),
        "a=" + "b" * MAX_QUERY,
    ),
)
def test_a_query_that_could_be_read_otherwise_is_refused(query: str) -> None:
    """The children of another namespace would be listed than was judged."""
    with pytest.raises(Refused) as refused:
        parent_asked(query)
    assert refused.value.reason is Reason.ROUTE_MALFORMED


@pytest.mark.parametrize(
    ("query", "expected"),
    (
        ("", False),
        ("purgeRequested=false", False),
        ("purgeRequested=FALSE", False),
        ("purgeRequested=true", True),
        ("purgeRequested=false&purgeRequested=true", True),
        ("purgerequested=true", True),
        ("purge%52equested=true", True),
        ("purgeRequested", True),
        ("purgeRequested=1", True),
        ("purgeRequested=yes", True),
        ("x=purgeRequested", False),
    ),
)
def test_a_purge_is_recognised_in_every_spelling(query: str, *, expected: bool) -> None:
    """A caller that may drop a table, but not delete its data, would delete it."""
    assert purges(query) is expected


def test_a_query_whose_parts_are_parted_by_a_semicolon_is_refused() -> None:
    """Some servers take it for an ampersand, and would find a purge."""
    with pytest.raises(Refused):
        purges("a=b;purgeRequested=true")


def test_what_a_call_needs_whatever_its_body_says_is_known_before_the_body_is_read() -> None:
    """A caller without any right could have eight megabytes read, and others wait for it."""
    for kind in K:
        call = CatalogCall(kind=kind, path="", namespace="ns", name="t")
        beforehand = needs_beforehand(call)
        assert bool(beforehand) is (kind.where is not Where.BODY)
        if not reads_body(kind):
            assert beforehand == needs(call, "", None)
    bodies: tuple[tuple[CallKind, CallBody], ...] = (
        (K.CREATE_TABLE, Creation("t")),
        (K.REGISTER_TABLE, Creation("t")),
        (K.REGISTER_TABLE, Creation("t", overwrite=True)),
        (K.CREATE_VIEW, Creation("v")),
        (K.REGISTER_VIEW, Creation("v")),
        (K.UPDATE_TABLE, Commit(("ns", "t"))),
        (K.UPDATE_TABLE, Commit(("ns", "t"), creates=True)),
        (K.REPLACE_VIEW, Commit(("ns", "t"))),
    )
    for kind, body in bodies:
        call = CatalogCall(kind=kind, path="", namespace="ns", name="t")
        # One of them has to be met: what is refused for want of all of them would have been refused anyway.
        assert needs(call, "", body)[0] in needs_beforehand(call)
    with_bodies = {kind for kind, _ in bodies}
    assert {kind for kind in K if reads_body(kind) and kind.where is not Where.BODY} == with_bodies
