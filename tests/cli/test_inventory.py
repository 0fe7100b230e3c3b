"""`signproxy inventory --from-upstream`: what a policy or a server can build on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from signproxy.catalog import upstream_inventory
from signproxy.cli import main
from signproxy.inventory.learned.registry import Registration, Stocktaking
from signproxy.sealing import Purpose, Sealer, SealingSecret
from signproxy.server.process.sightings_file import SightingsFile

Table = tuple[str, dict[str, str]]


class Upstream:
    """A catalog of two namespaces, listed in pages of two."""

    def __init__(self) -> None:
        root = "s3://acme-lake/warehouse"
        self.tables: dict[tuple[str, str], Table] = {
            (namespace, name): (f"{root}/{namespace}/{name}", {}) for namespace in ("hr", "sales") for name in "abc"
        }
        self.broken: set[str] = set()
        self.loads: list[str] = []
        upstream = self

        class Answers(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, content = upstream.answer(self.path, self.headers.get("Authorization", ""))
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Tests have logs of their own."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def answer(self, target: str, authorization: str) -> tuple[int, Any]:
        parts = urlsplit(target)
        path = [unquote(part) for part in parts.path.strip("/").split("/")[1:]]
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if authorization != "Bearer lists-all":
            return 401, {}
        if path == ["config"]:
            return 200, {"overrides": {"namespace-separator": "%1F"}}
        if path == ["namespaces"]:
            return 200, {"namespaces": [] if "parent" in query else [["hr"], ["sales"]]}
        if path[2:] == ["tables"]:
            names = [{"namespace": [path[1]], "name": name} for at, name in self.tables if at == path[1]]
            start = int(query.get("pageToken") or 0)
            more = {"next-page-token": str(start + 2)} if start + 2 < len(names) else {}
            return 200, {"identifiers": names[start : start + 2], **more}
        self.loads.append("/".join(path))
        if path[3] in self.broken:
            return 403, {}
        location, properties = self.tables[path[1], path[3]]
        metadata = {"table-uuid": f"uuid-{path[1]}-{path[3]}", "location": location, "properties": properties}
        return 200, {"metadata-location": f"{location}/metadata/0.json", "metadata": metadata}


@pytest.fixture
def upstream(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    started = Upstream()
    monkeypatch.setattr(upstream_inventory, "FIRST_PAUSE", 0.01)
    policy = installation.with_name("policy.yaml")
    text = policy.read_text().partition("tables:\n")
    catalog = "lake: {storages: [main], remote_signing: true"
    head = text[0].replace(catalog, f'{catalog}, tables: upstream, roots: ["s3://acme-lake/warehouse"]')
    policy.write_text(head + "grants:" + text[2].partition("grants:")[2])
    for name, content in (("token", "lists-all"), ("seal", "s" * 32)):
        installation.with_name(name).write_text(content)
    installation.write_text(
        installation.read_text()
        + f"upstreams: {{lake: {{uri: '{started.uri}', inventory: {{token_file: token, connections: 1}}}}}}\n"
        + "context: {secret_files: [seal]}\nsightings: {file: sightings}\n"
    )
    yield started
    started.server.shutdown()
    started.server.server_close()


def take(installation: Path, *words: str) -> int:
    return main(["inventory", "--config", str(installation), "--from-upstream", "lake", *words])


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_policy_reads_what_it_writes(
    upstream: Upstream, installation: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An inventory that no policy accepts protects nothing."""
    output = installation.with_name("lake.ndjson")
    upstream.tables["sales", "a"] = (
        "s3a://acme-lake/warehouse/odd/",
        {"write.data.path": "s3://acme-lake/warehouse/d"},
    )
    assert take(installation, "--output", str(output)) == 0
    assert "lake.ndjson: 6 tables of catalog lake, 0 left out" in capfd.readouterr().out
    lines = lines_of(output)
    assert len(lines) == 6
    (odd,) = (line for line in lines if line["name"] == "a" and line["namespace"] == ["sales"])
    assert odd == {
        "kind": "table",
        "catalog": "lake",
        "namespace": ["sales"],
        "name": "a",
        "uuid": "uuid-sales-a",
        "location": "s3a://acme-lake/warehouse/odd/",
        "properties": {"write.data.path": "s3://acme-lake/warehouse/d"},
    }
    policy = installation.with_name("policy.yaml")
    policy.write_text(policy.read_text() + "inventories: [lake.ndjson]\n")
    assert main(["check-config", "--config", str(installation)]) == 0
    assert " 6 tables" in capfd.readouterr().out
    assert not installation.with_name("lake.ndjson.partial").exists()


def test_what_no_policy_can_hold_is_left_out_and_named(
    upstream: Upstream, installation: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One thief's table would have the whole policy refused, or would get the place."""
    output = installation.with_name("lake.ndjson")
    upstream.tables["hr", "thief"] = ("s3://acme-lake/warehouse/sales/b/data", {})
    upstream.tables["hr", "away"] = ("s3://elsewhere/x", {})
    upstream.tables["hr", "a"] = (
        upstream.tables["hr", "a"][0],
        {"write.data.path": "s3://acme-lake/warehouse/sales/c"},
    )
    assert take(installation, "--output", str(output)) == 1
    told = capfd.readouterr()
    names = {(line["namespace"][0], line["name"]) for line in lines_of(output)}
    assert names == {("hr", "a"), ("hr", "b"), ("hr", "c"), ("sales", "a"), ("sales", "c")}
    assert all("properties" not in line for line in lines_of(output))
    for name in ("hr.thief", "sales.b", "hr.away"):
        assert f"left out: table 'lake.{name}'" in told.err
    policy = installation.with_name("policy.yaml")
    policy.write_text(policy.read_text() + "inventories: [lake.ndjson]\n")
    assert main(["check-config", "--config", str(installation)]) == 0


def test_one_that_is_cut_off_goes_on_from_where_it_was(
    upstream: Upstream, installation: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A million tables would be listed from the first one again."""
    output = installation.with_name("lake.ndjson")
    upstream.broken = {"c"}
    assert take(installation, "--output", str(output)) == 1
    assert "not complete: call_not_permitted" in capfd.readouterr().err
    assert not output.exists()
    partial = installation.with_name("lake.ndjson.partial")
    done = len(partial.read_text().splitlines()) - 1
    assert done >= 2
    # As a crash leaves it.
    partial.write_text(partial.read_text() + '{"kind":"table","fac')
    upstream.broken, upstream.loads = set(), []
    assert take(installation, "--output", str(output)) == 0
    assert f"goes on with {done} tables" in capfd.readouterr().err
    assert len(upstream.loads) == 6 - done
    assert len(lines_of(output)) == 6


@pytest.mark.parametrize(
    "left", ("", "not json\n", '{"kind":"inventory","catalog":"other","upstream":"x","at":1}\n', '{"kind":"inventory"')
)
def test_what_was_left_by_something_else_is_begun_anew(upstream: Upstream, installation: Path, left: str) -> None:
    """Tables of another catalog would be written for this one."""
    output = installation.with_name("lake.ndjson")
    installation.with_name("lake.ndjson.partial").write_text(left)
    assert take(installation, "--output", str(output)) == 0
    assert len(upstream.loads) == len(lines_of(output)) == 6


def test_a_server_starts_with_what_it_found(upstream: Upstream, installation: Path) -> None:
    """The first start after an upgrade would be a race for every table."""
    assert take(installation, "--sightings") == 0
    sealer = Sealer([SealingSecret(b"s" * 32)], Purpose.SIGHTINGS)
    kept = SightingsFile(installation.with_name("sightings"), sealer, 1 << 20).load()
    tables = {f"{each.table.namespace}.{each.table.name}" for each in kept if isinstance(each, Registration)}
    assert tables == {f"{namespace}.{name}" for namespace in ("hr", "sales") for name in "abc"}
    (taken,) = (each for each in kept if isinstance(each, Stocktaking))
    assert taken.catalog == "lake"
    assert taken.at > 0


@pytest.mark.parametrize(
    ("words", "problem"),
    (
        ((), "--output: or --sightings says where it goes"),
        (("--from-upstream", "laek", "--output", "x"), "`upstreams` has no 'laek' (did you mean 'lake'?)"),
        (("--set", "sightings.file=", "--sightings"), "--sightings: needs `sightings.file`"),
    ),
)
def test_wrong_words_are_told(
    upstream: Upstream, installation: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    """An operator would read a stack trace."""
    assert take(installation, *words) == 1
    assert problem in capfd.readouterr().err
    assert not upstream.loads
