"""Nothing leaks, nothing is lost and nothing fails, however long it runs and however often everything changes."""

from __future__ import annotations

import datetime
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.e2e.idp.provider import IdentityProvider, run_identity_provider
from tests.e2e.soak.run import Figures, Soak, check

REPOSITORY = Path(__file__).parents[3]
RECORD = REPOSITORY / "docs" / "soak.json"

RECORDED_SECONDS = 1_200.0
"""What is shorter says too little to be recorded."""
SHORT_SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
LONG_SECONDS = float(os.environ.get("SOAK_SECONDS", f"{RECORDED_SECONDS}"))

SHORT_PERCENT = 15.0
"""A minute is too short to tell a leak from an allocator that settles; what grows by a third a minute still fails."""
LONG_PERCENT = 5.0

SHORT_TURNED_AWAY = 0.01
"""The minute runs wherever the tests do, beside whatever else uses that disk; each refusal is still accounted for."""


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[IdentityProvider]:
    with run_identity_provider(tmp_path / "idp") as made:
        yield made


@pytest.mark.ci
def test_a_minute_at_full_load_loses_nothing(tmp_path: Path, provider: IdentityProvider) -> None:
    """What a minute shows: every rotation under load, each request with its event, no file left open."""
    figures = Soak(tmp_path / "signproxy", provider).run(SHORT_SECONDS)
    check(figures, flat_percent=SHORT_PERCENT, turned_away_share=SHORT_TURNED_AWAY)


@pytest.mark.soak
@pytest.mark.timeout(LONG_SECONDS + 600)
def test_twenty_minutes_at_full_load_leave_nothing_behind(tmp_path: Path, provider: IdentityProvider) -> None:
    """A sidecar lives as long as its job: what leaks a little each second ends it on the second day."""
    figures = Soak(tmp_path / "signproxy", provider).run(LONG_SECONDS)
    check(figures, flat_percent=LONG_PERCENT)
    if figures.seconds >= RECORDED_SECONDS:
        _record(figures)


def _record(figures: Figures) -> None:
    """Keep what the documentation says of a run."""
    seen = figures.seen
    record = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "seconds": figures.seconds,
        "workers": figures.workers,
        "requests": seen.signed + seen.refused,
        "requests_per_second": round((seen.signed + seen.refused) / seen.seconds),
        "failed": sum(seen.failed.values()) + seen.turned_away,
        "verified": seen.verified,
        "longest_answer_seconds": round(seen.longest, 3),
        "audit_events": figures.events,
        "rotations": figures.rotations,
        "memory": figures.memory,
        "open_files": {name: (figures.before[name].files, figures.after[name].files) for name in figures.before},
    }
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def _commit() -> str:
    """Return the commit, `+` behind it if the product differs from it."""
    git = ("git", "-C", str(REPOSITORY))
    head = subprocess.run((*git, "rev-parse", "--short=12", "HEAD"), capture_output=True, text=True, check=True)
    changed = subprocess.run(
        (*git, "status", "--porcelain", "--", "signproxy"), capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + ("+" if changed.stdout else "")
