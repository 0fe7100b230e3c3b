"""MinIO's audit webhook: a JSON object per request, as its receiver wrote them down, one on each line.

It repeats the request's headers, the signature among them: none of them is read.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.s3log.rows import LINE, STAMP, method_of, quality, rows

SOURCE = "minio"

_OBJECT = (
    "time STRING, api STRUCT<name: STRING, bucket: STRING, object: STRING, statusCode: INT, rx: BIGINT, tx: BIGINT, "
    "timeToFirstByteInNS: STRING, timeToResponseInNS: STRING>, remotehost STRING, requestID STRING, userAgent STRING, "
    "requestPath STRING, requestQuery MAP<STRING, STRING>, accessKey STRING, parentUser STRING, error STRING"
)


def requests(lines: DataFrame) -> DataFrame:
    """Return what each line says."""
    taken = lines.where(F.trim(LINE) != "").withColumn("f", F.from_json(LINE, _OBJECT))
    api = F.col("f.api")
    at = F.regexp_replace(F.col("f.time"), r"(\.\d{1,6})\d*", "$1").try_cast("timestamp")
    stamp = F.nullif(F.try_element_at("f.requestQuery", F.lit(STAMP)), F.lit(""))
    is_bulk = api["name"] == "DeleteMultipleObjects"
    said = {
        "ts": at,
        "bucket": api["bucket"],
        "key_raw": F.col("f.requestPath"),
        # Of a bulk delete of one key it names that, though the request has none.
        "key": F.when(~is_bulk, F.nullif(api["object"], F.lit(""))),
        "remote_ip": F.col("f.remotehost"),
        # A bad signature or an unknown key leaves the access key out: what stands here has been proven.
        "requester": F.coalesce(F.nullif(F.col("f.parentUser"), F.lit("")), F.col("f.accessKey")),
        "access_key_id": F.col("f.accessKey"),
        "request_id": F.col("f.requestID"),
        "op": api["name"],
        "method": method_of(api["name"]),
        "stamp": stamp,
        "status": api["statusCode"],
        "error": F.nullif(F.col("f.error"), F.lit("")),
        "bytes_sent": F.when(api["tx"] >= 0, api["tx"]),
        "total_ms": api["timeToResponseInNS"].try_cast("double") / 1e6,
        "tat_ms": api["timeToFirstByteInNS"].try_cast("double") / 1e6,
        "user_agent": F.nullif(F.col("f.userAgent"), F.lit("")),
        "quality": quality(
            STAMP_REPEATED=F.contains(stamp, F.lit(",")),
            BYTES_UNKNOWN=api["tx"] < 0,
        ),
    }
    return rows(
        taken,
        SOURCE,
        said,
        (F.col("f.requestID").isNull() | api["name"].isNull(), "no JSON object of a request"),
        (at.isNull(), "it has no time"),
    )
