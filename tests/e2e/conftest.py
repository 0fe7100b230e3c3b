"""Start each store once per run, in a directory that goes with it."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.ending import EndingSignatures
from tests.e2e.matrix import FILE, Matrix
from tests.e2e.stores import STORES, SWIFT, VERSITYGW, RunningStore, StoreKind
from tests.e2e.stores.direct import Owner

TIMEOUT = 1800
"""Seconds for one test; the first one builds the stores where the cache is cold."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give end-to-end tests the time that building a store takes, and begin at once what then only waits."""
    here = f"{Path(__file__).parent}{os.sep}"
    ours = [item for item in items if str(item.path).startswith(here)]
    for item in ours:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT))
    if any(map(_waits, ours)):
        # Begun with the first test, looked at after the last.
        items.sort(key=_waits)
        min(ours, key=_waits).fixturenames.append("ending_signatures")  # type: ignore[attr-defined]  # of functions, which all are


def _waits(item: pytest.Item) -> bool:
    return "ending_signatures" in getattr(item, "fixturenames", ())


class Shelf:
    """Stores by name, started when they are first asked for."""

    def __init__(self, factory: pytest.TempPathFactory, stack: ExitStack) -> None:
        self._factory = factory
        self._stack = stack
        self._running: dict[str, RunningStore] = {}

    def get(self, kind: StoreKind) -> RunningStore:
        """Return the running store."""
        if kind.name not in self._running:
            directory = self._factory.mktemp(kind.name, numbered=True)
            self._running[kind.name] = self._stack.enter_context(kind.run(directory))
        return self._running[kind.name]


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    with ExitStack() as stack:
        yield Shelf(tmp_path_factory, stack)


@pytest.fixture(scope="session")
def ending_signatures(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndingSignatures]:
    """Signatures that end while other tests run."""
    made = EndingSignatures([shelf.get(kind) for kind in (VERSITYGW, SWIFT)], tmp_path_factory.mktemp("ending"))
    yield made
    made.join()


WHOLE = "not soak"
"""What `make e2e` asks for: the soak proves nothing about clients, and takes as long as all the rest."""


class Progress:
    """Which tests of which file were chosen, and which of them ran to their end."""

    def __init__(self, session: pytest.Session) -> None:
        chosen = session.config.option
        parts = any("::" in argument for argument in session.config.args)
        # A run that leaves some tests out by name or mark has not run a file whole.
        self._in_full = chosen.markexpr == WHOLE and not (chosen.keyword or chosen.deselect or parts)
        self._left: dict[str, set[str]] = {}
        for item in session.items:
            self._left.setdefault(item.nodeid.partition("::")[0], set()).add(item.nodeid)

    def ended(self, nodeid: str) -> None:
        """Note that a test ran to its end, whatever became of it."""
        self._left[nodeid.partition("::")[0]].discard(nodeid)

    def whole(self) -> Iterator[str]:
        """Yield the files of which every test ran."""
        if self._in_full:
            yield from (file for file, left in self._left.items() if not left)


_PROGRESS = pytest.StashKey[Progress]()
_MATRIX = pytest.StashKey[Matrix]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to count."""
    session.config.stash[_PROGRESS] = Progress(session)
    session.config.stash[_MATRIX] = Matrix()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give the rows of a test to its file."""
    item.config.stash[_MATRIX].suite = item.nodeid.partition("::")[0]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what became of the suites that ran whole: no part of one overwrites the whole."""
    progress = session.config.stash.get(_PROGRESS, None)
    if progress is None:
        return
    existing = (f"{path.relative_to(session.config.rootpath)}" for path in Path(__file__).parent.rglob("test_*.py"))
    ran = list(progress.whole())
    if ran:
        session.config.stash[_MATRIX].write(FILE, ran, existing)


@pytest.fixture(scope="session")
def matrix(request: pytest.FixtureRequest) -> Matrix:
    """Collect outcomes."""
    return request.config.stash[_MATRIX]


@pytest.fixture(params=STORES, ids=str)
def store(request: pytest.FixtureRequest, shelf: Shelf) -> Iterator[RunningStore]:
    running = shelf.get(request.param)
    yield running
    if getattr(request.node, "e2e_failed", False):
        print(f"--- log of {running}\n{running.log()}")  # noqa: T201  # pytest shows it with the failure


@pytest.fixture
def owner(store: RunningStore) -> Iterator[Owner]:
    one = Owner(store)
    yield one
    one.close()


@pytest.fixture
def bucket(owner: Owner, request: pytest.FixtureRequest) -> str:
    """Return a new bucket; tests of one run share the stores, never a bucket."""
    name = re.sub("[^a-z0-9]+", "-", f"{request.node.name}-{id(request.node):x}".lower()).strip("-")[-50:].strip("-")
    owner.must("PUT", name)
    return name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the end of a test, and a failure, so that the fixture can show the store's log."""
    report = yield
    if report.when == "teardown":
        item.config.stash[_PROGRESS].ended(item.nodeid)
    if report.failed:
        item.e2e_failed = True  # type: ignore[attr-defined]  # read back by the fixture of the same item
    return report


@pytest.fixture(params=(1, 2), ids=("one", "two"))
def workers(request: pytest.FixtureRequest) -> int:
    """Return how many processes serve, for tests of what each of them does for itself, and of all together."""
    assert isinstance(request.param, int)
    return request.param
