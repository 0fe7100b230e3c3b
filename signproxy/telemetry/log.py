"""Write log lines as JSON, without secrets and without anything that could act on a terminal.

structlog is imported with the first line: a command that logs nothing does not pay its 18 MB.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import msgspec

from signproxy.telemetry.neutralise import neutralise

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

REDACTED = "[redacted]"
MAX_VALUE_CHARACTERS = 4096
"""A traceback of a deep stack has 3,000 to 4,000; what is longer was written by a caller."""

_MAX_DEPTH = 4
_SECRET_WORDS = ("authorization", "cookie", "credential", "password", "secret", "signature", "token")

_secret_types: set[type] = set()

T = TypeVar("T", bound=type)


class LogThreshold(Enum):
    """From which level lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Stream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object:
        """Take a line."""

    def flush(self) -> object:
        """Pass it on."""


def never_log(secret: T) -> T:
    """Mark a class whose values are replaced wherever they turn up in a log line."""
    _secret_types.add(secret)
    return secret


class Logger:
    """A named logger, light until it writes its first line."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields

    def bind(self, **fields: object) -> Logger:
        """Return a logger that adds these fields to every line, as a request's `request_id`."""
        return Logger({**self._fields, **fields})

    def debug(self, event: str, **fields: object) -> None:
        """Write what only helps to find a fault."""
        _bound().debug(event, **self._fields, **fields)

    def info(self, event: str, **fields: object) -> None:
        """Write what an operator expects to see happen."""
        _bound().info(event, **self._fields, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """Write what works, but not as it should."""
        _bound().warning(event, **self._fields, **fields)

    def error(self, event: str, **fields: object) -> None:
        """Write what does not work."""
        _bound().error(event, **self._fields, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """Write what does not work, with the trace of the exception that is being handled."""
        _bound().exception(event, **self._fields, **fields)


def get_logger(name: str) -> Logger:
    """Return the logger of a room."""
    return Logger({"logger": name})


def configure(level: LogThreshold = LogThreshold.INFO, stream: Stream | None = None) -> None:
    """Say what is written and where; standard error and `info` unless called. Loggers that exist follow."""
    _settings.level = level
    _settings.stream = stream
    _bound.cache_clear()


class _Settings:
    def __init__(self) -> None:
        self.level = LogThreshold.INFO
        self.stream: Stream | None = None


_settings = _Settings()


@cache
def _bound() -> FilteringBoundLogger:
    with _absent("better_exceptions", "rich"):
        import structlog  # noqa: PLC0415 - see the module's docstring

    logger: FilteringBoundLogger = structlog.wrap_logger(
        _Lines(_settings.stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            clean,
            _render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, _settings.level.name)),
        cache_logger_on_first_use=True,
    )
    return logger


@contextmanager
def _absent(*packages: str) -> Iterator[None]:
    """Let packages look as if they were not installed.

    structlog imports them for its coloured console where it finds them, at four times its own cost; lines of JSON
    have no colours. `None` is how the import system itself says that there is no such module.
    """
    hidden = [package for package in packages if package not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden, cast("ModuleType", None)))
    try:
        yield
    finally:
        for package in hidden:
            del sys.modules[package]


class _Lines:
    """What structlog writes through: one call per level, each a line."""

    def __init__(self, stream: Stream | None) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        # Looked up for each line: what redirects standard error means these lines too.
        stream = self._stream or sys.stderr
        # A line that can no longer be written decides nothing.
        with suppress(OSError, ValueError):
            stream.write(line)
            stream.flush()

    debug = info = warning = error = critical = msg


def clean(_logger: object, _method: str, line: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """Return the line without secrets, by type and by name, and with text that is safe to look at."""
    return _clean_mapping(line, _MAX_DEPTH)


def _clean(value: object, depth: int) -> object:
    if isinstance(value, tuple(_secret_types)):
        return REDACTED
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if not depth:
            # Its own text would show what lies inside, secret or not.
            return "…"
        if isinstance(value, Mapping):
            return _clean_mapping(value, depth - 1)
        return [_clean(each, depth - 1) for each in value]
    if isinstance(value, Enum):
        return _text(str(value.value))
    # Anything else speaks through `str`, which types with secrets redact.
    return _text(value if isinstance(value, str) else str(value))


def _clean_mapping(fields: Mapping[str, object], depth: int) -> dict[str, object]:
    return {
        _text(str(name)): REDACTED if _names_a_secret(str(name), value) else _clean(value, depth)
        for name, value in fields.items()
    }


def _names_a_secret(name: str, value: object) -> bool:
    # A number under such a name is a count or a time.
    lowered = name.lower()
    return any(word in lowered for word in _SECRET_WORDS) and not isinstance(value, bool | int | float | None)


def _text(text: str) -> str:
    # Line ends are escaped by JSON already, and a trace without them is hard to read.
    return "\n".join(neutralise(each) for each in text[:MAX_VALUE_CHARACTERS].split("\n"))


def _render(_logger: object, _method: str, line: MutableMapping[str, object]) -> str:
    first = {name: line[name] for name in ("ts", "level", "event") if name in line}
    return msgspec.json.encode({**first, **line}).decode() + "\n"
