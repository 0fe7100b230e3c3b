"""Bend an input where it means something: a field of the message, rather than a byte of its JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from tests.fuzz.seeds import WORDS

MAX_TEXT = 4096
"""Longer texts only meet the limits, and slow the search down."""


def mutate(data: bytes, chance: Random) -> bytes:
    """Return an input with one change, seldom more."""
    head, raw = data[:1] or b"\0", data[1:]
    try:
        message = json.loads(raw)
    except ValueError:
        return head + _bytes(raw, chance)
    if not isinstance(message, dict) or chance.random() < 0.02:
        return head + _bytes(raw, chance)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(_CHANGES)(message, chance)
    if chance.random() < 0.03:
        head = bytes([chance.randrange(256)])
    # Escaped or not, as JSON libraries differ; a lone surrogate can only be escaped.
    try:
        return head + json.dumps(message, ensure_ascii=chance.random() < 0.5).encode()
    except UnicodeEncodeError:
        return head + json.dumps(message).encode()


_HOST = re.compile(r"[a-z]+://[^/?]*/?")


def _uri(message: dict[str, Any], chance: Random) -> None:
    uri = str(message.get("uri", ""))
    host = _HOST.match(uri)
    # Behind the host: before it there is one way to be right.
    kept = host.end() if host is not None and chance.random() < 0.9 else 0
    message["uri"] = uri[:kept] + _text(uri[kept:], chance)


def _method(message: dict[str, Any], chance: Random) -> None:
    message["method"] = chance.choice(("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "", "get"))


def _region(message: dict[str, Any], chance: Random) -> None:
    message["region"] = chance.choice(("us-west-2", "us-east-1", ""))


def _body(message: dict[str, Any], chance: Random) -> None:
    if "body" not in message and chance.random() < 0.8:
        return
    message["body"] = _text(str(message.get("body") or "<Delete><Object><Key>wh/t1/a</Key></Object></Delete>"), chance)


def _header(message: dict[str, Any], chance: Random) -> None:
    headers = message.get("headers")
    if not isinstance(headers, dict):
        message["headers"] = {}
        return
    name = chance.choice([*headers, *WORDS])
    values = headers.get(name)
    match chance.randrange(5):
        case 0:
            headers.pop(name, None)
        case 1:
            headers[_text(name, chance)] = [_text("", chance)]
        case 2:
            headers[name] = [chance.choice(WORDS)]
        case 3 if isinstance(values, list) and values:
            headers[name] = [_text(str(values[0]), chance), *values[1:]]
        case _:
            headers[name] = [*(values if isinstance(values, list) else []), chance.choice(WORDS)][:3]


def _field(message: dict[str, Any], chance: Random) -> None:
    name = chance.choice([*message, "provider", "properties", "body"])
    message[name] = chance.choice(
        (None, "", "s3", [], {}, 0, True, "x" * chance.choice((1, 100, 9000)), [[]], {"a": None})
    )


# How often each is chosen.
_WEIGHTS: dict[Callable[[dict[str, Any], Random], None], int] = {
    _uri: 12, _header: 8, _body: 3, _method: 2, _region: 1, _field: 1,
}  # fmt: skip
_CHANGES = tuple(change for change, weight in _WEIGHTS.items() for _ in range(weight))


def _text(text: str, chance: Random) -> str:
    place = chance.randint(0, len(text))
    end = min(len(text), place + chance.choice((0, 0, 1, 2, 8)))
    match chance.randrange(6):
        case 0 | 1 | 2:
            put = chance.choice(WORDS)
        case 3:
            put = chr(chance.choice((chance.randrange(128), chance.randrange(0x110000))))
        case 4:
            # A piece of the text itself: doubled segments, parameters, tags.
            start = chance.randint(0, len(text))
            put = text[start : start + chance.randint(1, 40)]
        case _:
            put = text[place:end].swapcase() if chance.random() < 0.5 else ""
    return (text[:place] + put + text[end:])[:MAX_TEXT]


def _bytes(raw: bytes, chance: Random) -> bytes:
    place = chance.randint(0, len(raw))
    return raw[:place] + chance.randbytes(chance.randint(0, 3)) + raw[place + chance.randint(0, 3) :]
