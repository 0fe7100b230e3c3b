"""Install the clients of other languages, once per version, in the cache that the stores live in."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.e2e.clients import maven
from tests.e2e.stores import debian
from tests.e2e.stores.install import PrerequisiteMissing, _cache, _once, _run, virtualenv

HERE = Path(__file__).parent

JS_VERSION = "3.1169.0"
JAVA_VERSION = "2.41.0"
S3CMD_VERSION = "2.4.0"
MINIO_PY_VERSION = "7.2.20"

_GO = HERE / "go_driver"
_GO_NEEDED = "1.25"
_JS_PACKAGES = {
    "@aws-sdk/client-s3": JS_VERSION,
    "@aws-sdk/lib-storage": JS_VERSION,
    "@aws-sdk/s3-request-presigner": "3.1162.0",
}
_JARS = (
    *(f"software.amazon.awssdk:{name}:{JAVA_VERSION}" for name in ("s3", "s3-transfer-manager", "apache-client")),
    f"software.amazon.awssdk:netty-nio-client:{JAVA_VERSION}",
    "software.amazon.awssdk.crt:aws-crt:0.43.1",
    "com.fasterxml.jackson.core:jackson-databind:2.20.0",
)


def go_version() -> str:
    """Return the version of the Go SDK that the driver is built with."""
    found = re.search(r"service/s3 v(\S+)", (_GO / "go.mod").read_text())
    assert found
    return found[1]


def go_driver() -> tuple[str, ...]:
    """Return the command of the driver for Go, built from modules whose digests stand in `go.sum`."""
    digest = hashlib.sha256(b"".join((_GO / name).read_bytes() for name in ("main.go", "go.mod", "go.sum")))
    binary = _cache() / "bin" / f"s3-go-driver-{digest.hexdigest()[:12]}"
    with _once(binary) as missing:
        if missing:
            go = _tool("go", f"install Go {_GO_NEEDED} or newer (`apt-get install golang`)")
            building = binary.parent / f"building-s3-go-{os.getpid()}"
            _run("S3 driver for Go", (go, "-C", str(_GO), "build", "-o", str(building), "."), {"CGO_ENABLED": "0"})
            building.rename(binary)
    return (str(binary),)


def java_driver(source: Path = HERE / "S3SdkDriver.java") -> tuple[str, ...]:
    """Return the command of a driver for Java."""
    jars = maven.with_dependencies(f"aws-sdk-java-{JAVA_VERSION}", _JARS)
    return (maven.tool("java"), "-cp", maven.compiled(source, jars), source.stem)


def js_driver() -> tuple[str, ...]:
    """Return the command of the driver for JavaScript: modules are found from where the script lies."""
    source = HERE / "sdk_v3_driver.mjs"
    digest = hashlib.sha256(source.read_bytes() + json.dumps(_JS_PACKAGES).encode()).hexdigest()[:12]
    home = _cache() / "npm" / f"aws-sdk-js-{digest}"
    done = home / "complete"
    with _once(done) as missing:
        if missing:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            (home / "package.json").write_text(json.dumps({"private": True, "dependencies": _JS_PACKAGES}))
            npm = _tool("npm", "install Node.js 20 or newer with npm (`apt-get install npm`)")
            options = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
            _run("AWS SDK for JavaScript", (npm, "install", "--prefix", str(home), *options))
            shutil.copy(source, home / source.name)
            done.touch()
    return (_tool("node", "install Node.js 20 or newer (`apt-get install nodejs`)"), str(home / source.name))


def s3cmd() -> Path:
    """Return the command s3cmd."""
    return virtualenv("s3cmd", S3CMD_VERSION, "setuptools<81") / "s3cmd"


def minio_py() -> tuple[Path, Path]:
    """Return the Python with MinIO's library, and the functional tests that its source archive brings."""
    commands = virtualenv("minio", MINIO_PY_VERSION)
    tests = _cache() / "sources" / f"minio-{MINIO_PY_VERSION}"
    with _once(tests) as missing:
        if missing:
            with tempfile.TemporaryDirectory(dir=tests.parent) as directory:
                options = ("--quiet", "--no-deps", "--no-binary", ":all:", "--dest", directory)
                _run("minio-py", (str(commands / "pip"), "download", *options, f"minio=={MINIO_PY_VERSION}"))
                (archive,) = Path(directory).glob("*.tar.gz")
                with tarfile.open(archive) as packed:
                    packed.extractall(directory, filter="data")
                (Path(directory) / f"minio-{MINIO_PY_VERSION}").rename(tests)
    return commands / "python", tests / "tests" / "functional" / "tests.py"


def restic() -> tuple[str, str]:
    """Return the command restic and its version: Debian's package, which depends on nothing but the C library."""
    found = shutil.which("restic") or str(debian.unpacked("restic") / "usr" / "bin" / "restic")
    told = subprocess.run((found, "version"), capture_output=True, text=True, check=True).stdout
    return found, told.split()[1]


def _tool(name: str, remedy: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PrerequisiteMissing(f"there is no `{name}` on the path: {remedy}")
    return found
