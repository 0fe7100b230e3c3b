"""Run s3cmd against each store and through signproxy: here it does the same, and says the same."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.foreign import install
from tests.e2e.forward.foreign.s3cmd_session import COMMANDS, S3cmdSession
from tests.e2e.forward.mc_session import Said, files
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import StoreKind
from tests.e2e.stores.direct import Owner

_LEAST = 30
"""Commands that work on every store: a client that cannot reach anything would say the same everywhere."""

_numbers = itertools.count()


@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_each_command_does_what_it_does_without_signproxy(
    doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind
) -> None:
    """Backups of years are scripts around it, and it sends back whatever headers it was answered with."""
    store, number = doors.store(kind), next(_numbers)
    said = []
    with closing(Owner(store)) as owner:
        # It takes a session token for that of a role, and looks for the role with each command.
        for endpoint in (Endpoint.direct(store), doors.to(kind).endpoint_without_token()):
            home = tmp_path / endpoint.name
            home.mkdir()
            assert len(list(files(home))) > 5
            bucket = f"{endpoint.name}-s3cmd-{number}"
            owner.must("PUT", bucket)
            session = S3cmdSession(endpoint, bucket, home)
            for command in COMMANDS:
                session.run(*command)
            said.append(session.said)
    direct, through = said
    row = Row("s3cmd", install.S3CMD_VERSION, store.name, store.version, "every command", way="through the S3 listener")
    with matrix.row(row):
        assert sum(not one.code for one in through) >= _LEAST
        lost = [pair for pair in zip(direct, through, strict=True) if _is_lost(*pair)]
        assert not lost, "\n".join(f"direct: {one}\nthrough: {other}" for one, other in lost)


def _is_lost(direct: Said, through: Said) -> bool:
    """Whether a command worked and does not, or says something else; what fails at the store itself may work."""
    return direct.code == 0 and direct != through
