"""The settings and policies in the manifests are the product's own: a manifest that drifted from it would not start."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from signproxy.cli import main
from signproxy.errors import Refused
from signproxy.inventory.declared.source import FilePolicySource
from signproxy.model import NAMESPACE_SEPARATOR, Allow, Deny, NamedTable, Principal, Subject
from signproxy.policy.decide import decide
from signproxy.policy.resolver import PolicyResolver
from signproxy.s3.operation import Operation
from tests.deploy.configuration import lay_out, relocate, settings_of, swap_in
from tests.deploy.kustomize import DEPLOY, VARIANTS
from tests.deploy.manifests import Pod, maps, product_pods
from tests.policy.world import request

pytestmark = pytest.mark.usefixtures("quiet_environment")

PRODUCT_PODS = pytest.mark.parametrize("pod", product_pods(), ids=str)


@PRODUCT_PODS
def test_each_container_would_start(pod: Pod, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that was renamed, a file that is mounted elsewhere, a storage without a binding: found in production."""
    file = lay_out(pod, tmp_path)
    relocate(file, tmp_path)
    assert main(["check-config", "--config", str(file)]) == 0, capsys.readouterr().err
    captured = capsys.readouterr()
    assert captured.out.startswith("valid: policy ")
    assert "1 catalogs (1 with remote signing), 1 tables, 1 principals" in captured.out
    assert captured.err == ""


@PRODUCT_PODS
@pytest.mark.parametrize(
    ("file", "before", "after", "told"),
    (
        ("signproxy.yaml", "audiences", "audience", "unknown key"),
        ("signproxy.yaml", "/lake/access-key-id", "/lake/key-id", "cannot be read"),
        ("signproxy.yaml", "hosts: [aws]", "hosts: [s3.example]", "is not among these hosts"),
        ("lake.yaml", "buckets", "bucket", "unknown key"),
        ("access.yaml", "TABLE_WRITE_DATA", "TABLE_WRITE", "TABLE_WRITE_DATA"),
    ),
)
def test_a_drift_is_found(
    pod: Pod, file: str, before: str, after: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check above could not fail."""
    settings = lay_out(pod, tmp_path)
    relocate(settings, tmp_path)
    directory = settings.parent if file == settings.name else tmp_path / "etc/signproxy/policy"
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    assert before.encode() in files[file]
    swap_in(directory, files | {file: files[file].replace(before.encode(), after.encode())})
    valid = main(["check-config", "--config", str(settings)]) == 0
    captured = capsys.readouterr()
    assert told in captured.err
    # What a Secret holds may still come: it is told, and a start waits for it.
    assert valid is captured.err.startswith("signproxy: warning: ")


def _files(value: object) -> list[str]:
    """Return every absolute file name in a document."""
    if isinstance(value, dict):
        return [name for each in value.values() for name in _files(each)]
    if isinstance(value, list):
        return [name for each in value for name in _files(each)]
    return [value] if isinstance(value, str) and value.startswith("/") else []


@PRODUCT_PODS
def test_every_file_of_the_settings_is_mounted(pod: Pod, tmp_path: Path) -> None:
    """Keys that are read only when they are needed would be missing with the first request."""
    file = lay_out(pod, tmp_path)
    named = _files(yaml.safe_load(file.read_text()))
    assert len(named) >= 5
    assert [name for name in named if not (tmp_path / name.lstrip("/")).exists()] == []


GET, PUT, LIST = Operation.GET_OBJECT, Operation.PUT_OBJECT, Operation.LIST_OBJECTS_V2
ORDERS = "warehouse/sales/orders"
JOB = "cluster/system:serviceaccount:spark-jobs:spark"

DECISIONS = (
    (JOB, "orders", GET, f"{ORDERS}/data/f", "allowed"),
    (JOB, "orders", PUT, f"{ORDERS}/data/f", "allowed"),
    (JOB, "orders", LIST, f"{ORDERS}/", "allowed"),
    (JOB, "orders", GET, "warehouse/sales/other/f", "outside_table"),
    (JOB, "orders", GET, f"{ORDERS}/metadata/1.metadata.json", "metadata_protected"),
    # An executor shows the driver's token; its own account names no principal.
    ("cluster/system:serviceaccount:spark-jobs:spark-executor", "orders", GET, f"{ORDERS}/data/f", "principal_unknown"),
    ("cluster/system:serviceaccount:other:spark", "orders", GET, f"{ORDERS}/data/f", "principal_unknown"),
)


@pytest.mark.parametrize(("principal", "table", "operation", "key", "expected"), DECISIONS)
def test_who_may_do_what(principal: str, table: str, operation: Operation, key: str, expected: str) -> None:
    """The example would be refused, or would let more in than it says."""
    state = FilePolicySource(DEPLOY / "base" / "policy", single_issuer=True).load(1)
    catalog = state.catalogs["lake"]
    store = catalog.storage_of("acme-lake")
    assert store is not None
    asked = request(operation, "" if operation is LIST else key, bucket="acme-lake", store=store, prefix=key)
    issuer, _, claim = principal.partition("/")
    try:
        owners = PolicyResolver().resolve(catalog, NamedTable(NAMESPACE_SEPARATOR.join(["sales"]), table), asked)
        decision = decide(state, catalog, Subject.of(Principal(principal, issuer, claim, 4e9)), owners, asked)
    except Refused as refused:
        decision = Deny(refused.reason)
    assert ("allowed" if isinstance(decision, Allow) else decision.reason.code) == expected


def test_both_variants_decide_the_same() -> None:
    """Moving a job from its sidecar to the gateway would change what it may do."""
    gateway, sidecar = (settings_of(variant) for variant in VARIANTS)
    assert gateway.identity == sidecar.identity
    assert gateway.storages == sidecar.storages
    assert maps("gateway")["signproxy-policy"] == maps("sidecar")["signproxy-policy"]


def test_the_gateway_is_encrypted_and_the_sidecar_is_the_pods_own() -> None:
    """Tokens would cross the network in the clear, or another pod would ask in the engine's name."""
    gateway, sidecar = settings_of("gateway"), settings_of("sidecar")
    assert gateway.listen.tls.enabled
    assert not gateway.listen.allow_remote
    assert gateway.public_url.startswith("https://")
    assert sidecar.listen.host == "127.0.0.1"
    for settings in (gateway, sidecar):
        # Signing is the operator's to accept for a store that checks less than AWS does.
        assert not settings.accepted_unsafe | settings.accepted_unhashed
        assert settings.reload.poll_seconds <= 2
