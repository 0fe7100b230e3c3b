"""Install what sets a process's clock, once per version, in the cache that the stores live in."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.e2e.stores.install import PrerequisiteMissing, _cache, _once, _run

LIBFAKETIME = "libfaketime==3.0.1"
_SHA256 = "5eed7c17f3d4ba0f6f828de4975f69a622b06b1e792674e6c1b069c0689fab79"


def libfaketime() -> Path:
    """Return the library that is loaded before all others into the process whose clock is set."""
    home = _cache() / "tools" / LIBFAKETIME.replace("==", "-")
    done = home / "complete"
    with _once(done) as missing:
        if missing:
            shutil.rmtree(home, ignore_errors=True)
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
                pins.write(f"{LIBFAKETIME} --hash=sha256:{_SHA256}\n")
                pins.flush()
                command = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(home))
                _run("libfaketime", (*command, "--require-hashes", "-r", pins.name))
            done.touch()
    found = next(home.rglob("libfaketime.so.1"), None)
    if found is None:
        raise PrerequisiteMissing(f"{LIBFAKETIME} holds no library for this platform; it has one for Linux on x86-64")
    return found
