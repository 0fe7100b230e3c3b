"""What a client is told of keys for a table."""

from __future__ import annotations

import pytest

from signproxy.catalog.client_properties import StoreAddress
from signproxy.catalog.storage_credential import KeyPair, StorageCredential, credential_of, prefix_of
from signproxy.model import NAMESPACE_SEPARATOR, TableId
from signproxy.policy.table import Namespace, Place, Table, TableSettings

KEYS = KeyPair("ID", "SECRET", "TOKEN", 1_795_000_000.9996)


def place(path: str, bucket: str = "b") -> Place:
    return Place("main", bucket, f"{path}/")


@pytest.mark.parametrize(
    ("places", "prefix"),
    (
        ((place("wh/t"),), "s3://b/wh/t/"),
        ((place("wh/t"), place("wh/t/data")), "s3://b/wh/t/"),
        ((place("wh/t"), place("wh/t-data")), "s3://b/wh/"),
        ((place("wh/t"), place("data/t")), "s3://b/"),
        ((place("wh/a/t"), place("wh/b/t"), place("wh/a/x")), "s3://b/wh/"),
        ((place("wh/t"), place("wh/t", "c")), "s3://"),
    ),
)
def test_the_prefix_covers_every_place_of_the_table(places: tuple[Place, ...], prefix: str) -> None:
    """A file outside of it would be read without keys; `t` without its slash would take the keys of `t` for `t10`."""
    found = prefix_of(places, "s3://b/wh/t")
    assert found == prefix
    assert all(f"s3://{each.bucket}/{each.prefix}".startswith(found) for each in places)


def test_names_survive_the_way_through_a_url() -> None:
    """A refresh would ask for another table."""
    namespace = NAMESPACE_SEPARATOR.join(("a b", "c+d"))
    table = Table(
        TableId("my lake", namespace, "t%é"), Namespace("my lake", namespace), "wh/t/", TableSettings("m", "b")
    )
    config = credential_of(KEYS, table, "s3://b/wh/t", StoreAddress("r"), "https://sign.example/base/").config
    path = "v1/my%20lake/namespaces/a%20b%1Fc%2Bd/tables/t%25%C3%A9/credentials"
    assert config["client.refresh-credentials-endpoint"] == path
    assert config["credentials.uri"] == f"https://sign.example/base/catalogs/my%20lake/{path}"
    # Never later than they end.
    assert config["s3.session-token-expires-at-ms"] == "1795000000999"
    assert "s3.endpoint" not in config


def test_no_repr_holds_a_key() -> None:
    """A log of a fault would hold what opens a table."""
    shown = f"{KEYS!r} {StorageCredential('s3://b/', {'s3.secret-access-key': 'SECRET'})!r}"
    assert "SECRET" not in shown
    assert "TOKEN" not in shown
