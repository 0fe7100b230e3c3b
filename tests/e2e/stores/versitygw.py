"""Run versitygw: strict about everything that a signature covers; keys are files of a directory."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.stores import install
from tests.e2e.stores.process import Server, free_ports, status_of
from tests.e2e.stores.seam import DOMAIN, RunningStore, StoreKind, Traits

REGION = "eu-central-1"
"""Not the default of any client, so that a signature with a guessed region fails."""


@contextmanager
def run(directory: Path, *, log_webhook: str = "") -> Iterator[RunningStore]:
    """Run the gateway over an empty directory; it tells the webhook of each request, if there is one."""
    data = directory / "data"
    data.mkdir()
    access_key, secret = "versity" + secrets.token_hex(6), secrets.token_urlsafe(24)
    port = free_ports(1)[0]
    command = (
        *(str(install.versitygw()), "--port", f"127.0.0.1:{port}", "--region", REGION),
        *("--health", "/health", "--quiet", "--keep-alive", "--virtual-domain", f"{DOMAIN}:{port}"),
        *(("--log-webhook-url", log_webhook) if log_webhook else ()),
        *("posix", str(data)),
    )
    server = Server("versitygw", command, directory, env={"ROOT_ACCESS_KEY": access_key, "ROOT_SECRET_KEY": secret})
    try:
        server.wait_until(lambda: status_of(port, "/health") == 200)
        yield RunningStore(
            "versitygw",
            install.VERSITYGW_VERSION,
            port,
            REGION,
            access_key,
            secret,
            Traits(stores_object_beside_its_directory=False),
            server.tail,
        )
    finally:
        server.stop()


VERSITYGW = StoreKind("versitygw", install.VERSITYGW_VERSION, run)
