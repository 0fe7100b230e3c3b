"""Run a client's driver against an endpoint, and keep what it tells of each step."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.forward.signer import Endpoint

TIMEOUT = 300.0
"""Seconds; the slowest takes 20 on two cores."""

NAMES = ("plain.txt", "with blank.txt", "plus+and=é.txt", "deep/er/file.txt", "~!*'()@:,;$&=", "a.b..c", "100%")


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

    def __str__(self) -> str:
        return (
            f"{self.step}: {self.error or 'done'} {self.status or ''} {self.text[:400]} {json.dumps(self.value)[:400]}"
        )


def run_driver(command: Sequence[str], endpoint: Endpoint, bucket: str, home: Path) -> list[Told]:
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
    }
    done = subprocess.run(
        tuple(command),
        input=json.dumps(asked).encode(),
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    lines = done.stdout.decode().replace(bucket, "BUCKET").splitlines()
    told = [Told(**{"value": None, **json.loads(line)}) for line in lines]
    if done.returncode != 0 or not told:
        raise AssertionError(f"{command[0]}: {done.returncode} after {told[-1:]}\n{done.stderr.decode()[-4000:]}")
    return [one._replace(text=_plain(one.text, endpoint)) for one in told]


def _plain(text: str, endpoint: Endpoint) -> str:
    return re.sub(r"(?i)(request ?id|host ?id)\W+[\w+/=-]+", r"\1", text.replace(endpoint.authority, "STORE"))


def lost(direct: Sequence[Told], through: Sequence[Told]) -> list[str]:
    """Return each step that worked at the store and is another one through signproxy, or is refused in other words.

    What the store itself refuses may work here; a refusal that both give has the same code, so that a client that
    looks for it finds it.
    """
    assert [one.step for one in direct] == [one.step for one in through]
    return [
        f"direct:  {one}\nthrough: {other}"
        for one, other in zip(direct, through, strict=True)
        if (one.works and one != other) or (other.error and (one.error, one.status) != (other.error, other.status))
    ]
