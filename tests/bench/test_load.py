"""Hold what makes a load honest: every request another one, every answer counted."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from bench import load, sign_request
from bench.process import BenchFailed, start


def _signer() -> load.Signer:
    template = sign_request.body_template("https://s3.eu-central-1.amazonaws.com", "lake", "wh/db/t", "eu-central-1")
    return load.Signer("stand-in", "http://127.0.0.1:1/sign", (), template)


def test_each_number_gives_another_file_and_invocation() -> None:
    """A repeated URI would let a memo of parsed URIs pass for speed."""
    template = _signer().template
    first, second = (json.loads(sign_request.body(template, number)) for number in (1, 2))
    assert first["uri"] != second["uri"]
    assert first["headers"]["amz-sdk-invocation-id"] != second["headers"]["amz-sdk-invocation-id"]


def test_all_bodies_are_equally_long() -> None:
    """The load script writes Content-Length once."""
    template = _signer().template
    assert {len(sign_request.body(template, number)) for number in (0, 9, 10**12 - 1)} == {len(template)}


def test_bursts_never_share_a_number() -> None:
    """The second burst would repeat the URIs of the first."""
    signer = _signer()
    starts = [signer.next_number() for _ in range(3)]
    assert all(later - earlier >= 10_000_000 for earlier, later in itertools.pairwise(starts))


def _printed(line: str, log: Path) -> load.Running:
    program = f"print('Running 3s test\\n'); print({line!r})"
    return load.Running("stand-in", start([sys.executable, "-c", program], core=None, log=log), log)


_REPORT = '{"requests":10,"microseconds":3000000,"not_200":%d,"broken":%d,"p50":1,"p99":2}'


def test_a_clean_report_is_read(tmp_path: Path) -> None:
    """The load's own report is what divides the CPU time."""
    assert load.finish(_printed(_REPORT % (0, 0), tmp_path / "log")).requests == 10


@pytest.mark.parametrize("faults", ((1, 0), (0, 1)))
def test_a_single_refused_or_broken_request_fails_the_run(faults: tuple[int, int], tmp_path: Path) -> None:
    """Refusals are cheap: a signer that refuses would win every comparison."""
    with pytest.raises(BenchFailed, match="stand-in"):
        load.finish(_printed(_REPORT % faults, tmp_path / "log"))


def test_a_load_without_a_report_fails_the_run(tmp_path: Path) -> None:
    """A load that crashed would leave a figure of nothing."""
    with pytest.raises(BenchFailed, match="unable to connect"):
        load.finish(_printed("unable to connect to 127.0.0.1", tmp_path / "log"))
