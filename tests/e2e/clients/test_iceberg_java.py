"""Prove that Iceberg Java's S3FileIO works with the documented properties, release by release, route by route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clients import install, readme
from tests.e2e.clients.drive import CATALOG, KEYS, LARGE, NAMESPACE, SECRET, TABLE, Lake, Run
from tests.e2e.matrix import Matrix, Row

CLIENT = "Iceberg Java S3FileIO"

_TABLE_PATH = f"namespaces/{NAMESPACE}/tables/{TABLE}"
_POLARIS = f"s3-sign/v1/{CATALOG}/{_TABLE_PATH}"
_SPECIFICATION = f"v1/{CATALOG}/{_TABLE_PATH}/sign"

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
    pytest.param("1.12.0", "readme", marks=pytest.mark.ci),
    pytest.param("1.12.0", "polaris", marks=pytest.mark.ci),
    pytest.param("1.12.0", "specification, derived", marks=pytest.mark.ci),
    ("1.12.0", "specification"),
    ("1.12.0", "both keys"),
    pytest.param("1.11.0", "readme", marks=pytest.mark.ci),
    ("1.11.0", "advertised"),
    ("1.11.0", "polaris, old keys"),
    ("1.11.0", "specification"),
    ("1.11.0", "default"),
    ("1.11.0", "both keys"),
    ("1.10.1", "old keys"),
    ("1.10.1", "advertised"),
    ("1.10.1", "polaris, old keys"),
    ("1.10.1", "both keys"),
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
    ("HeadObject", "exists_missing", False),
    ("PutObject", "write_empty", 0),
    ("CreateMultipartUpload", "write_multipart", LARGE),
    ("UploadPart", "write_multipart", LARGE),
    ("CompleteMultipartUpload", "length_multipart", LARGE),
    ("GetObject with ranges", "read_multipart_tail", 2),
    *(("PutObject", f"write {key}", len(key.encode())) for key in KEYS),
    *(("GetObject", f"read {key}", key) for key in KEYS),
    ("ListObjectsV2", "list_none", []),
    # One of them is the folder's plain file, deleted by itself before.
    ("DeleteObjects", "delete_bulk", len(KEYS) + 2),
    ("DeleteObjects", "list_after_delete", []),
    ("PutObject", "manifest_write", 2),
)

REFUSED = (
    ("denied_read", "ForbiddenException", "no_remote_sign"),
    ("denied_write", "ForbiddenException", "no_remote_sign"),
    ("denied_list", "ForbiddenException", "no_remote_sign"),
    # Two tables in one bulk delete have no one owner; the client says only how many files are left.
    ("denied_bulk", "BulkDeletionFailureException", "location_unowned"),
    ("read_only_write", "ForbiddenException", "no_write_data"),
    ("metadata_write", "ForbiddenException", "metadata_protected"),
)


def _drive(lake: Lake, home: Path, version: str, route: str) -> Run:
    match route:
        case "readme":
            properties = readme.java_properties(lake)
        case "advertised":
            properties = readme.advertised_properties(lake)
        case _:
            properties = {
                "s3.remote-signing-enabled": "true",
                "token": lake.server.token,
                **{name: value.format(url=lake.url) for name, value in ROUTES[route].items()},
            }
    properties |= readme.store_properties(lake) | {"s3.multipart.part-size-bytes": str(5 * 1024 * 1024)}
    name = f"java-{version}-{route.replace(', ', '-').replace(' ', '-')}"
    command = (install.java(), "-Xmx512m", "-cp", install.iceberg_java(version), "S3FileIODriver")
    return lake.drive(command, lake.asked(name, properties), home)


@pytest.mark.parametrize(("version", "route"), CASES)
def test_a_release_works_with_its_properties(
    lake: Lake, matrix: Matrix, tmp_path: Path, version: str, route: str
) -> None:
    """A key that a release does not read leaves a Spark job without a signer, or with the wrong one."""
    run = _drive(lake, tmp_path, version, route)
    run.check_trail()
    for operation, step, expected in STEPS:
        with matrix.row(Row(CLIENT, version, lake.store.name, lake.store.version, operation)):
            assert run.value(step) == expected, step
            assert run.operations()[operation.partition(" ")[0]] > 0, operation
    with matrix.row(Row(CLIENT, version, lake.store.name, lake.store.version, "ListObjectsV2")):
        names = {location.rpartition("/data/")[2] for location in run.value("list")}
        assert names == {"plain.txt", "empty", "large", *(key.removeprefix("data/") for key in KEYS)}
    with matrix.row(Row(CLIENT, version, lake.store.name, lake.store.version, "DeleteObject")):
        assert run.value("delete")
        assert run.operations()["DeleteObject"] == 1
    assert run.error("read_missing")[0] == "NotFoundException"
    _check_refusals(run, of_one_table=route.startswith(("polaris", "specification")))


def _check_refusals(run: Run, *, of_one_table: bool) -> None:
    for step, exception, _ in REFUSED:
        assert run.error(step)[0] == exception, step
    if of_one_table:
        assert run.error("read_only_read")[0] == "ForbiddenException"
        assert run.refusals() == {"outside_table": len(REFUSED), "metadata_protected": 1}
        assert run.error("denied_read")[1] == "Forbidden: The request leaves the locations of the table"
    else:
        assert run.value("read_only_read") == SECRET.decode()
        assert sorted(run.refusals().elements()) == sorted(reason for _, _, reason in REFUSED)
    assert run.error("metadata_write")[1] == "Forbidden: The metadata files of the table are protected"


@pytest.mark.parametrize("route", ("default", "old keys", "advertised"))
def test_what_the_newest_release_no_longer_reads_fails_before_anything_is_sent(
    lake: Lake, tmp_path: Path, route: str
) -> None:
    """The documentation says which keys 1.12 needs; should a release read them again, it may say less."""
    run = _drive(lake, tmp_path, "1.12.0", route)
    assert (run.requests, run.events) == ([], [])
    assert run.error("write") == ("IllegalArgumentException", "Remote signing endpoint is required")
