"""What a signing client is told, for each generation of them, if it asks, and how its answers are tagged."""

from __future__ import annotations

import uuid
from urllib.parse import parse_qs, urljoin, urlsplit

import msgspec
import pytest

from signproxy.catalog.carried import read_carried
from signproxy.catalog.signer_grant import (
    MAX_TAG,
    MAX_TAGS,
    IcebergClient,
    SignerGrant,
    client_of,
    marked,
    mount_of,
    unmarked,
    variant_of,
)
from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import NamedTable
from signproxy.server.api.routes import Endpoint, find_route

GRANT = SignerGrant(mount="https://sign.example/base/catalogs/my%20lake/", prefix="my%20lake")


def facts(namespace: str = "ns", name: str = "t", identifier: str = "u-1") -> TableFacts:
    return TableFacts(namespace, name, identifier, "s3://b/wh/t", {})


@pytest.mark.parametrize("client", list(IcebergClient))
def test_one_answer_serves_every_generation(client: IcebergClient) -> None:
    """Java up to 1.11 and PyIceberg read these keys, 1.12 the switch alone; without one of them nothing is signed."""
    properties = msgspec.structs.replace(GRANT, client=client).properties(facts())
    assert {name: value for name, value in properties.items() if name != "s3.request-timeout"} == {
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.signer.uri": "https://sign.example/base/catalogs/my%20lake/",
        "s3.signer.endpoint": "v1/my%20lake/namespaces/ns/tables/t/sign",
    }
    assert ("s3.request-timeout" in properties) is (client is IcebergClient.PYICEBERG)


def test_what_would_win_over_the_sign_route_is_never_told() -> None:
    """Iceberg 1.12 would go past the specification's route and carry no context."""
    grant = msgspec.structs.replace(GRANT, token="x", context={"a": "b"})
    assert not [name for name in grant.properties(facts()) if name.startswith("signer.")]


@pytest.mark.parametrize(
    ("namespace", "name"), (("ns", "t"), ("a\x1fb c\x1fd+e", "x y+z"), ("\u00e9", "a?b#c&d=e;f"), ("a%2Fb", "c%20d"))
)
def test_the_endpoint_leads_to_the_tables_sign_route(namespace: str, name: str) -> None:
    """Java resolves it against the uri, PyIceberg puts a slash between them; both must end at this table."""
    properties = GRANT.properties(facts(namespace, name))
    uri, endpoint = properties["s3.signer.uri"], properties["s3.signer.endpoint"]
    assert not endpoint.startswith("/")
    joined = urljoin(uri, endpoint)
    assert joined == f"{uri.rstrip('/')}/{endpoint}"
    route = find_route(urlsplit(joined).path.removeprefix("/base"))
    assert (route.endpoint, route.target) == (Endpoint.SIGN, NamedTable(namespace, name))
    assert (route.address.name, route.address.prefix) == ("my lake", "my lake")


def test_what_a_client_carries_is_in_both_carriers() -> None:
    """Iceberg 1.12 repeats the properties, the others the query; whichever is left out ends the staged create there."""
    context = {"signproxy-context": "spc1.a+b/c=&d", "signproxy-application": "my job", "signproxy-query": "q\u00e9"}
    grant = msgspec.structs.replace(GRANT, context=context)
    query = urlsplit(grant.properties(facts())["s3.signer.endpoint"]).query
    assert {name: [value] for name, value in context.items()} == parse_qs(query, strict_parsing=True)
    told = grant.signing_config["properties"]
    assert told == context
    assert read_carried(context, "") == read_carried(None, query)


def test_a_sign_call_may_be_repeated() -> None:
    """A restart of the sidecar would end every job of Iceberg 1.12."""
    headers = GRANT.signing_config["headers"]
    assert isinstance(headers, dict)
    ((name, (value,)),) = headers.items()
    assert name == "Idempotency-Key"
    assert uuid.UUID(value).version == 7
    # `{}` would be no configuration at all for Java.
    assert GRANT.signing_config != {}


def test_a_table_token_is_told_where_there_is_one() -> None:
    """Java goes on with it; an empty one would be sent as it is."""
    assert "token" not in GRANT.properties(facts())
    assert msgspec.structs.replace(GRANT, token="spt1.x").properties(facts())["token"] == "spt1.x"


def test_pyicebergs_file_systems_are_told_apart() -> None:
    """One is shared by fsspec among tables of equal settings, and asks at the wrong table's endpoint."""
    grant = msgspec.structs.replace(GRANT, client=IcebergClient.PYICEBERG)
    uuids = [str(uuid.uuid4()) for _ in range(2000)]
    limits = [float(grant.properties(facts(identifier=each))["s3.request-timeout"]) for each in uuids]
    assert len(set(limits)) == len(uuids)
    assert all(60 < limit < 60.2 for limit in limits)
    again = [float(grant.properties(facts("other", "name", each))["s3.request-timeout"]) for each in uuids]
    assert again == limits


@pytest.mark.parametrize(
    "url", ("https://sign.example/base", "https://sign.example/base/", "https://sign.example/base//")
)
def test_the_mount_is_of_the_configured_url(url: str) -> None:
    """A doubled slash is another route."""
    assert mount_of(url, "my lake") == GRANT.mount


def test_a_variant_is_of_what_is_told() -> None:
    """A client would keep an answer that was made for other settings, or throw away one that is the same."""
    others = [
        None,
        msgspec.structs.replace(GRANT, mount="https://other/"),
        msgspec.structs.replace(GRANT, prefix="other"),
        msgspec.structs.replace(GRANT, client=IcebergClient.PYICEBERG),
        msgspec.structs.replace(GRANT, context={"signproxy-query": "q"}),
        msgspec.structs.replace(GRANT, context={"signproxy-application": "q"}),
    ]
    variants = [
        variant_of(GRANT),
        variant_of(GRANT, "rev-1"),
        variant_of(GRANT, "rev-1", "x"),
        *map(variant_of, others),
    ]
    assert len(set(variants)) == len(variants)
    # Each token is another one; the time in `besides` says when a new one is wanted.
    assert variant_of(msgspec.structs.replace(GRANT, token="a")) == variant_of(GRANT)
    assert variant_of(msgspec.structs.replace(GRANT, context={"b": "1", "a": "2"})) == variant_of(
        msgspec.structs.replace(GRANT, context={"a": "2", "b": "1"})
    )


# -- tags of answers that were changed -------------------------------------------------------------------------------


@pytest.mark.parametrize("etag", ('"abc"', 'W/"abc"', '""', '"a.sp-b"', '"a,b"', '"\'/+="'))
def test_a_tag_finds_its_way_back(etag: str) -> None:
    """The upstream would never find its answer unchanged."""
    own = marked(etag, "0123")
    assert own is not None
    assert own != etag
    assert unmarked(own, "0123") == etag
    assert unmarked(f' "x" , {own},W/"y"', "0123") == etag


@pytest.mark.parametrize(
    "header",
    (
        # Of an answer without signproxy, of one for other settings, and of none.
        '"abc"',
        '"abc.sp-9999"',
        "*",
        "",
        '"abc.sp-0123',
        'abc.sp-0123"',
        '"abc.sp-0123"x',
        '"abc.sp-0123" "abc.sp-0123"',
        '"a\x80.sp-0123"',
        '"a\r\nX: y.sp-0123"',
    ),
)
def test_a_tag_of_another_answer_is_not_sent_on(header: str) -> None:
    """The client would go on with an answer that leads to no signer, or to another one."""
    assert unmarked(header, "0123") is None


def test_of_several_tags_those_of_the_same_answer_are_sent_on() -> None:
    """A client that knows two answers would be sent the whole table though it has it."""
    assert unmarked('"a.sp-1", W/"b.sp-1","c.sp-2"', "1") == '"a", W/"b"'
    many = ", ".join(f'"{number}.sp-1"' for number in range(MAX_TAGS + 5))
    sent = unmarked(many, "1")
    assert sent is not None
    assert sent.count('"') == 2 * MAX_TAGS


@pytest.mark.parametrize(
    "etag", ("", "abc", '"abc', 'abc"', '"a"b"', '"a\n"', '"\u00e9"', 'w/"a"', f'"{"a" * MAX_TAG}"')
)
def test_what_is_no_tag_is_left_out(etag: str) -> None:
    """An upstream could write lines of its own into the answer's head."""
    assert marked(etag, "1") is None


# -- who asks, and for what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user_agent", "client_version", "expected"),
    (
        ("PyIceberg/0.12.0", "0.14.1", IcebergClient.PYICEBERG),
        ("pyiceberg/0.11.1", "", IcebergClient.PYICEBERG),
        ("Apache-HttpClient/5.6 (Java/17.0.12)", "Apache Iceberg 1.12.0 (commit 212aa894)", IcebergClient.JAVA),
        ("", "Apache Iceberg 1.9.2 (commit 071d5606)", IcebergClient.JAVA),
        # A header that the user set stands for the client's own.
        ("my-job/1.0", "Apache Iceberg unspecified", IcebergClient.JAVA),
        ("GoIceberg/0.4.0", "0.14.1", IcebergClient.OTHER),
        ("duckdb/v1.5.5", "", IcebergClient.OTHER),
        ("", "", IcebergClient.OTHER),
        ("Mozilla (like PyIceberg/0.12.0)", "", IcebergClient.OTHER),
    ),
)
def test_a_client_is_known_by_what_it_sends(user_agent: str, client_version: str, expected: IcebergClient) -> None:
    """PyIceberg needs what would be odd for all others."""
    assert client_of(user_agent, client_version) is expected
