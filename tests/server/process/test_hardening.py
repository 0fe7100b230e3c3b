"""The process keeps what it holds from other processes of its own user, and out of core files."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import subprocess
import sys

import pytest

from signproxy.server.process import process_setup
from signproxy.server.process.process_setup import harden
from signproxy.telemetry import log

# As root, both processes become a user that the kernel refuses something. A process that changes its user cannot be
# looked into anyway, so the first look is made possible again: that is what every normal start is like.
SPY = """
import json, os, pathlib, sys
from signproxy.server.process.process_setup import _prctl, _Prctl, harden

def be_nobody():
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

def look(pid):
    seen = {}
    for name in ("environ", "maps", "mem", "auxv", "fd/0", "cwd"):
        try:
            path = f"/proc/{pid}/{name}"
            if name in ("fd/0", "cwd"):
                os.readlink(path)
            else:
                with open(path, "rb") as file:
                    seen[name] = "SECRET" in file.read().decode("latin-1") if name == "environ" else True
                    continue
            seen[name] = True
        except OSError as error:
            seen[name] = error.errno
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
    core = next(line for line in limits.splitlines() if "core file" in line).split()[4:6]
    return {"seen": seen, "NoNewPrivs": status["NoNewPrivs"].strip(), "core": core}

import ctypes, resource  # before, for the interpreter may lie where only root can read

to_spy, from_victim = os.pipe()
to_victim, from_spy = os.pipe()
victim = os.fork()
if victim == 0:
    os.close(to_spy)
    os.close(from_spy)
    be_nobody()
    _prctl(_Prctl.SET_DUMPABLE, 1)
    os.write(from_victim, b"!")
    os.read(to_victim, 1)
    harden()
    os.write(from_victim, b"!")
    os.read(to_victim, 1)
    os._exit(0)
os.close(from_victim)
os.close(to_victim)
be_nobody()
os.read(to_spy, 1)
before = look(victim)
os.write(from_spy, b"!")
os.read(to_spy, 1)
after = look(victim)
os.write(from_spy, b"!")
os.waitpid(victim, 0)
print(json.dumps([before, after]))
"""


def test_others_of_the_same_user_see_nothing() -> None:
    """In a pod that shares processes, an engine's user code would read the keys out of the memory."""
    done = subprocess.run(
        [sys.executable, "-c", SPY],
        env={**os.environ, "LAKE_SECRET": "SECRET"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    before, after = json.loads(done.stdout)
    # Else the test would show nothing: without it, everything is open.
    assert before["seen"]["environ"] is True
    assert before["NoNewPrivs"] == "0"
    refused = (errno.EACCES, errno.EPERM)
    assert all(seen in refused for seen in after["seen"].values()), after
    assert len(after["seen"]) == 6
    assert after["NoNewPrivs"] == "1"
    assert after["core"] == ["0", "0"]


def test_what_a_sandbox_refuses_is_told_and_not_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container runtime that allows less would keep signproxy from starting; or run unhardened without a word."""

    def refuse(*_arguments: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(process_setup, "_prctl", lambda _option, _value: errno.EPERM)
    stream = io.StringIO()
    log.configure(stream=stream)
    try:
        harden()
    finally:
        log.configure()
    told = stream.getvalue()
    assert told.count("process not hardened") == 3
    assert "core files cannot be switched off: not allowed to raise maximum limit" in told
    assert "others of this user may read the memory of the process: Operation not permitted" in told
    assert "what the process starts may gain rights: Operation not permitted" in told


def test_a_start_stays_light() -> None:
    """Each command would pay for a foreign-function interface that one of them uses."""
    code = "import signproxy.server.process.process_setup, sys; sys.exit('ctypes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
