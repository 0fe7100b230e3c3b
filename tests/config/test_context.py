"""The secrets that seal what clients carry: where their files are, and what an operator is told of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from signproxy.config import Settings, load_settings
from signproxy.config.advice import advice, files_of
from signproxy.config.difference import difference
from signproxy.config.effective import Leaf, effective
from signproxy.config.load import merge
from signproxy.errors import SettingsInvalid

SETTINGS = """
policy: {path: p}
context:
  secret_files: [secrets/new, /run/old]
"""


def written(directory: Path, text: str = SETTINGS) -> Path:
    file = directory / "s.yaml"
    file.write_text(text)
    return file


def loaded(directory: Path, text: str = SETTINGS, **environ: str) -> Settings:
    return load_settings(written(directory, text), environ)


def test_files_of_a_list_are_found_beside_the_settings(tmp_path: Path) -> None:
    """A server that is started in another directory would not find its secrets."""
    assert loaded(tmp_path).context.secret_files == (str(tmp_path / "secrets/new"), "/run/old")


def test_files_of_a_variable_are_found_in_the_working_directory(tmp_path: Path) -> None:
    """An operator who sets a variable does not know where the file is that it overrides."""
    found = loaded(tmp_path, SIGNPROXY__CONTEXT__SECRET_FILES="a,/b")
    assert [os.path.relpath(file) for file in found.context.secret_files] == ["a", os.path.relpath("/b")]


@pytest.mark.parametrize("value", ("x", "[1]", "[[x]]", "{a: b}", "['']"))
def test_what_is_no_list_of_files_is_told(value: str, tmp_path: Path) -> None:
    """A typo would take the secrets away, and what clients carry with them."""
    with pytest.raises(SettingsInvalid, match=r"context\.secret_files"):
        loaded(tmp_path, f"policy: {{path: p}}\ncontext: {{secret_files: {value}}}")


def test_each_file_is_a_secret(tmp_path: Path) -> None:
    """Every user of the machine could make table tokens, without a warning."""
    named = {file.path: (file.file, file.secret) for file in files_of(loaded(tmp_path))}
    assert named["context.secret_files[0]"] == (tmp_path / "secrets/new", True)
    assert named["context.secret_files[1]"] == (Path("/run/old"), True)


def test_print_config_shows_the_files_as_they_can_stand_elsewhere(tmp_path: Path) -> None:
    """What it prints is a settings file again, wherever it is put."""
    merged = merge(written(tmp_path), {}, {})
    context = effective(merged.decode(), merged)["context"]
    assert isinstance(context, dict)
    assert context["secret_files"] == Leaf([f"{tmp_path}/secrets/new", "/run/old"], f"{tmp_path}/s.yaml:4")


def test_a_rotation_is_told(tmp_path: Path) -> None:
    """An operator must see in the log that the new secret has taken the old one's place."""
    old = loaded(tmp_path)
    new = loaded(tmp_path, SETTINGS.replace("secrets/new, /run/old", "/run/old"))
    assert [change.text for change in difference(old, new)] == [
        f"context.secret_files: removed '{tmp_path}/secrets/new'"
    ]


UPSTREAM = "upstreams: {lake: {uri: 'https://catalog.example'}}"


@pytest.mark.parametrize(
    ("text", "told"),
    (
        ("", ""),
        ("context: {staged_seconds: 60}", ""),
        ("context: {table_tokens: true}", "without one, table tokens are nothing to this sidecar"),
        (UPSTREAM, "without one, creates that are not committed are nothing to this sidecar"),
        (f"context: {{table_tokens: true}}\n{UPSTREAM}", "without one, table tokens and creates that are"),
        (f"context: {{table_tokens: true, secret_files: [FILE]}}\n{UPSTREAM}", ""),
    ),
)
def test_a_secret_that_ends_with_the_process_is_told(text: str, told: str, tmp_path: Path) -> None:
    """Jobs would fail after a restart, or by the sidecar that they meet, without a reason in sight."""
    (tmp_path / "secret").write_bytes(b"x" * 32)
    (tmp_path / "secret").chmod(0o600)
    found = loaded(tmp_path, f"policy: {{path: {tmp_path}}}\n{text.replace('FILE', 'secret')}")
    findings = [finding for finding in advice(found) if finding.where[-1] == "context.secret_files"]
    assert [finding.what.startswith(told) for finding in findings] == ([True] if told else [])
