"""Let Spark work on a bucket through Hadoop's S3A: directories that are none, a committer of its own, bulk deletes."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.forward import install
from tests.e2e.forward.conftest import Doors
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import SWIFT, StoreKind
from tests.e2e.stores.contents import objects_of, uploads_of
from tests.e2e.stores.direct import Owner
from tests.e2e.stores.minio import MINIO

SCENARIO = Path(__file__).parent / "s3a_scenario.py"
BUCKET = "through-s3a"
JOB_TIMEOUT = 600.0
"""Seconds; a job takes 40 on two cores."""

_COMMITTER = "org.apache.hadoop.fs.s3a.commit"
_CLOUD = "org.apache.spark.internal.io.cloud"

EXPECTED: dict[str, Any] = {
    "directory marker": [True, True, ["deep"]],
    "parent probes": [True, False, ["file"]],
    "rename": [True, False, 12],
    "bulk delete": [True, False],
    "magic committer": 4000,
    "committer": "magic",
    "overwrite": 20_000,
    "multipart upload": 2 * (12 << 20),
    # No directory of the committer's is left.
    "rest": ["empty", "large", "lines", "probed", "table"],
    "delete all": True,
}


def _conf(endpoint: Endpoint, home: Path) -> dict[str, str]:
    token = {"session.token": endpoint.session_token} if endpoint.session_token else {}
    provider = "TemporaryAWSCredentialsProvider" if token else "SimpleAWSCredentialsProvider"
    s3a = {
        "endpoint": endpoint.origin,
        "endpoint.region": endpoint.region,
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": endpoint.access_key,
        "secret.key": endpoint.secret,
        "aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{provider}",
        "committer.name": "magic",
        "committer.magic.enabled": "true",
        "multipart.size": "5M",
        "buffer.dir": str(home / "buffer"),
        "attempts.maximum": "2",
        **token,
    }
    return {
        "spark.jars": ",".join(map(str, install.hadoop_aws())),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(home / "local"),
        "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": f"{_COMMITTER}.S3ACommitterFactory",
        "spark.sql.sources.commitProtocolClass": f"{_CLOUD}.PathOutputCommitProtocol",
        "spark.sql.parquet.output.committer.class": f"{_CLOUD}.BindingParquetOutputCommitter",
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()},
    }


def drive(endpoint: Endpoint, bucket: str, home: Path) -> dict[str, Any]:
    """Run the scenario; return the outcome of each step."""
    home.mkdir(parents=True, exist_ok=True)
    asked = {"conf": _conf(endpoint, home), "root": f"s3a://{bucket}/job"}
    told = home / "told.json"
    done = subprocess.run(
        (str(install.SPARK.python()), str(SCENARIO), str(told)),
        input=json.dumps(asked).encode(),
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=JOB_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-6000:]
    outcomes: dict[str, Any] = json.loads(told.read_text())
    return outcomes


@pytest.mark.parametrize("kind", (MINIO, SWIFT), ids=str)
def test_spark_works_through_s3a(doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind) -> None:
    """S3A asks for objects that are none at every step, and takes a refusal for the end of the job."""
    store = doors.store(kind)
    version = f"{install.HADOOP_VERSION} with PySpark {install.SPARK.pyspark}"
    with closing(Owner(store)) as owner:
        owner.must("PUT", BUCKET)
        outcomes = drive(doors.to(kind).endpoint(), BUCKET, tmp_path / "home")
        for operation, expected in EXPECTED.items():
            row = Row("Hadoop S3A", version, store.name, store.version, operation, way="through the S3 listener")
            with matrix.row(row):
                assert outcomes[operation] == expected, (operation, outcomes[operation])
        assert objects_of(owner, BUCKET) == []
        assert uploads_of(owner, BUCKET) == []
