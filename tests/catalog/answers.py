"""Make the answers of an upstream, as real ones write them."""

from __future__ import annotations

import json
from typing import Any

from signproxy.catalog.client_properties import StoreAddress
from signproxy.catalog.signer_grant import IcebergClient, SignerGrant

UUID = "6f1a3c5e-0000-4000-8000-000000000001"
LOCATION = "s3://lake/wh/ns/t"
METADATA_LOCATION = f"{LOCATION}/metadata/00001-a.metadata.json"

STORE = StoreAddress("us-west-2", "http://minio:9000", path_style=True)
GRANT = SignerGrant(mount="https://sign.example/catalogs/lake/", prefix="lake", client=IcebergClient.JAVA)

KEYS = {
    "s3.access-key-id": "AKIAIOSFODNN7EXAMPLE",
    "s3.secret-access-key": "upstream-secret",
    "s3.session-token": "upstream-session",
}
VENDED = [{"prefix": "s3://lake", "config": KEYS}]


def metadata(**changes: Any) -> dict[str, Any]:
    """Return a table's metadata."""
    return {
        "format-version": 2,
        "table-uuid": UUID,
        "location": LOCATION,
        "last-updated-ms": 1,
        "properties": {"write.data.path": f"{LOCATION}/data", "owner": "me", "comment": 'a "quoted" \\ one'},
        "schemas": [{"type": "struct", "fields": [{"id": 1, "name": "location", "type": "string"}]}],
        "snapshots": [{"snapshot-id": 1, "summary": {"operation": "append"}}],
        **changes,
    }


def table(**changes: Any) -> dict[str, Any]:
    """Return an upstream's answer with a table and its keys."""
    return {
        "metadata-location": METADATA_LOCATION,
        "metadata": metadata(),
        "config": {**KEYS, "s3.endpoint": "https://evil.example", "s3.delete-enabled": "false"},
        "storage-credentials": VENDED,
        **changes,
    }


def encoded(value: object) -> bytes:
    """Return JSON as Java writes it: compact, and not escaped."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
