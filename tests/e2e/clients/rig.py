"""Put a real signproxy before a real store, run clients as processes, and read what each side has seen of them."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signproxy.cli.clients import Site
from tests.e2e.clients.relay import Relay, S3Call, run_relay
from tests.e2e.clients.tls import TlsFront, run_tls_front
from tests.e2e.faults.deployment import Deployment, Served, static_token
from tests.e2e.server import STORAGE
from tests.e2e.stores import RunningStore
from tests.e2e.stores.direct import Owner
from tests.e2e.stores.minio import MINIO

EVENT_TIMEOUT = 30.0
"""Seconds until an answered request must stand in the audit file."""

_OUTPUT_SHOWN = 6000

_KEYS = re.compile(r"AWS_|_KEY|SECRET|TOKEN|CREDENTIAL", re.IGNORECASE)
_WITNESS = "static/witness"
"""Whose refused request stands in the audit file behind everything that was answered before it."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a client reported, what signproxy recorded and what the store was sent."""

    outcomes: dict[str, dict[str, Any]]
    events: list[dict[str, Any]]
    """Those of sign calls."""
    calls: list[S3Call]
    access_key: str
    """Of the keys that signproxy signs with."""

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

    def check_trail(self, principals: Collection[str], *, cached: bool = False, beyond_store: str = "") -> None:
        """Check that each request at the store was signed by signproxy, for what it is, and is in the trail once.

        With `cached`, the client may have used a read's signature again. What is below a folder named `beyond_store`
        asks the store for what it cannot do, so that its refusals say nothing of signatures.
        """
        allowed = {event["event_id"]: event for event in self.events if event["decision"] == "allow"}
        for call in self.calls:
            assert call.access_key == self.access_key, f"not signed by signproxy: {call}"
            assert {"host", *(name for name in call.headers if name.startswith("x-amz-"))} <= {*call.signed_headers}, (
                call
            )
            assert call.stamp in allowed, f"no event: {call}"
            event = allowed[call.stamp]
            assert (call.method, call.key) == (event["method"], "" if event["s3_op"] in _OF_BUCKETS else event["key"])
            # The signature was good: what a strict store says of a bad one is 400 or 403.
            if not beyond_store or f"/{beyond_store}/" not in call.key:
                assert call.status not in {0, 400, 401, 403}, call
        stamps = Counter(call.stamp for call in self.calls)
        assert stamps.keys() == allowed.keys(), allowed.keys() - stamps.keys()
        for stamp, count in stamps.items():
            assert count == 1 or (cached and allowed[stamp].get("cacheable")), (count, allowed[stamp])
        assert len({event["event_id"] for event in self.events}) == len(self.events)
        for event in self.events:
            assert event["principal"] in principals, event
            assert event.get("count", 1) == 1, event


_OF_BUCKETS = frozenset({"ListObjectsV2", "DeleteObjects"})


class Rig:
    """A store, a relay before it over http and https, and a signproxy that signs for both."""

    def __init__(
        self, owner: Owner, relay: Relay, tls: TlsFront, served: Served, tokens: Mapping[str, str], bucket: str
    ) -> None:
        self.store = owner.store
        self.owner = owner
        self.relay = relay
        self.tls = tls
        self.served = served
        self.deployment = served.deployment
        self.tokens = tokens
        """Of the users `static/<name>`."""
        self.bucket = bucket

    @property
    def url(self) -> str:
        """Return where signproxy is."""
        return f"http://127.0.0.1:{self.deployment.port}"

    def site(self, catalog: str, *, origin: str = "") -> Site:
        """Return what `signproxy client-config` takes from settings and policy."""
        return Site(
            catalog=catalog,
            public_url=self.url,
            region=self.store.region,
            s3_endpoint=origin or self.relay.origin,
            path_style=True,
        )

    @contextmanager
    def restarted(self) -> Iterator[None]:
        """Have ended the signproxy that runs, and run another one in its place until the block ends."""
        self.served.end()
        with self.deployment.serve() as self.served:
            yield

    def run(
        self,
        command: Sequence[str],
        home: Path,
        *,
        stdin: bytes = b"",
        settings: Mapping[str, str] | None = None,
        timeout: float,
        told: Path | None = None,
    ) -> Run:
        """Run a client to its end; it tells its outcomes on standard output, or in a file."""
        events_before, calls_before = len(self.served.events()), len(self.relay.calls())
        log = home / "client.log"
        with log.open("wb") as errors:
            done = subprocess.run(
                command,
                input=stdin,
                env=self.environment(home, settings or {}),
                cwd=home,
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=timeout,
                check=False,
            )
        if done.returncode != 0:
            output = log.read_text(errors="replace")[-_OUTPUT_SHOWN:]
            raise AssertionError(f"{command[0]} ended with {done.returncode}\n{output}")
        outcomes = json.loads(done.stdout if told is None else told.read_bytes())
        calls = self.relay.calls()[calls_before:]
        self._await_events()
        events = self.served.events()[events_before:]
        signed = [event for event in events if event["kind"] == "sign" and event.get("principal") != _WITNESS]
        return Run(outcomes, signed, calls, self.store.access_key)

    def environment(self, home: Path, settings: Mapping[str, str]) -> dict[str, str]:
        """Return what a client is started with: nothing of the machine may configure it, least of all keys."""
        env = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "JAVA_HOME"}}
        env |= {"HOME": str(home), "NO_PROXY": "127.0.0.1", "AWS_EC2_METADATA_DISABLED": "true"}
        env |= {"AWS_CA_BUNDLE": str(self.tls.certificate), **settings}
        held = [name for name in env if _KEYS.search(name)]
        assert held == ["AWS_EC2_METADATA_DISABLED", "AWS_CA_BUNDLE"], held
        return env

    def _await_events(self) -> None:
        """Wait until the audit file has all that was answered so far: the file is in the order of the answers."""
        seen = self._witnessed()
        self.served.sign(self.deployment.token)
        deadline = time.monotonic() + EVENT_TIMEOUT
        while time.monotonic() < deadline:
            if self._witnessed() > seen:
                return
            time.sleep(0.05)
        raise AssertionError(f"the audit file does not catch up\n{self.served.tail()}")

    def _witnessed(self) -> int:
        return sum(event.get("principal") == _WITNESS for event in self.served.events())


def storages_of(store: RunningStore, bucket: str, origins: Sequence[str], opt_ins: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy's storages: the store under test, at each of its addresses."""
    return {
        STORAGE: {
            "kind": "s3-compatible",
            "region": store.region,
            "buckets": [bucket],
            "checks_unsigned_headers": store.name != MINIO.name,
            "checks_payload_hash": store.traits.refuses_wrong_payload_hash,
            "pins_forwarded_headers": store.traits.verifies_as_forwarded,
            "endpoints": [{"url": origin, "styles": ["path"]} for origin in origins],
            "opt_ins": dict(opt_ins),
        }
    }


@contextmanager
def run_rig(
    directory: Path,
    store: RunningStore,
    bucket: str,
    policy: Mapping[str, Any],
    *,
    users: Sequence[str] = (),
    opt_ins: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    binding: Mapping[str, Any] | None = None,
) -> Iterator[Rig]:
    """Run everything around a bucket of a store until the block ends; the policy lacks nothing but its storages.

    `binding` adds to what the settings say of the storage.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        owner = stack.enter_context(closing(Owner(store)))
        relay = stack.enter_context(run_relay(directory, store.port))
        tls = stack.enter_context(run_tls_front(directory, relay.port))
        storages = storages_of(store, bucket, (relay.origin, tls.origin), opt_ins or {})
        deployment = Deployment(directory / "signproxy", **(settings or {}))
        tokens = {user: secrets.token_urlsafe(32) for user in users}
        believed = {_WITNESS.partition("/")[2]: deployment.token, **tokens}
        deployment.set("identity", {"static_tokens": [static_token(token, name) for name, token in believed.items()]})
        deployment.set(
            "storages",
            {
                STORAGE: {
                    "credentials": "owner",
                    "hosts": [relay.authority, tls.authority],
                    # Who runs such a store accepts it by name; the others have nothing to accept.
                    "accept_unchecked_headers": not storages[STORAGE]["checks_unsigned_headers"],
                    "accept_unchecked_payload": not storages[STORAGE]["checks_payload_hash"],
                    **(binding or {}),
                }
            },
        )
        keys = {"access_key_id": store.access_key, "secret_access_key": store.secret}
        deployment.key_file.write_text(json.dumps(keys))
        deployment.write_policy({"remote_signing": True, "storages": storages, **policy})
        served = stack.enter_context(deployment.serve())
        yield Rig(owner, relay, tls, served, tokens, bucket)
