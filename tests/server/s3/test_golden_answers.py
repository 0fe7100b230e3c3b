"""What an S3 client reads of each refusal stands word for word in `answers.golden`: SDKs and scripts match it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from signproxy.errors import Reason
from signproxy.s3.codes import s3_code
from signproxy.s3.faults import Fault, S3Code

GOLDEN = Path(__file__).with_name("answers.golden")


def line(name: str, said: S3Code) -> str:
    elements = ", ".join(map(repr, said.elements))
    return " | ".join(filter(None, (name, f"{said.status} {said.code}".strip(), said.message, elements)))


def lines() -> Iterator[str]:
    yield from (line(reason.code, s3_code(reason)) for reason in Reason)
    yield from (line(fault.name, fault.value) for fault in Fault)


def test_what_clients_read_changes_on_purpose_alone() -> None:
    """A program that waits for `SlowDown`, or looks for a word of S3's, would take a refusal for another one.

    An answer that is changed on purpose is changed in its line, too; each reason has one, and each fault.
    """
    assert list(lines()) == GOLDEN.read_text().splitlines()
