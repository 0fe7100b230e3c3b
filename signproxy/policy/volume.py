"""Hold the volumes of a catalog: places for data that is no table, found by bucket and key."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from signproxy.model import VolumeId
from signproxy.policy.table import NO_GRANTS, Grants, Overwrite
from signproxy.s3.rules import Rules

# What may take the place of a pattern's star: no character of it can change the path that it travels in.
_BUCKET = re.compile(r"[A-Za-z0-9._\-]+")


class Volume(msgspec.Struct, frozen=True, gc=False):
    """A bucket, or buckets whose names begin alike, or a place in them, and what may be done there."""

    id: VolumeId
    storage: str
    bucket: str
    """Its name; or what the names of its buckets begin with, before a star."""
    prefix: str
    """What its keys begin with, final slash included; empty for whole buckets."""
    rules: Rules
    overwrite: Overwrite = Overwrite.ALLOWED
    grants: Grants = NO_GRANTS
    """What was granted on the volume itself."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for every bucket whose name begins so."""
        return self.bucket.endswith("*")

    def holds_bucket(self, bucket: str) -> bool:
        """Whether it lies in this bucket."""
        if not self.is_pattern:
            return bucket == self.bucket
        return bucket.startswith(self.bucket[:-1]) and _BUCKET.fullmatch(bucket) is not None


class Volumes:
    """The volumes of one catalog. Built once, then only read; no key lies in two of them."""

    __slots__ = ("_buckets", "_by_name", "_patterns")

    def __init__(self) -> None:
        self._by_name: dict[str, Volume] = {}
        # Bucket, or the beginning of its name -> prefix -> volume.
        self._buckets: dict[str, dict[str, Volume]] = {}
        self._patterns: dict[str, dict[str, Volume]] = {}

    def __iter__(self) -> Iterator[Volume]:
        yield from self._by_name.values()

    def add(self, volume: Volume) -> None:
        """Enter a volume, or put another value in the place of one of the same name."""
        self._by_name[volume.id.name] = volume
        places = self._patterns if volume.is_pattern else self._buckets
        places.setdefault(volume.bucket, {})[volume.prefix] = volume

    def named(self, name: str) -> Volume | None:
        """Return the volume of this name."""
        return self._by_name.get(name)

    def in_bucket(self, bucket: str) -> Iterator[Volume]:
        """Yield every volume that lies in a bucket."""
        for places in self._places(bucket):
            yield from places.values()

    def find(self, bucket: str, key: str) -> Volume | None:
        """Return the volume whose prefix a key, or a list's prefix, begins with; for an empty one a whole bucket's."""
        if not self._by_name:
            return None
        for places in self._places(bucket):
            volume = places.get("")
            end = key.find("/")
            while volume is None and end >= 0:
                volume = places.get(key[: end + 1])
                end = key.find("/", end + 1)
            if volume is None:
                # The name of a volume's own folder; what may be asked of it, the decision knows.
                volume = places.get(f"{key}/")
            if volume is not None:
                return volume
        return None

    def _places(self, bucket: str) -> Iterator[dict[str, Volume]]:
        places = self._buckets.get(bucket)
        if places is not None:
            yield places
            return
        for name, places in self._patterns.items():
            if bucket.startswith(name[:-1]) and _BUCKET.fullmatch(bucket) is not None:
                yield places
