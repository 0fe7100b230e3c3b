"""Gather what is wrong with a policy, so that an operator sees more than the first fault."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from signproxy.documents import MAX_FINDINGS
from signproxy.errors import Finding, PolicyInvalid, nearest

MAX_COMPARED = 2_000
"""Names that a misspelt one is compared with: some 10 ms; a namespace may hold a million."""


class EntryInvalid(ValueError):
    """An entry cannot be used: where in it, and why."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key = key
        self.problem = problem


class Findings:
    """The faults so far; the last one that is taken ends the work."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def add(self, file: str, path: str, problem: str) -> None:
        """Take a fault. Raise PolicyInvalid once there are MAX_FINDINGS."""
        self.extend([Finding(file, path, problem)])

    def extend(self, findings: Iterable[Finding]) -> None:
        """Take several faults. Raise PolicyInvalid once there are MAX_FINDINGS."""
        for finding in findings:
            self._found.append(finding)
            if len(self._found) >= MAX_FINDINGS:
                self.check()

    def of(self, file: str, path: str) -> _Entry:
        """Return the context in which an entry is used: EntryInvalid is taken for a fault at this place."""
        return _Entry(self, file, path)

    def check(self) -> None:
        """Raise PolicyInvalid if there is any fault: nothing of a policy with a fault takes effect."""
        if self._found:
            raise PolicyInvalid(self._found)


class _Entry:
    """A place in a file. A class of its own: of a million entries each has one."""

    __slots__ = ("_file", "_findings", "_path")

    def __init__(self, findings: Findings, file: str, path: str) -> None:
        self._findings = findings
        self._file = file
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, fault: BaseException | None, __: object) -> bool:
        if not isinstance(fault, EntryInvalid):
            return False
        self._findings.add(self._file, ".".join(filter(None, (self._path, fault.key))), fault.problem)
        return True


def near(name: str, known: Collection[str]) -> str:
    """Return ` (did you mean 'x'?)`, or nothing where no name is near or there are too many to compare."""
    return nearest(name, known) if len(known) <= MAX_COMPARED else ""
