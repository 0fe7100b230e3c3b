"""Hold how callgrind's files are read, and that its commands are found where nothing is installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.callgrind import Counting, libraries_of, read
from bench.process import BenchFailed
from tests.e2e.stores import debian
from tests.e2e.stores.install import PrerequisiteMissing

_FILE = """\
version: 1
creator: callgrind-3.19.0
positions: line
events: Ir

ob=(1) /usr/lib/libpython3.11.so.1.0
fl=(1) ceval.c
fn=(1) _PyEval_EvalFrameDefault
10 300
+2 40
cob=(3) /usr/lib/libcrypto.so.3
cfn=(2) aes
calls=7 0
* 5000
-1 60

ob=(3)
fn=(2)
0 100

ob=(1)
fn=(3) other
5 1
"""


def test_what_a_called_function_took_is_counted_once(tmp_path: Path) -> None:
    """Each level of a stack would count all that is below it once more."""
    path = tmp_path / "counted.1-01"
    path.write_text(_FILE)
    assert libraries_of(path) == {"libpython3.11.so.1.0": 401, "libcrypto.so.3": 100}


def test_all_threads_are_counted(tmp_path: Path) -> None:
    """What is handed to the audit writer would look as if it cost nothing."""
    (tmp_path / "counted.1-01").write_text(_FILE)
    (tmp_path / "counted.1-03").write_text(_FILE.replace("300", "999"))
    assert read(tmp_path, 10).by_library == {"libpython3.11.so.1.0": 401 + 1100, "libcrypto.so.3": 200}
    (tmp_path / "counted.1-01").unlink()
    with pytest.raises(BenchFailed, match="first thread"):
        read(tmp_path, 10)


def test_the_smallest_count_of_each_thread_is_taken(tmp_path: Path) -> None:
    """What a server does once a second would be a growth of the request that it fell into."""
    for number, (of_loop, of_writer) in enumerate(((999, 100), (300, 200), (301, 300)), 1):
        (tmp_path / f"counted.{number}-01").write_text(_FILE.replace("300", str(of_loop)))
        (tmp_path / f"counted.{number}-03").write_text(_FILE.replace("300", str(of_writer)))
    assert read(tmp_path, 10).per_request == (501 + 301) / 10


def test_a_machine_without_valgrind_gets_it_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate would fail on every fresh machine, or be skipped there."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(debian, "unpacked", lambda package: tmp_path / package)
    counting = Counting(tmp_path, tmp_path)
    commands = tmp_path / "valgrind" / "usr"
    assert str(commands / "bin" / "valgrind.bin") in counting.command
    assert counting.environment["VALGRIND_LIB"] == str(commands / "libexec" / "valgrind")

    def nothing(package: str) -> Path:
        raise PrerequisiteMissing(f"{package} cannot be installed")

    monkeypatch.setattr(debian, "unpacked", nothing)
    with pytest.raises(BenchFailed, match="valgrind cannot be installed"):
        Counting(tmp_path, tmp_path)
