"""Run the real `python -m signproxy serve`, with all that a deployment has on: this is what every figure is of."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bench import policy_files, sign_request
from bench.caller import AUDIENCE, ISSUER, Caller, make_caller
from bench.load import Signer
from bench.policy_files import BUCKET, CATALOG, REGION, STORAGE
from bench.process import SERVER_CORE, BenchFailed, answers, call, children_of, free_port, running, wait_until
from tests.authority import Authority
from tests.verifier import as_java, verify

ACCESS_KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET_ACCESS_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105 - AWS' own example

TABLES = 1000
"""A team's lake; the decision costs the same with a thousand times as many, which another suite shows."""

_ENDPOINT = f"https://s3.{REGION}.amazonaws.com"


class Deployment(msgspec.Struct, frozen=True):
    """A directory with settings, policy, key and audit file, and the ports to serve on."""

    directory: Path
    caller: Caller
    port: int
    admin_port: int
    workers: int = 1
    scheme: str = "http"
    sealed: bool = False
    """Whether events go into sealed segments, and not into one file."""

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.directory / "signproxy.yaml"

    @property
    def key_file(self) -> Path:
        """The file with the server's own S3 keys."""
        return self.directory / "keys.json"

    @property
    def audit_file(self) -> Path:
        """The file that events are written to."""
        return self.directory / "audit.jsonl"

    @property
    def segments(self) -> Path:
        """The directory that segments are written below."""
        return self.directory / "segments"

    def command(self) -> list[str]:
        """Return the command line that serves."""
        return [sys.executable, "-m", "signproxy", "serve", "--config", str(self.config)]

    @contextlib.contextmanager
    def serve(
        self,
        *,
        core: int | None = SERVER_CORE,
        under: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Iterator[Signer]:
        """Serve for the length of a block; with several workers their supervisor is the first of the processes.

        `under` is the command line of a tool that the server runs under.
        """
        log = self.directory / "serve.log"
        with running([*under, *self.command()], core=core, log=log, env=env) as process:
            wait_until(partial(answers, f"http://127.0.0.1:{self.admin_port}/readyz"), process, log)
            yield self.signer((process.pid, *(children_of(process.pid) if self.workers > 1 else ())))

    def signer(self, pids: tuple[int, ...], *, table: int = 7) -> Signer:
        """Return this server as what is loaded: the token, and the body for files of a table."""
        namespace, name = policy_files.namespace_of(table), policy_files.table_name(table)
        path = f"/s3-sign/v1/{CATALOG}/namespaces/{namespace}/tables/{name}"
        template = sign_request.body_template(_ENDPOINT, BUCKET, policy_files.location_of(table), REGION)
        return Signer("sign", f"{self.scheme}://127.0.0.1:{self.port}{path}", pids, template, self.caller.token)

    def write_inventory(self, tables: int) -> None:
        """Replace the policy by one with so many tables, and as many grants, in one rename per file."""
        policy_files.write(self.directory / "policy", tables)

    def log_tail(self) -> str:
        """Return the end of the log."""
        return (self.directory / "serve.log").read_text(errors="replace")[-2000:]


@contextlib.contextmanager
def deploy(*, tables: int = TABLES, workers: int = 1, tls: bool = False, sealed: bool = False) -> Iterator[Deployment]:
    """Write a deployment into a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="signproxy-bench-") as name:
        deployment = Deployment(
            Path(name), make_caller(), free_port(), free_port(), workers, "https" if tls else "http", sealed
        )
        if tls:
            Authority().issue("127.0.0.1").write(deployment.directory)
        (deployment.directory / "issuer.pem").write_bytes(deployment.caller.public_pem)
        keys = {"access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET_ACCESS_KEY}
        deployment.key_file.write_text(json.dumps(keys))
        deployment.key_file.chmod(0o600)
        (deployment.directory / "policy").mkdir()
        deployment.write_inventory(tables)
        deployment.config.write_text(yaml.safe_dump(settings(deployment), sort_keys=False))
        yield deployment


def settings(deployment: Deployment) -> dict[str, Any]:
    """Return the settings: RS256 by key file, static credentials, a file sink, metrics, the default loop."""
    listen: dict[str, Any] = {"port": deployment.port}
    if deployment.scheme == "https":
        listen["tls"] = {
            "cert_file": str(deployment.directory / "tls.crt"),
            "key_file": str(deployment.directory / "tls.key"),
        }
    return {
        "listen": listen,
        "admin": {"enabled": True, "port": deployment.admin_port},
        "workers": deployment.workers,
        # One caller is all of the load here; the check itself is made for every request all the same.
        "limits": {"requests_per_second": 10_000_000, "burst": 10_000_000},
        # Reloads are asked for where they are measured.
        "reload": {"poll_seconds": 0},
        "policy": {"path": str(deployment.directory / "policy")},
        "identity": {
            "issuers": {
                "bench": {
                    "issuer": ISSUER,
                    "audiences": [AUDIENCE],
                    "algorithms": ["RS256"],
                    "key_file": str(deployment.directory / "issuer.pem"),
                }
            }
        },
        "credentials": {
            "providers": {"static": {"class": "static", "properties": {"file": str(deployment.key_file)}}},
        },
        "storages": {STORAGE: {"credentials": "static", "hosts": ["aws"]}},
        "audit": {"sink": "segments", "directory": str(deployment.segments)}
        if deployment.sealed
        else {"sink": "file", "path": str(deployment.audit_file)},
    }


def check_signature(asked: bytes, answered: bytes) -> None:
    """Verify an answer as S3 would verify what Iceberg Java sends of it, and that it carries the stamp."""
    request, answer = json.loads(asked), json.loads(answered)
    verify(as_java(request, answer), {ACCESS_KEY_ID: SECRET_ACCESS_KEY}, now=time.time(), region=REGION)
    if "x-signproxy-id=" not in answer["uri"]:
        raise BenchFailed(f"no stamp in {answer['uri']}")


def check_evidence(deployment: Deployment, served: int) -> None:
    """Fail unless metrics and audit file hold every request that was served."""
    time.sleep(1.5)  # the trail writes in batches
    status, metrics = call("GET", f"http://127.0.0.1:{deployment.admin_port}/metrics")
    if status != 200 or b"signproxy_" not in metrics:
        raise BenchFailed(f"no metrics: {status} {metrics[:200]!r}")
    events, line = 0, b""
    with deployment.audit_file.open("rb") as lines:
        for line in lines:
            events += line.endswith(b"\n")
    last = json.loads(line)
    if events < served or last["decision"] != "allow" or not last["stamped"]:
        raise BenchFailed(f"{events} events for {served} requests, the last of them {last}")
