"""The glossary explains each word once, and names the module where a reader goes on."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
_ROW = re.compile(r"\| ([^|`]+) \| ([^|]+) \| `([\w.]+)` \|")


def _rows() -> list[tuple[str, str, str]]:
    """Return term, meaning and module of each row of the page's one table."""
    lines = (REPOSITORY / "docs" / "glossary.md").read_text().splitlines()
    rows = [_ROW.fullmatch(line) for line in lines if line.startswith("| ")][1:]
    assert rows.pop(0) is None, "the line below the heading"
    found = [row.groups() for row in rows if row is not None]
    assert len(found) == len(rows), "a row has another form"
    return [(term, meaning, module) for term, meaning, module in found]


def test_terms_are_sorted_and_explained_once() -> None:
    """A reader would not find a word where it is looked for, or would find two meanings of it."""
    terms = [term for term, _, _ in _rows()]
    assert len(terms) >= 60
    assert terms == sorted(terms, key=str.casefold)
    assert len({term.casefold() for term in terms}) == len(terms)


def test_a_meaning_is_one_sentence() -> None:
    """A page that is to be looked up in would have to be read."""
    assert [term for term, meaning, _ in _rows() if not re.fullmatch(r"[A-Z1-9][^.]*(\.\w[^.]*)*\.", meaning)] == []


def test_every_module_that_is_named_exists() -> None:
    """A word would lead to a module that was moved."""
    package = REPOSITORY / "signproxy"
    missing = {
        (term, module)
        for term, _, module in _rows()
        for path in [package / module.replace(".", "/")]
        if not (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file())
    }
    assert missing == set()
