"""Prove that clients which sign by themselves are led to the S3 listener, and never to the store with an issued key."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli.clients import Mode
from signproxy.cli.clients.formats import Format
from signproxy.cli.clients.token import TokenSource
from signproxy.cli.clients.transparent import S3Site, Transparent
from signproxy.cli.clients.transparent_forms import page
from tests.e2e.catalogs import ICEBERG_FIXTURE, install
from tests.e2e.catalogs.authority import IDP
from tests.e2e.catalogs.lakehouse import WRITER, Lakehouse, Plan, run_lakehouse
from tests.e2e.catalogs.namespaces import CATALOG
from tests.e2e.catalogs.seam import call
from tests.e2e.clients.drive import CLIENT_TIMEOUT
from tests.e2e.conftest import Shelf
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import VERSITYGW
from tests.e2e.stores.process import free_ports

NAMESPACE = "own"
WAY = "through the facade to the Iceberg REST fixture, and through the S3 listener"
DRIVER = Path(__file__).parent / "self_signing_driver.py"
PRINTED = (Transparent.DUCKDB, Transparent.PYARROW, Transparent.POLARS, Transparent.DAFT)


@pytest.fixture(scope="module")
def site(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lakehouse, S3Site]]:
    """A facade with an S3 listener beside it, and what `signproxy client-config` knows of the two."""
    (port,) = free_ports(1)
    plan, directory = Plan(ICEBERG_FIXTURE, (NAMESPACE,), ()), tmp_path_factory.mktemp("self-signing")
    settings = {"s3": {"enabled": True, "port": port}}
    store = shelf.get(VERSITYGW)
    with run_lakehouse(directory, store, "self-signing", Mode.FACADE, {CATALOG: plan}, settings=settings) as lakehouse:
        url = lakehouse.rig.url
        yield (
            lakehouse,
            S3Site(
                catalog=CATALOG,
                s3_url=f"http://127.0.0.1:{port}",
                public_url=url,
                region=store.region,
                bucket="self-signing",
                catalog_uri=f"{url}/catalogs/{CATALOG}",
            ),
        )


def _environment(lakehouse: Lakehouse, home: Path) -> dict[str, str]:
    """Return what a client is started with: a token, and the key that it was issued; no other key."""
    token = lakehouse.authority.token(WRITER)
    status, key = call(f"{lakehouse.rig.url}/v1/s3-keys", "POST", token, {"catalog": CATALOG, "seconds": 3600})
    assert status == 200, key
    return {
        **lakehouse.rig.environment(home, {}),
        "SIGNPROXY_TOKEN": token,
        "AWS_ACCESS_KEY_ID": key["access-key-id"],
        "AWS_SECRET_ACCESS_KEY": key["secret-access-key"],
        "AWS_SESSION_TOKEN": key["session-token"],
    }


def _run(command: tuple[str, ...], asked: dict[str, Any], environment: dict[str, str], home: Path) -> Any:
    done = subprocess.run(
        command,
        input=json.dumps(asked).encode(),
        env=environment,
        cwd=home,
        capture_output=True,
        timeout=CLIENT_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return json.loads(done.stdout)


def _check_trail(lakehouse: Lakehouse, calls_before: int, events_before: int) -> None:
    """Check that the store saw no key but the one that signproxy signs with, and that all of it is in the trail."""
    rig = lakehouse.rig
    rig._await_events()
    calls = rig.relay.calls()[calls_before:]
    assert calls
    assert {each.access_key for each in calls} == {rig.store.access_key}
    forwarded = [event for event in rig.served.events()[events_before:] if event["kind"] == "forward"]
    assert {event["principal"] for event in forwarded} == {f"{IDP}/{WRITER}"}
    assert {event["decision"] for event in forwarded} == {"allow"}
    assert {(event["method"], event["key"]) for event in forwarded} >= {(each.method, each.key) for each in calls}


def test_clients_that_sign_by_themselves_work_as_printed(
    site: tuple[Lakehouse, S3Site], matrix: Matrix, tmp_path: Path
) -> None:
    """They sent the key that signproxy had issued to the store, which refused it, and had seen it."""
    lakehouse, s3_site = site
    rig = lakehouse.rig
    calls, events = len(rig.relay.calls()), len(rig.served.events())
    environment = _environment(lakehouse, tmp_path)
    asked = {client.value: "\n".join(page(client, s3_site, Format.PYTHON, TokenSource())) for client in PRINTED} | {
        "namespace": NAMESPACE
    }
    found = _run((str(install.readers()), str(DRIVER)), asked, environment, tmp_path)

    def row(client: str, version: str, operation: str) -> Row:
        return Row(client, version, rig.store.name, rig.store.version, operation, way=WAY)

    read_back = [[1, "a"], [3, "c"]]
    for mode, told in (
        ("", "default"),
        (", ACCESS_DELEGATION_MODE 'vended_credentials'", "vended_credentials"),
        (", ACCESS_DELEGATION_MODE 'none'", "none"),
    ):
        operation = f"attach ({told}), create, insert, delete, select, drop"
        with matrix.row(row("DuckDB iceberg", install.DUCKDB_VERSION, operation)):
            assert found.get(f"DuckDB{mode}") == {"value": read_back}, found
    with matrix.row(row("PyIceberg with PyArrow", install.PYICEBERG_VERSION, "create, append, overwrite, delete")):
        assert found.get("PyIceberg with PyArrow") == {"value": ["PyArrowFileIO", [1, 2, 3]]}, found
    with matrix.row(row("Polars", install.POLARS_VERSION, "scan_iceberg")):
        assert found["Polars"] == {"value": [1, 2, 3]}
    with matrix.row(row("Daft", install.DAFT_VERSION, "read_iceberg")):
        assert found["Daft"] == {"value": [1, 2, 3]}
    properties = {"type": "rest", "uri": s3_site.catalog_uri, "token": environment["SIGNPROXY_TOKEN"]}
    read = {"properties": properties, "namespace": NAMESPACE, "table": "own"}
    for client, version, program in (
        ("iceberg-go", install.ICEBERG_GO_VERSION, install.iceberg_go()),
        ("iceberg-rust", install.ICEBERG_RUST_VERSION, install.iceberg_rust()),
    ):
        with matrix.row(row(client, version, "scan")):
            assert _run((str(program),), read, environment, tmp_path) == 3
    _check_trail(lakehouse, calls, events)
