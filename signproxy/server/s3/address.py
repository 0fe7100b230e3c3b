"""Read which bucket and key a request is about: from its host below a base domain, or from its path."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from signproxy.errors import Reason, Refused


class S3Address(NamedTuple):
    """What a request's host and path name, with every byte as it was sent."""

    bucket: str
    """Empty at the level of the service."""
    raw_key: str
    """Empty at the level of the bucket."""


def address_of(host: str, target: str, base_domains: Collection[str]) -> S3Address:
    """Return the address of a request. Raise Refused for a path that names neither a bucket nor the service.

    Nothing is decoded here: a bucket's name needs no escapes, and a name that has some is no bucket's.
    """
    path = target.partition("?")[0]
    if base_domains:
        bucket = _bucket_of(host, base_domains)
        if bucket:
            return S3Address(bucket, path[1:])
    bucket, _, raw_key = path[1:].partition("/")
    if not bucket and path != "/":
        raise Refused(Reason.KEY_EMPTY_SEGMENT, f"path {path!r} names no bucket")
    return S3Address(bucket, raw_key)


def _bucket_of(host: str, base_domains: Collection[str]) -> str:
    """Return what stands before a base domain; nothing where the host is one itself, or lies below none."""
    # A literal IPv6 address has no dots that a base domain could follow, for those have letters in their last part.
    name = host.partition(":")[0].rstrip(".").lower()
    # Buckets may have dots, so each of the parents may be a base domain.
    dot = name.find(".")
    while dot >= 0:
        if name[dot + 1 :] in base_domains:
            return name[:dot]
        dot = name.find(".", dot + 1)
    return ""
