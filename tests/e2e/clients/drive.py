"""Lay out one lake for all clients that are run without an engine, and tell them what to do in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from signproxy.cli.clients import Client, Connection, Mode, configuration
from tests.e2e.clients.rig import Rig, Run, run_rig
from tests.e2e.conftest import Shelf
from tests.e2e.server import CALLER, STORAGE
from tests.e2e.stores import SEAWEEDFS, SWIFT, VERSITYGW, RunningStore, StoreKind
from tests.e2e.stores.direct import Owner
from tests.e2e.stores.minio import KMS_KEY as MINIO_KMS_KEY
from tests.e2e.stores.minio import MINIO

STORES = (VERSITYGW, SWIFT, SEAWEEDFS, MINIO)

BUCKET = "lake"
CATALOG = "lake"
NAMESPACE = "sales"
TABLE = "orders"
OWNED = "owned"
"""A table whose metadata files the client writes itself."""
DENIED = "denied"
READ_ONLY = "customers"
ONCE = "once"
"""A table whose objects are written once."""
SECRET = b"secret"

CLIENT_TIMEOUT = 240.0
"""Seconds; the slowest client takes 30 on two busy cores."""

KMS_KEY = f"arn:aws:kms:{MINIO_KMS_KEY}"
OPT_INS = {
    "tagging": True,
    "bucket_owner_full_control": True,
    "kms_keys": [KMS_KEY],
    "storage_classes": ["STANDARD_IA"],
}

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

_USER = CALLER.partition("/")[2]
_NOWHERE = "http://127.0.0.1:9/catalog"
"""Where the catalog of a client is that asks none."""


@dataclass(frozen=True, slots=True)
class Lake:
    """Five tables on a store: writable, owned, written once, read-only and denied."""

    rig: Rig

    @property
    def url(self) -> str:
        return self.rig.url

    @property
    def token(self) -> str:
        return self.rig.tokens[_USER]

    def properties(
        self, client: Client, version: str, *, catalog_uri: str = _NOWHERE, origin: str = ""
    ) -> dict[str, str]:
        """Return what `signproxy client-config` tells a user whose catalog knows nothing of signing."""
        return configuration(
            Connection(
                client=client,
                site=self.rig.site(CATALOG, origin=origin),
                mode=Mode.DIRECT,
                version=version,
                token=self.token,
                catalog_uri=catalog_uri,
            )
        )

    def advertised(self) -> dict[str, str]:
        """Return what `GET /v1/config` tells a client that asks for remote signing, and a token."""
        headers = {"X-Iceberg-Access-Delegation": "remote-signing", "Authorization": f"Bearer {self.token}"}
        with urlopen(Request(f"{self.url}/catalogs/{CATALOG}/v1/config", headers=headers), timeout=30) as answer:
            config = json.load(answer)
        return {**config["defaults"], **config["overrides"], "token": self.token}

    def store_properties(self) -> dict[str, str]:
        """Return what a store that is not AWS needs besides, for both clients."""
        return {
            "s3.endpoint": self.rig.relay.origin,
            "s3.path-style-access": "true",
            "s3.region": self.rig.store.region,
            "client.region": self.rig.store.region,
        }

    def asked(self, name: str, properties: Mapping[str, str], large: int) -> dict[str, Any]:
        """Return what a driver is told; each run has a folder of its own in the table."""
        warehouse = f"s3://{self.rig.bucket}/warehouse/{NAMESPACE}"
        return {
            "properties": dict(properties),
            "bucket": self.rig.bucket,
            "root": f"{warehouse}/{TABLE}/{name}",
            "denied": f"{warehouse}/{DENIED}",
            "read_only": f"{warehouse}/{READ_ONLY}",
            "once": f"{warehouse}/{ONCE}/{name}",
            "keys": KEYS,
            "large": large,
            "variants": {},
        }

    def drive(
        self, command: tuple[str, ...], asked: Mapping[str, Any], home: Path, settings: Mapping[str, str] | None = None
    ) -> Run:
        """Run a client to its end."""
        stdin = json.dumps(asked).encode()
        return self.rig.run(command, home, stdin=stdin, settings=settings, timeout=CLIENT_TIMEOUT)


@contextmanager
def run_lake(
    directory: Path,
    store: RunningStore,
    *,
    bucket: str = BUCKET,
    opt_ins: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Lake]:
    """Run signproxy before a store until the block ends."""
    with closing(Owner(store)) as owner:
        owner.must("PUT", bucket)
    with run_rig(directory, store, bucket, _policy(bucket), users=(_USER,), opt_ins=opt_ins, settings=settings) as rig:
        for table in (READ_ONLY, DENIED):
            rig.owner.must("PUT", f"{bucket}/warehouse/{NAMESPACE}/{table}/data/file", body=SECRET)
        yield Lake(rig)


@dataclass(frozen=True, slots=True)
class Lakes:
    """A lake on each store, laid out when it is first asked for."""

    shelf: Shelf
    directories: pytest.TempPathFactory
    stack: ExitStack
    laid_out: dict[str, Lake] = field(default_factory=dict)

    def on(self, kind: StoreKind) -> Lake:
        """Return the lake on a store."""
        if kind.name not in self.laid_out:
            directory = self.directories.mktemp(f"lake-{kind.name}")
            made = run_lake(directory, self.shelf.get(kind), opt_ins=OPT_INS)
            self.laid_out[kind.name] = self.stack.enter_context(made)
        return self.laid_out[kind.name]


def _policy(bucket: str) -> dict[str, Any]:
    signing, writing = ["TABLE_REMOTE_SIGN"], ["TABLE_REMOTE_SIGN", "TABLE_WRITE_DATA"]
    privileges = {
        TABLE: writing,
        # The metadata files of its catalog are written by the client.
        OWNED: [*writing, "TABLE_FULL_METADATA"],
        ONCE: writing,
        READ_ONLY: [*signing, "TABLE_READ_DATA"],
    }
    return {
        "default_catalog": CATALOG,
        "catalogs": {CATALOG: {"storages": [STORAGE], "remote_signing": True, "prefixes": [CATALOG]}},
        "catalog_roles": {CATALOG: ["engineer"]},
        "principal_roles": {"engineers": {CATALOG: ["engineer"]}},
        "principals": {CALLER: {"roles": ["engineers"]}},
        "tables": [
            {
                "namespace": NAMESPACE,
                "name": table,
                "location": f"s3://{bucket}/warehouse/{NAMESPACE}/{table}",
                **({"overwrite": "forbid"} if table == ONCE else {}),
            }
            for table in (*privileges, DENIED)
        ],
        "grants": [
            {"role": "engineer", "namespace": NAMESPACE, "table": table, "privileges": held}
            for table, held in privileges.items()
        ],
    }
