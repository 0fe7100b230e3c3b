"""The sample that ships: what the generator makes, small, and unpacked by one command."""

from __future__ import annotations

import io
import json
import re
import tarfile
import zlib
from pathlib import Path

import pytest

from signproxy.cli import main
from signproxy.pipeline.job import Exit, job
from tools.sample_data.generate import generate
from tools.sample_data.sample import SAMPLE, SIZE, packed
from tools.sample_data.truth import read_faults

_MOST = 700_000
_DIGEST = re.compile(rb'"(?:previous_)?sha256":"[0-9a-f]{64}"')
_GZIP = 31


def _run(warehouse: Path, *words: str) -> int:
    return main(["pipeline", "demo", "--warehouse", str(warehouse), *words])


def _unpacked(path: Path) -> bytes:
    """Return what a file holds: one zlib packs otherwise than another, and digests are of what is packed."""
    rest, content = path.read_bytes(), b""
    if path.suffix != ".gz":
        return rest
    while rest:
        unpacker = zlib.decompressobj(_GZIP)
        content += unpacker.decompress(rest)
        rest = unpacker.unused_data
    return _DIGEST.sub(b"", content)


def _content(directory: Path) -> dict[str, bytes]:
    """Return what all files hold, and only the names of those that were cut: where, depends on how they were packed."""
    cut = {
        one.expect["segment"] for one in read_faults(directory / "truth") if one.expect.get("verdict") == "truncated"
    }
    assert cut
    return {
        str(path.relative_to(directory)): b"" if path.name in cut else _unpacked(path)
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_one_command_lays_out_a_lake_to_try_the_jobs_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a lake and a month of its logs, nothing of the pipeline can be tried."""
    assert _run(tmp_path, "--json") == Exit.OK
    record = json.loads(capsys.readouterr().out)
    summary = json.loads((tmp_path / "demo" / "truth" / "summary.json").read_text())
    assert (record["rows_out"], record["numbers"]["seed"]) == (SIZE.events, SIZE.seed)
    assert record["numbers"]["requests"] == sum(summary["requests"].values())
    assert "30 days, the first of them 2026-10-01" in record["notes"]
    assert len(list((tmp_path / "demo").glob("audit/v1/*/*.gz"))) == summary["segments"]
    assert {path.name for path in (tmp_path / "demo" / "logs").iterdir()} == set(summary["requests"])


def test_the_sample_is_what_the_generator_makes(tmp_path: Path) -> None:
    """A change of the trail's format would leave a sample that the jobs cannot read; `make sample` makes it anew."""
    assert _run(tmp_path / "warehouse") == Exit.OK
    generate(tmp_path / "made", SIZE)
    made = _content(tmp_path / "made")
    assert len(made) > 50
    assert _content(tmp_path / "warehouse" / "demo") == made


def test_the_sample_is_small() -> None:
    """It is in every installation, also where no pipeline ever runs."""
    assert SAMPLE.stat().st_size < _MOST


def test_equal_files_make_equal_archives(tmp_path: Path) -> None:
    """Making the sample anew without a change of the generator would be a change of the repository."""
    for name in ("one", "other"):
        (tmp_path / name / "logs").mkdir(parents=True)
        (tmp_path / name / "logs" / "a").write_text("a")
        (tmp_path / name / "b").write_text("b")
    archive = packed(tmp_path / "one")
    assert packed(tmp_path / "other") == archive
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        assert opened.getnames() == ["b", "logs/a"]


def test_a_sample_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was tried on the first one, and what it was changed to, would be gone."""
    (tmp_path / "demo").mkdir()
    assert _run(tmp_path) == Exit.USAGE
    assert "exists already: remove it, or name another warehouse" in capsys.readouterr().err


def test_the_sample_is_unpacked_on_this_machine_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A directory of the name `s3a:` would be made, and nothing be found in the bucket."""
    assert main(["pipeline", "demo", "--warehouse", "s3a://bucket/warehouse"]) == Exit.USAGE
    assert "a directory of this machine" in capsys.readouterr().err


@pytest.mark.parametrize("words", (["--from", "2026-09-01"], ["--to", "2026-09-03"]), ids=" ".join)
def test_its_days_are_fixed(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user who asks for other days would search them in vain."""
    assert _run(tmp_path, *words) == Exit.USAGE
    assert "days are fixed" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    "words",
    (
        ["--events", "6000"],
        ["--seed=7"],
        ["--tables", "100"],
        ["--principals", "90"],
        ["--instances", "1"],
        ["--processes", "2"],
    ),
    ids=" ".join,
)
def test_options_of_the_generator_are_refused_with_where_they_are(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that asked for a size would go on with another one, or end without a way out."""
    assert _run(tmp_path, *words) == Exit.USAGE
    said = capsys.readouterr().err
    assert f"error: {words[0].partition('=')[0]}: " in said
    assert "python -m tools.sample_data" in said
    assert not (tmp_path / "demo").exists()
    declared = job("demo")
    assert declared is not None
    assert words[0].partition("=")[0] in declared.removed
