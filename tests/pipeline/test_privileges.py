"""The whole way: policy, export, judgement, patch, and a policy that a start accepts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from signproxy.cli import main
from signproxy.errors import Invalid
from signproxy.pipeline.job import JobContext
from signproxy.pipeline.jobs.privileges import patch_lines, run
from tests.pipeline.event_rows import at, event, events

SETTINGS = """
policy: {path: policy.yaml}
identity:
  issuers:
    idp: {issuer: https://idp.example, audiences: [signproxy], algorithms: [HS256], secret_file: secret}
credentials:
  providers:
    keys: {class: static, properties: {access_key_id_file: id, secret_access_key_file: key}}
storages:
  main: {credentials: keys, hosts: ['127.0.0.1:9000']}
"""
POLICY = """
remote_signing: true
storages:
  main:
    kind: s3-compatible
    region: eu-central-1
    buckets: [lake]
    endpoints: [{url: 'http://127.0.0.1:9000'}]
    checks_unsigned_headers: true
    checks_payload_hash: true
catalogs:
  lake: {storages: [main], remote_signing: true}
catalog_roles: {lake: [reader, writer, auditor]}
principal_roles:
  analyst: {lake: [reader]}
  etl: {lake: [reader, writer]}
  audit: {lake: [auditor]}
principals:
  ann: {roles: [analyst]}
  job: {roles: [etl]}
  eve: {roles: [audit, analyst]}
tables:
  - {namespace: sales, name: orders, location: s3://lake/sales/orders}
  - {namespace: sales, name: items, location: s3://lake/sales/items}
  - {namespace: hr, name: pay, location: s3://lake/hr/pay}
grants:
  - {role: reader, namespace: sales, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  # The job wrote once.
  - {role: writer, namespace: sales, privileges: [TABLE_WRITE_DATA]}
  - {role: reader, namespace: hr, table: pay, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: auditor, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA, TABLE_LIST]}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Write an installation and return its settings."""
    files = {
        "signproxy.yaml": SETTINGS,
        "policy.yaml": POLICY,
        "secret": "a-shared-secret-of-thirty-two-bytes!\n",
        "id": "AKIAIOSFODNN7EXAMPLE\n",
        "key": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY12\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "signproxy.yaml"


def test_from_policy_to_a_narrower_policy(
    context: JobContext, spark: SparkSession, settings: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is proposed could not be applied, would be refused at the next start, or take what a principal uses."""
    trail = [
        *(event(at(day), principal="idp/ann") for day in range(0, 121, 10)),
        *(event(at(day), "items", principal="idp/job") for day in range(0, 121, 30)),
        event(at(10), principal="idp/job", access="write"),
        event(at(100), principal="idp/eve"),
    ]
    context.warehouse.replace("events", events(spark, *[one | {"ingest_batch": 1} for one in trail]))
    exported, proposed = tmp_path / "export.ndjson", tmp_path / "patch.yaml"
    assert main(["policy", "export", "--config", str(settings), "--output", str(exported)]) == 0
    options = {"age": 90, "granted": "2026-01-01", "patch": str(proposed)}
    asked = msgspec.structs.replace(context, inputs=(str(exported),), options=options)
    outcome = run(asked)
    states = {
        (row["principal"], row["via_role"], row["privilege"], row["resource"]): row["state"]
        for row in context.warehouse.read("grant_use").collect()
    }
    assert states["idp/ann", "reader", "TABLE_READ_DATA", "namespace:lake.sales"] == "used"
    assert states["idp/job", "writer", "TABLE_WRITE_DATA", "namespace:lake.sales"] == "unused"
    assert states["idp/eve", "auditor", "TABLE_READ_DATA", "catalog:lake"] == "used"
    assert states["idp/eve", "auditor", "TABLE_LIST", "catalog:lake"] == "not_observed"
    assert outcome.rows_out == len(states)
    assert any("signproxy policy patch" in note for note in outcome.notes)
    radius = {row["principal"]: row for row in context.warehouse.read("blast_radius").collect()}
    assert (radius["idp/ann"]["n_root"], radius["idp/ann"]["entitled"], radius["idp/ann"]["held_max"]) == (3, 3, 1)
    text = proposed.read_text()
    assert "last used 2026-11-11" in text
    # The policy stays as it is until the patch is applied to a copy, which a start accepts.
    assert (tmp_path / "policy.yaml").read_text() == POLICY
    capfd.readouterr()
    out = tmp_path / "narrower"
    assert main(["policy", "patch", "--config", str(settings), str(proposed), "--output", str(out)]) == 0
    assert capfd.readouterr().err == ""
    assert main(["check-config", "--config", str(settings), "--policy", str(out / "policy.yaml")]) == 0
    lines = (out / "policy.yaml").read_text().splitlines()
    assert lines == [line for line in POLICY.splitlines() if "role: writer" not in line and "table: pay" not in line]
    # Judged again, the narrower policy has nothing to give: no principal lost what it used.
    policy = ["--policy", str(out / "policy.yaml")]
    assert main(["policy", "export", "--config", str(settings), *policy, "--output", str(exported)]) == 0
    run(asked)
    assert context.warehouse.read("recommendations").isEmpty()
    used = {key for key, state in states.items() if state == "used"}
    left = {
        (row["principal"], row["via_role"], row["privilege"], row["resource"])
        for row in context.warehouse.read("grant_use").where("state = 'used'").collect()
    }
    assert left == used


def test_a_trail_without_events_proves_no_disuse(context: JobContext, settings: Path, tmp_path: Path) -> None:
    """A job that runs before the first ingest would propose to withdraw everything."""
    exported = tmp_path / "export.ndjson"
    assert main(["policy", "export", "--config", str(settings), "--output", str(exported)]) == 0
    with pytest.raises(Invalid, match="holds no event"):
        run(msgspec.structs.replace(context, inputs=(str(exported),), options={}))


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    """A table's name would put a line of its own into the patch."""
    row = {
        "action": "withdraw_grant",
        "catalog": "lake",
        "via_role": "reader",
        "namespace": "a\x1fb.c",
        "table": 'x"}\n  - {catalog: lake',
        "volume": None,
        "resource": "table:lake.a.b.c",
        "principal": None,
        "principal_role": None,
        "privilege": "TABLE_DROP",
        "reason": "none of 3 principals used it",
        "last_used": None,
    }
    text = "".join(patch_lines([row, row | {"privilege": "TABLE_LIST"}, row | {"action": "wait"}], "r"))
    entries = [line for line in text.splitlines() if line.startswith("  - ")]
    assert len(entries) == 1
    entry = msgspec.json.decode(entries[0].removeprefix("  - "))
    assert (entry["table"], entry["namespace"]) == (row["table"], ["a", "b.c"])
    assert entry["privileges"] == ["TABLE_DROP", "TABLE_LIST"]
    assert "take: []" in text
