"""A worker seals what former processes left before its first event, and ships what is sealed until its last."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from signproxy.audit.segments import SegmentSink, sealed_below
from signproxy.audit.sink import FileSink, StdoutSink
from signproxy.audit.trail import AuditTrail
from signproxy.cli import main
from signproxy.config.settings import Settings
from signproxy.errors import SettingsInvalid
from signproxy.server.process import build
from signproxy.server.process.spool import Spool
from signproxy.shipping import shipper as shipper_module
from signproxy.telemetry.metrics import Metrics
from tests.audit.events import an_event
from tests.audit.segment_rig import Life, faults, findings
from tests.audit.sinks import segment_files
from tests.cli.conftest import installation
from tests.shipping.strict_store import BUCKET, strict_store
from tests.waiting import until

__all__ = ["installation"]


def settings(directory: Path, **audit: Any) -> Settings:
    return msgspec.convert({"audit": {"sink": "segments", "directory": str(directory), **audit}}, Settings)


def shipping(directory: Path) -> Settings:
    return settings(directory, ship={"storage": "lake", "bucket": BUCKET})


def abandoned(directory: Path) -> None:
    life = Life(directory)
    life.write(3)
    assert life.sink._open is not None
    os.close(life.sink._open._fd)
    life.sink._open = None


def value(metrics: Metrics, name: str) -> float:
    lines = metrics.render().body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


async def test_a_worker_writes_seals_and_ships(tmp_path: Path) -> None:
    """Each part works by itself, and the events of a pod are lost all the same."""
    async with strict_store() as store:
        abandoned(tmp_path)
        spool = Spool(shipping(tmp_path), "c0ffee")
        await spool.open(lambda: [store.storage], store.credentials)
        assert [path for path in segment_files(tmp_path) if path.name[0] == "."] == []
        trail = AuditTrail(spool.sink)
        trail.start()
        metrics = Metrics("1.0")
        spool.show(metrics)
        trail.accept(an_event())
        await until(lambda: spool.shipping.shipped == 1 and trail.state.written)
        trail.reopen()
        await until(lambda: spool.shipping.shipped == 2)
        trail.accept(an_event())
        assert trail.close(5) == 0
        await spool.aclose()
        assert len(store.objects) == 3
        assert spool.report(trail).sealed == 2
    assert segment_files(tmp_path) == []
    assert value(metrics, "signproxy_audit_segments_sealed_total") == 2


async def test_how_it_is_doing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments would pile up until the volume is full, and only then would an operator look."""
    monkeypatch.setattr(shipper_module, "FIRST_PAUSE", 0.01)
    Life(tmp_path).rotate()
    spool = Spool(shipping(tmp_path), "")
    trail = AuditTrail(spool.sink)
    metrics = Metrics("1.0")
    spool.show(metrics)
    async with strict_store() as store:
        await spool.open(list, store.credentials)
        await until(lambda: spool.shipping.failures)
        report = spool.report(trail)
        assert (report.sealed, report.waiting) == (0, 1)
        assert report.shipping_problem == "no catalog of the policy has the storage 'lake'"
        assert value(metrics, "signproxy_audit_segments_waiting") == 1
        assert value(metrics, "signproxy_audit_waiting_bytes") == sealed_below(tmp_path)[0].stat().st_size
        assert value(metrics, "signproxy_audit_shipping_failures_total") > 0
        assert value(metrics, "signproxy_audit_shipping_lag_seconds") > 0
        spool._ship = msgspec.structs.replace(spool._ship, at_end_seconds=0.1)
        await spool.aclose()
    trail.close(1)
    assert len(sealed_below(tmp_path)) == 1


async def test_workers_that_start_at_once_leave_one_trail(tmp_path: Path) -> None:
    """They would seal each other's segments, or the same orphan twice."""
    for _ in range(5):
        abandoned(tmp_path)
    spools = [Spool(settings(tmp_path), "") for _ in range(4)]
    trails = [AuditTrail(spool.sink) for spool in spools]

    async def start(spool: Spool, trail: AuditTrail) -> None:
        await spool.open(list, lambda *_: pytest.fail("nothing is shipped"))
        trail.start()
        trail.accept(an_event())

    await asyncio.gather(*(start(spool, trail) for spool, trail in zip(spools, trails, strict=True)))
    for trail in trails:
        assert await asyncio.to_thread(trail.close, 5) == 0
    assert len(sealed_below(tmp_path)) == 9
    assert faults(tmp_path) == set()
    assert len(findings(tmp_path)) == 5


@pytest.mark.parametrize("kind", ("stdout", "file"))
async def test_other_sinks_have_no_segments(tmp_path: Path, kind: str) -> None:
    """A directory of the settings that are not in force would be written to."""
    path = str(tmp_path / "audit") if kind == "file" else ""
    spool = Spool(msgspec.convert({"audit": {"sink": kind, "path": path}}, Settings), "")
    await spool.open(list, lambda *_: pytest.fail("nothing is shipped"))
    assert isinstance(spool.sink, FileSink if kind == "file" else StdoutSink)
    report = spool.report(AuditTrail(spool.sink))
    assert (report.sealed, report.waiting) == (0, 0)
    spool.show(Metrics("1.0"))
    await spool.aclose()
    spool.sink.close()


def test_segments_are_made_as_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that is never read looks like one that works."""
    monkeypatch.setenv("HOSTNAME", "pod/7")
    wanted = settings(tmp_path, segment_mib=2, segment_seconds=7, spool_mib=3, fsync="request")
    made = build.segment_settings(wanted, "c0ffee")
    assert (made.instance, made.config_digest, made.sync.value) == ("pod-7", "c0ffee", "request")
    assert (made.max_bytes, made.max_seconds, made.spool_bytes) == (2 << 20, 7.0, 3 << 20)
    assert build.segment_settings(settings(tmp_path, instance="gateway-a"), "").instance == "gateway-a"
    assert isinstance(build.audit_sink(wanted), SegmentSink)


def test_a_directory_that_cannot_be_written_is_an_error_of_the_start(tmp_path: Path) -> None:
    """It would be one of each request."""
    (tmp_path / "audit").touch()
    with pytest.raises(SettingsInvalid, match=r"audit\.directory: .* cannot be written"):
        build.audit_sink(settings(tmp_path))


@pytest.mark.parametrize(
    ("audit", "said"),
    (
        ("{sink: segments, directory: trail}", ""),
        ("{sink: segments, directory: trail, ship: {storage: main, bucket: b}}", ""),
        ("{sink: segments, directory: secret}", "audit.directory"),
        ("{sink: segments, directory: secret/below}", "audit.directory"),
        (
            "{sink: segments, directory: trail, ship: {storage: other, bucket: b}}",
            "audit.ship.storage: no catalog of the policy has the storage 'other'",
        ),
    ),
)
def test_a_check_says_what_a_start_would(
    installation: Path, capsys: pytest.CaptureFixture[str], audit: str, said: str
) -> None:
    """A pipeline that checks would let through what no pod can start with."""
    text = installation.read_text().replace("storages:\n", "storages:\n  other: {credentials: keys, hosts: [aws]}\n")
    installation.write_text(f"{text}audit: {audit}\n")
    assert main(["check-config", "--config", str(installation)]) == (1 if said else 0)
    shown = capsys.readouterr()
    assert said in shown.out + shown.err
    # The user that checks need not be the user that serves.
    assert not (installation.parent / "trail").exists()
