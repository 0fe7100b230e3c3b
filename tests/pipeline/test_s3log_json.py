"""MinIO's audit webhook and CloudTrail's data events: what they leave out, and what they name otherwise."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from signproxy.pipeline.s3log import cloudtrail, minio
from signproxy.pipeline.s3log.rows import Quality

STAMP = "01M7RKABN8Z7CP8YAFDE0A1B2C"
KEY = "wh/t/part-1.parquet"
SESSION = "arn:aws:sts::111122223333:assumed-role/vended/sp-lake-01M7RKABN8Z7CP8YAFDE000001"


def of_minio(request_id: str, api: dict[str, Any] | None = None, **changes: Any) -> str:
    """Return an entry of MinIO's audit log."""
    call = {"name": "GetObject", "bucket": "lake", "object": KEY, "statusCode": 206, "rx": 0, "tx": 100,
            "timeToFirstByteInNS": "2000000", "timeToResponseInNS": "5000000"} | (api or {})  # fmt: skip
    entry = {
        "version": "1", "time": "2026-11-18T10:11:12.123456789Z", "api": call, "remotehost": "10.0.0.7",
        "requestID": request_id, "userAgent": "aws-sdk/2", "requestPath": f"/lake/{KEY}", "accessKey": "SIGNER",
        "requestQuery": {"x-signproxy-id": STAMP}, "requestHeader": {"Authorization": "AWS4-HMAC-SHA256 secret"},
    }  # fmt: skip
    return json.dumps(entry | changes)


OF_MINIO = {
    "PLAIN": of_minio("PLAIN"),
    "NOSTAMP": of_minio("NOSTAMP", requestQuery={}),
    "BULK": of_minio("BULK", {"name": "DeleteMultipleObjects", "object": "the/only.one"}),
    "VENDED": of_minio("VENDED", accessKey="SESSIONKEY", parentUser="signer"),
    "UNPROVEN": of_minio("UNPROVEN", {"statusCode": 403}, accessKey=""),
    "UNKNOWNBYTES": of_minio("UNKNOWNBYTES", {"tx": -1}),
    "TWOSTAMPS": of_minio("TWOSTAMPS", requestQuery={"x-signproxy-id": f"forged,{STAMP}"}),
    "MULTIPART": of_minio("MULTIPART", {"name": "NewMultipartUpload"}),
}
NOT_MINIO = ('{"version":"1","event":"","trigger":"background"}', of_minio("X")[:80], "[]")


@pytest.fixture(scope="module")
def minio_rows(spark: SparkSession) -> dict[str, Row]:
    lines = [*OF_MINIO.values(), *NOT_MINIO]
    found = minio.requests(spark.createDataFrame([(each,) for each in lines], "line string")).collect()
    rows = {row["request_id"]: row for row in found if row["problem"] is None}
    assert len(rows) == len(OF_MINIO)
    assert {row["line"] for row in found if row["problem"] is not None} == set(NOT_MINIO)
    return rows


@pytest.mark.parametrize(
    ("name", "expected"),
    (
        ("PLAIN", {"bucket": "lake", "key": KEY, "stamp": STAMP, "method": "GET", "status": 206, "bytes_sent": 100,
                   "requester": "SIGNER", "access_key_id": "SIGNER", "total_ms": 5.0, "tat_ms": 2.0, "quality": None}),
        ("NOSTAMP", {"stamp": None}),
        # A bulk delete of one key names that, though the request has none, and its event has none either.
        ("BULK", {"key": None, "method": "POST"}),
        ("VENDED", {"requester": "signer", "access_key_id": "SESSIONKEY"}),
        ("UNPROVEN", {"requester": None, "access_key_id": None, "status": 403}),
        ("UNKNOWNBYTES", {"bytes_sent": None, "quality": [Quality.BYTES_UNKNOWN]}),
        ("TWOSTAMPS", {"quality": [Quality.STAMP_REPEATED]}),
        ("MULTIPART", {"method": "POST"}),
    ),
)  # fmt: skip
def test_minio_says(minio_rows: dict[str, Row], name: str, expected: dict[str, Any]) -> None:
    """The names are MinIO's own, and an empty one says that nothing was proven."""
    row = minio_rows[name].asDict()
    read = {field: row[field] or None if field in ("requester", "access_key_id") else row[field] for field in expected}
    assert read == expected


def test_signatures_are_not_kept(minio_rows: dict[str, Row]) -> None:
    """MinIO repeats the headers of requests: an Authorization header in a table is a secret in a table."""
    assert "AWS4-HMAC-SHA256" not in str([{**row.asDict(), "line": ""} for row in minio_rows.values()])


def record(request_id: str, **changes: Any) -> dict[str, Any]:
    """Return a record of CloudTrail."""
    return {
        "eventTime": "2026-11-18T10:11:12Z", "eventSource": "s3.amazonaws.com", "eventName": "GetObject",
        "requestID": request_id, "sourceIPAddress": "10.0.0.7", "userAgent": "[S3FileIO]",
        "userIdentity": {"type": "AssumedRole", "arn": SESSION, "accountId": "111122223333", "accessKeyId": "ASIA1"},
        "requestParameters": {"bucketName": "lake", "key": KEY},
        "additionalEventData": {"AuthenticationMethod": "AuthHeader", "bytesTransferredOut": 100.0},
    } | changes  # fmt: skip


RECORDS = (
    record("PLAIN"),
    record("DENIED", errorCode="AccessDenied"),
    record("CLAIMED", errorCode="SignatureDoesNotMatch"),
    record("ODD", errorCode="SomethingNew"),
    record("STAMPED", requestParameters={"bucketName": "lake", "key": KEY, "x-signproxy-id": STAMP}),
    record("SERVICE", userIdentity={"type": "AWSService", "invokedBy": "replication.amazonaws.com"}),
)
OTHERS = (record("KMS", eventSource="kms.amazonaws.com", eventName="Decrypt"),)


@pytest.fixture(scope="module")
def records(spark: SparkSession) -> dict[str, Row]:
    files = [json.dumps({"Records": [*RECORDS[:3], *OTHERS]}), json.dumps({"Records": RECORDS[3:]}), "not JSON", "{}"]
    found = cloudtrail.requests(spark.createDataFrame([(each,) for each in files], "line string")).collect()
    rows = {row["request_id"]: row for row in found if row["problem"] is None}
    assert set(rows) == {one["requestID"] for one in RECORDS}
    assert len([row for row in found if row["problem"] is not None]) == 2
    return rows


@pytest.mark.parametrize(
    ("name", "expected"),
    (
        ("PLAIN", {"bucket": "lake", "key": KEY, "stamp": None, "method": "GET", "status": 200, "bytes_sent": 100,
                   "requester": SESSION, "role": "vended", "session_name": SESSION.rpartition("/")[2],
                   "access_key_id": "ASIA1", "quality": [Quality.NO_QUERY]}),
        ("DENIED", {"status": 403, "error": "AccessDenied", "requester": SESSION}),
        ("CLAIMED", {"requester": None, "access_key_id": None, "role": None,
                     "quality": [Quality.CLAIMED_KEY, Quality.STATUS_UNSURE, Quality.NO_QUERY]}),
        ("ODD", {"status": 400, "quality": [Quality.STATUS_UNSURE, Quality.NO_QUERY]}),
        ("STAMPED", {"stamp": STAMP, "quality": None}),
        ("SERVICE", {"requester": "replication.amazonaws.com", "access_key_id": None}),
    ),
)  # fmt: skip
def test_cloudtrail_says(records: dict[str, Row], name: str, expected: dict[str, Any]) -> None:
    """It has no status, no method and mostly no query: what is guessed is marked so that no finding rests on it."""
    row = records[name].asDict()
    assert {field: row[field] for field in expected} == expected


def test_times_are_of_the_record(records: dict[str, Row]) -> None:
    """A day's request that is put into another day is missing from its own."""
    assert records["PLAIN"]["ts"].astimezone(UTC) == datetime(2026, 11, 18, 10, 11, 12, tzinfo=UTC)
