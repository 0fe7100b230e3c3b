"""Hold the policy in force and swap it whole, or not at all."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from signproxy.errors import Invalid
from signproxy.inventory.source import PolicySource
from signproxy.policy.state import PolicyState
from signproxy.telemetry.log import get_logger

_LOADING_SWITCH_INTERVAL = 0.0005
"""Seconds after which the loading thread yields: with CPython's 5 ms each request would wait that long."""

_log = get_logger("signproxy.policy")


class PolicyHolder:
    """The one reference to the state; requests read it once, a reload replaces it between two of them."""

    def __init__(
        self, source: PolicySource, state: PolicyState, prepare: Callable[[PolicyState], Awaitable[None]]
    ) -> None:
        self._source = source
        self._state = state
        self._prepare = prepare
        """Brings up what a new state needs, such as credentials for its storages; raises Invalid if it cannot."""
        self._on_swap: list[Callable[[PolicyState], None]] = []
        self._reloading: asyncio.Task[bool] | None = None
        self._again = False

    def current(self) -> PolicyState:
        """Return the policy in force."""
        return self._state

    def on_swap(self, listener: Callable[[PolicyState], None]) -> None:
        """Call `listener` after each accepted reload, for example to forget what was cached under the old one."""
        self._on_swap.append(listener)

    async def reload(self) -> bool:
        """Load anew beside the serving loop; keep the old state and say why if anything is wrong with the new."""
        switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(_LOADING_SWITCH_INTERVAL)
        try:
            state = await asyncio.to_thread(self._source.load, self._state.epoch + 1)
            await self._prepare(state)
        except Invalid as invalid:
            for finding in invalid.findings:
                _log.error("policy not accepted", finding=str(finding))
            return False
        finally:
            sys.setswitchinterval(switch_interval)
        changed = state.rev != self._state.rev
        self._state = state
        for listener in self._on_swap:
            listener(state)
        _log.info("policy accepted", policy_rev=state.rev, policy_epoch=state.epoch, changed=changed)
        return True

    def request_reload(self) -> None:
        """Start a reload; one that is asked for while another runs follows it."""
        if self._reloading is not None and not self._reloading.done():
            self._again = True
            return
        self._reloading = asyncio.get_running_loop().create_task(self._reload_until_quiet())

    async def _reload_until_quiet(self) -> bool:
        accepted = await self.reload()
        while self._again:
            self._again = False
            accepted = await self.reload()
        return accepted

    async def aclose(self) -> None:
        """Wait for a running reload."""
        if self._reloading is not None:
            await self._reloading
