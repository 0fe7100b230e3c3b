"""Prove on the logs of real stores that each request is attributed, and that those past signproxy are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.pipeline.evidence import GONE, Scene, check, classes
from tests.e2e.pipeline.lake import STORES, use, use_by_spark
from tests.e2e.pipeline.warehouse import Pipeline, Rows

TABLES = ("events", "segments", "quarantine", "s3_access", "access_attribution", "findings")

Found = tuple[Mapping[str, Scene], Mapping[str, Rows]]
"""Scenes by the name of their store, and what one warehouse says of them all."""


def reconciled(directory: Path, use_store: Callable[[Path, str], Scene]) -> Found:
    """Use both stores, and run the pipeline on both together: Spark takes longer to start than to read two logs."""
    with ThreadPoolExecutor(len(STORES)) as pool:
        scenes = dict(zip(STORES, pool.map(lambda name: use_store(directory / name, name), STORES), strict=True))
    pipeline = Pipeline(directory)
    events = sum(len(scene.events()) for scene in scenes.values())
    record = pipeline.run("ingest", inputs=[scene.trail for scene in scenes.values()])
    assert (record["rows_in"], record["rows_out"], record["rows_bad"]) == (events, events, 0)
    for scene in scenes.values():
        record = pipeline.run("ingest-s3log", f"--format={scene.source}", inputs=[scene.logs])
        assert (record["rows_in"], record["rows_bad"]) == (scene.logged, 0)
    pipeline.run("reconcile", f"--proxy={','.join(scene.access_key for scene in scenes.values())}")
    return scenes, pipeline.tables(*TABLES)


@pytest.fixture(scope="module")
def of_clients(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What PyIceberg and plain S3 clients did."""
    return reconciled(tmp_path_factory.mktemp("clients"), use)


@pytest.fixture(scope="module")
def of_spark(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What a Spark job did."""
    return reconciled(tmp_path_factory.mktemp("spark"), use_by_spark)


@pytest.mark.ci
@pytest.mark.parametrize("name", STORES)
def test_each_request_has_its_decision_and_those_without_one_are_found(of_clients: Found, name: str) -> None:
    """A log that says only `signproxy read X` answers nothing; one request past signproxy unseen makes it worthless."""
    scenes, tables = of_clients
    check(scenes[name], tables)
    counted = classes([row for row in tables["access_attribution"] if row["bucket"] == scenes[name].bucket])
    # What the clients did is there by both ways: the check was about something.
    assert counted["stamp"] >= 22, counted
    # The older list goes without a stamp.
    assert counted["request_id"] >= 1, counted
    lost = [event for event in scenes[name].events() if event["reason"] in GONE]
    assert [(event["stamped"], event.get("upstream_request_id", "")) for event in lost] == [(True, "")]


@pytest.mark.parametrize("name", STORES)
def test_each_request_of_a_spark_job_has_its_decision(of_spark: Found, name: str) -> None:
    """An engine's own retries, ranges and bulk deletes would be accesses without a decision."""
    scenes, tables = of_spark
    check(scenes[name], tables)
    counted = classes([row for row in tables["access_attribution"] if row["bucket"] == scenes[name].bucket])
    assert counted["stamp"] >= 50, counted
    assert {row["table"] for row in tables["access_attribution"] if row["class"] == "stamp"} == {"orders"}
