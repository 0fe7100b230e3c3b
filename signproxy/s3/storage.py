"""Describe a storage and find, for a URI's origin, the storage and bucket that it addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

import msgspec

STAMP = "x-signproxy-id"
"""Query parameter that carries the audit event's id into the store's own log."""


class StorageKind(Enum):
    """Whether the endpoints are AWS' own for a region, or listed one by one."""

    AWS = "aws"
    S3_COMPATIBLE = "s3-compatible"


class Style(Enum):
    """Where a request carries its bucket."""

    PATH = "path"
    VIRTUAL_HOST = "virtual-host"


class Stamp(Enum):
    """Whether the audit event's id travels in the signed URI."""

    QUERY = "query"
    OFF = "off"


class S3Endpoint(msgspec.Struct, frozen=True, gc=False):
    """One address of a storage: scheme, host[:port] in lower case, and the styles it speaks."""

    scheme: str
    authority: str
    styles: tuple[Style, ...]


class OptIns(msgspec.Struct, frozen=True, gc=False):
    """What a storage signs beyond the plain reading and writing of objects; everything off by default."""

    tagging: bool = False
    recover: bool = False
    multipart_cleanup: bool = False
    bucket_owner_full_control: bool = False
    kms_keys: tuple[str, ...] = ()
    storage_classes: tuple[str, ...] = ()


class Storage(msgspec.Struct, frozen=True, gc=False):
    """A store as the policy declares it. Which credentials sign for it is the operator's binding."""

    name: str
    kind: StorageKind
    region: str
    buckets: tuple[str, ...]
    endpoints: tuple[S3Endpoint, ...]
    stamp: Stamp = Stamp.QUERY
    checks_unsigned_headers: bool = False
    """It refuses `x-amz-*` headers that are not signed; else a signed write can be made a copy."""
    checks_payload_hash: bool = False
    """It compares the body with the signed hash; else the keys of a signed bulk delete can be swapped."""
    pins_forwarded_headers: bool = False
    """Sign empty `X-Forwarded-Host` and `-Prefix`: the store verifies what they say instead of the real path."""
    opt_ins: OptIns = OptIns()
    bucket_owner: str = ""
    """The account that owns the buckets; where set, `x-amz-expected-bucket-owner` must equal it."""
    literal_keys: bool = False
    """It keeps `..`, `.` and empty segments of a key as they are; else two keys may be one object."""
    checks_trailers: bool = False
    """It knows the checksum trailers of aws-chunked uploads and refuses what does not match them."""
    accepts_chunked_transfer: bool = False
    """It takes uploads in HTTP's chunked transfer coding, without a Content-Length."""


class AddressedOrigin(msgspec.Struct, frozen=True, gc=False):
    """What an origin (`scheme://authority`) addresses."""

    host: str
    """The Host that the client will send: the authority without a default port."""
    bucket: str | None
    """The bucket that the host names, or None where the path carries it."""
    storages: dict[str, Storage]
    """The storage of each bucket that may be addressed here."""


_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def aws_endpoints(region: str) -> tuple[S3Endpoint, ...]:
    """Return the addresses of S3 in a region, the global one included where the region answers there."""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    both = (Style.PATH, Style.VIRTUAL_HOST)
    hosts = [
        f"s3.{region}.{suffix}",
        f"s3-{region}.{suffix}",
        f"s3.dualstack.{region}.{suffix}",
        f"s3-fips.{region}.{suffix}",
        f"s3-fips.dualstack.{region}.{suffix}",
    ]
    if not region.startswith(("cn-", "us-gov-", "us-iso")):
        # SDKs send us-east-1, and older ones every region, to the global host.
        hosts.append(f"s3.{suffix}")
    endpoints = [S3Endpoint("https", host, both) for host in hosts]
    endpoints += [
        S3Endpoint("https", f"{host}.{suffix}", (Style.VIRTUAL_HOST,))
        for host in ("s3-accelerate", "s3-accelerate.dualstack")
    ]
    return tuple(endpoints)


class EndpointIndex:
    """Look up what an origin addresses. Nothing is parsed out of a host name: every host is listed."""

    def __init__(self, storages: Iterable[Storage]) -> None:
        self._origins: dict[str, AddressedOrigin] = {}
        self.find = self._origins.get
        """Return what `scheme://authority`, spelled exactly so, addresses; None where that is nothing."""
        for storage in storages:
            for spelled, host, bucket in _origins_of(storage):
                origin = self._origins.setdefault(spelled, AddressedOrigin(host, bucket, {}))
                for addressed in storage.buckets if bucket is None else (bucket,):
                    owner = origin.storages.setdefault(addressed, storage)
                    if owner is not storage or origin.bucket != bucket:
                        raise EndpointClash(spelled, addressed, owner.name, storage.name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._origins)


class EndpointClash(ValueError):
    """One origin and bucket would address two storages, or be read in two styles."""

    def __init__(self, origin: str, bucket: str, first: str, second: str) -> None:
        super().__init__(f"{origin} with bucket {bucket!r} is claimed by storage {first!r} and by {second!r}")


def _origins_of(storage: Storage) -> Iterator[tuple[str, str, str | None]]:
    """Yield each spelling of each origin, its Host and the bucket that it names."""
    for endpoint in storage.endpoints:
        default_port = _DEFAULT_PORTS[endpoint.scheme]
        bare = endpoint.authority.removesuffix(default_port)
        hosts: list[tuple[str, str | None]] = []
        if Style.PATH in endpoint.styles:
            hosts.append((bare, None))
        if Style.VIRTUAL_HOST in endpoint.styles:
            hosts += [(f"{bucket}.{bare}", bucket) for bucket in storage.buckets]
        for host, bucket in hosts:
            yield f"{endpoint.scheme}://{host}", host, bucket
            if ":" not in host:
                # The default port may be spelled out in a URI; no client sends it in Host.
                yield f"{endpoint.scheme}://{host}{default_port}", host, bucket
