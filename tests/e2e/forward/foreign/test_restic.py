"""Back up and restore with restic at each store and through signproxy: each command ends as it does there."""

from __future__ import annotations

import itertools
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.foreign import install
from tests.e2e.forward.mc_session import files
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import StoreKind
from tests.e2e.stores.direct import Owner

_TIMEOUT = 300.0
_numbers = itertools.count()

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("snapshots",),
    ("init",),
    ("init",),
    ("backup", "files"),
    ("backup", "files"),
    ("snapshots", "--json"),
    ("ls", "latest"),
    ("find", "plain.txt"),
    ("stats",),
    ("check", "--read-data"),
    ("dump", "latest", "/files/plain.txt"),
    ("restore", "latest", "--target", "restored"),
    ("tag", "--set", "kept", "latest"),
    ("key", "list"),
    ("forget", "--keep-last", "1", "--prune"),
    ("rebuild-index",),
    ("list", "packs"),
    ("list", "locks"),
    ("unlock",),
    ("check",),
    ("restore", "none", "--target", "none"),
)


def _run(endpoint: Endpoint, bucket: str, home: Path) -> list[tuple[str, int, str]]:
    binary, _version = install.restic()
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "AWS_ACCESS_KEY_ID": endpoint.access_key,
        "AWS_SECRET_ACCESS_KEY": endpoint.secret,
        "AWS_DEFAULT_REGION": endpoint.region,
        "RESTIC_REPOSITORY": f"s3:{endpoint.origin}/{bucket}/repository",
        "RESTIC_PASSWORD": "of the repository",
    }
    ended = []
    for command in COMMANDS:
        done = subprocess.run(
            (binary, "--no-cache", "-o", "s3.bucket-lookup=path", *command),
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
        ended.append((" ".join(command), done.returncode, done.stderr.decode(errors="replace")[-500:]))
    return ended


@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_a_backup_is_made_checked_pruned_and_restored(
    doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind
) -> None:
    """A backup that cannot be read back is noticed on the day that it is needed."""
    store, number = doors.store(kind), next(_numbers)
    ended = []
    with closing(Owner(store)) as owner:
        for endpoint in (Endpoint.direct(store), doors.to(kind).endpoint_without_token()):
            home = tmp_path / endpoint.name
            home.mkdir()
            expected = {file.relative_to(home): file.read_bytes() for file in list(files(home))}
            bucket = f"{endpoint.name}-restic-{number}"
            owner.must("PUT", bucket)
            ended.append(_run(endpoint, bucket, home))
            restored = {name: (home / "restored" / name).read_bytes() for name in expected}
            assert restored == expected
    direct, through = ended
    row = Row("restic", install.restic()[1], store.name, store.version, "every command", way="through the S3 listener")
    with matrix.row(row):
        assert sum(not code for _, code, _ in direct) >= len(COMMANDS) - 3
        assert [each[:2] for each in through] == [each[:2] for each in direct], through
