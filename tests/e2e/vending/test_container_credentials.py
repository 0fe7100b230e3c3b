"""Prove that SDKs get keys by themselves, as in a container, or for a path, and work with them at the S3 listener."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import pytest

from tests.e2e.conftest import Shelf
from tests.e2e.forward import install
from tests.e2e.forward.commands import COMMAND_TIMEOUT
from tests.e2e.forward.door import CATALOG, Door, run_door, storage_of, table_policy
from tests.e2e.forward.foreign import install as foreign
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.stores import VERSITYGW, RunningStore
from tests.e2e.stores.direct import Owner

DRIVER = Path(__file__).parent / "container_driver.py"
BUCKET = "container"
WAY = "through the S3 listener, with container credentials"
ISSUER, WHO = "https://idp.example", "idp/job"
TIMES = 10
SHORT = 500
"""Seconds that a token lives for which botocore asks again with each request: it renews 15 minutes before the end."""


class Rig(NamedTuple):
    """A door whose callers have tokens of an issuer."""

    door: Door
    store: RunningStore
    secret: str

    def token(self, seconds: float) -> str:
        """Return a token of the job."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": "signproxy", "sub": "job", "iat": now, "exp": now + int(seconds)}
        return jwt.encode({**claims, "jti": secrets.token_hex(8)}, self.secret, "HS256")

    def resolve(self, path: str, mode: str) -> Any:
        """Ask for the keys of a path; return the answer's document."""
        connection = HTTPConnection("127.0.0.1", self.door.served.deployment.port, timeout=30)
        with closing(connection):
            content = json.dumps({"bucket": BUCKET, "path": path, "mode": mode})
            connection.request(
                "POST", "/v1/credentials/resolve", content, {"Authorization": f"Bearer {self.token(7_200)}"}
            )
            answer = connection.getresponse()
            text = answer.read().decode()
        assert answer.status == 200, (answer.status, text)
        return json.loads(text)

    def run(
        self,
        client: str,
        home: Path,
        *,
        profile: str = "jobs",
        seconds: float = 7_200,
        keys: Mapping[str, str] | None = None,
    ) -> Any:
        """Run a driver in what is all the environment of a container, or with keys; return what it tells."""
        home.mkdir(exist_ok=True)
        token = home / "token"
        # object_store panics on a newline at its end.
        token.write_text(self.token(seconds))
        port = self.door.served.deployment.port
        container = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{port}/v1/aws/container-credentials/{profile}",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
        }
        env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", **(keys or container)}
        asked = {
            "client": client,
            "origin": f"http://127.0.0.1:{self.door.port}",
            "region": self.door.region,
            "bucket": BUCKET,
            "table": "wh/orders",
            "closed": "wh/closed",
            "times": TIMES,
            "token_file": str(token),
            "next_token": self.token(seconds),
        }
        done = subprocess.run(
            _command(client),
            input=json.dumps(asked).encode(),
            cwd=home,
            env=env,
            capture_output=True,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"{client}: {done.returncode}\n{done.stderr.decode()[-4000:]}"
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def rig(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A door to a store without STS, with profiles."""
    store, directory = shelf.get(VERSITYGW), tmp_path_factory.mktemp("container")
    with closing(Owner(store)) as owner:
        owner.must("PUT", BUCKET)
        owner.must("PUT", f"{BUCKET}/wh/closed/data/f", body=b"closed")
    policy = table_policy(storage_of(store, [BUCKET]), BUCKET, {"orders": ["TABLE_WRITE_DATA"], "closed": []})
    policy["catalogs"][CATALOG]["delegation"] = ["vended-credentials"]
    policy["principals"] = {WHO: {"roles": ["engineers"]}}
    secret = secrets.token_hex(32)
    (directory / "hmac").write_text(secret)
    issuer = {
        "issuer": ISSUER,
        "audiences": ["signproxy"],
        "algorithms": ["HS256"],
        "secret_file": str(directory / "hmac"),
    }
    profiles = {
        "jobs": {"catalog": CATALOG, "access": "read-write"},
        "readers": {"catalog": CATALOG, "namespace": "db", "table": "orders"},
    }
    settings = {"identity": {"issuers": {"idp": issuer}}, "container_credentials": {"profiles": profiles}}
    with run_door(directory, store, policy, settings=settings, binding={"vend": "issued"}) as door:
        yield Rig(door, store, secret)


def _row(rig: Rig, client: str, version: str, operation: str) -> Row:
    return Row(client, version, rig.store.name, rig.store.version, operation, way=WAY)


def _issued(rig: Rig, before: int) -> list[dict[str, Any]]:
    """Return the fetches of a run once its requests with the keys are in the trail, which is in order."""

    def allowed() -> list[dict[str, Any]]:
        return [event for event in rig.door.served.events()[before:] if event["decision"] == "allow"]

    rig.door.served.wait_until(
        "the events of the run", lambda: sum(event["kind"] == "forward" for event in allowed()) > TIMES
    )
    events = allowed()
    assert {event["principal"] for event in events} == {WHO}
    return [event for event in events if event["kind"] == "issue"]


def _command(client: str) -> tuple[str, ...]:
    if client == "java":
        return foreign.java_driver(DRIVER.with_name("ContainerDriver.java"))
    python = install.commands() / "python" if client == "botocore" else install.readers()
    return str(python), str(DRIVER)


def _variables(told: Mapping[str, str]) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": told["access-key-id"],
        "AWS_SECRET_ACCESS_KEY": told["secret-access-key"],
        "AWS_SESSION_TOKEN": told["session-token"],
    }


@pytest.mark.parametrize(
    ("client", "version"),
    (
        pytest.param("pyarrow", install.PYARROW_VERSION, marks=pytest.mark.ci),
        ("obstore", install.OBSTORE_VERSION),
        ("polars", install.POLARS_VERSION),
    ),
)
def test_a_native_reader_gets_its_keys_by_itself(
    rig: Rig, matrix: Matrix, tmp_path: Path, client: str, version: str
) -> None:
    """It cannot be given keys that are renewed in time, and knows no way to ask a catalog."""
    before = len(rig.door.served.events())
    told = rig.run(client, tmp_path / "home")
    with matrix.row(_row(rig, client, version, "read and write")):
        assert told["read and write"] == [True if client == "obstore" else 1_000] * TIMES
        # Polars opens a store for each scan; none asks with each request.
        assert 1 <= len(_issued(rig, before)) <= (2 * TIMES if client == "polars" else 2)
    with matrix.row(_row(rig, client, version, "a table without a grant")._replace(outcome=Outcome.REFUSED)):
        assert told["closed"] == "refused"


@pytest.mark.ci
def test_botocore_gets_its_keys_by_itself(rig: Rig, matrix: Matrix, tmp_path: Path) -> None:
    """Whatever is written in Python for AWS has this provider in its chain."""
    before = len(rig.door.served.events())
    told = rig.run("botocore", tmp_path / "home")
    with matrix.row(_row(rig, "boto3", install.BOTO3_VERSION, "read and write")):
        assert told["read and write"] == 1
        assert len(_issued(rig, before)) == 1
    with matrix.row(
        _row(rig, "boto3", install.BOTO3_VERSION, "a table without a grant")._replace(outcome=Outcome.REFUSED)
    ):
        assert {told["closed: get_object"], told["closed: put_object"]} == {"AccessDenied"}


def test_the_sdk_for_java_gets_its_keys_by_itself(rig: Rig, matrix: Matrix, tmp_path: Path) -> None:
    """S3A, Spark and whatever else runs in a JVM have this provider in their chain."""
    before = len(rig.door.served.events())
    told = rig.run("java", tmp_path / "home")
    row = _row(rig, "AWS SDK for Java v2", foreign.JAVA_VERSION, "read and write")
    with matrix.row(row):
        assert told["read and write"] == 1
        assert len(_issued(rig, before)) == 1
    with matrix.row(row._replace(operation="a table without a grant", outcome=Outcome.REFUSED)):
        assert told["closed"] == "AccessDenied"


def test_botocore_renews_its_keys_in_the_middle_of_a_job(rig: Rig, matrix: Matrix, tmp_path: Path) -> None:
    """A job would end with its first keys; and a token that was exchanged meanwhile would not be read."""
    before = len(rig.door.served.events())
    with matrix.row(_row(rig, "boto3", install.BOTO3_VERSION, "keys that are renewed within a job")):
        told = rig.run("botocore", tmp_path / "home", seconds=SHORT)
        assert told["read and write"] > TIMES // 2
        assert len(_issued(rig, before)) > TIMES // 2


def test_a_profile_that_reads_one_table_writes_nothing(rig: Rig, tmp_path: Path) -> None:
    """The token's rights would be the keys'."""
    with pytest.raises(AssertionError, match="AccessDenied"):
        rig.run("botocore", tmp_path / "home", profile="readers")
    rig.door.served.wait_until(
        "the refusal",
        lambda: (WHO, "ceiling") in {(event["principal"], event["reason"]) for event in rig.door.events()},
    )


def test_without_its_token_no_process_gets_keys(rig: Rig, tmp_path: Path) -> None:
    """Every process of the machine reaches the port."""
    stranger = rig._replace(secret=secrets.token_hex(32))
    with pytest.raises(AssertionError, match="Retrieval"):
        stranger.run("botocore", tmp_path / "home")


@pytest.mark.parametrize("client", ("botocore", "pyarrow"))
def test_the_keys_of_a_path_are_good_for_its_table(rig: Rig, matrix: Matrix, tmp_path: Path, client: str) -> None:
    """A reader that asks by path would be told keys that open nothing, or more than their locations."""
    version = install.BOTO3_VERSION if client == "botocore" else install.PYARROW_VERSION
    told = rig.resolve("/wh/orders/data/any", "WRITE")
    assert told["policy-locations"] == [{"bucket": BUCKET, "prefix": "wh/orders/"}]
    assert told["config"]["s3.endpoint"] == f"http://127.0.0.1:{rig.door.port}"
    row = _row(rig, "boto3" if client == "botocore" else client, version, "read and write")
    with matrix.row(row._replace(way="through the S3 listener, with the keys of a path")):
        found = rig.run(client, tmp_path / "home", keys=_variables(told))
        assert found["read and write"] == (1 if client == "botocore" else [1_000] * TIMES)
    with pytest.raises(AssertionError, match=r"AccessDenied|ACCESS_DENIED"):
        rig.run(client, tmp_path / "home", keys=_variables(rig.resolve("wh/orders", "READ")))
