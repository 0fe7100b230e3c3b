"""Run a client as a process in front of a real signproxy and a real store, and read what both have seen."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.e2e.clients.tls import TlsFront, run_tls_front
from tests.e2e.server import CALLER, EVENT_TIMEOUT, STORAGE, Grant, SignServer, policy_of, run_server
from tests.e2e.stores import DOMAIN, VERSITYGW, RunningStore
from tests.e2e.stores.direct import Owner

BUCKET = "lake"
CATALOG = "lake"
NAMESPACE = "sales"
TABLE = "orders"
"""The README's names, so that its configuration is used as it stands."""
OWNED = "owned"
"""A table whose metadata files the client writes itself."""
DENIED = "denied"
READ_ONLY = "customers"
SECRET = b"secret"

LARGE = 52 * 1024 * 1024

CLIENT_TIMEOUT = 240.0
"""Seconds; the slowest client takes 15 on two busy cores."""

# Names that Iceberg writers really produce, and those on which encoders disagree.
KEYS = (
    "data/region=eu/day=2026-01-01/a.parquet",
    "data/name=New York/a.parquet",
    # A partition value that the writer encoded before the SDK encodes it again: %252F on the wire.
    "data/city=a%2Fb/a.parquet",
    "data/city=São Paulo/\U0001f9ca.parquet",
    "data/share=50%/a.parquet",
    "data/sum=a+b=1/a.parquet",
    "data/~!*'()@:,;$&/a.parquet",
)

_LOGGED = re.compile(r" s3_(?P<operation>\w+) .*[?&]x-signproxy-id=(?P<event_id>\w+)")
_SIGNING = ("TABLE_REMOTE_SIGN",)


@dataclass(frozen=True, slots=True)
class Run:
    """What a client reported, what signproxy recorded and what the store was sent."""

    outcomes: dict[str, dict[str, Any]]
    events: list[dict[str, Any]]
    requests: list[str]
    """The lines of the store's access log."""

    def value(self, step: str) -> Any:
        """Return what a step that has to succeed returned."""
        outcome = self.outcomes[step]
        if "value" not in outcome:
            raise AssertionError(f"{step}: {outcome}")
        return outcome["value"]

    def error(self, step: str) -> tuple[str, str]:
        """Return class and message of the exception that a step has to end with."""
        outcome = self.outcomes[step]
        if "error" not in outcome:
            raise AssertionError(f"{step} succeeded: {outcome}")
        return outcome["error"], outcome["message"]

    def operations(self) -> Counter[str]:
        """Count the allowed requests by S3 operation."""
        return Counter(event["s3_op"] for event in self.events if event["decision"] == "allow")

    def refusals(self) -> Counter[str]:
        """Count the refused requests by reason."""
        return Counter(event["reason"] for event in self.events if event["decision"] != "allow")

    def check_trail(self) -> None:
        """Check that trail and access log tell one story: each request once, whose it was and what it did."""
        logged = []
        for line in self.requests:
            found = _LOGGED.search(line)
            # A request without a stamp was never signed by signproxy.
            assert found is not None, line
            logged.append((found["event_id"], found["operation"]))
        allowed = [(event["event_id"], event["s3_op"]) for event in self.events if event["decision"] == "allow"]
        assert sorted(allowed) == sorted(logged)
        assert len({event["event_id"] for event in self.events}) == len(self.events)
        for event in self.events:
            assert event["principal"] == CALLER, event
            assert event.get("count", 1) == 1, event


@dataclass(frozen=True, slots=True)
class Lake:
    """A store, a signproxy in front of it, and four tables: writable, owned, read-only and denied."""

    store: RunningStore
    server: SignServer
    owner: Owner
    access_log: Path
    tls: TlsFront
    """The same store over https."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def asked(self, name: str, properties: Mapping[str, str]) -> dict[str, Any]:
        """Return what a driver is told; each run has a folder of its own in the table."""
        return {
            "properties": dict(properties),
            "root": f"s3://{BUCKET}/warehouse/{NAMESPACE}/{TABLE}/{name}",
            "denied": f"s3://{BUCKET}/warehouse/{NAMESPACE}/{DENIED}",
            "read_only": f"s3://{BUCKET}/warehouse/{NAMESPACE}/{READ_ONLY}",
            "keys": KEYS,
            # More than one part for both clients: of 5 MiB, and of s3fs' 50 MiB.
            "large": LARGE,
        }

    def drive(
        self, command: Sequence[str], asked: Mapping[str, Any], home: Path, settings: Mapping[str, str] | None = None
    ) -> Run:
        """Run a client to its end."""
        events_before, requests_before = len(self.server.events()), len(self._requests())
        # Nothing of the machine may configure the client: no keys, no proxies, no settings of the user.
        env = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "JAVA_HOME"}}
        env |= {"HOME": str(home), "NO_PROXY": "127.0.0.1", "AWS_EC2_METADATA_DISABLED": "true"}
        env["AWS_CA_BUNDLE"] = str(self.tls.certificate)
        env |= settings or {}
        done = subprocess.run(
            command,
            input=json.dumps(asked).encode(),
            env=env,
            cwd=home,
            capture_output=True,
            timeout=CLIENT_TIMEOUT,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"{command[0]} ended with {done.returncode}\n{done.stderr.decode()[-4000:]}")
        outcomes = json.loads(done.stdout)
        if "value" in outcomes["end"]:
            self._await_last(f"{asked['root'].partition(f'{BUCKET}/')[2]}/end")
        return Run(
            outcomes,
            [event for event in self.server.events()[events_before:] if event["kind"] == "sign"],
            self._requests()[requests_before:],
        )

    def _await_last(self, key: str) -> None:
        """Wait until both files have the driver's last request; both are written in the order of the requests."""
        deadline = time.monotonic() + EVENT_TIMEOUT
        while time.monotonic() < deadline:
            recorded = any(event.get("key") == key for event in self.server.events())
            if recorded and any(f" {key} " in line for line in self._requests()):
                return
            time.sleep(0.05)
        raise AssertionError(f"the last request, of {key}, is not recorded by signproxy and store")

    def _requests(self) -> list[str]:
        with self.access_log.open() as lines:
            return [line for line in lines if line.endswith("\n")]


@contextmanager
def run_lake(directory: Path) -> Iterator[Lake]:
    """Run the strictest store with its access log on, and signproxy, until the block ends."""
    access_log = directory / "access.log"
    place = directory / "store"
    place.mkdir()
    with ExitStack() as stack:
        with patch.dict(os.environ, {"VGW_ACCESS_LOG": str(access_log)}):
            store = stack.enter_context(VERSITYGW.run(place))
        owner = Owner(store)
        stack.callback(owner.close)
        owner.must("PUT", BUCKET)
        for table in (READ_ONLY, DENIED):
            owner.must("PUT", f"{BUCKET}/warehouse/{NAMESPACE}/{table}/data/file", body=SECRET)
        tls = stack.enter_context(run_tls_front(directory, store.port))
        policy = policy_of(store, [BUCKET], {CATALOG: {}}, _grants())
        policy["storages"][STORAGE]["endpoints"].append({"url": tls.origin, "styles": ["path"]})
        hosts = [store.authority, tls.authority, f"{DOMAIN}:{store.port}"]
        with patch.dict(os.environ, {f"SIGNPROXY__STORAGES__{STORAGE.upper()}__HOSTS": json.dumps(hosts)}):
            server = stack.enter_context(run_server(directory / "signproxy", store, policy))
        yield Lake(store, server, owner, access_log, tls)


def _grants() -> list[Grant]:
    privileges = {
        TABLE: (*_SIGNING, "TABLE_WRITE_DATA"),
        # The metadata files of its catalog are written by the client.
        OWNED: (*_SIGNING, "TABLE_WRITE_DATA", "TABLE_FULL_METADATA"),
        READ_ONLY: (*_SIGNING, "TABLE_READ_DATA"),
        DENIED: (),
    }
    return [
        Grant(CATALOG, NAMESPACE, table, f"s3://{BUCKET}/warehouse/{NAMESPACE}/{table}", held)
        for table, held in privileges.items()
    ]
