"""Write the demo's settings, policy and keys: three identities, two tables, one bucket."""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

import msgspec

from signproxy.demo.store import DemoStore, write_private

BUCKET = "lake"
CATALOG = "lake"
NAMESPACE = "sales"
TABLE = "orders"
LOCATION = f"warehouse/{NAMESPACE}/{TABLE}"
NEIGHBOUR = f"warehouse/{NAMESPACE}/customers"


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
    keys = {"access_key_id": store.access_key, "secret_access_key": store.secret}
    where = {
        "bucket": BUCKET,
        "region": store.region,
        "endpoint": store.endpoint,
        "host": urlsplit(store.endpoint).netloc,
    }
    own = {"port": str(port), "admin_port": str(admin_port), "tokens": "\n".join(lines)}
    for name in ("policy.yaml", "settings.yaml"):
        template = Template(Path(__file__).with_name(name).read_text(encoding="utf-8"))
        write_private(directory / name, template.substitute(where | own))
    write_private(directory / "store-keys.json", json.dumps(keys))
    return World(directory / "settings.yaml", directory / "audit.ndjson", f"http://127.0.0.1:{port}", tokens)
