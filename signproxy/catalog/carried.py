"""Read what clients carry for signproxy and bring back with sign requests: whose query it is, and what was begun.

Iceberg 1.12 repeats the `properties` of its `remote-signing-config`; older ones and PyIceberg repeat the query of the
sign endpoint that they were told. Application and query id are the client's word, for the audit alone. The context is
ours, sealed: what an upstream said of a table that is not there yet. None of it is authority.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_plus

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.sighting import Staged
from signproxy.sealing import SealBroken, Sealer

CONTEXT = "signproxy-context"
APPLICATION = "signproxy-application"
QUERY = "signproxy-query"
"""In `properties` and in queries alike."""

APPLICATION_HEADER = "X-Signproxy-Application"
QUERY_HEADER = "X-Signproxy-Query"
"""What clients say of themselves in catalog calls."""

MAX_WORD = 128
"""Characters of an application or a query id; theirs are UUIDs and names of jobs."""

MAX_REMEMBERED = 1024
"""Characters of a query; the longer ones hold a context, and are of one job that is about to create a table."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Staged).decode


class Carried(msgspec.Struct, frozen=True, gc=False):
    """What a sign request brought back; nothing of it is believed yet."""

    application: str = ""
    query_id: str = ""
    context: str = ""
    """Sealed."""


def read_carried(properties: Mapping[str, str | None] | None, query: str) -> Carried | None:
    """Return what the request carries by its message's properties, or else by its query; None where that is nothing.

    `query` is raw. Nothing is refused here: what cannot be read is not there.
    """
    if not properties:
        return _of_query(query) if len(query) <= MAX_REMEMBERED else _read_query(query)
    if "signproxy-" in query:
        properties = {**_parameters(query), **properties}
    return _of(properties)


def word(text: str | None) -> str:
    """Return what a client says of itself if it can be written down, else nothing."""
    return text if text and len(text) <= MAX_WORD and text.isprintable() else ""


class Contexts(NamedTuple):
    """Seals what an upstream said of a table that a client has begun to create, and opens it again."""

    sealer: Sealer
    seconds: float
    """How long files are signed for a table that was not committed."""

    def until(self, now: float) -> float:
        """Return the end of what begins now, in Unix time."""
        return now + self.seconds

    def seal(self, staged: Staged) -> str:
        """Return the context that the client is to carry; empty where it would be too long for that."""
        try:
            return self.sealer.seal(_encode(staged))
        except SealBroken:
            return ""

    def open(self, context: str, principal: str, now: float) -> Staged | None:
        """Return what was sealed for this principal; None where its time is over.

        Raise Refused (CONTEXT_INVALID) for what was altered, not sealed here, or sealed for another principal. To
        compare catalog and table is left to the code that knows what the request is about.
        """
        try:
            staged = _decode(self.sealer.open(context))
        except SealBroken as broken:
            raise Refused(Reason.CONTEXT_INVALID, str(broken)) from None
        except msgspec.MsgspecError:
            raise Refused(Reason.CONTEXT_INVALID, "of another version") from None
        if staged.principal != principal:
            raise Refused(Reason.CONTEXT_INVALID, f"sealed for {staged.principal!r}")
        return staged if now < staged.until else None


_NOTHING = Carried()


def _of(found: Mapping[str, str | None]) -> Carried | None:
    carried = Carried(word(found.get(APPLICATION)), word(found.get(QUERY)), found.get(CONTEXT) or "")
    return None if carried == _NOTHING else carried


def _read_query(query: str) -> Carried | None:
    return _of(_parameters(query)) if "signproxy-" in query else None


_of_query = lru_cache(maxsize=256)(_read_query)
"""A job brings the same query with each of its requests."""


def _parameters(query: str) -> dict[str, str]:
    """Return the parameters of ours. Of one that is given twice, the first counts."""
    found: dict[str, str] = {}
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if name in (CONTEXT, APPLICATION, QUERY) and name not in found:
            try:
                found[name] = unquote_plus(value, errors="strict")
            except UnicodeDecodeError:
                found[name] = ""
    return found
