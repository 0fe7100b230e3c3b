"""Run SeaweedFS, the demo's store, as the demo runs it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from signproxy.demo.store import REGION, Ports, command, write_identities
from tests.e2e.stores import install
from tests.e2e.stores.process import Server, status_of
from tests.e2e.stores.seam import DOMAIN, RunningStore, StoreKind, Traits


@contextmanager
def run(directory: Path) -> Iterator[RunningStore]:
    """Run master, volume, filer and S3 in one process over an empty directory."""
    binary = install.seaweedfs()
    access_key, secret = "weed" + secrets.token_hex(6), secrets.token_urlsafe(24)
    write_identities(directory / "identities.json", access_key, secret)
    ports = Ports()
    port = ports["s3"]
    server = Server("seaweedfs", command(binary, directory, ports, domain=DOMAIN), directory)
    try:
        server.wait_until(lambda: status_of(port, "/healthz") == 200)
        yield RunningStore(
            "seaweedfs",
            install.SEAWEEDFS_VERSION,
            port,
            REGION,
            access_key,
            secret,
            Traits(
                refuses_wrong_payload_hash=False,
                refuses_wrong_region=False,
                verifies_as_forwarded=True,
            ),
            server.tail,
        )
    finally:
        # It would wait 15 s for a cluster that is gone; its sockets lie in a directory of its own.
        server.stop(timeout=0)


SEAWEEDFS = StoreKind("seaweedfs", install.SEAWEEDFS_VERSION, run)
