"""A server writes segments and ships them to a store that verifies signatures; what arrives there is a whole trail."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.audit.segment_rig import content, faults
from tests.audit.sinks import segment_files
from tests.e2e.conftest import Shelf
from tests.e2e.faults.conftest import Deploy, deploy
from tests.e2e.faults.deployment import Deployment, policy_of, replace
from tests.e2e.faults.evidence import check_every_answer, check_numbers
from tests.e2e.faults.load import SIGNED, Load
from tests.e2e.stores import RunningStore
from tests.e2e.stores.contents import objects_of
from tests.e2e.stores.direct import Owner
from tests.e2e.stores.versitygw import VERSITYGW

__all__ = ["deploy"]

BUCKET = "evidence"
ARCHIVE = "archive"
PREFIX = "prod/eu=1/"

pytestmark = pytest.mark.ci


@pytest.fixture
def store(shelf: Shelf) -> RunningStore:
    return shelf.get(VERSITYGW)


def policy(store: RunningStore) -> dict[str, Any]:
    made = policy_of()
    made["storages"][ARCHIVE] = {
        "kind": "s3-compatible",
        "region": store.region,
        "buckets": ["nobodys"],
        "checks_unsigned_headers": True,
        "endpoints": [{"url": store.origin, "styles": ["path"]}],
    }
    # A storage is a catalog's; this one has no tables.
    made["catalogs"][ARCHIVE] = {"storages": [ARCHIVE]}
    made["catalog_roles"][ARCHIVE] = ["nobody"]
    return made


def deployed(deploy: Deploy, workers: int, store: RunningStore) -> tuple[Deployment, Path]:
    deployment = deploy(workers)
    directory = deployment.directory / "trail"
    ship = {"storage": ARCHIVE, "bucket": BUCKET, "prefix": PREFIX}
    segments = {"sink": "segments", "path": "", "directory": str(directory), "segment_seconds": 1, "ship": ship}
    deployment.set("audit", segments)
    keys = deployment.directory / "archive.json"
    content = {"access_key_id": store.access_key, "secret_access_key": store.secret}
    replace(keys, json.dumps(content), mode=0o600)
    providers = deployment.settings["credentials"]["providers"]
    deployment.set(
        "credentials", {"providers": {**providers, ARCHIVE: {"class": "static", "properties": {"file": str(keys)}}}}
    )
    deployment.set("storages", {ARCHIVE: {"credentials": ARCHIVE, "hosts": [store.authority]}})
    deployment.write_policy(policy(store))
    return deployment, directory


def fetched(owner: Owner, bucket: str, directory: Path) -> Path:
    """Copy back what was shipped, as an auditor does."""
    for found in objects_of(owner, bucket):
        path = directory / found.key.removeprefix(PREFIX)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(owner.must("GET", f"{bucket}/{found.key}").body)
    return directory


def test_the_trail_arrives_whole(deploy: Deploy, workers: int, store: RunningStore, tmp_path: Path) -> None:
    """The pod goes, and with it whatever was not shipped: an `emptyDir` keeps nothing."""
    owner = Owner(store)
    bucket = f"{BUCKET}{workers}"
    owner.must("PUT", bucket)
    deployment, directory = deployed(deploy, workers, store)
    deployment.settings["audit"]["ship"]["bucket"] = bucket
    deployment.write_settings()
    with deployment.serve() as served:
        with Load(deployment.port, lambda: deployment.token, deployment.keys, clients=8) as load:
            load.wait_for(SIGNED, 300)
            served.wait_until("it is shipped", lambda: served.metric("signproxy_audit_segments_shipped_total") > 1)
            load.wait_for(SIGNED, 600)
        served.signal(signal.SIGTERM)
        assert served.wait() == 0
    assert segment_files(directory) == []
    copy = fetched(owner, bucket, tmp_path / "copy")
    assert faults(copy) == set()
    events = [json.loads(line) for line in content(copy).splitlines()]
    check_every_answer(events, load.exchanges)
    assert check_numbers(events) == workers
    owner.close()


def test_a_bucket_that_is_not_there_yet_holds_up_nothing(deploy: Deploy, store: RunningStore, tmp_path: Path) -> None:
    """An outage of the archive must neither stop the serving nor cost a segment."""
    owner = Owner(store)
    bucket = f"{BUCKET}-later"
    deployment, directory = deployed(deploy, 1, store)
    deployment.settings["audit"]["ship"]["bucket"] = bucket
    deployment.write_settings()
    with deployment.serve() as served:
        assert served.sign().status == 200
        served.wait_until("it is told", lambda: served.metric("signproxy_audit_shipping_failures_total") > 0)
        served.wait_until("it waits", lambda: served.metric("signproxy_audit_segments_waiting") > 0)
        assert "sealed audit segments are not shipped" in served.admin("/status")[1]
        assert served.status("/readyz") == 200
        assert served.sign().status == 200
        owner.must("PUT", bucket)
        served.wait_until(
            "it is shipped", lambda: not [path for path in segment_files(directory) if path.name[0] != "."], 90
        )
        assert served.metric("signproxy_audit_shipping_lag_seconds") == 0
    assert faults(fetched(owner, bucket, tmp_path / "copy")) == set()
    owner.close()
