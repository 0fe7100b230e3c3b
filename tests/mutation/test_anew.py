"""Prove that files of tests are tried in an order that only experience changes."""

from __future__ import annotations

from functools import partial

from tests.mutation.anew import Killers
from tests.mutation.forks import isolated

TESTS = {
    "tests/a/test_many.py": ["one", "two"],
    "tests/a/test_one.py": ["one"],
    "tests/room/test_many.py": ["one", "two"],
    "tests/room/test_subject.py": ["one", "two"],
}
BY_NAME = ["tests/room/test_subject.py", "tests/room/test_many.py", "tests/a/test_one.py", "tests/a/test_many.py"]


def test_without_experience_names_decide() -> None:
    """The tests that are named for a module are the likeliest to hold it."""
    killers = Killers(["product.room.subject"], TESTS)
    assert killers.likeliest_first("product.room.subject", TESTS) == BY_NAME


def test_what_a_fork_noticed_is_known_to_the_next() -> None:
    """Each mutant runs in a process of its own; what it learned would end with it."""
    killers = Killers(["product.room.subject", "product.room.other"], TESTS)
    for file in ("tests/a/test_many.py", "tests/a/test_one.py", "tests/a/test_many.py"):
        isolated(partial(killers.count, "product.room.subject", file))
    assert killers.likeliest_first("product.room.subject", TESTS) == [
        "tests/a/test_many.py",
        "tests/a/test_one.py",
        "tests/room/test_subject.py",
        "tests/room/test_many.py",
    ]
    # Of another module it says nothing.
    assert killers.likeliest_first("product.room.other", TESTS)[0] == "tests/room/test_many.py"
