"""What is told of this process."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from signproxy.telemetry import process
from signproxy.telemetry.metrics import Metrics


def test_memory_is_what_the_kernel_says() -> None:
    """An alert on a memory limit that looks at another number rings too late."""
    told = process.resident_memory()[()]
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    kernel = int(lines["VmRSS"].split()[0]) * 1024
    assert 0.5 < told / kernel < 2


def test_an_open_file_is_counted(tmp_path: Path) -> None:
    """A leak of connections is seen here first."""
    before = process.open_files()[()]
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        assert process.open_files()[()] == before + 2
    assert process.open_files()[()] == before
    assert 0 < before < process.most_files()[()]


def test_cpu_time_only_grows() -> None:
    """It is a counter."""
    before = process.cpu_time()[()]
    assert sum(range(200_000))
    assert process.cpu_time()[()] >= before


def test_without_proc_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without /proc a scrape must not fail."""
    for name in ("_MEMORY", "_FILES"):
        monkeypatch.setattr(process, name, Path("/nonexistent"))
    metrics = Metrics("1")
    metrics.measure_process()
    text = metrics.render().body.decode()
    assert "\nsignproxy_process_cpu_seconds_total " in text
    assert "\nsignproxy_process_open_fds " not in text


def test_a_limit_that_is_none_is_told_as_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its value in C would be a number of files that cannot be opened."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert process.most_files() == {(): float("inf")}


def test_each_instance_is_told_whether_it_speaks_for_the_process() -> None:
    """Two instances in one process would count its memory twice."""
    metrics = Metrics("1")
    assert "\nsignproxy_process_resident_memory_bytes " not in metrics.render().body.decode()
    metrics.measure_process()
    assert "\nsignproxy_process_resident_memory_bytes " in metrics.render().body.decode()
