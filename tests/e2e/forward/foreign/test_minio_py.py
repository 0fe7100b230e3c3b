"""Run the functional tests of MinIO's Python library at each store and through signproxy: each ends the same way."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import CONFORMANT, LISTED, Doors
from tests.e2e.forward.door import run_door, storage_of, volume_policy
from tests.e2e.forward.foreign import install
from tests.e2e.forward.foreign.comparison import ABSENT, DONE, STORED, Allowed, Step, differences, stored
from tests.e2e.forward.foreign.report import Told, run_driver
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import StoreKind
from tests.e2e.stores.contents import buckets_of, objects_of, uploads_of
from tests.e2e.stores.direct import Owner

_BUCKETS = "minio-py-test-"
"""What the suite calls its buckets, and what it makes of the name."""

_REMOVED = ": removed"
"""How the driver marks what it saw of objects before the suite removed them."""
_DRAWN = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=snowball\.)0\.\d+")

_TIMEOUT = 900.0
"""Seconds; Swift takes more than 300 beside other work, for one of the tests writes and deletes 1,001 objects."""

_LEAST = 15
_LOOKED_AT = 30
"""Objects that are looked at before the suite removes them."""

_UNPACKED = (
    "MinIO unpacks the archive into objects whose keys were never judged, so the header that asks for it is refused"
)
_PACKED = (
    "the store keeps the archive as it is, so that the suite ends with a bucket that is not empty; the header that "
    "asks for unpacking is refused whatever the store"
)
_SEGMENT = "a key with an empty segment, which a store that keeps objects as files takes for another key, is refused"

_SNOWBALLS = ("test_upload_snowball_objects", "test_upload_snowball_objects_with_staging")
_SEGMENTS = "test_negative_put_object_with_path_segment"

ALLOWED: tuple[Allowed, ...] = (
    *(Allowed("minio", test, DONE, "AccessDenied 403", _UNPACKED) for test in _SNOWBALLS),
    *(
        Allowed("minio", f"{test}{_REMOVED} my-object{number}", STORED, "NoSuchKey", _UNPACKED)
        for test in _SNOWBALLS
        for number in (1, 2, 3)
    ),
    *(
        Allowed(store, test, "BucketNotEmpty 409", "AccessDenied 403", _PACKED)
        for store in ("versitygw", "swift")
        for test in _SNOWBALLS
    ),
    *(
        Allowed(store, f"left: {archive}", STORED, ABSENT, _PACKED)
        for store in ("versitygw", "swift")
        for archive in ("snowball.NAME.tar", "snowball.NAME.tar (2)")
    ),
    *(Allowed(store, _SEGMENTS, DONE, "InvalidURI 400", _SEGMENT) for store in ("minio", "versitygw")),
    *(
        Allowed(store, f"{_SEGMENTS}{_REMOVED} /a/b/c/NAME", STORED, ABSENT, _SEGMENT)
        for store in ("minio", "versitygw")
    ),
)
"""Where a suite that passes at the store does not pass through signproxy, or ends with another refusal."""


def _steps(told: Told) -> list[Step]:
    """Return how a test ended, or each object that the suite removed, as the store had it until then."""
    if not told.step.endswith(_REMOVED):
        return [told.as_step()]
    return [
        Step(f"{told.step} {key}", STORED if found else said, json.dumps([said, *found]))
        for key, said, *found in told.value
    ]


def _left(owner: Owner) -> list[Step]:
    """Return which objects the suite left, and remove them: a test that fails does not always tidy up."""
    left = []
    for bucket in (name for name in buckets_of(owner) if name.startswith(_BUCKETS)):
        left += stored("left", owner, bucket)
        for found in objects_of(owner, bucket):
            owner.ask("DELETE", f"{bucket}/{found.key}")
        for upload in uploads_of(owner, bucket):
            owner.ask("DELETE", f"{bucket}/{upload.key}", f"uploadId={upload.upload_id}")
        owner.ask("DELETE", bucket)
    return sorted(step._replace(name=_DRAWN.sub("NAME", step.name)) for step in left)


@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_each_functional_test_ends_as_at_the_store(
    doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind
) -> None:
    """Its authors wrote it for gateways like this one; each test that is lost is a call that applications make."""
    store = doors.store(kind)
    python, suite = install.minio_py()
    command = (str(python), str(Path(__file__).parent / "minio_py_driver.py"), str(suite))
    policy = volume_policy(storage_of(store, [LISTED]), [f"{_BUCKETS}*"])
    own = Endpoint.direct(store)
    witness = {
        "origin": own.origin, "access_key": own.access_key, "secret": own.secret, "session_token": "",
        "region": own.region,
    }  # fmt: skip
    steps: dict[str, list[Step]] = {}
    with closing(Owner(store)) as owner, run_door(tmp_path / "door", store, policy) as door:
        _left(owner)
        for endpoint in (own, door.endpoint()):
            home, more = tmp_path / endpoint.name, {"owner": witness}
            told = run_driver(command, endpoint, "unused-bucket", home, more=more, timeout=_TIMEOUT)
            steps[endpoint.name] = [step for one in told for step in _steps(one)] + _left(owner)
    tests = [step for step in steps["through"] if re.fullmatch(r"test_\w+", step.name)]
    looked_at = sum(_REMOVED in step.name for step in steps["through"])
    row = Row("minio-py functional tests", install.MINIO_PY_VERSION, store.name, store.version, "every test")
    with matrix.row(row._replace(way="through the S3 listener")):
        assert sum(step.outcome == DONE for step in tests) >= _LEAST
        assert looked_at >= _LOOKED_AT
        found = differences(store.name, steps["direct"], steps["through"], ALLOWED)
        assert not found, "\n".join(found)
