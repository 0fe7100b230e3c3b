"""Run the real `python -m signproxy serve` with its S3 listener in front of the stores of a run, everything else on."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from bench.forward_scene import TABLES, Proxy, Store, check, get
from bench.forward_streams import ask_once
from bench.policy_files import BUCKET, CATALOG, REGION, location_of
from bench.process import SERVER_CORE, BenchFailed, call, free_port
from bench.serve import Deployment, deploy

_PROVIDER = "static"
_SECRET_BYTES = 32


class IssuedKey(msgspec.Struct, frozen=True, rename="kebab"):
    """A key that signproxy issued, as it answers it."""

    access_key_id: str
    secret_access_key: str
    session_token: str


class Forwarding(msgspec.Struct, frozen=True):
    """A running signproxy with its S3 listener."""

    deployment: Deployment
    proxy: Proxy

    def issue_key(self) -> IssuedKey:
        """Return a key of the caller's."""
        url = f"http://127.0.0.1:{self.deployment.port}/v1/s3-keys"
        bearer = {"Authorization": f"Bearer {self.proxy.token}", "Content-Type": "application/json"}
        status, content = call("POST", url, bearer, b"{}")
        if status != 200:
            raise BenchFailed(f"no key: {status} {content[:500]!r}")
        return msgspec.json.decode(content, type=IssuedKey)

    def check(self, store: Store) -> None:
        """Fail unless it serves what is allowed, byte for byte and re-signed, and refuses what is not."""
        check(self.proxy, store, signs=True)
        target, _, _ = get(self.proxy, BUCKET, "part-0.large").target.rpartition(location_of(TABLES[BUCKET]))
        foreign = msgspec.structs.replace(get(self.proxy, BUCKET, ""), target=f"{target}elsewhere/part-0.large")
        refused = ask_once(foreign, self.proxy.port)
        anonymous = ask_once(msgspec.structs.replace(foreign, headers=()), self.proxy.port)
        if (refused.status, anonymous.status) != (403, 403):
            raise BenchFailed(f"not refused: {refused} {anonymous}")

    def check_audited(self, served: int) -> None:
        """Fail unless the audit file holds every request that was served."""
        time.sleep(1.5)  # the trail writes in batches
        status, metrics = call("GET", f"http://127.0.0.1:{self.deployment.admin_port}/metrics")
        if status != 200 or b"signproxy_" not in metrics:
            raise BenchFailed(f"no metrics: {status} {metrics[:200]!r}")
        with self.deployment.audit_file.open("rb") as lines:
            events = sum(b'"kind":"forward"' in line for line in lines)
        if events < served:
            raise BenchFailed(f"{events} events for {served} requests")


@contextlib.contextmanager
def forwarding(
    store: Store,
    *,
    core: int | None = SERVER_CORE,
    workers: int = 1,
    under: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Forwarding]:
    """Serve in front of the stores until the block ends."""
    with deploy(workers=workers) as deployment:
        port = free_port()
        _write_policy(deployment, store)
        _write_settings(deployment, store, port)
        with deployment.serve(core=core, under=under, env=env) as signer:
            yield Forwarding(deployment, Proxy("signproxy", port, signer.pids, deployment.caller.token))


def storages(store: Store) -> dict[str, Any]:
    """Return the policy's storages: one for each bucket of the scene, each at its own port."""
    return {
        to.bucket: {
            "kind": "s3-compatible",
            "region": REGION,
            "buckets": [to.bucket],
            "endpoints": [{"url": f"{to.scheme}://127.0.0.1:{to.port}", "styles": ["path"]}],
            "checks_unsigned_headers": True,
            "checks_payload_hash": True,
        }
        for to in store.upstreams
    }


def _write_policy(deployment: Deployment, store: Store) -> None:
    """Put a table of its own into each bucket; the others stay where they were."""
    directory = deployment.directory / "policy"
    path = directory / "policy.yaml"
    policy = yaml.safe_load(path.read_text())
    policy["storages"] = storages(store)
    policy["catalogs"][CATALOG]["storages"] = list(policy["storages"])
    policy["catalogs"][CATALOG]["roots"] = [f"s3://{bucket}/warehouse" for bucket in TABLES]
    path.write_text(yaml.safe_dump(policy, sort_keys=False))
    (inventory,) = directory.glob("tables-*.ndjson")
    lines = inventory.read_text()
    for bucket, table in TABLES.items():
        location = f'/{location_of(table)}"'
        lines = lines.replace(f"s3://{BUCKET}{location}", f"s3://{bucket}{location}")
    inventory.write_text(lines)


def _write_settings(deployment: Deployment, store: Store, port: int) -> None:
    secret = deployment.directory / "secret"
    secret.write_text(secrets.token_hex(_SECRET_BYTES))
    secret.chmod(0o600)
    settings = yaml.safe_load(deployment.config.read_text())
    settings["context"] = {"secret_files": [str(secret)]}
    settings["storages"] = {
        to.bucket: {"credentials": _PROVIDER, "hosts": [f"127.0.0.1:{to.port}"]} for to in store.upstreams
    }
    settings["s3"] = {"enabled": True, "port": port, "upstream": {"ca_file": str(store.ca_file)}}
    deployment.config.write_text(yaml.safe_dump(settings, sort_keys=False))
