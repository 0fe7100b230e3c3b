"""Run MinIO's own client against each store and through signproxy: here it does the same, and says the same."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.mc_session import SCRIPTS, McSession, Said, files
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import StoreKind, mc

LEAST = {"objects": 50, "properties": 8, "checksums": 2}
"""Commands that work on every store: a client that cannot reach anything would say the same everywhere.

They are counted through signproxy alone, for Swift takes no signature of this client's.
"""

_numbers = itertools.count()


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_each_command_does_what_it_does_without_signproxy(
    doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind, script: str
) -> None:
    """Scripts of operators are full of it, and none of them looks at what it says."""
    store = doors.store(kind)
    number = next(_numbers)
    said = []
    for endpoint in (Endpoint.direct(store), doors.to(kind).endpoint()):
        home = tmp_path / endpoint.name
        home.mkdir()
        assert len(list(files(home))) > 5
        session = McSession(endpoint, f"{endpoint.name}-mc-{number}", home)
        SCRIPTS[script](session)
        said.append(session.said)
    direct, through = said
    row = Row("mc", mc.VERSION, store.name, store.version, f"commands: {script}", way="through the S3 listener")
    with matrix.row(row):
        assert [one.command for one in direct] == [one.command for one in through]
        assert sum(one.works for one in through) >= LEAST[script]
        lost = [pair for pair in zip(direct, through, strict=True) if _is_lost(*pair)]
        assert not lost, "\n".join(f"direct: {one}\nthrough: {other}" for one, other in lost)


def _is_lost(direct: Said, through: Said) -> bool:
    """Whether something worked and does not, or says something else; what fails at the store itself may work."""
    return direct.works and direct != through
