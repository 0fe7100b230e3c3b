"""Say what is wrong, where, since when, and what to do about it: one value for all that tell an operator."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from signproxy.errors import Finding


class Urgency(Enum):
    """How bad it is, the worst first."""

    WRONG = "wrong"
    """Requests are refused because of it, or proof is missing; a start or a reload with it fails."""
    LOOK = "look"
    """Something will be wrong, or was."""


class Diagnosis(msgspec.Struct, frozen=True):
    """One thing that is wrong, or that was looked at and is well."""

    what: str
    """Empty where all is well."""
    remedy: str = ""
    weight: Urgency = Urgency.WRONG
    where: tuple[str, ...] = ()
    """From the outside in: a file and a path in it, or a check."""
    workers: tuple[int, ...] = ()
    """Those that it is true of; none where it is about the server as a whole."""
    since: str = ""
    """In words that end the sentence."""
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it as a sentence: `policy.yaml: grants[4].role: no role 'x'`, `audit: disk full (workers 1, 2)`."""
        workers = f"({numbered(self.workers)})" if self.workers else ""
        return " ".join(filter(None, (": ".join(filter(None, (*self.where, self.what))), self.since, workers)))

    def line(self, *, detail: bool) -> str:
        """Return it as a line of a probe: `worker 1 audit: disk full`, or `worker 1 audit: failing` without detail."""
        outcome = (self.what if detail else "failing") if self.what else "ok"
        workers = f"{numbered(self.workers)} " if self.workers else ""
        return f"{workers}{': '.join((*self.where, outcome))}"


def diagnosed(findings: Iterable[Finding]) -> Iterable[Diagnosis]:
    """Return the faults that were found in an operator's files."""
    return (Diagnosis(found.problem, where=(found.file, found.path)) for found in findings)


def advised(path: str, what: str, file: str = "") -> Diagnosis:
    """Return what works all the same, and is worth a word, at a path in an operator's file."""
    return Diagnosis(what, weight=Urgency.LOOK, where=(file, path))


def worst_first(diagnoses: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Return diagnoses in the order of their weight."""
    return tuple(sorted(diagnoses, key=lambda each: list(Urgency).index(each.weight)))


def joined(diagnoses: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Return what is the same of several workers once, of all of them."""
    whose: dict[Diagnosis, tuple[int, ...]] = {}
    for each in diagnoses:
        alike = msgspec.structs.replace(each, workers=())
        whose[alike] = (*whose.get(alike, ()), *each.workers)
    return tuple(msgspec.structs.replace(each, workers=workers) for each, workers in whose.items())


def numbered(workers: Iterable[int]) -> str:
    """Return workers as people say it: `worker 0`, `workers 0, 2`."""
    numbers = sorted(workers)
    return f"worker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
