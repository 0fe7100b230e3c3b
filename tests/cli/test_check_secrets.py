"""`signproxy check-config` and the secrets that seal what clients carry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli import main


def check(installation: Path, capsys: pytest.CaptureFixture[str], *settings: str) -> dict[str, Any]:
    """Return what the check finds, by `findings` and `warnings`."""
    options = [word for setting in settings for word in ("--set", setting)]
    main(["check-config", "--config", str(installation), "--json", *options])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_file_that_is_no_secret_is_told(
    installation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start would be refused after the release, and not before."""
    (tmp_path / "short").write_bytes(b"x" * 31)
    found = check(installation, capsys, f"context.secret_files={tmp_path / 'short'},{tmp_path / 'none'}")
    assert not found["valid"]
    assert [finding["path"] for finding in found["findings"]] == ["context.secret_files[0]", "context.secret_files[1]"]
    # Told once.
    assert not any(warning["path"] == "context.secret_files[1]" for warning in found["warnings"])


def test_a_good_secret_is_not_talked_about(
    installation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning at every release is not read."""
    (tmp_path / "secret").write_bytes(b"x" * 32)
    (tmp_path / "secret").chmod(0o600)
    found = check(installation, capsys, "context.table_tokens=true", f"context.secret_files={tmp_path / 'secret'}")
    assert (found["valid"], found["findings"], found["warnings"]) == (True, [], [])


def test_a_secret_that_ends_with_the_process_is_told(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job would fail or not by the replica that it meets, and no message would say why."""
    (warning,) = check(installation, capsys, "context.table_tokens=true")["warnings"]
    assert warning["path"] == "context.secret_files"
    assert "table tokens are nothing to this sidecar after a restart, and to any other" in warning["problem"]
