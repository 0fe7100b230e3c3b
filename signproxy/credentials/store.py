"""Keep the current credentials of every storage and bucket, refreshed ahead of their expiry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from math import inf
from time import time
from typing import NamedTuple

from signproxy.credentials.bindings import check_bindings
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.provider import Binding, CredentialProvider, ProviderSpec
from signproxy.credentials.registry import ProviderRegistry, key_of
from signproxy.errors import Finding, ProviderInvalid, Reason, Refused
from signproxy.model import SessionScope
from signproxy.s3.storage import Storage
from signproxy.telemetry.log import get_logger

REFRESH_SECONDS = 300.0
"""Credentials without an expiry are asked for again after this, so that rotated files are seen."""
MIN_REMAINING_SECONDS = 60.0
"""Credentials that are given with less life left than the shortest signature has are a fault of the provider."""
GET_SECONDS = 30.0
"""A provider that has not answered by then is asked anew."""
FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0
"""A failed refresh is repeated after ever longer pauses; half a session's life has room for many."""

_log = get_logger("signproxy.credentials")


class CredentialState(NamedTuple):
    """What can be told of the credentials of a storage, or of one bucket with a provider of its own."""

    storage: str
    bucket: str
    expires_at: float | None
    """Unix time; 0 while there are none, None if they do not expire."""
    problem: str


class CredentialStore:
    """Answer with credentials at once; a task per provider and scope keeps them fresh in the background."""

    __slots__ = ("_clock", "_registry", "_slots", "_starting", "_table")

    def __init__(self, registry: ProviderRegistry | None = None, *, clock: Callable[[], float] = time) -> None:
        self._registry = registry or ProviderRegistry()
        self._clock = clock
        self._table: dict[tuple[str, str], _Slot] = {}
        self._slots: dict[_Place, _Slot] = {}
        self._starting = asyncio.Lock()

    def current(self, storage: Storage, bucket: str) -> Credentials:
        """Return the credentials for a bucket, or raise Refused. Never waits."""
        slot = self._table.get((storage.name, bucket))
        if slot is None:
            raise Refused(Reason.CREDENTIALS_UNAVAILABLE, f"storage {storage.name!r} is not bound")
        if slot.credentials is None or self._clock() >= slot.good_until:
            raise Refused(Reason.CREDENTIALS_UNAVAILABLE, f"storage {storage.name!r}: {slot.problem or 'expired'}")
        return slot.credentials

    async def start(self, storages: Iterable[Storage], bindings: Sequence[Binding]) -> None:
        """Serve exactly these storages from now on; on a reload, swap to them in one step.

        Raise ProviderInvalid if a binding or a provider cannot be used: then everything stays as it was. A provider
        that merely has no answer yet does not stop the others, and is asked again in the background.
        """
        storages = tuple(storages)
        async with self._starting:
            if findings := check_bindings(storages, bindings):
                raise ProviderInvalid(findings)
            wanted = _places(storages, bindings)
            try:
                slots = await self._slots_for(wanted)
            except BaseException:
                await self._registry.retain(key_of(place.spec, place.storage.name) for place in self._slots)
                raise
            table = {
                (place.storage.name, bucket): slots[place] for place, buckets in wanted.items() for bucket in buckets
            }
            gone = [slot for place, slot in self._slots.items() if place not in slots]
            self._slots, self._table = slots, table
            await asyncio.gather(*(slot.aclose() for slot in gone))
            await self._registry.retain(key_of(place.spec, place.storage.name) for place in slots)

    async def refresh(self) -> None:
        """Ask every provider now, as an operator who rotated keys wants it; return when all were asked."""
        await asyncio.gather(*(slot.refresh() for slot in self._slots.values()))

    @property
    def states(self) -> list[CredentialState]:
        """How each storage, and each bucket with a provider of its own, is doing."""
        now = self._clock()
        return [slot.state(now) for slot in self._slots.values()]

    @property
    def expiries(self) -> dict[tuple[str, ...], float]:
        """When the first credentials of each storage expire: 0 if some are missing, infinity if none ever do."""
        soonest: dict[tuple[str, ...], float] = {}
        for state in self.states:
            expires_at = inf if state.expires_at is None else state.expires_at
            soonest[state.storage,] = min(expires_at, soonest.get((state.storage,), inf))
        return soonest

    async def aclose(self) -> None:
        """Stop refreshing, forget all credentials and close the providers."""
        async with self._starting:
            slots, self._slots, self._table = self._slots, {}, {}
            await asyncio.gather(*(slot.aclose() for slot in slots.values()))
            await self._registry.aclose()

    async def _slots_for(self, wanted: Iterable[_Place]) -> dict[_Place, _Slot]:
        """Return a slot per place: the one in use if nothing about it changed, else a new and filled one."""
        new = [place for place in wanted if place not in self._slots]
        made = await asyncio.gather(
            *(self._registry.get(place.spec, place.storage.name) for place in new), return_exceptions=True
        )
        used = {place.use: slot for place, slot in self._slots.items()}
        findings: list[Finding] = []
        fresh: dict[_Place, _Slot] = {}
        for place, result in zip(new, made, strict=True):
            if isinstance(result, ProviderInvalid):
                findings += [each for each in result.findings if each not in findings]
            elif isinstance(result, BaseException):
                raise result
            else:
                fresh[place] = _Slot(place, result, self._clock)
                # A storage that only got another endpoint keeps what it has if the provider has no answer just now.
                fresh[place].inherit(used.get(place.use))
        if findings:
            raise ProviderInvalid(findings)
        await asyncio.gather(*(slot.start() for slot in fresh.values()))
        return {place: fresh.get(place) or self._slots[place] for place in wanted}


class _Place(NamedTuple):
    """A use of a provider: a storage as the policy has it, or one bucket of it."""

    storage: Storage
    bucket: str
    class_path: str
    properties: tuple[tuple[str, str], ...]
    name: str

    @property
    def use(self) -> tuple[object, ...]:
        """All of it but how the policy describes the storage."""
        return self.storage.name, *self[1:]

    @property
    def spec(self) -> ProviderSpec:
        return ProviderSpec(self.class_path, dict(self.properties), self.name)


class _Slot:
    """The credentials of one place, and the task that keeps them fresh."""

    __slots__ = (
        "_answered",
        "_asking",
        "_clock",
        "_place",
        "_provider",
        "_task",
        "credentials",
        "good_until",
        "problem",
    )

    def __init__(self, place: _Place, provider: CredentialProvider, clock: Callable[[], float]) -> None:
        self.credentials: Credentials | None = None
        self.good_until = 0.0
        self.problem = "not asked for yet"
        self._place = place
        self._provider = provider
        self._clock = clock
        self._answered = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def inherit(self, former: _Slot | None) -> None:
        """Take over what the same provider gave for the same place before."""
        if former is not None:
            self.credentials, self.good_until = former.credentials, former.good_until

    async def start(self) -> None:
        """Ask once, then keep asking in the background."""
        await self.refresh()
        self._task = asyncio.get_running_loop().create_task(self._keep_fresh())

    async def refresh(self) -> None:
        """Ask the provider, together with whoever is asking already."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        await asyncio.shield(self._asking)

    async def aclose(self) -> None:
        """Stop asking."""
        tasks = [task for task in (self._task, self._asking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def state(self, now: float) -> CredentialState:
        """Tell how it is doing."""
        known = self.credentials is not None and now < self.good_until
        expires_at = self.credentials.expires_at if known and self.credentials is not None else 0.0
        return CredentialState(self._place.storage.name, self._place.bucket, expires_at, self.problem)

    async def _keep_fresh(self) -> None:
        pause = FIRST_RETRY_SECONDS
        while True:
            self._answered.clear()
            try:
                async with asyncio.timeout(pause if self.problem else self._until_refresh()):
                    # Somebody else's refresh may bring a shorter life, or an error, and so another time.
                    await self._answered.wait()
            except TimeoutError:
                await self.refresh()
                pause = min(2 * pause, LAST_RETRY_SECONDS) if self.problem else FIRST_RETRY_SECONDS

    def _until_refresh(self) -> float:
        if self.good_until == inf:
            return REFRESH_SECONDS
        # Half of the life that is left; asked anew, so that a session is replaced long before it ends.
        return max((self.good_until - self._clock()) / 2, FIRST_RETRY_SECONDS)

    async def _ask(self) -> None:
        """Ask the provider. What it has given before stays in use while it is good, whatever happens."""
        place = self._place
        try:
            async with asyncio.timeout(GET_SECONDS):
                given = await self._provider.get(place.storage, SessionScope(place.storage.name, place.bucket))
            self._take(given)
        except Exception as error:  # noqa: BLE001 - supervisor: a plug-in may raise anything, and must be asked again
            self.problem = f"{type(error).__name__}: {error}"
            _log.error(
                "getting credentials failed", storage=place.storage.name, bucket=place.bucket, error=self.problem
            )
        finally:
            self._asking = None
            self._answered.set()

    def _take(self, given: object) -> None:
        if not isinstance(given, Credentials):
            # Above all None, which would mean "sign with nothing".
            raise ProviderInvalid([Finding("", "", f"the provider returned {type(given).__name__}, not Credentials")])
        remaining = inf if given.expires_at is None else given.expires_at - self._clock()
        if remaining < MIN_REMAINING_SECONDS:
            raise ProviderInvalid([Finding("", "", f"the provider returned credentials with {remaining:.0f} s left")])
        # The same object as long as nothing changed: derived signing keys hang on it.
        if given != self.credentials:
            self.credentials = given
        self.good_until = inf if given.expires_at is None else given.expires_at
        self.problem = ""


def _places(storages: Iterable[Storage], bindings: Iterable[Binding]) -> dict[_Place, list[str]]:
    """Return each use of a provider with the buckets that it serves."""
    by_name = {binding.storage: binding for binding in bindings}
    places: dict[_Place, list[str]] = {}
    for storage in storages:
        binding = by_name[storage.name]
        for bucket in storage.buckets:
            own = binding.buckets.get(bucket)
            place = _place(storage, "", binding.provider) if own is None else _place(storage, bucket, own)
            places.setdefault(place, []).append(bucket)
    return places


def _place(storage: Storage, bucket: str, spec: ProviderSpec) -> _Place:
    return _Place(storage, bucket, spec.class_path, tuple(sorted(spec.properties.items())), spec.name)
