"""What a server knows of places outlives it, and an inventory comes before its first word: as an operator sees it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.server.served import Served, Start, serve
from tests.server.test_shared_tables import LEARNED, Client

__all__ = ["serve"]

WAIT = 20.0


class Upstream:
    """A catalog with one namespace, whose tables lie where a test put them."""

    def __init__(self) -> None:
        self.tables = {"t": "s3://lake/t", "u": "s3://lake/u"}
        self.lists = True
        upstream = self

        class Answers(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path).path.strip("/").split("/")
                if parts == ["v1", "config"]:
                    return self.answer(200, {"defaults": {}, "overrides": {"namespace-separator": "%1F"}})
                if not upstream.lists and parts[-1] in ("namespaces", "tables"):
                    return self.answer(503, {"error": {"message": "busy", "type": "Busy", "code": 503}})
                if parts[-1] == "namespaces":
                    return self.answer(200, {"namespaces": [] if "parent" in self.path else [["n"]]})
                if parts[-1] == "tables":
                    named = [{"namespace": ["n"], "name": name} for name in upstream.tables]
                    return self.answer(200, {"identifiers": named})
                location = upstream.tables.get(parts[-1])
                if location is None:
                    return self.answer(404, {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}})
                uuid = f"{hash(parts[-1]) & 0xFFFFFFFF:08x}-0000-4000-8000-000000000000"
                metadata = {"format-version": 2, "table-uuid": uuid, "location": location, "properties": {}}
                file = f"{location}/metadata/0.metadata.json"
                return self.answer(200, {"metadata-location": file, "metadata": metadata})

            def answer(self, status: int, content: Any) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Tests have logs of their own."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    started = Upstream()
    yield started
    started.server.shutdown()
    started.server.server_close()


def in_front_of(upstream: Upstream, serve: Start, tmp_path: Path, *more: str, workers: int = 1, name: str) -> Served:
    policy, secret, token = tmp_path / "learned.yaml", tmp_path / "secret", tmp_path / "token"
    policy.write_text(LEARNED)
    secret.write_text("s" * 32)
    token.write_text("lists-all")
    options = (
        f"policy.path={policy}",
        f"upstreams.lake.uri={upstream.uri}",
        f'context.secret_files=["{secret}"]',
        f"sightings.file={tmp_path / 'sightings'}",
        f"upstreams.lake.inventory.token_file={token}",
        *more,
    )
    return serve("--workers", str(workers), *(part for option in options for part in ("--set", option)), name=name)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def ready(served: Served) -> tuple[int, str]:
    return served.request(served.wait_for("serving")["admin"], "GET", "/readyz?verbose")


@pytest.mark.parametrize("workers", (1, 2))
def test_a_place_is_the_first_tables_after_a_restart(
    upstream: Upstream, serve: Start, tmp_path: Path, workers: int
) -> None:
    """Each restart would be a race for every table that was served before."""
    first = in_front_of(upstream, serve, tmp_path, workers=workers, name="one")
    assert Client(first).load("t")[0] == 200
    assert Client(first).sign("t") == 200
    first.stop()
    upstream.tables["thief"] = "s3://lake/t"
    client = Client(in_front_of(upstream, serve, tmp_path, workers=workers, name="two"))
    assert client.load("thief")[0] == 200
    assert client.signs("t") == {403}
    assert client.load("t")[0] == 200
    assert client.signs("t") == {200}


def test_what_one_worker_was_asked_for_is_every_workers(upstream: Upstream, serve: Start, tmp_path: Path) -> None:
    """A thief would only have to meet the worker that has not been asked for its victim."""
    client = Client(in_front_of(upstream, serve, tmp_path, workers=2, name="one"))
    route = "/catalogs/lake/v1/namespaces/n/tables/{}/sign"
    assert client.sign("t", path=route.format("t")) == 200
    upstream.tables["thief"] = "s3://lake/t"
    assert client.signs("t", path=route.format("thief")) == {403}
    assert client.signs("t") == {200}


@pytest.mark.parametrize(("on_fault", "starts"), (("refuse", False), ("anew", True)))
def test_a_foreign_file_is_told_and_the_settings_say_what_becomes_of_it(
    upstream: Upstream, serve: Start, tmp_path: Path, on_fault: str, starts: bool
) -> None:
    """A server would begin with nothing known, and no operator would hear of it."""
    (tmp_path / "sightings").write_text("not ours\n")
    served = in_front_of(upstream, serve, tmp_path, f"sightings.on_fault={on_fault}", name="one")
    if starts:
        assert Client(served).load("t")[0] == 200
        assert "line 1" in served.wait_for("sightings begin anew")["problem"]
        assert (tmp_path / "sightings.unreadable").read_text() == "not ours\n"
    else:
        assert served.process.wait(WAIT) == 1
        assert "sightings.file" in served.log.read_text()


@pytest.mark.parametrize("workers", (1, 2))
def test_a_server_is_ready_once_the_inventory_is_complete(
    upstream: Upstream, serve: Start, tmp_path: Path, workers: int
) -> None:
    """An orchestrator would send requests that are refused, or engines would start before they are served."""
    upstream.lists = False
    upstream.tables["thief"] = "s3://lake/u"
    required = "upstreams.lake.inventory.required=true"
    served = in_front_of(upstream, serve, tmp_path, required, workers=workers, name="one")
    client = Client(served)
    status, text = ready(served)
    assert status == 503
    assert "inventory: catalog lake: " in text
    assert client.load("t")[0] == 200
    by_name = "/catalogs/lake/v1/namespaces/n/tables/t/sign"
    assert client.signs("t", path=by_name) == {503}
    assert client.signs("t") == {403}
    upstream.lists = True
    until(lambda: ready(served)[0] == 200)
    assert "inventory: ok" in ready(served)[1]
    # What was refused is not refused for long.
    until(lambda: client.load("t")[0] == 200 and client.signs("t") == {200})
    # Which of the two came first, this inventory cannot tell.
    for name in ("u", "thief"):
        assert client.load(name)[0] == 200
        assert client.signs("u") == {403}
    metrics = served.request(served.wait_for("serving")["admin"], "GET", "/metrics")[1]
    assert 'signproxy_inventory_tables{catalog="lake"} 3' in metrics
