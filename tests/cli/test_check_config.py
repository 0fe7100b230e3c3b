"""`signproxy check-config`: what a start would refuse is told, all of it, without starting."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from signproxy.cli import main
from tests.authority import DAY, Authority, Pair, ec_key, pem_of


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


def with_tls(installation: Path, pair: Pair) -> tuple[str, ...]:
    directory = pair.write(installation.parent / "tls")
    return "--tls-cert", str(directory / "tls.crt"), "--tls-key", str(directory / "tls.key")


def test_a_sound_certificate_is_valid(
    installation: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release would be stopped for nothing."""
    assert check(installation, *with_tls(installation, authority.issue())) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("section", ("listen", "admin"))
def test_certificates_are_checked_as_a_start_does(
    section: str, installation: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key that belongs to another certificate would be found in production."""
    _, cert, _, key = with_tls(installation, Pair(authority.issue().chain, pem_of(ec_key())))
    more = ("--set", f"{section}.tls.cert_file={cert}", "--set", f"{section}.tls.key_file={key}")
    assert check(installation, *more) == 1
    told = capsys.readouterr().err
    assert f"{section}.tls.key_file: {key!r} is not the private key of the first certificate in {cert!r}" in told
    Path(key).unlink()
    assert check(installation, *more) == 1
    # Once, and not once more as a warning.
    missing = f"signproxy: {section}.tls.key_file: {key!r} cannot be read: No such file or directory\n"
    assert capsys.readouterr().err == missing
    assert check(installation, *more, "--set", "admin.enabled=false") == (1 if section == "listen" else 0)


@pytest.mark.parametrize(
    ("hosts", "ends", "more", "warning"),
    (
        ((), 0.1 * DAY, (), "warning: listen.tls.cert_file: '{cert}' ends at"),
        (("sign.example",), 90 * DAY, (), "warning: listen.tls.cert_file: the certificate is not good for '127.0.0.1'"),
        (("sign.example",), 90 * DAY, ("--public-url", "https://sign.example"), ""),
        (("sign.example",), 90 * DAY, ("--public-url", "https://other.example"), "not good for 'other.example', to"),
        # Something in front speaks for itself.
        (("sign.example",), 90 * DAY, ("--public-url", "http://other.example"), ""),
    ),
)
def test_certificates_that_clients_will_refuse_are_a_warning(
    hosts: tuple[str, ...],
    ends: timedelta,
    more: tuple[str, ...],
    warning: str,
    installation: Path,
    authority: Authority,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Everything would be valid, and no client could connect."""
    flags = with_tls(installation, authority.issue(*hosts, ends=ends))
    assert check(installation, *flags, *more) == 0
    told = capsys.readouterr().err
    assert warning.format(cert=flags[1]) in told
    assert bool(told) is bool(warning)


@pytest.mark.parametrize("section", ("listen", "admin"))
def test_places_of_sockets_are_checked(
    section: str, installation: Path, short_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mount that is missing would be found in production."""
    assert check(installation, "--set", f"{section}.socket={short_directory}/s.sock") == 0
    assert [*short_directory.iterdir()] == []
    # The one that is running keeps its socket, and may be checked all the same.
    with closing(socket.socket(socket.AF_UNIX)) as living:
        living.bind(f"{short_directory}/s.sock")
        living.listen()
        assert check(installation, "--set", f"{section}.socket={short_directory}/s.sock") == 0
    capsys.readouterr()
    for path, problem in (
        (f"{short_directory}/nowhere/s.sock", f"'{short_directory}/nowhere' is no directory"),
        (str(installation), f"'{installation}' is there already and no socket; it is not replaced"),
        (f"{short_directory}/{'s' * 200}", "bytes, and a socket's path may have"),
    ):
        assert check(installation, "--set", f"{section}.socket={path}") == 1
        told = capsys.readouterr().err
        assert told.startswith(f"signproxy: {section}.socket: ")
        assert problem in told


def test_the_command_line_of_a_start_can_be_checked(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is checked would not be what starts."""
    assert check(installation, "--listen", "0.0.0.0:1", "--workers", "0") == 1
    told = capsys.readouterr().err
    assert "command line: workers: 0 is out of range" in told
    assert check(installation, "--listen", "0.0.0.0:1") == 1
    assert "command line: listen.host: '0.0.0.0' is beyond loopback" in capsys.readouterr().err


def test_secrets_that_others_can_read_are_a_warning(
    installation: Path, short_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every process of the machine could sign, without a warning."""
    short_directory.chmod(0o755)
    for name in ("signproxy.yaml", "policy.yaml", "secret", "id", "key"):
        (short_directory / name).write_text((installation.parent / name).read_text())
        (short_directory / name).chmod(0o644 if name == "key" else 0o600)
    assert check(short_directory / "signproxy.yaml") == 0
    path = "credentials.providers.keys.properties.secret_access_key_file"
    told = f"signproxy: warning: {path}: '{short_directory}/key' can be read by every user here (mode 0644)"
    assert capsys.readouterr().err.startswith(told)


def test_secrets_that_are_not_there_yet_are_a_warning(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A start waits for them, so a check where they are not mounted must not fail; and not be silent either."""
    (installation.parent / "key").unlink()
    assert check(installation) == 0
    told = f"'{installation.parent}/key' cannot be read: No such file or directory"
    assert f"warning: credentials.providers.keys.properties.secret_access_key_file: {told}" in capsys.readouterr().err


def test_mounts_that_never_change_are_a_warning(
    installation: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revoked grant would stay in force until the next restart, without a reason in sight."""
    policy = installation.parent / "policy.yaml"
    info = installation.parent / "mountinfo"
    info.write_text(f"30 22 0:3 /..2026_01_01/policy.yaml {policy} ro shared:2 - tmpfs tmpfs rw\n")
    monkeypatch.setattr("signproxy.config.advice.MOUNTS", info)
    assert check(installation, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is True
    (warning,) = found["warnings"]
    assert warning["path"] == "policy.path"
    assert warning["problem"] == (
        f"'{policy}' is mounted by itself (subPath): its changes are never seen; mount the directory"
    )
