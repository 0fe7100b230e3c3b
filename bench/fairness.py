"""Compare how long callers wait beside one that asks for a hundred times its share, and beside floods, with alone."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import yaml

from bench.caller import make_tokens
from bench.effort import Effort
from bench.exact import ExactCaller, Waits, ask_for
from bench.figures import Result, in_turns, ratios, result
from bench.load import Report, Signer, require_wrk
from bench.process import LOAD_CORE, SERVER_CORE, BenchFailed, start, stop
from bench.serve import Deployment, deploy

CALLERS = tuple(f"caller{number}" for number in range(8))
GREEDY = "greedy"

_SHARE = 100
"""Requests per second that each principal is granted: twice what a caller here asks for. What the greedy one takes
where nothing limits it is a hundred times as much."""

CONNECTIONS = 64
"""Of the caller that asks too much. wrk asks again as soon as it is answered, on each of them."""

SETTLE_SECONDS = 1.5
"""Until the greedy one has used up its burst, and the answers that are held back no longer come all at once."""
MEASURED_SECONDS = 2
"""Eight callers ask 800 times in it."""
RAMP_SECONDS = 1

_ROUNDS_PER_UNLIMITED = 3
"""What happens without limits needs no exact figure: one round in three."""

_SCRIPT = Path(__file__).with_name("flood.lua")

LIMITED = {"requests_per_second": _SHARE, "burst": _SHARE}
_UNLIMITED = {
    "requests_per_second": 10_000_000,
    "burst": 10_000_000,
    "unauthenticated_per_second": 1_000_000,
}


class Crowd(msgspec.Struct, frozen=True):
    """What is asked beside the callers: by whom, and over what kind of connections."""

    name: str
    words: str
    token: str = ""
    connection: str = "keep-alive"


class Served(msgspec.Struct, frozen=True):
    """A running server, and the callers that are connected to it."""

    deployment: Deployment
    signer: Signer
    callers: tuple[ExactCaller, ...]


class Refusals(msgspec.Struct):
    """What floods did to the audit file."""

    requests: int = 0
    seconds: float = 0.0


def measure(effort: Effort) -> list[Result]:
    """Let callers ask alone and beside each crowd in turns, of a server with limits and of one without."""
    rounds = max(1, effort.rounds // 2)
    with contextlib.ExitStack() as stack:
        public_pem, tokens = make_tokens((*CALLERS, GREEDY))
        limited = stack.enter_context(_serve(public_pem, tokens, LIMITED))
        unlimited = stack.enter_context(_serve(public_pem, tokens, _UNLIMITED))
        crowds = (
            Crowd("alone", ""),
            Crowd("principal", f"a principal at 100 times its share, {CONNECTIONS} connections", tokens[GREEDY]),
            Crowd("flood", f"a flood without tokens over {CONNECTIONS} connections"),
            Crowd("connections", f"a flood without tokens, {CONNECTIONS} at a time, a connection each", "", "close"),
        )
        by_name = {crowd.name: crowd for crowd in crowds}
        waits: dict[str, list[Waits]] = {name: [] for name in by_name}
        bare: dict[str, list[Waits]] = {name: [] for name in by_name}
        refusals = Refusals()
        for number in range(rounds):
            for name in in_turns(list(by_name), number):
                waits[name].append(_beside(limited, by_name[name], refusals))
            if number % _ROUNDS_PER_UNLIMITED == 0:
                for name in in_turns(list(by_name), number):
                    bare[name].append(_beside(unlimited, by_name[name], Refusals()))
        written = _refusal_bytes(limited.deployment)
    return [
        *(row for crowd in crowds[1:] for row in _rows(crowd, waits, bare)),
        result(
            "fairness.refusals_recorded_bytes_per_s",
            [written / refusals.seconds],
            unit="B/s",
            better="lower",
            must=10_000,
            against=f"audit file, {refusals.requests:,} refused requests in {refusals.seconds:.0f} s of floods",
        ),
        *(
            result(
                f"fairness.p{share}_alone_us",
                [taken.percentile(share / 100) * 1e6 for taken in waits["alone"]],
                unit="us",
                better="lower",
                against="of this machine, at which nothing else is asked",
            )
            for share in (50, 99)
        ),
    ]


def _rows(crowd: Crowd, waits: dict[str, list[Waits]], bare: dict[str, list[Waits]]) -> Iterator[Result]:
    beside, alone, beside_bare, alone_bare = (
        [taken.percentile(0.99) for taken in each[name]] for each in (waits, bare) for name in (crowd.name, "alone")
    )
    callers = f"{len(CALLERS)} callers' p99 alone, {MEASURED_SECONDS} s a round"
    yield result(
        f"fairness.p99_beside_{crowd.name}",
        ratios(beside, alone),
        unit="ratio",
        better="lower",
        must=1.2,
        goal=1.1,
        against=f"{callers}; beside {crowd.words}",
    )
    yield result(
        f"fairness.p99_beside_{crowd.name}_all_rounds",
        [_together(waits[crowd.name]).percentile(0.99) / _together(waits["alone"]).percentile(0.99)],
        unit="ratio",
        better="lower",
        against="the same, over the requests of all rounds",
    )
    yield result(
        f"fairness.p99_beside_{crowd.name}_without_limits",
        ratios(beside_bare, alone_bare),
        unit="ratio",
        better="lower",
        against="the same, every limit out of reach",
    )


def _together(rounds: list[Waits]) -> Waits:
    return Waits([wait for taken in rounds for wait in taken.seconds])


@contextlib.contextmanager
def _serve(public_pem: bytes, tokens: dict[str, str], limits: dict[str, int]) -> Iterator[Served]:
    with deploy() as deployment, contextlib.ExitStack() as stack:
        (deployment.directory / "issuer.pem").write_bytes(public_pem)
        policy = deployment.directory / "policy" / "policy.yaml"
        document = yaml.safe_load(policy.read_text())
        (rights,) = document["principals"].values()
        document["principals"] = {f"bench/{name}": rights for name in tokens}
        policy.write_text(yaml.safe_dump(document, sort_keys=False))
        settings = yaml.safe_load(deployment.config.read_text())
        settings["limits"] = limits
        # Of two servers one waits while the other is asked.
        settings["listen"]["keepalive_seconds"] = 600
        deployment.config.write_text(yaml.safe_dump(settings, sort_keys=False))
        signer = stack.enter_context(deployment.serve(core=SERVER_CORE))
        callers = tuple(ExactCaller(signer, tokens[name]) for name in CALLERS)
        for caller in callers:
            stack.callback(caller.socket.close)
        ask_for(callers, RAMP_SECONDS)
        yield Served(deployment, signer, callers)


def _beside(served: Served, crowd: Crowd, refusals: Refusals) -> Waits:
    """Return how long the callers waited beside a crowd."""
    if not crowd.words:
        return ask_for(served.callers, MEASURED_SECONDS)
    began = time.perf_counter()
    flood, log = _flood(served, crowd)
    try:
        time.sleep(SETTLE_SECONDS)
        waits = ask_for(served.callers, MEASURED_SECONDS)
        flood.wait()
    finally:
        stop(flood)
    try:
        report = msgspec.json.decode(log.read_text().strip().rpartition("\n")[2], type=Report)
    except msgspec.DecodeError as error:
        raise BenchFailed(f"wrk ended with {flood.returncode}:\n{log.read_text()}") from error
    if not report.requests or (report.not_200 == 0 and not crowd.token):
        raise BenchFailed(f"no flood: {report}")
    refusals.requests += report.not_200
    refusals.seconds += time.perf_counter() - began
    return waits


def _flood(served: Served, crowd: Crowd) -> tuple[subprocess.Popen[bytes], Path]:
    directory, target = served.deployment.directory, urlsplit(served.signer.url)
    body, token, log = (directory / f"{crowd.name}.{kind}" for kind in ("body", "token", "wrk"))
    body.write_text(served.signer.template)
    token.write_text(crowd.token)
    seconds = int(SETTLE_SECONDS + MEASURED_SECONDS + RAMP_SECONDS)
    command = (
        # It shares its core with the callers, and must not keep them from sending in time.
        *("nice", "-n", "19", require_wrk(), "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout=30s"),
        *(f"--script={_SCRIPT}", f"{target.scheme}://{target.netloc}/", "--", target.path, str(body)),
        *(str(token) if crowd.token else "", crowd.connection),
    )
    return start(command, core=LOAD_CORE, log=log), log


def _refusal_bytes(deployment: Deployment) -> int:
    """Return how much of the audit file tells of refusals."""
    with deployment.audit_file.open("rb") as lines:
        return sum(len(line) for line in lines if b'"decision":"allow"' not in line)
