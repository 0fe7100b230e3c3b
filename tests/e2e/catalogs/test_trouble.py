"""Prove what clients notice of a sidecar that restarts and of a catalog that is gone, and who it is that decides."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from os import kill
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli.clients import Mode
from tests.e2e.catalogs import ICEBERG_FIXTURE
from tests.e2e.catalogs.authority import IDP
from tests.e2e.catalogs.lakehouse import ANALYST, PRINCIPALS, WRITER, Lakehouse, Plan, run_lakehouse
from tests.e2e.catalogs.namespaces import CATALOG, JAVA, READABLE, TABLES
from tests.e2e.catalogs.seam import call
from tests.e2e.catalogs.test_iceberg_java_tables import CLIENT, STEPS, drive
from tests.e2e.clients.rig import Run
from tests.e2e.conftest import Shelf
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.stores import VERSITYGW

NEWEST, OLDER = JAVA

SECONDS = 8
"""That a client is at work."""
UNTROUBLED = 40
"""Requests of its before the trouble begins."""
BREATH = 2.0
"""Seconds in which a killed worker is replaced."""


@contextmanager
def _lakehouse(shelf: Shelf, directory: Path, plan: Plan, **more: Mapping[str, Any]) -> Iterator[Lakehouse]:
    bucket = f"trouble-{directory.parent.name}".replace("_", "-").lower()[-50:].strip("-")
    running = run_lakehouse(directory, shelf.get(VERSITYGW), bucket, Mode.FACADE, {CATALOG: plan}, **more)
    with running as lakehouse:
        yield lakehouse


def _plan(readable: str = "", authorizer: str = "") -> Plan:
    return Plan(ICEBERG_FIXTURE, tuple(JAVA.values()), TABLES, readable=readable, authorizer=authorizer)


def _work(lakehouse: Lakehouse, home: Path, version: str, trouble: Callable[[], None]) -> Run:
    """Have a client write and read files of one table, and get it into trouble on the way."""
    over = threading.Event()

    def wait_and_trouble() -> None:
        while not over.wait(0.05):
            if len(lakehouse.rig.relay.calls()) >= UNTROUBLED:
                return trouble()
        return None

    thread = threading.Thread(target=wait_and_trouble)
    thread.start()
    try:
        return drive(lakehouse, home, version, JAVA[version], seconds=SECONDS)
    finally:
        over.set()
        thread.join()


def _row(lakehouse: Lakehouse, version: str, operation: str, detail: str = "") -> Row:
    store = lakehouse.rig.store
    way = lakehouse.way(CATALOG)
    return Row(CLIENT, version, store.name, store.version, operation, way=way, detail=detail)


@pytest.mark.parametrize("version", (NEWEST, OLDER))
def test_a_restart_costs_what_meets_the_closed_port(shelf: Shelf, matrix: Matrix, tmp_path: Path, version: str) -> None:
    """Sidecars are replaced while jobs of hours run: nothing may be half done, and all goes on by itself."""
    # As the settings advise where clients outlive the server: without it, older clients lose what an idle connection
    # was about to carry.
    settings = {"drain": {"delay_seconds": 2}}
    with _lakehouse(shelf, tmp_path / "rig", _plan(), settings=settings) as lakehouse, ExitStack() as stack:
        run = _work(lakehouse, tmp_path, version, lambda: stack.enter_context(lakehouse.rig.restarted()))
        # No release asks again where nothing listens, whatever the headers say.
        told = "but for calls that meet the closed port, which no release repeats"
        with matrix.row(_row(lakehouse, version, "sidecar restarted", told)):
            failures = run.value("lasting")["failures"]
            assert all("Connection refused" in failure for failure in failures), sorted(set(failures))
            assert run.value("lasting")["done"] > 3 * len(failures)
        run.check_trail(PRINCIPALS)


def test_a_killed_worker_is_not_noticed(shelf: Shelf, matrix: Matrix, tmp_path: Path) -> None:
    """A process that is killed takes its connections along; the client was given a header that lets it ask again."""
    with _lakehouse(shelf, tmp_path / "rig", _plan(), settings={"workers": 2}) as lakehouse:

        def kill_one_after_the_other() -> None:
            for worker in lakehouse.rig.served.workers():
                with suppress(ProcessLookupError):
                    kill(worker, signal.SIGKILL)
                time.sleep(BREATH)

        run = _work(lakehouse, tmp_path, NEWEST, kill_one_after_the_other)
        with matrix.row(_row(lakehouse, NEWEST, "worker of the sidecar killed")):
            assert run.value("lasting")["failures"] == []
            assert run.value("lasting")["done"] > SECONDS


def test_known_tables_outlive_their_catalog(shelf: Shelf, matrix: Matrix, tmp_path: Path) -> None:
    """A catalog that is being upgraded must not stop the jobs that loaded their tables before."""
    with _lakehouse(shelf, tmp_path / "rig", _plan()) as lakehouse:
        run = _work(lakehouse, tmp_path, NEWEST, lakehouse.catalogs[CATALOG].end)
        with matrix.row(_row(lakehouse, NEWEST, "files of a known table, its catalog gone")):
            assert run.value("lasting")["failures"] == []
        run.check_trail(PRINCIPALS)
        url = f"{lakehouse.rig.url}/catalogs/{CATALOG}/v1/namespaces/{JAVA[NEWEST]}/tables/lasting"
        status, answer = call(url, "GET", lakehouse.authority.token(WRITER))
        assert (status, answer["error"]["code"]) == (503, 503)


@pytest.mark.parametrize("version", (NEWEST, OLDER))
def test_table_tokens_do_as_well(shelf: Shelf, tmp_path: Path, version: str) -> None:
    """A caller that gets a token for one table must be able to do to it all that its own token allowed."""
    with _lakehouse(shelf, tmp_path / "rig", _plan(readable=READABLE), context={"table_tokens": True}) as lakehouse:
        run = drive(lakehouse, tmp_path, version, JAVA[version])
        for _, step, expected in STEPS:
            assert run.value(step) == expected, step
        assert run.error("reader: append")[0] == "ForbiddenException"
        run.check_trail(PRINCIPALS)


def test_the_catalog_decides_who_reads_where_it_is_asked_to(shelf: Shelf, matrix: Matrix, tmp_path: Path) -> None:
    """A company that grants in its catalog grants once; what it does not grant there must not be read either."""
    with _lakehouse(shelf, tmp_path / "rig", _plan(authorizer="catalog")) as lakehouse:
        lakehouse.authority.permits = lambda user, _method, path: user == WRITER or not path.endswith("/staged")
        run = drive(lakehouse, tmp_path, NEWEST, JAVA[NEWEST])
        for step in ("scan", "staged create", "reader: scan"):
            assert run.value(step) == {step: expected for _, step, expected in STEPS}[step], step
        assert run.error("reader: closed table")[0] == "ForbiddenException"
        # For writes the catalog's answer to a load says nothing: they need the policy's grant.
        row = _row(lakehouse, NEWEST, "append where the catalog decides who reads")
        with matrix.row(row._replace(outcome=Outcome.REFUSED, detail="no_write_data")):
            assert run.error("reader: append")[0] == "ForbiddenException"
        assert set(run.refusals()) == {"no_write_data"}
        run.check_trail(PRINCIPALS)
        read = {event["table"] for event in run.events if event["principal"] == f"{IDP}/{ANALYST}"}
        assert read == {"first"}
