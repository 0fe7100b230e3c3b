"""What commands read and print is bounded and harmless."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from signproxy.cli.terminal import read_input, read_token, say
from signproxy.errors import Invalid


class Typed(io.StringIO):
    """A terminal at which a user types."""

    def isatty(self) -> bool:
        """Tell that it is one."""
        return True


def test_a_user_who_types_is_told_how_to_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command would seem to hang."""
    monkeypatch.setattr("sys.stdin", Typed("x" * 32))
    assert read_token(None, 100) == "x" * 32
    assert "Ctrl-D" in capsys.readouterr().err


def test_input_is_bounded(tmp_path: Path) -> None:
    """A wrong path would be read into memory whole."""
    file = tmp_path / "f"
    file.write_text("x" * 10)
    assert read_input(str(file), 10) == "x" * 10
    with pytest.raises(Invalid, match="is larger than 9 bytes"):
        read_input(str(file), 9)


def test_input_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A binary file would end in a stack trace."""
    file = tmp_path / "f"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(Invalid, match="is not UTF-8 text"):
        read_input(str(file), 10)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(Invalid, match="stdin: is not UTF-8 text"):
        read_input("-", 10)


def test_letters_of_any_script_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """A table with an accent in its name could not be read."""
    say("tabla ñandú 表 \u202e\x1b")
    assert capsys.readouterr().out == "tabla ñandú 表 \\u202e\\x1b\n"
