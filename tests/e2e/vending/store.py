"""Run stores with a session service, and a role that may do everything: only session policies keep keys in."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from signproxy.demo.store import REGION, Ports, command
from signproxy.vending.policy_language import PolicyLanguage
from tests.e2e.stores import install, minio
from tests.e2e.stores.process import Server, status_of
from tests.e2e.stores.seam import RunningStore, Traits

ROLE = "arn:aws:iam::000000000000:role/LakeRole"
OWNER = "owner"


@dataclass(frozen=True, slots=True)
class SessionStore:
    """A store with a session service, and the key that signs the tokens of its sessions."""

    store: RunningStore
    language: PolicyLanguage
    """As the settings have it for this store."""
    token_key: bytes = b""
    """Empty where a session is more than its token."""


@contextmanager
def run_minio(directory: Path) -> Iterator[SessionStore]:
    """Run MinIO; the sessions of its owner are good for whatever their policy says, and there are no roles."""
    with minio.run(directory) as store:
        yield SessionStore(store, PolicyLanguage(escapes=False, denies_sessions=False, judges_prefix=False))


@contextmanager
def run_seaweedfs(directory: Path) -> Iterator[SessionStore]:
    """Run master, volume, filer and S3 with its session service in one process over an empty directory."""
    binary = install.seaweedfs()
    access_key, secret = "weed" + secrets.token_hex(6), secrets.token_urlsafe(24)
    token_key = secrets.token_bytes(32)
    (directory / "identities.json").write_text(json.dumps(_configuration(access_key, secret, token_key)))
    ports = Ports()
    port = ports["s3"]
    sessions = f"-s3.iam.config={directory}/identities.json"
    server = Server("seaweedfs", [*command(binary, directory, ports), sessions], directory)
    try:
        server.wait_until(lambda: status_of(port, "/healthz") == 200)
        version = install.SEAWEEDFS_VERSION
        store = RunningStore("seaweedfs", version, port, REGION, access_key, secret, Traits(), server.tail)
        yield SessionStore(store, PolicyLanguage(escapes=False, tells_case=False), token_key)
    finally:
        server.stop(timeout=0)


def _configuration(access_key: str, secret: str, token_key: bytes) -> dict[str, object]:
    everything = {"Effect": "Allow", "Action": ["s3:*", "sts:*"], "Resource": ["*"]}
    anybody = {"Effect": "Allow", "Principal": "*", "Action": ["sts:AssumeRole"]}
    return {
        "identities": [
            {
                "name": OWNER,
                "credentials": [{"accessKey": access_key, "secretKey": secret}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
        ],
        "sts": {
            "tokenDuration": "1h",
            "maxSessionLength": "12h",
            "issuer": "seaweedfs-sts",
            "signingKey": base64.b64encode(token_key).decode(),
        },
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "policies": [{"name": "Everything", "document": {"Version": "2012-10-17", "Statement": [everything]}}],
        "roles": [
            {
                "roleName": "LakeRole",
                "roleArn": ROLE,
                "trustPolicy": {"Version": "2012-10-17", "Statement": [anybody]},
                "attachedPolicies": ["Everything"],
            }
        ],
    }
