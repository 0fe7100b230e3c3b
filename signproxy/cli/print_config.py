"""Print every setting as it is in the end, and where that was said; secrets are masked."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from signproxy.cli import serve
from signproxy.cli.terminal import complain, say, say_json
from signproxy.config.effective import MASK, Leaf, Plain, Tree, defaults, effective
from signproxy.config.load import digest_of, merge
from signproxy.config.settings import Settings
from signproxy.documents import child, load_yaml
from signproxy.errors import DocumentInvalid

VALID = 0
INVALID = 1

_SIMPLE = re.compile(r"[A-Za-z0-9_./+-](?:[A-Za-z0-9_./@%+:=~ -]*[A-Za-z0-9_./@%+=~-])?")
"""Text that may stand without quotes, if both loaders agree that it is text."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --defaults, --json and the flags of a start, so that its very command line can be looked at."""
    serve.arguments(parser)
    parser.add_argument("--defaults", action="store_true", help="print what is in force where nothing is set")
    parser.add_argument("--json", action="store_true", help="print JSON: `settings` as in a file, `sources` by path")


def run(options: argparse.Namespace) -> int:
    """Print the settings, also those that contradict each other; settings that cannot be read are told instead."""
    if options.defaults:
        _print(defaults(), digest_of(Settings()), options)
        return VALID
    source = serve.source_of(options)
    merged = merge(Path(source.file) if source.file else None, os.environ, source.overrides)
    settings = merged.decode()
    _print(effective(settings, merged), digest_of(settings), options)
    findings = merged.contradictions(settings)
    for finding in findings:
        complain(str(finding))
    return INVALID if findings else VALID


def _print(tree: dict[str, Tree], digest: str, options: argparse.Namespace) -> None:
    if options.json:
        sources: dict[str, str] = {}
        say_json({"config_digest": digest, "settings": _values(tree, "", sources), "sources": sources})
        return
    say(f"# config_digest: {digest}")
    if MASK in (text := "\n".join(_yaml(tree, 0))):
        say(f"# {MASK} stands for what may be a secret")
    for line in text.split("\n"):
        say(line)


def _values(tree: Tree, path: str, sources: dict[str, str]) -> object:
    match tree:
        case Leaf():
            sources[path] = tree.source
            return tree.value
        case dict():
            return {name: _values(below, child(path, name), sources) for name, below in tree.items()}
        case list():
            return [_values(below, child(path, index), sources) for index, below in enumerate(tree)]


def _yaml(tree: dict[str, Tree], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, below in tree.items():
        key = f"{indent}{_scalar(name)}:"
        match below:
            case Leaf():
                yield f"{key} {_plain(below.value)}  # {below.source}"
            case dict():
                yield key
                yield from _yaml(below, depth + 1)
            case list():
                yield key
                for member in below:
                    yield from _member(member, depth + 1)


def _member(member: Tree, depth: int) -> Iterator[str]:
    """Write a section that is a member of a list; lists of plain values are leaves."""
    if not isinstance(member, dict):  # pragma: no cover - for the type checker: lists of leaves are leaves
        raise TypeError(type(member))
    first, *others = _yaml(member, depth + 1)
    yield f"{'  ' * depth}- {first.lstrip()}"
    yield from others


def _plain(value: Plain) -> str:
    match value:
        case str():
            return _scalar(value)
        case list():
            return f"[{', '.join(map(_plain, value))}]"
        case _:
            return json.dumps(value)


def _scalar(text: str) -> str:
    """Return text as the settings' YAML reads it back; on the terminal it can do nothing."""
    if _SIMPLE.fullmatch(text) and ": " not in text and _reads_as_itself(text):
        return text
    return '"' + "".join(map(_sign, text)) + '"'


def _reads_as_itself(text: str) -> bool:
    """Whether it is this text without quotes; other tools take more for numbers and booleans: `0660`, `no`."""
    try:
        return load_yaml(text, "") == text and bool(yaml.safe_load(text) == text)
    except (DocumentInvalid, yaml.YAMLError, ValueError):
        return False


def _sign(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    if sign.isascii() and sign.isprintable():
        return sign
    code = ord(sign)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
