"""Make storages and bindings for tests."""

from __future__ import annotations

from signproxy.credentials.provider import Binding, ProviderSpec
from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, Style

BOTH = (Style.PATH, Style.VIRTUAL_HOST)
MEMORY = "tests.credentials.memory:MemoryProvider"


def storage(
    name: str = "lake",
    *origins: str,
    buckets: tuple[str, ...] = ("sales", "hr"),
    region: str = "eu-west-1",
) -> Storage:
    """Return a storage with endpoints such as `https://s3.example.com`."""
    endpoints = [origin.split("://") for origin in origins or ("https://s3.example.com",)]
    return Storage(
        name,
        StorageKind.S3_COMPATIBLE,
        region,
        buckets,
        tuple(S3Endpoint(scheme, authority, BOTH) for scheme, authority in endpoints),
    )


def memory(**properties: str) -> ProviderSpec:
    """Return the fake, with properties."""
    return ProviderSpec(MEMORY, properties, "fake")


def binding(
    name: str = "lake",
    provider: ProviderSpec | None = None,
    *,
    hosts: tuple[str, ...] = ("s3.example.com",),
    buckets: dict[str, ProviderSpec] | None = None,
) -> Binding:
    """Return a binding to the fake."""
    return Binding(name, provider or memory(), hosts, buckets or {})
