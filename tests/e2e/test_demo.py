"""What `make run` shows is what a reader sees first."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.stores import install

pytestmark = pytest.mark.ci


def _demo(*more: str, output: Path) -> subprocess.Popen[bytes]:
    path = f"{install.seaweedfs().parent}{os.pathsep}{os.environ['PATH']}"
    with output.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "signproxy", "demo", "--port", "0", *more],
            stdout=log,
            stderr=log,
            env={**os.environ, "PATH": path},
        )


def test_the_demo_shows_each_step_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A first impression that ends in a trace, or in a store that runs on, is the last one."""
    output = tmp_path / "log"
    assert _demo("--once", output=output).wait(120) == 0
    text = output.read_text()
    assert "-> 200 'id,amount\\n1,42'" in text
    assert text.count("-> 403 ") == 3
    assert "TABLE_WRITE_DATA is not granted" in text
    (directory,) = set(re.findall(r"audit trail in (\S+)", text))
    assert not Path(directory).exists()


def test_the_lines_to_paste_work_while_it_stays_up(tmp_path: Path) -> None:
    """A reader who pastes a line and gets an error does not come back."""
    output = tmp_path / "log"
    demo = _demo(output=output)
    try:
        deadline = time.monotonic() + 120
        while "Ctrl-C ends everything" not in output.read_text():
            assert demo.poll() is None, output.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        text = output.read_text()
        signed = re.findall(r"^ +(curl -H .*)$", text, re.MULTILINE)[0]
        asked = re.findall(r"^ +(curl -s -H .*\\\n.*)$", text, re.MULTILINE)[0].replace("\\\n", " ")
        assert subprocess.run(shlex.split(signed), capture_output=True, check=True).stdout == b"id,amount\n1,42\n"
        assert b'"Authorization"' in subprocess.run(shlex.split(asked), capture_output=True, check=True).stdout
    finally:
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0
