"""Read what stands below each field of a class: the words of the pages about it."""

from __future__ import annotations

import ast
import inspect


def docstrings(line: type) -> dict[str, str]:
    """Return the text below each field in its class, by the field's name, in one line."""
    (definition,) = ast.parse(inspect.getsource(line)).body
    found: dict[str, str] = {}
    name = ""
    for statement in getattr(definition, "body", ()):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=field)):
                name = field
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                found[name] = " ".join(text.split())
                name = ""
            case _:
                name = ""
    return found
