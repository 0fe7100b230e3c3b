"""Run MinIO's own client against each store and through signproxy: here it does the same, and says the same."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.foreign.comparison import DONE, Allowed, differences
from tests.e2e.forward.mc_session import ALGORITHMS, SCRIPTS, McSession, as_step, files
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import StoreKind, mc

LEAST = {"objects": 50, "properties": 8, "checksums": 3}
"""Commands that work on every store: a client that cannot reach anything would say the same everywhere."""

_TRAILER = (
    "mc ends the checksum in a signed trailer with LF CR LF; the store takes only CR LF there. signproxy checks the "
    "trailer in both forms, and sends the checksum on in the form that the store takes"
)
_NOT_STORED = "the store refused the upload before it: see the entry of `cp`"
ALLOWED = {
    "checksums": tuple(
        Allowed(store, step, direct, DONE, reason)
        for store, code in (("versitygw", "BadDigest"), ("swift", "IncompleteBody"))
        for algorithm in ALGORITHMS
        for step, direct, reason in (
            (f"cp --checksum {algorithm} ~/plain.txt @/{algorithm}/plain.txt", f"exit 1, {code}", _TRAILER),
            (f"cat @/{algorithm}/plain.txt", "exit 1", _NOT_STORED),
            (f"cp --checksum {algorithm} ~/larger @/{algorithm}/larger", f"exit 1, {code}", _TRAILER),
            (f"cat @/{algorithm}/plain.txt (2)", "exit 1", _NOT_STORED),
        )
    )
}
"""By the script whose steps they are."""

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
        for said_there in said:
            assert sum(one.works for one in said_there) >= LEAST[script]
        found = differences(store.name, map(as_step, direct), map(as_step, through), ALLOWED.get(script, ()))
        assert not found, "\n".join(found)
