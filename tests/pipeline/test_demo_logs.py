"""The generated logs are what the stores write: field by field, and with the lines that trip readers."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path

import pytest
import yaml

from tests.pipeline.demo_month import lines_of, the_month, the_requests
from tools.sample_data.access_log import AwsLines, VersityLines
from tools.sample_data.rows import Row, encoded, session_name, stamp
from tools.sample_data.world import AWS, FILE, SERVER_ROLE, STORE_KEY

_WEBHOOK = (
    "BucketOwner Bucket Time RemoteIP Requester RequestID Operation Key RequestURI HttpStatus ErrorCode BytesSent "
    "ObjectSize TotalTime TurnAroundTime Referer UserAgent VersionID HostID SignatureVersion CipherSuite "
    "AuthenticationType HostHeader TLSVersion AccessPointARN AclRequired"
).split()
"""The fields of versitygw 1.8.0, `s3log.LogFields`, in their order."""

_KEY = "warehouse/sales/orders/data/day=2026-10-04/0-1.parquet"


def _row(**changes: object) -> Row:
    row = Row(
        at=1_791_072_000.25,
        bucket=AWS,
        remote_ip="10.1.2.3",
        requester=SERVER_ROLE,
        access_key="ASIAX",
        request_id="3E57427F33A59F07",
        s3_op="GetObject",
        method="GET",
        key=_KEY,
        path=encoded(_KEY),
        query=stamp("01M3TCNVR5AHRXMQMF3N000040"),
        status=206,
        error="",
        sent=65_536,
        size=1_048_576,
        millis=21,
        user_agent="Apache Iceberg 1.11.0",
        class_="stamp",
    )
    return row._replace(**changes)  # type: ignore[arg-type]  # names are the test's


def _csv(line: str) -> list[str]:
    return next(csv.reader([line], delimiter=" ", quotechar='"'))


def test_an_access_log_line_has_the_27_fields_of_the_documentation() -> None:
    """A reader that works on a format of our own would fail on the first real line."""
    fields = _csv(AwsLines().line(_row()).rstrip("\n"))
    # The time is two words, so one more than there are fields.
    assert len(fields) == 28
    assert re.fullmatch(r"[0-9a-f]{64}", fields[0])
    assert fields[1:4] == ["lake", "[04/Oct/2026:00:00:00", "+0000]"]
    assert fields[4:9] == ["10.1.2.3", SERVER_ROLE, "3E57427F33A59F07", "REST.GET.OBJECT", encoded(_KEY)]
    assert fields[9] == f"GET /{encoded(_KEY)}?x-signproxy-id=01M3TCNVR5AHRXMQMF3N000040 HTTP/1.1"
    assert fields[10:18] == ["206", "-", "65536", "1048576", "21", "18", "-", "Apache Iceberg 1.11.0"]
    assert fields[20] == "SigV4"
    assert fields[22:] == ["AuthHeader", "lake.s3.us-east-1.amazonaws.com", "TLSv1.3", "-", "-", "us-east-1"]


def test_what_is_zero_or_nothing_is_a_dash() -> None:
    """AWS writes no zeros there, and a reader that expects numbers must learn it here."""
    fields = _csv(AwsLines().line(_row(sent=0, size=0, key="", path="", s3_op="ListObjectsV2")).rstrip("\n"))
    assert (fields[7], fields[8], fields[12], fields[13]) == ("REST.GET.BUCKET", "-", "-", "-")


def test_a_bulk_delete_has_a_row_for_each_key_with_the_same_request_id() -> None:
    """These rows have no request of their own: taken for requests they would all be unattributed."""
    row = _row(s3_op="DeleteObjects", method="POST", key="", path="", query="delete=&x-signproxy-id=A")
    line = AwsLines().deleted(row, "warehouse/x.parquet").rstrip("\n")
    fields = _csv(line)
    assert len(fields) == 28
    assert fields[6:11] == ["3E57427F33A59F07", "BATCH.DELETE.OBJECT", "warehouse/x.parquet", "-", "204"]


def test_a_copy_has_a_second_row_of_its_source() -> None:
    """Its key is not the one that was signed, and no mismatch."""
    row = _row(s3_op="CopyObject", method="PUT")
    fields = _csv(AwsLines().copied_from(row, "warehouse/source.parquet").rstrip("\n"))
    assert fields[6:9] == ["3E57427F33A59F07", "REST.COPY.OBJECT_GET", "warehouse/source.parquet"]
    assert fields[9].startswith(f"PUT /{encoded(_KEY)}?")


def test_versitygw_writes_26_fields_without_a_quote() -> None:
    """A space in a user agent shifts what follows: that is what its log is like."""
    row = _row(bucket=FILE, requester=STORE_KEY, user_agent="one", s3_op="GetObject")
    fields = VersityLines().line(row).rstrip("\n").split(" ")
    assert len(fields) == 27
    assert fields[2:4] == ["[04/October/2026:00:00:00", "+0000]"]
    assert fields[7:9] == ["s3_GetObject", _KEY]
    # It says 200 for what was 206, and no bytes of an object.
    assert fields[10:13] == ["200", "-", "0"]
    assert len(VersityLines().line(row._replace(user_agent="one two three")).split(" ")) == 29


def test_the_webhook_sends_what_versitygw_sends() -> None:
    """Field names are part of the format: one that is misspelt is read as null."""
    for path in (the_month().directory / "logs" / "versitygw-webhook").iterdir():
        for line in gzip.decompress(path.read_bytes()).splitlines()[:50]:
            # One is cut, on purpose.
            assert not line.endswith(b"}") or list(json.loads(line)) == _WEBHOOK


def test_cloudtrail_files_are_one_object_each() -> None:
    """A file of lines is not what CloudTrail delivers."""
    paths = list((the_month().directory / "logs" / "cloudtrail").rglob("*.json.gz"))
    assert paths
    for path in paths:
        assert re.fullmatch(r"123456789012_CloudTrail_us-east-1_\d{8}T\d{4}Z_[0-9A-F]{16}\.json\.gz", path.name)
        whole = json.loads(gzip.decompress(path.read_bytes()))
        assert list(whole) == ["Records"]
        assert {"eventTime", "eventName", "requestID", "userIdentity", "requestParameters"} <= whole["Records"][
            0
        ].keys()


def test_aws_files_lie_where_partitioned_prefixes_put_them() -> None:
    """Readers prune by these paths."""
    paths = [one for one in (the_month().directory / "logs" / "aws").rglob("*") if one.is_file()]
    names = [str(one.relative_to(the_month().directory / "logs" / "aws")) for one in paths]
    form = r"123456789012/us-east-1/lake/(\d{4})/(\d\d)/(\d\d)/\1-\2-\3-00-00-00-[0-9A-F]{16}"
    assert [name for name in names if not re.fullmatch(form, name)] == []


@pytest.mark.parametrize("source", ("aws", "cloudtrail", "versitygw-webhook", "versitygw-file", "minio"))
def test_each_store_has_rows_and_traps(source: str) -> None:
    """A format without rows would be tested by nothing."""
    # The seed decides how much of the month falls to a store that few namespaces lie in: some dozens at the least.
    assert the_month().summary.requests[source] > 20
    traps = [one for one in lines_of(the_month().truth / "quality.ndjson") if one["source"] == source]
    assert traps
    read = {row.request_id for row in the_requests() if row.source == source}
    # What is good is read by the plainest of readers, quotes and missing fields or not.
    assert [one["trap"] for one in traps if one["read"] and one["request_id"] not in read] == []


def test_request_ids_are_unique() -> None:
    """Two requests with one id would be one in every join."""
    rows = the_requests()
    assert len({(row.source, row.request_id) for row in rows}) == len(rows)


def test_a_session_name_is_one_that_aws_takes() -> None:
    """A name that STS refuses would never stand in a log."""
    name = session_name("corp/batch-clicks_48-with-a-very-long-name-indeed-039", "01M5KWY3Y8HH5VZY7XTD001PDQ")
    assert re.fullmatch(r"[\w+=,.@-]{2,64}", name)
    assert name.endswith("-01M5KWY3Y8HH5VZY7XTD001PDQ")


def test_the_price_list_is_yaml() -> None:
    """A user who runs the demo prices it with this file."""
    prices = yaml.safe_load((the_month().directory / "prices.yaml").read_text())
    assert prices["default"]["requests"]["get"] > 0


def test_the_policy_is_written_as_the_command_exports_it() -> None:
    """The demo's export and a real one go through the same reader."""
    paths = sorted((the_month().directory / "policy").iterdir())
    assert len(paths) == 2
    for path in paths:
        lines = lines_of(path)
        assert lines[0]["kind"] == "policy"
        assert lines[0]["schema"] == "signproxy.policy-export/1"
        grants = [one for one in lines if one["kind"] == "grant"]
        assert grants
        for one in grants:
            assert {"grant_id", "principal", "principal_role", "via_role", "privilege", "resource"} <= one.keys()
        assert len({one["grant_id"] for one in grants}) == len(grants)
    assert [one for one in lines_of(Path(paths[-1])) if one["kind"] == "revoked"]
