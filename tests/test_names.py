"""Prove that a public class of the product is found by its name alone."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED: dict[str, str] = {}
"""Names that several classes may have, and why."""


def _homes() -> dict[str, list[str]]:
    """Return the modules of every public class at the top level of a module."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted((REPOSITORY / "signproxy").rglob("*.py")):
        module = path.relative_to(REPOSITORY).as_posix()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    return homes


def test_no_two_public_classes_share_a_name() -> None:
    """A reader who looks for a name finds the wrong class, and reviews a change to it that was never made."""
    homes = _homes()
    assert len(homes) > 600
    assert {name: where for name, where in homes.items() if len(where) > 1 and name not in SHARED} == {}


def test_no_name_is_shared_without_need() -> None:
    """A name that stays on the list after its rewrite would let two other classes share it."""
    homes = _homes()
    assert [name for name in SHARED if len(homes[name]) < 2] == []
