"""Prove that people and processes are called what they are: the caller, the operator, the client."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
VAGUE = re.compile(r"\b(who(m)?ever|((some|any|every)(body|one)|nobody)s?|he|his|him|himself)\b", re.IGNORECASE)
# The account of Unix that owns no file.
ACCOUNT = re.compile(r"\b(run|runs|running) as nobody\b")
# Between words of a name.
JOINED = re.compile(r"[_ ]+")
TEXT = frozenset((".conf", ".css", ".jinja", ".json", ".md", ".py", ".sh", ".svg", ".toml", ".yaml"))
FILES = frozenset(("Dockerfile", "Makefile"))
SHIPPED = ("signproxy", "docs", "deploy", "policies")
PROVEN = ("tests", "bench", "tools")


def _texts() -> Iterator[Path]:
    """Yield what a user may read: the package, its documentation, the manifests and the ready policies."""
    found = [*REPOSITORY.iterdir(), *(path for room in SHIPPED for path in (REPOSITORY / room).rglob("*"))]
    for path in sorted(found):
        if path.is_file() and (path.suffix in TEXT or path.name in FILES):
            yield path


def _vague(text: str) -> bool:
    return VAGUE.search(ACCOUNT.sub("", text)) is not None


def _prose(source: str) -> Iterator[str]:
    """Yield the comments, docstrings and names of functions of a module, but no text that it works with."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield JOINED.sub(" ", node.name)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def test_no_text_of_the_product_leaves_open_whom_it_means() -> None:
    """An operator whose first language is another one cannot tell who has to act, or who may."""
    texts = list(_texts())
    assert len(texts) > 400
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()[:120]}"
        for path in texts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _vague(line)
    ]
    assert found == []


def test_no_test_leaves_open_whom_it_means() -> None:
    """A contributor who reads why a test failed would have to guess whose mistake it is."""
    read = 0
    found = []
    for path in (path for room in PROVEN for path in sorted((REPOSITORY / room).rglob("*.py"))):
        source = path.read_text()
        read += 1
        # To take a file apart costs far more than to look for the words in it.
        if _vague(JOINED.sub(" ", source)):
            found += [f"{path.relative_to(REPOSITORY)}: {text[:120]}" for text in _prose(source) if _vague(text)]
    assert read > 300
    assert found == []


@pytest.mark.parametrize(
    ("text", "vague"),
    (
        ("Whoever may read it", True),
        ("what he may read", True),
        ("test for himself", True),
        ("Anybody can send it, and everyone reads it", True),
        ("an answer that is everybodys", True),
        ("every one of them, and any one body", False),
        ("The image runs as nobody.", False),
        ("The header, the other, this and that", False),
    ),
)
def test_a_vague_word_is_seen_and_its_neighbours_are_not(text: str, vague: bool) -> None:
    """The rule above would let a sentence pass, or stop honest words."""
    assert _vague(text) is vague
