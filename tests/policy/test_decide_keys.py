"""Who may have keys for a table, and what these may do: the same as would be signed, and no more."""

from __future__ import annotations

from itertools import combinations

import pytest

from signproxy.errors import Reason
from signproxy.model import Ceiling, Deny, Subject
from signproxy.policy.decide_keys import decide_keys
from signproxy.policy.rights import READ_DATA, REMOTE_SIGN, Standing
from signproxy.policy.table import MetadataLevel
from tests.policy.world import ALICE, BOB, FULL, READ, SIGN, WRITE, World, grants

PRIVILEGES = (SIGN, READ, WRITE)


def told(privileges: tuple[str, ...], subject: Subject | None = None, standing: Standing | None = None) -> object:
    world = World()
    table = world.table(given=grants(*privileges))
    decision = decide_keys(world.state, world.catalog, subject or Subject.of(ALICE), table, standing)
    return decision.reason if isinstance(decision, Deny) else decision.ceiling


@pytest.mark.parametrize(
    "granted", [given for count in range(len(PRIVILEGES) + 1) for given in combinations(PRIVILEGES, count)]
)
def test_keys_need_what_a_signature_needs(granted: tuple[str, ...]) -> None:
    """Keys would open what no signature opens."""
    found = told(granted)
    if SIGN in granted and WRITE in granted:
        assert found is Ceiling.NONE
    elif SIGN in granted and READ in granted:
        assert found is Ceiling.READ_ONLY
    else:
        assert found is (Reason.NO_REMOTE_SIGN if SIGN not in granted else Reason.NO_READ_DATA)


def test_a_subject_that_only_reads_gets_keys_that_only_read() -> None:
    """A key for reading would be exchanged for one that writes."""
    assert told((SIGN, WRITE), Subject(ALICE, ALICE, ceiling=Ceiling.READ_ONLY)) is Ceiling.READ_ONLY
    assert told((SIGN, WRITE), Subject(BOB, ALICE)) is Ceiling.READ_ONLY


@pytest.mark.parametrize(
    ("granted", "wanted", "expected"),
    (
        ((SIGN, WRITE), Ceiling.READ_ONLY, Ceiling.READ_ONLY),
        ((SIGN, WRITE), Ceiling.NONE, Ceiling.NONE),
        ((SIGN, READ), Ceiling.READ_ONLY, Ceiling.READ_ONLY),
        ((SIGN, READ), Ceiling.NONE, Reason.NO_WRITE_DATA),
        ((READ,), Ceiling.READ_ONLY, Reason.NO_REMOTE_SIGN),
    ),
)
def test_keys_that_are_wanted_for_something_are_good_for_it_and_for_no_more(
    granted: tuple[str, ...], wanted: Ceiling, expected: object
) -> None:
    """A reader of a path would be given keys that write it, or a writer find out in the middle of its job."""
    world = World()
    table = world.table(given=grants(*granted))
    decision = decide_keys(world.state, world.catalog, Subject.of(ALICE), table, None, wanted)
    assert (decision.reason if isinstance(decision, Deny) else decision.ceiling) is expected


@pytest.mark.parametrize("level", MetadataLevel)
@pytest.mark.parametrize("granted", ((SIGN, WRITE), (SIGN, WRITE, FULL)))
def test_metadata_is_as_open_to_keys_as_to_signatures(level: MetadataLevel, granted: tuple[str, ...]) -> None:
    """Keys of a store's own would open what no decision opens: the store knows nothing of levels."""
    world = World()
    table = world.table(given=grants(*granted), metadata=level)
    allowed = decide_keys(world.state, world.catalog, Subject.of(ALICE), table)
    assert not isinstance(allowed, Deny)
    opened = level is MetadataLevel.PROTECTED and FULL in granted
    assert allowed.metadata is (MetadataLevel.OPEN if opened else level)


def test_what_an_upstream_vouches_for_is_read() -> None:
    """Its word is that the caller may load the table."""
    vouched = Standing("upstream@table:x", REMOTE_SIGN | READ_DATA)
    assert told((), standing=vouched) is Ceiling.READ_ONLY
    assert told((WRITE,), standing=vouched) is Ceiling.NONE
    assert told((), Subject.of(BOB), Standing("upstream@table:x", REMOTE_SIGN | READ_DATA)) is Ceiling.READ_ONLY
    assert told((), Subject.of(BOB)) is Reason.PRINCIPAL_UNKNOWN
    assert told((), Subject.of(BOB), Standing()) is Reason.PRINCIPAL_UNKNOWN
