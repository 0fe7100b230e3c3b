"""Hand out sessions: one for all that ask alike at once, kept while it is young, and proved before it is made.

What was decided comes before what is kept: only a caller who was allowed gets here, and whether another table shares
the place is asked each time. A session is kept under everything that it depends on, the policy's epoch included. What
failed is not kept.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from time import time

import msgspec

from signproxy.errors import Reason, Refused, anew
from signproxy.gate.turns import in_pieces
from signproxy.policy.location import Location
from signproxy.policy.table import MetadataLevel, Overwrite
from signproxy.telemetry.log import get_logger
from signproxy.vending.session_check import closed, excess
from signproxy.vending.session_policy import key_arn, session_policy
from signproxy.vending.sts import SessionService, SessionWanted
from signproxy.vending.vended import VendAccess, VendedKeys, VendScope

MAX_SESSIONS = 4096
"""Sessions that are kept, each some 3 KiB; the one that was asked for longest ago makes room."""
MAX_UNDER_WAY = 1024
"""Different sessions of one storage that may be waited for at a time."""
MAX_EACH = 128
"""The same of one principal: callers that go away leave what they asked for under way, and others queue behind it."""
MAX_AHEAD = 16
"""From so many on none is replaced ahead of time: no caller waits for that, and it takes the place of one that does."""
KEPT_SECONDS = 360.0
"""With less life left a session is handed to no caller: clients replace theirs five minutes before the end."""
REFRESH_SHARE = 0.5
"""The share of its life after which the next caller has a session replaced, without waiting for it."""
JITTER = 0.1
RETRY_SECONDS = 5.0
"""The pause after a replacement that failed, while the old session is still good."""
SWEEP_SECONDS = 60.0
"""How often sessions are forgotten that no caller asks for any more."""
LATEST_STEP = 60.0
"""Callers whose tokens end within the same minute share a session, which ends with the first of them."""

_log = get_logger("signproxy.vending")


class _Key(msgspec.Struct, frozen=True):
    """Everything that a session depends on. What the operator set is the same for all of a vendor."""

    storage: str
    locations: tuple[Location, ...]
    access: VendAccess
    metadata: MetadataLevel
    metadata_locations: tuple[Location, ...]
    overwrite: Overwrite
    principal: str
    policy_epoch: int
    latest: float | None


class _Minted(msgspec.Struct):
    """A session, and until when it is handed out."""

    keys: VendedKeys
    handed_out_until: float
    """Unix time."""
    ends: float
    """The same by the clock that knows no steps."""
    refresh_at: float
    """Unix time."""


class SessionVendor:
    """Hand out sessions of session services."""

    def __init__(
        self,
        services: Mapping[str, SessionService],
        *,
        clock: Callable[[], float] = time,
        limit: int = MAX_SESSIONS,
    ) -> None:
        """`services` are those of the storages by name; a storage without one has no sessions."""
        self.counts: Counter[str] = Counter()
        """How often services were asked, by the code of the reason with which that ended."""
        self._services = services
        self._clock = clock
        self._limit = limit
        self._minted: OrderedDict[_Key, _Minted] = OrderedDict()
        self._under_way: dict[_Key, asyncio.Task[VendedKeys]] = {}
        # Storage -> how many of them: a service that does not answer holds up no other.
        self._asked: Counter[str] = Counter()
        self._swept = 0.0
        self._looking = asyncio.Lock()

    @property
    def storages(self) -> frozenset[str]:
        """The storages that have sessions."""
        return frozenset(self._services)

    def __len__(self) -> int:
        """Return how many sessions are kept."""
        return len(self._minted)

    async def vend(self, scope: VendScope) -> VendedKeys:
        """Return keys that reach no further and live no longer than the scope, or raise Refused."""
        service = self._services.get(scope.storage)
        if service is None:
            raise Refused(Reason.SCOPE_NOT_VENDABLE, f"storage {scope.storage!r} has no session service")
        for location in scope.locations:
            if met := scope.others.meets(location):
                raise Refused(Reason.SCOPE_NOT_VENDABLE, f"{str(location)!r} is shared with {met}")
        key = _key_of(scope)
        minted = self._minted.get(key)
        now = self._clock()
        if minted is not None and now < minted.handed_out_until and _monotonic() < minted.ends:
            self._minted.move_to_end(key)
            if now >= minted.refresh_at and key not in self._under_way and self._asked[key.storage] < MAX_AHEAD:
                minted.refresh_at = now + _spread(RETRY_SECONDS)
                self._begin(key, service, scope)
            return minted.keys
        asked = self._under_way.get(key)
        if asked is None:
            if self._asked[key.storage] >= MAX_UNDER_WAY:
                raise Refused(Reason.SESSIONS_THROTTLED, f"{MAX_UNDER_WAY} sessions are waited for")
            if sum(each.principal == key.principal for each in self._under_way) >= MAX_EACH:
                raise Refused(Reason.SESSIONS_THROTTLED, f"{MAX_EACH} sessions of {key.principal!r} are waited for")
            scope.charge()
            asked = self._begin(key, service, scope)
        try:
            # One of the callers that gives up leaves it to the others.
            return await asyncio.shield(asked)
        except Refused as refusal:
            raise anew(refusal) from None

    async def aclose(self) -> None:
        """Ask no more, and forget every session."""
        tasks = tuple(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._minted.clear()
        for service in self._services.values():
            service.aclose()

    def _begin(self, key: _Key, service: SessionService, scope: VendScope) -> asyncio.Task[VendedKeys]:
        task = asyncio.get_running_loop().create_task(self._mint(key, service, scope))
        self._under_way[key] = task
        self._asked[key.storage] += 1
        task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def _ended(self, key: _Key, task: asyncio.Task[VendedKeys]) -> None:
        del self._under_way[key]
        self._asked[key.storage] -= 1
        if task.cancelled():
            return
        fault = task.exception()
        if fault is None:
            self.counts[Reason.ALLOWED.code] += 1
            return
        reason = fault.reason if isinstance(fault, Refused) else Reason.INTERNAL
        self.counts[reason.code] += 1
        if reason not in _OF_THE_TABLE:
            # Those that wait are told as well; a replacement has no caller that waits. What is no refusal of ours may
            # hold what it was about.
            told = str(fault) if isinstance(fault, Refused) else type(fault).__name__
            _log.error("getting a session failed", storage=key.storage, error=told)

    async def _mint(self, key: _Key, service: SessionService, scope: VendScope) -> VendedKeys:
        if not service.source.language.tells_case:
            await self._tell_apart(scope)
        policy = _proved(scope, service)
        question = SessionWanted(policy, scope.principal, scope.event_id, scope.locations[0].bucket, key.latest)
        keys = await service.ask(question)
        now = self._clock()
        life = keys.expires_at - now
        kept = life - KEPT_SECONDS
        self._sweep(now)
        self._minted[key] = _Minted(
            keys, now + kept, _monotonic() + kept, now + min(_spread(REFRESH_SHARE * life), kept)
        )
        self._minted.move_to_end(key)
        if len(self._minted) > self._limit:
            self._minted.popitem(last=False)
        return keys

    async def _tell_apart(self, scope: VendScope) -> None:
        """Refuse a scope that is another's to a store that knows no case: SCOPE_NOT_VENDABLE."""
        for location in scope.locations:
            # One at a time, so that however many wait, a turn of the loop is one piece of it.
            async with self._looking:
                other = await in_pieces(scope.others.resembles(location))
            if other:
                detail = f"{str(location)!r} differs from a place of {other} by the case of letters alone"
                raise Refused(Reason.SCOPE_NOT_VENDABLE, detail)

    def _sweep(self, now: float) -> None:
        if not 0 <= now - self._swept < SWEEP_SECONDS:
            self._swept = now
            for key in [key for key, minted in self._minted.items() if now >= minted.handed_out_until]:
                del self._minted[key]


_OF_THE_TABLE = (Reason.SCOPE_NOT_VENDABLE, Reason.SCOPE_TOO_LARGE, Reason.SESSION_TOO_SHORT)
"""Reasons that only the caller needs to know: the service does what it should."""


def _key_of(scope: VendScope) -> _Key:
    latest = scope.latest
    return _Key(
        scope.storage,
        scope.locations,
        scope.access,
        scope.metadata,
        scope.metadata_locations,
        scope.overwrite,
        scope.principal,
        scope.policy_epoch,
        None if latest is None else latest // LATEST_STEP * LATEST_STEP,
    )


def _proved(scope: VendScope, service: SessionService) -> str:
    """Return the session policy of a scope once it is proved to say no more. Raise Refused."""
    storage, language = service.source.storage, service.source.language
    policy = session_policy(scope, storage, language)
    keys: Iterable[str] = filter(key_arn, storage.opt_ins.kms_keys)
    beyond = excess(policy, scope, language, keys, literal=storage.literal_keys)
    if beyond:
        _log.error("a session policy says more than was decided", beyond=beyond, policy=policy)
        raise Refused(Reason.SESSION_UNPROVED, f"the session policy allows {beyond}")
    if shut := closed(policy, scope, language):
        raise Refused(Reason.SCOPE_NOT_VENDABLE, f"{shut!r} has a folder with the name of what is denied")
    return policy


def _monotonic() -> float:
    return asyncio.get_running_loop().time()


def _spread(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, protects nothing
