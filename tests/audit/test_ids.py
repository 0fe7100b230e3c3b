"""What an event id promises: it never repeats, sorts by time and says nothing else."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from time import sleep

import pytest

from signproxy.audit import ids
from signproxy.audit.ids import ID_LENGTH, new_boot_id, new_event_id

ALPHABET = set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
MILLISECOND = 1_000_000
START = 1_800_000_000_000 * MILLISECOND


@pytest.fixture
def fresh_source(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave no time of a test's clock behind."""
    yield
    monkeypatch.undo()
    ids._source.renew()


def set_clock(monkeypatch: pytest.MonkeyPatch, now_ns: int) -> None:
    monkeypatch.setattr(ids, "time_ns", lambda: now_ns)


def test_an_id_is_26_characters_of_crockfords_base_32() -> None:
    """It stands in signed URIs and in S3's logs: any other character would be encoded there, and no longer join."""
    for made in (new_event_id(), new_boot_id()):
        assert len(made) == ID_LENGTH
        assert set(made) <= ALPHABET
        # 128 bits: two of the 130 that 26 characters hold stay zero.
        assert made[0] <= "7"


def test_ids_grow_and_never_repeat() -> None:
    """Two events with one id would make the join with S3's log ambiguous."""
    made = [new_event_id() for _ in range(200_000)]
    assert len(set(made)) == len(made)
    assert made == sorted(made)


@pytest.mark.usefixtures("fresh_source")
@pytest.mark.parametrize(
    "number",
    (
        1,
        1023,
        1024,  # the third character of the count begins to move
        1024 * 1024 - 1,
        1024 * 1024,
    ),
)
def test_ids_of_one_millisecond_differ_and_sort(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A burst within a millisecond is where a time-ordered id has only its count."""
    set_clock(monkeypatch, START)
    ids._source.renew()
    first, counter = new_event_id(), ids._source.moment[2]
    assert first.endswith("000000")
    for _ in range(number - 2):
        next(counter)
    before, after = new_event_id(), new_event_id()
    assert first <= before < after
    assert {len(first), len(before), len(after)} == {ID_LENGTH}
    assert first[:20] == after[:20]


@pytest.mark.usefixtures("fresh_source")
def test_an_exhausted_millisecond_borrows_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands back for days must not end in a repeated or longer id."""
    set_clock(monkeypatch, START)
    ids._source.renew()
    last = new_event_id()
    end_ns, prefix, _ = ids._source.moment
    ids._source.moment = (end_ns, prefix, iter((2**30 - 1, 2**30)))
    highest, borrowed = new_event_id(), new_event_id()
    assert last < highest < borrowed
    assert highest.endswith("ZZZZZZ")
    assert len(borrowed) == ID_LENGTH


@pytest.mark.usefixtures("fresh_source")
def test_ids_do_not_repeat_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time servers correct clocks; an id of the corrected minute must not be an id of the first one."""
    made = []
    for offset in (0, 5, -60_000, -60_000, -1, 5, 6):
        set_clock(monkeypatch, START + offset * MILLISECOND)
        made += [new_event_id(), new_event_id()]
    assert len(set(made)) == len(made)
    assert made[2:] == sorted(made[2:])


@pytest.mark.usefixtures("fresh_source")
def test_an_id_does_not_tell_how_many_others_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers see ids: a count over all callers would tell each how busy the others are."""
    set_clock(monkeypatch, START)
    ids._source.renew()
    for _ in range(5000):
        new_event_id()
    set_clock(monkeypatch, START + 10 * MILLISECOND)
    assert new_event_id().endswith("000000")


def test_threads_never_get_the_same_id() -> None:
    """A reload records its event from another thread than the requests'."""
    made: list[str] = []
    start = threading.Barrier(4)

    def make() -> None:
        start.wait()
        own = [new_event_id() for _ in range(20_000)]
        made.extend(own)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == len(made) == 80_000


@pytest.mark.usefixtures("fresh_source")
def test_threads_that_meet_a_new_millisecond_begin_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun twice, its counts would be given out twice."""
    begun: list[Iterator[int]] = []

    def slowly() -> Iterator[int]:
        sleep(0.01)
        begun.append(count())
        return begun[-1]

    monkeypatch.setattr(ids, "count", slowly)
    set_clock(monkeypatch, ids._source.moment[0] + 10 * MILLISECOND)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: new_event_id(), range(8)))
    assert begun == [ids._source.moment[2]]
    assert sorted(each[20:] for each in made) == [f"{number:06d}" for number in range(8)]


def test_a_forked_process_has_a_random_part_of_its_own() -> None:
    """Workers are forked: with their parent's random part they would repeat each other's ids."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "".join(new_event_id() for _ in range(50)).encode())
        os._exit(0)
    os.close(writing)
    own = {new_event_id() for _ in range(50)}
    with os.fdopen(reading, "rb") as pipe:
        theirs = pipe.read().decode()
    os.waitpid(child, 0)
    other = {theirs[at : at + ID_LENGTH] for at in range(0, len(theirs), ID_LENGTH)}
    assert len(other) == 50
    assert other.isdisjoint(own)
    assert {made[10:20] for made in other}.isdisjoint({made[10:20] for made in own})
