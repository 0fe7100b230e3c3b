"""Where a client finds a table's store: where the policy says."""

from __future__ import annotations

import pytest

from signproxy.catalog.client_properties import StoreAddress, address_of, only_address
from signproxy.policy.catalog import Catalog
from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, Style, aws_endpoints

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
