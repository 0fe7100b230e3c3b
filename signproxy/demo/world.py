"""Write the demo's settings, policy and keys: three identities, two tables, one bucket."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path

import msgspec

from signproxy.demo.store import DemoStore

BUCKET = "lake"
CATALOG = "lake"
NAMESPACE = "sales"
TABLE = "orders"
LOCATION = f"warehouse/{NAMESPACE}/{TABLE}"
NEIGHBOUR = f"warehouse/{NAMESPACE}/customers"

POLICY = """\
# The demo's policy. Edit it and send SIGHUP to the server: the next request is judged by the new one.
remote_signing: true                       # the system-wide switch; off unless it is said
default_catalog: lake

storages:
  demo:
    kind: s3-compatible
    region: {region}
    buckets: [{bucket}]
    endpoints: [{{url: "{endpoint}", styles: [path]}}]
    checks_unsigned_headers: true          # SeaweedFS refuses x-amz-* headers that are not signed ...
    pins_forwarded_headers: true           # ... but believes X-Forwarded-*, so these are signed as empty, and
    checks_payload_hash: false             # takes any body for a signed hash, so bulk deletes are refused

catalogs:
  lake:
    storages: [demo]
    roots: ["s3://{bucket}/warehouse"]
    remote_signing: true                   # the catalog's own switch

tables:
  - {{name: orders, namespace: sales, location: "s3://{bucket}/warehouse/sales/orders"}}
  - {{name: customers, namespace: sales, location: "s3://{bucket}/warehouse/sales/customers"}}

catalog_roles:
  lake: [reader, writer]

grants:                                    # signing needs TABLE_REMOTE_SIGN and the privilege on the data
  - {{role: reader, namespace: sales, table: orders, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}}
  - {{role: writer, namespace: sales, table: orders, privileges: [TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]}}

principal_roles:
  analysts: {{lake: [reader]}}
  loaders: {{lake: [writer]}}

principals:
  alice: {{roles: [analysts]}}
  etl: {{roles: [loaders]}}
  guest: {{roles: []}}
"""

SETTINGS = """\
# The demo's settings: only the operator edits these.
listen: {{host: 127.0.0.1, port: {port}}}
admin: {{host: 127.0.0.1, port: {admin_port}}}
policy: {{path: policy.yaml}}
identity:
  static_tokens:                           # known by their SHA-256 alone; `signproxy token hash` makes more
{tokens}
credentials:
  providers:
    store-keys: {{class: static, properties: {{file: store-keys.json}}}}
storages:
  demo: {{credentials: store-keys, hosts: ["{host}"]}}
audit: {{sink: file, path: audit.ndjson}}
"""


class World(msgspec.Struct, frozen=True):
    """The demo's files and the three tokens."""

    settings: Path
    audit: Path
    url: str
    tokens: dict[str, str]


def write_world(directory: Path, store: DemoStore, port: int, admin_port: int) -> World:
    """Write everything that `signproxy serve --config settings.yaml` needs."""
    tokens = {name: f"{name}-{secrets.token_urlsafe(24)}" for name in ("alice", "etl", "guest")}
    lines = [
        f"    - {{sha256: {hashlib.sha256(token.encode()).hexdigest()}, principal: {name}}}"
        for name, token in tokens.items()
    ]
    _write(directory / "policy.yaml", POLICY.format(bucket=BUCKET, region=store.region, endpoint=store.endpoint))
    _write(
        directory / "settings.yaml",
        SETTINGS.format(
            port=port,
            admin_port=admin_port,
            tokens="\n".join(lines),
            host=store.endpoint.removeprefix("http://"),
        ),
    )
    _write(
        directory / "store-keys.json",
        json.dumps({"access_key_id": store.access_key, "secret_access_key": store.secret}),
    )
    return World(directory / "settings.yaml", directory / "audit.ndjson", f"http://127.0.0.1:{port}", tokens)


def _write(path: Path, text: str) -> None:
    # Owner-only: one of these files holds the store's keys.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
