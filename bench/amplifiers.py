"""Compare how long callers wait beside one whose requests are much work each, with alone; health answers meanwhile."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml

from bench.caller import make_tokens
from bench.effort import Effort
from bench.exact import RATE, ExactCaller, Waits, ask_for
from bench.fairness import CALLERS, CONNECTIONS, GREEDY, LIMITED, RAMP_SECONDS, SETTLE_SECONDS
from bench.figures import Result, in_turns, ratios, result
from bench.floods import LEARNED, LISTED, MADE, Flood, floods, names_answer, store
from bench.load import Report, Signer, require_wrk
from bench.pass_through import upstream
from bench.policy_files import BUCKET, CATALOG, STORAGE
from bench.process import LOAD_CORE, SERVER_CORE, BenchFailed, call, free_port, start, stop
from bench.serve import Deployment, deploy

_SCRIPT = Path(__file__).with_name("raw.lua")
_MAKER = "maker"
"""A caller for whose list of buckets the store has to be asked."""
_STORE = "store"
"""The storage that is there."""
_STORAGES = 50
_BUCKETS_EACH = 20
"""Of storages that nothing lies in: each is judged for a list of buckets."""

_MEASURED_SECONDS = 4
_ALONE_SECONDS = 1
"""Before each of the floods of a round."""

_HEALTH_EVERY = 0.1
_PROBE_MS = 1000
"""What Kubernetes waits for a probe unless it is told otherwise."""


class Beside(msgspec.Struct):
    """What was seen beside a flood."""

    waits: list[float] = []
    """How long the slowest hundredth of a round's requests waited at least, in seconds."""
    health: list[float] = []
    """The slowest answer of each round, in milliseconds."""


def measure(effort: Effort) -> list[Result]:
    """Let callers ask alone, and beside each flood, in turns.

    A hundredth of a round's requests are few, and the floods of a round are compared with the same figure: one that is
    low by chance would make all of them high. So they ask alone before every flood, and the requests of these times are
    taken together.
    """
    rounds = max(1, effort.rounds // 4)
    public_pem, tokens = make_tokens((*CALLERS, GREEDY, _MAKER))
    by_name = {flood.name: flood for flood in floods(tokens[GREEDY], tokens[_MAKER])}
    seen = {name: Beside() for name in by_name}
    alone: list[float] = []
    with _serve(public_pem, tokens) as (deployment, port, callers):
        for number in range(rounds):
            quiet: list[float] = []
            for name in in_turns(list(seen), number):
                with _probed(deployment):
                    quiet += ask_for(callers, _ALONE_SECONDS).seconds
                _beside(deployment, port, callers, by_name[name], seen[name])
            alone.append(Waits(quiet).percentile(0.99))
    return [row for name, flood in by_name.items() for row in _rows(flood, seen[name], alone)]


def _rows(flood: Flood, seen: Beside, alone: list[float]) -> Iterator[Result]:
    callers = f"{len(CALLERS)} callers' p99 alone, {RATE} requests per second each, {_MEASURED_SECONDS} s a round"
    yield result(
        f"amplifiers.p99_beside_{flood.name}",
        ratios(seen.waits, alone),
        unit="ratio",
        better="lower",
        must=1.2,
        goal=1.1,
        against=f"{callers}; beside {flood.words}, {CONNECTIONS} connections",
    )
    yield result(
        f"amplifiers.health_beside_{flood.name}",
        seen.health,
        unit="ms",
        better="lower",
        must=_PROBE_MS,
        against="the slowest of /livez and /readyz in a round",
    )


@contextlib.contextmanager
def _serve(public_pem: bytes, tokens: dict[str, str]) -> Iterator[tuple[Deployment, int, tuple[ExactCaller, ...]]]:
    with deploy() as deployment, contextlib.ExitStack() as stack:
        (deployment.directory / "issuer.pem").write_bytes(public_pem)
        catalog = stack.enter_context(upstream(names_answer(), deployment.directory))
        asked = stack.enter_context(store(deployment.directory))
        _write_policy(deployment, tokens, asked)
        port = free_port()
        _write_settings(deployment, catalog, asked, port)
        signer: Signer = stack.enter_context(deployment.serve(core=SERVER_CORE))
        callers = tuple(ExactCaller(signer, tokens[name]) for name in CALLERS)
        for caller in callers:
            stack.callback(caller.socket.close)
        ask_for(callers, RAMP_SECONDS)
        yield deployment, port, callers


def _write_policy(deployment: Deployment, tokens: dict[str, str], asked: str) -> None:
    path = deployment.directory / "policy" / "policy.yaml"
    policy = yaml.safe_load(path.read_text())
    (rights,) = policy["principals"].values()
    policy["principals"] = {f"bench/{name}": rights for name in tokens}
    kind = policy["storages"][STORAGE]
    for number in range(_STORAGES):
        buckets = [f"{BUCKET}-{number}-{bucket}" for bucket in range(_BUCKETS_EACH)]
        policy["storages"][f"more-{number}"] = {**kind, "buckets": buckets}
    policy["storages"][_STORE] = {
        **{name: value for name, value in kind.items() if name != "stamp"},
        "kind": "s3-compatible",
        "buckets": [LISTED],
        "endpoints": [{"url": asked, "styles": ["path"]}],
        "checks_unsigned_headers": True,
        "checks_payload_hash": True,
    }
    every = list(policy["storages"])
    (first,) = policy["catalogs"].values()
    first["storages"] = every
    policy["catalogs"][LEARNED] = {
        "storages": [STORAGE],
        "roots": [f"s3://{BUCKET}/{LEARNED}"],
        "tables": "upstream",
        "remote_signing": True,
    }
    policy["catalog_roles"][LEARNED] = ["manager"]
    policy["principal_roles"]["engineers"][LEARNED] = ["manager"]
    policy["grants"] = [{"catalog": LEARNED, "role": "manager", "privileges": ["CATALOG_MANAGE_CONTENT"]}]
    policy["volumes"] = [
        {"name": name, "storage": _STORE, "bucket": bucket, "operations": "all", "keys": "s3"}
        for name, bucket in ((LISTED, LISTED), (_MAKER, f"{MADE}*"))
    ]
    policy["principal_roles"]["makers"] = {CATALOG: [_MAKER]}
    policy["principals"][f"bench/{_MAKER}"] = {"roles": ["makers"]}
    policy["catalog_roles"][CATALOG] += [LISTED, _MAKER]
    policy["principal_roles"]["engineers"][CATALOG].append(LISTED)
    for name in (LISTED, _MAKER):
        policy["grants"].append({"catalog": CATALOG, "role": name, "volume": name, "privileges": ["VOLUME_WRITE_DATA"]})
    path.write_text(yaml.safe_dump(policy, sort_keys=False))


def _write_settings(deployment: Deployment, catalog: str, asked: str, port: int) -> None:
    secret = deployment.directory / "secret"
    secret.write_text(secrets.token_hex(32))
    secret.chmod(0o600)
    settings = yaml.safe_load(deployment.config.read_text())
    settings["limits"] = LIMITED
    settings["upstreams"] = {LEARNED: {"uri": catalog}}
    settings["context"] = {"secret_files": [str(secret)]}
    settings["s3"] = {"enabled": True, "port": port}
    (binding,) = settings["storages"].values()
    for number in range(_STORAGES):
        settings["storages"][f"more-{number}"] = binding
    settings["storages"][_STORE] = {**binding, "hosts": [asked.removeprefix("http://")]}
    # Between two rounds of one flood the callers wait for all the others.
    settings["listen"]["keepalive_seconds"] = 600
    deployment.config.write_text(yaml.safe_dump(settings, sort_keys=False))


def _beside(deployment: Deployment, port: int, callers: tuple[ExactCaller, ...], flood: Flood, seen: Beside) -> None:
    """Take down how long the callers waited, and the slowest answer of the probes."""
    request, log = (deployment.directory / f"{flood.name}.{kind}" for kind in ("http", "wrk"))
    request.write_bytes(flood.content)
    seconds = int(SETTLE_SECONDS + _MEASURED_SECONDS + RAMP_SECONDS)
    to = port if flood.of_listener else deployment.port
    command = (
        # It shares its core with the callers, and must not keep them from sending in time.
        *("nice", "-n", "19", require_wrk(), "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout=30s"),
        *(f"--script={_SCRIPT}", f"http://127.0.0.1:{to}/", "--", str(request)),
    )
    wrk = start(command, core=LOAD_CORE, log=log)
    try:
        time.sleep(SETTLE_SECONDS)
        with _probed(deployment) as slowest:
            seen.waits.append(ask_for(callers, _MEASURED_SECONDS).percentile(0.99))
        seen.health.append(max(slowest))
        wrk.wait()
    finally:
        stop(wrk)
    try:
        report = msgspec.json.decode(log.read_text().strip().rpartition("\n")[2], type=Report)
    except msgspec.DecodeError as error:
        raise BenchFailed(f"wrk ended with {wrk.returncode}:\n{log.read_text()}") from error
    if not report.requests:
        raise BenchFailed(f"no flood of {flood.name}: {report}")


@contextlib.contextmanager
def _probed(deployment: Deployment) -> Iterator[list[float]]:
    """Ask for health all the while; yield how long each answer took, in milliseconds."""
    taken: list[float] = []
    done = threading.Event()

    def probe() -> None:
        while not done.wait(_HEALTH_EVERY):
            for path in ("livez", "readyz"):
                began = time.perf_counter()
                status, _ = call("GET", f"http://127.0.0.1:{deployment.admin_port}/{path}")
                taken.append((time.perf_counter() - began) * 1e3 if status == 200 else float("inf"))

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield taken
    finally:
        done.set()
        thread.join()
