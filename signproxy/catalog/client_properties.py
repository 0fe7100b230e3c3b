"""Say which properties a client is told: how it reaches the store of a table, and what passes of an upstream's own.

Of the upstream's, those pass that can neither lead a client elsewhere nor hold a key. Everything else is dropped, known
or not. `uri`, `s3.endpoint`, `s3.proxy-uri`, `oauth2-server-uri` and `signer.*` would send requests, and tokens with
them, to another host; `io-impl`, `client.credentials-provider`, `s3.signer` and `client.factory` would run another
class; `header.*` and `token` would make the caller another one.

The store is what the policy declares, whatever an upstream says. A client that has its requests signed sends them
there. One that signs by itself, with a key that signproxy issued, is led to signproxy's own S3 listener: at the store
its key is worth nothing, and is not the store's to see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from signproxy.catalog.json_object import JsonInvalid, read_string
from signproxy.policy.catalog import Catalog
from signproxy.policy.location import LocationInvalid, known_location

_SWITCH = re.compile(r"true|false", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,10}")
_KMS_KEY = re.compile(
    r"arn:aws(?:-[a-z]{1,16}){0,3}:kms:[a-z0-9\-]{1,32}:[0-9]{12}:(?:key|alias)/[A-Za-z0-9/_\-]{1,256}"
)

PASSED = {
    # How the catalog is asked.
    "rest-metrics-reporting-enabled": _SWITCH,
    "rest-page-size": _NUMBER,
    "rest-table-cache.expire-after-write-ms": _NUMBER,
    "rest-table-cache.max-entries": _NUMBER,
    "scan-planning-mode": re.compile(r"(?:client|server|catalog)(?:[\-_](?:only|preferred))?", re.IGNORECASE),
    "snapshot-loading-mode": re.compile(r"all|refs", re.IGNORECASE),
    "token-exchange-enabled": _SWITCH,
    "token-refresh-enabled": _SWITCH,
    "view-endpoints-supported": _SWITCH,
    # How objects are written; each of it is in the request that signproxy judges.
    "s3.checksum-enabled": _SWITCH,
    "s3.delete-enabled": _SWITCH,
    "s3.delete.batch-size": _NUMBER,
    "s3.multipart.part-size-bytes": _NUMBER,
    "s3.multipart.size": _NUMBER,
    "s3.multipart.num-threads": _NUMBER,
    # Not `custom`, whose key would be the secret itself.
    "s3.sse.key": _KMS_KEY,
    "s3.sse.type": re.compile(r"none|s3|kms|dsse-kms"),
}
"""Property -> what its values look like. None of them has room for a secret or an address."""


def passed(properties: Mapping[str, Raw]) -> dict[str, str]:
    """Return the properties that a client is told."""
    kept = {}
    for name in PASSED.keys() & properties.keys():
        try:
            value = read_string(properties[name])
        except JsonInvalid:
            continue
        if PASSED[name].fullmatch(value):
            kept[name] = value
    return dict(sorted(kept.items()))


# By value: this room does not know the storages' own.
_AWS = "aws"
_PATH = "path"


class StoreAddress(msgspec.Struct, frozen=True, gc=False):
    """A store as clients' properties name it."""

    region: str
    endpoint: str = ""
    """Empty on AWS, whose endpoints every client knows."""
    path_style: bool = False

    @property
    def properties(self) -> dict[str, str]:
        """The properties of Iceberg Java and PyIceberg, which ignore each other's."""
        properties = {"client.region": self.region, "s3.region": self.region}
        if self.endpoint:
            properties["s3.endpoint"] = self.endpoint
            properties["s3.path-style-access"] = "true" if self.path_style else "false"
            if not self.path_style:
                properties["s3.force-virtual-addressing"] = "true"
        return properties

    def through(self, listener: str) -> StoreAddress:
        """Return the address by way of an S3 listener, where there is one. It takes the store's own region."""
        return StoreAddress(self.region, listener, path_style=True) if listener else self


def address_of(catalog: Catalog, location: str) -> StoreAddress | None:
    """Return the address of the store where a table lies; None where that is no storage of the catalog."""
    try:
        bucket = known_location(location).bucket
    except LocationInvalid:
        return None
    return _address(catalog, bucket)


def only_address(catalog: Catalog, listener: str = "") -> StoreAddress | None:
    """Return the address of the catalog's store, by way of the listener if there is one; None where it has several."""
    found = (_address(catalog, bucket) for storage in catalog.storages.values() for bucket in storage.buckets[:1])
    addresses = {address.through(listener) for address in found if address is not None}
    return addresses.pop() if len(addresses) == 1 else None


def _address(catalog: Catalog, bucket: str) -> StoreAddress | None:
    for storage in catalog.storages.values():
        if bucket in storage.buckets:
            if storage.kind.value == _AWS or not storage.endpoints:
                return StoreAddress(storage.region)
            endpoint = storage.endpoints[0]
            styles = {style.value for style in endpoint.styles}
            return StoreAddress(storage.region, f"{endpoint.scheme}://{endpoint.authority}", _PATH in styles)
    return None
