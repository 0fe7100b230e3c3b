"""Compare small objects through signproxy, decided, re-signed and audited, with nginx' plain proxy and with Envoy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bench import load
from bench.effort import Effort
from bench.figures import Result, in_turns, ratios, result
from bench.forward_scene import SMALL_BYTES, scene
from bench.forward_serve import forwarding
from bench.forward_small_load import SignedLoad, plain

_CONNECTIONS = 64
"""Enough that no proxy ever waits for the load or for the store."""
_FEW = 8
"""What is waited where the server is not saturated by itself alone."""

MAX_ROUNDS = 15

_BEARER, _KEYS = "signproxy", "signproxy_keys"

_NGINX = "nginx 1.22 proxy_pass, blind, one worker, in the same run"
_ENVOY = "Envoy 1.40 aws_request_signing, one worker, in the same run"
_WHAT = {
    _BEARER: f"GET of {SMALL_BYTES} bytes, bearer token",
    _KEYS: f"GET of {SMALL_BYTES} bytes, the caller's SigV4 verified",
}


class Loading(Protocol):
    """What asks a proxy for small objects."""

    def burst(self, scratch: Path, *, connections: int, seconds: int) -> load.Burst:
        """Load the proxy for some seconds; fail if a single answer was not 200."""


Taken = Mapping[str, Sequence[load.Burst]]


def measure(effort: Effort) -> list[Result]:
    """Load all of them in turns; every key is new, every answer is 200."""
    with scene() as around, forwarding(around.store) as served:
        served.check(around.store)
        loads: dict[str, Loading] = {
            _BEARER: plain(served.proxy, around.scratch),
            _KEYS: SignedLoad(_KEYS, served.proxy, served.issue_key(), around.scratch),
            "nginx": plain(around.nginx, around.scratch),
            "envoy": plain(around.envoy, around.scratch),
        }
        bursts, few = load_in_turns(loads, around.scratch, min(effort.rounds, MAX_ROUNDS), effort.seconds)
        served.check_audited(sum(each.requests for name in (_BEARER, _KEYS) for each in (*bursts[name], *few[name])))
    return rows(bursts, few)


def load_in_turns(
    loads: Mapping[str, Loading], scratch: Path, rounds: int, seconds: int
) -> tuple[dict[str, list[load.Burst]], dict[str, list[load.Burst]]]:
    """Return the bursts of each round: over many connections, and over a few."""
    bursts: dict[str, list[load.Burst]] = {name: [] for name in loads}
    few: dict[str, list[load.Burst]] = {name: [] for name in loads}
    for loading in loads.values():
        loading.burst(scratch, connections=_CONNECTIONS, seconds=1)
    for number in range(rounds):
        for taken, connections in ((bursts, _CONNECTIONS), (few, _FEW)):
            for name in in_turns(tuple(loads), number):
                taken[name].append(loads[name].burst(scratch, connections=connections, seconds=seconds))
    return bursts, few


def rows(bursts: Taken, few: Taken) -> list[Result]:
    """Return the rows: each way to show who one is against both peers."""
    rate = {name: [burst.requests / burst.seconds for burst in taken] for name, taken in bursts.items()}
    cost = {name: [burst.cpu_us for burst in taken] for name, taken in bursts.items()}
    waited = {name: [burst.p99_us for burst in taken] for name, taken in few.items()}
    found = []
    for name, what in _WHAT.items():
        how = "bearer" if name == _BEARER else "keys"
        found += [
            result(
                f"forward_small.{how}_rate_vs_nginx",
                ratios(rate[name], rate["nginx"]),
                unit="ratio",
                better="higher",
                must=0.40,
                goal=0.55,
                against=f"{_NGINX}; {what}, {_CONNECTIONS} connections, requests per second",
            ),
            result(
                f"forward_small.{how}_cpu_vs_nginx",
                ratios(cost[name], cost["nginx"]),
                unit="ratio",
                better="lower",
                against=f"{_NGINX}; {what}, CPU per request",
            ),
            result(
                f"forward_small.{how}_cpu_vs_envoy",
                ratios(cost[name], cost["envoy"]),
                unit="ratio",
                better="lower",
                must=1.0,
                against=f"{_ENVOY}; {what}, CPU per request",
            ),
            result(
                f"forward_small.{how}_p99_vs_envoy",
                ratios(waited[name], waited["envoy"]),
                unit="ratio",
                better="lower",
                against=f"{_ENVOY}; {what}, {_FEW} connections",
            ),
        ]
    return [
        *found,
        *(
            result(
                f"forward_small.{name}_p99_us",
                taken,
                unit="us",
                better="lower",
                against=f"{_FEW} connections, of this machine",
            )
            for name, taken in waited.items()
        ),
        *(
            result(
                f"forward_small.{name}_cpu_us",
                taken,
                unit="us",
                better="lower",
                against="CPU per request, of this machine",
            )
            for name, taken in cost.items()
        ),
        *(
            result(
                f"forward_small.{name}_kernel_share",
                [100 * burst.kernel for burst in taken],
                unit="%",
                better="lower",
                against="of that CPU time, in the kernel",
            )
            for name, taken in bursts.items()
        ),
    ]
