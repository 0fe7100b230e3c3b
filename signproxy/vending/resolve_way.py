"""Answer requests for the keys of a path: `POST {mount}/v1/credentials/resolve`.

Readers that are asked for keys path by path, as native scans are, know no tables. They are told which locations the
keys are good for, so that they ask once for each table and access, and not once for each file.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from signproxy.answers.api_way import ApiWay
from signproxy.answers.bodies import read_whole
from signproxy.answers.reply import NO_STORE, Reply, answer
from signproxy.audit.event import rfc3339
from signproxy.catalog.carried import APPLICATION_HEADER, QUERY_HEADER, word
from signproxy.errors import Reason, Refused
from signproxy.gate.calls import known_catalog
from signproxy.gate.judgement import Judgement, OpenQuestion
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor
from signproxy.gate.vendable import Vendable
from signproxy.gate.work import Account
from signproxy.model import BY_LOCATION, Ceiling, Subject
from signproxy.policy.catalog import Overlap
from signproxy.policy.location import Location
from signproxy.policy.table import Place
from signproxy.s3.key import check_key
from signproxy.s3.request import ObjectRef
from signproxy.telemetry.log import never_log
from signproxy.vending.scope import CatalogPlaces
from signproxy.vending.vend_way import VendRooms
from signproxy.vending.vended import VendedKeys
from signproxy.vending.vending import check_renewable, check_unchanged

CALL = "resolve_credentials"
"""What events call it."""

MAX_RESOLVE_REQUEST = 8192
"""A key of 1,024 bytes, as JSON may escape it."""

RENEW_SECONDS = 300.0
"""How long before their end keys are asked for anew: a request that begins with them has time to end."""


class PathMode(Enum):
    """What is to be done at a path."""

    READ = "READ"
    WRITE = "WRITE"


_CEILINGS = {PathMode.READ: Ceiling.READ_ONLY, PathMode.WRITE: Ceiling.NONE}


class ResolveRequest(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Which path keys are asked for, and what they are to do. The path is a key as it is, in no encoding."""

    bucket: Annotated[str, Meta(min_length=1, max_length=255)]
    path: Annotated[str, Meta(max_length=1026)]
    """May begin and end with a slash, which is not part of the key."""
    mode: PathMode


class PolicyLocation(msgspec.Struct, frozen=True, gc=False):
    """A bucket, and what keys begin with below which one set of keys is good; the prefix ends with a slash."""

    bucket: str
    prefix: str


class CacheRule(msgspec.Struct, frozen=True, gc=False, rename="kebab"):
    """How long a client may use the same keys again, and for which paths."""

    until: str
    """RFC 3339; then it asks again."""
    match: Literal["longest-segments"] = "longest-segments"
    """Of all locations that it was told, the longest that a path lies below, by whole segments, has the keys."""
    other_paths: Literal["ask"] = "ask"


@never_log
class ResolvedKeys(msgspec.Struct, frozen=True, gc=False, rename="kebab"):
    """Keys as they are handed out for a path."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    expiration: str
    """RFC 3339, in UTC."""
    expiration_ms: int
    mode: PathMode
    """That for which they were asked: keys that read are never used to write."""
    policy_locations: tuple[PolicyLocation, ...]
    cache: CacheRule
    config: dict[str, str]
    """How the store is reached where the keys are good."""

    def __repr__(self) -> str:
        return f"ResolvedKeys({self.policy_locations!r}, ***)"


_decode = msgspec.json.Decoder(ResolveRequest).decode


class ResolveWay(ApiWay):
    """A request for the keys of a path."""

    _path: ObjectRef
    _mode: PathMode
    _vendable: Vendable
    _places: tuple[Place, ...]

    rooms: VendRooms

    async def ask(self, subject: Subject | None) -> AskedFor:
        """Return in which catalog keys are asked for. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        self.lease.take(self.limits.waiting)
        headers = self.message.headers
        self.asked = AskedFor(
            self.address,
            BY_LOCATION,
            bearer=self.bearer,
            application=word(headers.get(APPLICATION_HEADER)),
            query_id=word(headers.get(QUERY_HEADER)),
        )
        catalog = known_catalog(self.policy_of(self.rooms.gate), subject, self.address)
        self.asked = replace(self.asked, catalog=catalog.name)
        self._path, self._mode = read_resolve_request(await read_whole(self.parsed, MAX_RESOLVE_REQUEST))
        return self.asked

    def judge(self, subject: Subject | None, asked: AskedFor) -> Judgement | OpenQuestion:
        """Say whether the caller may have keys for the table of the path, and for which places. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        gate = self.rooms.gate
        self.policy_of(gate)
        found = gate.vend.judge_path(subject, asked, self._path, _CEILINGS[self._mode])
        judgement = self.admitted(subject, asked, asked.catalog)
        if not isinstance(found, Vendable):
            return OpenQuestion(judgement, found)
        self._vendable, self._places = found, self._own_places(found)
        return replace(judgement, allow=found.keys.allow, table_uuid=found.table.uuid)

    async def serve(self, judgement: Judgement, outcome: Outcome) -> Reply:
        """Hand out the keys. Raise Refused."""
        subject, request = judgement.subject, self.request
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        caller, gate, ceiling = subject.caller, self.rooms.gate, _CEILINGS[self._mode]
        account = Account(self.limits, caller.name)
        now, vending = time.time(), self.rooms.vending
        vended = await vending.vend(self._vendable, account, caller, self.bearer, request.event_id, now)
        check_unchanged(
            gate, self._vendable, lambda: gate.vend.judge_path(subject, judgement.asked, self._path, ceiling)
        )
        check_renewable(vended, subject)
        outcome.vended = vended.handed
        told = _told(vended.keys, self._mode, self._places, vended.store.properties)
        reply = answer(told, request.request_id, NO_STORE)
        reply.known = True
        return self.finish(reply)

    def _own_places(self, vendable: Vendable) -> tuple[Place, ...]:
        """Return the places of the table that are no other's, for which alone keys may be kept. Raise Refused."""
        catalog, table, path = vendable.catalog, vendable.table, self._path
        if catalog.overlap is Overlap.FORBIDDEN:
            return table.places
        known = None if catalog.learning is None else self.rooms.known
        others = CatalogPlaces(catalog, table, known, time.time())
        own = tuple(each for each in table.places if not others.meets(Location(each.bucket, each.prefix[:-1])))
        if not any(place.holds(path.bucket, path.key) for place in own):
            told = f"{str(table.id)!r} shares its location around {path.key!r} with another table or a volume"
            raise Refused(Reason.SCOPE_NOT_VENDABLE, told)
        return own


def read_resolve_request(content: bytes) -> tuple[ObjectRef, PathMode]:
    """Return the path that keys are asked for, with a slash at its end, and what they are to do. Raise Refused."""
    try:
        asked = _decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Refused(Reason.MESSAGE_MALFORMED, str(error)) from None
    key = asked.path.removeprefix("/").removesuffix("/")
    check_key(key)
    return ObjectRef(asked.bucket, f"{key}/"), asked.mode


def _told(keys: VendedKeys, mode: PathMode, places: tuple[Place, ...], config: dict[str, str]) -> ResolvedKeys:
    return ResolvedKeys(
        keys.access_key_id,
        keys.secret_access_key,
        keys.session_token,
        # Never later than they really end.
        rfc3339(int(keys.expires_at)),
        int(keys.expires_at * 1000),
        mode,
        tuple(PolicyLocation(place.bucket, place.prefix) for place in places),
        CacheRule(rfc3339(int(keys.expires_at - RENEW_SECONDS))),
        config,
    )
