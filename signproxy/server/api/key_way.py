"""Issue S3 keys to callers who showed a bearer token: `POST {mount}/v1/s3-keys`.

What is issued opens the S3 listener alone, and no more of it than its holder may do at the time; the caller can have
it made narrower, never wider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from signproxy.answers.api_way import ApiWay
from signproxy.answers.bodies import read_whole
from signproxy.answers.reply import NO_STORE, Reply, answer
from signproxy.audit.event import rfc3339
from signproxy.config.container import ContainerProfile
from signproxy.errors import Reason, Refused
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement
from signproxy.gate.outcome import KEY_ID_SHOWN, Outcome
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import EmulatedKeys, IssuedKey, Parts
from signproxy.model import NAMESPACE_SEPARATOR, KeyScope, NamedTable, Subject, TableId
from signproxy.policy.state import PolicyState

MAX_KEY_REQUEST = 4096
"""A scope and a time. What it names travels in each request's session token."""

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

ANY = CatalogAddress()


class KeyRooms(NamedTuple):
    """What issues keys, for one generation of settings."""

    gate: Gate
    authenticator: Authenticator
    keys: EmulatedKeys
    for_upstream: bool
    """Whether a key holds its caller's own token, for an upstream."""
    profiles: Mapping[str, ContainerProfile] = MappingProxyType({})
    """What SDKs on loopback are given keys for."""


class KeyWay(ApiWay):
    """A request for a key."""

    # What is issued reaches no other process before its event is written.
    acts = False

    _wanted: KeyRequest
    _scope: KeyScope | None = None

    rooms: KeyRooms

    async def ask(self, subject: Subject | None) -> AskedFor:
        """Return what the key is to be good for. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        self.lease.take(self.limits.waiting)
        self._wanted = wanted = read_key_request(await read_whole(self.parsed, MAX_KEY_REQUEST))
        namespace = levels_of(wanted.namespace)
        target = NamedTable(namespace, wanted.table or "") if namespace else None
        address, catalog, held = self.address, "", subject.caller.scope
        if address == ANY:
            address = CatalogAddress(wanted.catalog)
            if wanted.catalog is None and not namespace and held is not None:
                # A key that is asked for with a table's token opens that table alone.
                catalog, target = held.catalog, NamedTable(held.namespace, held.name)
        return AskedFor(address, target, bearer=self.bearer, catalog=catalog)

    async def judge(self, subject: Subject | None, asked: AskedFor) -> Judgement:
        """Say whether the caller may have such a key. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        gate, held = self.rooms.gate, subject.caller.scope
        state, catalog = self.policy_of(gate), asked.catalog
        self._scope = scope = self._limited(state, subject, asked)
        tables = [] if held is None else [TableId(held.catalog, held.namespace, held.name)]
        if scope is not None:
            catalog = scope.catalog
            if scope.table:
                tables.append(TableId(scope.catalog, scope.namespace, scope.table))
        for table in tables:
            # Of a table of which the upstream keeps rows or columns from the caller, no key.
            await gate.check_restrictions(subject, asked.bearer, table)
        return self.admitted(subject, asked, catalog)

    def serve(self, judgement: Judgement, outcome: Outcome) -> Reply:
        """Issue the key. Raise Refused."""
        return self.given(answer(_told(self.issue(judgement, outcome)), self.request.request_id, NO_STORE))

    def issue(self, judgement: Judgement, outcome: Outcome, least: float = 0.0) -> IssuedKey:
        """Return a key as it was asked for, and note it. Raise Refused, also for one that lives less than `least`."""
        subject, wanted = judgement.subject, self._wanted
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        seconds = float("inf") if wanted.seconds is None else float(wanted.seconds)
        parts = Parts.TWO if wanted.without_token else Parts.THREE
        issued = self.rooms.keys.issue(
            subject.caller, self._scope, seconds, self.request.wall, self.bearer, parts=parts
        )
        left = issued.expires_at - self.request.wall
        if left < least:
            raise Refused(Reason.TOKEN_ENDS_SOON, f"its keys would end in {left:.0f} s")
        outcome.access_key_id = issued.access_key_id[-KEY_ID_SHOWN:]
        outcome.expires_at = rfc3339(int(issued.expires_at))
        outcome.detail = f"key …{outcome.access_key_id}, good until {outcome.expires_at}"
        return issued

    def given(self, reply: Reply) -> Reply:
        """Return an answer with a key as it goes out."""
        reply.known = True
        return self.finish(reply)

    def _limited(self, state: PolicyState, subject: Subject, asked: AskedFor) -> KeyScope | None:
        """Return what the key is limited to, in a catalog that its holder may know of; None for no limit at all.

        No caller learns here whether a namespace or a table exists: the key is good for the name.
        """
        wanted, namespace = self._wanted, levels_of(self._wanted.namespace)
        if self.address == ANY and wanted.catalog is None and not namespace:
            return None
        catalog = self.rooms.gate.catalog(state, subject, asked.address)
        if wanted.catalog not in (None, catalog.name):
            raise Refused(Reason.CATALOG_UNKNOWN, f"{wanted.catalog!r}, at the address of {catalog.name!r}")
        if wanted.table is None:
            return KeyScope(catalog.name, namespace)
        # What takes a dropped table's name is another table. Of learned ones nothing is known without asking.
        table = catalog.table(namespace, wanted.table) if catalog.learning is None else None
        return KeyScope(catalog.name, namespace, wanted.table, "" if table is None else table.uuid)


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
