"""The route table: the specification's calls, each by its method, and nothing else."""

from __future__ import annotations

import re

import pytest

from signproxy.catalog.call import CallKind, find_call, table_path
from signproxy.errors import Reason, Refused

SPECIFICATION = """
GET config
POST oauth/tokens
GET POST namespaces
GET HEAD DELETE namespaces/{n}
POST namespaces/{n}/properties
GET POST namespaces/{n}/tables
POST namespaces/{n}/register
GET HEAD POST DELETE namespaces/{n}/tables/{t}
POST namespaces/{n}/tables/{t}/metrics
GET namespaces/{n}/tables/{t}/credentials
POST namespaces/{n}/tables/{t}/plan
GET DELETE namespaces/{n}/tables/{t}/plan/{p}
POST namespaces/{n}/tables/{t}/tasks
POST tables/rename
POST transactions/commit
GET POST namespaces/{n}/views
GET HEAD POST DELETE namespaces/{n}/views/{t}
POST views/rename
POST namespaces/{n}/register-view
"""
"""Written down again, from the specification; the sign route is served elsewhere."""

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "get", "TRACE")


def _rows() -> list[tuple[list[str], str]]:
    rows = []
    for line in SPECIFICATION.strip().splitlines():
        *methods, path = line.split()
        rows.append((methods, path))
    return rows


@pytest.mark.parametrize(("methods", "path"), _rows(), ids=str)
def test_each_route_takes_its_methods_and_no_other(methods: list[str], path: str) -> None:
    """A call that is not known by its method would be judged as another."""
    parts = path.format(n="ns", t="t1", p="p1").split("/")
    kinds = set()
    for method in METHODS:
        if method in methods:
            call = find_call(method, parts)
            assert call is not None
            assert call.kind.method == method
            assert call.path == "/".join(parts)
            assert (call.namespace, call.name) == ("ns" if "{n}" in path else "", "t1" if "{t}" in path else "")
            kinds.add(call.kind)
        else:
            with pytest.raises(Refused) as refused:
                find_call(method, parts)
            assert refused.value.reason is Reason.METHOD_NOT_ALLOWED
    assert len(kinds) == len(methods)


def test_every_kind_is_found() -> None:
    """A kind without a route is a rule that never applies."""
    found = set()
    for methods, path in _rows():
        for method in methods:
            call = find_call(method, path.format(n="ns", t="t1", p="p1").split("/"))
            assert call is not None
            found.add(call.kind)
    assert found == set(CallKind)


def test_every_route_is_spelled_as_clients_compare_it() -> None:
    """Java compares the text: in another spelling, a client takes the catalog for one that cannot do it."""
    for kind in CallKind:
        assert re.fullmatch(r"(GET|HEAD|POST|DELETE) /v1(/[a-z\-]+|/\{[a-z\-]+\})+", kind.value)
        names = re.findall(r"\{([a-z\-]+)\}", kind.value)
        assert names == list(dict.fromkeys(names))
        assert set(names) <= {"prefix", "namespace", "table", "view", "plan-id"}


@pytest.mark.parametrize(
    "path",
    (
        "",
        "namespace",
        "Namespaces",
        "namespaces/ns/table",
        "namespaces/ns/tables/t/sign",
        "namespaces/ns/tables/t/credentials/x",
        "namespaces/ns/tables/t/plan/p/x",
        "namespaces/ns/tables/t/",
        "namespaces/ns/",
        "namespaces/ns/tables/t/../u",
        "namespaces/ns/policies",
        "namespaces/ns/functions",
        "namespaces/ns/generic-tables",
        "n%61mespaces/ns",
        "namespaces/ns/%74ables",
        "tables/rename/x",
        "tables",
        "transactions",
        "config/x",
        "oauth",
        "oauth/tokens/x",
        "oauth/token",
        "management/v1/principals",
        "../../management",
        "%2e%2e/config",
        "config;x",
        "aws/s3/sign",
    ),
)
def test_what_is_not_in_the_specification_is_no_call(path: str) -> None:
    """Routes that a catalog has besides (policies, users, grants) were never judged."""
    for method in ("GET", "POST", "DELETE"):
        assert find_call(method, path.split("/")) is None


@pytest.mark.parametrize(
    "path",
    (
        "namespaces/",
        "namespaces//tables",
        "namespaces/ns/tables//plan",
        "namespaces/../tables/t",
        "namespaces/ns/tables/..",
        "namespaces/ns/tables/%2e%2e",
        "namespaces/ns/tables/a%2Fb",
        "namespaces/ns/tables/a%5Cb",
        "namespaces/ns/tables/a%00",
        "namespaces/ns/tables/a%0d%0aX-Y:1",
        "namespaces/a%1F%1Fb/tables/t",
        "namespaces/ns%2Ftables/tables/t",
        "namespaces/ns/tables/t%1Fu",
        "namespaces/ns/tables/t/plan/..",
        "namespaces/ns/tables/t/plan/a%2Fb",
        "namespaces/ns/tables/%ff",
        "namespaces/ns/tables/%zz",
        "namespaces/ns/views/.",
    ),
)
def test_a_path_that_could_be_read_twice_is_refused(path: str) -> None:
    """Two servers that disagree about a path disagree about the table that was judged."""
    parts = path.split("/")
    reasons = set()
    for method in METHODS:
        with pytest.raises(Refused) as refused:
            find_call(method, parts)
        reasons.add(refused.value.reason)
    assert Reason.ROUTE_MALFORMED in reasons
    assert reasons <= {Reason.ROUTE_MALFORMED, Reason.METHOD_NOT_ALLOWED}


@pytest.mark.parametrize(
    ("path", "sent", "namespace", "name"),
    (
        ("namespaces/a%1fb+c/tables/d%2be", "namespaces/a%1Fb%20c/tables/d%2Be", "a\x1fb c", "d+e"),
        ("namespaces/n%73/tables/%74", "namespaces/ns/tables/t", "ns", "t"),
        ("namespaces/a!b/tables/c'd", "namespaces/a%21b/tables/c%27d", "a!b", "c'd"),
        # Some servers take what follows a raw semicolon for parameters.
        ("namespaces/ns/tables/t;x=1", "namespaces/ns/tables/t%3Bx%3D1", "ns", "t;x=1"),
        ("namespaces/ns/tables/a%2520b", "namespaces/ns/tables/a%2520b", "ns", "a%20b"),
        ("namespaces/ns/tables/%C3%A9", "namespaces/ns/tables/%C3%A9", "ns", "\u00e9"),
        ("namespaces/tables/tables/tables", "namespaces/tables/tables/tables", "tables", "tables"),
    ),
)
def test_a_path_is_written_anew(path: str, sent: str, namespace: str, name: str) -> None:
    """A lenient upstream could find another table in the client's spelling than was judged."""
    call = find_call("GET", path.split("/"))
    assert call is not None
    assert (call.path, call.namespace, call.name) == (sent, namespace, name)
    assert find_call("GET", sent.split("/")) == call


def test_the_id_of_a_plan_is_no_name_of_a_table() -> None:
    """The plan would be judged as if it were the table."""
    call = find_call("GET", ["namespaces", "ns", "tables", "t", "plan", "p+1"])
    assert call is not None
    assert (call.name, call.path) == ("t", "namespaces/ns/tables/t/plan/p%201")


def test_the_path_of_a_table_is_that_of_its_calls() -> None:
    """What a sign request has loaded would be another table than the one that was loaded by name."""
    call = find_call("GET", ["namespaces", "a%1Fb+c", "tables", "d%2Be"])
    assert call is not None
    assert table_path("a\x1fb c", "d+e") == call.path


@pytest.mark.parametrize(
    ("namespace", "name"),
    (("ns", ".."), ("ns", "."), ("..", "t"), ("ns", "a/../b"), ("ns", ""), ("", "t"), ("a\x1f", "t"), ("ns", "a\x1fb")),
)
def test_a_table_that_no_call_could_name_is_unknown(namespace: str, name: str) -> None:
    """A sign request for the table `..` would have another path of the upstream asked."""
    with pytest.raises(Refused) as refused:
        table_path(namespace, name)
    assert refused.value.reason is Reason.TABLE_UNKNOWN


@pytest.mark.parametrize("method", ("GET", "HEAD", "POST", "DELETE"))
@pytest.mark.parametrize("path", ("functions", "functions/f", "tables/t/unregister", "unregister"))
def test_what_the_page_lists_as_not_passed_is_no_call(method: str, path: str) -> None:
    """A route that was not judged would reach the upstream with the caller's token."""
    assert find_call(method, ("namespaces", "ns", *path.split("/"))) is None
