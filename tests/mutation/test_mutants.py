"""Prove that each slip a programmer could make is tried, and that what is no behaviour is left alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutation import operators
from tests.mutation.mutants import enums_of, mutants_of

ENUMS = {"Access": ["READ", "WRITE", "LIST"]}


def _changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants_of("a.py", source, ast.parse(source), ENUMS)]


def _in_function(line: str) -> list[str]:
    return _changes(f"def f(a, b):\n    {line}\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    (
        ("a < b", {"a < b -> a <= b", "a < b -> a >= b"}),
        ("a == b", {"a == b -> a != b"}),
        ("a not in b", {"a not in b -> a in b"}),
        ("a and b", {"a and b -> a or b", "a and b -> a", "a and b -> b"}),
        (
            "a or b or f",
            {"a or b or f -> a or b", "a or b or f -> b or f", "a or b or f -> a or f", "a or b or f -> a and b and f"},
        ),
        ("not a", {"not a -> a"}),
        ("a - b", {"a - b -> a + b"}),
        # The difference of texts is a TypeError, which every test would notice.
        ("a + 'x'", {"'x' -> 'x<'"}),
        ("a & 1", {"a & 1 -> a | 1", "1 -> 2"}),
        ("True", {"True -> False"}),
        ("b'x'", {"b'x' -> b'x<'"}),
        ("''", {"'' -> '<'"}),
        # A codec's name that is spelled otherwise is still its name.
        ("a.decode('utf-8')", set()),
        ("a[1:b]", {"1:b -> :b", "1:b -> 1:", "1 -> 2"}),
        ("Access.READ", {"Access.READ -> Access.WRITE"}),
        ("Access.LIST", {"Access.LIST -> Access.READ"}),
        ("a.startswith(b)", {"a.startswith(b) -> a.endswith(b)"}),
        ("a.fullmatch(b)", {"a.fullmatch(b) -> a.match(b)"}),
        ("any(a)", {"any(a) -> all(a)"}),
        ("f(a, key=b)", {"f(a, key=b) -> f(a)"}),
        ("{a, b}", {"{a, b} -> {a}", "{a, b} -> {b}"}),
        ("{a: b}", {"{a: b} -> {}"}),
        ("'x y'.split()", {"'x y'.split() -> 'y'.split()", "'x y'.split() -> 'x'.split()", "'x y' -> 'x y<'"}),
        ("[x for x in a if x]", {"for x in a if x -> for x in a"}),
        ("a if b else f", {"b -> False", "b -> True"}),
    ),
)
def test_each_slip_of_an_expression_is_tried(line: str, expected: set[str]) -> None:
    """An operator that is not tried is a rule that may have no test."""
    assert set(_in_function(f"x = {line}")) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    (
        ("return a", {"return a -> return None"}),
        ("return None", set()),
        ("raise a", {"raise a -> pass"}),
        ("f(a)", {"f(a) -> pass"}),
        ("a += b", {"a += b -> pass", "a += b -> a -= b"}),
        ("if a: f = b", {"a -> False", "a -> True"}),
        # A condition that is always true would only ever run into the time limit.
        ("while a: f = b", {"a -> False"}),
        ("while a: break", {"a -> False", "break -> pass"}),
        # The words of a refusal are for people; its reason is not.
        ("raise Refused(Access.READ, f'{a} is wrong')", {
            "raise Refused(Access.READ, f'{a} is wrong') -> pass", "Access.READ -> Access.WRITE",
        }),
        ("'a docstring'", set()),
        ("x: Literal['r'] = a", set()),
    ),
)  # fmt: skip
def test_each_slip_of_a_statement_is_tried(line: str, expected: set[str]) -> None:
    """A raise that can be removed unnoticed is a check that is not there."""
    assert set(_in_function(line)) == expected


@pytest.mark.parametrize(
    ("source", "at_import"),
    (
        ("LIMIT = 3", True),
        ("class A:\n    limit = 3", True),
        # A default is computed when the function is defined.
        ("def f(a=3): pass", True),
        ("def f():\n    return (3)", False),
    ),
)
def test_what_runs_at_import_is_known(source: str, *, at_import: bool) -> None:
    """Exchanging a function's code does not change what was computed before: the mutant would seem to survive."""
    mutants = [each for each in mutants_of("a.py", source, ast.parse(source), ENUMS) if each.change == "3 -> 4"]
    assert [mutant.at_import for mutant in mutants] == [at_import]


def test_declarations_for_tools_are_left_alone() -> None:
    """Mutants of what is no behaviour would be equivalents without end."""
    source = (
        '"""Doc."""\n'
        "if TYPE_CHECKING:\n    from a import b\n"
        "Check = Callable[[str, int], bool]\n"
        "class A(Struct, frozen=True):\n"
        "    '''Doc.'''\n"
        "    __slots__ = ('a', 'b')\n"
        "    x: Annotated[int, 3]\n"
        "    '''Doc of x.'''\n"
        "    @wraps('x')\n"
        "    def f(self, a: Literal['r']) -> Literal['s']: '''Doc.'''\n"
    )
    assert _changes(source) == []


def test_of_a_long_line_only_the_difference_is_shown() -> None:
    """A list of a hundred words, shown twice, hides the one that is gone."""
    words = " ".join(f"word{number:03}" for number in range(100))
    change = _changes(f"A = {words!r}.split()")[50]
    assert "word050" in change.partition(" -> ")[0]
    assert "word050" not in change.partition(" -> ")[2]
    assert len(change) < 250


def test_a_mutant_is_found_by_the_lines_of_its_own_statement() -> None:
    """Tests that run only the body of an `if` say nothing about its condition, and the other way round."""
    source = "def f(a):\n    if (\n        a == 1\n    ):\n        return 2\n    return 3\n"
    lines = {mutant.change: mutant.lines for mutant in mutants_of("a.py", source, ast.parse(source), ENUMS)}
    assert lines["1 -> 2"] == range(2, 5)
    assert lines["2 -> 3"] == range(5, 6)
    assert lines["3 -> 4"] == range(6, 7)


def test_every_mutant_compiles() -> None:
    """A mutant that is no Python would stop the whole run."""
    source = Path(operators.__file__).read_text()
    tree = ast.parse(source)
    mutants = list(mutants_of("a.py", source, tree, ENUMS))
    assert len(mutants) > 200
    for mutant in mutants[::7]:
        place = getattr(mutant.parent, mutant.field)
        before = place if mutant.index is None else place[mutant.index]
        assert mutant.compile(tree, "a.py").co_filename == "a.py"
        # Compiling changes the tree.
        if mutant.index is None:
            setattr(mutant.parent, mutant.field, before)
        else:
            place[mutant.index] = before
    assert ast.dump(tree) == ast.dump(ast.parse(source))


def test_the_members_of_enums_are_known() -> None:
    """A decision that returns the wrong member is the likeliest slip of all."""
    source = "class A(enum.Enum):\n    X = 1\n    _Y = 2\n    def f(self): pass\n    Z = 3\nclass B:\n    X = 1\n"
    assert enums_of(ast.parse(source)) == {"A": ["X", "Z"]}
