"""Prove on a small product that survivors are found, and that nothing else is called one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Each runs the tests of a small product some 25 times, in processes of their own.
pytestmark = pytest.mark.timeout(330)

REPOSITORY = Path(__file__).resolve().parents[2]

PRODUCT = '''
"""Judge ages."""
import functools

ADULT = 18
WORDS = {word: len(word) for word in ("old", "young")}
FIRST = {"old": 1}["old"]
TITLES = {"dr": 1}


class Person:
    def __init__(self, age: int) -> None:
        self.age = age

    @property
    def adult(self) -> bool:
        return self.age >= ADULT


@functools.cache
def clamp(age: int) -> int:
    if age < 0:
        raise ValueError("negative")
    return age


def never(age: int) -> int:
    return age + 1


def waits(age: int) -> int:
    while age > 0:
        age -= 1
    return age
'''
TESTS = """
import pytest
from product.judge import ADULT, FIRST, WORDS, Person, clamp, waits

@pytest.mark.parametrize(("age", "adult"), ((ADULT, True), (ADULT - 1, False)))
def test_adult(age, adult):
    assert Person(age).adult is adult

def test_clamp():
    assert clamp(3) == 3

def test_clamp_refuses():
    with pytest.raises(ValueError, match="negative"):
        clamp(-1)

def test_waits():
    assert waits(3) == 0

async def test_words():
    assert WORDS == {"old": 3, "young": 5}

def test_first():
    assert FIRST == 1
"""
# The keys are the tests' own: with another key, none of the tests that passed is left.
TITLE_TESTS = """
import pytest
from product.judge import TITLES

@pytest.mark.parametrize("title", TITLES)
def test_title(title):
    assert TITLES[title] == 1
"""
# Where a mutant runs at import, what imports the product must be imported after it.
CONFTEST = "import product.judge\n"
# A module in which nothing needs a fresh import.
SMALL = "def double(age: int) -> int:\n    return age * 2\n"
# What the tests above leave open, seen by reading them.
SURVIVORS = {
    # The tests take their limit from the product.
    ("<module>", "18 -> 19"),
    ("clamp", "age < 0 -> age <= 0"),
    ("clamp", "0 -> 1"),
    # No test runs it.
    ("never", "return age + 1 -> return None"),
    ("never", "age + 1 -> age - 1"),
    ("never", "1 -> 2"),
}


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """Write the product, its tests and its history."""
    for name, text in (
        ("product/judge.py", PRODUCT),
        ("product/small.py", SMALL),
        ("checks/conftest.py", CONFTEST),
        ("checks/test_judge.py", TESTS),
        ("checks/test_titles.py", TITLE_TESTS),
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    for command in (
        ("init",),
        ("add", "."),
        ("-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-m", "m"),
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True, timeout=30)
    return tmp_path


def _run(product: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.mutation", "--target", "product/judge.py", "--tests", "checks",
            "--output", "result.json", "--equivalents", "equivalents.toml", *arguments,
        ],
        cwd=product,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    result = product / "result.json"
    return done.returncode, json.loads(result.read_text()) if result.exists() else {}, done.stdout + done.stderr


def test_exactly_the_mutants_that_no_test_notices_survive(product: Path) -> None:
    """A tool that kills too much flatters the tests; one that kills too little hides the real gaps."""
    status, result, output = _run(product, "--fail-under", "90")
    assert {(each["unit"], each["change"]) for each in result["survivors"]} == SURVIVORS, output
    assert result["run"] == result["mutants"] == sum(result["modules"]["product/judge.py"].values())
    # `while age > 0` that never ends is noticed by the time limit.
    assert result["modules"]["product/judge.py"]["timeout"] >= 1
    assert status == 1


def test_only_changed_functions_are_mutated(product: Path) -> None:
    """A change must be answered for in minutes."""
    judge = product / "product/judge.py"
    judge.write_text("# A new line that moves everything.\n" + PRODUCT.replace("age + 1", "age + 2"))
    _, result, output = _run(product, "--changed-since", "HEAD")
    assert {each["unit"] for each in result["survivors"]} == {"never"}, output
    assert result["mutants"] == 3


def test_nothing_changed_is_well(product: Path) -> None:
    """A change of documentation has no mutants, and must not fail for it."""
    status, result, output = _run(product, "--changed-since", "HEAD", "--fail-under", "90")
    assert (status, result["mutants"]) == (0, 0), output


def test_an_equivalent_that_is_no_mutant_fails(product: Path) -> None:
    """A list that outlives the code it excuses would come to excuse other code."""
    entry = '[[equivalent]]\npath = "product/small.py"\nunit = "{}"\ntext = "return age * 2"\n{}\nreason = "r"\n'
    (product / "equivalents.toml").write_text(
        entry.format("gone", 'change = "2 -> 3"') + entry.format("double", 'change = "2 -> 3"')
    )
    status, result, output = _run(product, "--target", "product/small.py")
    assert status == 1
    assert "listed as equivalent, but no mutant: ('product/small.py', 'gone'" in output
    assert result["equivalent"] == 1


def test_tests_that_need_their_order_are_no_killed_mutants(product: Path) -> None:
    """Tests that lean on what ran before would fail for every mutant that is tried on some of them alone."""
    (product / "checks/test_judge.py").write_text(
        "import time\nfrom product.small import double\nseen = []\n"
        "def test_slow():\n    seen.append(double(2))\n    time.sleep(0.2)\n"
        "def test_fast():\n    assert double(seen[0]) == 8\n"
    )
    status, result, output = _run(product, "--target", "product/small.py")
    assert (status != 0, result) == (True, {})
    assert "once they run fastest first" in output


def test_a_product_that_is_imported_before_it_is_changed_is_refused(product: Path) -> None:
    """Nothing would notice a change that never ran: every mutant of what runs at import would seem to survive."""
    (product / "conftest.py").write_text(CONFTEST)
    status, result, output = _run(product)
    assert (status != 0, result) == (True, {})
    assert "product.judge is imported before it is changed" in output


def test_a_budget_that_ends_early_fails_a_whole_run(product: Path) -> None:
    """The score of the mutants that happened to be tried is not the score."""
    status, result, output = _run(product, "--budget", "0")
    assert status == 1, output
    assert result["run"] < result["mutants"]


def test_failing_tests_are_no_killed_mutants(product: Path) -> None:
    """Tests that fail on their own would notice every mutant."""
    (product / "checks/test_judge.py").write_text("def test_fails():\n    assert False\n")
    status, result, output = _run(product, "--target", "product/small.py")
    assert status != 0
    assert result == {}
    assert "do not pass without a mutant" in output
