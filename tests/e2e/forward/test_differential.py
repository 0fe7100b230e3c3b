"""Take each store and signproxy before it through the same steps: the answers, and what is stored, are the same."""

from __future__ import annotations

import itertools
import re
from contextlib import closing

import pytest

from tests.e2e.forward.cases import CASES, Case
from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.session import Line, Session, contents
from tests.e2e.forward.signer import Endpoint
from tests.e2e.stores import StoreKind
from tests.e2e.stores.direct import Owner

_NUMBERS = itertools.count()

# Where signproxy answers for itself, and says what S3 says; the store behind it has words of its own.
STRICTER: dict[tuple[str, str], str] = {
    ("versitygw", "no xml"): "MalformedXML",
    ("minio", "part 0"): "InvalidArgument",
}

_FRAMING = re.compile(rb"chunk-signature=|x-amz-checksum-\w+:|\r\n0\r\n")


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_nothing_differs_from_the_store_itself(doors: Doors, kind: StoreKind, case: Case) -> None:
    """Whatever a client gets from its store and not through signproxy is a reason not to use signproxy."""
    number = next(_NUMBERS)
    with closing(Owner(doors.store(kind))) as owner:
        seen = {}
        for endpoint in (Endpoint.direct(owner.store), doors.to(kind).endpoint()):
            bucket = f"{endpoint.name}-{number}"
            owner.must("PUT", bucket)
            with Session(endpoint, bucket) as session:
                case.steps(session)
            seen[endpoint.name] = session.lines, contents(owner, bucket)
    (direct, kept_direct), (through, kept_through) = seen["direct"], seen["through"]
    differences = [
        f"{one}\n  through: {other}"
        for one, other in itertools.zip_longest(direct, through)
        if one != other and not _is_stricter(kind, other)
    ]
    assert not differences, "\n".join(differences)
    assert kept_through == kept_direct
    for stored in kept_through[0]:
        assert not _FRAMING.search(stored.body), f"framing became data: {stored.body[:200]!r}"


def _is_stricter(kind: StoreKind, line: Line | None) -> bool:
    return line is not None and STRICTER.get((kind.name, line.label)) == line.code


def test_the_steps_are_many_and_most_of_them_succeed(doors: Doors) -> None:
    """A suite whose steps all fail alike would find no difference in anything."""
    assert len(CASES) > 70
    assert len({case.name for case in CASES}) == len(CASES)
