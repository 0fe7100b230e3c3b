"""Load a large policy into a server that signs all the while, and see whether a caller notices."""

from __future__ import annotations

import os
import signal
import statistics
import time

from bench.effort import Effort
from bench.figures import Result, result
from bench.load import Signer
from bench.process import SERVER_CORE, BenchFailed, call, cpu_seconds, memory_mib
from bench.serve import Deployment, deploy
from bench.steady import RATE, SteadySigning

_QUIET_SECONDS = 15
_RELOADS = 9
_RELOAD_PAUSE = 0.5
"""Longer than a reload of a thousand tables; an idle server costs nothing meanwhile."""
_PATIENCE = 600.0
"""Seconds until the new policy must be in force."""


def measure(effort: Effort) -> list[Result]:
    """Sign steadily: in peace, while the large policy comes in, and while another one replaces it.

    Server and loader share one core, as in a sidecar that has no more than that.
    """
    small = effort.inventory // 1000
    with deploy(tables=small) as deployment, deployment.serve(core=SERVER_CORE) as signer:
        small_reload = _cost_of_reloads(signer)
        deployment.write_inventory(effort.inventory)
        with SteadySigning(signer) as steady:
            time.sleep(1)
            steady.take()
            time.sleep(_QUIET_SECONDS if effort.rounds > 1 else effort.seconds)
            quiet = steady.take()
            seconds = _reload(deployment, signer, effort.inventory - 1)
            busy = steady.take()
        peak = memory_mib(signer.pids[0], "VmHWM")
        deployment.write_inventory(effort.inventory + 1)
        with SteadySigning(signer) as steady:
            _reload(deployment, signer, effort.inventory)
            again = steady.take()
        twice = memory_mib(signer.pids[0], "VmHWM")
    failed = [*quiet.failed, *busy.failed, *again.failed]
    if failed:
        print(f"bench: reload: the first failures: {failed[:5]}")
    size = f"{effort.inventory:,} tables and as many grants"
    load = f"{RATE} requests per second, {len(busy.served)} while {size} load on the same core"
    return [
        _one("reload.failed_requests", len(failed), "requests", load, must=0),
        _one(
            "reload.peak_gib", peak / 1024, "GiB", f"peak of the serving process, {size} over a small policy", must=1.5
        ),
        _one("reload.peak_replacing_gib", twice / 1024, "GiB", "the same, over a policy as large"),
        _one("reload.p99_ms", busy.percentile(0.99) * 1e3, "ms", load),
        _one(
            "reload.p99_vs_quiet",
            busy.percentile(0.99) / quiet.percentile(0.99),
            "ratio",
            "the same requests while nothing loads",
        ),
        _one("reload.p99_quiet_ms", quiet.percentile(0.99) * 1e3, "ms", f"{RATE} requests per second, no load"),
        _one("reload.longest_wait_ms", max(busy.served) * 1e3, "ms", load),
        _one("reload.longest_wait_replacing_ms", max(again.served) * 1e3, "ms", "the same, over a policy as large"),
        _one("reload.small_cpu_ms", small_reload, "ms", f"CPU of a reload of {small:,} tables and as many grants"),
        _one("reload.seconds", seconds, "s", f"SIGHUP to the first signature by the new policy, {size}"),
    ]


def _cost_of_reloads(signer: Signer) -> float:
    """Return the CPU milliseconds of a reload of what is in force already."""
    costs = []
    for _ in range(_RELOADS):
        before = cpu_seconds(signer.pids)
        os.kill(signer.pids[0], signal.SIGHUP)
        time.sleep(_RELOAD_PAUSE)
        costs.append((cpu_seconds(signer.pids) - before) * 1e3)
    return statistics.median(costs)


def _one(name: str, value: float, unit: str, against: str, *, must: float | None = None) -> Result:
    return result(name, [float(value)], unit=unit, better="lower", against=against, must=must)


def _reload(deployment: Deployment, signer: Signer, newest: int) -> float:
    """Send SIGHUP and wait until a table that only the new policy has is signed for; return the seconds."""
    asked = deployment.signer(signer.pids, table=newest)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {asked.token}"}
    began = time.monotonic()
    os.kill(signer.pids[0], signal.SIGHUP)
    while call("POST", asked.url, headers, asked.template.encode()).status != 200:
        if time.monotonic() - began > _PATIENCE:
            raise BenchFailed(f"table {newest} is not in force after {_PATIENCE:.0f} s\n{deployment.log_tail()}")
        time.sleep(0.2)
    return time.monotonic() - began
