"""versitygw's webhook: a JSON object per request, as its receiver wrote them down, one on each line.

What it says of itself is not all true: of a GET it counts no bytes, of a part of an object it says 200, and of a bad
signature it names the access key that was claimed, without an owner of the bucket.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.s3log.rows import (
    CLAIMED_ERRORS,
    LINE,
    decoded,
    first_problem,
    method_of,
    quality,
    read_lines,
    rows,
    with_target,
)

SOURCE = "versitygw-webhook"

_OBJECT = (
    "BucketOwner STRING, Bucket STRING, Time STRING, RemoteIP STRING, Requester STRING, RequestID STRING, "
    "Operation STRING, Key STRING, RequestURI STRING, HttpStatus INT, ErrorCode STRING, BytesSent BIGINT, "
    "ObjectSize BIGINT, TotalTime BIGINT, TurnAroundTime BIGINT, UserAgent STRING, VersionID STRING, "
    "AuthenticationType STRING, TLSVersion STRING"
)


def read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the rows of these files."""
    return requests(read_lines(spark, paths))


def requests(lines: DataFrame) -> DataFrame:
    """Return what each line says."""
    read_in = lines.where(F.trim(LINE) != "").withColumn("f", F.from_json(LINE, _OBJECT))
    taken = with_target(read_in, F.col("f.RequestURI"))
    f = {part.split()[0]: F.col(f"f.{part.split()[0]}") for part in _OBJECT.split(", ")}
    # Nanoseconds are more than Spark reads.
    at = F.regexp_replace(f["Time"], r"(\.\d{1,6})\d*", "$1").try_cast("timestamp")
    said = said_by_versity(
        {
            "ts": at,
            "owner": f["BucketOwner"],
            "bucket": f["Bucket"],
            "key": f["Key"],
            "ip": f["RemoteIP"],
            "requester": f["Requester"],
            "request_id": f["RequestID"],
            "op": f["Operation"],
            "status": f["HttpStatus"],
            "error": f["ErrorCode"],
            "bytes": f["BytesSent"],
            "size": f["ObjectSize"],
            "total": f["TotalTime"],
            "turn": f["TurnAroundTime"],
            "agent": f["UserAgent"],
            "auth": f["AuthenticationType"],
            "tls": f["TLSVersion"],
            "version": f["VersionID"],
            "source": F.lit(SOURCE),
        },
        F.lit(None).cast("string"),
    )
    problem = first_problem(
        (f["RequestID"].isNull() | (f["RequestID"] == ""), "no JSON object of a request"),
        (at.isNull(), "it has no time"),
        (f["Operation"].isNull(), "it has no operation"),
        (_contradicts(said), "its key is not the one of its path"),
    )
    return rows(taken, said, problem, F.col(LINE))


def said_by_versity(f: dict[str, Column], trap: Column) -> dict[str, Column]:
    """Return what a row of either of versitygw's logs says; `trap` names what is wrong with it besides, or is null.

    Beside the fields that are given, the row has `path` and `stamp`.
    """
    text = {name: F.nullif(f[name], F.lit("")) for name in ("owner", "bucket", "key", "requester", "error", "agent")}
    stamp = F.col("stamp")
    # No owner of the bucket is logged yet when a signature is found to be bad, or its key to be unknown.
    claimed = text["error"].isin(*CLAIMED_ERRORS) | (text["owner"].isNull() & (f["status"] == 403))
    is_claimed = F.coalesce(claimed, F.lit(False))
    is_get = f["op"].isin("s3_GetObject", "GetObject") & (f["status"] == 200)
    requester = F.when(~is_claimed, text["requester"])
    problems = quality(
        CLAIMED_KEY=is_claimed & text["requester"].isNotNull(),
        BYTES_UNKNOWN=is_get & (f["bytes"] == 0),
        STATUS_UNSURE=is_get,
        STAMP_REPEATED=F.contains(stamp, F.lit(",")),
    )
    with_trap = F.when(trap.isNotNull(), F.array_append(F.coalesce(problems, F.array().cast("array<string>")), trap))
    return {
        "ts": f["ts"],
        "bucket": text["bucket"],
        "key_raw": F.col("path"),
        "key": text["key"],
        "remote_ip": f["ip"],
        "requester": requester,
        "access_key_id": requester,
        "request_id": f["request_id"],
        "op": F.regexp_replace(f["op"], "^s3_", ""),
        "method": method_of(f["op"]),
        "stamp": stamp,
        "status": f["status"],
        "error": text["error"],
        "bytes_sent": F.when(~(is_get & (f["bytes"] == 0)), f["bytes"]),
        "object_size": F.when(~(is_get & (f["size"] == 0)), f["size"]),
        "total_ms": f["total"],
        "tat_ms": f["turn"],
        "user_agent": text["agent"],
        "auth_type": F.nullif(f["auth"], F.lit("")),
        "tls": F.nullif(f["tls"], F.lit("")),
        "version_id": F.nullif(f["version"], F.lit("")),
        "source": f["source"],
        "quality": F.coalesce(with_trap, problems),
    }


def _contradicts(said: dict[str, Column]) -> Column:
    """Whether the path is another object's than the one that the key names, in either style of addressing."""
    path = decoded(F.col("path"))
    key = F.coalesce(said["key"], F.lit(""))
    bucket = F.coalesce(said["bucket"], F.lit(""))
    return ~(F.rtrim(path, F.lit("/")) == F.rtrim(F.concat_ws("/", F.lit(""), bucket, key), F.lit("/"))) & ~(
        path == F.concat(F.lit("/"), key)
    )
