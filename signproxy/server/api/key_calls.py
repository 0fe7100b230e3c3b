"""Issue S3 keys to callers who showed a bearer token: `POST {mount}/v1/s3-keys`.

What is issued opens the S3 listener alone, and no more of it than its holder may do at the time; the caller can have
it made narrower, never wider.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from signproxy.answers.bodies import read_whole
from signproxy.answers.reply import Reply
from signproxy.answers.wire import NO_STORE, answer
from signproxy.audit.event import rfc3339
from signproxy.errors import Reason, Refused
from signproxy.gate.gate import CatalogAddress, Gate
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.identity.emulated import EmulatedKeys, IssuedKey, Parts
from signproxy.model import NAMESPACE_SEPARATOR, KeyScope, NamedTable, Subject, TableId

MAX_KEY_REQUEST = 4096
"""A scope and a time. What it names travels in each request's session token."""

_HINT = 4
"""Last characters of the access key id that the audit keeps."""

# As in a route: a separator inside a name would move a level.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Level = Annotated[str, Meta(min_length=1, max_length=1024)]


class KeyRequest(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, rename="kebab"):
    """What a key is to be good for. A misspelt member would make it wider than was meant, so there are no others."""

    catalog: Level | None = None
    namespace: Level | Annotated[tuple[Level, ...], Meta(min_length=1, max_length=64)] | None = None
    table: Level | None = None
    seconds: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    without_token: bool = False
    """Whether the key is for a client that takes no session token."""


class KeyAnswer(msgspec.Struct, frozen=True, gc=False, rename="kebab", omit_defaults=True):
    """A key as it is handed out."""

    access_key_id: str
    secret_access_key: str
    expires_at: str
    """RFC 3339, in UTC."""
    session_token: str = ""

    def __repr__(self) -> str:
        return f"KeyAnswer({self.access_key_id!r}, ***, {self.expires_at!r})"


_decode = msgspec.json.Decoder(KeyRequest).decode


class KeyCalls:
    """Answers requests for keys."""

    __slots__ = ("_gate", "_keys", "_recorder")

    def __init__(self, keys: EmulatedKeys, gate: Gate, recorder: Recorder) -> None:
        self._keys = keys
        self._gate = gate
        self._recorder = recorder

    async def answer(
        self, passage: Passage, subject: Subject, address: CatalogAddress, request: web.BaseRequest
    ) -> Reply:
        """Return a key for the caller, once the trail has taken its event. Raise Refused."""
        asked = read_key_request(await read_whole(request, MAX_KEY_REQUEST))
        scope = self._scope(passage, subject, address, asked)
        seconds = float("inf") if asked.seconds is None else float(asked.seconds)
        parts = Parts.TWO if asked.without_token else Parts.THREE
        await self._check_restrictions(passage, subject, scope)
        issued = self._keys.issue(subject.caller, scope, seconds, passage.wall, passage.bearer, parts=parts)
        held = subject.caller.scope
        if scope is None and held is not None:
            # A key that is asked for with a table's token opens that table alone.
            passage.catalog, passage.target = held.catalog, NamedTable(held.namespace, held.name)
        told = _told(issued)
        passage.access_key_id = issued.access_key_id[-_HINT:]
        passage.expires_at = told.expires_at
        self._recorder.passed(passage, 200, f"key …{passage.access_key_id}, good until {told.expires_at}")
        reply = answer(told, passage.request_id, NO_STORE)
        reply.known = True
        return reply

    async def _check_restrictions(self, passage: Passage, subject: Subject, scope: KeyScope | None) -> None:
        """Refuse a key for a table of which the upstream keeps rows or columns from the caller."""
        held = subject.caller.scope
        tables = [] if held is None else [TableId(held.catalog, held.namespace, held.name)]
        if scope is not None and scope.table:
            tables.append(TableId(scope.catalog, scope.namespace, scope.table))
        for table in tables:
            await self._gate.check_restrictions(passage, subject, table)

    def _scope(self, passage: Passage, subject: Subject, address: CatalogAddress, asked: KeyRequest) -> KeyScope | None:
        """Return what the key is limited to, in a catalog that its holder may know of; None for no limit at all.

        No caller learns here whether a namespace or a table exists: the key is good for the name.
        """
        namespace = levels_of(asked.namespace)
        if namespace:
            passage.target = NamedTable(namespace, asked.table or "")
        if address == _ANY:
            if asked.catalog is None and not namespace:
                return None
            address = CatalogAddress(asked.catalog)
        catalog = self._gate.catalog(passage, self._gate.state, subject, address)
        if asked.catalog not in (None, catalog.name):
            raise Refused(Reason.CATALOG_UNKNOWN, f"{asked.catalog!r}, at the address of {catalog.name!r}")
        if asked.table is None:
            return KeyScope(catalog.name, namespace)
        # What takes a dropped table's name is another table. Of learned ones nothing is known without asking.
        table = catalog.table(namespace, asked.table) if catalog.learning is None else None
        return KeyScope(catalog.name, namespace, asked.table, "" if table is None else table.uuid)


_ANY = CatalogAddress()


def read_key_request(content: bytes) -> KeyRequest:
    """Return what was asked for; nothing at all asks for a key without limits of its own. Raise Refused."""
    if not content.strip():
        return KeyRequest()
    try:
        asked = _decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Refused(Reason.MESSAGE_MALFORMED, str(error)) from None
    if asked.table is not None and asked.namespace is None:
        raise Refused(Reason.MESSAGE_MALFORMED, "a table without its namespace")
    names = (asked.catalog or "", asked.table or "", levels_of(asked.namespace).replace(NAMESPACE_SEPARATOR, ""))
    if any(map(_CONTROL.search, names)):
        raise Refused(Reason.MESSAGE_MALFORMED, "a name with control characters")
    return asked


def levels_of(namespace: str | tuple[str, ...] | None) -> str:
    """Return a namespace as it stands on the wire; a text has its levels joined by dots, as in a policy."""
    if namespace is None:
        return ""
    levels: Sequence[str] = namespace
    if isinstance(namespace, str):
        levels = namespace.split(NAMESPACE_SEPARATOR if NAMESPACE_SEPARATOR in namespace else ".")
    joined = NAMESPACE_SEPARATOR.join(levels)
    if not all(joined.split(NAMESPACE_SEPARATOR)):
        raise Refused(Reason.MESSAGE_MALFORMED, "a namespace with an empty level")
    return joined


def _told(issued: IssuedKey) -> KeyAnswer:
    # Never later than it really ends: a client that renews it a second before would be too late.
    ends = rfc3339(int(issued.expires_at))
    return KeyAnswer(issued.access_key_id, issued.secret_access_key, ends, issued.session_token)
