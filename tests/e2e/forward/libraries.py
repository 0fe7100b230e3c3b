"""Run an S3 library in the environment that has it, and name what it did."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.forward import install
from tests.e2e.forward.commands import COMMAND_TIMEOUT, Desk, Steps

DRIVER = Path(__file__).parent / "library_driver.py"


def library(name: str) -> Steps:
    """Return the steps of one library."""

    def steps(desk: Desk) -> Iterator[str]:
        python = install.commands() / "python" if name == "boto3" else install.readers()
        endpoint = desk.endpoint
        asked = {
            "client": name,
            "origin": endpoint.origin,
            "region": endpoint.region,
            "access_key": endpoint.access_key,
            "secret": endpoint.secret,
            "session_token": endpoint.session_token,
            "bucket": desk.bucket,
            "large": str(desk.large),
            "size": desk.large.stat().st_size,
            "back": str(desk.home / "back"),
        }
        # What it is given it is given by name; the environment holds no key, and none of the machine's.
        env = {"PATH": "/usr/bin:/bin", "HOME": str(desk.home), "AWS_EC2_METADATA_DISABLED": "true"}
        done = subprocess.run(
            (str(python), str(DRIVER)),
            input=json.dumps(asked).encode(),
            cwd=desk.home,
            env=env,
            capture_output=True,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
        yield from done.stdout.decode().splitlines()
        if done.returncode != 0:
            raise AssertionError(f"{name}: {done.returncode}\n{done.stderr.decode()[-4000:]}")

    return steps
