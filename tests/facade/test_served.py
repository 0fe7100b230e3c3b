"""`signproxy serve` in front of an upstream: as a process, from its settings, and over a reload."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.threaded import CONFIG, ThreadedCatalog
from tests.product import token_of
from tests.server.process.served import POLICY, Served, Start, serve
from tests.waiting import blocked_until

__all__ = ["serve"]

LEARNED = POLICY.replace(
    "remote_signing: true}}", 'remote_signing: true, tables: upstream, roots: ["s3://lake"]}}'
).replace('tables: [{name: t, namespace: n, location: "s3://lake/t"}]\n', "")
LOAD = "/catalogs/lake/v1/lake/namespaces/n/tables/t"


class Upstream(ThreadedCatalog):
    """A catalog with one table, which remembers who asked."""

    def __init__(self, uuid: str = "1") -> None:
        self.asked: list[tuple[str, str]] = []
        self._uuid = uuid
        super().__init__()

    def told(self, method: str, target: str, authorization: str) -> tuple[int, object]:
        self.asked.append((target, authorization))
        if target.startswith("/v1/config"):
            return 200, CONFIG
        metadata = {"table-uuid": self._uuid, "location": "s3://lake/t", "properties": {"made-by": self._uuid}}
        return 200, {"metadata": metadata, "config": {}}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as started:
        yield started


def start(serve: Start, tmp_path: Path, uri: str, **more: str) -> Served:
    policy = tmp_path / "learned.yaml"
    policy.write_text(LEARNED)
    options = {"policy.path": str(policy), "upstreams.lake.uri": uri, "reload.poll_seconds": "0.1", **more}
    return serve(*(part for name, value in options.items() for part in ("--set", f"{name}={value}")))


def load(served: Served) -> tuple[int, Any]:
    status, body = served.request(served.wait_for("serving")["address"], "GET", LOAD)
    return status, json.loads(body)


def test_from_the_settings_to_a_signature(upstream: Upstream, serve: Start, tmp_path: Path) -> None:
    """What is tested in parts would not be connected in the product."""
    served = start(serve, tmp_path, upstream.uri)
    status, told = load(served)
    assert (status, told["metadata"]["table-uuid"]) == (200, "1")
    assert served.sign() == 200
    assert {token for _, token in upstream.asked} == {f"Bearer {token_of('reader')}"}
    admin = served.wait_for("serving")["admin"]
    _, metrics = served.request(admin, "GET", "/metrics")
    assert 'signproxy_upstream_requests_total{catalog="lake",result="ok"} 2.0' in metrics
    assert 'signproxy_learned_tables{catalog="lake"} 1.0' in metrics
    assert 'signproxy_catalog_calls_total{call="load_table",status="2xx"} 1.0' in metrics
    assert 'signproxy_request_duration_seconds_count{stage="upstream"} 2.0' in metrics
    _, page = served.request(admin, "GET", "/status?format=json")
    (report,) = json.loads(page)["upstreams"]
    assert (report["catalog"], report["tables"], report["problem"]) == ("lake", 1, "")
    assert served.stop() == 0
    kinds = [(event["kind"], event.get("call")) for event in served.events()]
    assert ("catalog", "load_table") in kinds
    assert ("sign", None) in kinds


def test_a_server_is_ready_without_its_upstream(serve: Start, tmp_path: Path) -> None:
    """Every pod would be taken out of service because of a catalog that is down."""
    served = start(serve, tmp_path, "http://127.0.0.1:1")
    assert load(served)[0] == 503
    admin = served.wait_for("serving")["admin"]
    assert served.request(admin, "GET", "/readyz")[0] == 200
    _, page = served.request(admin, "GET", "/status?format=json")
    assert json.loads(page)["state"] == "ready, with problems"


def test_a_reload_leads_to_another_upstream(upstream: Upstream, serve: Start) -> None:
    """An operator would have to restart all sidecars; or tables of the old catalog be signed in the new one."""
    served = serve("--set", "reload.poll_seconds=0.1")
    address = served.wait_for("serving")["address"]
    other = Upstream("2")

    def put_in_front(uri: str) -> None:
        settings = json.loads(served.settings.read_text())
        served.settings.write_text(json.dumps({**settings, "upstreams": {"lake": {"uri": uri}}}))

    def loaded(until: str) -> str:
        told: dict[str, Any] = {}

        def is_there() -> bool:
            status, body = served.request(address, "GET", LOAD)
            told.update(json.loads(body)["metadata"] if status == 200 else {})
            return told.get("table-uuid") == until

        blocked_until(is_there)
        return str(told["properties"]["made-by"])

    try:
        assert served.request(address, "GET", LOAD)[0] == 404
        put_in_front(upstream.uri)
        served.policy.write_text(LEARNED)
        assert loaded(until="1") == "1"
        assert served.sign() == 200
        put_in_front(other.uri)
        assert loaded(until="2") == "2"
        assert served.sign() == 200
    finally:
        other.close()


def test_check_config_compares_settings_and_policy(serve: Start, tmp_path: Path) -> None:
    """A start would fail in the cluster for what could have been said before."""
    policy = tmp_path / "learned.yaml"
    policy.write_text(LEARNED)
    digest = hashlib.sha256(b"x").hexdigest()
    base = {
        "policy": {"path": "learned.yaml"},
        "identity": {"static_tokens": [{"sha256": digest, "principal": "reader"}]},
        "credentials": {
            "providers": {
                "keys": {
                    "class": "static",
                    "properties": {"access_key_id_env": "HOME", "secret_access_key_env": "HOME"},
                }
            }
        },
        "storages": {"s": {"credentials": "keys", "hosts": ["127.0.0.1:9"]}},
    }
    file = tmp_path / "settings.yaml"

    def checked(upstreams: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        file.write_text(json.dumps({**base, "upstreams": upstreams}))
        command = [sys.executable, "-m", "signproxy", "check-config", "--config", str(file), "--json"]
        found = subprocess.run(command, capture_output=True, check=False, timeout=60)
        return found.returncode, json.loads(found.stdout)

    code, told = checked({})
    assert code == 1
    assert [finding["path"] for finding in told["findings"]] == ["upstreams.lake"]
    code, told = checked({"lake": {"uri": "http://catalog.example"}})
    assert [finding["path"] for finding in told["findings"]] == ["upstreams.lake.uri"]
    code, told = checked({"lake": {"uri": "https://catalog.example", "ca_file": "none.pem"}})
    assert [finding["path"] for finding in told["findings"]] == ["upstreams.lake.ca_file"]
    code, told = checked({"lake": {"uri": "https://catalog.example"}, "lakes": {"uri": "https://catalog.example"}})
    assert code == 0
    assert [warning["path"] for warning in told["warnings"] if "upstreams" in warning["path"]] == ["upstreams.lakes"]
