"""Say what a test may ask of a store, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

DOMAIN = "s3.e2e.test"
"""The name below which buckets are addressed in virtual-host style; it is never resolved."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Where stores differ by design, so that a test can say what it expects of each."""

    refuses_wrong_payload_hash: bool = True
    refuses_wrong_region: bool = True
    verifies_as_forwarded: bool = False
    """Whether `X-Forwarded-Host` and `X-Forwarded-Prefix` of any client change what a signature is checked against
    (seaweedfs/seaweedfs#7068, #7398): a signature for one object then opens every other one of the store."""
    stores_object_beside_its_directory: bool = True
    """Whether `a` and `a/b` can both be objects; not where keys are files."""


@dataclass(frozen=True, slots=True)
class RunningStore:
    """A store that listens on loopback, and the keys that own everything in it."""

    name: str
    version: str
    port: int
    region: str
    access_key: str
    secret: str
    traits: Traits
    log: Callable[[], str]
    """The end of what the store wrote."""

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        """Return where path-style requests go."""
        return f"http://{self.authority}"

    def __repr__(self) -> str:
        return f"RunningStore({self.name} {self.version} at {self.origin})"


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A store that can be started in an empty directory."""

    name: str
    version: str
    run: Callable[[Path], AbstractContextManager[RunningStore]]

    def __str__(self) -> str:
        return self.name
