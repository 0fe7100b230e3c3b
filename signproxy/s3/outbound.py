"""Say where the requests for a bucket are sent: which endpoint of the storage, and in which style."""

from __future__ import annotations

import re

import msgspec

from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, Style

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
# What a certificate for `*.s3.<region>` covers: one label.
_LABEL = re.compile(r"[a-z0-9][a-z0-9\-]{1,61}[a-z0-9]")


class Outbound(msgspec.Struct, frozen=True, gc=False):
    """Where a request goes and what its target begins with."""

    scheme: str
    host: str
    """The Host header: with the bucket in virtual-host style, without a default port."""
    authority: str
    """host[:port] to connect to; also what TLS verifies."""
    style: Style

    def folder(self, bucket: str) -> str:
        """Return what the path of each key of a bucket begins with."""
        return f"/{bucket}/" if self.style is Style.PATH else "/"

    def path(self, bucket: str, key: str) -> str:
        """Return the path of a key, encoded or decoded as it is given; of the bucket for an empty one."""
        if self.style is Style.PATH:
            return f"/{bucket}/{key}" if key else f"/{bucket}"
        return f"/{key}"


def outbound_of(storage: Storage, bucket: str) -> Outbound:
    """Return the way to a bucket: the storage's first endpoint, in path style unless it is AWS' or speaks no other."""
    endpoint = storage.endpoints[0]
    host = endpoint.authority.removesuffix(_DEFAULT_PORTS[endpoint.scheme])
    if _in_host(storage, endpoint, bucket):
        host = f"{bucket}.{host}"
        return Outbound(endpoint.scheme, host, host, Style.VIRTUAL_HOST)
    return Outbound(endpoint.scheme, host, host, Style.PATH)


def _in_host(storage: Storage, endpoint: S3Endpoint, bucket: str) -> bool:
    if not bucket:
        # What is asked of the service itself names none.
        return False
    if Style.PATH not in endpoint.styles:
        return True
    if storage.kind is not StorageKind.AWS or Style.VIRTUAL_HOST not in endpoint.styles:
        return False
    # The certificate does not cover a bucket with dots, and a host cannot spell every name.
    return _LABEL.fullmatch(bucket) is not None
