"""What a client is told: no property of an upstream that leads it elsewhere, and the store where the policy has it."""

from __future__ import annotations

import pytest
from msgspec import Raw
from msgspec.json import encode

from signproxy.catalog.client_properties import PASSED, StoreAddress, address_of, only_address, passed
from signproxy.policy.catalog import Catalog
from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, Style, aws_endpoints


def told(**properties: object) -> dict[str, str]:
    return told_of(properties)


def told_of(properties: dict[str, object]) -> dict[str, str]:
    return passed({name: Raw(encode(value)) for name, value in properties.items()})


_GOOD = {
    "rest-metrics-reporting-enabled": "false",
    "rest-page-size": "200",
    "rest-table-cache.expire-after-write-ms": "1000",
    "rest-table-cache.max-entries": "0",
    "scan-planning-mode": "SERVER",
    "snapshot-loading-mode": "refs",
    "token-exchange-enabled": "false",
    "token-refresh-enabled": "true",
    "view-endpoints-supported": "true",
    "s3.checksum-enabled": "true",
    "s3.delete-enabled": "false",
    "s3.delete.batch-size": "100",
    "s3.multipart.part-size-bytes": "8388608",
    "s3.multipart.size": "33554432",
    "s3.multipart.num-threads": "4",
    "s3.sse.key": "arn:aws-us-gov:kms:us-gov-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "s3.sse.type": "kms",
}


def test_what_tunes_a_client_passes() -> None:
    """A catalog could no longer say how it wants its objects written."""
    assert _GOOD.keys() == PASSED.keys()
    assert told_of(dict(_GOOD)) == _GOOD


_DROPPED = """
uri warehouse prefix namespace-separator io-impl py-io-impl py-catalog-impl token credential scope audience
oauth2-server-uri rest.auth.type rest.sigv4-enabled rest.signing-name rest.access-key-id rest.secret-access-key
rest.client.proxy.hostname rest.client.tls.configurer-impl rest.http-client.class metrics-reporter-impl
header.Authorization header.X-Iceberg-Access-Delegation signer signer.uri signer.endpoint
client.factory client.region client.credentials-provider client.credentials-provider.glue.x client.assume-role.arn
client.refresh-credentials-endpoint client.refresh-credentials-enabled
s3.endpoint s3.region s3.path-style-access s3.force-virtual-addressing s3.proxy-uri s3.access-points.bucket
s3.access-key-id s3.secret-access-key s3.session-token s3.session-token-expires-at-ms s3.role-arn
s3.remote-signing-enabled s3.signer s3.signer.uri s3.signer.endpoint s3.client-factory-impl s3.connect-timeout
s3.request-timeout s3.crt.enabled s3.analytics-accelerator.enabled s3.cross-region-access-enabled
s3.acceleration-enabled s3.dualstack-enabled s3.use-arn-region-enabled s3.acl s3.write.tags.owner s3.sse.md5
s3.encryption.key gcs.oauth2.token adls.sas-token.account adls.connection-string.account
glue.id glue.endpoint dynamodb.endpoint lock-impl nessie.core-base-uri nessie.is-nessie-catalog
table-default.write.data.path table-override.write.data.path aws.remote-signing.enabled unknown-to-all
""".split()


@pytest.mark.parametrize("name", _DROPPED)
def test_what_leads_elsewhere_or_holds_keys_is_dropped(name: str) -> None:
    """A catalog that lies, or was taken over, would have the client send its token, or its data, to another host."""
    for value in ("true", "1", "https://evil.example", "AKIAIOSFODNN7EXAMPLE"):
        assert told_of({name: value}) == {}


@pytest.mark.parametrize("name", sorted(PASSED))
@pytest.mark.parametrize(
    "value",
    (
        "",
        " ",
        "https://evil.example",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOi.J9.x",
        "true\n",
        "1\n",
        "-1",
        "1e9",
        "9" * 40,
    ),
)
def test_a_value_has_no_room_for_a_secret(name: str, value: str) -> None:
    """A key in an innocent property is a key."""
    assert told_of({name: value}) == {}


@pytest.mark.parametrize("value", (None, True, 1, ["true"], {"a": "true"}))
def test_a_value_that_is_no_text_is_dropped(value: object) -> None:
    """The client would fail to read its configuration."""
    assert told_of({"s3.delete-enabled": value}) == {}


@pytest.mark.parametrize("kind", ("custom", "CUSTOM", "kms2", ""))
def test_no_encryption_with_a_key_of_the_catalogs(kind: str) -> None:
    """The key itself would be in the property."""
    assert told_of({"s3.sse.type": kind, "s3.sse.key": "c2VjcmV0LWtleS1vZi0zMi1ieXRlcy1sb25nISEhISE="}) == {}


@pytest.mark.parametrize(
    "key",
    (
        "arn:aws:kms:us-east-1:123456789012:key/",
        "arn:aws:iam::123456789012:role/admin",
        "arn:aws:kms:us-east-1:12345:key/x",
        "arn:evil:kms:us-east-1:123456789012:key/x",
        "1234abcd-12ab-34cd-56ef-1234567890ab",
    ),
)
def test_only_the_name_of_a_key_passes(key: str) -> None:
    """What looks like the name of a key, and is none, may be anything."""
    assert told_of({"s3.sse.key": key}) == {}


def test_the_order_is_always_the_same() -> None:
    """Two answers of one table would differ, and so would their ETags."""
    assert list(told(**{"s3.sse.type": "s3", "rest-page-size": "5"})) == ["rest-page-size", "s3.sse.type"]


# -- where the client finds the store --------------------------------------------------------------------------------

AWS = Storage("aws", StorageKind.AWS, "eu-west-1", ("one", "two"), aws_endpoints("eu-west-1"))
PATH = Storage(
    "path",
    StorageKind.S3_COMPATIBLE,
    "r1",
    ("three",),
    (S3Endpoint("http", "minio:9000", (Style.PATH, Style.VIRTUAL_HOST)),),
)
HOST = Storage(
    "host",
    StorageKind.S3_COMPATIBLE,
    "r2",
    ("four",),
    (S3Endpoint("https", "s3.corp", (Style.VIRTUAL_HOST,)), S3Endpoint("http", "inner", (Style.PATH,))),
)


def catalog(*storages: Storage) -> Catalog:
    return Catalog("lake", storages={storage.name: storage for storage in storages})


@pytest.mark.parametrize(
    ("location", "expected"),
    (
        ("s3://one/wh/t", StoreAddress("eu-west-1")),
        ("s3a://two/wh/t/", StoreAddress("eu-west-1")),
        ("s3://three/wh/t", StoreAddress("r1", "http://minio:9000", path_style=True)),
        ("s3n://four/wh/t", StoreAddress("r2", "https://s3.corp")),
        ("s3://five/wh/t", None),
        ("gs://one/wh/t", None),
        ("s3://one", None),
        ("", None),
        ("s3://one/../four/t", None),
    ),
)
def test_the_bucket_says_which_store_it_is(location: str, expected: StoreAddress | None) -> None:
    """The client would look for the table in another store."""
    assert address_of(catalog(AWS, PATH, HOST), location) == expected


def test_what_is_told_of_a_store() -> None:
    """Java and PyIceberg each read keys of their own, and fail without them."""
    assert StoreAddress("r").properties == {"client.region": "r", "s3.region": "r"}
    assert StoreAddress("r", "http://h", path_style=True).properties == {
        "client.region": "r",
        "s3.region": "r",
        "s3.endpoint": "http://h",
        "s3.path-style-access": "true",
    }
    assert StoreAddress("r", "http://h").properties == {
        "client.region": "r",
        "s3.region": "r",
        "s3.endpoint": "http://h",
        "s3.path-style-access": "false",
        "s3.force-virtual-addressing": "true",
    }


def test_a_catalog_has_an_address_where_it_has_one_store() -> None:
    """Of several stores, any one would be wrong for some table."""
    assert only_address(catalog(AWS)) == StoreAddress("eu-west-1")
    assert only_address(catalog(PATH)) == StoreAddress("r1", "http://minio:9000", path_style=True)
    assert only_address(catalog(AWS, PATH)) is None
    assert only_address(catalog()) is None


@pytest.mark.parametrize("address", (StoreAddress("r"), StoreAddress("r", "https://s3.corp")))
def test_a_listener_stands_in_for_the_store(address: StoreAddress) -> None:
    """A client would send the key that signproxy issued to the store, which refuses it and has seen it."""
    assert address.through("https://s3.sign.example:8182") == StoreAddress(
        "r", "https://s3.sign.example:8182", path_style=True
    )
    assert address.through("") is address


def test_a_listener_is_one_address_for_stores_of_one_region() -> None:
    """A default that is wrong for some bucket has its requests signed for another region."""
    listener = "http://127.0.0.1:8182"
    near = Storage("near", StorageKind.S3_COMPATIBLE, "r1", ("near",), (S3Endpoint("http", "near", (Style.PATH,)),))
    assert only_address(catalog(PATH, near)) is None
    assert only_address(catalog(PATH, near), listener) == StoreAddress("r1", listener, path_style=True)
    assert only_address(catalog(PATH, HOST), listener) is None
    assert only_address(catalog(), listener) is None


def test_a_store_without_endpoints_has_its_region() -> None:
    """A policy in the making must not end a call as a fault."""
    bare = Storage("bare", StorageKind.S3_COMPATIBLE, "r3", ("six",), ())
    assert only_address(catalog(bare)) == StoreAddress("r3")
