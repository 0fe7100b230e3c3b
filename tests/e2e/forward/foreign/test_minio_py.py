"""Run the functional tests of MinIO's Python library at each store and through signproxy: what passes there passes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import CONFORMANT, LISTED, Doors
from tests.e2e.forward.door import run_door, storage_of, volume_policy
from tests.e2e.forward.foreign import install
from tests.e2e.forward.foreign.report import run_driver
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import StoreKind
from tests.e2e.stores.contents import buckets_of, objects_of
from tests.e2e.stores.direct import Owner

_BUCKETS = "minio-py-test-"
"""What the suite calls its buckets, and what it makes of the name."""

_LEAST = 15

_SNOWBALL = "MinIO unpacks the archive into objects whose keys were never judged"
# What signproxy refuses on purpose, and why.
OWN = {
    "test_upload_snowball_objects": _SNOWBALL,
    "test_upload_snowball_objects_with_staging": _SNOWBALL,
    "test_negative_put_object_with_path_segment": (
        "a key with an empty segment, which stores that keep objects as files take for another key"
    ),
    "test_presigned_post_policy": "a form of a browser carries its signature in the body, not in its head",
}


def _purge(owner: Owner) -> None:
    for bucket in (name for name in buckets_of(owner) if name.startswith(_BUCKETS)):
        for found in objects_of(owner, bucket):
            owner.ask("DELETE", f"{bucket}/{found.key}")
        owner.ask("DELETE", bucket)


@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_each_functional_test_that_passes_at_the_store_passes(
    doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind
) -> None:
    """Its authors wrote it for gateways like this one; each test that is lost is a call that applications make."""
    store = doors.store(kind)
    python, suite = install.minio_py()
    policy = volume_policy(storage_of(store, [LISTED]), [f"{_BUCKETS}*"])
    with closing(Owner(store)) as owner, run_door(tmp_path / "door", store, policy) as door:
        direct, through = (
            {
                told.step: told
                for told in run_driver((str(python), str(suite_driver()), str(suite)), endpoint, "-", home)
            }
            for endpoint, home in (
                (Endpoint.direct(store), tmp_path / "direct"),
                (door.endpoint(), tmp_path / "through"),
            )
        )
        _purge(owner)
    row = Row("minio-py functional tests", install.MINIO_PY_VERSION, store.name, store.version, "every test")
    with matrix.row(row._replace(way="through the S3 listener")):
        assert sum(told.works for told in through.values()) >= _LEAST
        lost = [
            f"{through[name]}"
            for name, told in direct.items()
            if told.works and not through[name].works and name not in OWN
        ]
        assert not lost, "\n".join(lost)


def suite_driver() -> Path:
    """Return the script that runs the suite."""
    return Path(__file__).parent / "minio_py_driver.py"
