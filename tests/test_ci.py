"""Prove that the gate in front of every commit closes when it should."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PASSED = "=== 12 passed, 3 deselected in 1.23s ==="


def _ci(directory: Path, **suites: str) -> tuple[int, str]:
    """Run the gate with a `make` that does, per target, what the case says."""
    lines = [f'if [ "$1" = {name.replace("_", "-")} ]; then {body}; fi' for name, body in suites.items()]
    make = directory / "make"
    make.write_text("#!/bin/sh\n" + "\n".join(lines) + "\nexit 3\n")
    make.chmod(0o755)
    done = subprocess.run(
        ["bash", str(REPOSITORY / ".ci" / "run")],
        env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    return done.returncode, done.stdout


def _says(line: str, status: int = 0) -> str:
    return f"echo '{line}'; exit {status}"


GOOD = {
    "test": _says(PASSED),
    "e2e_ci": _says(PASSED),
    "mutants_changed": _says("95.0 % of 20 mutants killed"),
    "instructions": _says("instructions of HEAD~1, times: sign 1.0000"),
}


def test_a_good_commit_passes(tmp_path: Path) -> None:
    """The closing lines are all that is read of a run that passed."""
    status, output = _ci(tmp_path, **GOOD)
    assert status == 0, output
    assert [line.split()[:5] for line in output.partition("== result\n")[2].splitlines()] == [
        ["test", "0.0", "min", "ok", "==="],
        ["e2e-ci", "0.0", "min", "ok", "==="],
        ["mutants-changed", "0.0", "min", "ok", "95.0"],
        ["instructions", "0.0", "min", "ok", "instructions"],
    ]


@pytest.mark.parametrize(
    ("suite", "body"),
    (
        ("test", _says("=== 1 failed, 11 passed in 1.23s ===", 1)),
        # A lint that fails runs no tests at all.
        ("test", _says("Found 1 error.", 2)),
        ("e2e_ci", _says("=== 1 error in 1.23s ===", 1)),
        # A store that is missing must not turn a proof into a skip.
        ("e2e_ci", _says("=== 11 passed, 1 skipped in 1.23s ===")),
        ("e2e_ci", _says("=== 11 passed, 1 xfailed in 1.23s ===")),
        # Everything was deselected, or nothing was run.
        ("e2e_ci", _says("=== 12 deselected in 1.23s ===")),
        ("e2e_ci", _says("nothing to be done")),
        ("mutants_changed", _says("80.0 % of 20 mutants killed", 1)),
        ("mutants_changed", "exit 137"),
        # Each way of a request is held; one that cannot be counted is no pass.
        ("instructions", _says("instructions of HEAD~1, times: sign 1.0200", 1)),
        ("instructions", _says("instructions could not be counted: valgrind is missing", 2)),
    ),
)
def test_each_failure_fails_the_whole(tmp_path: Path, suite: str, body: str) -> None:
    """A gate that reports a failure and lets it pass is worse than none."""
    status, output = _ci(tmp_path, **(GOOD | {suite: body}))
    assert status == 1, output
    closing = output.partition("== result\n")[2].splitlines()
    assert [line.split()[0] for line in closing if "FAILED" in line] == [suite.replace("_", "-")]
    # The others ran all the same: one run tells everything.
    assert len(closing) == len(GOOD)


def test_a_target_that_is_gone_fails(tmp_path: Path) -> None:
    """A renamed suite would otherwise never run again."""
    without = {name: body for name, body in GOOD.items() if name != "e2e_ci"}
    status, output = _ci(tmp_path, **without)
    assert status == 1, output


@pytest.mark.parametrize("target", GOOD)
def test_every_suite_is_a_target(target: str) -> None:
    """A suite without a target fails, and one that is only a target is never run."""
    targets = re.findall(r"^([a-z0-9-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert target.replace("_", "-") in targets
