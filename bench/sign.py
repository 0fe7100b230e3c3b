"""Compare what a signature costs with an empty application, and with Project Nessie, all alive in one run."""

from __future__ import annotations

import contextlib

from bench import load
from bench.effort import Effort
from bench.figures import Result, in_turns, lower_quartile, ratios, result
from bench.floor import floor
from bench.nessie import nessie, warm_up
from bench.process import SERVER_CORE
from bench.serve import check_evidence, check_signature, deploy

_CONNECTIONS = 16
"""Enough that the server never waits for the load; the same for every signer."""

_FLOOR = "an empty aiohttp application on the same loop"
_NESSIE = "Project Nessie 0.99.0, RS256 bearer and rules, warm"


def measure(effort: Effort) -> list[Result]:
    """Load the floor, signproxy and Nessie in turns; every URI is new, every answer is 200."""
    bursts: dict[str, list[load.Burst]] = {"floor": [], "sign": [], "nessie": []}
    alone: dict[str, list[load.Burst]] = {"floor": [], "sign": []}
    with contextlib.ExitStack() as stack:
        deployment = stack.enter_context(deploy())
        scratch = deployment.directory
        sign = stack.enter_context(deployment.serve(core=SERVER_CORE))
        asked, answered = load.sign_once(sign)
        check_signature(asked, answered)
        signers = [
            stack.enter_context(floor(sign.template, sign.token, len(answered), scratch)),
            sign,
            stack.enter_context(nessie(deployment.caller, scratch)),
        ]
        warm_up(signers[2], scratch, requests=effort.warm_up_requests)
        for signer in signers[:2]:
            load.burst(signer, scratch, connections=_CONNECTIONS, seconds=1)
        by_name = {signer.name: signer for signer in signers}
        for number in range(effort.rounds):
            for name in in_turns(list(bursts), number):
                burst = load.burst(by_name[name], scratch, connections=_CONNECTIONS, seconds=effort.seconds)
                bursts[name].append(burst)
            for name in in_turns(list(alone), number):
                alone[name].append(load.burst(by_name[name], scratch, connections=1, seconds=effort.seconds))
        check_signature(*load.sign_once(sign))
        check_evidence(deployment, sum(burst.requests for burst in (*bursts["sign"], *alone["sign"])))
    return _results(bursts, alone)


def _results(bursts: dict[str, list[load.Burst]], alone: dict[str, list[load.Burst]]) -> list[Result]:
    cpu = {name: [burst.cpu_us for burst in taken] for name, taken in bursts.items()}
    waited = {name: [burst.p50_us for burst in taken] for name, taken in alone.items()}
    return [
        result(
            "sign.rate_vs_floor",
            ratios(cpu["floor"], cpu["sign"]),
            unit="ratio",
            better="higher",
            must=0.70,
            goal=0.85,
            against=f"{_FLOOR}, requests per CPU-second",
        ),
        result(
            "sign.rate_vs_floor_lower_quartile",
            [lower_quartile(ratios(cpu["floor"], cpu["sign"]))],
            unit="ratio",
            better="higher",
            against="three quarters of the rounds above were better than this",
        ),
        result(
            "sign.cpu_vs_nessie",
            ratios(cpu["nessie"], cpu["sign"]),
            unit="ratio",
            better="higher",
            must=5,
            goal=8,
            against=f"{_NESSIE}, CPU-seconds per signature",
        ),
        result("sign.p50_us", waited["sign"], unit="us", better="lower", against="one connection, of this machine"),
        result(
            "sign.p50_vs_floor",
            ratios(waited["sign"], waited["floor"]),
            unit="ratio",
            better="lower",
            against=f"{_FLOOR}, one connection",
        ),
        *(
            result(f"sign.{name}_cpu_us", taken, unit="us", better="lower", against="CPU per request, of this machine")
            for name, taken in cpu.items()
        ),
        *(
            result(
                f"sign.{name}_kernel_share",
                [100 * burst.kernel for burst in taken],
                unit="%",
                better="lower",
                against="of that CPU time, in the kernel",
            )
            for name, taken in bursts.items()
        ),
    ]
