"""Turn plain values into typed ones, or name every fault."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from signproxy.documents.faults import faults
from signproxy.errors import DocumentInvalid, Finding

T = TypeVar("T")

MAX_FINDINGS = 50
"""More than anybody mends in one go; keeps the report of a file of the wrong kind short."""


def decode(kind: type[T], data: object, *, file: str, path: str = "") -> T:
    """Return plain values as `kind`, a msgspec Struct or a container of such.

    Unknown keys are faults in every Struct, whatever it declares. Raise DocumentInvalid with every fault, up to
    MAX_FINDINGS, each with its path and, for a misspelt name, the nearest known one. `path` is where `data` stands
    in the file.
    """
    findings: list[Finding] = []
    for where, problem in faults(kind, data, path):
        if len(findings) == MAX_FINDINGS:
            findings.append(Finding(file, "", f"more than {MAX_FINDINGS} faults; the rest is not listed"))
            break
        findings.append(Finding(file, where, problem))
    if findings:
        raise DocumentInvalid(findings)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        # What the walk does not know of msgspec's types; a refusal all the same.
        raise DocumentInvalid([Finding(file, path, str(error))]) from None
