"""Refer to a token without ever showing it: by the variable that holds it, or by the file."""

from __future__ import annotations

import re
import shlex

import msgspec

from signproxy.errors import Finding, Invalid

DEFAULT_VARIABLE = "SIGNPROXY_TOKEN"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TokenSource(msgspec.Struct, frozen=True):
    """Where the client finds its token."""

    file: str = ""
    """A file that holds it; empty: the variable does."""
    variable: str = DEFAULT_VARIABLE

    def __post_init__(self) -> None:
        if not _VARIABLE.fullmatch(self.variable):
            raise Invalid([Finding("command line", "--token-variable", f"{self.variable!r} is no name of a variable")])
        if not self.file.isprintable():
            raise Invalid([Finding("command line", "--token-file", f"{self.file!r} is no name that can be printed")])

    @property
    def for_iceberg(self) -> str:
        """What Iceberg Java's REST catalog replaces by the variable's value."""
        return f"env:{self.variable}"

    @property
    def for_python(self) -> str:
        """The expression that reads it."""
        return f"Path({self.file!r}).read_text().strip()" if self.file else f"os.environ[{self.variable!r}]"

    @property
    def module(self) -> str:
        """The line that this expression needs before it."""
        return "from pathlib import Path" if self.file else "import os"

    def exported(self, variable: str) -> str:
        """Return the line of a shell that puts it into a variable; empty where it is there already."""
        if self.file:
            return f'export {variable}="$(cat {shlex.quote(self.file)})"'
        return "" if variable == self.variable else f'export {variable}="${self.variable}"'
