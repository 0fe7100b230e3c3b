"""What is set of a session service is refused before anything starts, where no service would take it."""

from __future__ import annotations

from pathlib import Path

import pytest

from signproxy.config import load_settings
from signproxy.config.advice import advice
from signproxy.config.sts import BAD_TAG
from tests.config.test_checks import PROVIDER, faults_of

ROLE = "arn:aws:iam::123456789012:role/lake"
STORAGE = PROVIDER + "storages: {lake: {credentials: main, hosts: [aws], sts: {%s}}}\n"
ASSUMED = """
policy: {path: policy}
credentials:
  providers:
    keys: {class: static, properties: {access_key_id_file: id, secret_access_key_file: key}}
    role: {class: assume-role, source: keys, properties: {role_arn: 'arn:aws:iam::123456789012:role/base'}}
storages: {lake: {credentials: role, hosts: [aws], sts: {%s}}}
"""


@pytest.mark.parametrize(
    ("sts", "findings"),
    (
        ("", []),
        (f"role: '{ROLE}'", []),
        (f"role: '{ROLE}', endpoint: 'http://127.0.0.1:8333', duration_seconds: 900, tags: {{a: '{{principal}}'}}", []),
        (f"role: '{ROLE}', web_identity_token_file: t, never_beyond_token: false", []),
        ("external_id: xx", ["external_id: has no effect without storages.lake.sts.role"]),
        ("never_beyond_token: false", ["never_beyond_token: has no effect without storages.lake.sts.role"]),
        (
            f"role: '{ROLE}', endpoint: 'http://sts.example'",
            ["endpoint: 'http://sts.example' is no https URL of a host alone; http is for loopback only"],
        ),
        (
            f"role: '{ROLE}', endpoint: 'https://sts.example/path'",
            ["endpoint: 'https://sts.example/path' is no https URL of a host alone; http is for loopback only"],
        ),
        (
            f"role: '{ROLE}', web_identity_token_file: t, external_id: xx, tags: {{a: b}}, source_identity: true",
            [
                f"{name}: has no effect with web_identity_token_file: what the token says counts"
                for name in ("external_id", "tags", "source_identity")
            ],
        ),
        (
            f"role: '{ROLE}', tags: {{'aws:a': b}}",
            [f"tags['aws:a']: {BAD_TAG}"],
        ),
        (
            f"role: '{ROLE}', tags: {{a: 'x{{principal}}'}}",
            [f"tags.a: {BAD_TAG}"],
        ),
        (
            f"role: '{ROLE}', tags: {{{', '.join(f'a{number}: b' for number in range(51))}}}",
            ["tags: 51 tags; a session has 50 at most"],
        ),
    ),
)
def test_what_no_service_takes_is_refused(tmp_path: Path, sts: str, findings: list[str]) -> None:
    """Found out by the first caller, it would be found out at night."""
    assert faults_of(tmp_path, STORAGE % sts) == [f"storages.lake.sts.{finding}" for finding in findings]


@pytest.mark.parametrize(
    "sts", ("role: lake", "duration_seconds: 899", "duration_seconds: 43201", "region: 'a b'", "x: y")
)
def test_what_is_no_value_of_a_setting_is_refused(tmp_path: Path, sts: str) -> None:
    """STS takes 15 minutes to 12 hours, and the ARN of a role."""
    assert len(faults_of(tmp_path, STORAGE % sts)) == 1


def test_a_session_that_is_cut_short_is_told_of(tmp_path: Path) -> None:
    """Roles that are assumed by roles last for an hour, whatever is set."""
    file = tmp_path / "s.yaml"

    def told(sts: str) -> list[str]:
        file.write_text(ASSUMED % sts)
        return [found.where[1] for found in advice(load_settings(file, {})) if "assumes a role" in found.what]

    assert told(f"role: '{ROLE}', duration_seconds: 7200") == ["storages.lake.sts.duration_seconds"]
    assert told(f"role: '{ROLE}', duration_seconds: 7200, web_identity_token_file: t") == []
    assert told(f"role: '{ROLE}'") == []


def test_a_store_whose_sessions_name_its_owner_is_told_of(tmp_path: Path) -> None:
    """A reader of one table could write all of them, by a fault of the store that no session policy closes."""
    file = tmp_path / "s.yaml"

    def told(sts: str) -> list[str]:
        file.write_text(STORAGE % sts)
        return [found.where[1] for found in advice(load_settings(file, {})) if "GHSA-9c4q-hq6p-c237" in found.what]

    assert told(f"role: '{ROLE}', policy_denies_sts: false") == ["storages.lake.sts.policy_denies_sts"]
    assert told(f"role: '{ROLE}'") == []
