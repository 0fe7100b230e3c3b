"""Say how a client reaches the store of a table: by what the policy declares, whatever an upstream says.

A client that has its requests signed sends them to the store. One that signs by itself, with a key that signproxy
issued, is led to signproxy's own S3 listener: at the store its key is worth nothing, and is not the store's to see.
"""

from __future__ import annotations

import msgspec

from signproxy.policy.catalog import Catalog
from signproxy.policy.location import LocationInvalid, parse_location

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
        bucket = parse_location(location).bucket
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
