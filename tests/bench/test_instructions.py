"""Hold how callgrind's files are read, and what is made of the counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import instructions
from bench.instructions import Count, Counting, libraries_of, read, rows
from bench.process import BenchFailed

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


def test_the_first_thread_is_counted(tmp_path: Path) -> None:
    """The audit writer works in batches: what it did within a thousand requests differs from run to run."""
    (tmp_path / "counted.1-01").write_text(_FILE)
    (tmp_path / "counted.1-03").write_text(_FILE.replace("300", "999"))
    assert read(tmp_path, 10).per_request == 50.1
    (tmp_path / "counted.1-01").unlink()
    with pytest.raises(BenchFailed, match="first thread"):
        read(tmp_path, 10)


def test_a_commit_that_grows_by_more_than_a_hundredth_misses_its_must() -> None:
    """Ten changes of a hundredth each are a tenth that was never decided on."""
    now = {"floor": Count(10, {"a": 1_000}), "sign": Count(10, {"a": 1_000, "b": 10}), "get": Count(10, {"a": 1_011})}
    before = {"sign": Count(5, {"a": 500}), "get": Count(10, {"a": 1_000})}
    found = {row.name: row for row in rows(now, before, "abc")}
    assert (found["instructions.sign_vs_before"].value, found["instructions.sign_vs_before"].passes) == (1.01, True)
    assert (found["instructions.get_vs_before"].value, found["instructions.get_vs_before"].passes) == (1.011, False)
    assert found["instructions.sign_vs_floor"].value == 1.01
    assert found["instructions.sign"].value == 101
    assert "abc" in found["instructions.get_vs_before"].against
    assert not [name for name in (row.name for row in rows(now, {})) if name.endswith("_vs_before")]


def test_a_profile_says_where_all_of_it_is() -> None:
    """What is left out would look as if it cost nothing."""
    count = Count(1, {"libpython3.11.so": 50, "libcrypto.so.3": 30, "c": 8, "d": 6, "e": 4, "f": 2})
    found = {row.name: row.value for row in rows({"floor": count, "sign": count}, {}) if ".profile_" in row.name}
    assert found == {
        "instructions.profile_sign_libpython3_11_so": 50.0,
        "instructions.profile_sign_libcrypto_so_3": 30.0,
        "instructions.profile_sign_c": 8.0,
        "instructions.profile_sign_d": 6.0,
        "instructions.profile_sign_rest": 6.0,
    }


def test_another_commit_is_what_git_has_of_it() -> None:
    """The working tree would be compared with itself."""
    with instructions.checked_out("HEAD") as tree:
        assert (tree / "signproxy" / "__main__.py").is_file()
        counting = Counting(tree, tree)
    assert counting.environment["PYTHONPATH"] == str(tree)
    assert counting.environment["PYTHONSAFEPATH"] == "1", "the directory of the call would come first"
    with pytest.raises(BenchFailed), instructions.checked_out("no-such-commit"):
        pass
