"""Answer with the current credentials of every storage and bucket, and swap them all in one step."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from time import time
from typing import NamedTuple

from signproxy.credentials.bindings import check_bindings
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.provider import Binding, CredentialProvider, ProviderSpec
from signproxy.credentials.registry import BUILT_IN, PROVIDERS, Key, ProviderRegistry, key_of
from signproxy.credentials.slot import CredentialState, RefreshResult, Slot
from signproxy.errors import Finding, ProviderInvalid, Reason, Refused
from signproxy.s3.storage import Storage


class PreparedCredentials(NamedTuple):
    """What `commit` will serve: made and filled, and not in use yet."""

    slots: dict[_Place, Slot]
    table: dict[tuple[str, str], Slot]
    modules: tuple[str, ...]


class CredentialStore:
    """Answer with credentials at once; a task per provider and scope keeps them fresh in the background."""

    def __init__(self, registry: ProviderRegistry | None = None, *, clock: Callable[[], float] = time) -> None:
        self._registry = registry or ProviderRegistry()
        self._clock = clock
        self._counts: Counter[RefreshResult] = Counter(dict.fromkeys(RefreshResult, 0))
        self._table: dict[tuple[str, str], Slot] = {}
        self._slots: dict[_Place, Slot] = {}
        self._open: PreparedCredentials | None = None
        self._wanted: tuple[_Place, ...] = ()
        self._preparing = asyncio.Lock()

    def current(self, storage: Storage, bucket: str) -> Credentials:
        """Return the credentials for a bucket that the storage lists, or raise Refused. Never waits."""
        return self._good(storage, self._table.get((storage.name, bucket)))

    def current_of_any(self, storage: Storage, bucket: str) -> Credentials:
        """Return the credentials for a bucket; those of the storage for one that is not listed. Raise Refused.

        For a volume may stand for buckets that clients make. That it does has been judged before.
        """
        table = self._table
        return self._good(storage, table.get((storage.name, bucket)) or table.get((storage.name, _UNLISTED)))

    def _good(self, storage: Storage, slot: Slot | None) -> Credentials:
        if slot is None:
            raise Refused(Reason.CREDENTIALS_UNAVAILABLE, f"storage {storage.name!r} is not bound")
        if slot.credentials is None or self._clock() >= slot.good_until:
            raise Refused(Reason.CREDENTIALS_UNAVAILABLE, f"storage {storage.name!r}: {slot.problem or 'expired'}")
        return slot.credentials

    async def start(self, storages: Iterable[Storage], bindings: Sequence[Binding]) -> None:
        """Serve exactly these storages from now on: `prepare` and `commit` in one."""
        await self.commit(await self.prepare(storages, bindings))

    async def prepare(
        self, storages: Iterable[Storage], bindings: Sequence[Binding], *, modules: Iterable[str] | None = None
    ) -> PreparedCredentials:
        """Make and fill whatever these storages need beyond what is there; nothing that serves changes.

        `modules` are those beside signproxy's own from which classes may come; None leaves them as they are.

        Raise ProviderInvalid if a binding or a provider cannot be used, or if a bucket that has credentials now would
        have none afterwards. What has none now does not hold up the others: it is asked for in the background.

        One preparation is open at a time. A new one discards the last, whose owner may have gone away.
        """
        storages = tuple(storages)
        async with self._preparing:
            await self._discard_open()
            if findings := check_bindings(storages, bindings):
                raise ProviderInvalid(findings)
            allowed = self._registry.allowed if modules is None else (BUILT_IN, *modules)
            uses = _uses(storages, bindings)
            # From here on: whatever is closed meanwhile, a commit included, leaves these instances alone.
            self._wanted = tuple(uses)
            try:
                slots = await self._slots_for(uses, allowed)
            except BaseException:
                self._wanted = ()
                await self._close(())
                raise
            table = {(place.storage.name, bucket): slots[place] for place in uses for bucket in uses[place].buckets}
            prepared = self._open = PreparedCredentials(slots, table, allowed)
            if findings := list(self._losses(prepared)):
                await self._discard_open()
                raise ProviderInvalid(findings)
            return prepared

    def commit(self, prepared: PreparedCredentials) -> Awaitable[None]:
        """Serve what was prepared, from this call on; awaiting the result closes what it replaced.

        Raise RuntimeError if it was discarded, or committed before.
        """
        if prepared is not self._open:
            raise RuntimeError("this preparation is not open: it was discarded, replaced by another, or committed")
        gone = [slot for place, slot in self._slots.items() if place not in prepared.slots]
        self._slots, self._table = prepared.slots, prepared.table
        self._registry.allowed = prepared.modules
        self._open, self._wanted = None, ()
        return self._close(gone)

    async def discard(self, prepared: PreparedCredentials) -> None:
        """Close what was prepared and is not in use. May be called twice, and after a commit, which it leaves alone."""
        if prepared is self._open:
            await self._discard_open()

    async def refresh(self) -> None:
        """Ask every provider now, as when keys were rotated; return when all have answered or failed."""
        await asyncio.gather(*(slot.refresh() for slot in self._slots.values()))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that credentials are read from: `refresh` when one of them changes."""
        found = {file: None for slot in self._slots.values() for file in slot.provider.files()}
        return tuple(found)

    @property
    def states(self) -> list[CredentialState]:
        """How each storage, and each bucket with a provider of its own, is doing."""
        now = self._clock()
        return [slot.state(now) for slot in self._slots.values()]

    @property
    def refreshes(self) -> dict[str, int]:
        """How often providers were asked since the start, by result."""
        return {result.value: self._counts[result] for result in RefreshResult}

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
        async with self._preparing:
            await self._discard_open()
            slots, self._slots, self._table = self._slots, {}, {}
            await self._close(slots.values())

    async def _slots_for(self, uses: dict[_Place, _Use], allowed: tuple[str, ...]) -> dict[_Place, Slot]:
        """Return a slot per place: the one in use if nothing about it changed, else a new and filled one."""
        new = [place for place in uses if place not in self._slots]
        made: list[CredentialProvider] = []
        findings: list[Finding] = []
        for result in await asyncio.gather(
            # What stays is looked at too: its module may have been taken off the list.
            *(self._registry.check(use.spec, allowed) for use in uses.values()),
            *(self._registry.get(uses[place].spec, place.storage.name, allowed) for place in new),
            return_exceptions=True,
        ):
            if isinstance(result, ProviderInvalid):
                findings += [each for each in result.findings if each not in findings]
            elif isinstance(result, BaseException):
                raise result
            elif result is not None:
                made.append(result)
        if findings:
            raise ProviderInvalid(findings)
        former = {place.use: slot for place, slot in self._slots.items()}
        fresh: dict[_Place, Slot] = {}
        for place, provider in zip(new, made, strict=True):
            fresh[place] = Slot(place.storage, place.bucket, place.name, provider, self._clock, self._counts)
            # A storage that only got another endpoint keeps what it has if the provider has no answer just now.
            if place.use in former:
                fresh[place].inherit(former[place.use])
        try:
            await asyncio.gather(*(slot.start() for slot in fresh.values()))
        except BaseException:
            await asyncio.gather(*(slot.aclose() for slot in fresh.values()))
            raise
        return {place: fresh.get(place) or self._slots[place] for place in uses}

    def _losses(self, prepared: PreparedCredentials) -> Iterator[Finding]:
        """Yield each place that would have no credentials although its buckets have some now."""
        now = self._clock()
        told: set[int] = set()
        for bucket, slot in prepared.table.items():
            before = self._table.get(bucket)
            if before is None or not before.usable(now) or slot.usable(now) or id(slot) in told:
                continue
            told.add(id(slot))
            state = slot.state(now)
            problem = f"storage {state.storage!r} would lose the credentials that it has: {state.problem}"
            yield Finding("", f"{PROVIDERS}.{state.provider}", problem)

    async def _discard_open(self) -> None:
        prepared, self._open, self._wanted = self._open, None, ()
        if prepared is not None:
            await self._close(slot for place, slot in prepared.slots.items() if place not in self._slots)

    async def _close(self, gone: Iterable[Slot]) -> None:
        """Close slots, and the providers that nothing uses."""
        await asyncio.gather(*(slot.aclose() for slot in gone))
        used = (*self._slots, *self._wanted)
        await self._registry.retain(place.key for place in used)


_UNLISTED = ""
"""Stands among the buckets of a storage for those that it does not list; none where each that it lists has its own."""


class _Place(NamedTuple):
    """A use of a provider: a storage as the policy has it, or one bucket of it."""

    storage: Storage
    bucket: str
    key: Key
    name: str

    @property
    def use(self) -> tuple[object, ...]:
        """All of it but how the policy describes the storage."""
        return self.storage.name, *self[1:]


class _Use(NamedTuple):
    """What a place is made from, and the buckets that it serves."""

    spec: ProviderSpec
    buckets: list[str]


def _uses(storages: Iterable[Storage], bindings: Iterable[Binding]) -> dict[_Place, _Use]:
    by_name = {binding.storage: binding for binding in bindings}
    uses: dict[_Place, _Use] = {}
    for storage in storages:
        binding = by_name[storage.name]
        for bucket in storage.buckets:
            own = binding.buckets.get(bucket)
            spec = own or binding.provider
            place = _Place(storage, bucket if own else "", key_of(spec, storage.name), spec.name)
            uses.setdefault(place, _Use(spec, [])).buckets.append(bucket)
        place = _Place(storage, "", key_of(binding.provider, storage.name), binding.provider.name)
        if place in uses:
            uses[place].buckets.append(_UNLISTED)
    return uses
