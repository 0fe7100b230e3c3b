"""The admin listener of a server that runs, asked as operators and orchestrators ask it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.product import ACCESS_KEY, SECRET, sign_message, token_of
from tests.server.process.served import Served, Start, serve

__all__ = ["serve"]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "signproxy", *words], capture_output=True, text=True, timeout=60, check=False
    )


def status(served: Served) -> Any:
    admin = served.wait_for("serving")["admin"]
    code, text = served.request(admin, "GET", "/status")
    assert code == 200
    return json.loads(text)


def test_a_refusal_is_explained_where_the_operator_looks(serve: Start) -> None:
    """A user says that a job was refused; one page has to say why, and none may hold a secret."""
    served = serve()
    address = served.wait_for("serving")["address"]
    message = json.dumps(sign_message("PUT", "http://127.0.0.1:9/lake/t/f", region="us-east-1")).encode()
    for _ in range(3):
        assert served.request(address, "POST", "/v1/aws/s3/sign", message)[0] == 403
    document = status(served)
    assert document["verdict"].startswith("Ready. Policy ")
    assert document["troubles"] == []
    (group,) = document["refusals"]
    assert (group["count"], group["last"]["reason"]) == (3, "no_write_data")
    assert group["last"]["principal"] == "static/reader"
    assert "TABLE_WRITE_DATA" in group["remedy"]
    page = served.request(served.wait_for("serving")["admin"], "GET", "/status?format=html")[1]
    assert "static/reader" in page
    for secret in (SECRET, ACCESS_KEY, token_of("reader")):
        assert secret not in page
        assert secret not in json.dumps(document)
    assert served.stop() == 0
    # Probes, scrapes and looks leave no event.
    assert [event["reason"] for event in served.events()] == ["no_write_data"] * 3


def test_the_commands_ask_the_server_that_runs(serve: Start, tmp_path: Path) -> None:
    """An image without a shell and without curl has nothing else to ask with."""
    # A socket's path has room for about a hundred characters.
    socket = tmp_path / "a.sock"
    served = serve("--set", f"admin.socket={socket}", "--set", "drain.delay_seconds=30")
    admin = served.wait_for("serving")["admin"]
    assert command("wait", "--admin", admin, "--max", "30s").returncode == 0
    for where in (("--admin", admin), ("--url", f"http://{admin}"), ("--socket", str(socket))):
        done = command("healthcheck", *where)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    served.process.terminate()
    served.wait_for("stopping")
    done = command("healthcheck", "--admin", admin)
    assert (done.returncode, done.stderr) == (1, "signproxy: draining: yes\n")
    assert command("healthcheck", "--admin", admin, "--check", "live").returncode == 0
    assert command("wait", "--admin", admin, "--max", "100ms").returncode == 1
    served.process.terminate()
    assert served.process.wait(30) == 0


def test_what_keeps_a_server_from_being_ready_is_told_with_its_remedy(serve: Start) -> None:
    """A secret that was not mounted is the commonest fault of a first deployment."""
    served = serve("--set", "credentials.providers.keys.properties.access_key_id_env=NOT_SET_ANYWHERE")
    admin = served.wait_for("serving")["admin"]
    done = command("healthcheck", "--admin", admin, "--check", "started")
    assert done.returncode == 1
    assert "NOT_SET_ANYWHERE" in done.stderr
    document = status(served)
    assert document["verdict"].startswith("Not ready yet: credentials. ")
    assert document["troubles"][0]["remedy"]
    assert served.stop() == 0
