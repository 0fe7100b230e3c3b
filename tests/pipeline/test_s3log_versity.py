"""versitygw's two logs: unquoted fields, claimed keys, bytes that it does not count."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from signproxy.pipeline.s3log import versity_file, versity_webhook
from signproxy.pipeline.s3log.rows import Quality

STAMP = "01M7RKABN8Z7CP8YAFDE0A1B2C"
KEY = "wh/t/part-1.parquet"
GET = [Quality.BYTES_UNKNOWN, Quality.STATUS_UNSURE]


def line(request_id: str, **changes: str) -> str:
    """Return a line as versitygw writes it: 26 fields, none of them quoted."""
    f = {
        "owner": "signer", "time": "[18/November/2026:10:11:12 +0000]", "ip": "127.0.0.1", "requester": "signer",
        "op": "s3_GetObject", "key": KEY, "status": "200", "error": "-", "sent": "0", "size": "0", "agent": "aws-sdk/2",
        "bucket": "lake", "query": f"?x-signproxy-id={STAMP}", "auth": "AuthHeader",
    } | changes  # fmt: skip
    path = f.get("path", f["key"] if f["key"] != "-" else "")
    own = f.get("arn", path)
    return (
        f"{f['owner']} {f['bucket']} {f['time']} {f['ip']} {f['requester']} {request_id} {f['op']} {f['key']} "
        f"/{f['bucket']}/{path}{f['query']} {f['status']} {f['error']} {f['sent']} {f['size']} 4 4 - {f['agent']} - "
        f"HOST SigV4 - {f['auth']} s3.eu-west-1.amazonaws.com - arn:aws:s3:::/{f['bucket']}/{own} Yes"
    )


LINES = {
    "PLAIN": line("PLAIN"),
    "PUT": line("PUT", op="s3_PutObject", sent="0", size="512"),
    "LIST": line("LIST", op="s3_ListObjectsV2", key="-", query="?list-type=2&prefix=wh%2Ft%2F"),
    "AGENT": line("AGENT", agent="a b  c 200 - 5"),
    # The key is shown as it is, the path of its request escaped.
    "SPACES": line("SPACES", key="wh/part 1 of 2 200 - 0.parquet", path="wh/part%201%20of%202%20200%20-%200.parquet",
                   arn="wh/part 1 of 2 200 - 0.parquet"),
    "CLAIMED": line("CLAIMED", owner="-", status="403", error="SignatureDoesNotMatch"),
    "NOOWNER": line("NOOWNER", owner="-", status="403", error="AccessDenied"),
    "REFUSED": line("REFUSED", status="403", error="AccessDenied"),
    "TWOSTAMPS": line("TWOSTAMPS", query=f"?x-signproxy-id=forged&x-signproxy-id={STAMP}"),
}  # fmt: skip
BANNER = "log starts 2026-11-18 10:00:00.418392715 +0000 UTC m=+0.018731842"
BAD = (
    "signer lake [18/",
    # A key that holds the rest of another line: path, key and ARN are not of one request.
    line("FAKED", key=f"x /lake/{KEY}?x-signproxy-id={STAMP} 200 - 0 0 4 4 - curl", path="x", arn=KEY),
    line("OTHER", arn="wh/t/other.parquet"),
)


@pytest.fixture(scope="module")
def read(spark: SparkSession) -> dict[str, Row]:
    lines = [BANNER, *LINES.values(), *BAD, ""]
    found = versity_file.requests(spark.createDataFrame([(each,) for each in lines], "line string")).collect()
    rows = {row["request_id"]: row for row in found if row["problem"] is None}
    assert len(rows) == len(LINES)
    assert {row["line"] for row in found if row["problem"] is not None} == set(BAD)
    return rows


@pytest.mark.parametrize(
    ("name", "expected"),
    (
        ("PLAIN", {"bucket": "lake", "key": KEY, "stamp": STAMP, "method": "GET", "op": "GetObject", "status": 200,
                   "requester": "signer", "user_agent": "aws-sdk/2", "bytes_sent": None, "quality": GET}),
        ("PUT", {"method": "PUT", "op": "PutObject", "object_size": 512, "bytes_sent": 0, "quality": None}),
        ("LIST", {"key": None, "method": "GET", "stamp": None, "quality": None}),
        ("AGENT", {"key": KEY, "stamp": STAMP, "status": 200, "user_agent": "a b  c 200 - 5"}),
        ("SPACES", {"key": "wh/part 1 of 2 200 - 0.parquet", "stamp": STAMP, "quality": [*GET, Quality.SHIFTED]}),
        ("CLAIMED", {"requester": None, "access_key_id": None, "quality": [Quality.CLAIMED_KEY]}),
        ("NOOWNER", {"requester": None, "quality": [Quality.CLAIMED_KEY]}),
        # The twin: refused by a policy, after the signature was found to be good.
        ("REFUSED", {"requester": "signer", "quality": None}),
        ("TWOSTAMPS", {"quality": [*GET, Quality.STAMP_REPEATED]}),
    ),
)  # fmt: skip
def test_line_says(read: dict[str, Row], name: str, expected: dict[str, Any]) -> None:
    """Nothing is quoted: a space in a key or a user agent shifts all that follows it."""
    row = read[name].asDict()
    assert {field: row[field] for field in expected} == expected


def test_months_stand_in_full(read: dict[str, Row]) -> None:
    """It writes `November`, where S3 writes `Nov`: as S3's, each line would be one without a time."""
    assert read["PLAIN"]["ts"].astimezone(UTC) == datetime(2026, 11, 18, 10, 11, 12, tzinfo=UTC)


def sent(request_id: str, **changes: Any) -> str:
    """Return what the webhook sends."""
    return json.dumps(
        {
            "BucketOwner": "signer", "Bucket": "lake", "Time": "2026-11-18T10:11:12.123456789Z",
            "RemoteIP": "127.0.0.1", "Requester": "signer", "RequestID": request_id, "Operation": "s3_GetObject",
            "Key": KEY, "RequestURI": f"/lake/{KEY}?x-signproxy-id={STAMP}", "HttpStatus": 200, "ErrorCode": "",
            "BytesSent": 0, "ObjectSize": 0, "TotalTime": 4, "TurnAroundTime": 4, "UserAgent": "aws-sdk/2",
        }
        | changes
    )  # fmt: skip


SENT = {
    "PLAIN": sent("PLAIN"),
    "BYTES": sent("BYTES", BytesSent=7),
    "CLAIMED": sent("CLAIMED", BucketOwner="", HttpStatus=403, ErrorCode="SignatureDoesNotMatch"),
    "REFUSED": sent("REFUSED", HttpStatus=403, ErrorCode="AccessDenied"),
    "ESCAPED": sent("ESCAPED", Key="wh/a b.parquet", RequestURI="/lake/wh/a%20b.parquet"),
    "VIRTUAL": sent("VIRTUAL", RequestURI=f"/{KEY}?x-signproxy-id={STAMP}"),
}
UNSENT = (sent("X")[:100], "[]", "{}", sent("Y", Key="wh/another.parquet"), sent("Z", Time="yesterday"))


@pytest.fixture(scope="module")
def received(spark: SparkSession) -> dict[str, Row]:
    lines = [*SENT.values(), *UNSENT, ""]
    found = versity_webhook.requests(spark.createDataFrame([(each,) for each in lines], "line string")).collect()
    rows = {row["request_id"]: row for row in found if row["problem"] is None}
    assert len(rows) == len(SENT)
    assert {row["line"] for row in found if row["problem"] is not None} == set(UNSENT)
    return rows


@pytest.mark.parametrize(
    ("name", "expected"),
    (
        ("PLAIN", {"bucket": "lake", "key": KEY, "stamp": STAMP, "method": "GET", "status": 200, "quality": GET,
                   "bytes_sent": None, "requester": "signer", "source": "versitygw-webhook"}),
        ("BYTES", {"bytes_sent": 7, "quality": [Quality.STATUS_UNSURE]}),
        ("CLAIMED", {"requester": None, "access_key_id": None, "quality": [Quality.CLAIMED_KEY]}),
        ("REFUSED", {"requester": "signer", "quality": None}),
        ("ESCAPED", {"key": "wh/a b.parquet", "stamp": None}),
        ("VIRTUAL", {"key": KEY, "stamp": STAMP}),
    ),
)  # fmt: skip
def test_object_says(received: dict[str, Row], name: str, expected: dict[str, Any]) -> None:
    """A claimed key is the client's claim; 200 and no bytes are not what was answered to a range."""
    row = received[name].asDict()
    assert {field: row[field] for field in expected} == expected


def test_nanoseconds_are_read(received: dict[str, Row]) -> None:
    """Go writes nine digits, and Spark reads six: the row would have no time, and be none."""
    assert received["PLAIN"]["ts"].astimezone(UTC) == datetime(2026, 11, 18, 10, 11, 12, 123456, tzinfo=UTC)
