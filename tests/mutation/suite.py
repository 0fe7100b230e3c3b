"""Run the unit tests in this process: once with a map of what each test runs, then against one mutant at a time."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

# What the tests load besides the product: loaded here once, it need not be in each fork.
import aiohttp.web  # noqa: F401
import botocore.auth
import botocore.credentials  # noqa: F401
import coverage
import cryptography.x509  # noqa: F401
import hypothesis.strategies  # noqa: F401
import jwt.algorithms  # noqa: F401
import msgspec  # noqa: F401
import prometheus_client  # noqa: F401
import pytest
import structlog  # noqa: F401
import yaml  # noqa: F401
from _pytest.runner import runtestprotocol

from tests.mutation.forks import NotExchangeable, limit
from tests.mutation.mutants import Mutant

# Order and time limits are this module's; nothing is written. Rewritten assertions would only cost time: whether one
# fails is all that counts, and rewriting refuses the libraries that are loaded above.
OPTIONS = (
    "-q",
    "-x",
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
    "--timeout=0",
    "--capture=no",
    "--tb=short",
    "--assert=plain",
)
IMPORT = ""


class SuiteFailed(RuntimeError):
    """The tests fail without any mutant."""


@dataclass
class Map:
    """Which tests run which line, and how long each takes."""

    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    """By path and line, the ids of the tests; `IMPORT` among them where the line runs at import."""
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def at(self, path: str, lines: Iterable[int]) -> set[str]:
        """Return the tests that run one of the lines."""
        known = self.lines.get(path, {})
        return set().union(*(known.get(line, ()) for line in lines))

    def of(self, path: str) -> set[str]:
        """Return the tests that run any line of a module."""
        return self.at(path, self.lines.get(path, ()))

    def fastest_first(self, tests: set[str]) -> list[str]:
        """Order tests so that a mutant is noticed as early as can be."""
        return sorted(tests - {IMPORT}, key=lambda test: (self.seconds[test], test))


class _Mapper:
    """Tell coverage which test is running."""

    def __init__(self, measured: coverage.Coverage, seconds: dict[str, float]) -> None:
        self._measured = measured
        self._seconds = seconds

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterable[None]:
        self._measured.switch_context(item.nodeid)
        yield
        self._measured.switch_context(IMPORT)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration


def measure(tests: Sequence[str], targets: Sequence[str]) -> Map:
    """Run all tests, which must pass, and return the map."""
    included = [pattern for target in targets for pattern in (target, f"{target}/*")]
    measured = coverage.Coverage(data_file=None, config_file=False, include=included)
    found = Map()
    measured.start()
    code = pytest.main([*OPTIONS, *tests], plugins=[_Mapper(measured, found.seconds)])
    measured.stop()
    if code != pytest.ExitCode.OK:
        raise SuiteFailed(f"the tests do not pass without a mutant: {code!r}")
    data = measured.get_data()
    for path in data.measured_files():
        lines = data.contexts_by_lineno(path)
        found.lines[Path(path).relative_to(Path.cwd()).as_posix()] = {line: set(ids) for line, ids in lines.items()}
    found.seconds = dict(found.seconds)
    return found


class _Warm:
    """Collect the tests once, then hand over instead of running them."""

    def __init__(self, work: Callable[[dict[str, pytest.Item]], None]) -> None:
        self._work = work

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._work({item.nodeid: item for item in session.items})
        return True


def with_collected(tests: Sequence[str], work: Callable[[dict[str, pytest.Item]], None]) -> None:
    """Call the work with the collected tests by id."""
    code = pytest.main([*OPTIONS, *tests], plugins=[_Warm(work)])
    if code != pytest.ExitCode.OK:
        raise SuiteFailed(f"the tests cannot be collected: {code!r}")


def fails(items: Sequence[pytest.Item], limits: Mapping[str, float]) -> bool:
    """Run collected tests up to the first that fails; each has so many seconds on the processor."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        limit(limits[item.nodeid])
        if any(report.failed for report in runtestprotocol(item, nextitem=following, log=False)):
            return True
    return False


_Place = tuple[str, str, int]


def live_functions() -> dict[_Place, list[FunctionType]]:
    """Return the functions that exist, by file, name and first line."""
    found: dict[_Place, list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType:
            found[_place(each.__code__)].append(each)
    return found


def exchange(mutant: Mutant, code: CodeType, functions: dict[_Place, list[FunctionType]]) -> None:
    """Give the live function the changed code, so that every name bound to it runs it."""
    place = (code.co_filename, mutant.unit.name.rpartition(".")[2], mutant.unit.first_line)
    changed = next(each for each in _codes(code) if _place(each) == place)
    live = functions.get(place, [])
    if not live or any(each.__code__.co_freevars != changed.co_freevars for each in live):
        raise NotExchangeable
    for function in live:
        function.__code__ = changed


def _place(code: CodeType) -> _Place:
    return (code.co_filename, code.co_name, code.co_firstlineno)


def _codes(code: CodeType) -> Iterable[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
