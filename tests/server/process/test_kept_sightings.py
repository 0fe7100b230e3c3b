"""What a server knows of places outlives it, and an inventory comes before its first word: as an operator sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.catalog.threaded import CONFIG, ThreadedCatalog, error
from tests.server.process.served import Served, Start, serve
from tests.server.process.test_shared_tables import LEARNED, Client
from tests.waiting import blocked_until

__all__ = ["serve"]

WAIT = 20.0


class Upstream(ThreadedCatalog):
    """A catalog with one namespace, whose tables lie where a test put them."""

    def __init__(self) -> None:
        self.tables = {"t": "s3://lake/t", "u": "s3://lake/u"}
        self.lists = True
        super().__init__()

    def told(self, method: str, target: str, authorization: str) -> tuple[int, object]:
        parts = urlsplit(target).path.strip("/").split("/")
        if parts == ["v1", "config"]:
            return 200, {**CONFIG, "overrides": {"namespace-separator": "%1F"}}
        if not self.lists and parts[-1] in ("namespaces", "tables"):
            return error(503, "Busy")
        if parts[-1] == "namespaces":
            return 200, {"namespaces": [] if "parent" in target else [["n"]]}
        if parts[-1] == "tables":
            return 200, {"identifiers": [{"namespace": ["n"], "name": name} for name in self.tables]}
        location = self.tables.get(parts[-1])
        if location is None:
            return error(404, "NoSuchTableException")
        uuid = f"{hash(parts[-1]) & 0xFFFFFFFF:08x}-0000-4000-8000-000000000000"
        metadata = {"format-version": 2, "table-uuid": uuid, "location": location, "properties": {}}
        return 200, {"metadata-location": f"{location}/metadata/0.metadata.json", "metadata": metadata}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as started:
        yield started


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
    blocked_until(lambda: ready(served)[0] == 200)
    assert "inventory: ok" in ready(served)[1]
    # What was refused is not refused for long.
    blocked_until(lambda: client.load("t")[0] == 200 and client.signs("t") == {200})
    # Which of the two came first, this inventory cannot tell.
    for name in ("u", "thief"):
        assert client.load(name)[0] == 200
        assert client.signs("u") == {403}
    metrics = served.request(served.wait_for("serving")["admin"], "GET", "/metrics")[1]
    assert 'signproxy_inventory_tables{catalog="lake"} 3' in metrics
