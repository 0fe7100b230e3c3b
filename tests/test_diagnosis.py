"""How what is wrong is put into words: the same for `check-config`, probes and the status."""

from __future__ import annotations

import pytest

from signproxy.diagnosis import Diagnosis, Urgency, advised, diagnosed, joined, numbered, worst_first
from signproxy.errors import Finding

FULL = Diagnosis("disk full", "Free the volume.", where=("audit",), workers=(2, 1), since="since 08:00")


@pytest.mark.parametrize(
    ("diagnosis", "sentence"),
    (
        (Diagnosis("the certificate expires"), "the certificate expires"),
        (Diagnosis("the certificate expired", since="60 min ago"), "the certificate expired 60 min ago"),
        (Diagnosis("no role 'x'", where=("policy.yaml", "grants[4].role")), "policy.yaml: grants[4].role: no role 'x'"),
        # Of the command line there is no file, of an unreadable one no path.
        (Diagnosis("out of range", where=("", "workers")), "workers: out of range"),
        (Diagnosis("cannot be read", where=("policy.yaml", "")), "policy.yaml: cannot be read"),
        (FULL, "audit: disk full since 08:00 (workers 1, 2)"),
    ),
)
def test_a_sentence_says_where_what_since_when_and_of_whom(diagnosis: Diagnosis, sentence: str) -> None:
    """An operator would read the same fault in other words at each place and search for two."""
    assert str(diagnosis) == sentence


@pytest.mark.parametrize(
    ("diagnosis", "detail", "line"),
    (
        (Diagnosis("disk full", where=("audit",)), True, "audit: disk full"),
        (Diagnosis("disk full", where=("audit",), workers=(1,)), True, "worker 1 audit: disk full"),
        (Diagnosis("disk full", where=("audit",), workers=(1,)), False, "worker 1 audit: failing"),
        (Diagnosis("", where=("audit",)), True, "audit: ok"),
        (Diagnosis("", where=("audit",)), False, "audit: ok"),
    ),
)
def test_a_line_of_a_probe_tells_strangers_no_more_than_which_check_fails(
    diagnosis: Diagnosis, detail: bool, line: str
) -> None:
    """Errors name hosts, files and issuers, and every pod of the cluster can probe."""
    assert diagnosis.line(detail=detail) == line


def test_a_finding_is_a_diagnosis_of_its_place() -> None:
    """What a start refuses and what a check warns of would be told in two ways."""
    finding = Finding("signproxy.yaml", "listen.port", "is out of range")
    (fault,) = diagnosed([finding])
    warning = advised(finding.path, finding.problem, finding.file)
    assert str(fault) == str(warning) == str(finding) == "signproxy.yaml: listen.port: is out of range"
    assert (fault.weight, warning.weight) == (Urgency.WRONG, Urgency.LOOK)


def test_the_worst_is_first_and_what_is_as_bad_keeps_its_order() -> None:
    """The cause stands before what follows from it, and an operator reads from the top."""
    look, wrong, other = Diagnosis("a", weight=Urgency.LOOK), Diagnosis("b"), Diagnosis("c")
    assert worst_first([look, wrong, other]) == (wrong, other, look)


def test_what_several_workers_say_alike_is_told_once() -> None:
    """Eight workers with one full disk would be eight troubles, and the ninth is not seen."""
    full = [Diagnosis("disk full", where=("audit",), workers=(number,)) for number in (2, 0)]
    other = Diagnosis("not fetched yet", where=("token keys",), workers=(1,))
    server = Diagnosis("1 of 3 answer", where=("workers",))
    assert [str(each) for each in joined([server, full[0], other, full[1]])] == [
        "workers: 1 of 3 answer",
        "audit: disk full (workers 0, 2)",
        "token keys: not fetched yet (worker 1)",
    ]


def test_workers_are_named_as_people_do() -> None:
    """`workers 0` reads like a count."""
    assert [numbered(each) for each in ((0,), (2, 0, 1))] == ["worker 0", "workers 0, 1, 2"]
