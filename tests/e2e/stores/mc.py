"""Install MinIO's own client, once per version, in the cache that the stores live in."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.e2e.stores.install import PrerequisiteMissing, _cache, _once, _run

VERSION = "20250313080218-cf909e1063a9"
"""The last one of its module: its releases' own names do not resolve."""

_GO_NEEDED = "1.23"


def install() -> Path:
    """Return the binary, built by Go from the published module."""
    binary = _cache() / "bin" / f"mc-{VERSION}"
    with _once(binary) as missing:
        if missing:
            go = shutil.which("go")
            if go is None:
                raise PrerequisiteMissing(
                    f"mc is built by Go {_GO_NEEDED} or newer, and there is no `go` on the path: "
                    "install it (`apt-get install golang` where the distribution's is new enough, else go.dev/dl)"
                )
            built = binary.parent / f"building-mc-{os.getpid()}"
            module = f"github.com/minio/mc@v0.0.0-{VERSION}"
            _run(
                "mc", (go, "install", "-trimpath", "-ldflags=-s -w", module), {"CGO_ENABLED": "0", "GOBIN": str(built)}
            )
            (built / "mc").rename(binary)
            built.rmdir()
    return binary
