"""Prove that Iceberg Java's S3FileIO works with the documented properties: every release, route, store and request."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli.clients import Client
from tests.e2e.clients import install
from tests.e2e.clients.drive import (
    CATALOG,
    KEYS,
    KMS_KEY,
    NAMESPACE,
    SECRET,
    STORES,
    TABLE,
    Lake,
    Lakes,
    run_lake,
)
from tests.e2e.clients.rig import Run
from tests.e2e.conftest import Shelf
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.server import CALLER
from tests.e2e.stores import VERSITYGW, RunningStore, StoreKind

CLIENT = "Iceberg Java S3FileIO"

PART = 5 * 1024 * 1024
LARGE = 2 * PART + 1

_TABLE_PATH = f"namespaces/{NAMESPACE}/tables/{TABLE}"
_POLARIS = f"s3-sign/v1/{CATALOG}/{_TABLE_PATH}"
_SPECIFICATION = f"v1/{CATALOG}/{_TABLE_PATH}/sign"

CONFIGURED = "client-config"
"""With what `signproxy client-config` prints."""
ADVERTISED = "advertised"
"""With what `GET /v1/config` says."""

ROUTES = {
    "polaris": {"signer.uri": "{url}/api/catalog/", "signer.endpoint": _POLARIS},
    "polaris, old keys": {"s3.signer.uri": "{url}/api/catalog/", "s3.signer.endpoint": _POLARIS},
    "specification": {"signer.uri": "{url}", "signer.endpoint": _SPECIFICATION},
    # What 1.12's REST catalog derives from its own URI, the prefix and the table; nothing is configured.
    "specification, derived": {"uri": "{url}", "rest.remote-signing.endpoint": _SPECIFICATION},
    "default": {"signer.uri": "{url}/catalogs/lake"},
    "old keys": {"s3.signer.uri": "{url}/catalogs/lake", "s3.signer.endpoint": "v1/aws/s3/sign"},
    # Both pairs at once: one configuration for every release.
    "both keys": {
        "signer.uri": "{url}/catalogs/lake",
        "signer.endpoint": "v1/aws/s3/sign",
        "s3.signer.uri": "{url}/catalogs/lake",
        "s3.signer.endpoint": "v1/aws/s3/sign",
    },
}

CASES = (
    *(
        pytest.param(kind, version, CONFIGURED, marks=pytest.mark.ci)
        for kind in STORES
        for version in ("1.12.0", "1.11.0")
    ),
    pytest.param(VERSITYGW, "1.12.0", "polaris", marks=pytest.mark.ci),
    pytest.param(VERSITYGW, "1.12.0", "specification, derived", marks=pytest.mark.ci),
    (VERSITYGW, "1.12.0", "specification"),
    (VERSITYGW, "1.12.0", "both keys"),
    (VERSITYGW, "1.11.0", ADVERTISED),
    (VERSITYGW, "1.11.0", "polaris, old keys"),
    (VERSITYGW, "1.11.0", "specification"),
    (VERSITYGW, "1.11.0", "default"),
    (VERSITYGW, "1.11.0", "both keys"),
    (VERSITYGW, "1.10.1", CONFIGURED),
    (VERSITYGW, "1.10.1", "old keys"),
    (VERSITYGW, "1.10.1", ADVERTISED),
    (VERSITYGW, "1.10.1", "polaris, old keys"),
    (VERSITYGW, "1.10.1", "both keys"),
)

# What has to succeed, with what; the S3 operation is one that the step needs.
STEPS: tuple[tuple[str, str, Any], ...] = (
    ("PutObject", "write", 100),
    ("GetObject", "read", "0123456789" * 10),
    ("GetObject with ranges", "read_seek", "2345"),
    ("GetObject with ranges", "read_range", "56789"),
    ("GetObject with ranges", "read_tail", "789"),
    ("HeadObject", "length", 100),
    ("HeadObject", "exists", True),
    ("HeadObject of a missing key", "exists_missing", False),
    ("PutObject", "write_empty", 0),
    ("CreateMultipartUpload", "write_multipart", LARGE),
    ("UploadPart", "write_multipart", LARGE),
    ("CompleteMultipartUpload", "length_multipart", LARGE),
    ("GetObject with ranges", "read_multipart_tail", 2),
    *(("PutObject", f"write {key}", len(key.encode())) for key in KEYS),
    *(("GetObject", f"read {key}", key) for key in KEYS),
    ("ListObjectsV2", "list_none", []),
    ("ListObjectsV2 in pages", "list_pages", 5),
    # One of them is the folder's plain file, deleted by itself before.
    ("DeleteObjects", "delete_bulk", len(KEYS) + 2),
    ("DeleteObjects", "list_after_delete", []),
    ("PutObject", "manifest_write", 2),
    ("ListParts", "abort", 1),
    ("AbortMultipartUpload", "abort", 1),
    ("CopyObject", "copy", "0123456789"),
    ("UploadPartCopy", "copy_part", 10),
    ("GetObject with If-Match", "get_if_match", "0123456789"),
)

DENIED = (
    ("denied_read", "ForbiddenException", "no_remote_sign"),
    ("denied_write", "ForbiddenException", "no_remote_sign"),
    ("denied_list", "ForbiddenException", "no_remote_sign"),
    # Two tables in one bulk delete have no one owner; the client says only how many files are left.
    ("denied_bulk", "BulkDeletionFailureException", "location_unowned"),
    ("read_only_write", "ForbiddenException", "no_write_data"),
    ("metadata_write", "ForbiddenException", "metadata_protected"),
)

# What no client of a table has any business with.
NEVER_SIGNED = (
    ("GetObjectAcl", "get_acl", "operation_refused"),
    ("PutObjectAcl", "put_acl", "operation_refused"),
    ("DeleteObjectTagging", "delete_tags", "operation_refused"),
    ("HeadBucket", "head_bucket", "operation_refused"),
    ("ListObjects", "list_v1", "operation_refused"),
    ("ListObjectsV2 without a prefix", "list_bucket", "list_prefix"),
    ("ListBuckets", "list_buckets", "operation_refused"),
    ("ListObjectVersions", "list_versions", "operation_refused"),
    ("GetBucketPolicy", "bucket_policy", "operation_refused"),
    ("DeleteBucket", "delete_bucket", "operation_refused"),
)

_CUSTOMER_KEY = b"0123456789abcdef0123456789abcdef"

# What properties add to requests: the headers, and the S3 operation for `s3.delete.tags`.
VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "tags": ("x-amz-tagging", {"s3.write.tags.team": "sales", "s3.write.tags.year": "2026"}),
    "owner ACL": ("x-amz-acl", {"s3.acl": "bucket-owner-full-control"}),
    "SSE-S3": ("x-amz-server-side-encryption", {"s3.sse.type": "s3"}),
    "SSE-KMS": ("x-amz-server-side-encryption-aws-kms-key-id", {"s3.sse.type": "kms", "s3.sse.key": KMS_KEY}),
    "MD5": ("content-md5", {"s3.checksum-enabled": "true"}),
    "storage class": ("x-amz-storage-class", {"s3.write.storage-class": "STANDARD_IA"}),
    "tags instead of deletes": ("", {"s3.delete-enabled": "false", "s3.delete.tags.gone": "true"}),
}
NEVER_SIGNED_VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "public ACL": ("header_value", {"s3.acl": "public-read"}),
    "SSE-C": (
        "header_refused",
        {
            "s3.sse.type": "custom",
            "s3.sse.key": base64.b64encode(_CUSTOMER_KEY).decode(),
            "s3.sse.md5": base64.b64encode(hashlib.md5(_CUSTOMER_KEY, usedforsecurity=False).digest()).decode(),
        },
    ),
}
LACKING = {
    "swift": {"tags", "SSE-S3", "SSE-KMS", "storage class", "tags instead of deletes"},
    # It has no key of its own to encrypt with.
    "seaweedfs": {"SSE-S3", "SSE-KMS"},
    "minio": {"storage class"},
}
"""Stores, and what they cannot do."""


def _drive(lake: Lake, home: Path, version: str, route: str, **more: Any) -> Run:
    match route:
        case "client-config":
            properties = lake.properties(Client.SPARK, version)
        case "advertised":
            properties = lake.advertised() | lake.store_properties()
        case _:
            properties = {
                "s3.remote-signing-enabled": "true",
                "token": lake.token,
                **{name: value.format(url=lake.url) for name, value in ROUTES[route].items()},
                **lake.store_properties(),
            }
    properties["s3.multipart.part-size-bytes"] = str(PART)
    name = f"java-{version}-{route.replace(', ', '-').replace(' ', '-')}"
    command = (install.java(), "-Xmx512m", "-cp", install.iceberg_java(version), "S3FileIODriver")
    return lake.drive(command, lake.asked(name, properties, LARGE) | more, home)


def _variants() -> dict[str, dict[str, str]]:
    return {name: added for name, (_, added) in (VARIANTS | NEVER_SIGNED_VARIANTS).items()}


@pytest.mark.parametrize(("kind", "version", "route"), CASES, ids=str)
def test_a_release_works_with_its_properties(
    lakes: Lakes, matrix: Matrix, tmp_path: Path, kind: StoreKind, version: str, route: str
) -> None:
    """A key that a release does not read leaves a Spark job without a signer, or with the wrong one."""
    lake = lakes.on(kind)
    store = lake.rig.store
    run = _drive(lake, tmp_path, version, route, variants=_variants())
    lacking = LACKING.get(store.name, set())
    run.check_trail({CALLER}, beyond_store="storage-class" if "storage class" in lacking else "")

    def row(operation: str, outcome: Outcome = Outcome.WORKS, detail: str = "") -> Row:
        return Row(CLIENT, version, store.name, store.version, operation, outcome=outcome, detail=detail)

    for operation, step, expected in STEPS:
        with matrix.row(row(operation)):
            assert run.value(step) == expected, step
            assert run.operations()[operation.partition(" ")[0]] > 0, operation
    with matrix.row(row("ListObjectsV2")):
        names = {location.rpartition("/data/")[2] for location in run.value("list")}
        assert names == {"plain.txt", "empty", "large", *(key.removeprefix("data/") for key in KEYS)}
    with matrix.row(row("DeleteObject")):
        assert run.value("delete")
        assert run.operations()["DeleteObject"] == 1
    assert run.error("read_missing")[0] == "NotFoundException"
    for operation, step, reason in NEVER_SIGNED:
        with matrix.row(row(operation, Outcome.REFUSED, reason)):
            assert run.error(step)[0] == ("BadRequestException" if reason == "list_prefix" else "ForbiddenException")
    tagging = Outcome.STORE_REFUSES if "tags" in lacking else Outcome.WORKS
    with matrix.row(row("PutObjectTagging", tagging)):
        if "tags" in lacking:
            assert run.error("tags")[0] == "S3Exception"
        else:
            assert run.value("tags") == "sales"
    if not route.startswith(("polaris", "specification")):
        _check_write_once(run, matrix, row)
    _check_variants(run, store, matrix, row)
    _check_denials(run, of_one_table=route.startswith(("polaris", "specification")))


def _check_write_once(run: Run, matrix: Matrix, row: Any) -> None:
    with matrix.row(row("PutObject, write-once")):
        assert run.value("once_write") == 5
        assert run.error("once_overwrite")[0] == "S3Exception"
        assert "Status Code: 412" in run.error("once_overwrite")[1]
        assert run.value("once_read") == "first"
    # The upload was stored, its answer never came, and the SDK's second attempt meets what the first one wrote.
    with matrix.row(row("PutObject, write-once, answer lost", detail="told as 412, though it was written")):
        assert "Status Code: 412" in run.error("once_lost")[1]
        assert run.value("once_lost_read") == "first"


def _check_variants(run: Run, store: RunningStore, matrix: Matrix, row: Any) -> None:
    for name, (header, _) in VARIANTS.items():
        if name in LACKING.get(store.name, set()):
            with matrix.row(row(f"properties: {name}", Outcome.STORE_REFUSES)):
                failed = [
                    step for step in run.outcomes if step.startswith(f"{name}: ") and "error" in run.outcomes[step]
                ]
                # A bulk delete does not tell that tagging failed.
                assert failed or name == "tags instead of deletes", run.outcomes
            continue
        with matrix.row(row(f"properties: {name}")):
            values = [run.value(f"{name}: {step}") for step in ("write", "read", "multipart", "length")]
            assert values == [10, "0123456789", LARGE, LARGE], name
            sent = [call for call in run.calls if f"/{name.replace(' ', '-')}/" in call.key and call.status < 300]
            if header:
                assert run.value(f"{name}: delete") == 0
                bearing = Counter(_operation(call.method, call.target) for call in sent if header in call.headers)
                # The parts of an upload have its settings already, and a hash of their own.
                wanted = {"PUT", "UploadPart"} if name == "MD5" else {"PUT", "CreateMultipartUpload"}
                assert wanted <= bearing.keys(), (name, bearing)
                assert all(header in call.signed_headers for call in sent if header in call.headers)
            else:
                assert run.value(f"{name}: delete") == 2
                assert {"GetObjectTagging", "PutObjectTagging"} <= {
                    _operation(call.method, call.target) for call in sent
                }
    for name, (reason, _) in NEVER_SIGNED_VARIANTS.items():
        with matrix.row(row(f"properties: {name}", Outcome.REFUSED, reason)):
            assert run.error(f"{name}: write")[0] == "ForbiddenException"


def _operation(method: str, target: str) -> str:
    if "tagging" in target:
        return f"{method.capitalize()}ObjectTagging"
    if "uploads" in target:
        return "CreateMultipartUpload"
    return "UploadPart" if "partNumber" in target else method


def _check_denials(run: Run, *, of_one_table: bool) -> None:
    for step, exception, _ in DENIED:
        assert run.error(step)[0] == exception, step
    others = Counter(reason for _, _, reason in NEVER_SIGNED)
    others.update(reason for reason, _ in NEVER_SIGNED_VARIANTS.values())
    if of_one_table:
        assert run.error("read_only_read")[0] == "ForbiddenException"
        outside = len(DENIED) + sum(step.startswith("once_") for step in run.outcomes)
        assert run.refusals() - others == {"outside_table": outside, "metadata_protected": 1}
        assert run.error("denied_read")[1] == "Forbidden: The request leaves the locations of the table"
    else:
        assert run.value("read_only_read") == SECRET.decode()
        assert sorted((run.refusals() - others).elements()) == sorted(reason for _, _, reason in DENIED)
    assert run.error("metadata_write")[1] == "Forbidden: The metadata files of the table are protected"


@pytest.mark.parametrize("route", ("default", "old keys", "advertised"))
def test_what_the_newest_release_no_longer_reads_fails_before_anything_is_sent(
    lakes: Lakes, tmp_path: Path, route: str
) -> None:
    """The documentation says which keys 1.12 needs; should a release read them again, it may say less."""
    run = _drive(lakes.on(VERSITYGW), tmp_path, "1.12.0", route)
    assert (run.calls, run.events) == ([], [])
    assert run.error("write") == ("IllegalArgumentException", "Remote signing endpoint is required")


# -- what the client keeps, and what was not opted in to ---------------------------------------------------------------

RANGES = 20


@pytest.fixture(scope="module")
def sparing(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Run a signproxy that lets clients keep read signatures, before a store that opted in to nothing."""
    directory = tmp_path_factory.mktemp("sparing")
    with run_lake(
        directory, shelf.get(VERSITYGW), bucket="sparing", settings={"signing": {"client_cache": True}}
    ) as lake:
        yield lake


@pytest.mark.ci
@pytest.mark.parametrize("version", ("1.12.0", "1.11.0"))
def test_a_kept_signature_serves_every_range(sparing: Lake, matrix: Matrix, tmp_path: Path, version: str) -> None:
    """Readers fetch a file in hundreds of pieces; were the range signed, the second piece would be refused."""
    run = _drive(sparing, tmp_path, version, CONFIGURED, ranges=RANGES)
    run.check_trail({CALLER}, cached=True)
    store = sparing.rig.store
    with matrix.row(Row(CLIENT, version, store.name, store.version, "GetObject with ranges, signature kept")):
        assert run.value("ranges") == "0123456789" * (RANGES // 10)
        assert (run.value("tail"), run.value("read"), run.value("length")) == ("789", 10 * RANGES, 10 * RANGES)
        reads = [call for call in run.calls if call.method == "GET" and call.key.endswith("/ranges")]
        signed = [event for event in run.events if event["s3_op"] == "GetObject" and event["key"].endswith("/ranges")]
        assert len(reads) > RANGES
        assert len({call.headers["range"] for call in reads}) >= RANGES
        # Twice at most: the cache forgets after thirty seconds.
        assert len(signed) <= 2
    # What was overwritten meanwhile is read as it is now, and a second bulk delete is not the first one again.
    assert run.value("read_overwritten") == "abc"
    assert (run.value("delete_first"), run.value("delete_second")) == (False, False)
    assert run.operations()["DeleteObjects"] == 2


@pytest.mark.ci
@pytest.mark.parametrize("version", ("1.12.0", "1.11.0"))
def test_what_needs_an_opt_in_is_refused_without_it(sparing: Lake, tmp_path: Path, version: str) -> None:
    """What a store does at a header's word (keys, tags, classes of storage) costs money or access."""
    # SSE-KMS is asked for with two headers, of which the one that names the method is refused first.
    needing = {
        "tags": "x-amz-tagging",
        "owner ACL": "x-amz-acl",
        "SSE-KMS": "x-amz-server-side-encryption",
        "storage class": "x-amz-storage-class",
    }
    variants = {name: added for name, (_, added) in VARIANTS.items() if name in needing}
    run = _drive(sparing, tmp_path, version, CONFIGURED, ranges=1, variants=variants)
    for name, header in needing.items():
        assert run.error(f"{name}: write") == (
            "ForbiddenException",
            f"Forbidden: The value of the header '{header}' is not allowed here",
        )
    assert run.refusals() == {"header_value": len(needing)}
