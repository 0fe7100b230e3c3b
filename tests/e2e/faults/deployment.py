"""Lay out a deployment in a directory, and run the real `signproxy serve` from it, as an operator would."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signproxy.audit.unpack import TornError, lines_of
from signproxy.audit.verify import segments
from tests.e2e.stores.process import ServerFailed, free_ports
from tests.verifier import VerificationError, as_java, verify

REGION = "us-east-1"
BUCKET = "lake"
AUTHORITY = "127.0.0.1:9"
"""Where the signatures are for: nothing listens on the discard port, and nothing has to."""

ROUTE = "/s3-sign/v1/lake/namespaces/db/tables/t"
CLOSED_ROUTE = "/s3-sign/v1/lake/namespaces/db/tables/closed"
"""A table without grants."""

PATIENCE = 30.0
"""Seconds for something that has to happen soon, on a machine that is busy with other things."""

_LOG_SHOWN = 6000
_CLIENTS = ("static/alice", "static/bob", "idp/engineer")
_SAMPLE = re.compile(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


class Keys:
    """The key pairs that a signature may be made with; those of the past stay good until they are forgotten."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self.tokens: dict[str, str] = {}

    def new(self, token: str = "") -> tuple[str, str]:
        """Make another pair, of a session if a token is given."""
        key, secret = f"AKIA{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30)
        self.secrets[key] = secret
        if token:
            self.tokens[key] = token
        return key, secret

    def check(self, message: Mapping[str, Any], answer: Mapping[str, Any], moments: Sequence[float]) -> None:
        """Raise unless a strict store would take what Iceberg Java makes of an answer, at one of these moments."""
        wire = as_java(message, answer)
        *others, last = moments
        for moment in others:
            with suppress(VerificationError):
                return verify(wire, self.secrets, now=moment, tokens=self.tokens, region=REGION)
        return verify(wire, self.secrets, now=last, tokens=self.tokens, region=REGION)


class Deployment:
    """A directory with settings, policy, keys and an audit file; what it says is changed by the test that breaks it."""

    def __init__(self, directory: Path, **sections: Mapping[str, Any]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.port, self.admin_port = free_ports(2)
        self.keys = Keys()
        self.token = secrets.token_urlsafe(32)
        self.audit_file = directory / "audit.ndjson"
        self.policy_file = directory / "policy.yaml"
        self.key_file = directory / "keys.json"
        self.config = directory / "signproxy.yaml"
        self.settings: dict[str, Any] = {
            "listen": {"port": self.port},
            "admin": {"port": self.admin_port},
            "policy": {"path": str(self.policy_file)},
            "identity": {"static_tokens": [static_token(self.token, "alice")]},
            "credentials": {
                "providers": {"owner": {"class": "static", "properties": {"file": str(self.key_file)}}},
            },
            "storages": {"store": {"credentials": "owner", "hosts": [AUTHORITY]}},
            "audit": {"sink": "file", "path": str(self.audit_file)},
        }
        for name, section in sections.items():
            self.set(name, section)
        self.write_settings()
        self.write_keys()
        self.write_policy()

    def set(self, name: str, section: object) -> None:
        """Change a section of the settings, or one key at the top; what a section does not name stays."""
        held = self.settings.get(name)
        if isinstance(held, dict) and isinstance(section, Mapping):
            held.update(section)
        else:
            self.settings[name] = section
        self.write_settings()

    def trust(self, issuer: str, **more: object) -> None:
        """Believe the tokens of an issuer that is found by discovery."""
        declared = {
            "issuer": issuer, "audiences": ["signproxy"], "algorithms": ["RS256", "ES256"], "discovery": True, **more,
        }  # fmt: skip
        self.set("identity", {"issuers": {"idp": declared}})

    def write_settings(self) -> None:
        """Replace the settings file in one step."""
        replace(self.config, json.dumps(self.settings))

    def write_policy(self, policy: Mapping[str, Any] | None = None) -> None:
        """Replace the policy file in one step."""
        # JSON is YAML, and needs no quoting rules.
        replace(self.policy_file, json.dumps(policy_of() if policy is None else policy))

    def write_keys(self) -> str:
        """Give the server a new key pair; return its id."""
        key, secret = self.keys.new()
        replace(self.key_file, json.dumps({"access_key_id": key, "secret_access_key": secret}), mode=0o600)
        return key

    @contextmanager
    def serve(
        self,
        *,
        before: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        ready: bool = True,
        log: int | None = None,
    ) -> Iterator[Served]:
        """Run the server until the block ends; `before` is what its command is run by, `log` takes its output."""
        served = Served(self, before, env or {}, log)
        try:
            served.wait_until("it answers", lambda: served.status("/readyz") in ((200,) if ready else (200, 503)))
            yield served
        finally:
            served.end()


class Served:
    """A running `signproxy serve`."""

    def __init__(
        self, deployment: Deployment, before: Sequence[str], env: Mapping[str, str], log: int | None = None
    ) -> None:
        self.deployment = deployment
        self.log = deployment.directory / "signproxy.log"
        command = (*before, sys.executable, "-m", "signproxy", "serve", "--config", str(deployment.config))
        searched = (os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[3]))
        with self.log.open("ab") as file:
            self._process = subprocess.Popen(
                command,
                cwd=deployment.directory,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, searched)), **env},
                stdin=subprocess.DEVNULL,
                stdout=file if log is None else log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    # -- the process -------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        return self._process.pid

    def workers(self) -> list[int]:
        """Return the processes that serve: the children, or the process itself where it has none."""
        children: list[int] = []
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(FileNotFoundError):
                children += map(int, (task / "children").read_text().split())
        return [pid for pid in children if _serves(pid)] or [self.pid]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process that was started."""
        self._process.send_signal(number)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for the end and return the exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ServerFailed(f"signproxy did not end within {seconds:.0f} s\n{self.tail()}") from None

    def end(self) -> None:
        """End the process, and whatever is left of its group."""
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def wait_until(self, what: str, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until something holds; fail with the log if the server ends or it takes too long."""
        deadline = time.monotonic() + seconds
        while not holds():
            if self._process.poll() is not None:
                raise ServerFailed(f"signproxy ended with {self._process.returncode}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"after {seconds:.0f} s it is still not so that {what}\n{self.tail()}")
            time.sleep(0.05)

    # -- what it tells -----------------------------------------------------------------------------------------------

    def admin(self, path: str) -> tuple[int, str]:
        """Return the answer of the admin listener; status 0 while there is none."""
        return _send(self.deployment.admin_port, "GET", path, {}, None)

    def status(self, path: str) -> int:
        """Return the status alone."""
        return self.admin(path)[0]

    def metric(self, name: str) -> float:
        """Return a sample, named with its labels as it is written, or the sum of all of that name; 0 if none is."""
        samples = _SAMPLE.findall(self.admin("/metrics")[1])
        return sum(float(value) for sample, value in samples if name in (sample, sample.partition("{")[0]))

    def logged(self, event: str = "") -> list[dict[str, Any]]:
        """Return the lines of the log, or those of one event."""
        lines = [json.loads(line) for line in self.log.read_text(errors="replace").splitlines() if line[:1] == "{"]
        return [line for line in lines if event in ("", line["event"])]

    def reloads(self, outcome: str) -> int:
        """Count the lines about reloads that were `accepted`, or `not accepted`."""
        return len(self.logged(f"reload {outcome}"))

    def tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-_LOG_SHOWN:]

    def events(self) -> list[dict[str, Any]]:
        """Return the audit trail so far; a line that is being written is not there yet."""
        trail = self.deployment.settings["audit"]
        if trail["sink"] == "segments":
            return segment_events(Path(trail["directory"]))
        return events_of(self.deployment.audit_file)

    # -- what it answers ---------------------------------------------------------------------------------------------

    def sign(
        self,
        token: str | None = None,
        *,
        route: str = ROUTE,
        key: str = "wh/t/f",
        now: Callable[[], float] = time.time,
    ) -> Answer:
        """Ask for one signature, on a connection of its own; a signature that is no good is an error here."""
        message = sign_message(key)
        bearer = self.deployment.token if token is None else token
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        status, text = _send(self.deployment.port, "POST", route, headers, json.dumps(message))
        if status == 200:
            self.deployment.keys.check(message, json.loads(text), (now(),))
        return Answer(status, text)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the data listener; status 0 if there was none."""

    status: int
    text: str

    @property
    def message(self) -> str:
        """What the caller of a refused request is told."""
        with suppress(ValueError, KeyError):
            return str(json.loads(self.text)["error"]["message"])
        return ""


def static_token(token: str, principal: str) -> dict[str, str]:
    """Return a static token as the settings have it."""
    return {"sha256": hashlib.sha256(token.encode()).hexdigest(), "principal": principal}


def policy_of(clients: Sequence[str] = _CLIENTS, *, tables: int = 0) -> dict[str, Any]:
    """Return a policy in which these clients may write one table; `tables` adds others, to make it long."""
    names = ["t", "closed", *(f"more{number}" for number in range(tables))]
    return {
        "remote_signing": True,
        "default_catalog": "lake",
        "storages": {
            "store": {
                "kind": "s3-compatible",
                "region": REGION,
                "buckets": [BUCKET],
                "checks_unsigned_headers": True,
                "checks_payload_hash": True,
                "endpoints": [{"url": f"http://{AUTHORITY}", "styles": ["path"]}],
            }
        },
        "catalogs": {"lake": {"storages": ["store"], "remote_signing": True}},
        "catalog_roles": {"lake": ["writer"]},
        "principal_roles": {"engineers": {"lake": ["writer"]}},
        "principals": {client: {"roles": ["engineers"]} for client in clients},
        "tables": [{"namespace": "db", "name": name, "location": f"s3://{BUCKET}/wh/{name}"} for name in names],
        "grants": [
            {"role": "writer", "namespace": "db", "table": "t", "privileges": ["TABLE_REMOTE_SIGN", "TABLE_WRITE_DATA"]}
        ],
    }


def sign_message(key: str) -> dict[str, Any]:
    """Return a sign request for one file as clients write it."""
    uri = f"http://{AUTHORITY}/{BUCKET}/{key}"
    return {"region": REGION, "method": "GET", "uri": uri, "headers": {"User-Agent": ["e2e"]}}


def segment_events(directory: Path) -> list[dict[str, Any]]:
    """Return the events of segments, sealed or not, as far as they are flushed."""
    found: list[dict[str, Any]] = []
    for path in segments(directory):
        # The last line of one that is being written may be half there.
        with suppress(TornError, FileNotFoundError):
            found += map(json.loads, lines_of(path))
    return [event for event in found if event["kind"] not in ("segment_start", "segment_end")]


def events_of(file: Path) -> list[dict[str, Any]]:
    """Return the whole lines of an audit file, none where there is no file yet."""
    if not file.exists():
        return []
    with file.open() as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def replace(file: Path, text: str, *, mode: int = 0o644) -> None:
    """Replace a file in one step."""
    new = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    new.write_text(text)
    new.chmod(mode)
    new.rename(file)


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that has ended and was not waited for yet does not.

    A killed process is a zombie as soon as its first thread has ended. Its sockets are open until the last one has,
    which may still wait for a disk.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return len(threads) > 1 or "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def _serves(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return b"signproxy" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _send(port: int, method: str, path: str, headers: Mapping[str, str], body: str | None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()
