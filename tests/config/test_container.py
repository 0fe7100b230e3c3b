"""Profiles of container credentials that could not be served, or not safely, are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from signproxy.config import load_settings
from tests.config.test_s3_checks import POLICY, faults_of

S3 = "s3: {enabled: true}\n"
AT = "container_credentials.profiles"


def _profiles(text: str, more: str = S3) -> str:
    return f"{POLICY}{more}container_credentials: {{profiles: {{{text}}}}}\n"


@pytest.mark.parametrize(
    ("text", "findings"),
    (
        (_profiles("jobs: {catalog: lake}"), []),
        (_profiles("jobs: {catalog: lake, namespace: a.b, table: t, access: read-write, seconds: 1800}"), []),
        (
            _profiles("jobs: {catalog: lake}", ""),
            [f"{AT}: issued keys are good at the S3 listener alone; set s3.enabled, with `emulated` in s3.identities"],
        ),
        (
            _profiles("jobs: {catalog: lake}", S3 + "listen: {host: 10.0.0.5, allow_remote: true}\n"),
            [f"{AT}: SDKs ask by TCP, on loopback alone; set listen.tcp, and listen.host to 127.0.0.1"],
        ),
        (
            _profiles("'a/b': {catalog: lake}"),
            [f"{AT}['a/b']: 'a/b' is no name; letters, digits, `-` and `_` are, 64 of them at most"],
        ),
        (
            _profiles("jobs: {catalog: lake, table: t}"),
            [f"{AT}.jobs.table: a table has a namespace; set it beside"],
        ),
        (
            _profiles("jobs: {catalog: lake, namespace: a..b}"),
            [f"{AT}.jobs.namespace: 'a..b' has an empty level"],
        ),
        (
            _profiles("jobs: {catalog: lake, seconds: 7200}"),
            [f"{AT}.jobs.seconds: 7200 is more than s3.keys.max_seconds (3600)"],
        ),
    ),
)
def test_a_profile_that_cannot_be_served_is_refused(text: str, findings: list[str], tmp_path: Path) -> None:
    """The first job that asks would find it out."""
    assert faults_of(tmp_path, text) == findings


@pytest.mark.parametrize("profile", ("{}", "{catalog: ''}", "{catalog: lake, seconds: 900}", "{catalog: lake, x: 1}"))
def test_a_profile_names_its_catalog_and_a_life_that_sdks_can_work_with(profile: str, tmp_path: Path) -> None:
    """At 15 minutes botocore asks for new keys with each of its requests."""
    assert len(faults_of(tmp_path, _profiles(f"jobs: {profile}"))) == 1


def test_no_process_is_given_keys_unless_the_settings_say_so(tmp_path: Path) -> None:
    """An upgrade would open an endpoint that the operator has not heard of."""
    file = tmp_path / "s.yaml"
    file.write_text(POLICY + S3)
    assert load_settings(file, {}).container_credentials.profiles == {}
