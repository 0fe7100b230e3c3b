"""Compare Iceberg Java's S3FileIO through signproxy with the same client that has the keys, in one JVM and in turns."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from bench.effort import Effort
from bench.figures import Result, ratios, result
from bench.process import BenchFailed
from tests.e2e.clients import install
from tests.e2e.clients.drive import BUCKET, CATALOG
from tests.e2e.server import Grant, SignServer, policy_of, run_server
from tests.e2e.stores import VERSITYGW, RunningStore
from tests.e2e.stores.direct import Owner

ICEBERG = "1.12.0"
GETS, PUTS = 2_000, 500
OBJECTS = 50
"""As many data files as are read in pieces: forty ranges each, as of a Parquet file with that many column chunks."""
OBJECT_BYTES, RANGE_BYTES = 1 << 20, 256 * 1024
"""A column chunk is read at a time, and a small file of so many bytes written."""
WARM_UP_ROUNDS = 2
MAX_ROUNDS = 9

_SOURCE = Path(__file__).with_name("S3FileIOBench.java")
_PATIENCE = 1_200.0
_UNLIMITED = "10000000"

_DIRECT, _SIGNED, _CACHED = "direct", "signed", "signed_and_cached"
_AGAINST = f"the same client with the keys; {GETS} GETs and {PUTS} PUTs of 256 KiB in a row, versitygw on loopback"


def measure(effort: Effort) -> list[Result]:
    """Run the driver once: every mode in every round, each with objects of its own."""
    rounds = min(effort.rounds, MAX_ROUNDS)
    with tempfile.TemporaryDirectory(prefix="signproxy-bench-") as name, all_cores(), contextlib.ExitStack() as stack:
        directory = Path(name)
        store, servers = _serve(directory, stack)
        modes = [
            {"name": _DIRECT, "root": _root(_DIRECT), "properties": _common(store) | _keys(store)},
            *(
                {"name": mode, "root": _root(mode), "properties": _common(store) | _signer(server)}
                for mode, server in servers.items()
            ),
        ]
        taken = _drive(directory, modes, rounds)
        calls = OBJECTS + (WARM_UP_ROUNDS + rounds) * (GETS + PUTS)
        signs = {mode: _allowed(server) / calls for mode, server in servers.items()}
    return [
        _time("overhead.signed_vs_direct", taken, _SIGNED, must=2.0),
        _time("overhead.cached_vs_direct", taken, _CACHED, must=1.1),
        _share("overhead.signs_per_call", signs[_SIGNED], "client caching off"),
        _share("overhead.signs_per_call_cached", signs[_CACHED], "client caching on (`signing.client_cache`)"),
    ]


def _time(name: str, taken: Mapping[str, list[float]], mode: str, *, must: float) -> Result:
    return result(name, ratios(taken[mode], taken[_DIRECT]), unit="ratio", better="lower", must=must, against=_AGAINST)


def _share(name: str, share: float, what: str) -> Result:
    return result(name, [share], unit="signs", better="lower", against=f"per S3 call, {what}")


def _serve(directory: Path, stack: contextlib.ExitStack) -> tuple[RunningStore, dict[str, SignServer]]:
    """Start the store and two servers: one lets clients keep read signatures, one does not."""
    (directory / "store").mkdir()
    store = stack.enter_context(VERSITYGW.run(directory / "store"))
    owner = Owner(store)
    stack.callback(owner.close)
    owner.must("PUT", BUCKET)
    grants = [Grant(CATALOG, "bench", mode, _root(mode)) for mode in (_SIGNED, _CACHED)]
    policy = policy_of(store, [BUCKET], {CATALOG: {}}, grants)
    servers = {}
    for mode, caches in ((_SIGNED, "false"), (_CACHED, "true")):
        settings = {
            "SIGNPROXY__SIGNING__CLIENT_CACHE": caches,
            "SIGNPROXY__LIMITS__REQUESTS_PER_SECOND": _UNLIMITED,
            "SIGNPROXY__LIMITS__BURST": _UNLIMITED,
        }
        with patch.dict(os.environ, settings):
            servers[mode] = stack.enter_context(run_server(directory / mode, store, policy))
    return store, servers


def _drive(directory: Path, modes: Sequence[Mapping[str, object]], rounds: int) -> dict[str, list[float]]:
    class_path = install.iceberg_java(ICEBERG)
    built = directory / "classes"
    subprocess.run(("javac", "-cp", class_path, "-d", str(built), str(_SOURCE)), check=True)
    asked = {
        "modes": list(modes), "rounds": rounds, "warm_up": WARM_UP_ROUNDS, "gets": GETS, "puts": PUTS,
        "objects": OBJECTS, "object_bytes": OBJECT_BYTES, "range_bytes": RANGE_BYTES,
    }  # fmt: skip
    done = subprocess.run(
        (install.java(), "-Xmx512m", "-cp", f"{built}:{class_path}", "S3FileIOBench"),
        input=json.dumps(asked).encode(),
        env={"PATH": os.environ["PATH"], "HOME": str(directory), "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        timeout=_PATIENCE,
        check=False,
    )
    if done.returncode:
        raise BenchFailed(f"the S3FileIO driver ended with {done.returncode}\n{done.stderr.decode()[-2000:]}")
    told: dict[str, list[float]] = json.loads(done.stdout)
    return told


def _root(mode: str) -> str:
    return f"s3://{BUCKET}/warehouse/bench/{mode}"


def _common(store: RunningStore) -> dict[str, str]:
    return {"s3.endpoint": store.origin, "s3.path-style-access": "true", "client.region": store.region}


def _keys(store: RunningStore) -> dict[str, str]:
    return {"s3.access-key-id": store.access_key, "s3.secret-access-key": store.secret}


def _signer(server: SignServer) -> dict[str, str]:
    return {
        "s3.remote-signing-enabled": "true",
        "signer.uri": f"http://127.0.0.1:{server.port}/catalogs/{CATALOG}",
        "signer.endpoint": "v1/aws/s3/sign",
        "token": server.token,
    }


def _allowed(server: SignServer) -> int:
    return sum(event["kind"] == "sign" and event["decision"] == "allow" for event in server.events())


@contextlib.contextmanager
def all_cores() -> Iterator[None]:
    """Let client, signer and store run as they do beside an executor; the ratio is of wall-clock time."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
