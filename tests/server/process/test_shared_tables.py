"""Several workers in front of one catalog, as a client sees them: what one of them learns, all of them know."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.threaded import CONFIG, ThreadedCatalog, error
from tests.product import sign_message, token_of
from tests.server.process.served import POLICY, Served, Start, serve
from tests.server.process.test_workers import workers_of

__all__ = ["serve"]

LEARNED = (
    POLICY.replace("remote_signing: true}}", 'remote_signing: true, tables: upstream, roots: ["s3://lake"]}}')
    .replace('tables: [{name: t, namespace: n, location: "s3://lake/t"}]\n', "")
    .replace("TABLE_READ_DATA]", "TABLE_READ_DATA, TABLE_WRITE_DATA, TABLE_READ_PROPERTIES, TABLE_DROP]")
)
ATTEMPTS = 40
"""Connections enough to meet each of two workers; that one of them is never met has a chance of 1 in 10¹¹."""


class Upstream(ThreadedCatalog):
    """A catalog with tables, which counts how often it is asked for one."""

    def __init__(self) -> None:
        self.tables = {name: f"{number:08}-0000-4000-8000-000000000000" for number, name in enumerate(("t", "u", "v"))}
        self.loads = 0
        self.tokens: set[str] = set()
        self.restricted: set[str] = set()
        """Tables of which it keeps a part from every caller."""
        super().__init__()

    def told(self, method: str, target: str, authorization: str) -> tuple[int, object]:
        path = target.partition("?")[0]
        name = path.rpartition("/")[2]
        if method == "DELETE":
            del self.tables[name]
            return 204, None
        self.tokens.add(authorization)
        if path == "/v1/config":
            return 200, CONFIG
        self.loads += 1
        if name not in self.tables:
            return error(404, "NoSuchTableException")
        location = f"s3://lake/{name}"
        metadata = {"format-version": 2, "table-uuid": self.tables[name], "location": location, "properties": {}}
        file = f"{location}/metadata/0.metadata.json"
        told: dict[str, object] = {"metadata-location": file, "metadata": metadata, "config": {}}
        if name in self.restricted:
            told["read-restrictions"] = {"required-row-filter": {"type": "false"}}
        return 200, told


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as started:
        yield started


class Client:
    """A client that reads and writes tables through a server."""

    def __init__(self, served: Served) -> None:
        self.address = served.wait_for("serving")["address"]

    def call(self, method: str, path: str, body: bytes | None = None, token: str = "") -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.address, timeout=20)
        try:
            headers = {
                "Authorization": f"Bearer {token or token_of('reader')}",
                "X-Iceberg-Access-Delegation": "remote-signing",
            }
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()

    def load(self, name: str, token: str = "") -> tuple[int, Any]:
        return self.call("GET", f"/catalogs/lake/v1/namespaces/n/tables/{name}", token=token)

    def drop(self, name: str) -> int:
        return self.call("DELETE", f"/catalogs/lake/v1/namespaces/n/tables/{name}")[0]

    def sign(self, name: str, method: str = "PUT", token: str = "", path: str = "/v1/aws/s3/sign") -> int:
        message = sign_message(method, f"http://127.0.0.1:9/lake/{name}/data/f", region="us-east-1")
        return self.call("POST", path, json.dumps(message).encode(), token)[0]

    def signs(self, name: str, **more: Any) -> set[int]:
        """Return the answers of all workers."""
        return {self.sign(name, **more) for _ in range(ATTEMPTS)}


def in_front_of(upstream: Upstream, serve: Start, tmp_path: Path, *more: str, name: str = "one") -> Served:
    policy = tmp_path / "learned.yaml"
    policy.write_text(LEARNED)
    options = (f"policy.path={policy}", f"upstreams.lake.uri={upstream.uri}", *more)
    return serve("--workers", "2", *(part for option in options for part in ("--set", option)), name=name)


def test_a_table_that_one_worker_saw_is_signed_for_by_all(upstream: Upstream, serve: Start, tmp_path: Path) -> None:
    """A client that has loaded its table would be refused by every second connection."""
    client = Client(in_front_of(upstream, serve, tmp_path))
    assert client.signs("t") == {403}
    assert client.load("t")[0] == 200
    assert client.signs("t") == {200}
    assert client.signs("u") == {403}
    assert upstream.loads == 1


def test_a_table_that_one_worker_saw_dropped_is_signed_for_by_none(
    upstream: Upstream, serve: Start, tmp_path: Path
) -> None:
    """Files would be written where the next table of the name is going to lie."""
    client = Client(in_front_of(upstream, serve, tmp_path))
    assert client.load("t")[0] == 200
    assert client.signs("t") == {200}
    assert client.drop("t") == 204
    assert client.signs("t") == {403}


def test_a_worker_that_starts_later_knows_what_the_others_learned(
    upstream: Upstream, serve: Start, tmp_path: Path
) -> None:
    """A job would fail by chance from the moment on at which a worker was replaced."""
    served = in_front_of(upstream, serve, tmp_path)
    client = Client(served)
    for name in ("t", "u", "v"):
        assert client.load(name)[0] == 200
    assert client.drop("u") == 204
    os.kill(workers_of(served)[0], signal.SIGKILL)
    served.wait_for("worker started", count=3)
    os.kill(workers_of(served)[1], signal.SIGKILL)
    served.wait_for("worker started", count=4)
    assert client.signs("t") == client.signs("v") == {200}
    assert client.signs("u") == {403}
    assert upstream.loads == 3


def test_what_is_kept_from_a_caller_is_kept_by_all_workers(upstream: Upstream, serve: Start, tmp_path: Path) -> None:
    """A connection to another worker would open the table until that one had asked by itself."""
    served = in_front_of(upstream, serve, tmp_path)
    client = Client(served)
    assert client.load("t")[0] == 200
    assert client.signs("t") == {200}
    upstream.restricted.add("t")
    assert client.load("t")[0] == 200
    assert client.signs("t") == {403}
    upstream.restricted.clear()
    assert client.load("t")[0] == 200
    assert client.signs("t") == {200}
    # Each of them heard it, and none had to ask.
    assert upstream.loads == 3


def test_a_worker_that_hangs_does_not_hold_up_the_others(upstream: Upstream, serve: Start, tmp_path: Path) -> None:
    """One process that is stuck would stop every client of the catalog."""
    served = in_front_of(upstream, serve, tmp_path)
    client = Client(served)
    hanging, _ = workers_of(served).values()
    # A connection belongs to one worker; those of the one that hangs would only wait.
    connections = [http.client.HTTPConnection(client.address, timeout=20) for _ in range(ATTEMPTS)]
    headers = {"Authorization": f"Bearer {token_of('reader')}"}
    for connection in connections:
        connection.request("GET", "/catalogs/lake/v1/config", headers=headers)
        connection.getresponse().read()
    os.kill(hanging, signal.SIGSTOP)
    try:
        for connection in connections:
            connection.request("GET", "/catalogs/lake/v1/namespaces/n/tables/t", headers=headers)
        time.sleep(3)
        answering, _, _ = select.select([connection.sock for connection in connections], [], [], 0)
        answered = [connection for connection in connections if connection.sock in answering]
        assert {connection.getresponse().status for connection in answered} == {200}
        # All of them together waited a second for the one that hangs.
        assert 0 < len(answered) < ATTEMPTS
    finally:
        os.kill(hanging, signal.SIGCONT)
        for connection in connections:
            connection.close()
    # What the others saw meanwhile waits for the one that hung, and it may answer a request before it has read that.
    until = time.monotonic() + 10
    while client.signs("t") != {200}:
        assert time.monotonic() < until


def test_a_table_token_of_one_worker_is_good_at_all_and_nowhere_else(
    upstream: Upstream, serve: Start, tmp_path: Path
) -> None:
    """Without a secret of the operator's, every second request of a job would be refused."""
    wanted = ("context.table_tokens=true",)
    client = Client(in_front_of(upstream, serve, tmp_path, *wanted))
    token = client.load("t")[1]["config"]["token"]
    assert token.startswith("spt1.")
    path = "/v1/lake/namespaces/n/tables/{}/sign"
    assert client.signs("t", token=token, path=path.format("t")) == {200}
    assert client.load("u")[0] == 200
    assert client.signs("u", path=path.format("u")) == {200}
    assert client.signs("u", token=token, path=path.format("u")) == {403}
    assert client.load("u", token=token)[0] == 403
    assert client.load("t", token=token)[0] == 200
    assert upstream.tokens == {f"Bearer {token_of('reader')}"}
    other = Client(in_front_of(upstream, serve, tmp_path, *wanted, name="two"))
    assert other.signs("t", token=token, path=path.format("t")) == {401}


def test_a_secret_of_the_operators_makes_table_tokens_good_at_every_sidecar(
    upstream: Upstream, serve: Start, tmp_path: Path
) -> None:
    """A job that meets another replica, or the same one after a restart, would be refused."""
    (tmp_path / "secret").write_bytes(os.urandom(32).hex().encode() + b"\n")
    wanted = ("context.table_tokens=true", f"context.secret_files={tmp_path / 'secret'}")
    one = Client(in_front_of(upstream, serve, tmp_path, *wanted))
    two_served = in_front_of(upstream, serve, tmp_path, *wanted, name="two")
    two = Client(two_served)
    token = one.load("t")[1]["config"]["token"]
    path = "/v1/lake/namespaces/n/tables/t/sign"
    assert one.signs("t", token=token, path=path) == two.signs("t", token=token, path=path) == {200}
    # A rotation that leaves the old one out ends it, on every worker.
    (tmp_path / "secret").write_bytes(os.urandom(32).hex().encode())
    two_served.process.send_signal(signal.SIGHUP)
    two_served.wait_for("reload accepted")
    assert two.signs("t", token=token, path=path) == {401}
