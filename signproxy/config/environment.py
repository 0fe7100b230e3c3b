"""Turn `SIGNPROXY__SECTION__KEY` variables and `section.key` flags into assignments to a settings document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import inspect

from signproxy.config.paths import bare
from signproxy.documents import described, load_yaml, path_of
from signproxy.errors import DocumentInvalid, Finding, nearest

PREFIX = "SIGNPROXY__"
ENVIRONMENT = "environment"
COMMAND_LINE = "command line"


class Assignment(NamedTuple):
    """One value for one key, and where it was given."""

    source: str
    name: str
    keys: tuple[str, ...]
    value: object

    @property
    def path(self) -> str:
        return path_of(*self.keys)

    def covers(self, path: str) -> bool:
        """Whether what stands at the path came with this assignment."""
        return path == self.path or path.startswith((f"{self.path}.", f"{self.path}["))

    def apply(self, document: dict[str, object]) -> None:
        """Set the value in the document; a section that is no mapping is replaced."""
        here = document
        for key in self.keys[:-1]:
            below = here.get(key)
            if not isinstance(below, dict):
                below = here[key] = {}
            here = below
        here[self.keys[-1]] = self.value


def assignments_of(
    kind: object, document: Mapping[str, object], environ: Mapping[str, str], overrides: Mapping[str, str]
) -> list[Assignment]:
    """Return the assignments of environment and flags, in the order in which they take effect.

    Names that the file already uses (of an issuer, a storage) are found whatever their case, and with `_` for
    other signs. Raise DocumentInvalid for every variable and flag that is no setting.
    """
    root = described(kind)
    assignments: list[Assignment] = []
    findings: list[Finding] = []
    named = [(ENVIRONMENT, name, environ[name]) for name in sorted(environ) if name.startswith(PREFIX)]
    named += [(COMMAND_LINE, name, value) for name, value in overrides.items()]
    for source, name, text in named:
        words = name.removeprefix(PREFIX).split("__") if source == ENVIRONMENT else name.split(".")
        try:
            assignments.append(_assign(root, document, source, name, words, text))
        except DocumentInvalid as error:
            findings += [Finding(source, name, finding.problem) for finding in error.findings]
    given: dict[tuple[str, tuple[str, ...]], str] = {}
    for assignment in assignments:
        first = given.setdefault((assignment.source, assignment.keys), assignment.name)
        if first != assignment.name:
            findings.append(Finding(assignment.source, assignment.name, f"sets the same as {first}"))
    if findings:
        raise DocumentInvalid(findings)
    return assignments


def _assign(
    root: inspect.Type, document: Mapping[str, object], source: str, name: str, words: list[str], text: str
) -> Assignment:
    kind, here = root, dict(document)
    keys: list[str] = []
    for word in words:
        match bare(kind):
            case inspect.StructType(fields=fields):
                known = {field.encode_name: field.type for field in fields}
                key = word.lower()
                if key not in known:
                    raise _unknown(keys, key, known)
                kind = known[key]
            case inspect.DictType(value_type=value_type):
                key = _known_name(word, here)
                kind = value_type
            case _:
                raise _fault(f"{'.'.join(keys)} has no keys")
        keys.append(key)
        below = here.get(key)
        here = below if isinstance(below, dict) else {}
    if isinstance(bare(kind), inspect.StructType):
        raise _fault(f"{'.'.join(keys)} is a section; name one of its keys")
    return Assignment(source, name, tuple(keys), _value(bare(kind), text))


def _value(kind: inspect.Type, text: str) -> object:
    """Read the text of a variable as its setting wants it; `decode` has the last word."""
    if isinstance(kind, inspect.StrType | inspect.EnumType):
        return text
    members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    arrays = [bare(member) for member in members]
    array = next((member for member in arrays if isinstance(member, inspect.VarTupleType)), None)
    if array is not None and not text.lstrip().startswith("["):
        items = [item.strip() for item in text.split(",") if item.strip()]
        match bare(array.item_type):
            case inspect.StructType():
                return text
            case inspect.IntType():
                return [load_yaml(item, "") for item in items]
            case _:
                return items
    return load_yaml(text, "") if text else None


def _known_name(word: str, here: Mapping[str, object]) -> str:
    """Return the name in the file that a variable means; variables have no lower case and no dashes."""
    if word in here:
        return word
    return next((name for name in here if _folded(name) == _folded(word)), word.lower())


def _folded(name: str) -> str:
    return "".join(sign if sign.isalnum() else "_" for sign in name.lower())


def _unknown(keys: Iterable[str], key: str, known: Iterable[str]) -> DocumentInvalid:
    names = list(known)
    hint = nearest(key, names) or f"; known keys: {', '.join(names)}"
    return _fault(f"unknown setting {'.'.join((*keys, key))!r}{hint}")


def _fault(problem: str) -> DocumentInvalid:
    return DocumentInvalid([Finding("", "", problem)])
