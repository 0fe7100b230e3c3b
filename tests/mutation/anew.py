"""Run the unit tests on a product that is imported anew, with one module changed."""

from __future__ import annotations

import importlib.machinery
import mmap
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from types import CodeType

import pytest

from tests.mutation.forks import limit
from tests.mutation.suite import OPTIONS, SuiteFailed


class Killers:
    """How many mutants of each module each file of tests has noticed: counted by all forks of this process together."""

    def __init__(self, modules: Iterable[str], files: Iterable[str]) -> None:
        self._at = {pair: at for at, pair in enumerate(product(modules, files))}
        # Memory that forks share instead of copying. Two of them may lose a count, which costs time and nothing else.
        self._counts = memoryview(mmap.mmap(-1, 4 * len(self._at))).cast("I")

    def count(self, module: str, file: str) -> None:
        """Remember that the file noticed a mutant of the module."""
        self._counts[self._at[module, file]] += 1

    def likeliest_first(self, module: str, tests_by_file: dict[str, list[str]]) -> list[str]:
        """Order files so that a mutant is noticed as early as can be: by what they noticed, then by their names."""
        *_, room, subject = ("", *module.split("."))
        return sorted(
            tests_by_file,
            key=lambda file: (
                -self._counts[self._at[module, file]], subject not in file, room not in file,
                len(tests_by_file[file]), file,
            ),
        )  # fmt: skip


class _Started:
    """Hand a session over once it has begun, before it collects anything."""

    def __init__(self, work: Callable[[pytest.Session], None]) -> None:
        self._work = work

    def pytest_collection(self) -> bool:
        return True

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        # From here on, collecting and running are pytest's own again.
        session.config.pluginmanager.unregister(self)
        self._work(session)
        return True


def with_session(work: Callable[[pytest.Session], None]) -> None:
    """Call the work with a session that has begun, so that its forks need not begin one each."""
    # Of the repository's root: named for the tests, it would load their rooms' conftests, which may import the product.
    code = pytest.main([*OPTIONS, "."], plugins=[_Started(work)])
    if code != pytest.ExitCode.NO_TESTS_COLLECTED:
        raise SuiteFailed(f"a session without tests cannot be had: {code!r}")


class _Chosen:
    """Keep the chosen tests, in their order."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._rank = {each: rank for rank, each in enumerate(ids)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._rank), key=lambda item: self._rank[item.nodeid]
        )


def fails(
    session: pytest.Session,
    ids: Sequence[str],
    module: str,
    code: CodeType,
    killers: Killers,
    limits: Mapping[str, float],
) -> bool:
    """Import the product with one module changed, and run the tests up to the first that fails.

    Each file of tests has so many seconds on the processor.
    """
    if module in sys.modules:
        raise SuiteFailed(f"{module} is imported before it is changed, by a plugin or by the first conftest")
    loader = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        return code if fullname == module else original(self, fullname)

    loader.get_code = get_code  # type: ignore[method-assign,assignment]  # this process runs one mutant and ends
    by_file: dict[str, list[str]] = defaultdict(list)
    for each in ids:
        by_file[each.partition("::")[0]].append(each)
    session.config.pluginmanager.register(_Chosen(ids))
    # Collecting often takes longer than running: file by file, it ends with the first that fails.
    for file in killers.likeliest_first(module, by_file):
        limit(limits[file])
        if _fails_in(session, file):
            killers.count(module, file)
            return True
    return False


def _fails_in(session: pytest.Session, file: str) -> bool:
    """Do with one file what pytest does with its arguments, and say whether it would end with an error."""
    session.config.args = [file]
    try:
        session.config.hook.pytest_collection(session=session)
        session.config.hook.pytest_runtestloop(session=session)
    except BaseException:  # noqa: BLE001  (a failed test, a module that cannot be imported, an exit: each is an error)
        return True
    # Nor does pytest pass where no test is left.
    return session.testsfailed > 0 or session.testscollected == 0
