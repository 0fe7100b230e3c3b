"""Run signproxy at full load while tokens, keys, policy, credentials and the audit file are rotated in turns."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path

import msgspec

from signproxy.identity.jwks import COOL_DOWN
from tests.e2e.faults.deployment import Deployment, Served, policy_of, replace, static_token
from tests.e2e.idp.provider import IdentityProvider
from tests.e2e.soak.client import Seen
from tests.e2e.soak.processes import Drift, Held, Memory, held
from tests.e2e.soak.trail import Trail

WORKERS = 2

TURN_SECONDS = 3.0
"""From one rotation to the next."""

OVERLAP_SECONDS = 1.0
"""How long an old token is good beside the new one; what is on its way with it is answered by then."""

_UNLIMITED = 10_000_000
_CLIENT_PATIENCE = 60.0


class Figures(msgspec.Struct, frozen=True):
    """What a run was like."""

    seconds: float
    workers: int
    seen: Seen
    events: int
    rotations: dict[str, int]
    key_fetches: int
    memory: tuple[Drift, ...]
    before: dict[str, Held]
    after: dict[str, Held]
    boots: int
    digest: int
    allowed: int
    denied: int
    reloads: int
    reload_events: int
    faults: tuple[str, ...]
    unseen_keys: int
    """Key pairs of the server with which no verified answer was signed."""


class Soak:
    """A run."""

    def __init__(self, directory: Path, provider: IdentityProvider) -> None:
        self.deployment = deployment = Deployment(
            directory,
            limits={"requests_per_second": _UNLIMITED, "burst": _UNLIMITED},
            reload={"poll_seconds": 0.25},
        )
        deployment.set("workers", WORKERS)
        deployment.trust(provider.issuer)
        self._provider = provider
        self._trail = Trail()
        self._rotations: Counter[str] = Counter()
        self._files = count(1)
        self._reloads = 0
        self._jwt = provider.token(seconds=3_600)
        self._keys_rotated = time.monotonic()
        self._served: Served | None = None

    @property
    def served(self) -> Served:
        """The running server."""
        assert self._served is not None
        return self._served

    def run(self, seconds: float) -> Figures:
        """Run for so long."""
        before = self._provider.fetches().jwks
        with self.deployment.serve() as served:
            self._served = served
            processes = {"supervisor": served.pid}
            processes |= {f"worker {number}": pid for number, pid in enumerate(served.workers())}
            at_first = {name: held(pid) for name, pid in processes.items()}
            with self._client() as client, Memory(processes) as memory:
                self._rotate_for(seconds)
                client.terminate()
                output, _ = client.communicate(timeout=_CLIENT_PATIENCE)
            served.wait_until("all connections are closed", lambda: served.metric("signproxy_connections") == 0)
            time.sleep(2 * OVERLAP_SECONDS)
            at_last = {name: held(pid) for name, pid in processes.items()}
            served.signal(signal.SIGTERM)
            assert served.wait() == 0
        self._trail.read(self.deployment.audit_file)
        seen = msgspec.json.decode(output, type=Seen)
        trail = self._trail
        return Figures(
            seconds=seconds,
            workers=WORKERS,
            seen=seen,
            events=trail.events,
            rotations=dict(self._rotations),
            key_fetches=self._provider.fetches().jwks - before,
            memory=tuple(memory.drifts(seconds)),
            before=at_first,
            after=at_last,
            boots=trail.boots,
            digest=trail.digest,
            allowed=trail.allowed,
            denied=trail.denied,
            reloads=self._reloads,
            reload_events=trail.others["reload"],
            faults=tuple(trail.faults),
            unseen_keys=len(set(self.deployment.keys.secrets) - set(seen.keys)),
        )

    # -- the load ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _client(self) -> Iterator[subprocess.Popen[bytes]]:
        self._tell_callers()
        command = (sys.executable, "-m", "tests.e2e.soak.client", str(self.deployment.directory))
        client = subprocess.Popen(
            (*command, str(self.deployment.port)),
            cwd=Path(__file__).parents[3],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        try:
            yield client
        finally:
            client.kill()
            client.wait()

    def _tell_callers(self) -> None:
        deployment = self.deployment
        callers = {"tokens": [deployment.token, self._jwt], "secrets": deployment.keys.secrets}
        replace(deployment.directory / "callers.json", json.dumps(callers))

    # -- what is rotated ---------------------------------------------------------------------------------------------

    def _rotate_for(self, seconds: float) -> None:
        begun = time.monotonic()
        turns: tuple[Callable[[], None], ...] = (
            self._rotate_static_token, self._rotate_policy, self._rotate_provider, self._rotate_credentials,
            self._rotate_audit_file,
        )  # fmt: skip
        for number, turn in enumerate(cycle(turns), 1):
            time.sleep(max(0.0, min(begun + number * TURN_SECONDS, begun + seconds) - time.monotonic()))
            if time.monotonic() >= begun + seconds:
                return
            turn()

    def _rotate_static_token(self) -> None:
        deployment = self.deployment
        old, deployment.token = deployment.token, secrets.token_urlsafe(32)
        tokens = [static_token(token, "alice") for token in (deployment.token, old)]
        self._reload(lambda: deployment.set("identity", {"static_tokens": tokens}))
        self._tell_callers()
        time.sleep(OVERLAP_SECONDS)
        self._reload(lambda: deployment.set("identity", {"static_tokens": tokens[:1]}))
        self._rotations["static token"] += 1

    def _rotate_policy(self) -> None:
        tables = 10 * (1 + self._rotations["policy"] % 7)
        self._reload(lambda: self.deployment.write_policy(policy_of(tables=tables)))
        self._rotations["policy"] += 1

    def _rotate_provider(self) -> None:
        """Get a new token and, no more often than signproxy asks for unknown keys, one of a new key."""
        if time.monotonic() > self._keys_rotated + COOL_DOWN / 4 + COOL_DOWN * bool(self._rotations["provider key"]):
            self._keys_rotated = time.monotonic()
            self._provider.rotate()
            self._rotations["provider key"] += 1
        self._jwt = self._provider.token(algorithm="ES256", seconds=3_600)
        self._tell_callers()
        self._rotations["provider token"] += 1

    def _rotate_credentials(self) -> None:
        # The verifier has to know the new pair before the first signature of it.
        key, secret = self.deployment.keys.new()
        self._tell_callers()
        time.sleep(OVERLAP_SECONDS)
        pair = {"access_key_id": key, "secret_access_key": secret}
        self._reload(lambda: replace(self.deployment.key_file, json.dumps(pair), mode=0o600))
        self._rotations["credentials"] += 1

    def _rotate_audit_file(self) -> None:
        """Move the file away as logrotate does, and take in what is in it."""
        file = self.deployment.audit_file
        moved = file.with_suffix(f".{next(self._files)}")
        file.rename(moved)
        self._reload(lambda: self.served.signal(signal.SIGHUP))
        self.served.wait_until("there is a new one", file.exists)
        # A batch that was being written when the signal came goes to the old one.
        time.sleep(OVERLAP_SECONDS)
        self._trail.read(moved)
        self._rotations["audit file"] += 1

    def _reload(self, change: Callable[[], None]) -> None:
        """Change something, and wait until it is in force everywhere."""
        before = self.served.reloads("accepted")
        change()
        self.served.wait_until("it is in force", lambda: self.served.reloads("accepted") > before)
        self._reloads += 1


def check(figures: Figures, *, flat_percent: float, turned_away_share: float = 0.0) -> None:
    """Assert all that a run has to show; how flat memory is, within so many percent."""
    seen = figures.seen
    assert seen.failed == {}
    assert seen.signed > 0
    assert seen.verified > 0
    # Exactly one event per request: as many, of the same ids, numbered without a hole by each process.
    assert figures.faults == ()
    assert (figures.allowed, figures.denied) == (seen.signed, seen.refused + seen.turned_away)
    # A shared machine's disk may stand still for longer than the queue of a process at full load holds out.
    assert seen.turned_away <= turned_away_share * seen.signed, seen
    assert figures.digest == seen.digest
    assert figures.boots == figures.workers
    assert figures.reload_events == figures.workers * figures.reloads
    # Each rotation happened, and was taken up while requests came in.
    assert set(figures.rotations) == {
        "static token", "policy", "provider key", "provider token", "credentials", "audit file",
    }  # fmt: skip
    assert figures.unseen_keys == 0
    assert figures.key_fetches <= figures.workers * (
        2 + figures.rotations["provider key"] + figures.seconds / COOL_DOWN
    )
    # Nothing is left over.
    for name, at_last in figures.after.items():
        assert at_last.files <= figures.before[name].files, (name, figures.before, figures.after)
    for drift in figures.memory:
        assert drift.most_percent <= flat_percent, figures.memory
        assert drift.least_percent >= -flat_percent, figures.memory
