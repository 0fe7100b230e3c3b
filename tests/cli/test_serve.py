"""`signproxy serve`: flags become settings, and only sound ones reach the server."""

from __future__ import annotations

from pathlib import Path

import pytest

import signproxy.server
from signproxy.cli import main
from signproxy.config import Settings
from signproxy.config.load import SettingsSource
from signproxy.config.settings import LogLevel, Loop


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Collect what the server is asked to serve."""
    collected: list[Settings] = []

    def serve(source: SettingsSource, settings: Settings) -> int:
        # What a reload will read has to be the same.
        assert source.load() == settings
        collected.append(settings)
        return 7

    monkeypatch.setattr(signproxy.server, "serve", serve)
    return collected


def test_flags_become_settings(installation: Path, served: list[Settings]) -> None:
    """A flag would be read and forgotten."""
    words = (
        f"serve --config {installation} --policy elsewhere --listen [::]:0 --admin 0.0.0.0:9999 --allow-remote "
        "--public-url https://sign.example --loop asyncio --log-level debug "
        "--workers 3 --socket data.sock --tls-cert tls.crt --tls-key tls.key --drain-delay 5 --drain-timeout 9 "
        "--set signing.signature_ttl_seconds=120"
    )
    assert main(words.split()) == 7
    (settings,) = served
    assert (settings.listen.host, settings.listen.port, settings.listen.allow_remote) == ("::", 0, True)
    assert (settings.admin.host, settings.admin.port, settings.admin.allow_remote) == ("0.0.0.0", 9999, True)
    assert settings.policy.path == "elsewhere"
    assert settings.advertised_url == "https://sign.example"
    assert (settings.workers, settings.listen.socket) == (3, "data.sock")
    assert (settings.listen.tls.cert_file, settings.listen.tls.key_file) == ("tls.crt", "tls.key")
    assert settings.loop is Loop.ASYNCIO
    assert settings.log.level is LogLevel.DEBUG
    assert settings.signing.signature_ttl_seconds == 120
    assert (settings.drain.delay_seconds, settings.drain.timeout_seconds) == (5, 9)


def test_the_environment_names_the_file(
    installation: Path, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image could not carry its settings' place."""
    monkeypatch.setenv("SIGNPROXY_CONFIG", str(installation))
    monkeypatch.setenv("SIGNPROXY__LISTEN__PORT", "7000")
    assert main(["serve"]) == 7
    assert served[0].listen.port == 7000
    assert list(served[0].storages) == ["main"]


def test_invalid_settings_never_reach_the_server(served: list[Settings]) -> None:
    """A server would start half configured."""
    assert main(["serve"]) == 1
    assert served == []


def test_an_address_without_a_port_is_told(served: list[Settings], capsys: pytest.CaptureFixture[str]) -> None:
    """A port alone would be taken for a host."""
    assert main(["serve", "--listen", "8181"]) == 1
    assert "command line: --listen: HOST:PORT expected, got '8181'" in capsys.readouterr().err
    assert served == []
