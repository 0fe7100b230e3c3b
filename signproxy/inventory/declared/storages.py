"""Turn the storages of a policy into values that need no further doubt."""

from __future__ import annotations

import re
from collections.abc import Iterator

from signproxy.inventory.declared.document import StorageEntry
from signproxy.policy.location import bucket_problem
from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, aws_endpoints

# An origin and nothing else: a path, a query or user information would be ignored by some and not by others.
_ORIGIN = re.compile(
    r"(https?)://((?:[a-z0-9](?:[a-z0-9\-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9\-]{0,61}[a-z0-9])?"
    r"(?::[1-9][0-9]{0,4})?)/?"
)
_REGION = re.compile(r"[a-z0-9][a-z0-9\-]{0,62}")
_ACCOUNT = re.compile(r"[0-9A-Za-z\-]{0,64}")

MAX_PORT = 65_535


def storage_of(name: str, entry: StorageEntry) -> Storage:
    """Return the storage that an entry declares; only meaningful where `storage_problems` yields nothing."""
    aws = entry.kind is StorageKind.AWS
    listed = tuple(
        S3Endpoint(match[1], match[2], endpoint.styles)
        for endpoint in entry.endpoints
        if (match := _ORIGIN.fullmatch(endpoint.url)) is not None
    )
    checks = aws if entry.checks_unsigned_headers is None else entry.checks_unsigned_headers
    return Storage(
        name=name,
        kind=entry.kind,
        region=entry.region,
        buckets=entry.buckets,
        # Endpoints beside AWS' own are those of a private link.
        endpoints=(aws_endpoints(entry.region) if aws else ()) + listed,
        stamp=entry.stamp,
        checks_unsigned_headers=checks,
        checks_payload_hash=aws if entry.checks_payload_hash is None else entry.checks_payload_hash,
        pins_forwarded_headers=entry.pins_forwarded_headers,
        literal_keys=aws if entry.literal_keys is None else entry.literal_keys,
        checks_trailers=aws if entry.checks_trailers is None else entry.checks_trailers,
        accepts_chunked_transfer=aws if entry.accepts_chunked_transfer is None else entry.accepts_chunked_transfer,
        opt_ins=entry.opt_ins,
        bucket_owner=entry.bucket_owner,
    )


def storage_problems(entry: StorageEntry) -> Iterator[tuple[str, str]]:
    """Yield key and problem of everything that is wrong with an entry."""
    if not _REGION.fullmatch(entry.region):
        yield "region", f"{entry.region!r} is no region"
    if not _ACCOUNT.fullmatch(entry.bucket_owner):
        yield "bucket_owner", f"{entry.bucket_owner!r} is no account id"
    if not entry.buckets:
        yield "buckets", "a storage needs a bucket"
    for index, bucket in enumerate(entry.buckets):
        problem = bucket_problem(bucket)
        if problem:
            yield f"buckets[{index}]", problem
        elif bucket in entry.buckets[:index]:
            yield f"buckets[{index}]", f"bucket {bucket!r} is listed twice"
    if entry.kind is StorageKind.S3_COMPATIBLE and not entry.endpoints:
        yield "endpoints", "an s3-compatible storage needs an endpoint"
    for index, endpoint in enumerate(entry.endpoints):
        match = _ORIGIN.fullmatch(endpoint.url)
        if match is None or int(match[2].rpartition(":")[2] if ":" in match[2] else "0") > MAX_PORT:
            problem = f"{endpoint.url!r} is not scheme://host[:port] in lower case, without path or user"
            yield f"endpoints[{index}].url", problem
        if not endpoint.styles:
            yield f"endpoints[{index}].styles", "an endpoint speaks path, virtual-host or both"
