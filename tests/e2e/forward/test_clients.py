"""Let the clients that users have read and write through signproxy, with keys that it issued."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.e2e.forward import install
from tests.e2e.forward.commands import Desk, Steps, aws, mc_, rclone, s5cmd
from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.libraries import library
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import SEAWEEDFS, VERSITYGW, StoreKind, mc
from tests.e2e.stores.contents import objects_of, uploads_of
from tests.e2e.stores.direct import Owner

MIB = 1024 * 1024
SIZE = 64 * MIB
GIB = 1024 * MIB

WAY = "through the S3 listener"


class Client(NamedTuple):
    """A client, and what it does."""

    name: str
    version: str
    steps: Steps
    operations: int
    """How many it has to name, so that a driver that ends early does not pass."""

    def __str__(self) -> str:
        return self.name


CLIENTS = (
    Client("boto3", install.BOTO3_VERSION, library("boto3"), 8),
    Client("awscli", install.AWSCLI_VERSION, aws, 8),
    Client("s5cmd", install.S5CMD_VERSION, s5cmd, 7),
    Client("rclone", install.RCLONE_VERSION, rclone, 7),
    Client("mc", mc.VERSION, mc_, 7),
    Client("pyarrow", install.PYARROW_VERSION, library("pyarrow"), 8),
    Client("s3fs", install.S3FS_VERSION, library("s3fs"), 8),
    Client("obstore", install.OBSTORE_VERSION, library("obstore"), 7),
    Client("polars", install.POLARS_VERSION, library("polars"), 5),
    Client("duckdb httpfs", install.DUCKDB_VERSION, library("duckdb"), 5),
)

_TRAILER = re.compile(rb"chunk-signature=|x-amz-checksum-")
_OF_NOTHING = 416
"""What a range of an object of no bytes is answered with."""


def large_file(home: Path, size: int) -> Path:
    """Return a file that no two blocks of are the same."""
    file, chance = home / "large", Random(size)
    with file.open("wb") as out:
        for _ in range(size // MIB):
            out.write(chance.randbytes(MIB))
    return file


@contextmanager
def _desk(doors: Doors, kind: StoreKind, name: str, home: Path, size: int) -> Iterator[Desk]:
    bucket = f"through-{re.sub('[^a-z0-9]', '-', name)}"
    with closing(Owner(doors.store(kind))) as owner:
        if not owner.ask("HEAD", bucket).ok:
            owner.must("PUT", bucket)
        home.mkdir(exist_ok=True)
        yield Desk(doors.to(kind).endpoint(), bucket, home, large_file(home, size))
        for stored in objects_of(owner, bucket):
            beginning = owner.ask("GET", f"{bucket}/{stored.key}", headers={"Range": "bytes=0-4095"})
            assert beginning.status in (200, 206, _OF_NOTHING), f"{stored.key}: {beginning.status}"
            assert not _TRAILER.search(beginning.body), f"framing became data: {stored.key}"
        assert uploads_of(owner, bucket) == []


@pytest.mark.parametrize("client", CLIENTS, ids=str)
@pytest.mark.parametrize("kind", (*CONFORMANT, SEAWEEDFS), ids=str)
def test_a_client_reads_and_writes(
    doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind, client: Client
) -> None:
    """A client that cannot work here is the first one that a user will try."""
    store = doors.store(kind)
    row = Row(client.name, client.version, store.name, store.version, "", way=WAY)
    done = 0
    with _desk(doors, kind, client.name, tmp_path / "home", SIZE) as desk, matrix.row(row._replace(operation="all")):
        for operation in client.steps(desk):
            done += 1
            with matrix.row(row._replace(operation=operation)):
                pass
    assert done == client.operations


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_gibibyte_goes_through(doors: Doors, tmp_path: Path, client: Client) -> None:
    """What fits into buffers at 64 MiB, and into 32 bits of a counter, has to end somewhere."""
    with _desk(doors, VERSITYGW, f"{client.name}-gib", tmp_path / "home", GIB) as desk:
        assert sum(1 for _ in client.steps(desk)) == client.operations
