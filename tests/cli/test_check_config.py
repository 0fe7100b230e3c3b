"""`signproxy check-config`: what a start would refuse is told, all of it, without starting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from signproxy.cli import main


def check(installation: Path, *words: str) -> int:
    return main(["check-config", "--config", str(installation), *words])


def test_a_sound_installation_is_valid(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A release would be stopped for nothing."""
    assert check(installation) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("valid: policy ")
    assert captured.out.endswith(", 1 catalogs (1 with remote signing), 1 tables, 1 principals\n")
    assert captured.err == ""


def test_json_is_for_pipelines(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipeline would have to read sentences."""
    assert check(installation, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], found["findings"], found["warnings"]) == (True, [], [])
    assert found["policy_rev"]
    assert check(installation, "--json", "--set", "log.level=loud") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is False
    assert found["findings"][0]["path"] == "log.level"


@pytest.mark.parametrize(
    ("file", "before", "after", "told"),
    (
        (
            "signproxy.yaml",
            "audiences",
            "audience",
            "identity.issuers.idp.audience: unknown key (did you mean 'audiences'?)",
        ),
        (
            "signproxy.yaml",
            "main: {credentials",
            "mian: {credentials",
            "storage 'main' has no binding (did you mean 'mian'?)",
        ),
        (
            "signproxy.yaml",
            "127.0.0.1:9000",
            "127.0.0.1:9001",
            "endpoint http://127.0.0.1:9000 of the policy is not among",
        ),
        (
            "signproxy.yaml",
            "access_key_id_file",
            "access_key_file",
            "unknown property (did you mean 'access_key_id_file'?)",
        ),
        ("signproxy.yaml", "class: static", "class: 'evil:Provider'", "module 'evil' is not below an allowed one"),
        ("signproxy.yaml", "roles_claim: roles", "roles_claim: ''", "`roles_claim` and `roles` go together"),
        ("signproxy.yaml", "path: policy.yaml", "path: nowhere", "cannot be read"),
        ("secret", "a-shared", "", "identity.issuers.idp"),
        (
            "policy.yaml",
            "buckets",
            "bucket",
            "policy.yaml: storages.main.bucket: unknown key (did you mean 'buckets'?)",
        ),
        ("policy.yaml", "TABLE_READ_DATA", "TABLE_READ_DAT", "(did you mean 'TABLE_READ_DATA'?)"),
        ("policy.yaml", "idp/ann", "ann", "there is not exactly one issuer"),
    ),
)
def test_each_fault_is_told(
    file: str, before: str, after: str, told: str, installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault would be found by the start in production."""
    path = installation.parent / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    assert check(installation) == 1
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.out == ""


def test_faults_of_all_rooms_are_told_at_once(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Mending an installation would take a run per fault."""
    policy = installation.parent / "policy.yaml"
    policy.write_text(policy.read_text().replace("kind: s3-compatible", "kind: s3"))
    (installation.parent / "secret").unlink()
    nowhere = installation.parent / "nowhere" / "audit.ndjson"
    assert check(installation, "--set", "audit.sink=file", "--set", f"audit.path={nowhere}") == 1
    told = capsys.readouterr().err
    assert "storages.main.kind: 's3' is none of aws, s3-compatible" in told
    assert "secret_file" in told
    assert f"audit.path: '{nowhere}' cannot be written" in told


def test_a_check_leaves_nothing_behind(installation: Path) -> None:
    """A check as root would leave an audit file that the server cannot append to."""
    audit = installation.parent / "audit.ndjson"
    assert check(installation, "--set", "audit.sink=file", "--set", f"audit.path={audit}") == 0
    assert not audit.exists()
    assert check(installation, "--set", "audit.sink=file", "--set", f"audit.path={audit.parent}") == 1


def test_an_unused_binding_is_a_warning(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A policy that drops a storage could not be rolled out before the settings are."""
    installation.write_text(installation.read_text() + "  old: {credentials: keys, hosts: [aws]}\n")
    assert check(installation) == 0
    assert "warning: storages.old: the policy has no storage 'old'" in capsys.readouterr().err
