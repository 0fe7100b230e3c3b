"""Run MinIO, which users have: it verifies what is signed, and acts on `x-amz-*` headers that are not."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.stores.install import PrerequisiteMissing, _cache, _once, _run
from tests.e2e.stores.process import Server, free_ports, status_of
from tests.e2e.stores.seam import DOMAIN, RunningStore, StoreKind, Traits

VERSION = "20260212201848-7aac2a2c5b7c"
"""The last one of its module: its releases' own names do not resolve."""
REGION = "eu-west-3"

KMS_KEY = "e2e-key"
"""The name of the key that it encrypts with; without one it encrypts nothing."""

_GO_NEEDED = "1.24"


def install() -> Path:
    """Return the binary, built by Go from the published module."""
    binary = _cache() / "bin" / f"minio-{VERSION}"
    with _once(binary) as missing:
        if missing:
            go = shutil.which("go")
            if go is None:
                raise PrerequisiteMissing(
                    f"MinIO is built by Go {_GO_NEEDED} or newer, and there is no `go` on the path: "
                    "install it (`apt-get install golang` where the distribution's is new enough, else go.dev/dl)"
                )
            built = binary.parent / f"building-{os.getpid()}"
            module = f"github.com/minio/minio@v0.0.0-{VERSION}"
            _run(
                "minio",
                (go, "install", "-trimpath", "-ldflags=-s -w", module),
                {"CGO_ENABLED": "0", "GOBIN": str(built)},
            )
            (built / "minio").rename(binary)
            built.rmdir()
    return binary


@contextmanager
def run(directory: Path, *, log_webhook: str = "") -> Iterator[RunningStore]:
    """Run MinIO over an empty directory; it tells the webhook of each request, if there is one."""
    data = directory / "data"
    data.mkdir()
    access_key, secret = "minio" + secrets.token_hex(6), secrets.token_urlsafe(24)
    port, console = free_ports(2)
    env = {
        "MINIO_ROOT_USER": access_key,
        "MINIO_ROOT_PASSWORD": secret,
        "MINIO_REGION_NAME": REGION,
        "MINIO_DOMAIN": DOMAIN,
        "MINIO_KMS_SECRET_KEY": f"{KMS_KEY}:{base64.b64encode(secrets.token_bytes(32)).decode()}",
        # It would look for updates and load its console otherwise.
        "MINIO_UPDATE": "off",
        "MINIO_BROWSER": "off",
    }
    if log_webhook:
        env |= {"MINIO_AUDIT_WEBHOOK_ENABLE_E2E": "on", "MINIO_AUDIT_WEBHOOK_ENDPOINT_E2E": log_webhook}
    addresses = ("--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{console}")
    server = Server("minio", (str(install()), "server", "--quiet", *addresses, str(data)), directory, env=env)
    try:
        # Its health is good before it serves: a stranger's list is refused once it does.
        server.wait_until(lambda: status_of(port, "/") == 403)
        yield RunningStore(
            "minio",
            VERSION,
            port,
            REGION,
            access_key,
            secret,
            Traits(refuses_wrong_region=True, stores_object_beside_its_directory=False),
            server.tail,
        )
    finally:
        server.stop()


MINIO = StoreKind("minio", VERSION, run)
