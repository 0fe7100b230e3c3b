"""What requests and bytes cost by table, and what small files add."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from signproxy.errors import Invalid
from signproxy.pipeline.job import JobContext
from signproxy.pipeline.jobs.cost import PriceList, Prices, class_of, read_prices, run, table_cost
from tests.pipeline.event_rows import rows

DAY = date(2026, 11, 1)
PRICES = PriceList(
    currency="USD",
    default=Prices({"get": 0.4, "put": 5.0, "list": 5.0}),
    buckets={"far": Prices({"get": 1.0}, egress=90.0)},
)


def request(op: str = "REST.GET.OBJECT", **fields: Any) -> dict[str, Any]:
    ordinary = {
        "catalog": "lake",
        "namespace": "sales",
        "table": "orders",
        "bucket": "lake",
        "key": "wh/orders/data/f.parquet",
        "op": op,
        "method": op.split(".")[1] if op.startswith("REST.") else None,
        "status": 200,
        "source": "aws",
        "bytes_sent": 1000,
        "event_date": DAY,
    }
    return ordinary | fields


@pytest.mark.parametrize(
    ("class_", "operations"),
    (
        ("get", "REST.GET.OBJECT GetObject REST.GET.TAGGING GetObjectTagging GetObjectAttributes"),
        ("head", "REST.HEAD.OBJECT HeadObject REST.HEAD.BUCKET HeadBucket"),
        (
            "list",
            (
                "REST.GET.BUCKET ListObjectsV2 ListObjects ListParts ListMultipartUploads ListBuckets REST.GET.UPLOADS "
                "REST.GET.UPLOAD REST.GET.LOCATION GetBucketLocation"
            ),
        ),
        (
            "put",
            (
                "REST.PUT.OBJECT PutObject REST.COPY.OBJECT CopyObject REST.POST.UPLOADS CreateMultipartUpload "
                "REST.PUT.PART UploadPart REST.POST.UPLOAD CompleteMultipartUpload UploadPartCopy"
            ),
        ),
        (
            "delete",
            (
                "REST.DELETE.OBJECT DeleteObject REST.POST.MULTI_OBJECT_DELETE DeleteObjects REST.DELETE.UPLOAD "
                "AbortMultipartUpload"
            ),
        ),
    ),
)
def test_operations_are_priced_by_class(spark: SparkSession, class_: str, operations: str) -> None:
    """A list costs a dozen times what a read does."""
    given = rows(spark, "access_attribution", [request(op) for op in operations.split()])
    found = given.select("op", class_of().alias("class")).collect()
    assert {row["op"]: row["class"] for row in found} == dict.fromkeys(operations.split(), class_)


def test_requests_and_bytes_are_priced_by_bucket(spark: SparkSession) -> None:
    """The dearest table would be the one with the most requests, wherever they go."""
    given = [
        *[request(object_size=1 << 30)] * 10,
        request("REST.PUT.OBJECT", bytes_sent=None),
        request(bucket="far", bytes_sent=10**9, object_size=1 << 30),
        request("REST.PUT.OBJECT", bucket="far", bytes_sent=0),
        request("REST.DELETE.OBJECT"),
        request(table=None, catalog=None, namespace=None, object_size=1 << 30),
        # What is refused costs; what the store itself failed at does not.
        request(status=403, bytes_sent=200, object_size=None, key=None, table="refused"),
        request(status=503, table="failed"),
        # Keys of a bulk delete and the source of a copy are part of another request.
        request("BATCH.DELETE.OBJECT", table="bulk"),
        request("REST.COPY.OBJECT_GET", table="copied"),
        # The same day of the same bucket, told by another log.
        request("GetObject", source="cloudtrail"),
        request("GetObject", source="cloudtrail", bucket="quiet", table="told"),
    ]
    found = {
        (row["table"], row["bucket"], row["class"]): (row["requests"], row["bytes"], row["cost"])
        for row in table_cost(rows(spark, "access_attribution", given), PRICES).collect()
    }
    assert found == {
        ("orders", "lake", "get"): (10, 10_000, pytest.approx(10 * 0.0004)),
        ("orders", "lake", "put"): (1, 0, pytest.approx(0.005)),
        ("orders", "far", "get"): (1, 10**9, pytest.approx(0.001 + 90.0)),
        ("orders", "far", "put"): (1, 0, pytest.approx(0.005)),
        ("orders", "lake", "delete"): (1, 1000, 0.0),
        (None, "lake", "get"): (1, 1000, pytest.approx(0.0004)),
        ("refused", "lake", "get"): (1, 200, pytest.approx(0.0004)),
        ("told", "quiet", "get"): (1, 1000, pytest.approx(0.0004)),
    }


def test_small_files_are_taxed(spark: SparkSession) -> None:
    """The report would not show that a compaction pays for itself."""
    mib = 1 << 20
    given = [
        # A hundred of 2 MiB: two files would do.
        *[request(object_size=2 * mib, bytes_sent=2 * mib)] * 100,
        # Ranges of a large file are as few bytes, and no small file.
        *[request(object_size=512 * mib, bytes_sent=mib, table="large")] * 100,
        # At the limit it is none.
        *[request(object_size=8 * mib, bytes_sent=8 * mib, table="limit")] * 10,
        # Metadata is small by nature.
        *[request(key="wh/orders/metadata/snap-1.avro", object_size=mib, bytes_sent=mib, table="metadata")] * 10,
        # Of logs without a size, what was sent has to do.
        *[request(bytes_sent=mib, table="sized")] * 3,
        *[request("REST.PUT.OBJECT", object_size=mib, table="written")] * 10,
        *[request(status=304, bytes_sent=0, table="empty")] * 10,
    ]
    found = {
        row["table"]: (row["small_gets"], row["small_bytes"], row["small_file_tax"])
        for row in table_cost(rows(spark, "access_attribution", given), PRICES).collect()
    }
    assert found == {
        "orders": (100, 200 * mib, pytest.approx(98 * 0.0004)),
        "large": (0, 0, 0.0),
        "limit": (0, 0, 0.0),
        "metadata": (0, 0, 0.0),
        "sized": (3, 3 * mib, pytest.approx(2 * 0.0004)),
        "written": (0, 0, 0.0),
        "empty": (0, 0, 0.0),
    }


def test_price_lists_are_yaml_or_json(tmp_path: Path) -> None:
    """A list of a cloud's own tool would have to be rewritten."""
    text = '{"currency": "EUR", "default": {"requests": {"get": 1}}, "buckets": {"b": {"egress": 2.5}}}'
    expected = PriceList(currency="EUR", default=Prices({"get": 1}), buckets={"b": Prices(egress=2.5)})
    for name in ("p.json", "p.yaml"):
        (tmp_path / name).write_text(text)
        assert read_prices(tmp_path / name) == expected
    assert ("b", "get", 0.001, 2.5e-9) in set(expected.rows())
    assert ("", "put", 0.0, 0.0) in set(expected.rows())


@pytest.mark.parametrize(
    ("name", "text", "told"),
    (
        ("p.json", "{", "is no JSON"),
        ("p.yaml", "a: [", "is no YAML"),
        ("p.yaml", "defaults: {}", "unknown field `defaults`"),
        ("p.yaml", "default: {requests: {gets: 1}}", "'gets' is none of get, head, list, put, delete"),
        ("p.yaml", "buckets: {b: {egress: -1}}", "b: a price is below zero"),
        ("p.yaml", "default: {requests: {get: cheap}}", "Expected `float`"),
        ("none.yaml", None, "cannot be read: No such file"),
        ("p.yaml", b"\xff", "it is not UTF-8 text"),
        ("p.yaml", " " * ((1 << 20) + 1), "is larger than"),
    ),
)
def test_price_lists_with_a_fault_are_refused(tmp_path: Path, name: str, text: str | bytes | None, told: str) -> None:
    """What is misspelt would cost nothing, without a word."""
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Invalid, match=told):
        read_prices(tmp_path / name)


def test_the_job_prices_what_was_attributed(context: JobContext, spark: SparkSession, tmp_path: Path) -> None:
    """The command would fail at its end, or price nothing at all without a word."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("{currency: USD, default: {requests: {get: 1000.0}}}")
    with pytest.raises(Invalid, match="names a price list"):
        run(context)
    chosen = msgspec.structs.replace(context, options={"prices": str(prices), "small_mib": 1})
    with pytest.raises(Invalid, match="signproxy pipeline reconcile"):
        run(chosen)
    given = [request(object_size=size) for size in (1, 1, 1 << 20)]
    context.warehouse.replace("access_attribution", rows(spark, "access_attribution", given))
    outcome = run(chosen)
    assert (outcome.rows_in, outcome.rows_out, outcome.notes) == (3, 1, ("3.00 USD, of which 1.00 for small files",))
    assert context.warehouse.read("table_cost").count() == 1
