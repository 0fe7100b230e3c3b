"""Find what a module refers to when it runs, through every name that its imports give to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Names = Mapping[str, frozenset[str]]
"""What each name of a module was imported as: a dotted name, or several where branches differ."""

_CHECKING = frozenset({"typing.TYPE_CHECKING"})


class Found(NamedTuple):
    """A dotted name that was found, and how it stands there."""

    name: str
    is_import: bool
    is_method: bool = False
    """Whether it is only the last name of an attribute, or a text that is one: whose, is not known."""


def imported_names(tree: ast.AST, module: str = "") -> Names:
    """Return what the imports of a module bind, wherever they stand. `module` is its own dotted name."""
    names: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                names.setdefault(alias.asname or root, set()).add(alias.name if alias.asname else root)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names.setdefault(alias.asname or alias.name, set()).add(f"{_source(node, module)}.{alias.name}")
    return {name: frozenset(targets) for name, targets in names.items()}


def references(tree: ast.AST, modules: Mapping[str, Names] | None = None, module: str = "") -> set[Found]:
    """Return what a module refers to, but for annotations and what only a type checker reads.

    `modules` are those of the same project by their dotted names: what they import is followed.
    """
    return set(_Reader(imported_names(tree, module), modules or {}, module).found_in(tree))


class _Reader:
    def __init__(self, names: Names, modules: Mapping[str, Names], module: str) -> None:
        self._names = names
        self._modules = modules
        self._module = module

    def found_in(self, node: ast.AST) -> Iterator[Found]:
        match node:
            case ast.Import():
                for alias in node.names:
                    yield from self._followed(alias.name, is_import=True)
            case ast.ImportFrom():
                for alias in node.names:
                    yield from self._followed(f"{_source(node, self._module)}.{alias.name}", is_import=True)
            case ast.Attribute() | ast.Name():
                yield from self._chain(node)
            case ast.Constant(value=str(text)):
                yield Found(text, is_import=False, is_method=True)
            case _:
                for child in self._that_run(node):
                    yield from self.found_in(child)
                if isinstance(node, ast.Call):
                    yield from _with_text(node)

    def _that_run(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the children of a node that do anything when the module runs."""
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING" as name)) if self._names.get(name) == _CHECKING:
                yield from node.orelse
            case ast.Expr(value=ast.Constant()):
                # A docstring.
                return
            case _:
                for field, value in ast.iter_fields(node):
                    if field not in ("annotation", "returns"):
                        yield from (each for each in _listed(value) if isinstance(each, ast.AST))

    def _chain(self, node: ast.Attribute | ast.Name) -> Iterator[Found]:
        attributes: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            attributes.insert(0, base.attr)
            base = base.value
        if not isinstance(base, ast.Name):
            yield from self.found_in(base)
        elif base.id in self._names:
            for target in self._names[base.id]:
                yield from self._followed(".".join((target, *attributes)), is_import=False)
            return
        else:
            # Of the module's own names only those of Python itself can be anything else than what was imported.
            yield Found(".".join(("builtins", base.id, *attributes)), is_import=False)
        if attributes:
            yield Found(attributes[-1], is_import=False, is_method=True)

    def _followed(self, name: str, *, is_import: bool) -> Iterator[Found]:
        """Yield what a name stands for, where another module of the project has it from elsewhere."""
        yield Found(name, is_import)
        parts = name.split(".")
        for end in range(len(parts) - 1, 0, -1):
            for target in self._modules.get(".".join(parts[:end]), {}).get(parts[end], ()):
                further = ".".join((target, *parts[end + 1 :]))
                # A package that has a function of the name of its module would be followed for ever.
                if not f"{further}.".startswith(f"{name}."):
                    yield from self._followed(further, is_import=is_import)


def _with_text(call: ast.Call) -> Iterator[Found]:
    first = call.args[0] if call.args else None
    if isinstance(call.func, ast.Attribute) and isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield Found(f"{call.func.attr}(text)", is_import=False, is_method=True)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _source(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".")[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])
