"""`signproxy print-config`: every value and its source, as a file that can be used again, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from signproxy.cli import main
from signproxy.config import Settings, load_settings
from signproxy.config.load import digest_of

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["print-config", *words]) == code
    return capsys.readouterr().out


def used_again(text: str, directory: Path) -> Settings:
    """Return what a file with this text in another place means."""
    file = directory / "again" / "signproxy.yaml"
    file.parent.mkdir()
    file.write_text(text)
    return load_settings(file, {})


def test_each_value_stands_with_its_source(
    installation: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator would have to guess which of four places set a value."""
    monkeypatch.setenv("SIGNPROXY__DRAIN__DELAY_SECONDS", "7")
    text = printed(capsys, "--config", str(installation), "--listen", "[::1]:99", "--set", "log.level=debug")
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0].startswith("# config_digest: ")
    assert 'host: "::1"  # command line' in lines
    assert "port: 99  # command line" in lines
    assert "level: debug  # command line" in lines
    assert "delay_seconds: 7  # SIGNPROXY__DRAIN__DELAY_SECONDS" in lines
    assert "keepalive_seconds: 75  # default" in lines
    assert f"path: {installation.parent}/policy.yaml  # {installation}:2" in lines
    assert f"issuer: https://idp.example  # {installation}:6" in lines


def test_what_is_printed_can_be_used_again(
    installation: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation that grew over years could not be written down."""
    monkeypatch.chdir(installation.parent)
    more = ("--set", "audit.sink=file", "--set", "audit.path=here/audit", "--socket", "s.sock", "--workers", "3")
    text = printed(capsys, "--config", installation.name, *more)
    again = used_again(text, installation.parent)
    assert again.workers == 3
    assert again.audit.path == str(installation.parent / "here/audit")
    # Once more, it says the same.
    later = printed(capsys, "--config", str(installation.parent / "again" / "signproxy.yaml"))
    assert _values(later) == _values(text)
    assert digest_of(used := load_settings(installation.parent / "again" / "signproxy.yaml", {})) in later
    assert used == again
    # What other tools read is the same as well.
    found = json.loads(printed(capsys, "--config", installation.name, *more, "--json"))
    assert yaml.safe_load(text) == found["settings"]


@pytest.mark.parametrize(
    "text",
    (
        *("", " ", "a b", " a", "a ", "no", "true", "null", "~", "12", "0660", "1.5", "1e3", "2026-01-01", "12:30"),
        *("#a", "a #b", "a: b", "a:", ":a", "- a", "-", "--- a", "...", "@a", "%a", "!a", "&a", "*a", "?a", "|", ">"),
        *("[a", "{a", "a,b", "a]b", "'a", '"a"', "it's", "\\", "a\\nb", "a\nb", "\t", "\x00\x1b[31m", "\x7f\x85"),
        *("\u00fc", "\u202eabc", "\ufeff", "\U0001f600", "=", "<<", "a=b", "https://a.example/b"),
    ),
)
def test_any_text_comes_back_as_it_was(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A value would turn into another one, break the file, or act on the terminal."""
    file = tmp_path / "s.yaml"
    token = {"sha256": "ab" * 32, "principal": text or "x", "roles": ["a", text or "x"]}
    storage = {"credentials": "p", "hosts": ["h"], "buckets": {text or "x": "p"}}
    document = {
        "policy": {"path": "/p"},
        "admin": {"role": text},
        "identity": {"static_tokens": [token]},
        "credentials": {"providers": {"p": {"class": "static"}}},
        "storages": {text or "x": storage},
    }
    # YAML has no surrogates, by which JSON escapes what is beyond the first plane.
    file.write_text(json.dumps(document, ensure_ascii=text.isascii() or text < "\U00010000"))
    settings = load_settings(file, {})
    out = printed(capsys, "--config", str(file))
    assert out.replace("\n", "").isprintable()
    assert used_again(out, tmp_path) == settings


def test_secrets_are_masked(
    installation: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output is made to be pasted into a ticket."""
    monkeypatch.setenv("SIGNPROXY__CREDENTIALS__PROVIDERS__PLUG__CLASS", "a.b:C")
    monkeypatch.setenv("SIGNPROXY__CREDENTIALS__PROVIDERS__PLUG__PROPERTIES__PASSWORD", SECRET)
    for more in ((), ("--json",)):
        text = printed(capsys, "--config", str(installation), *more)
        assert SECRET not in text
        assert "***" in text
        assert "SIGNPROXY__CREDENTIALS__PROVIDERS__PLUG__PROPERTIES__PASSWORD" in text
        # The names of files are shown: they are what an operator looks for.
        assert str(installation.parent / "key") in text


def test_json_is_for_tools(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tool would have to read comments."""
    found = json.loads(printed(capsys, "--config", str(installation), "--json", "--workers", "2"))
    assert found["config_digest"] == digest_of(load_settings(installation, {}, {"workers": "2"}))
    assert found["settings"]["workers"] == 2
    assert found["settings"]["identity"]["static_tokens"][0]["principal"] == "robot"
    assert found["settings"]["storages"]["main"]["hosts"] == ["127.0.0.1:9000"]
    assert found["sources"]["workers"] == "command line"
    assert found["sources"]["identity.static_tokens[0].principal"] == f"{installation}:13"
    assert found["sources"]["listen.tls.cert_file"] == "default"


def test_defaults_are_those_of_the_code(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A default would be shown as a value that the operator set."""
    monkeypatch.setenv("SIGNPROXY__LISTEN__PORT", "1")
    text = printed(capsys, "--defaults")
    assert "port: 8181  # default" in text
    sources = {line.rpartition("# ")[2] for line in text.splitlines()[1:] if "  # " in line}
    assert sources == {"default"}
    found = json.loads(printed(capsys, "--defaults", "--json"))
    assert found["config_digest"] == digest_of(Settings())


def test_settings_that_contradict_each_other_are_printed_all_the_same(
    installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator who looks for the reason of a fault would be refused because of the fault."""
    assert main(["print-config", "--config", str(installation), "--admin", "127.0.0.1:8181"]) == 1
    captured = capsys.readouterr()
    assert "port: 8181  # command line" in captured.out
    assert captured.err == "signproxy: command line: admin.port: 8181 is listen.port too\n"


def test_settings_that_cannot_be_read_are_told(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of the settings would look like all of them."""
    assert main(["print-config", "--config", str(installation), "--set", "workers=many"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "signproxy: command line: workers: a whole number expected, got text\n"


def _values(text: str) -> list[str]:
    return [line.partition("  # ")[0] for line in text.splitlines()[1:]]
