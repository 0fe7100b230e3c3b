"""Run s3cmd against each store and through signproxy: here it does the same, says the same, and stores the same."""

from __future__ import annotations

import itertools
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.foreign import install
from tests.e2e.forward.foreign.comparison import DONE, STORED, Allowed, Step, differences, stored
from tests.e2e.forward.foreign.s3cmd_session import CLEAN_UP, USE, S3cmdSession, as_step, plain
from tests.e2e.forward.mc_session import files
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import StoreKind
from tests.e2e.stores.direct import Owner

_LEAST = 30
"""Commands that work on every store: a client that cannot reach anything would say the same everywhere."""
READ = "read"
_KEPT = 20
"""Objects that are stored before the first of them is deleted."""

ALLOWED: tuple[Allowed, ...] = ()

_numbers = itertools.count()


def _read(home: Path) -> list[Step]:
    """Return what it read from the store, and the files that it was given."""
    read = (file for file in sorted(home.rglob("*")) if file.is_file() and file.name != "s3cfg")
    return [Step(f"file {file.relative_to(home)}", READ, sha256(file.read_bytes()).hexdigest()) for file in read]


@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_each_command_does_what_it_does_without_signproxy(
    doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind
) -> None:
    """Backups of years are scripts around it, and it sends back whatever headers it was answered with."""
    store, number = doors.store(kind), next(_numbers)
    seen: dict[str, list[Step]] = {}
    with closing(Owner(store)) as owner:
        # It takes a session token for that of a role, and looks for the role with each command.
        for endpoint in (Endpoint.direct(store), doors.to(kind).endpoint_without_token()):
            home = tmp_path / endpoint.name
            home.mkdir()
            assert len(list(files(home))) > 5
            bucket = f"{endpoint.name}-s3cmd-{number}"
            owner.must("PUT", bucket)
            session = S3cmdSession(endpoint, bucket, home)
            for command in USE:
                session.run(*command)
            kept = stored("before the clean-up", owner, bucket, plain) + _read(home)
            for command in CLEAN_UP:
                session.run(*command)
            seen[endpoint.name] = [as_step(one) for one in session.said] + kept
    row = Row("s3cmd", install.S3CMD_VERSION, store.name, store.version, "every command", way="through the S3 listener")
    with matrix.row(row):
        assert sum(step.outcome == DONE for step in seen["through"]) >= _LEAST
        assert sum(step.outcome == STORED for step in seen["through"]) >= _KEPT
        assert "file large-back" in [step.name for step in seen["through"]]
        found = differences(store.name, seen["direct"], seen["through"], ALLOWED)
        assert not found, "\n".join(found)
