"""Measure what a million tables cost: memory of the load, and processor time of a decision against ten tables.

Both policies lie in one process and take turns; tables are drawn at random, and each request is fresh, as it is when
it just came in. Two comparisons are made. In the even one nothing is in the processor's caches for either policy, as
after a pause: what remains is whether a decision has more to do. In the uneven one requests follow each other at
once, so that ten tables stay in the caches and a million cannot: what it adds is memory latency, which any look-up
pays. The floor is that of one look-up in a plain dict of as many entries.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from bench.figures import ratios, result
from bench.process import memory_mib, output_of
from signproxy.inventory.declared.source import FilePolicySource
from signproxy.model import BY_LOCATION, Allow, NamedTable, Principal, Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.decide import decide
from signproxy.policy.resolver import PolicyResolver
from signproxy.policy.state import PolicyState
from signproxy.s3.classify import classify
from signproxy.s3.request import S3Request, WireRequest

TABLES = 1_000_000
FEW = 10
PER_NAMESPACE = 1_000
ROLES = 8
ROUNDS = 9
BATCHES = 60
TIMEOUT = 600.0
"""Seconds for the whole measurement; it takes 40 on a machine that is not busy."""
COLD_SAMPLES = 40
"""Decisions per round with empty caches; emptying takes a thousand times longer than deciding."""
BATCH = 64
"""Requests made ready at a time: few enough to stay in the cache until they are judged."""

_POLICY = """
remote_signing: true
storages:
  aws: {kind: aws, region: us-east-1, buckets: [lake]}
catalogs:
  lake: {storages: [aws], roots: [s3://lake/warehouse], remote_signing: true}
catalog_roles: {lake: [ROLES]}
principal_roles: {engines: {lake: [ROLES]}}
principals: {issuer/engine: {roles: [engines]}}
grants:
- {role: r0, privileges: [TABLE_REMOTE_SIGN]}
inventories: [tables.ndjson]
"""


def measure() -> list[dict[str, object]]:
    """Return the figures, from a process of its own: memory is only ever counted upwards."""
    with tempfile.TemporaryDirectory() as directory:
        few, many = Path(directory, "few"), Path(directory, "many")
        write_policy(few, FEW)
        write_policy(many, TABLES)
        printed = output_of([sys.executable, "-m", "bench.policy_scale", str(few), str(many)], timeout=TIMEOUT)
    figures: dict[str, list[float]] = json.loads(printed)
    rows = [
        result(
            "policy_scale.load_rss",
            figures["rss"],
            unit="GiB",
            must=1.5,
            goal=1.0,
            better="lower",
            against="peak of the process that loads 1,000,000 tables and 1,000,000 grants",
        ),
        result("policy_scale.load_time", figures["load"], unit="s", better="lower", against="the same load"),
    ]
    rows += [
        result(
            f"policy_scale.{name}",
            ratios(figures[f"{name}.many"], figures[f"{name}.few"]),
            unit="ratio",
            must=must,
            goal=goal,
            better="lower",
            against=f"the same with {FEW} tables; processor time, {what}",
        )
        for name, must, goal, what in (
            ("cold", 1.1, 1.0, "resolve by name, decide; caches empty for both"),
            ("cold_by_location", 1.1, 1.0, "resolve by location, decide; caches empty for both"),
            ("judge", None, None, "classify, resolve by name, decide; ten tables stay in the caches"),
            ("judge_by_location", None, None, "classify, resolve by location, decide; ten tables stay in the caches"),
            ("decide", None, None, "resolve by name, decide; ten tables stay in the caches"),
            ("decide_by_location", None, None, "resolve by location, decide; ten tables stay in the caches"),
        )
    ]
    added = [many - few for many, few in zip(figures["decide.many"], figures["decide.few"], strict=True)]
    floor = [many - few for many, few in zip(figures["floor.many"], figures["floor.few"], strict=True)]
    rows.append(
        result(
            "policy_scale.latency",
            ratios(added, floor),
            unit="ratio",
            better="lower",
            against="what a million entries add to one look-up in a plain dict; resolve by name, decide",
        )
    )
    rows += [
        result(
            f"policy_scale.decide_us.{size}",
            figures[f"decide.{size}"],
            unit="µs",
            better="lower",
            against=f"processor time of resolve by name, decide; {tables:,} tables",
        )
        for size, tables in (("few", FEW), ("many", TABLES))
    ]
    return [msgspec.to_builtins(row) for row in rows]


def write_policy(directory: Path, tables: int) -> None:
    """Write a policy of so many tables, each with one grant."""
    directory.mkdir()
    roles = ", ".join(f"r{role}" for role in range(ROLES))
    (directory / "policy.yaml").write_text(_POLICY.replace("ROLES", roles))
    with (directory / "tables.ndjson").open("w") as file:
        for number in range(tables):
            namespace, name, path = names(number)
            file.write(
                f'{{"kind":"table","namespace":"{namespace}","name":"{name}","location":"s3://lake/{path}",'
                f'"uuid":"{number:08x}-0000-4000-8000-{number:012x}"}}\n'
                f'{{"kind":"grant","role":"r{number % ROLES}","namespace":"{namespace}","table":"{name}",'
                f'"privileges":["{("TABLE_READ_DATA", "TABLE_WRITE_DATA")[number % 3 == 0]}"]}}\n'
            )


def names(number: int) -> tuple[str, str, str]:
    """Return namespace, name and path of a table."""
    namespace = f"area_{number // PER_NAMESPACE:04}"
    name = f"table_{number:07}"
    return namespace, name, f"warehouse/{namespace}.db/{name}-{number * 2654435761 % 2**32:08x}"


class _Side:
    """A loaded policy, and requests for its tables."""

    def __init__(self, state: PolicyState, tables: int) -> None:
        self.state = state
        self.catalog: Catalog = state.catalogs["lake"]
        self._tables = tables
        self._draw = random.Random(7)
        self.subject = Subject.of(Principal("issuer/engine", "issuer", "engine", float("inf")))

    def batch(self) -> list[tuple[NamedTable, WireRequest]]:
        """Return requests that were just made, each for a table drawn at random."""
        return [self._request(self._draw.randrange(self._tables)) for _ in range(BATCH)]

    def _request(self, number: int) -> tuple[NamedTable, WireRequest]:
        namespace, name, path = names(number)
        uri = f"https://lake.s3.us-east-1.amazonaws.com/{path}/data/{number:05}-0-{number:032x}-00001.parquet"
        headers = {"amz-sdk-invocation-id": ["5f1c"], "x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]}
        return NamedTable(namespace, name), WireRequest(method="GET", uri=uri, headers=headers, region="us-east-1")


def _judge(side: _Side, *, by_location: bool, classified: bool) -> float:
    """Return microseconds of processor time per request of one batch."""
    state, catalog, subject = side.state, side.catalog, side.subject
    resolve: Callable[..., tuple[object, ...]] = PolicyResolver().resolve
    fresh = side.batch()
    work: list[tuple[NamedTable, WireRequest | S3Request]] = [
        (target, classify(catalog.endpoints, wire) if classified else wire) for target, wire in fresh
    ]
    allowed = 0
    begin = time.thread_time_ns()
    for named, given in work:
        request = given if isinstance(given, S3Request) else classify(catalog.endpoints, given)
        owners = resolve(catalog, BY_LOCATION if by_location else named, request)
        allowed += type(decide(state, catalog, subject, owners, request)) is Allow  # type: ignore[arg-type]  # tables
    spent = time.thread_time_ns() - begin
    assert allowed == BATCH, "every table is granted"
    return spent / BATCH / 1_000


_LINE = 64
_FLUSHED = 96 << 20
"""Three times the largest cache of the machines that were measured."""


def _cold(side: _Side, flush: bytearray, *, by_location: bool) -> float:
    """Return microseconds of processor time for one decision with nothing in the caches, its request excepted."""
    state, catalog, subject = side.state, side.catalog, side.subject
    resolve: Callable[..., tuple[object, ...]] = PolicyResolver().resolve
    flush[::_LINE] = bytes(len(flush) // _LINE)
    named, wire = side.batch()[0]
    request = classify(catalog.endpoints, wire)
    target = BY_LOCATION if by_location else named
    begin = time.thread_time_ns()
    decide(state, catalog, subject, resolve(catalog, target, request), request)  # type: ignore[arg-type]  # tables
    return (time.thread_time_ns() - begin) / 1_000


def _floor(entries: dict[str, object], tables: int, draw: random.Random) -> float:
    """Return microseconds of processor time of one look-up in a plain dict."""
    wanted = [names(draw.randrange(tables))[1] for _ in range(BATCH)]
    begin = time.thread_time_ns()
    for name in wanted:
        entries[name]
    return (time.thread_time_ns() - begin) / BATCH / 1_000


def _rounds(few: _Side, many: _Side) -> Iterator[tuple[str, float]]:
    kinds = {
        "judge": {"by_location": False, "classified": False},
        "judge_by_location": {"by_location": True, "classified": False},
        "decide": {"by_location": False, "classified": True},
        "decide_by_location": {"by_location": True, "classified": True},
    }
    flush = bytearray(_FLUSHED)
    for _ in range(ROUNDS):
        for name, how in kinds.items():
            spent = {"few": 0.0, "many": 0.0}
            for _ in range(BATCHES):
                spent["few"] += _judge(few, **how)
                spent["many"] += _judge(many, **how)
            for size, total in spent.items():
                yield f"{name}.{size}", total / BATCHES
        for name, by_location in (("cold", False), ("cold_by_location", True)):
            samples: dict[str, list[float]] = {"few": [], "many": []}
            for _ in range(COLD_SAMPLES):
                samples["few"].append(_cold(few, flush, by_location=by_location))
                samples["many"].append(_cold(many, flush, by_location=by_location))
            for size, taken in samples.items():
                # Single decisions are short enough for an interruption to be most of one.
                yield f"{name}.{size}", statistics.median(taken)


def _floors() -> Iterator[tuple[str, float]]:
    draw = random.Random(11)
    dicts = {size: {names(number)[1]: object() for number in range(size)} for size in (FEW, TABLES)}
    for _ in range(ROUNDS):
        for size, tables in (("few", FEW), ("many", TABLES)):
            yield f"floor.{size}", statistics.fmean(_floor(dicts[tables], tables, draw) for _ in range(BATCHES))


def _main(few: Path, many: Path) -> None:
    begin = time.process_time()
    state = FilePolicySource(many).load(1)
    figures: dict[str, list[float]] = {"load": [time.process_time() - begin]}
    # Of this program alone: `ru_maxrss` also counts the memory of the process that started it.
    figures["rss"] = [memory_mib(os.getpid(), "VmHWM") / 1024]
    small = FilePolicySource(few).load(1)
    for name, value in _rounds(_Side(small, FEW), _Side(state, TABLES)):
        figures.setdefault(name, []).append(value)
    for name, value in _floors():
        figures.setdefault(name, []).append(value)
    print(json.dumps(figures), flush=True)
    # Taking a million tables apart would only delay the end.
    os._exit(0)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
