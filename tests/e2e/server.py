"""Run the real product as a process, and ask it for signatures over HTTP as clients do."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.stores import DOMAIN, RunningStore
from tests.e2e.stores.process import Server, free_ports, status_of
from tests.e2e.wire import Answer, Wire
from tests.verifier import WireHttp

STORAGE = "store"
"""The policy's name of the store under test."""

CALLER = "static/alice"
"""The principal that tests ask as."""

EVENT_TIMEOUT = 10.0
"""Seconds until an answered request must stand in the audit file."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A table of the policy and what the caller may do with it."""

    catalog: str
    namespace: str
    table: str
    location: str
    privileges: tuple[str, ...] = ("TABLE_REMOTE_SIGN", "TABLE_WRITE_DATA")
    settings: Mapping[str, str] | None = None
    """Further keys of the table's entry, such as `overwrite`."""


@dataclass(frozen=True, slots=True)
class SignServer:
    """A running signproxy."""

    port: int
    token: str
    audit_file: Path
    process: Server

    def events(self) -> list[dict[str, Any]]:
        """Return the audit trail so far."""
        with self.audit_file.open() as lines:
            return [json.loads(line) for line in lines if line.endswith("\n")]

    def event(self, event_id: str) -> dict[str, Any]:
        """Return one event; the writer may still be at it when the answer is there."""
        deadline = time.monotonic() + EVENT_TIMEOUT
        while time.monotonic() < deadline:
            for event in self.events():
                if event["event_id"] == event_id:
                    return event
            time.sleep(0.05)
        raise AssertionError(f"the audit trail has no event {event_id}")

    def tally(self) -> Counter[str]:
        """Count the requests of the audit trail by reason; an event may stand for several."""
        counts: Counter[str] = Counter()
        for event in self.events():
            if event["kind"] == "sign":
                counts[event["reason"]] += event.get("count", 1)
        return counts


class Signer:
    """A client of a running signproxy, on one keep-alive connection."""

    def __init__(self, server: SignServer) -> None:
        self._server = server
        self._wire = Wire(server.port)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def ask(self, route: str, message: Mapping[str, Any], *, token: str | None = None) -> Answer:
        """Send a sign request, whatever the answer."""
        # Surrogates travel as escapes, as JSON has them; the rest raw, as Java writes it.
        content = json.dumps(message).encode()
        bearer = self._server.token if token is None else token
        headers = [
            ("Host", f"127.0.0.1:{self._server.port}"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(content))),
        ]
        if bearer:
            headers.append(("Authorization", f"Bearer {bearer}"))
        return self._wire.send(WireHttp("POST", route, tuple(headers), content))

    def sign(self, route: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a sign request that has to be allowed."""
        answer = self.ask(route, message)
        if not answer.ok:
            raise AssertionError(f"{route} {message}: {answer.status} {answer.body.decode()}")
        signed: dict[str, Any] = json.loads(answer.body)
        return signed


def policy_of(
    store: RunningStore, buckets: Sequence[str], catalogs: Mapping[str, Mapping[str, Any]], grants: Sequence[Grant]
) -> dict[str, Any]:
    """Return a policy document: one storage, the catalogs on it, the tables and what the caller may do."""
    held = [grant for grant in grants if grant.privileges]
    return {
        "remote_signing": True,
        "default_catalog": next(iter(catalogs)),
        "storages": {
            STORAGE: {
                "kind": "s3-compatible",
                "region": store.region,
                "buckets": list(buckets),
                "checks_unsigned_headers": True,
                "checks_payload_hash": store.traits.refuses_wrong_payload_hash,
                "pins_forwarded_headers": store.traits.verifies_as_forwarded,
                "endpoints": [
                    {"url": store.origin, "styles": ["path"]},
                    {"url": f"http://{DOMAIN}:{store.port}", "styles": ["virtual-host"]},
                ],
            }
        },
        "catalogs": {
            name: {"storages": [STORAGE], "remote_signing": True, "prefixes": [name], **settings}
            for name, settings in catalogs.items()
        },
        "catalog_roles": {
            name: [f"{grant.table}-role" for grant in held if grant.catalog == name] or ["nobody"] for name in catalogs
        },
        "principal_roles": {
            "engineer": {name: [f"{grant.table}-role" for grant in held if grant.catalog == name] for name in catalogs}
        },
        "principals": {CALLER: {"roles": ["engineer"]}},
        "tables": [
            {
                "catalog": grant.catalog,
                "namespace": grant.namespace,
                "name": grant.table,
                "location": grant.location,
                **(grant.settings or {}),
            }
            for grant in grants
        ],
        "grants": [
            {
                "catalog": grant.catalog,
                "namespace": grant.namespace,
                "table": grant.table,
                "role": f"{grant.table}-role",
                "privileges": list(grant.privileges),
            }
            for grant in held
        ],
    }


@contextmanager
def run_server(
    directory: Path, store: RunningStore, policy: Mapping[str, Any], *, signature_ttl: int | None = None
) -> Iterator[SignServer]:
    """Run `signproxy serve` with a policy for one store until the block ends."""
    directory.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    port, admin = free_ports(2)
    audit_file = directory / "audit.ndjson"
    # JSON is YAML, and needs no quoting rules.
    (directory / "policy.yaml").write_text(json.dumps(policy))
    (directory / "keys.json").write_text(
        json.dumps({"access_key_id": store.access_key, "secret_access_key": store.secret})
    )
    signing = {} if signature_ttl is None else {"signing": {"signature_ttl_seconds": signature_ttl}}
    settings = {
        "listen": {"port": port},
        "admin": {"port": admin},
        "policy": {"path": str(directory / "policy.yaml")},
        "identity": {
            "static_tokens": [
                {"sha256": hashlib.sha256(token.encode()).hexdigest(), "principal": CALLER.partition("/")[2]}
            ]
        },
        "credentials": {
            "providers": {
                "owner": {
                    "class": "signproxy.credentials.static:StaticProvider",
                    "properties": {"file": str(directory / "keys.json")},
                }
            }
        },
        "storages": {
            STORAGE: {
                "credentials": "owner",
                "hosts": [store.authority, f"{DOMAIN}:{store.port}"],
                "accept_unchecked_payload": not store.traits.refuses_wrong_payload_hash,
            }
        },
        "audit": {"sink": "file", "path": str(audit_file)},
        **signing,
    }
    (directory / "signproxy.yaml").write_text(json.dumps(settings))
    command = (sys.executable, "-m", "signproxy", "serve", "--config", str(directory / "signproxy.yaml"))
    searched = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", ""))
    process = Server("signproxy", command, directory, env={"PYTHONPATH": os.pathsep.join(filter(None, searched))})
    try:
        process.wait_until(lambda: status_of(admin, "/readyz") == 200)
        yield SignServer(port, token, audit_file, process)
    finally:
        process.stop()
