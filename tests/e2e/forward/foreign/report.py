"""Run a client's driver against an endpoint, and keep what it tells of each step."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.forward.foreign.comparison import DONE, Step
from tests.e2e.forward.signer import Endpoint

TIMEOUT = 300.0
"""Seconds; the slowest takes 20 on two cores."""

NAMES = ("plain.txt", "with blank.txt", "plus+and=é.txt", "deep/er/file.txt", "~!*'()@:,;$&=", "a.b..c", "100%")

USE = "use"
CLEAN_UP = "clean-up"
PHASES = (USE, CLEAN_UP)
"""A driver runs once for each, so that what it wrote can be looked at before it deletes it."""


class Told(NamedTuple):
    """What a client made of one step."""

    step: str
    value: Any
    error: str = ""
    status: int = 0
    text: str = ""

    @property
    def works(self) -> bool:
        """Whether the client has what it asked for."""
        return not self.error

    def as_step(self) -> Step:
        """Return what has to be equal both ways.

        An error of S3 is its code and status, and its text is the store's own. An error without a status was made by
        the client, out of what it was answered: then the text is all there is to compare.
        """
        if self.works:
            return Step(self.step, DONE, json.dumps(self.value, sort_keys=True), self.text)
        if self.status:
            return Step(self.step, f"{self.error} {self.status}", "", self.text)
        return Step(self.step, self.error, self.text)


def run_driver(
    command: Sequence[str],
    endpoint: Endpoint,
    bucket: str,
    home: Path,
    phase: str = USE,
    more: Mapping[str, object] | None = None,
    timeout: float = TIMEOUT,
) -> list[Told]:
    """Run a driver in a directory of its own; nothing of the machine may configure it."""
    home.mkdir(parents=True, exist_ok=True)
    asked = {
        "origin": endpoint.origin,
        "region": endpoint.region,
        "access_key": endpoint.access_key,
        "secret": endpoint.secret,
        "session_token": endpoint.session_token,
        "bucket": bucket,
        "names": NAMES,
        "phase": phase,
        **(more or {}),
    }
    done = subprocess.run(
        tuple(command),
        input=json.dumps(asked).encode(),
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    lines = done.stdout.decode().replace(bucket, "BUCKET").splitlines()
    told = [Told(**{"value": None, **json.loads(line)}) for line in lines]
    if done.returncode != 0 or not told:
        raise AssertionError(f"{command[0]}: {done.returncode} after {told[-1:]}\n{done.stderr.decode()[-4000:]}")
    return [one._replace(text=_plain(one.text, endpoint)) for one in told]


def _plain(text: str, endpoint: Endpoint) -> str:
    return re.sub(r"(?i)(request ?id|host ?id)\W+[\w+/=-]+", r"\1", text.replace(endpoint.authority, "STORE"))
