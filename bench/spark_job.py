"""Compare a whole Spark job that has its requests signed with the same job that has the store's keys."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.effort import Effort
from bench.figures import Result, ratios, result
from bench.overhead import all_cores
from bench.process import BenchFailed
from signproxy.cli.clients import Client, Connection, Mode, Site, spark_conf
from tests.e2e.catalogs import Site as CatalogSite
from tests.e2e.catalogs.authority import IDP, Authority, run_authority
from tests.e2e.catalogs.fixture import ICEBERG_FIXTURE
from tests.e2e.catalogs.seam import RunningCatalog
from tests.e2e.faults.deployment import Deployment
from tests.e2e.server import STORAGE
from tests.e2e.spark.install import RELEASES
from tests.e2e.stores import VERSITYGW, RunningStore
from tests.e2e.stores.direct import Owner

BUCKET, WAREHOUSE, USER = "lake", "warehouse", "etl"
WITH_KEYS, SIGNED = "with_keys", "signed"
"""The session's two catalogs."""
NAMESPACES = {WITH_KEYS: "of_one", SIGNED: "of_the_other"}
"""Where their tables lie; a namespace that is called like a catalog would be taken for it."""
WARM_UP_ROUNDS = 1
MAX_ROUNDS = 7

_RELEASE = RELEASES[0]
_SCRIPT = Path(__file__).with_name("spark_rounds.py")
_PATIENCE = 1_800.0
_SESSION = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
}


def measure(effort: Effort) -> list[Result]:
    """Run the job on both catalogs of one session, in turns."""
    rounds = min(effort.rounds, MAX_ROUNDS)
    with tempfile.TemporaryDirectory(prefix="signproxy-bench-") as name, all_cores(), contextlib.ExitStack() as stack:
        directory = Path(name)
        (directory / "store").mkdir()
        store = stack.enter_context(VERSITYGW.run(directory / "store"))
        owner = Owner(store)
        stack.callback(owner.close)
        owner.must("PUT", BUCKET)
        authority = stack.enter_context(run_authority())
        (directory / "catalog").mkdir()
        site = CatalogSite(store, BUCKET, WAREHOUSE, authority)
        catalog = stack.enter_context(ICEBERG_FIXTURE.run(directory / "catalog", site))
        for namespace in NAMESPACES.values():
            catalog.must("POST", "namespaces", authority.token(USER), {"namespace": [namespace], "properties": {}})
        deployment = _deployment(directory, store, authority)
        served = stack.enter_context(deployment.serve())
        conf = _conf(store, catalog, authority.token(USER, seconds=int(_PATIENCE) * 2), deployment)
        taken = _run(directory, conf, rounds)
        signed = sum(event["kind"] == "sign" and event["decision"] == "allow" for event in served.events())
    return [
        result(
            "spark_job.signed_vs_keys",
            ratios(taken[SIGNED], taken[WITH_KEYS]),
            unit="ratio",
            better="lower",
            against=f"the same job with the store's keys; PySpark {_RELEASE.pyspark}, Iceberg {_RELEASE.iceberg}, "
            "create, insert, read, merge, delete, compact, expire, drop; wall-clock time",
        ),
        result("spark_job.seconds", taken[SIGNED], unit="s", better="lower", against="the signed job, this machine"),
        result(
            "spark_job.signs",
            [signed / (WARM_UP_ROUNDS + rounds)],
            unit="signs",
            better="lower",
            against="of one job, client caching off",
        ),
    ]


def _deployment(directory: Path, store: RunningStore, authority: Authority) -> Deployment:
    (directory / "signproxy").mkdir()
    deployment = Deployment(
        directory / "signproxy",
        identity={"issuers": {IDP: authority.issuer_settings(directory)}},
        limits={"requests_per_second": 10_000_000, "burst": 10_000_000},
    )
    deployment.set("storages", {STORAGE: {"credentials": "owner", "hosts": [store.authority]}})
    keys = {"access_key_id": store.access_key, "secret_access_key": store.secret}
    deployment.key_file.write_text(json.dumps(keys))
    deployment.write_policy(_policy(store))
    return deployment


def _policy(store: RunningStore) -> dict[str, Any]:
    signed = NAMESPACES[SIGNED]
    return {
        "remote_signing": True,
        "default_catalog": "lake",
        "storages": {
            STORAGE: {
                "kind": "s3-compatible",
                "region": store.region,
                "buckets": [BUCKET],
                "checks_unsigned_headers": True,
                "checks_payload_hash": True,
                "endpoints": [{"url": store.origin, "styles": ["path"]}],
            }
        },
        "catalogs": {"lake": {"storages": [STORAGE], "remote_signing": True}},
        "catalog_roles": {"lake": ["writer"]},
        "principal_roles": {"writers": {"lake": ["writer"]}},
        "principals": {f"{IDP}/{USER}": {"roles": ["writers"]}},
        "tables": [
            {"namespace": signed, "name": "orders", "location": f"s3://{BUCKET}/{WAREHOUSE}/{signed}/orders"},
        ],
        "grants": [{"role": "writer", "privileges": ["TABLE_REMOTE_SIGN", "TABLE_WRITE_DATA"]}],
    }


def _conf(store: RunningStore, catalog: RunningCatalog, token: str, deployment: Deployment) -> dict[str, str]:
    connection = Connection(
        client=Client.SPARK,
        site=Site(
            catalog="lake",
            public_url=f"http://127.0.0.1:{deployment.port}",
            region=store.region,
            s3_endpoint=store.origin,
            path_style=True,
        ),
        mode=Mode.DIRECT,
        version=_RELEASE.iceberg,
        name=SIGNED,
        token=token,
        catalog_uri=catalog.uri,
        warehouse=catalog.warehouse,
    )
    own = f"spark.sql.catalog.{WITH_KEYS}"
    return {
        **_SESSION,
        **spark_conf(connection),
        own: "org.apache.iceberg.spark.SparkCatalog",
        f"{own}.type": "rest",
        f"{own}.uri": catalog.uri,
        f"{own}.warehouse": catalog.warehouse,
        f"{own}.token": token,
        f"{own}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        f"{own}.s3.endpoint": store.origin,
        f"{own}.s3.path-style-access": "true",
        f"{own}.client.region": store.region,
        f"{own}.s3.access-key-id": store.access_key,
        f"{own}.s3.secret-access-key": store.secret,
        "spark.jars": _RELEASE.jars(),
    }


def _run(directory: Path, conf: dict[str, str], rounds: int) -> dict[str, list[float]]:
    asked, told, log = directory / "asked.json", directory / "told.json", directory / "spark.log"
    conf = conf | {"spark.local.dir": str(directory / "spark"), "spark.sql.warehouse.dir": str(directory / "warehouse")}
    catalogs = list(NAMESPACES.items())
    asked.write_text(json.dumps({"conf": conf, "catalogs": catalogs, "rounds": rounds, "warm_up": WARM_UP_ROUNDS}))
    with log.open("wb") as output:
        done = subprocess.run(
            (str(_RELEASE.python()), str(_SCRIPT), str(asked), str(told)),
            env={"PATH": os.environ["PATH"], "HOME": str(directory), "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=directory,
            stdout=output,
            stderr=output,
            timeout=_PATIENCE,
            check=False,
        )
    if done.returncode:
        raise BenchFailed(f"the Spark job ended with {done.returncode}\n{log.read_text(errors='replace')[-3000:]}")
    taken: dict[str, list[float]] = json.loads(told.read_bytes())
    return taken
