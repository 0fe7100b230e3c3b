"""Lay out tables, and canaries around them that no caller may read, list, change or delete."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import quote

from tests.e2e.stores import RunningStore
from tests.e2e.stores.contents import Upload
from tests.e2e.stores.direct import Owner

LAKE = "lake"
"""The bucket of most tables."""
VAULT = "vault"
"""A bucket of the same storage, with one table that is not the caller's."""
UNLISTED = "unlisted"
"""A bucket that no policy names."""

MINE = "mine"
"""The label of whatever the caller uploads."""

_LABEL = re.compile(rb"<<([^<>]{1,80})>>")


class Access(Enum):
    """What the policy grants the caller on a table."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the policy; `root` is its location's key, without a slash at its end."""

    catalog: str
    name: str
    bucket: str
    root: str
    access: Access

    @property
    def location(self) -> str:
        return f"s3://{self.bucket}/{self.root}"

    def holds(self, bucket: str, key: str) -> bool:
        """Say whether an object lies inside, by the rule that the whole test is about."""
        return bucket == self.bucket and key.startswith(f"{self.root}/")


NAMESPACE = "db"
STRICT = "strict"
"""A catalog with `binding: strict`."""
OPEN = "open"
"""A catalog with `binding: by-location`."""

T1 = Table(STRICT, "t1", LAKE, "wh/db/t1", Access.WRITE)
# Composed and decomposed spellings are different keys; space, plus and equals are where encoders disagree.
ODD = Table(STRICT, "odd", LAKE, "wh/db/Zu\u0308rich é=1+x y", Access.WRITE)
RO = Table(STRICT, "ro", LAKE, "wh/db/ro", Access.READ)
T2 = Table(STRICT, "t2", LAKE, "wh/db/t2", Access.NONE)
FAR = Table(STRICT, "far", VAULT, "wh/db/t1", Access.NONE)
U1 = Table(OPEN, "u1", LAKE, "open/u1", Access.WRITE)
U2 = Table(OPEN, "u2", LAKE, "open/u2", Access.NONE)
U3 = Table(OPEN, "u3", LAKE, "open/u3", Access.READ)
TABLES = (T1, ODD, RO, T2, FAR, U1, U2, U3)
WRITABLE = tuple(table for table in TABLES if table.access is Access.WRITE)
READABLE = tuple(table for table in TABLES if table.access is not Access.NONE)

# Written by the catalog alone: part of the table's location, yet none of the caller's business.
PROTECTED_NAMES = ("metadata/00001-aa.metadata.json", "metadata/version-hint.text", "metadata/v2.gz.metadata.json")

DATA_NAMES = (
    "data/part-0.parquet",
    "data/region=eu/day=2026-01-01/part-1.parquet",
    "data/city=a%2Fb/part 2+x.parquet",
    "data/city=S%C3%A3o%2BPaulo/p.parquet",
    "data/ünï-\U0001f9ca-e\u0301.parquet",
    "data/~!*'(),:@&=$;-_.avro",
    "metadata/snap-1.avro",
    "metadata/aa-m0.avro",
    "data/UPPER.parquet",
    "data/upper.parquet",
)


def labels_in(text: bytes) -> set[str]:
    """Return whose content a text holds."""
    return {found.decode() for found in _LABEL.findall(text)}


def labelled(label: str, filler: str = "") -> bytes:
    """Return content that can be recognised wherever it turns up."""
    return f"<<{label}>>{filler}".encode()


@dataclass(slots=True)
class World:
    """What was laid out on one store."""

    store: RunningStore
    canaries: dict[tuple[str, str], str] = field(default_factory=dict)
    """Bucket and key of everything the caller may not touch, with its label."""
    foreign_uploads: list[tuple[str, Upload]] = field(default_factory=list)
    unstorable: list[str] = field(default_factory=list)
    """Keys that this store cannot hold beside the others."""


def lay_out(store: RunningStore, owner: Owner) -> World:
    """Create buckets, tables and canaries."""
    world = World(store)
    for bucket in (LAKE, VAULT, UNLISTED):
        owner.must("PUT", bucket)
    for table in TABLES:
        for name in DATA_NAMES:
            _put(owner, table.bucket, f"{table.root}/{name}", table.name)
        for name in PROTECTED_NAMES:
            _canary(world, owner, table.bucket, f"{table.root}/{name}")
        if table.access is Access.NONE:
            for name in DATA_NAMES:
                world.canaries[(table.bucket, f"{table.root}/{name}")] = table.name
    for bucket, key in _neighbours():
        _canary(world, owner, bucket, key)
    for table in (T2, FAR, U2, RO):
        world.foreign_uploads.append((table.bucket, _begin_upload(owner, table.bucket, f"{table.root}/data/up")))
    for bucket, key in ((LAKE, f"{T1.root}0/data/up"), (UNLISTED, f"{T1.root}/data/up")):
        world.foreign_uploads.append((bucket, _begin_upload(owner, bucket, key)))
    return world


def _neighbours() -> Iterable[tuple[str, str]]:
    for table in (T1, ODD, U1):
        root = table.root
        parent, _, name = root.rpartition("/")
        # Names that begin like the table's, or are it to a reader that folds case, space or Unicode.
        for sibling in ("0", "-x", ".bak", "%", "%20", "%2F", " x", "+", "=", "\u00a0", "\u200b"):
            yield LAKE, f"{root}{sibling}/data/part-0.parquet"
        yield LAKE, f"{parent}/{name.swapcase()}/data/part-0.parquet"
        for form in ("NFC", "NFD", "NFKC"):
            folded = unicodedata.normalize(form, root)
            if folded != root:
                yield LAKE, f"{folded}/data/part-0.parquet"
        yield LAKE, f"{parent}/{''.join(chr(ord(c) + 0xFEE0) if '!' <= c <= '~' else c for c in name)}/data/x"
        # The table's key as a reader has it that decodes once too often or not at all.
        yield LAKE, quote(f"{root}/data/part-0.parquet", safe="")
        yield LAKE, f"{parent}/{quote(name + '/data/part-0.parquet', safe='')}"
        yield LAKE, f"{parent}/{''.join(f'%{byte:02X}' for byte in name.encode())}/data/part-0.parquet"
        yield LAKE, f"{root}%2Fdata/part-0.parquet"
        yield UNLISTED, f"{root}/data/part-0.parquet"
        # What is left of a key for a reader that drops its first segments, or takes the bucket for one of them.
        yield LAKE, f"{name}/data/part-0.parquet"
        yield LAKE, "data/part-0.parquet"
        yield LAKE, f"{LAKE}/{root}/data/part-0.parquet"
        # An object of the very name, for stores whose keys are no paths.
        yield LAKE, root
    for key in ("wh/db/canary", "wh/canary", "canary", "open/canary", "wh/db.canary"):
        yield LAKE, key
    yield VAULT, "canary"


def _canary(world: World, owner: Owner, bucket: str, key: str) -> None:
    if (bucket, key) in world.canaries:
        return
    label = f"canary {len(world.canaries)}"
    if _put(owner, bucket, key, label):
        world.canaries[(bucket, key)] = label
    else:
        world.unstorable.append(f"{bucket}/{key}")


def _put(owner: Owner, bucket: str, key: str, label: str) -> bool:
    headers = {"x-amz-meta-label": f"<<{label}>>", "content-type": "application/x-canary"}
    answer = owner.ask("PUT", f"{bucket}/{key}", headers=headers, body=labelled(label))
    if answer.ok:
        return True
    # Where keys are files, an object cannot have the name of a directory.
    if owner.store.traits.stores_object_beside_its_directory:
        raise AssertionError(f"{owner.store.name} does not store {bucket}/{key}: {answer.status} {answer.body!r}")
    return False


def _begin_upload(owner: Owner, bucket: str, key: str) -> Upload:
    started = owner.must("POST", f"{bucket}/{key}", "uploads=").body.decode()
    upload_id = started.partition("<UploadId>")[2].partition("</UploadId>")[0]
    query = f"partNumber=1&uploadId={quote(upload_id, safe='~')}"
    part = owner.must("PUT", f"{bucket}/{key}", query, body=labelled("upload", "x" * 100))
    return Upload(key, upload_id, ((1, part.headers["etag"].strip('"')),))
