"""Choose the mutants, find the tests that must notice each, and run them."""

from __future__ import annotations

import ast
import gc
import math
import random
import subprocess
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

from tests.mutation import anew, suite
from tests.mutation.forks import Outcome, each, isolated
from tests.mutation.mutants import Mutant, enums_of, mutants_of, units_of
from tests.mutation.operators import Enums

Key = tuple[str, str, str, str]

# Ten times what the tests took, and what it takes to start them.
_PATIENCE = 10.0
_START_WARM, _START_ANEW = 2.0, 10.0
_UNBOUNDED = 600.0


def load_equivalents(path: Path) -> dict[Key, str]:
    """Return the reason of each mutant that no test can notice."""
    entries = tomllib.loads(path.read_text()).get("equivalent", []) if path.exists() else []
    return {(entry["path"], entry["unit"], entry["text"], entry["change"]): entry["reason"] for entry in entries}


class _Job(NamedTuple):
    number: int
    tests: list[str]
    limit: float
    """Seconds on the processor."""


class Campaign:
    """The mutants of some packages, the tests that must notice them, and what became of them."""

    def __init__(self, targets: Sequence[str], tests: Sequence[str], equivalents: dict[Key, str], since: str) -> None:
        self._targets = targets
        self._tests = tests
        self._since = since
        paths = [path for target in targets for path in _modules(target)]
        self._trees = {path: ast.parse(Path(path).read_text()) for path in paths}
        listed = [mutant for path in paths for mutant in self._list(path)]
        self.mutants = [mutant for mutant in listed if mutant.key not in equivalents]
        self.equivalent = len(listed) - len(self.mutants)
        # Of a part of the mutants nothing can be said about entries for the rest.
        self.unused = [] if since else sorted(equivalents.keys() - {mutant.key for mutant in listed})
        self.outcomes: dict[int, Outcome] = {}
        self._map = suite.Map()

    def _list(self, path: str) -> Iterator[Mutant]:
        before = _units_at(self._since, path) if self._since else set()
        for mutant in mutants_of(path, Path(path).read_text(), self._trees[path], _all_enums()):
            if (mutant.unit.name, ast.dump(mutant.unit.node)) not in before:
                yield mutant

    def run(self, workers: int, budget: float) -> None:
        """Run the mutants until the budget ends: by exchanging code where that does, else with a fresh import."""
        began = time.monotonic()
        tests = [test for test in self._tests if Path(test).exists()]
        self._map = isolated(lambda: suite.measure(tests, self._targets))
        print(
            f"{len(self.mutants)} mutants, {len(self._map.seconds)} tests, mapped in {time.monotonic() - began:.0f} s",
            flush=True,
        )
        order = list(range(len(self.mutants)))
        # A budget must not spare the ends of modules; the same change draws the same mutants.
        random.Random(0).shuffle(order)
        tests_of = {number: self._tests_of(number) for number in order}
        self.outcomes = {number: Outcome.SURVIVED for number in order if not tests_of[number]}
        fresh = [number for number in order if tests_of[number] and self._at_import(self.mutants[number])]
        warm = [number for number in order if tests_of[number] and not self._at_import(self.mutants[number])]
        pause = began + budget * (0.5 if fresh else 1.0)
        self.outcomes |= isolated(
            lambda: self._run_warm(self._jobs(warm, tests_of, _START_WARM), tests, workers, pause)
        )
        again = [number for number in warm if self.outcomes.get(number) is Outcome.NOT_EXCHANGED]
        for number in again:
            del self.outcomes[number]
        jobs = self._jobs(again + fresh, tests_of, _START_ANEW)
        if jobs:
            self.outcomes |= isolated(lambda: self._run_anew(jobs, workers, began + budget))

    def _jobs(self, numbers: list[int], tests_of: dict[int, list[str]], start: float) -> list[_Job]:
        seconds = self._map.seconds
        return [
            _Job(number, tests_of[number], start + _PATIENCE * sum(seconds[test] for test in tests_of[number]))
            for number in numbers
        ]

    def _at_import(self, mutant: Mutant) -> bool:
        return mutant.at_import or suite.IMPORT in self._map.at(mutant.path, mutant.lines)

    def _tests_of(self, number: int) -> list[str]:
        mutant = self.mutants[number]
        if not self._at_import(mutant):
            return self._map.fastest_first(self._map.at(mutant.path, mutant.lines))
        # What is made at import is used through its module, or through one that imports names from it.
        name = _module(mutant.path)
        users = [mutant.path, *(path for path in self._trees if name in _imported(path))]
        running = set().union(*(self._map.of(path) for path in users))
        reading = {test for test in self._map.seconds if name in _imported_by_tests(_file(test))}
        return self._map.fastest_first(running) + self._map.fastest_first(reading - running)

    def _compiled(self, job: _Job) -> CodeType:
        mutant = self.mutants[job.number]
        return mutant.compile(self._trees[mutant.path], str(Path(mutant.path).resolve()))

    @staticmethod
    def _check_order(outcomes: dict[int, Outcome]) -> None:
        if outcomes != {0: Outcome.SURVIVED}:
            raise suite.SuiteFailed("the tests fail without a mutant once they run fastest first")

    def _run_warm(self, jobs: list[_Job], tests: list[str], workers: int, until: float) -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}

        def work(items: dict[str, pytest.Item]) -> None:
            functions = suite.live_functions()
            # What is collected now is alive in every fork: leave it out of their garbage collections.
            gc.freeze()
            every = [items[test] for test in self._map.fastest_first(set(self._map.seconds))]
            limits = {test: _START_WARM + _PATIENCE * seconds for test, seconds in self._map.seconds.items()}
            self._check_order(each([(0, _UNBOUNDED, lambda: suite.fails(every, limits))], 1, math.inf))

            def fails(job: _Job) -> bool:
                suite.exchange(self.mutants[job.number], self._compiled(job), functions)
                return suite.fails([items[test] for test in job.tests], limits)

            outcomes.update(each(((job.number, job.limit, partial(fails, job)) for job in jobs), workers, until))

        suite.with_collected(tests, work)
        return outcomes

    def _run_anew(self, jobs: list[_Job], workers: int, until: float) -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}
        every = self._map.fastest_first(set(self._map.seconds))
        limits: dict[str, float] = defaultdict(lambda: _START_ANEW)
        for test, seconds in self._map.seconds.items():
            limits[_file(test)] += _PATIENCE * seconds
        killers = anew.Killers(map(_module, self._trees), limits)

        def work(session: pytest.Session) -> None:
            # As for the warm ones: pytest, its plugins and the libraries are alive in every fork.
            gc.freeze()
            path, tree = next(iter(self._trees.items()))
            unchanged = compile(tree, str(Path(path).resolve()), "exec", dont_inherit=True)
            fails_unchanged = partial(anew.fails, session, every, _module(path), unchanged, killers, limits)
            self._check_order(each([(0, _UNBOUNDED, fails_unchanged)], 1, math.inf))

            def fails(job: _Job) -> bool:
                module = _module(self.mutants[job.number].path)
                return anew.fails(session, job.tests, module, self._compiled(job), killers, limits)

            outcomes.update(each(((job.number, job.limit, partial(fails, job)) for job in jobs), workers, until))

        anew.with_session(work)
        return outcomes


@cache
def _all_enums() -> Enums:
    found: Enums = {}
    for path in Path().glob("*/**/*.py"):
        if not path.parts[0].startswith((".", "tests")):
            found |= enums_of(ast.parse(path.read_text()))
    return found


def _modules(target: str) -> list[str]:
    path = Path(target)
    return [each.as_posix() for each in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]


def _file(test: str) -> str:
    return test.partition("::")[0]


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _imported(path: str) -> frozenset[str]:
    tree = ast.parse(Path(path).read_text())
    return frozenset(node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)


@cache
def _imported_by_tests(path: str) -> frozenset[str]:
    """Return what a test's module imports, by itself or through the helpers beside it."""
    own = _imported(path)
    helpers = [name.replace(".", "/") + ".py" for name in own if name.partition(".")[0] == Path(path).parts[0]]
    return own.union(*(_imported_by_tests(helper) for helper in helpers if Path(helper).exists()))


def _units_at(revision: str, path: str) -> set[tuple[str, str]]:
    """Return the units that a file had; none if it, or the revision, did not exist."""
    shown = subprocess.run(["git", "show", f"{revision}:{path}"], capture_output=True, text=True, check=False)
    return (
        {(unit.name, ast.dump(unit.node)) for unit in units_of(ast.parse(shown.stdout))}
        if shown.returncode == 0
        else set()
    )
