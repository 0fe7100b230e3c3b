"""Read what a command is given and write what it found, harmless for the terminal that shows it."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from signproxy.errors import Finding, Invalid
from signproxy.telemetry.neutralise import neutralise

STDIN = "-"


def prepare_streams() -> None:
    """Let no character that the terminal's encoding lacks end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str = "") -> None:
    """Print a line; characters that could act on the terminal are shown as escapes."""
    print(neutralise(line))


def complain(line: str) -> None:
    """Print a line to stderr, as harmless."""
    print(f"signproxy: {neutralise(line)}", file=sys.stderr)


def say_json(value: object) -> None:
    """Print a value as JSON in ASCII, which holds no acting characters."""
    print(json.dumps(value, ensure_ascii=True, indent=2))


def read_input(name: str, limit: int) -> str:
    """Return the text of a file, or of stdin for `-`; raise Invalid if it is unreadable or over `limit` bytes."""
    what = "stdin" if name == STDIN else name
    try:
        if name == STDIN:
            raw = sys.stdin.buffer.read(limit + 1) if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode()
        else:
            with Path(name).open("rb") as stream:
                raw = stream.read(limit + 1)
    except OSError as error:
        raise _invalid(what, f"cannot be read: {error.strerror}") from None
    if len(raw) > limit:
        raise _invalid(what, f"is larger than {limit} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _invalid(what, "is not UTF-8 text") from None


def read_token(name: str | None, limit: int) -> str:
    """Return a token from a file or stdin, never from the command line, where every process can read it."""
    if name is None and sys.stdin.isatty():
        complain("paste the token, then end the input with Ctrl-D")
    token = read_input(STDIN if name is None else name, limit).strip()
    if not token:
        raise _invalid("stdin" if name in (None, STDIN) else str(name), "holds no token")
    return token.removeprefix("Bearer ").strip()


def _invalid(file: str, problem: str) -> Invalid:
    return Invalid([Finding(file, "", problem)])


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Put a file into its place once all of it is on the disk: a server may read it at any moment. Raise Invalid."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as out:
            out.writelines(chunks)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise Invalid([Finding(str(path), "", f"cannot be written: {error.strerror}")]) from None
