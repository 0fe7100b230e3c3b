"""Hold a mount namespace (and a network of its own) open, and run commands in it: what a container runtime does."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.stores.install import PrerequisiteMissing

STEP_TIMEOUT = 600.0
"""Seconds for one command; the longest installs the locked packages over a slow line."""

DYING = ("--pdeathsig=KILL",)
"""Has `setpriv` end what it starts together with the process that started it."""

_TOOLS = ("unshare", "nsenter", "setpriv", "mount", "chroot", "ip")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace that lives as long as the process that holds it."""

    pid: int
    network: bool

    def entering(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one inside, as the same process."""
        network = ["--net"] if self.network else []
        return ["nsenter", f"--target={self.pid}", "--mount", *network, "--", *command]

    def run(self, *command: str | Path, stdin: str | None = None) -> str:
        """Run a command inside, and return what it prints; raise StepFailed unless it succeeds."""
        done = subprocess.run(
            self.entering([str(word) for word in command]),
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=STEP_TIMEOUT,
            check=False,
        )
        if done.returncode != 0:
            raise StepFailed(
                f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
            )
        return done.stdout


class StepFailed(Exception):
    """A command failed; the message holds the end of what it printed."""


@contextmanager
def namespace(*, inside: Namespace | None = None, network: bool = False) -> Iterator[Namespace]:
    """Make a namespace, as a copy of another one where that is given. Everything mounted in it goes with it."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        raise PrerequisiteMissing(
            "the image is built and run in namespaces of the kernel, which takes root and util-linux, coreutils and "
            f"iproute2; missing: {', '.join(missing) or 'root'}"
        )
    new = ["unshare", "--mount", "--propagation=private", *(["--net"] if network else [])]
    # It ends when its input does, which is when this process ends, however that comes about.
    held = [*new, "--", "sh", "-c", "echo; exec cat"]
    process = subprocess.Popen(
        inside.entering(held) if inside else held, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield Namespace(process.pid, network)
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def contained(
    root: Path | str, command: Sequence[str], environ: Mapping[str, str], *, user: str = "", directory: str = "/"
) -> list[str]:
    """Return the command that runs another one with a root, an environment and a user, and no more privileges."""
    uid, _, gid = user.partition(":")
    as_user = [
        "setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--bounding-set=-all",
        "--inh-caps=-all", *DYING, "--",
    ]  # fmt: skip
    assignments = [f"{name}={value}" for name, value in environ.items()]
    entered = ["sh", "-c", 'cd "$0" && exec "$@"', directory, *command]
    return ["chroot", str(root), *(as_user if user else []), "env", "-i", *assignments, *entered]
