"""Hold how callgrind's files are read, and what is made of the counts."""

from __future__ import annotations

import pytest

from bench import instructions
from bench.callgrind import Count, Counting
from bench.instructions import rows
from bench.process import BenchFailed


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
