"""Write the paths of an upstream: with its prefix and its separator of levels, which the settings or its config say."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote, unquote

import msgspec

from signproxy.catalog.flights import Flights
from signproxy.catalog.names import SEPARATOR
from signproxy.catalog.upstream import Upstream, own_question
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.errors import Reason, Refused
from signproxy.telemetry.log import get_logger

MAX_CONFIG = 1024 * 1024
"""Bytes of an answer to `/v1/config`; real ones have some kilobytes."""

MAX_PREFIX = 1024
MAX_SEPARATOR = 32

_SEGMENT = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})+")
_ANY_SEPARATOR = re.compile(re.escape(SEPARATOR), re.IGNORECASE)
_PARENT = re.compile(r"(?<![^&])parent=[^&]*")
_NAMESPACES = "namespaces/"

_log = get_logger("signproxy.upstream")


class _Config(msgspec.Struct, frozen=True):
    """What of a configuration concerns its paths."""

    defaults: dict[str, str | None] | None = None
    overrides: dict[str, str | None] | None = None

    def property(self, name: str) -> str:
        """Return what a client would go by."""
        value = (self.overrides or {}).get(name)
        return ((self.defaults or {}).get(name) if value is None else value) or ""


_decode = msgspec.json.Decoder(_Config).decode


class UpstreamPaths:
    """The paths of one upstream. They belong to the warehouse of the settings, and so are the same for every caller."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._prefix: str | None = upstream.spec.prefix or None
        self._separator: str | None = upstream.spec.separator or None
        self._flights: Flights[bytes, None] = Flights()

    @property
    def config_target(self) -> str:
        """The path and query of its configuration."""
        warehouse = self._upstream.spec.warehouse
        return self.config_target_of(warehouse) if warehouse else "v1/config"

    @staticmethod
    def config_target_of(warehouse: str) -> str:
        """The path and query of the configuration of any warehouse."""
        return f"v1/config?warehouse={quote(warehouse, safe='')}"

    async def leads_here(self, config: bytes, authorization: str | None, request_id: str) -> bool:
        """Whether a configuration has the paths that are asked here: its warehouse is the one of the settings.

        Raise Refused if it holds no path, or the upstream has to be asked in vain.
        """
        if self._prefix is None:
            await self._learn(authorization, request_id)
        return _read(config).property("prefix") == (self._prefix or "")

    async def target(self, path: str, query: str, authorization: str | None, request_id: str) -> str:
        """Return the target of a path below the prefix, in which %1F stands between levels.

        Raise Refused where the upstream has to be asked in vain, or would read another namespace.
        """
        parent = _PARENT.search(query)
        levels = parent is not None or SEPARATOR in path
        if self._prefix is None or (levels and self._separator is None):
            await self._learn(authorization, request_id)
        separator = self._separator or SEPARATOR
        if separator != SEPARATOR:
            path = _spoken(path, separator)
            query = _PARENT.sub(lambda found: _ANY_SEPARATOR.sub(lambda _: separator, found[0]), query)
        below = f"v1/{self._prefix}/{path}" if self._prefix else f"v1/{path}"
        return f"{below}?{query}" if query else below

    def note(self, config: bytes) -> None:
        """Learn from an answer of `/v1/config` that passes by. Raise Refused if it holds no path of its own."""
        told = _read(config)
        prefix, separator = told.property("prefix"), told.property("namespace-separator") or SEPARATOR
        if not _is_prefix(prefix):
            raise _invalid("a prefix that is no encoded path")
        if not _is_separator(separator):
            raise _invalid("a namespace-separator that no path can hold")
        spec = self._upstream.spec
        if not spec.prefix:
            if self._prefix is not None and prefix != self._prefix:
                _log.warning("upstream changed its prefix", catalog=spec.catalog)
            self._prefix = prefix
        if not spec.separator:
            self._separator = separator

    async def aclose(self) -> None:
        """End what is under way."""
        await self._flights.aclose()

    async def _learn(self, authorization: str | None, request_id: str) -> None:
        # By the whole header: a token that is refused must not be another caller's fault.
        key = hashlib.sha256((authorization or "").encode()).digest()
        await self._flights.join(key, lambda: self._ask(authorization, request_id))

    async def _ask(self, authorization: str | None, request_id: str) -> None:
        question = own_question(self.config_target, authorization, request_id, self._upstream.spec.times.load)
        async with await self._upstream.ask(question) as answer:
            if answer.status != 200:
                raise Refused(reason_of_status(answer.status), f"/v1/config of the upstream: status {answer.status}")
            self.note(await answer.whole(MAX_CONFIG))


def _read(config: bytes) -> _Config:
    try:
        return _decode(config)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _invalid("no JSON object with defaults and overrides") from None


def _spoken(path: str, separator: str) -> str:
    """Return a path with the upstream's separator; no other part of it holds ours."""
    if not path.startswith(_NAMESPACES):
        return path
    namespace, slash, rest = path.removeprefix(_NAMESPACES).partition("/")
    if separator in namespace:
        # One level here would be two there.
        raise Refused(Reason.ROUTE_MALFORMED, f"a level holds {separator!r}, which separates levels in the upstream")
    return f"{_NAMESPACES}{namespace.replace(SEPARATOR, separator)}{slash}{rest}"


def _invalid(problem: str) -> Refused:
    return Refused(Reason.UPSTREAM_INVALID, f"/v1/config of the upstream: {problem}")


def _is_prefix(prefix: str) -> bool:
    """Whether it stays where it is put, however it is read; a prefix may have several segments (AWS Glue)."""
    if not prefix:
        return True
    segments = prefix.split("/")
    return len(prefix) <= MAX_PREFIX and all(
        _SEGMENT.fullmatch(each) and unquote(each) not in (".", "..") for each in segments
    )


def _is_separator(separator: str) -> bool:
    """Whether it is part of a segment in every reading."""
    decoded = unquote(separator)
    return (
        len(separator) <= MAX_SEPARATOR
        and _SEGMENT.fullmatch(separator) is not None
        and not set(decoded) & {"/", "\\", "%", "?", "#", ";"}
        and (separator == SEPARATOR or decoded.isprintable())
    )
