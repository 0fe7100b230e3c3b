"""Say how an expression or statement may be changed: one mutant per slip that a programmer could make."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from enum import Enum
from typing import TypeVar

Enums = dict[str, list[str]]


class Role(Enum):
    """What a node is to what surrounds it."""

    PLAIN = "plain"
    CONDITION = "condition"
    LOOP = "loop"
    """The condition of a loop: always true would only ever run into the time limit."""
    FOR_PEOPLE = "for people"
    """Inside of what is raised: its strings are read by people, and tests leave their wording free."""


_NodeT = TypeVar("_NodeT", bound=ast.AST)
_ItemT = TypeVar("_ItemT")

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    # The boundary, and the opposite.
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_PAIRS = (
    ("startswith", "endswith"), ("lower", "upper"), ("removeprefix", "removesuffix"), ("find", "rfind"),
    ("partition", "rpartition"), ("any", "all"), ("min", "max"), ("bisect_left", "bisect_right"),
)  # fmt: skip
_SIBLINGS = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])} | {
    "fullmatch": "match", "match": "search", "strip": "lstrip", "sorted": "list", "setdefault": "get",
}  # fmt: skip
_QUANTIFIER = re.compile(r"(?<!\\)[+*](?![^\[]*\])|(?<=[{,])\d+(?=[},])")


def variants(node: ast.AST, enums: Enums, role: Role) -> Iterator[ast.AST]:  # noqa: C901, PLR0912  (a table of nodes)
    """Yield what a node may be changed into."""
    if role in {Role.CONDITION, Role.LOOP}:
        yield ast.Constant(value=False)
    if role is Role.CONDITION:
        yield ast.Constant(value=True)
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                for other in _COMPARISONS[type(operator)]:
                    yield _with(node, ops=[*node.ops[:index], other(), *node.ops[index + 1 :]])
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            fewer = _one_less(node, "values")
            yield from fewer if len(node.values) > 2 else node.values
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp():
            if (swapped := _ARITHMETIC.get(type(node.op))) and not _is_text(node.left) and not _is_text(node.right):
                yield _with(node, op=swapped())
        case ast.AugAssign():
            yield ast.Pass()
            if swapped := _ARITHMETIC.get(type(node.op)):
                yield _with(node, op=swapped())
        case ast.Constant():
            yield from _constants(node.value, role)
        case ast.comprehension():
            yield from (_with(node, ifs=_without(node.ifs, index)) for index in range(len(node.ifs)))
        case ast.match_case(guard=ast.expr()):
            yield _with(node, guard=ast.Constant(value=True))
        case ast.Return(value=ast.expr()) if ast.unparse(node.value or node) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Delete() | ast.Expr() | ast.Break():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Slice():
            yield from (_with(node, **{bound: None}) for bound in ("lower", "upper", "step") if getattr(node, bound))
        case ast.Attribute(value=ast.Name(id=name)) if name in enums and node.attr in enums[name]:
            members = enums[name]
            yield _with(node, attr=members[(members.index(node.attr) + 1) % len(members)])
        case ast.Call():
            yield from _calls(node)
        case ast.Set() | ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()):
            yield from _one_less(node, "elts")
        case ast.Dict():
            for index in range(len(node.keys)):
                yield _with(node, keys=_without(node.keys, index), values=_without(node.values, index))
        case _:
            pass


def _constants(value: object, role: Role) -> Iterator[ast.AST]:
    match value:
        case bool():
            yield ast.Constant(not value)
        case int() | float():
            yield ast.Constant(value + 1)
        # Python reads a codec's name generously: most changes of it change nothing.
        case str() if role is not Role.FOR_PEOPLE and value not in {"utf-8", "ascii", "latin-1"}:
            yield ast.Constant(value + "<" if value.strip() else "<")
        case bytes() if role is not Role.FOR_PEOPLE:
            yield ast.Constant(value + b"<")


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    """Yield calls of a sibling, calls without one keyword, word lists without one word, and weaker patterns."""
    match node.func:
        case ast.Name(id=name) if name in _SIBLINGS:
            yield _with(node, func=ast.Name(_SIBLINGS[name], ast.Load()))
        case ast.Attribute(attr=name) if name in _SIBLINGS:
            yield _with(node, func=_with(node.func, attr=_SIBLINGS[name]))
        case ast.Attribute(value=ast.Constant(value=str(text)), attr="split") if not node.args:
            words = text.split()
            for index in range(len(words)):
                yield _with(node, func=_with(node.func, value=ast.Constant(" ".join(_without(words, index)))))
        case ast.Attribute(attr="compile") if node.args and isinstance(node.args[0], ast.Constant):
            pattern = node.args[0].value
            if isinstance(pattern, str):
                for found in _QUANTIFIER.finditer(pattern):
                    other = {"+": "*", "*": "+"}.get(found[0]) or str(int(found[0]) + 1)
                    weaker = pattern[: found.start()] + other + pattern[found.end() :]
                    yield _with(node, args=[ast.Constant(weaker), *node.args[1:]])
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            yield _with(node, keywords=_without(node.keywords, index))


def _one_less(node: _NodeT, field: str) -> Iterator[_NodeT]:
    items = getattr(node, field)
    if len(items) > 1:
        yield from (_with(node, **{field: _without(items, index)}) for index in range(len(items)))


def _is_text(node: ast.AST) -> bool:
    """Say whether a difference with it could only be a TypeError."""
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _with(node: _NodeT, **fields: object) -> _NodeT:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _without(items: list[_ItemT], index: int) -> list[_ItemT]:
    return [*items[:index], *items[index + 1 :]]
