"""Keep the credentials of one place fresh: ask before they end, one question at a time, and tell how that goes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from enum import Enum
from math import inf

import msgspec

from signproxy.credentials.credentials import Credentials
from signproxy.credentials.provider import CredentialProvider
from signproxy.errors import Finding, ProviderInvalid
from signproxy.model import SessionScope
from signproxy.s3.storage import Storage
from signproxy.telemetry.log import get_logger

REFRESH_SECONDS = 300.0
"""Credentials without an expiry are asked for again after this, so that rotated keys are seen."""
LONGEST_REFRESH_SECONDS = 3600.0
"""Sessions are asked for again after this at the latest: a clock that is behind makes them look longer-lived."""
MIN_REMAINING_SECONDS = 60.0
"""Credentials that are given with less life left than the shortest signature has are a fault of the provider."""
GET_SECONDS = 30.0
"""A provider that has not answered by then is asked anew."""
FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0
"""A failed refresh is repeated after ever longer pauses; half a session's life has room for many."""
JITTER = 0.2
"""How much shorter or longer a pause may be: workers that started together must not ask together for ever."""
LOOK_SECONDS = 5.0
"""How late a step of the wall clock is noticed: pauses are measured by the other clock, which knows no steps."""

_log = get_logger("signproxy.credentials")


class RefreshResult(Enum):
    """How asking a provider ended."""

    RENEWED = "renewed"
    UNCHANGED = "unchanged"
    FAILED = "failed"


class CredentialState(msgspec.Struct, frozen=True):
    """What can be told of the credentials of a storage, or of one bucket with a provider of its own."""

    storage: str
    bucket: str
    provider: str
    """The provider's name in the settings."""
    expires_at: float | None
    """Unix time; 0 while there are none, None if they do not expire."""
    refreshed_at: float
    """Unix time of the last good answer; 0 before the first."""
    failures: int
    """Refreshes that failed since the last good one."""
    problem: str
    """Why the last refresh failed; empty if it did not."""


class Slot:
    """The credentials of one storage, or of one bucket of it, and the task that keeps them fresh."""

    def __init__(
        self,
        storage: Storage,
        bucket: str,
        name: str,
        provider: CredentialProvider,
        clock: Callable[[], float],
        counts: Counter[RefreshResult],
    ) -> None:
        self.credentials: Credentials | None = None
        self.good_until = 0.0
        """Unix time. Also 0 once as much time as they had left has gone by, whatever the wall clock says."""
        self.problem = "not asked for yet"
        self.refreshed_at = 0.0
        self.failures = 0
        self._storage = storage
        self._scope = SessionScope(storage.name, bucket)
        self._name = name
        self._log = _log.bind(storage=storage.name, bucket=bucket, provider=name)
        self._provider = provider
        self._clock = clock
        self._counts = counts
        self._ends = inf
        self._lapse: asyncio.TimerHandle | None = None
        self._answered = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._begun = False
        self._task: asyncio.Task[None] | None = None

    @property
    def provider(self) -> CredentialProvider:
        return self._provider

    def inherit(self, former: Slot) -> None:
        """Take over what the same provider gave for the same place before."""
        self.credentials, self.refreshed_at = former.credentials, former.refreshed_at
        self._good_until(former.good_until, former._ends)

    async def start(self) -> None:
        """Ask once, then keep asking in the background."""
        await self.refresh()
        self._task = asyncio.get_running_loop().create_task(self._keep_fresh())

    async def refresh(self) -> None:
        """Ask the provider for what it has now; callers that wait for the same question share its answer."""
        if self._asking is not None and self._begun:
            # It may have read a file that was replaced since.
            await asyncio.shield(self._asking)
        if self._asking is None:
            self._begun = False
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        await asyncio.shield(self._asking)

    async def aclose(self) -> None:
        """Stop asking, and forget the credentials."""
        tasks = [task for task in (self._task, self._asking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.credentials = None
        self._good_until(0.0, inf)

    def usable(self, now: float) -> bool:
        """Whether there are credentials that are good at a Unix time."""
        return self.credentials is not None and now < self.good_until

    def state(self, now: float) -> CredentialState:
        """Tell how it is doing."""
        expires_at = self.credentials.expires_at if self.credentials is not None and now < self.good_until else 0.0
        scope = self._scope
        return CredentialState(
            scope.storage, scope.bucket, self._name, expires_at, self.refreshed_at, self.failures, self.problem
        )

    async def _keep_fresh(self) -> None:
        pause = FIRST_RETRY_SECONDS
        while True:
            self._answered.clear()
            if await self._passes(_spread(pause if self.problem else self._until_refresh())):
                await self.refresh()
                pause = min(2 * pause, LAST_RETRY_SECONDS) if self.problem else FIRST_RETRY_SECONDS

    async def _passes(self, seconds: float) -> bool:
        """Wait until so much time has passed by either clock; return False if another refresh came first.

        That may have brought a shorter life, or an error, and so another time.
        """
        monotonic = asyncio.get_running_loop().time
        ends, ends_at = monotonic() + seconds, self._clock() + seconds
        while (left := min(ends - monotonic(), ends_at - self._clock())) > 0:
            try:
                async with asyncio.timeout(min(left, LOOK_SECONDS)):
                    await self._answered.wait()
            except TimeoutError:
                continue
            return False
        return True

    def _until_refresh(self) -> float:
        if self.good_until == inf:
            return REFRESH_SECONDS
        # Half of the life that is left; asked anew, so that a session is replaced long before it ends.
        half = (self.good_until - self._clock()) / 2
        return min(max(half, FIRST_RETRY_SECONDS), LONGEST_REFRESH_SECONDS)

    async def _ask(self) -> None:
        """Ask the provider. What it has given before stays in use while it is good, whatever happens."""
        self._begun = True
        try:
            async with asyncio.timeout(GET_SECONDS):
                given = await self._provider.get(self._storage, self._scope)
            self._counts[self._take(given)] += 1
        except Exception as error:  # noqa: BLE001 - supervisor: a plug-in may raise anything, and must be asked again
            self._failed(error)
        finally:
            self._asking = None
            self._answered.set()

    def _failed(self, error: Exception) -> None:
        what = str(error) or (f"no answer within {GET_SECONDS:.0f} s" if isinstance(error, TimeoutError) else "")
        self.problem = f"{type(error).__name__}: {what}"
        self.failures += 1
        self._counts[RefreshResult.FAILED] += 1
        self._log.error(
            "getting credentials failed",
            error=self.problem,
            failures=self.failures,
            good_for_seconds=_shown(self.good_until - self._clock()),
        )

    def _take(self, given: object) -> RefreshResult:
        if not isinstance(given, Credentials):
            # Above all None, which would mean "sign with nothing".
            raise ProviderInvalid([Finding("", "", f"the provider returned {type(given).__name__}, not Credentials")])
        now = self._clock()
        remaining = inf if given.expires_at is None else given.expires_at - now
        if remaining < MIN_REMAINING_SECONDS:
            hint = "; compare this machine's clock with the provider's" if remaining <= 0 else ""
            problem = f"the provider returned credentials with {remaining:.0f} s left{hint}"
            raise ProviderInvalid([Finding("", "", problem)])
        if self.failures:
            self._log.info("getting credentials works again", failures=self.failures)
        result = RefreshResult.UNCHANGED
        # The same object as long as nothing changed: derived signing keys hang on it.
        if given != self.credentials:
            self.credentials = given
            result = RefreshResult.RENEWED
        self._good_until(now + remaining, asyncio.get_running_loop().time() + remaining)
        self.refreshed_at = now
        self.failures = 0
        self.problem = ""
        return result

    def _good_until(self, expires_at: float, ends: float) -> None:
        """Set when they end, by the wall clock and by the one that knows no steps; the earlier counts.

        The wall clock is compared on each request. A timer watches the other, so that a wall clock that steps back
        does not make dead credentials look alive.
        """
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None
        self.good_until, self._ends = expires_at, ends
        if ends < inf:
            self._lapse = asyncio.get_running_loop().call_at(ends, self._lapsed)

    def _lapsed(self) -> None:
        self.good_until = 0.0


def _spread(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, protects nothing


def _shown(seconds: float) -> float | None:
    """Return what a log line says of a remaining time: whole seconds, none if it never ends."""
    return None if seconds == inf else max(round(seconds), 0)
