"""Compare what a request costs over TLS with what it costs without."""

from __future__ import annotations

import contextlib

from bench import load
from bench.effort import Effort
from bench.figures import Result, in_turns, ratios, result
from bench.process import SERVER_CORE
from bench.serve import deploy

_CONNECTIONS = 16


def measure(effort: Effort) -> list[Result]:
    """Load one server that speaks TLS and one that does not, in turns and on the same core."""
    cost: dict[str, list[float]] = {"plain": [], "tls": []}
    p50: dict[str, list[float]] = {"plain": [], "tls": []}
    with contextlib.ExitStack() as stack:
        signers = {}
        for name in cost:
            deployment = stack.enter_context(deploy(tls=name == "tls"))
            signers[name] = (stack.enter_context(deployment.serve(core=SERVER_CORE)), deployment.directory)
            load.burst(*signers[name], connections=_CONNECTIONS, seconds=1)
        for number in range(effort.rounds):
            for name in in_turns(tuple(signers), number):
                burst = load.burst(*signers[name], connections=_CONNECTIONS, seconds=effort.seconds)
                cost[name].append(burst.cpu_us)
                p50[name].append(load.burst(*signers[name], connections=1, seconds=1).p50_us)
    return [
        result(
            "tls.cpu_vs_plain",
            ratios(cost["tls"], cost["plain"]),
            unit="ratio",
            better="lower",
            against="the same without TLS, CPU per request over connections that are kept",
        ),
        result(
            "tls.p50_vs_plain",
            ratios(p50["tls"], p50["plain"]),
            unit="ratio",
            better="lower",
            against="the same without TLS, median of one connection that is kept",
        ),
    ]
