"""Where a bucket's requests go is the storage's declaration, and no bucket's name can change it."""

from __future__ import annotations

import pytest

from signproxy.s3.outbound import Outbound, outbound_of
from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, Style, aws_endpoints
from tests.s3.world import AWS, BOTH, MINIO


def storage(endpoint: S3Endpoint, kind: StorageKind = StorageKind.S3_COMPATIBLE) -> Storage:
    return Storage("s", kind, "r", ("b",), (endpoint,))


@pytest.mark.parametrize(
    ("declared", "bucket", "expected"),
    (
        (
            AWS,
            "my-bucket",
            Outbound(
                "https",
                "my-bucket.s3.us-west-2.amazonaws.com",
                "my-bucket.s3.us-west-2.amazonaws.com",
                Style.VIRTUAL_HOST,
            ),
        ),
        (
            AWS,
            "my.app.bucket",
            Outbound("https", "s3.us-west-2.amazonaws.com", "s3.us-west-2.amazonaws.com", Style.PATH),
        ),
        (AWS, "Upper", Outbound("https", "s3.us-west-2.amazonaws.com", "s3.us-west-2.amazonaws.com", Style.PATH)),
        (MINIO, "lake", Outbound("http", "minio.local:9000", "minio.local:9000", Style.PATH)),
        (
            storage(S3Endpoint("https", "s3.corp:443", BOTH)),
            "b",
            Outbound("https", "s3.corp", "s3.corp", Style.PATH),
        ),
        (
            storage(S3Endpoint("http", "s3.corp:8080", (Style.VIRTUAL_HOST,))),
            "b",
            Outbound("http", "b.s3.corp:8080", "b.s3.corp:8080", Style.VIRTUAL_HOST),
        ),
        (
            storage(S3Endpoint("https", "s3.corp", (Style.PATH,)), StorageKind.AWS),
            "bucket",
            Outbound("https", "s3.corp", "s3.corp", Style.PATH),
        ),
    ),
)
def test_the_first_endpoint_is_the_way(declared: Storage, bucket: str, expected: Outbound) -> None:
    """AWS wants the bucket in the host, but no certificate covers a bucket with dots; other stores take paths."""
    assert outbound_of(declared, bucket) == expected


def test_a_region_has_its_own_host() -> None:
    """The global host answers other regions with a redirect that is not followed."""
    china = Storage("s", StorageKind.AWS, "cn-north-1", ("bkt",), aws_endpoints("cn-north-1"))
    assert outbound_of(china, "bkt").host == "bkt.s3.cn-north-1.amazonaws.com.cn"


@pytest.mark.parametrize(
    ("style", "key", "path"),
    (
        (Style.PATH, "", "/b"),
        (Style.PATH, "k/l", "/b/k/l"),
        (Style.VIRTUAL_HOST, "", "/"),
        (Style.VIRTUAL_HOST, "k", "/k"),
    ),
)
def test_the_path_carries_the_bucket_only_in_path_style(style: Style, key: str, path: str) -> None:
    """A bucket that stands in host and path is a key that begins with its name."""
    way = Outbound("http", "h", "h", style)
    assert way.path("b", key) == path
    if key:
        assert way.folder("b") + key == path
