"""Keep an issuer's published keys fresh: fetched ahead of need, once for all callers, kept while it is down."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping

from signproxy.identity.fetch import TIMEOUT, Fetch, Fetched, Trust, fetch
from signproxy.identity.issuer import Discovery, Issuer, JwksUrl
from signproxy.identity.key_source import KeyHealth, KeySource
from signproxy.identity.key_url import KeysUnusable, KeyUrl, parse_key_url
from signproxy.identity.keys import KeySet, parse_jwks
from signproxy.identity.show import shown
from signproxy.telemetry.log import get_logger

COOL_DOWN = 60.0
"""Seconds between two fetches for the sake of unknown `kid`s: any client can make one up.

It holds for the issuer, not for a `kid`. Remembering single ones for longer would let a stranger name tomorrow's
`kid` today, and so keep it unknown when it comes.
"""

FRESH_SHARE = 0.8
"""Keys are fetched anew at this share of their `max-age`, so that no caller ever waits for it."""
MIN_REFRESH = COOL_DOWN
MAX_REFRESH = 3_600.0
"""A withdrawn key is trusted for an hour at most."""
DEFAULT_MAX_AGE = 300.0
"""For servers without Cache-Control, as oidc-provider."""

FIRST_RETRY = 1.0
LAST_RETRY = 60.0
"""Retries double from the first to the last, so that an issuer that comes back is not met by a crowd."""

HASTE = 5.0
"""Seconds between two tries for the sake of callers while there are no keys at all."""

MAX_WAIT = TIMEOUT
"""Seconds that a caller waits for a fetch; two documents may take longer, and strangers with made-up ids wait too."""

MAX_STALE = 24 * 3_600.0
"""How long keys are used while their issuer cannot be asked: a night and a day to mend it."""

_log = get_logger("signproxy.identity")


class RemoteKeys(KeySource):
    """The keys behind a URL. Owns the task that keeps them fresh and the one fetch that may be under way."""

    def __init__(
        self,
        issuer: Issuer,
        on_change: Callable[[], None],
        *,
        get: Fetch = fetch,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(issuer.name)
        self._issuer = issuer
        where = issuer.keys
        if not isinstance(where, JwksUrl | Discovery):
            raise TypeError(f"the keys of issuer {issuer.name} are not fetched")
        self._where = where
        self._trust = Trust(where.ca_file, where.token_file)
        self._on_change = on_change
        self._get = get
        self._clock = clock
        self._sleep = sleep
        self._keys: KeySet | None = None
        self._fetched_at = -math.inf
        self._refresh_in = FIRST_RETRY
        self._cool_until = -math.inf
        self._haste_until = -math.inf
        self._fetches = self._successes = self._failures = self._failures_in_row = 0
        self._last_error = ""
        self._flight: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._closed = False

    def current(self) -> KeySet | None:
        """Return the keys last fetched, unless that is longer ago than MAX_STALE."""
        if self._keys is not None and self._clock() - self._fetched_at >= MAX_STALE:
            _log.error("keys dropped: too long ago", issuer=self._name, fetched_ago=MAX_STALE)
            self._replace(None)
        return self._keys

    def may_change(self) -> bool:
        """Tell whether a fetch is under way or may be begun."""
        return self._flight is not None or self._may_begin()

    async def renew(self) -> None:
        """Wait for the fetch under way, or for a new one if none may be begun for COOL_DOWN (HASTE without keys)."""
        if self._flight is None and self._may_begin():
            self._cool_until = self._clock() + COOL_DOWN
            self._begin()
        if self._flight is not None:
            # Not awaited itself: a caller who goes away or gives up must not end the fetch of all others.
            await asyncio.wait((self._flight,), timeout=MAX_WAIT)

    def start(self) -> None:
        """Fetch now, and from then on ahead of need."""
        if self._keeper is None and not self._closed:
            if self._flight is None:
                self._begin()
            self._keeper = asyncio.get_running_loop().create_task(self._keep_fresh())

    async def warm(self) -> None:
        """Start, and wait for the fetch under way; no longer than that, for its issuer may be down for hours."""
        self.start()
        if self._flight is not None:
            await asyncio.wait((self._flight,))

    def stop(self) -> None:
        """End the task and the fetch under way; who waits for that finds the keys as they are."""
        self._closed = True
        for task in (self._keeper, self._flight):
            if task is not None:
                task.cancel()

    async def aclose(self) -> None:
        """End the task and the fetch under way, and wait for their end."""
        self.stop()
        tasks = [task for task in (self._keeper, self._flight) if task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._keeper = None

    def health(self) -> KeyHealth:
        """Return how the keys are."""
        keys = self.current()
        return KeyHealth(
            issuer=self._name,
            keys=len(keys) if keys is not None else 0,
            age=self._clock() - self._fetched_at,
            fetches=self._fetches,
            successes=self._successes,
            failures=self._failures,
            last_error=self._last_error,
            ignored=keys.ignored if keys is not None else (),
        )

    def _may_begin(self) -> bool:
        pause_until = self._haste_until if self.current() is None else self._cool_until
        return not self._closed and self._clock() >= pause_until

    async def _keep_fresh(self) -> None:
        while True:
            if self._flight is not None:
                await asyncio.wait((self._flight,))
            self.current()
            await self._sleep(self._refresh_in)
            if self._flight is None:
                self._begin()

    def _begin(self) -> None:
        self._flight = asyncio.get_running_loop().create_task(self._fetch_once())
        self._flight.add_done_callback(self._landed)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        if self._flight is flight:
            self._flight = None

    async def _fetch_once(self) -> None:
        self._fetches += 1
        try:
            fetched = await self._get(await self._jwks_url(), self._trust)
            keys = parse_jwks(_json_object(fetched))
        except KeysUnusable as problem:
            self._failed(str(problem))
        # Supervises a task whose result is never asked for: a fault in here must neither end it nor reach a caller raw.
        except Exception as fault:  # noqa: BLE001
            _log.exception("fetching keys failed", issuer=self._name)
            self._failed(f"{type(fault).__name__} in signproxy")
        else:
            self._succeeded(keys, fetched.max_age)

    async def _jwks_url(self) -> KeyUrl:
        match self._where:
            case JwksUrl():
                return parse_key_url(self._where.url)
            case Discovery():
                url = self._issuer.discovery_url()
                document = _json_object(await self._get(url, self._trust))
                return self._discovered(url, document, self._where.hosts)

    def _discovered(self, url: KeyUrl, document: Mapping[str, object], hosts: tuple[str, ...]) -> KeyUrl:
        """Return the key set's URL of an OpenID configuration that speaks for this very issuer."""
        if document.get("issuer") != self._issuer.issuer:
            raise KeysUnusable(f"{url.text}: `issuer` is {shown(document.get('issuer'))}")
        text = document.get("jwks_uri")
        if not isinstance(text, str):
            raise KeysUnusable(f"{url.text}: `jwks_uri` is missing or no text")
        try:
            found = parse_key_url(text)
        except KeysUnusable as problem:
            raise KeysUnusable(f"{url.text}: `jwks_uri`: {problem}") from None
        if found.host != url.host and found.host not in hosts:
            raise KeysUnusable(f"{url.text}: `jwks_uri` is on {found.host}, which is not listed")
        return found

    def _succeeded(self, keys: KeySet, max_age: float | None) -> None:
        if self._last_error or self._keys is None:
            _log.info("keys fetched", issuer=self._name, count=len(keys))
        fresh_for = (DEFAULT_MAX_AGE if max_age is None else max_age) * FRESH_SHARE
        self._refresh_in = min(max(fresh_for, MIN_REFRESH), MAX_REFRESH)
        self._fetched_at = self._clock()
        self._successes += 1
        self._failures_in_row = 0
        self._last_error = ""
        before = self._keys
        if before is None or before.thumbprint != keys.thumbprint:
            for reason in keys.ignored:
                _log.warning("a key was left out", issuer=self._name, reason=reason)
            self._replace(keys)

    def _failed(self, problem: str) -> None:
        """Keep the keys there are: an issuer that cannot be reached has not withdrawn them."""
        if problem != self._last_error:
            _log.warning("keys not fetched", issuer=self._name, problem=problem)
        self._failures += 1
        self._refresh_in = min(FIRST_RETRY * 2.0 ** min(self._failures_in_row, 16), LAST_RETRY)
        self._failures_in_row += 1
        self._last_error = problem
        self._haste_until = self._clock() + HASTE

    def _replace(self, keys: KeySet | None) -> None:
        self._keys = keys
        self._on_change()


def _json_object(fetched: Fetched) -> Mapping[str, object]:
    try:
        value = json.loads(fetched.body)
    # RecursionError: 256 KiB of opening brackets.
    except (ValueError, RecursionError):
        raise KeysUnusable("the answer is no JSON") from None
    if not isinstance(value, dict):
        raise KeysUnusable("the answer is no JSON object")
    return value
