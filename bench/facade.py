"""Compare what the catalog facade spends on a large load-table answer with a proxy that does not look at it."""

from __future__ import annotations

import contextlib
import json
import uuid

import yaml

from bench import load
from bench.effort import Effort
from bench.figures import Result, in_turns, ratios, result
from bench.pass_through import pass_through, upstream
from bench.policy_files import BUCKET, CATALOG
from bench.process import SERVER_CORE, BenchFailed, call
from bench.serve import Deployment, deploy

ANSWER_BYTES = 1 << 20
_CONNECTIONS = 4
_SCRIPT = "get.lua"
LOAD_PATH = f"/v1/{CATALOG}/namespaces/learned/tables/orders"
_LOCATION = f"s3://{BUCKET}/warehouse/learned/orders"
_AGAINST = "a plain aiohttp pass-through of the same answer of 1 MiB; CPU per request"


def measure(effort: Effort) -> list[Result]:
    """Load facade and floor in turns, in front of one catalog."""
    cost: dict[str, list[float]] = {"floor": [], "facade": []}
    answer = load_answer(ANSWER_BYTES)
    with contextlib.ExitStack() as stack:
        deployment = stack.enter_context(deploy())
        scratch = deployment.directory
        catalog = stack.enter_context(upstream(answer, scratch))
        put_in_front(deployment, catalog)
        served = stack.enter_context(deployment.serve(core=SERVER_CORE))
        token = deployment.caller.token
        base = f"http://127.0.0.1:{deployment.port}/catalogs/{CATALOG}"
        signers = {
            "floor": stack.enter_context(pass_through(catalog, LOAD_PATH, token, scratch)),
            "facade": load.Signer("facade", f"{base}{LOAD_PATH}", served.pids, "", token),
        }
        _check(signers["facade"], answer)
        for signer in signers.values():
            load.burst(signer, scratch, connections=_CONNECTIONS, seconds=1, script=_SCRIPT)
        for number in range(effort.rounds):
            for name in in_turns(tuple(signers), number):
                burst = load.burst(
                    signers[name], scratch, connections=_CONNECTIONS, seconds=effort.seconds, script=_SCRIPT
                )
                cost[name].append(burst.cpu_us)
    return [
        result(
            "facade.load_table_vs_pass_through",
            ratios(cost["facade"], cost["floor"]),
            unit="ratio",
            better="lower",
            must=2.5,
            against=_AGAINST,
        ),
        *(
            result(f"facade.{name}_cpu_us", taken, unit="us", better="lower", against="CPU per request, this machine")
            for name, taken in cost.items()
        ),
    ]


def load_answer(size: int) -> bytes:
    """Return a load-table answer of about so many bytes: a table with thousands of snapshots."""
    snapshots: list[dict[str, object]] = []
    metadata: dict[str, object] = {
        "format-version": 2,
        "table-uuid": str(uuid.UUID(int=7)),
        "location": _LOCATION,
        "last-sequence-number": 1,
        "last-updated-ms": 1_790_000_000_000,
        "last-column-id": 1,
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
            }
        ],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {"write.parquet.compression-codec": "zstd"},
        "snapshots": snapshots,
    }
    answer = {
        "metadata-location": f"{_LOCATION}/metadata/00001-a.metadata.json",
        "metadata": metadata,
        "config": {"s3.access-key-id": "AKIA", "s3.secret-access-key": "upstream's", "client.region": "us-east-1"},
        "storage-credentials": [{"prefix": "s3://", "config": {"s3.access-key-id": "AKIA"}}],
    }
    one = len(json.dumps(_snapshot(0))) + 2
    snapshots += [_snapshot(number) for number in range(size // one)]
    return json.dumps(answer).encode()


def _snapshot(number: int) -> dict[str, object]:
    return {
        "sequence-number": number,
        "snapshot-id": 3_051_729_675_574_597_004 + number,
        "timestamp-ms": 1_780_000_000_000 + number,
        "summary": {
            "operation": "append",
            "added-data-files": "4",
            "added-records": f"{number}",
            "total-records": "445566",
            "total-data-files": "1234",
        },
        "manifest-list": f"{_LOCATION}/metadata/snap-{number:020}-1-{uuid.UUID(int=number)}.avro",
        "schema-id": 0,
    }


def put_in_front(deployment: Deployment, catalog: str) -> None:
    """Let the deployment's catalog be the one upstream, and learn its tables."""
    settings = yaml.safe_load(deployment.config.read_text())
    settings["upstreams"] = {CATALOG: {"uri": catalog}}
    deployment.config.write_text(yaml.safe_dump(settings, sort_keys=False))
    for file in (deployment.directory / "policy").glob("*.yaml"):
        policy = yaml.safe_load(file.read_text())
        if CATALOG in policy.get("catalogs", {}):
            policy["catalogs"][CATALOG]["tables"] = "upstream"
            role = policy["principal_roles"]["engineers"][CATALOG][0]
            policy["grants"] = [{"role": role, "privileges": ["TABLE_REMOTE_SIGN", "TABLE_WRITE_DATA"]}]
            file.write_text(yaml.safe_dump(policy, sort_keys=False))


def _check(signer: load.Signer, answer: bytes) -> None:
    """Fail unless the answer is the upstream's, without its keys and with the way to the signer."""
    headers = {"Authorization": f"Bearer {signer.token}", "X-Iceberg-Access-Delegation": "remote-signing"}
    status, content = call("GET", signer.url, headers)
    if status != 200:
        raise BenchFailed(f"the facade answered {status}: {content[:500]!r}")
    told, upstream_told = json.loads(content), json.loads(answer)
    if told["metadata"] != upstream_told["metadata"] or told["config"].get("s3.remote-signing-enabled") != "true":
        raise BenchFailed(f"the facade changed the table, or sent no signer: {told['config']}")
    if b"AKIA" in content:
        raise BenchFailed("the facade let the upstream's keys through")
