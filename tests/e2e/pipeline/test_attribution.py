"""Prove on the logs of real stores that each request is attributed, and that those past signproxy are found."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.pipeline.evidence import Scene, check, classes
from tests.e2e.pipeline.lake import STORES, use
from tests.e2e.pipeline.warehouse import Pipeline, Rows

pytestmark = pytest.mark.ci

TABLES = ("events", "segments", "quarantine", "s3_access", "access_attribution", "findings")


@pytest.fixture(scope="module")
def reconciled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, Scene], Mapping[str, Rows]]:
    """Both stores' scenes, and what one warehouse says of them: Spark takes longer to start than to read two logs."""
    directory = tmp_path_factory.mktemp("pipeline")
    with ThreadPoolExecutor(len(STORES)) as pool:
        scenes = dict(zip(STORES, pool.map(lambda name: use(directory / name, name), STORES), strict=True))
    pipeline = Pipeline(directory)
    events = sum(len(scene.events()) for scene in scenes.values())
    record = pipeline.run("ingest", inputs=[scene.trail for scene in scenes.values()])
    assert (record["rows_in"], record["rows_out"], record["rows_bad"]) == (events, events, 0)
    for scene in scenes.values():
        record = pipeline.run("ingest-s3log", f"--format={scene.source}", inputs=[scene.logs])
        assert (record["rows_in"], record["rows_bad"]) == (scene.logged, 0)
    pipeline.run("reconcile", f"--proxy={','.join(scene.access_key for scene in scenes.values())}")
    return scenes, pipeline.tables(*TABLES)


@pytest.mark.parametrize("name", STORES)
def test_each_request_has_its_decision_and_those_without_one_are_found(
    reconciled: tuple[Mapping[str, Scene], Mapping[str, Rows]], name: str
) -> None:
    """A log that says only `signproxy read X` answers nothing; one request past signproxy unseen makes it worthless."""
    scenes, tables = reconciled
    check(scenes[name], tables)
    counted = classes([row for row in tables["access_attribution"] if row["bucket"] == scenes[name].bucket])
    # What the clients did is there by both ways, and the check above was about something.
    assert counted["stamp"] >= 15, counted
    assert counted["request_id"] >= 7, counted
