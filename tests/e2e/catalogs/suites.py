"""Run a public suite twice, against a catalog itself and through the facade, and compare what became of each test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from xml.etree import ElementTree

from signproxy.cli.clients import Mode
from tests.e2e.catalogs.lakehouse import WRITER, Lakehouse, Plan, run_lakehouse
from tests.e2e.catalogs.seam import CatalogKind, RunningCatalog
from tests.e2e.stores import RunningStore

THROUGH, DIRECT = "lake", "direct"
"""Two catalogs of one kind: the suite expects to be alone with its catalog."""

SUITE_TIMEOUT = 900.0
"""Seconds; the longest takes 120 on two busy cores."""


class Became(Enum):
    """What became of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """One test of a suite."""

    became: Became
    message: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both runs, by the names of the tests."""

    direct: Mapping[str, Case]
    through: Mapping[str, Case]

    @property
    def passed_direct(self) -> int:
        """How many passed against the catalog itself."""
        return sum(case.became is Became.PASSED for case in self.direct.values())

    def lost(self) -> dict[str, str]:
        """Return what passes against the catalog itself and not through the facade, and why."""
        return {
            name: self.through[name].message if name in self.through else "was not run"
            for name, case in self.direct.items()
            if case.became is Became.PASSED
            and (name not in self.through or self.through[name].became is not Became.PASSED)
        }


Run = Callable[[Path, dict[str, str], str], Mapping[str, Case]]
"""Runs a suite in an empty directory, with the properties of its catalog client and a token."""


@contextmanager
def catalogs(directory: Path, store: RunningStore, bucket: str, kind: CatalogKind) -> Iterator[Lakehouse]:
    """Run two catalogs of a kind, of which one is behind a facade, until the block ends."""
    plans = {name: Plan(kind, (), ()) for name in (THROUGH, DIRECT)}
    with run_lakehouse(directory, store, bucket, Mode.FACADE, plans) as lakehouse:
        yield lakehouse


def compare(lakehouse: Lakehouse, home: Path, run: Run) -> Comparison:
    """Run a suite both ways at the same time; every request of the one way must have been signed by signproxy."""
    token, store = lakehouse.authority.token(WRITER), lakehouse.rig.store
    facade = {
        "uri": f"{lakehouse.rig.url}/catalogs/{THROUGH}",
        "warehouse": THROUGH,
        "header.X-Iceberg-Access-Delegation": "remote-signing",
    }
    ways = {"direct": _of_itself(lakehouse.catalogs[DIRECT]), "through": facade}
    with ThreadPoolExecutor(len(ways)) as pool:
        running = {}
        for way, properties in ways.items():
            (home / way).mkdir()
            running[way] = pool.submit(run, home / way, properties, token)
        comparison = Comparison(**{way: future.result() for way, future in running.items()})
    lakehouse.rig._await_events()
    signed = {event["event_id"] for event in lakehouse.rig.served.events() if event["decision"] == "allow"}
    calls = lakehouse.rig.relay.calls()
    assert calls
    assert {each.access_key for each in calls} == {store.access_key}
    assert {each.stamp for each in calls} <= signed
    return comparison


def _of_itself(catalog: RunningCatalog) -> dict[str, str]:
    """Return what a client of the catalog itself needs: the store's own key."""
    store = catalog.site.store
    return {
        "uri": catalog.uri,
        "warehouse": catalog.warehouse,
        "client.region": store.region,
        "s3.region": store.region,
        "s3.endpoint": store.origin,
        "s3.path-style-access": "true",
        "s3.access-key-id": store.access_key,
        "s3.secret-access-key": store.secret,
    }


def run_suite(command: Iterable[str], environment: Mapping[str, str], directory: Path, log: Path) -> None:
    """Run a suite to its end; that some of its tests fail is no failure of the run."""
    with log.open("wb") as output:
        subprocess.run(
            tuple(command),
            env=dict(environment),
            cwd=directory,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=SUITE_TIMEOUT,
            check=False,
        )


def cases_of(reports: Iterable[Path]) -> dict[str, Case]:
    """Read what JUnit's report says."""
    found: dict[str, Case] = {}
    for report in reports:
        for test in ElementTree.parse(report).getroot().iter("testcase"):  # noqa: S314 - written by the run above
            name = f"{str(test.get('classname')).rpartition('.')[2]}.{test.get('name')}"
            bad = next((each for each in test if each.tag in ("failure", "error")), None)
            if bad is not None:
                found[name] = Case(Became.FAILED, str(bad.get("message"))[:500])
            elif test.find("skipped") is not None:
                found[name] = Case(Became.SKIPPED)
            else:
                found[name] = Case(Became.PASSED)
    return found
