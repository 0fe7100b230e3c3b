"""Hold the gate on the length of a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import growth
from bench.callgrind import Count, Counting
from bench.instructions import TREE
from bench.process import BenchFailed

SERVED = {"sign": 1_000, "get": 800, "get_ordinary": 2_000, "load_table": 5_000}


class Trees:
    """What a request takes in the working tree, and before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **now: int) -> None:
        self.now = SERVED | now
        self.fault = ""
        self.asked: list[str] = []
        monkeypatch.setattr(growth, "checked_out", self.checked_out)
        monkeypatch.setattr(growth, "counted", self.counted)

    @contextmanager
    def checked_out(self, revision: str) -> Iterator[Path]:
        self.asked.append(revision)
        yield Path(revision)

    def counted(self, name: str, tree: Path) -> Count:
        if self.fault:
            raise BenchFailed(self.fault)
        return Count(10, {"libpython": 10 * (self.now if tree == TREE else SERVED)[name]})


def test_a_change_that_makes_no_request_longer_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line is all that is read of a run that passed."""
    trees = Trees(monkeypatch, load_table=5_050, sign=900)
    assert growth.main(["--against", "abc"]) == 0
    assert trees.asked == ["abc"]
    told = "get 1.0000 (800), get_ordinary 1.0000 (2,000), load_table 1.0100 (5,050); at most 1.01"
    assert capsys.readouterr().out.splitlines()[-1].endswith(told)


@pytest.mark.parametrize("name", growth.GATED)
def test_each_way_that_grows_by_more_than_a_hundredth_fails(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Ten changes of a hundredth each are a tenth that was never decided on."""
    Trees(monkeypatch, **{name: SERVED[name] * 1_020 // 1_000})
    assert growth.main(["--against", "abc"]) == 1


def test_what_cannot_be_counted_is_no_pass(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine without valgrind would let every growth in."""
    trees = Trees(monkeypatch)
    trees.fault = "valgrind is missing"
    assert growth.main(["--against", "abc"]) == 2
    assert "valgrind is missing" in capsys.readouterr().err


def test_another_commit_is_what_git_has_of_it() -> None:
    """The working tree would be compared with itself."""
    with growth.checked_out("HEAD") as tree:
        assert (tree / "signproxy" / "__main__.py").is_file()
        counting = Counting(tree, tree)
    assert counting.environment["PYTHONPATH"] == str(tree)
    assert counting.environment["PYTHONSAFEPATH"] == "1", "the directory of the call would come first"
    with pytest.raises(BenchFailed), growth.checked_out("no-such-commit"):
        pass
