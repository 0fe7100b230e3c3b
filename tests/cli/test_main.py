"""The command line: commands are found, wrong usage is told, nothing ends in a stack trace."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from signproxy import __version__
from signproxy.cli import main
from signproxy.cli.main import COMMANDS


def run(*words: str, stdin: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "signproxy", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, **(env or {})},
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """A bug report could not name the version."""
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"signproxy {__version__} ")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"signproxy {__version__}\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    (
        ([], 2, "required: COMMAND"),
        (["serv"], 2, "invalid choice: 'serv'"),
        (["version", "--loud"], 2, "unrecognized arguments: --loud"),
        (["serve", "--conf", "x"], 2, "unrecognized arguments"),  # no guessing at abbreviations
        (["token"], 2, "required: WHAT"),
        (["serve", "--loop", "trio"], 2, "invalid choice: 'trio'"),
    ),
)
def test_wrong_usage_is_told(words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped command would start something else, or nothing without a word."""
    assert main(words) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "demo"])
def test_help_of_each_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command could not be learned."""
    assert main([command, "--help"]) == 0
    assert f"usage: signproxy {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    (
        (["serve", "--config", "missing.yaml"], "missing.yaml: cannot be read: No such file or directory"),
        (["serve"], "settings: policy.path: this key is missing; in the environment it is SIGNPROXY__POLICY__PATH"),
        (["serve", "--listen", "8181"], "command line: --listen: HOST:PORT expected, got '8181'"),
        (["serve", "--set", "policy.path"], "command line: --set policy.path: KEY=VALUE expected"),
        (["serve", "--set", "listen.prot=1"], "command line: listen.prot: unknown setting 'listen.prot'"),
        (
            ["serve", "--policy", "p", "--listen", "10.0.0.1:80"],
            "command line: listen.host: '10.0.0.1' is beyond loopback",
        ),
        (["serve", "--policy", "p", "--listen", "localhost:x"], "command line: listen.port: a whole number expected"),
        (["check-config"], "settings: policy.path: this key is missing"),
        (["explain", "--event", "x"], "command line: --event and --audit go together"),
    ),
)
def test_invalid_input_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator would have to read a stack trace."""
    assert main(words) == 1
    assert told in capsys.readouterr().err


def test_control_characters_of_input_are_shown_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """A file name or value from another party would act on the operator's terminal."""
    assert main(["serve", "--set", "log.\x1b]0;owned\x07\u202e=x"]) == 1
    told = capsys.readouterr().err
    assert "\\x1b]0;owned\\x07\\u202e" in told
    assert told.rstrip("\n").isprintable()


def test_the_module_runs_as_a_program() -> None:
    """`python -m signproxy` would not work in an image without scripts."""
    done = run("version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"signproxy {__version__} ")
    assert run("nonsense").returncode == 2


def test_a_bare_terminal_is_no_obstacle(installation: Path) -> None:
    """In a container without a locale, a message with an accent would end in a stack trace."""
    name = installation.parent / "caf\u00e9.yaml"
    done = run("check-config", "--config", str(name), env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 1
    assert "caf\\xe9.yaml: cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_fault() -> None:
    """`signproxy … | head` would end in a stack trace."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "signproxy", "version"],
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=50,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_ctrl_c_is_no_fault(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A user who interrupts a command would get a stack trace."""

    class Interrupted(io.StringIO):
        def read(self, _size: int | None = -1) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Interrupted())
    assert main(["token", "hash"]) == 130
    assert capsys.readouterr().err == ""


def test_light_commands_stay_light() -> None:
    """`token hash` in an init container would pay for the server's libraries."""
    code = (
        "import sys; from signproxy.cli import main; main(['version']);"
        "print(sorted({'aiohttp', 'yaml', 'jwt', 'structlog', 'cryptography', 'prometheus_client'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
