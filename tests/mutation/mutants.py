"""List the mutants of a module: what is changed, where, and which lines a test must run to notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import CodeType

from tests.mutation.operators import Enums, Role, variants

# Not behaviour: types, what makes a class a Struct or an enum, and how a function is wrapped.
_NOT_BEHAVIOUR = {"annotation", "returns", "decorator_list", "bases", "keywords", "type_params"}
_DECLARATIONS = {"__slots__", "__all__", "__match_args__"}
_ENUM_BASES = {"Enum", "IntEnum", "IntFlag", "Flag", "StrEnum"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LONG = 160
MODULE = "<module>"


@dataclass(frozen=True, slots=True)
class Unit:
    """What is compared between two revisions, and what a mutant is found in: a function, or a statement outside one."""

    name: str
    """The dotted name of the function or class; `<module>` outside both."""
    node: ast.stmt

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, _FUNCTIONS)

    @property
    def first_line(self) -> int:
        """The line that Python calls a function's first: its decorator's, if it has one."""
        decorators = self.node.decorator_list if isinstance(self.node, _FUNCTIONS) else []
        return min([self.node.lineno, *(each.lineno for each in decorators)])


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    path: str
    unit: Unit
    line: int
    text: str
    """The line as it stands."""
    change: str
    """`before -> after`."""
    lines: range
    """The lines of the statement that is changed; a test that runs none of them cannot notice."""
    at_import: bool
    """The changed code runs when the module is imported, not when the function is called."""
    parent: ast.AST
    field: str
    index: int | None
    changed: ast.AST

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names the mutant in the list of equivalents; a line number would age with every edit."""
        return (self.path, self.unit.name, self.text, self.change)

    def compile(self, tree: ast.Module, filename: str) -> CodeType:
        """Compile the module with the change in it. `tree` is left changed: call this in a process of its own."""
        if self.index is None:
            setattr(self.parent, self.field, self.changed)
        else:
            getattr(self.parent, self.field)[self.index] = self.changed
        return compile(ast.fix_missing_locations(tree), filename, "exec", dont_inherit=True)


def units_of(tree: ast.Module) -> Iterator[Unit]:
    """Yield the functions, and the statements outside functions, of a module."""
    yield from _units(tree.body, "")


def _units(body: list[ast.stmt], prefix: str) -> Iterator[Unit]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _units(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, _FUNCTIONS):
            yield Unit(prefix + node.name, node)
        else:
            yield Unit(prefix.removesuffix(".") or MODULE, node)


def enums_of(tree: ast.Module) -> Enums:
    """Return the members of the enums that a module declares, by class name."""
    return {
        node.name: [name for item in node.body for name in _assigned(item) if not name.startswith("_")]
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and _ENUM_BASES & {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    }


def _assigned(node: ast.stmt) -> list[str]:
    return (
        [target.id for target in node.targets if isinstance(target, ast.Name)] if isinstance(node, ast.Assign) else []
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the walk is."""

    lines: range
    at_import: bool
    for_people: bool = False
    """Inside of what is raised: its strings are read by people, and tests leave their wording free."""


def mutants_of(path: str, source: str, tree: ast.Module, enums: Enums) -> Iterator[Mutant]:
    """Yield every mutant of a module, in the order of the source."""
    text = source.splitlines()
    for unit in units_of(tree):
        if _is_docstring(unit.node) or _is_for_types(unit.node) or _DECLARATIONS & set(_assigned(unit.node)):
            continue
        # The unit itself stays; what is changed lies inside it.
        for parent, field, index, node, place in _walk(unit.node, _Place(_header(unit.node), not unit.is_function)):
            for changed in variants(node, enums, _role(parent, field, place)):
                before, after = ast.unparse(node), ast.unparse(ast.fix_missing_locations(changed))
                if before != after:
                    line = getattr(node, "lineno", place.lines.start)
                    change = _shown(before.strip(), after.strip())
                    yield Mutant(
                        path, unit, line, text[line - 1].strip(), change, place.lines, place.at_import,
                        parent, field, index, changed,
                    )  # fmt: skip


_Site = tuple[ast.AST, str, int | None, ast.AST, _Place]


def _walk(node: ast.AST, place: _Place) -> Iterator[_Site]:
    for field, value in ast.iter_fields(node):
        if field in _NOT_BEHAVIOUR and not isinstance(node, ast.Call):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(child, ast.AST) and not _is_docstring(child):
                inner = _enter(child, place)
                yield node, field, index, child, inner
                yield from _walk(child, inner)


def _role(parent: ast.AST, field: str, place: _Place) -> Role:
    if field == "test" and isinstance(parent, ast.If | ast.IfExp):
        return Role.CONDITION
    if field == "test" and isinstance(parent, ast.While):
        return Role.LOOP
    return Role.FOR_PEOPLE if place.for_people else Role.PLAIN


def _enter(node: ast.AST, place: _Place) -> _Place:
    if isinstance(node, ast.arguments) and not place.at_import:
        # A default is computed when the function is defined.
        place = replace(place, at_import=True)
    if isinstance(node, ast.stmt):
        place = replace(place, lines=_header(node))
    if isinstance(node, ast.Raise) or (
        isinstance(node, ast.Call) and ast.unparse(node.func) in {"Refused", "Deny", "Finding"}
    ):
        place = replace(place, for_people=True)
    return place


def _header(node: ast.stmt) -> range:
    """Return the lines of a statement without the statements that it holds."""
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    last = node.end_lineno or node.lineno
    if body:
        first = body[0].pattern.lineno if isinstance(node, ast.Match) else body[0].lineno
        last = max(node.lineno, first - 1)
    return range(node.lineno, last + 1)


def _is_for_types(node: ast.stmt) -> bool:
    """Say whether a statement is `if TYPE_CHECKING`, or gives a type another name."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
        return ast.unparse(node.value.value) in {"Callable", "dict", "frozenset", "list", "set", "tuple"}
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _shown(before: str, after: str) -> str:
    """Return `before -> after`; of long texts, where they part."""
    if len(before) + len(after) > _LONG:
        pairs = enumerate(zip(before, after, strict=False))
        same = next((index for index, (one, other) in pairs if one != other), min(len(before), len(after)))
        start = max(0, same - _LONG // 4)
        before, after = (f"…{each[start : same + _LONG // 4]}…" for each in (before, after))
    return f"{before} -> {after}"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
