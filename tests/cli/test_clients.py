"""What clients are configured with: held against the routes that are served, and against what each version reads."""

from __future__ import annotations

from itertools import product
from urllib.parse import urljoin, urlsplit

import msgspec
import pytest

from signproxy.audit.event import MAX_CONTEXT_BYTES
from signproxy.catalog.carried import read_carried
from signproxy.cli.client_config import NEVER_SIGN, notes
from signproxy.cli.clients import Client, Connection, Mode, Site, configuration, packages, spark_conf
from signproxy.cli.clients.client import RUNTIMES, VERSIONS, version_of
from signproxy.errors import Invalid
from signproxy.model import BY_LOCATION, NamedTable
from signproxy.server.api.routes import Endpoint, find_route

CATALOG_URI = "https://catalog.example/api/catalog"
SITE = Site(catalog="lake", public_url="https://sign.example")
EVERYTHING = [(client, version) for client in Client for version in VERSIONS[client]]
_ids = [f"{client.value}-{version}" for client, version in EVERYTHING]


def facade(client: Client, version: str = "", site: Site = SITE, **more: str) -> Connection:
    return Connection(client=client, version=version, site=site, mode=Mode.FACADE, **more)


def direct(client: Client, version: str = "", site: Site = SITE, **more: str) -> Connection:
    return Connection(client=client, version=version, site=site, mode=Mode.DIRECT, catalog_uri=CATALOG_URI, **more)


def sign_urls(properties: dict[str, str], client: Client) -> list[str]:
    """Return the URLs that the client makes of the signer's two properties."""
    (uri,) = (value for key, value in properties.items() if key in {"signer.uri", "s3.signer.uri"})
    (endpoint,) = (value for key, value in properties.items() if key in {"signer.endpoint", "s3.signer.endpoint"})
    if client is Client.PYICEBERG:
        return [f"{uri.rstrip('/')}/{endpoint}"]
    # Iceberg Java resolves it against the uri with a slash, whether there is one or not.
    return [urljoin(f"{uri.rstrip('/')}/", endpoint)]


# -- through the facade ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "version"), EVERYTHING, ids=_ids)
@pytest.mark.parametrize("name", ("lake", "my lake", "lake+1", "see%2Fsaw", "möwe", "a.b"))
def test_the_facades_address_leads_to_the_catalog(client: Client, version: str, name: str) -> None:
    """A name that changes on its way through a URL is another catalog, or none."""
    site = msgspec.structs.replace(SITE, catalog=name)
    uri = configuration(facade(client, version, site, name="local"))["uri"]
    assert not uri.endswith("/")
    path = urlsplit(uri).path
    config = find_route(f"{path}/v1/config")
    assert (config.endpoint, config.address.name) == (Endpoint.CONFIG, name)
    # Where Iceberg 1.12 goes by itself.
    sign = find_route(f"{path}/v1/namespaces/a%1Fb/tables/t/sign")
    assert (sign.endpoint, sign.address.name, sign.target) == (Endpoint.SIGN, name, NamedTable("a\x1fb", "t"))


@pytest.mark.parametrize(("client", "version"), EVERYTHING, ids=_ids)
def test_through_the_facade_the_answers_say_where_to_sign(client: Client, version: str) -> None:
    """A signer that is configured wins over the one that a table's answer names: 1.12 would leave its own route."""
    properties = configuration(facade(client, version))
    assert properties["header.X-Iceberg-Access-Delegation"] == "remote-signing"
    assert not [key for key in properties if key.endswith(("signer.uri", "signer.endpoint"))]


@pytest.mark.parametrize(("client", "version"), EVERYTHING, ids=_ids)
def test_no_client_falls_back_to_keys_of_its_own(client: Client, version: str) -> None:
    """An answer that does not ask for signing would have it look for keys in its environment, and find some."""
    for connection in (facade(client, version), direct(client, version)):
        properties = configuration(connection)
        if client is Client.PYICEBERG:
            assert properties["s3.signer"] == "S3V4RestSigner"
        else:
            assert properties["s3.remote-signing-enabled"] == "true"


@pytest.mark.parametrize(("client", "version"), EVERYTHING, ids=_ids)
def test_a_client_that_is_told_no_signer_signs_at_the_facade(client: Client, version: str) -> None:
    """Up to 1.11, and in PyIceberg, the default is an endpoint below the catalog's own address."""
    path = urlsplit(configuration(facade(client, version))["uri"]).path
    route = find_route(f"{path}/v1/aws/s3/sign")
    assert (route.endpoint, route.address.name, route.target) == (Endpoint.SIGN, "lake", BY_LOCATION)


# -- past the catalog ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "version"), EVERYTHING, ids=_ids)
@pytest.mark.parametrize("base", ("https://sign.example", "https://gateway.example/sign/proxy"))
def test_past_the_catalog_each_version_finds_the_signer(client: Client, version: str, base: str) -> None:
    """An endpoint that is joined to another route is a 404 for each file."""
    properties = configuration(direct(client, version, msgspec.structs.replace(SITE, public_url=base)))
    assert properties["uri"] == CATALOG_URI
    for url in sign_urls(properties, client):
        assert url.startswith(f"{base}/catalogs/lake/")
        route = find_route(url.removeprefix(base))
        assert (route.endpoint, route.address.name, route.target) == (Endpoint.SIGN, "lake", BY_LOCATION)


@pytest.mark.parametrize(
    ("client", "version", "expected"),
    (
        # 1.12 ignores `s3.signer.*`, and has no endpoint of its own any more: it takes both keys or none.
        (Client.SPARK, "1.12", {"s3.remote-signing-enabled", "signer.uri", "signer.endpoint"}),
        (Client.FLINK, "1.12.0", {"s3.remote-signing-enabled", "signer.uri", "signer.endpoint"}),
        (Client.SPARK, "1.11", {"s3.remote-signing-enabled", "s3.signer.uri", "s3.signer.endpoint"}),
        (Client.SPARK, "1.10.1", {"s3.remote-signing-enabled", "s3.signer.uri", "s3.signer.endpoint"}),
        # PyIceberg knows no flag; it signs where this names its signer.
        (Client.PYICEBERG, "0.12", {"s3.signer", "s3.signer.uri", "s3.signer.endpoint"}),
        (Client.PYICEBERG, "0.11.1", {"s3.signer", "s3.signer.uri", "s3.signer.endpoint"}),
    ),
)
def test_each_version_is_told_by_the_keys_that_it_reads(client: Client, version: str, expected: set[str]) -> None:
    """A key of another version is ignored without a word, and the client falls back to keys of its own."""
    properties = configuration(direct(client, version))
    assert {key for key in properties if "sign" in key} == expected
    # A catalog that knows nothing of signing may refuse every call that asks for it.
    assert not [key for key in properties if key.startswith("header.")]


def test_no_endpoint_begins_with_a_slash() -> None:
    """Iceberg up to 1.10.0 throws, and PyIceberg doubles the slash, which is another route."""
    for client, version in EVERYTHING:
        properties = configuration(direct(client, version))
        assert not [value for key, value in properties.items() if key.endswith(".endpoint") and value[0] == "/"]


# -- the store -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "site", "expected"),
    (
        (Client.SPARK, {"region": "eu-central-1"}, {"client.region": "eu-central-1"}),
        (Client.PYICEBERG, {"region": "eu-central-1"}, {"s3.region": "eu-central-1"}),
        (
            Client.FLINK,
            {"region": "r", "s3_endpoint": "http://s3:9000", "path_style": True},
            {"client.region": "r", "s3.endpoint": "http://s3:9000", "s3.path-style-access": "true"},
        ),
        (
            Client.PYICEBERG,
            {"region": "r", "s3_endpoint": "http://s3:9000", "path_style": True},
            {"s3.region": "r", "s3.endpoint": "http://s3:9000"},
        ),
        (
            Client.SPARK,
            {"region": "r", "s3_endpoint": "http://s3:9000"},
            {"client.region": "r", "s3.endpoint": "http://s3:9000"},
        ),
        # botocore takes the path style for every endpoint that is not AWS'.
        (
            Client.PYICEBERG,
            {"region": "r", "s3_endpoint": "http://s3:9000"},
            {"s3.region": "r", "s3.endpoint": "http://s3:9000", "s3.force-virtual-addressing": "true"},
        ),
    ),
)
def test_the_store_is_addressed_as_the_policy_says(
    client: Client, site: dict[str, str | bool], expected: dict[str, str]
) -> None:
    """A request to another host, or with its bucket in another place, belongs to no storage and is refused."""
    declared = Site(catalog="lake", public_url="http://h", **site)  # type: ignore[arg-type]  # fields by name
    for connection in (facade(client, site=declared), direct(client, site=declared)):
        properties = configuration(connection)
        keys = ("region", "s3.endpoint", "path-style-access", "force-virtual-addressing")
        assert {key: value for key, value in properties.items() if key.endswith(keys)} == expected


@pytest.mark.parametrize(("client", "version"), EVERYTHING, ids=_ids)
def test_the_file_io_is_one_that_signs(client: Client, version: str) -> None:
    """PyArrowFileIO and HadoopFileIO never call a signer; their requests go out with whatever keys they find."""
    for connection in (facade(client, version), direct(client, version)):
        properties = configuration(connection)
        if client is Client.PYICEBERG:
            assert properties["py-io-impl"] == "pyiceberg.io.fsspec.FsspecFileIO"
        else:
            assert properties["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"


def test_a_warehouse_is_asked_of_the_catalog_itself() -> None:
    """A catalog that serves several would answer for another one, or not at all."""
    for client, version in EVERYTHING:
        assert configuration(direct(client, version, warehouse="wh"))["warehouse"] == "wh"


# -- secrets and context ---------------------------------------------------------------------------------------------


def test_no_key_and_no_token_is_made_up() -> None:
    """A client that is told of keys holds what signproxy is there to keep from it."""
    for (client, version), make in product(EVERYTHING, (facade, direct)):
        properties = configuration(make(client, version))
        assert not [key for key in properties if "key" in key or "secret" in key or "token" in key or "cred" in key]
        assert configuration(make(client, version, token="t"))["token"] == "t"


@pytest.mark.parametrize(("client", "version"), EVERYTHING, ids=_ids)
def test_through_the_facade_who_asks_is_told_in_headers(client: Client, version: str) -> None:
    """The facade hands it on with each table; nothing else of a client's configuration reaches it."""
    properties = configuration(facade(client, version, application="nightly load", query_id="q-1"))
    assert properties["header.X-Signproxy-Application"] == "nightly load"
    assert properties["header.X-Signproxy-Query"] == "q-1"


@pytest.mark.parametrize(("client", "version"), EVERYTHING, ids=_ids)
def test_past_the_catalog_who_asks_is_told_to_signproxy_alone(client: Client, version: str) -> None:
    """A header would go to the catalog; 1.10 would not show it to the signer, and newer ones the first catalog's."""
    properties = configuration(direct(client, version, application="a&b=c/d e%20", query_id="q#1;2"))
    (url,) = sign_urls(properties, client)
    carried = read_carried(None, urlsplit(url).query)
    assert carried is not None
    assert (carried.application, carried.query_id) == ("a&b=c/d e%20", "q#1;2")
    assert find_route(urlsplit(url).path).endpoint is Endpoint.SIGN
    assert not [key for key in properties if key.startswith("header.")]
    assert "+" not in url


# -- what no configuration can be made of ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    (
        ({"version": "1.13"}, "--client-version: '1.13' is no version of Iceberg that is known: 1.10, 1.11, 1.12"),
        ({"version": "1.120"}, "'1.120' is no version of Iceberg"),
        ({"version": "1"}, "'1' is no version of Iceberg"),
        (
            {"client": Client.PYICEBERG, "version": "1.12"},
            "'1.12' is no version of PyIceberg that is known: 0.11, 0.12",
        ),
        ({"name": "a.b"}, "--as: Spark cannot call a catalog 'a.b'"),
        ({"name": "a b"}, "--as: Spark cannot call a catalog 'a b'"),
        ({"catalog_uri": CATALOG_URI}, "--catalog-uri: goes with --mode direct"),
        ({"warehouse": "w"}, "--warehouse: goes with --mode direct"),
        ({"mode": Mode.DIRECT}, "--catalog-uri: is needed with --mode direct"),
        ({"mode": Mode.DIRECT, "catalog_uri": "catalog.example"}, "--catalog-uri: http(s)://HOST/PATH"),
        ({"mode": Mode.DIRECT, "catalog_uri": "https://ann:pw@catalog.example/"}, "--catalog-uri: http(s)://HOST/PATH"),
        ({"mode": Mode.DIRECT, "catalog_uri": "https://catalog.example/?token=t"}, "--catalog-uri: http(s)://HOST"),
        ({"mode": Mode.DIRECT, "catalog_uri": "https://catalog.example/a b"}, "--catalog-uri: http(s)://HOST"),
        ({"mode": Mode.DIRECT, "catalog_uri": CATALOG_URI, "warehouse": "w\n"}, "--warehouse: printable text"),
        ({"application": "a\r\nX-Other: b"}, "--application: printable ASCII expected"),
        ({"application": " a"}, "--application: printable ASCII expected"),
        ({"application": "ä"}, "--application: printable ASCII expected"),
        ({"query_id": "q" * (MAX_CONTEXT_BYTES + 1)}, f"--query-id: is longer than {MAX_CONTEXT_BYTES} bytes"),
    ),
)
def test_what_no_client_could_use_is_refused(changes: dict[str, object], told: str) -> None:
    """The client would fail later, with a message about something else; or a password would be printed."""
    with pytest.raises(Invalid) as caught:
        msgspec.structs.replace(facade(Client.SPARK), **changes)
    assert told in str(caught.value)
    assert "pw" not in str(caught.value)


def test_the_longest_word_is_taken() -> None:
    """The limit is the audit's, so what the audit takes must be told."""
    said = facade(Client.SPARK, application="a" * MAX_CONTEXT_BYTES, query_id="q" * MAX_CONTEXT_BYTES)
    assert (len(said.application), len(said.query_id)) == (MAX_CONTEXT_BYTES, MAX_CONTEXT_BYTES)


def test_other_clients_take_names_that_spark_does_not() -> None:
    """A catalog with a dot in its name could not be used at all."""
    for client in (Client.FLINK, Client.PYICEBERG):
        assert facade(client, name="a.b").called == "a.b"
    assert facade(Client.SPARK, name="prod").called == "prod"
    assert facade(Client.SPARK).called == "lake"


# -- Spark's session, packages, notes --------------------------------------------------------------------------------


def test_a_session_has_the_catalog_under_its_name() -> None:
    """A property under another name is another catalog's."""
    connection = facade(Client.SPARK, name="prod", token="t")
    conf = spark_conf(connection)
    assert conf.pop("spark.sql.extensions").endswith("IcebergSparkSessionExtensions")
    assert conf.pop("spark.sql.catalog.prod") == "org.apache.iceberg.spark.SparkCatalog"
    assert conf == {f"spark.sql.catalog.prod.{key}": value for key, value in configuration(connection).items()}


def test_packages_are_those_that_were_run() -> None:
    """A coordinate that does not resolve ends the job before it begins."""
    assert packages("1.12") == (
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
    )
    assert packages("1.12", "3.5")[0] == "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0"
    assert packages("1.11", "4.0") == (
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
    )
    assert packages("1.12", "4.0") == packages("1.11", "4.1") == packages("1.10") == ()
    assert sum(bool(packages(iceberg, spark)) for iceberg, known in RUNTIMES.items() for spark in known) == 4


@pytest.mark.parametrize(
    ("text", "expected"), (("", "1.12"), ("1.12", "1.12"), ("1.11.0", "1.11"), ("1.9", None), ("v1.12", None))
)
def test_a_version_is_known_by_its_first_two_numbers(text: str, expected: str | None) -> None:
    """A release that mends a fault is configured as the one before it."""
    assert version_of(Client.SPARK, text) == expected


@pytest.mark.parametrize(
    ("connection", "present", "absent"),
    (
        (facade(Client.SPARK), ("truststore".lower(), "analytics-accelerator"), ("127.0.0.1", "s3fs", "#16460")),
        (facade(Client.SPARK, application="a"), ("#16460",), ()),
        (facade(Client.SPARK, "1.11"), ("repeats a sign call",), ()),
        (facade(Client.SPARK, "1.12"), (), ("repeats a sign call",)),
        (direct(Client.SPARK), ("vended",), ("Set no `signer",)),
        (facade(Client.SPARK), ("Set no `signer.uri`",), ("vended",)),
        (facade(Client.FLINK), ("Flink 2.1 was run with Iceberg 1.11",), ("s3fs",)),
        (facade(Client.FLINK, "1.11"), ("repeats a sign call",), ("Flink 2.1 was run",)),
        (direct(Client.FLINK, "1.11"), ("Flink 2.1 was run with Iceberg 1.11",), ()),
        (facade(Client.PYICEBERG), (*NEVER_SIGN, "#3896", "REQUESTS_CA_BUNDLE"), ("NO_PROXY", "truststore")),
        (
            facade(Client.PYICEBERG, site=Site(catalog="lake", public_url="http://127.0.0.1:8181")),
            ("NO_PROXY=127.0.0.1", "each machine's own"),
            ("REQUESTS_CA_BUNDLE",),
        ),
        (direct(Client.PYICEBERG), ("vended",), ()),
    ),
)
def test_notes_are_those_of_the_connection(
    connection: Connection, present: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    """A page of warnings that are another client's is not read."""
    text = "\n".join(notes(connection))
    lowered = text.lower()
    assert [word for word in present if word.lower() not in lowered] == []
    assert [word for word in absent if word.lower() in lowered] == []
