"""The page on the architecture names functions, modules and tests that are there, in the order of a request."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.walk.ways import walk_of

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text()
RULES = 22

# The heading of each walk on the page, and the way that it follows.
WALKS = {"The walk of one sign": "sign", "The walk of one GET": "get", "The walk of one loadTable": "load-table"}

_STEP = re.compile(r"^(\d+)\. `([\w.]+)`: \S", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")


def _section(heading: str) -> str:
    """Return the text below a heading of the second level."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def _rules() -> list[list[str]]:
    """Return the cells of each row of the page's table of rules."""
    rows = [line for line in _section("Where each rule is kept").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


@pytest.mark.parametrize(("heading", "way"), WALKS.items())
def test_a_request_takes_the_functions_of_the_page_in_their_order(heading: str, way: str) -> None:
    """A reader who follows the page would look for a function that is gone, or look at a wrong time."""
    steps = _STEP.findall(_section(heading))
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert len(steps) >= 10
    called = walk_of(way).functions
    named = [name for _, name in steps]
    assert [name for name in named if name not in called] == [], f"`python -m tests.walk --list {way}` has the names"
    assert named == sorted(named, key=called.index)


def test_every_rule_has_its_row() -> None:
    """A rule without a row is one of which no reader learns where it is kept."""
    assert [cells[0].partition(".")[0] for cells in _rules()] == [str(number) for number in range(1, RULES + 1)]


def test_modules_and_tests_of_the_rules_exist() -> None:
    """A reader would be sent to a file that was moved, and take the rule for one that nothing tests."""
    for rule, modules, tests in _rules():
        paths = [f"signproxy/{name.replace('.', '/')}.py" for name in _NAME.findall(modules)] + _NAME.findall(tests)
        assert len(paths) >= 2, rule
        assert [path for path in paths if not (REPOSITORY / path).is_file()] == [], rule
