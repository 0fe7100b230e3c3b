"""Run commands as an operator does."""

from __future__ import annotations

from pathlib import Path

import pytest

from signproxy.cli import main


def client_config(installation: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what `signproxy client-config` prints."""
    assert main(["client-config", "--config", str(installation), *words]) == 0
    return capsys.readouterr().out
