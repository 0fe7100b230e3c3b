"""Run `signproxy serve` as an operator does, for the tests of the process."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.product import ACCESS_KEY, SECRET, sign_message, token_of

POLICY = """
remote_signing: true
default_catalog: lake
storages:
  s: {kind: s3-compatible, region: us-east-1, buckets: [lake], checks_unsigned_headers: true,
      endpoints: [{url: "http://127.0.0.1:9", styles: [path]}]}
catalogs: {lake: {storages: [s], remote_signing: true}}
tables: [{name: t, namespace: n, location: "s3://lake/t"}]
catalog_roles: {lake: [reader]}
principal_roles: {readers: {lake: [reader]}}
principals: {reader: {roles: [readers]}}
grants: [{role: reader, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}]
"""
WAIT = 30.0


class Served:
    """A `signproxy serve` of a test's own."""

    def __init__(self, directory: Path, *more: str) -> None:
        self.directory = directory
        self.audit = directory / "audit.ndjson"
        self.policy = directory / "policy.yaml"
        self.policy.write_text(POLICY)
        digest = hashlib.sha256(token_of("reader").encode()).hexdigest()
        settings = {
            "listen": {"port": 0},
            "admin": {"port": 0},
            "policy": {"path": "policy.yaml"},
            "identity": {"static_tokens": [{"sha256": digest, "principal": "reader"}]},
            "credentials": {
                "providers": {
                    "keys": {
                        "class": "static",
                        "properties": {"access_key_id_env": "TEST_KEY", "secret_access_key_env": "TEST_SECRET"},
                    }
                }
            },
            "storages": {"s": {"credentials": "keys", "hosts": ["127.0.0.1:9"]}},
            "audit": {"sink": "file", "path": "audit.ndjson"},
        }
        self.settings = directory / "settings.yaml"
        self.settings.write_text(json.dumps(settings))
        self.log = directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "signproxy", "serve", "--config", str(self.settings), *more],
                stderr=log,
                stdout=log,
                env={**os.environ, "TEST_KEY": ACCESS_KEY, "TEST_SECRET": SECRET},
            )

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def wait_for(self, event: str, *, count: int = 1) -> dict[str, Any]:
        """Return the log line of this event once it has been written that often."""
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            found = [line for line in self.lines() if line["event"] == event]
            if len(found) >= count:
                return found[count - 1]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"{event!r} was not logged: {self.log.read_text()}")

    def request(
        self, address: str, method: str, path: str, body: bytes | None = None, accept: str = "*/*"
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection(address, timeout=10)
        try:
            headers = {"Authorization": f"Bearer {token_of('reader')}", "Accept": accept}
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def request_unix(self, address: str, method: str, path: str, body: bytes) -> int:
        """Return the status of a request over the Unix socket of a `unix:/path`."""
        connection = http.client.HTTPConnection("localhost", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(10)
        connection.sock.connect(address.removeprefix("unix:"))
        try:
            connection.request(method, path, body=body, headers={"Authorization": f"Bearer {token_of('reader')}"})
            return connection.getresponse().status
        finally:
            connection.close()

    def sign(self) -> int:
        message = sign_message("GET", "http://127.0.0.1:9/lake/t/f", region="us-east-1")
        address = self.wait_for("serving")["address"]
        return self.request(address, "POST", "/v1/aws/s3/sign", json.dumps(message).encode())[0]

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(WAIT)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


Start = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Start]:
    started: list[Served] = []

    def start(*more: str, name: str = "one") -> Served:
        directory = tmp_path / name
        directory.mkdir()
        started.append(Served(directory, *more))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.process.kill()
        served.process.wait(WAIT)
