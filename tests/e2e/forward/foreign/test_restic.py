"""Back up and restore with restic at each store and through signproxy: commands end, and objects are kept, as there."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.foreign import install
from tests.e2e.forward.foreign.comparison import DONE, Allowed, Step, differences
from tests.e2e.forward.mc_session import files
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import StoreKind
from tests.e2e.stores.contents import objects_of, uploads_of
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


ALLOWED: tuple[Allowed, ...] = ()

_REPOSITORY = "repository/"
# What a repository draws: ids of keys, snapshots and packs are digests of what is encrypted anew each time.
_IDS = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{8,10})\b")
_WAITS = re.compile(r"retrying after [\d.]+\w+")


def _run(endpoint: Endpoint, owner: Owner, bucket: str, home: Path) -> list[Step]:
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
    steps = []
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
        text = done.stderr.decode(errors="replace")
        for known, name in ((bucket, "BUCKET"), (endpoint.authority, "STORE"), (str(home), "HOME")):
            text = text.replace(known, name)
        # What it complains of: a request that it had to repeat is told there and nowhere else.
        complaints = sorted(_WAITS.sub("retrying", _IDS.sub("ID", text)).splitlines())
        steps.append(
            Step(
                " ".join(command),
                f"exit {done.returncode}" if done.returncode else DONE,
                f"{complaints}, then {_kinds(owner, bucket)}",
            )
        )
    return steps


def _kinds(owner: Owner, bucket: str) -> str:
    """Return how many objects of each kind the repository has; their names and bytes are encrypted anew each time."""
    kinds = Counter(found.key.removeprefix(_REPOSITORY).partition("/")[0] for found in objects_of(owner, bucket))
    return f"{dict(sorted(kinds.items()))} and {len(uploads_of(owner, bucket))} uploads"


@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_a_backup_is_made_checked_pruned_and_restored(
    doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind
) -> None:
    """A backup that cannot be read back is noticed on the day that it is needed."""
    store, number = doors.store(kind), next(_numbers)
    seen: dict[str, list[Step]] = {}
    with closing(Owner(store)) as owner:
        for endpoint in (Endpoint.direct(store), doors.to(kind).endpoint_without_token()):
            home = tmp_path / endpoint.name
            home.mkdir()
            expected = {file.relative_to(home): file.read_bytes() for file in list(files(home))}
            bucket = f"{endpoint.name}-restic-{number}"
            owner.must("PUT", bucket)
            seen[endpoint.name] = _run(endpoint, owner, bucket, home)
            restored = {name: (home / "restored" / name).read_bytes() for name in expected}
            assert restored == expected
    row = Row("restic", install.restic()[1], store.name, store.version, "every command", way="through the S3 listener")
    with matrix.row(row):
        assert sum(step.outcome == DONE for step in seen["through"]) >= len(COMMANDS) - 3
        assert "'data': " in seen["through"][-1].detail
        found = differences(store.name, seen["direct"], seen["through"], ALLOWED)
        assert not found, "\n".join(found)
