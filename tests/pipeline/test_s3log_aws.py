"""S3's own access log: what each line says, and that nothing a client writes passes for what S3 wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from signproxy.pipeline.s3log import aws
from signproxy.pipeline.s3log.rows import Quality

STAMP = "01M7RKABN8Z7CP8YAFDE0A1B2C"
KEY = "wh/t/part-1.parquet"
ROLE = "arn:aws:sts::111122223333:assumed-role/signproxy/sp-lake-01M7RKABN8Z7CP8YAFDE000001"


def line(request_id: str, **changes: str) -> str:
    """Return a line of 27 fields about a stamped GET."""
    f = {
        "bucket": "lake", "time": "[19/Nov/2026:10:11:12 +0000]", "ip": "10.0.0.7", "requester": ROLE,
        "op": "REST.GET.OBJECT", "key": KEY, "uri": f'"GET /{KEY}?x-signproxy-id={STAMP} HTTP/1.1"', "status": "206",
        "error": "-", "sent": "100", "size": "4096", "total": "21", "turn": "9", "referer": '"-"',
        "agent": '"S3FileIO/1.9"', "version": "-", "tail": "host/id= SigV4 TLS_AES_128_GCM_SHA256 AuthHeader "
        "lake.s3.eu-west-1.amazonaws.com TLSv1.3 - - eu-west-1",
    } | changes  # fmt: skip
    order = (
        "time ip requester".split(),
        "op key uri status error sent size total turn referer agent version tail".split(),
    )
    first, last = (" ".join(f[name] for name in names) for names in order)
    return f"79a59df900b949e5 {f['bucket']} {first} {request_id} {last}"


def uri(target: str, method: str = "GET") -> str:
    return f'"{method} {target} HTTP/1.1"'


STAMPED = f"?x-signproxy-id={STAMP}"
LINES = {
    "PLAIN": line("PLAIN"),
    "PATHSTYLE": line("PATHSTYLE", uri=uri(f"/lake/{KEY}{STAMPED}")),
    "ESCAPED": line("ESCAPED", key="wh/a%20b%2Bc.parquet", uri=uri("/wh/a%20b%2Bc.parquet")),
    # S3 escapes the column of the key twice where it was escaped in the request.
    "TWICE": line("TWICE", key="wh/a%2520b.parquet", uri=uri("/wh/a%20b.parquet")),
    "PERCENT": line("PERCENT", key="wh/100%2525.parquet", uri=uri("/wh/100%2525.parquet")),
    "OLD": line("OLD", tail="host/id= SigV4 TLS_AES_128_GCM_SHA256 AuthHeader lake.s3.amazonaws.com"),
    "NEWER": line("NEWER") + " later -",
    "QUOTES": line("QUOTES", agent='"Mozilla "the best" (x) "1.0"'),
    "ENDLIKE": line("ENDLIKE", agent='"x" - - SigV2 - - - - - - "y"'),
    "LIFECYCLE": line("LIFECYCLE", ip="-", requester="AmazonS3", op="S3.EXPIRE.OBJECT", uri='"-"', status="-",
                      sent="-", total="-", turn="-"),
    "BATCHKEY": line("BATCHKEY", op="BATCH.DELETE.OBJECT", uri="-", status="204", referer="-", agent="-"),
    "CLAIMED": line("CLAIMED", requester="arn:aws:iam::111122223333:user/signer", status="403",
                    error="SignatureDoesNotMatch"),
    "ANONYMOUS": line("ANONYMOUS", requester="-", status="403", error="AccessDenied"),
    "TWOSTAMPS": line("TWOSTAMPS", uri=uri(f"/{KEY}?x-signproxy-id=forged&x-signproxy-id={STAMP}")),
    "HIDDENSTAMP": line("HIDDENSTAMP", uri=uri(f"/{KEY}?x%2Dsignproxy-id={STAMP}")),
    # An escaped & is a part of a value: what stands behind it is no parameter.
    "INVALUE": line("INVALUE", uri=uri(f"/{KEY}?a=1%26x-signproxy-id={STAMP}")),
    "INKEY": line("INKEY", key=f"wh/x-signproxy-id={STAMP}", uri=uri(f"/wh/x-signproxy-id={STAMP}")),
    "KEYDIFFERS": line("KEYDIFFERS", key="wh/other.parquet"),
    # A stranger's own quote ends the field of the URI, and what follows looks like another request.
    "FORGED": line("FORGED", requester="-", ip="198.51.100.66", key="x", status="403", error="AccessDenied",
                   uri=f'"GET /x" 200 - 1 1 1 1 "-" "-" - "GET /{KEY}{STAMPED} HTTP/1.1"'),
    "TABLISH": line("TABLISH", time="[19/Nov/2026:10:11:12 +0230]"),
}  # fmt: skip
BAD = ("79a59df900b949e5 lake [19/Nov/2026:10:1", "no line of a log", LINES["PLAIN"][:211], "\x00\x01\x02")


@pytest.fixture(scope="module")
def read(spark: SparkSession) -> dict[str, Row]:
    """Return the rows by their request ids; what cannot be taken by its problem."""
    lines = [*LINES.values(), *BAD, "", "   "]
    found = aws.requests(spark.createDataFrame([(each,) for each in lines], "line string")).collect()
    rows = {row["request_id"]: row for row in found if row["problem"] is None}
    bad = [row for row in found if row["problem"] is not None]
    # Empty lines are none; nothing else vanishes.
    assert len(rows) + len(bad) == len(LINES) + len(BAD)
    return rows | {f"bad {number}": row for number, row in enumerate(bad)}


@pytest.mark.parametrize(
    ("name", "expected"),
    (
        (
            "PLAIN",
            {
                "ts": datetime(2026, 11, 19, 10, 11, 12, tzinfo=UTC), "bucket": "lake", "key": KEY,
                "remote_ip": "10.0.0.7",
                "requester": ROLE, "account": "111122223333", "role": "signproxy", "op": "REST.GET.OBJECT",
                "session_name": ROLE.rpartition("/")[2], "method": "GET", "stamp": STAMP, "status": 206, "error": None,
                "bytes_sent": 100, "object_size": 4096, "total_ms": 21.0, "tat_ms": 9.0, "user_agent": "S3FileIO/1.9",
                "auth_type": "AuthHeader", "tls": "TLSv1.3", "version_id": None, "source": "aws", "quality": None,
            },
        ),
        ("PATHSTYLE", {"key": KEY, "stamp": STAMP, "quality": None}),
        ("ESCAPED", {"key": "wh/a b+c.parquet", "stamp": None, "quality": None}),
        ("TWICE", {"key": "wh/a b.parquet", "quality": None}),
        ("PERCENT", {"key": "wh/100%25.parquet", "quality": None}),
        ("OLD", {"key": KEY, "stamp": STAMP, "status": 206, "tls": None, "quality": None}),
        ("NEWER", {"key": KEY, "stamp": STAMP, "status": 206, "user_agent": "S3FileIO/1.9"}),
        ("QUOTES", {"stamp": STAMP, "user_agent": 'Mozilla "the best" (x) "1.0', "auth_type": "AuthHeader",
                    "quality": [Quality.QUOTED_AGENT]}),
        ("ENDLIKE", {"stamp": STAMP, "status": 206, "auth_type": "AuthHeader", "tls": "TLSv1.3"}),
        ("LIFECYCLE", {"op": "S3.EXPIRE.OBJECT", "method": None, "status": None, "stamp": None, "key": KEY}),
        ("BATCHKEY", {"method": "DELETE", "status": 204, "key": KEY, "stamp": None}),
        # Who asked is not known where the signature was bad: it has no requester.
        ("CLAIMED", {"requester": None, "account": None, "quality": [Quality.CLAIMED_KEY], "status": 403}),
        ("ANONYMOUS", {"requester": None, "quality": None, "status": 403}),
        ("TWOSTAMPS", {"stamp": f"forged,{STAMP}", "quality": [Quality.STAMP_REPEATED]}),
        ("HIDDENSTAMP", {"stamp": STAMP}),
        ("INVALUE", {"stamp": None}),
        ("INKEY", {"stamp": None, "key": f"wh/x-signproxy-id={STAMP}", "quality": None}),
        ("KEYDIFFERS", {"key": "wh/other.parquet", "quality": [Quality.KEY_DISAGREES]}),
        ("TABLISH", {"ts": datetime(2026, 11, 19, 7, 41, 12, tzinfo=UTC)}),
    ),
)  # fmt: skip
def test_line_says(read: dict[str, Row], name: str, expected: dict[str, Any]) -> None:
    """A field that is read a column too far is a wrong answer with all the looks of a right one."""
    row = read[name].asDict()
    if "ts" in expected:
        row["ts"] = row["ts"].astimezone(UTC)
    assert {field: row[field] for field in expected} == expected


def test_a_quote_in_an_address_fakes_no_request(read: dict[str, Row]) -> None:
    """A sender of requests could otherwise write rows about others, with stamps that hold."""
    forged = read.get("FORGED")
    if forged is not None:
        assert forged["stamp"] is None
        assert forged["key"] != KEY
    assert sum(row["stamp"] == STAMP and row["remote_ip"] == "198.51.100.66" for row in read.values()) == 0


def test_what_is_no_line_is_told_with_its_reason(read: dict[str, Row]) -> None:
    """Half a line that is guessed at is an access that never was; one that is dropped is one that is missing."""
    bad = [row for name, row in read.items() if name.startswith("bad ")]
    assert {row["line"] for row in bad} >= set(BAD)
    assert all(row["problem"] for row in bad)
