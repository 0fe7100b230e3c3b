"""Use a store through signproxy, by both of its ways, and past it; what each side wrote down is left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from signproxy.cli.clients import Client, Connection, Mode, Site, configuration
from tests.e2e.catalogs import ICEBERG_FIXTURE
from tests.e2e.catalogs.lakehouse import Plan, run_lakehouse
from tests.e2e.clients import install
from tests.e2e.forward.door import CATALOG, Door, run_door, storage_of, table_policy
from tests.e2e.forward.session import Session
from tests.e2e.forward.signer import Endpoint, Payload, Shape, target_of, upload
from tests.e2e.pipeline.evidence import Asked, Scene
from tests.e2e.pipeline.receiver import Log, run_receiver
from tests.e2e.spark.drive import LAKE, SECOND, SECOND_TABLES, Job
from tests.e2e.spark.drive import NAMESPACE as JOB_NAMESPACE
from tests.e2e.spark.drive import TABLES as JOB_TABLES
from tests.e2e.spark.install import RELEASES
from tests.e2e.stores import RunningStore, minio, versitygw
from tests.e2e.stores.direct import Owner
from tests.e2e.stores.process import status_of
from tests.e2e.wire import Wire, bytes_of
from tests.verifier import WireHttp

STORES: dict[str, tuple[str, Callable[..., AbstractContextManager[RunningStore]]]] = {
    "versitygw": ("versitygw-webhook", versitygw.run),
    "minio": ("minio", minio.run),
}
"""By name: the log's format, and how the store is run with a webhook."""

NAMESPACE = "sales"
WRITABLE, READABLE, CLOSED = "orders", "customers", "denied"
OPEN = "open"
"""Below this every client may read, without any keys."""

LEFT = "left.parquet"
"""An object that a client began to upload, and went away."""

KEYS = ("data/city=São Paulo/a.parquet", "data/sum=a+b=1/a.parquet", "data/city=a%2Fb/a.parquet", "data/a b.parquet")
"""Names on which logs disagree how they are written."""

JOB_STEPS = tuple(f"copy-on-write: {step}" for step in ("create", "insert", "select", "update", "delete", "merge"))
"""What the Spark job does."""

_DRIVER = Path(install.__file__).parent / "pyiceberg_driver.py"
_CLIENT_TIMEOUT = 240.0
_LAST = "the-end"


@contextmanager
def run_store(directory: Path, name: str) -> Iterator[tuple[RunningStore, Log]]:
    """Run a store that tells of each request, until the block ends."""
    for part in ("store", "log"):
        (directory / part).mkdir(parents=True)
    with (
        run_receiver(directory / "log" / "requests.ndjson") as log,
        STORES[name][1](directory / "store", log_webhook=log.url) as store,
    ):
        # Of no bucket: nothing that is looked at later.
        log.wait_for_first(lambda: status_of(store.port, "/"))
        yield store, log


def use(directory: Path, name: str) -> Scene:
    """Have clients read and write, some of them past signproxy, and return what there is to judge it by."""
    bucket = f"lake-{name}"
    with run_store(directory, name) as (store, log):
        scene = Scene(STORES[name][0], bucket, store.access_key, log.path.parent, directory / "trail")
        with closing(Owner(store)) as owner:
            before(scene, owner)
            policy = table_policy(
                storage_of(store, [bucket]),
                bucket,
                {WRITABLE: ["TABLE_WRITE_DATA"], READABLE: ["TABLE_READ_DATA"], CLOSED: []},
                namespace=NAMESPACE,
            )
            settings = {"audit": {"sink": "segments", "path": "", "directory": str(scene.trail)}}
            with run_door(directory / "signproxy", store, policy, settings=settings) as door:
                _have_signed(directory, store, door, bucket)
                _have_forwarded(door, bucket)
            # Ended, signproxy has sealed its last segment.
            past(scene, store, owner)
        scene.logged = log.seal(_LAST)
    return scene


def use_by_spark(directory: Path, name: str) -> Scene:
    """Have a Spark job do it, which asks the facade for its tables; the catalog behind that has the store's keys."""
    bucket = f"spark-{name}"
    plans = {LAKE: Plan(ICEBERG_FIXTURE, (JOB_NAMESPACE,), JOB_TABLES, readable="orders")}
    plans[SECOND] = Plan(ICEBERG_FIXTURE, (JOB_NAMESPACE,), SECOND_TABLES)
    with run_store(directory, name) as (store, log):
        scene = Scene(STORES[name][0], bucket, store.access_key, log.path.parent, directory / "trail", has_catalog=True)
        settings = {"audit": {"sink": "segments", "path": "", "directory": str(scene.trail)}}
        home = directory / "home"
        home.mkdir()
        with (
            closing(Owner(store)) as owner,
            run_lakehouse(directory / "rig", store, bucket, Mode.FACADE, plans, settings=settings) as lakehouse,
        ):
            scene.with_keys[Asked("PUT", "")] += 1
            run = Job(lakehouse, RELEASES[0], home, 0.0, JOB_STEPS).run()
            for step in JOB_STEPS:
                assert "value" in run.outcomes["steps"][step], run.outcomes["steps"][step]
            scene.sent = Counter(call.stamp for call in run.calls)
            assert not {call.access_key for call in run.calls} - {store.access_key}
            before(scene, owner, is_new=False)
            past(scene, store, owner)
        scene.logged = log.seal(_LAST)
    return scene


def before(scene: Scene, owner: Owner, *, is_new: bool = True) -> None:
    """Lay out the bucket with the store's own keys, as its operator does: nothing decides about that either."""
    if is_new:
        _with_keys(scene, owner, "PUT", "")
    for table in (READABLE, CLOSED):
        _with_keys(scene, owner, "PUT", f"wh/{table}/data/file", body=b"secret")
    _with_keys(scene, owner, "PUT", f"{OPEN}/file", body=b"for all")
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{scene.bucket}/{OPEN}/*"],
    }
    said = json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()
    _with_keys(scene, owner, "PUT", "", "policy=", body=said)


def past(scene: Scene, store: RunningStore, owner: Owner) -> None:
    """Do what must not be done: use the store's keys beside signproxy, and read without any key."""
    stolen = f"wh/{WRITABLE}/data/stolen.parquet"
    _with_keys(scene, owner, "PUT", stolen, body=b"mine")
    _with_keys(scene, owner, "GET", stolen)
    _with_keys(scene, owner, "GET", f"wh/{CLOSED}/data/file")
    _with_keys(scene, owner, "DELETE", stolen)
    with Wire(store.port) as wire:
        answer = wire.send(WireHttp("GET", f"/{scene.bucket}/{OPEN}/file", (("Host", store.authority),), b""))
    assert (answer.status, answer.body) == (200, b"for all"), answer
    scene.anonymous[Asked("GET", f"{OPEN}/file")] += 1
    _with_keys(scene, owner, "PUT", _LAST, body=b"")


def _with_keys(scene: Scene, owner: Owner, method: str, key: str, query: str = "", body: bytes = b"") -> None:
    owner.must(method, f"{scene.bucket}/{key}" if key else scene.bucket, query, body=body)
    scene.with_keys[Asked(method, key)] += 1


def _have_signed(directory: Path, store: RunningStore, door: Door, bucket: str) -> None:
    """Run PyIceberg, which asks for a signature for each request and sends it to the store itself."""
    deployment = door.served.deployment
    connection = Connection(
        client=Client.PYICEBERG,
        site=Site(
            catalog=CATALOG,
            public_url=f"http://127.0.0.1:{deployment.port}",
            region=store.region,
            s3_endpoint=store.origin,
            path_style=True,
        ),
        mode=Mode.DIRECT,
        version=install.PYICEBERG_VERSION,
        token=deployment.token,
        catalog_uri="http://127.0.0.1:9/catalog",
    )
    root = f"s3://{bucket}/wh"
    asked = {
        "properties": configuration(connection),
        "bucket": bucket,
        "root": f"{root}/{WRITABLE}/run",
        "once": f"{root}/{WRITABLE}/run",
        "denied": f"{root}/{CLOSED}",
        "read_only": f"{root}/{READABLE}",
        "keys": KEYS,
        "large": 100_000,
    }
    home = directory / "client"
    home.mkdir()
    env = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG"}}
    done = subprocess.run(
        (str(install.pyiceberg()), str(_DRIVER)),
        input=json.dumps(asked).encode(),
        # Its threads register the signer anew and get into each other's way (apache/iceberg-python#3896).
        env={**env, "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", "PYICEBERG_MAX_WORKERS": "1"},
        cwd=home,
        capture_output=True,
        timeout=_CLIENT_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    outcomes = json.loads(done.stdout)
    for step in ("write", "read", "exists", "read_only_read", "end", *(f"read {key}" for key in KEYS)):
        assert "value" in outcomes[step], (step, outcomes[step])
    for step in ("denied_read", "read_only_write", "metadata_write"):
        assert "error" in outcomes[step], (step, outcomes[step])


def _have_forwarded(door: Door, bucket: str) -> None:
    """Send requests to signproxy, which makes them its own."""
    endpoint: Endpoint = door.endpoint()
    prefix = f"wh/{WRITABLE}/data"
    with Session(endpoint, bucket) as session:
        answers = {
            "put": session.put("put", f"{prefix}/forwarded é.parquet", b"0123456789"),
            "get": session.ask("get", "GET", f"{prefix}/forwarded é.parquet"),
            "range": session.ask("range", "GET", f"{prefix}/forwarded é.parquet", headers={"Range": "bytes=2-4"}),
            "head": session.ask("head", "HEAD", f"{prefix}/forwarded é.parquet"),
            "missing": session.ask("missing", "GET", f"{prefix}/nothing"),
            "list": session.ask("list", "GET", "", f"list-type=2&prefix={prefix.replace('/', '%2F')}%2F"),
            "list 1": session.ask("list 1", "GET", "", f"prefix={prefix.replace('/', '%2F')}%2F"),
            "closed": session.ask("closed", "GET", f"wh/{CLOSED}/data/file"),
            "delete": session.ask("delete", "DELETE", f"{prefix}/forwarded é.parquet"),
        }
    statuses = {name: answer.status for name, answer in answers.items()}
    assert statuses == {
        "put": 200, "get": 200, "range": 206, "head": 200, "missing": 404, "list": 200, "list 1": 200, "closed": 403,
        "delete": 204,
    }  # fmt: skip
    _leave_within_an_upload(endpoint, f"{bucket}/{prefix}/{LEFT}")


def _leave_within_an_upload(endpoint: Endpoint, path: str) -> None:
    """Go away as a client does that is killed: neither it nor signproxy ever hears what the store made of it."""
    content = bytes_of(upload(endpoint, "PUT", target_of(path), body=b"x" * 4_000_000, shape=Shape(Payload.UNSIGNED)))
    with socket.create_connection(("127.0.0.1", endpoint.port)) as connection:
        connection.sendall(content[:2_000_000])
        # The store has its head by then.
        time.sleep(1)
