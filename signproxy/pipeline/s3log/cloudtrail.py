"""CloudTrail's data events: files of one JSON object with many records each.

They have neither method nor status, and nothing says that they have the query. They name the access key and the session
that asked, which S3's own log does not, and the same request id.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.s3log.rows import CLAIMED_ERRORS, LINE, STAMP, identity, method_of, quality, rows

SOURCE = "cloudtrail"

_RECORD = (
    "STRUCT<eventTime: STRING, eventSource: STRING, eventName: STRING, eventCategory: STRING, requestID: STRING, "
    "sourceIPAddress: STRING, userAgent: STRING, errorCode: STRING, "
    "userIdentity: STRUCT<type: STRING, arn: STRING, principalId: STRING, accountId: STRING, accessKeyId: STRING, "
    "invokedBy: STRING>, "
    f"requestParameters: STRUCT<bucketName: STRING, key: STRING, `{STAMP}`: STRING>, "
    "additionalEventData: STRUCT<AuthenticationMethod: STRING, bytesTransferredOut: DOUBLE>>"
)
_FILE = f"Records ARRAY<{_RECORD}>"
_S3 = "s3.amazonaws.com"
_STATUS = {
    "AccessDenied": 403,
    "NoSuchKey": 404,
    "NoSuchBucket": 404,
    "NoSuchUpload": 404,
    "NotModified": 304,
    "PreconditionFailed": 412,
    "InvalidRange": 416,
    "SlowDown": 503,
    "ServiceUnavailable": 503,
    "InternalError": 500,
}


def requests(files: DataFrame) -> DataFrame:
    """Return what each record says of a request to S3; a file that is none of CloudTrail's is one line."""
    told = F.from_json(F.make_valid_utf8(LINE), _FILE)["Records"]
    opened = files.where(F.trim(LINE) != "").withColumn("records", told)
    # Whatever is asked of the file is asked for each of its records: never all of it.
    line = F.make_valid_utf8(F.substring(LINE, 1, 1024)).alias(LINE)
    kept = [name for name in ("src_file",) if name in opened.columns]
    taken = opened.select(*kept, line, F.explode_outer("records").alias("f"))
    taken = taken.where(F.coalesce(F.col("f.eventSource") == _S3, F.lit(True)))
    who = F.col("f.userIdentity")
    asked = F.col("f.requestParameters")
    error = F.nullif(F.col("f.errorCode"), F.lit(""))
    at = F.col("f.eventTime").try_cast("timestamp")
    claimed = F.coalesce(error.isin(*CLAIMED_ERRORS), F.lit(False))
    # A service of AWS has no ARN; who it is stands in `invokedBy`.
    arn = F.when(~claimed, F.coalesce(who["arn"], who["invokedBy"], who["principalId"]))
    known = F.create_map(*(F.lit(part) for pair in _STATUS.items() for part in pair))
    status = F.when(error.isNull(), F.lit(200)).otherwise(F.coalesce(F.try_element_at(known, error), F.lit(400)))
    said = {
        "ts": at,
        "bucket": asked["bucketName"],
        "key_raw": asked["key"],
        "key": asked["key"],
        "remote_ip": F.col("f.sourceIPAddress"),
        "requester": arn,
        **identity(arn),
        "account": who["accountId"],
        "access_key_id": F.when(~claimed, who["accessKeyId"]),
        "request_id": F.col("f.requestID"),
        "op": F.col("f.eventName"),
        "method": method_of(F.col("f.eventName")),
        "stamp": F.nullif(asked[STAMP], F.lit("")),
        "status": status,
        "error": error,
        "bytes_sent": F.col("f.additionalEventData.bytesTransferredOut"),
        "user_agent": F.col("f.userAgent"),
        "auth_type": F.col("f.additionalEventData.AuthenticationMethod"),
        "quality": quality(
            CLAIMED_KEY=claimed & who["accessKeyId"].isNotNull(),
            STATUS_UNSURE=error.isNotNull() & ~F.map_contains_key(known, error),
            NO_QUERY=asked[STAMP].isNull(),
        ),
    }
    return rows(
        taken,
        SOURCE,
        said,
        (F.col("f.requestID").isNull() | F.col("f.eventName").isNull(), "no record of CloudTrail"),
        (at.isNull(), "it has no time"),
    )
