"""Bucket and key are read from host and path, byte for byte, and never in two ways."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.s3.forwarded import addressed_by

DOMAINS = frozenset({"s3.example.com", "localhost"})


@pytest.mark.parametrize(
    ("host", "target", "bucket", "key"),
    (
        # path style
        ("127.0.0.1:8182", "/", "", ""),
        ("127.0.0.1:8182", "/?x-id=ListBuckets", "", ""),
        ("127.0.0.1:8182", "/lake", "lake", ""),
        ("127.0.0.1:8182", "/lake/", "lake", ""),
        ("127.0.0.1:8182", "/lake?list-type=2&prefix=a/b", "lake", ""),
        ("127.0.0.1:8182", "/lake/a/b", "lake", "a/b"),
        ("127.0.0.1:8182", "/lake/a%2Fb%20c/?x=/y", "lake", "a%2Fb%20c/"),
        ("127.0.0.1:8182", "/lake//a", "lake", "/a"),
        ("127.0.0.1:8182", "/la%6be/a", "la%6be", "a"),
        ("[::1]:8182", "/lake/a", "lake", "a"),
        # The base domain itself, or any other name, is path style.
        ("s3.example.com", "/lake/a", "lake", "a"),
        ("localhost:8182", "/lake/a", "lake", "a"),
        ("other.example.com", "/lake/a", "lake", "a"),
        ("xs3.example.com", "/lake/a", "lake", "a"),
        ("localhost.evil", "/lake/a", "lake", "a"),
        # virtual-host style
        ("lake.s3.example.com", "/", "lake", ""),
        ("lake.s3.example.com", "/?delete", "lake", ""),
        ("lake.s3.example.com:443", "/a/b", "lake", "a/b"),
        ("LAKE.S3.example.COM", "/a", "lake", "a"),
        ("lake.s3.example.com.", "/a", "lake", "a"),
        ("my.lake.s3.example.com", "/a", "my.lake", "a"),
        ("lake.localhost:8182", "/lake/a", "lake", "lake/a"),
        ("lake.localhost:8182", "//a", "lake", "/a"),
    ),
)
def test_an_address_is_read_from_host_and_path(host: str, target: str, bucket: str, key: str) -> None:
    """A request would be judged for another object than the one that the store is asked for."""
    assert addressed_by(host, target, DOMAINS) == (bucket, key)


def test_without_base_domains_the_host_says_nothing() -> None:
    """A client that may choose a Host header could choose the bucket."""
    assert addressed_by("lake.s3.example.com", "/other/a", frozenset()) == ("other", "a")


@pytest.mark.parametrize("target", ("//", "//a", "//lake/a", "///"))
def test_a_path_without_a_bucket_is_refused(target: str) -> None:
    """Some stores fold the slashes, and would then find another bucket."""
    with pytest.raises(Refused) as caught:
        addressed_by("127.0.0.1", target, DOMAINS)
    assert caught.value.reason is Reason.KEY_EMPTY_SEGMENT
