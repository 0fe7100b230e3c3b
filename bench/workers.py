"""Compare what a request costs two workers and their supervisor with what it costs one process."""

from __future__ import annotations

import contextlib

from bench import load
from bench.effort import Effort
from bench.figures import Result, in_turns, ratios, result
from bench.process import SERVER_CORE, cpu_seconds
from bench.serve import deploy

_CONNECTIONS = 32
"""The kernel spreads connections by a hash: enough of them that both processes work."""


def measure(effort: Effort) -> list[Result]:
    """Load one process, and two workers that share a port, in turns and on the same core."""
    one: list[float] = []
    two: list[float] = []
    share: list[float] = []
    with contextlib.ExitStack() as stack:
        single = stack.enter_context(deploy())
        alone = stack.enter_context(single.serve(core=SERVER_CORE))
        shared = stack.enter_context(deploy(workers=2))
        pair = stack.enter_context(shared.serve(core=SERVER_CORE))
        for signer in (alone, pair):
            load.burst(signer, single.directory, connections=_CONNECTIONS, seconds=1)
        for number in range(effort.rounds):
            for name in in_turns(("one", "two"), number):
                if name == "one":
                    burst = load.burst(alone, single.directory, connections=_CONNECTIONS, seconds=effort.seconds)
                    one.append(burst.cpu_us)
                    continue
                workers = pair.pids[1:]
                before = [cpu_seconds([pid]) for pid in workers]
                burst = load.burst(pair, shared.directory, connections=_CONNECTIONS, seconds=effort.seconds)
                two.append(burst.cpu_us)
                spent = [cpu_seconds([pid]) - start for pid, start in zip(workers, before, strict=True)]
                share.append(min(spent) / sum(spent))
    return [
        result(
            "workers.cpu_two_vs_one",
            ratios(two, one),
            unit="ratio",
            better="lower",
            must=1.1,
            against="one process of serve, CPU per request; two workers with their supervisor's",
        ),
        result(
            "workers.smaller_share",
            share,
            unit="ratio",
            better="higher",
            against="share of the work that the less busy of the two did",
        ),
    ]
