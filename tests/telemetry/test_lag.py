"""How late the event loop is."""

from __future__ import annotations

import asyncio
import time

from signproxy.telemetry.process import LoopLag

TICK = 0.01


async def test_a_blocked_loop_is_seen_and_forgotten_in_time() -> None:
    """A slow call on the loop makes every caller wait, and nothing else shows it."""
    lag = LoopLag(tick=TICK, window=5 * TICK)
    lag.start()
    try:
        await asyncio.sleep(2 * TICK)
        time.sleep(0.2)  # noqa: ASYNC251 - it is what is measured
        # It is late right now, and has not had its turn to notice.
        assert lag.worst() >= 0.15
        await asyncio.sleep(0)
        await asyncio.sleep(TICK)
        assert lag.worst() >= 0.15
        deadline = time.monotonic() + 20
        while lag.worst() >= 0.15:
            assert time.monotonic() < deadline
            await asyncio.sleep(TICK)
    finally:
        lag.stop()


async def test_it_measures_only_while_it_runs() -> None:
    """A server that has ended leaves no timer behind, and one that has not begun is not late."""
    lag = LoopLag(tick=TICK)
    assert lag.worst() == 0
    lag.stop()
    lag.start()
    lag.stop()
    await asyncio.sleep(3 * TICK)
    assert lag.worst() == 0
