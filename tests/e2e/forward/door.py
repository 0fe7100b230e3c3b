"""Put a signproxy that speaks S3 before a store, and issue keys for it."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.e2e.faults.deployment import Deployment, Served
from tests.e2e.forward.signer import Endpoint
from tests.e2e.server import CALLER, EVENT_TIMEOUT, STORAGE
from tests.e2e.stores import RunningStore
from tests.e2e.stores.minio import MINIO
from tests.e2e.stores.process import free_ports
from tests.e2e.wire import Answer, Wire
from tests.verifier import WireHttp

CATALOG = "lake"
VOLUME = "everything"
KEYS_ROUTE = "/v1/s3-keys"

TRAILERS = frozenset({"versitygw", "swift", MINIO.name})
"""Stores that know trailing checksums, and compare and keep them."""


@dataclass(frozen=True, slots=True)
class Door:
    """A running signproxy with its S3 listener."""

    served: Served
    port: int
    region: str

    def keys(
        self, *, token: str | None = None, seconds: int = 3600, scope: Mapping[str, str | bool] | None = None
    ) -> Any:
        """Ask for a key as a client does; return the answer's document."""
        deployment = self.served.deployment
        connection = HTTPConnection("127.0.0.1", deployment.port, timeout=30)
        content = json.dumps({"seconds": seconds, **(scope or {})})
        bearer = deployment.token if token is None else token
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        try:
            connection.request("POST", KEYS_ROUTE, content, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        assert answer.status == 200, (answer.status, text)
        return json.loads(text)

    def endpoint(self, *, token: str | None = None, **scope: str) -> Endpoint:
        """Return this door with a new key, of the deployment's own caller where no other is named."""
        key = self.keys(token=token, scope=scope)
        return Endpoint(
            "through",
            self.port,
            self.region,
            key["access-key-id"],
            key["secret-access-key"],
            key["session-token"],
        )

    def endpoint_without_token(self) -> Endpoint:
        """Return this door with a key of two parts, for a client that takes no session token."""
        key = self.keys(scope={"without-token": True})
        return Endpoint("through", self.port, self.region, key["access-key-id"], key["secret-access-key"])

    def send(self, wire: WireHttp) -> Answer:
        """Send one request on a connection of its own."""
        with Wire(self.port) as connection:
            return connection.send(wire)

    def events(self) -> list[dict[str, Any]]:
        """Return the events of requests that came through this door, as far as they are written."""
        return [event for event in self.served.events() if event["kind"] == "forward"]

    def event(self, event_id: str) -> dict[str, Any]:
        """Return one event; the writer may still be at it when the answer is there."""
        deadline = time.monotonic() + EVENT_TIMEOUT
        while time.monotonic() < deadline:
            for event in self.served.events():
                if event["event_id"] == event_id:
                    return event
            time.sleep(0.05)
        raise AssertionError(f"the audit trail has no event {event_id}")

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        """Return the events once there are so many, each counted as often as it says."""
        deadline = time.monotonic() + EVENT_TIMEOUT
        while time.monotonic() < deadline:
            found = self.events()
            if sum(event.get("count", 1) for event in found) >= count:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{len(self.events())} of {count} events\n{self.served.tail()}")


def storage_of(
    store: RunningStore, buckets: Sequence[str], *, port: int | None = None, **more: object
) -> dict[str, Any]:
    """Return a store as the policy has it; `port` is where it is reached, where that is not the store's own."""
    return {
        "kind": "s3-compatible",
        "region": store.region,
        "buckets": list(buckets),
        "checks_unsigned_headers": store.name != MINIO.name,
        "checks_payload_hash": store.traits.refuses_wrong_payload_hash,
        "pins_forwarded_headers": store.traits.verifies_as_forwarded,
        "literal_keys": store.name == "swift",
        "checks_trailers": store.name in TRAILERS,
        "accepts_chunked_transfer": True,
        "endpoints": [{"url": f"http://127.0.0.1:{port or store.port}", "styles": ["path"]}],
        "opt_ins": {"tagging": True},
        **more,
    }


def volume_policy(
    storage: Mapping[str, Any],
    buckets: Sequence[str],
    *,
    operations: str = "all",
    keys: str = "s3",
    privileges: Sequence[str] = ("VOLUME_MANAGE",),
) -> dict[str, Any]:
    """Return a policy in which the caller may do everything in some buckets: conformance, not containment."""
    names = [VOLUME if number == 0 else f"{VOLUME}-{number}" for number in range(len(buckets))]
    return {
        **_roles(storage),
        "volumes": [
            {
                "catalog": CATALOG,
                "name": name,
                "storage": STORAGE,
                "bucket": bucket,
                "operations": operations,
                "keys": keys,
            }
            for name, bucket in zip(names, buckets, strict=True)
        ],
        "grants": [
            {"catalog": CATALOG, "role": "engineer", "volume": name, "privileges": list(privileges)} for name in names
        ],
    }


def table_policy(
    storage: Mapping[str, Any], bucket: str, privileges: Mapping[str, Sequence[str]], *, namespace: str = "db"
) -> dict[str, Any]:
    """Return the default policy: tables below `wh`, and what the caller may do with each."""
    return {
        **_roles(storage),
        "tables": [
            {"catalog": CATALOG, "namespace": namespace, "name": name, "location": f"s3://{bucket}/wh/{name}"}
            for name in privileges
        ],
        "grants": [
            {
                "catalog": CATALOG,
                "role": "engineer",
                "namespace": namespace,
                "table": name,
                "privileges": ["TABLE_REMOTE_SIGN", *held],
            }
            for name, held in privileges.items()
            if held
        ],
    }


def _roles(storage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "remote_signing": True,
        "default_catalog": CATALOG,
        "storages": {STORAGE: dict(storage)},
        "catalogs": {CATALOG: {"storages": [STORAGE], "remote_signing": True, "prefixes": [CATALOG]}},
        "catalog_roles": {CATALOG: ["engineer"]},
        "principal_roles": {"engineers": {CATALOG: ["engineer"]}},
        "principals": {CALLER: {"roles": ["engineers"]}},
    }


@contextmanager
def run_door(
    directory: Path,
    store: RunningStore,
    policy: Mapping[str, Any],
    *,
    port: int | None = None,
    s3: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    binding: Mapping[str, Any] | None = None,
) -> Iterator[Door]:
    """Run signproxy with its S3 listener until the block ends."""
    deployment = Deployment(directory, **(settings or {}))
    (listening,) = free_ports(1)
    sealed = directory / "secret"
    sealed.write_text(secrets.token_hex(32))
    deployment.set("context", {"secret_files": [str(sealed)]})
    deployment.set("s3", {"enabled": True, "port": listening, **(s3 or {})})
    deployment.set(
        "storages",
        {
            STORAGE: {
                "credentials": "owner",
                "hosts": [f"127.0.0.1:{port or store.port}"],
                # Who runs such a store accepts it by name; the others have nothing to accept.
                "accept_unchecked_headers": not policy["storages"][STORAGE]["checks_unsigned_headers"],
                "accept_unchecked_payload": not policy["storages"][STORAGE]["checks_payload_hash"],
                **(binding or {}),
            }
        },
    )
    keys = {"access_key_id": store.access_key, "secret_access_key": store.secret}
    deployment.key_file.write_text(json.dumps(keys))
    deployment.write_policy(policy)
    with deployment.serve() as served:
        yield Door(served, listening, store.region)
