"""versitygw's webhook: a JSON object per request, as its receiver wrote them down, one on each line.

What it says of itself is not all true: of a GET it counts no bytes, of a part of an object it says 200, and of a bad
signature it names the access key that was claimed, without an owner of the bucket.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.s3log.rows import (
    CLAIMED_ERRORS,
    LINE,
    decoded,
    method_of,
    quality,
    rows,
    with_target,
)

SOURCE = "versitygw-webhook"

_FIELDS = {
    "owner": "BucketOwner STRING",
    "bucket": "Bucket STRING",
    "time": "Time STRING",
    "ip": "RemoteIP STRING",
    "requester": "Requester STRING",
    "request_id": "RequestID STRING",
    "op": "Operation STRING",
    "key": "Key STRING",
    "target": "RequestURI STRING",
    "status": "HttpStatus INT",
    "error": "ErrorCode STRING",
    "bytes": "BytesSent BIGINT",
    "size": "ObjectSize BIGINT",
    "total": "TotalTime BIGINT",
    "turn": "TurnAroundTime BIGINT",
    "agent": "UserAgent STRING",
    "version": "VersionID STRING",
    "auth": "AuthenticationType STRING",
    "tls": "TLSVersion STRING",
}


def requests(lines: DataFrame) -> DataFrame:
    """Return what each line says."""
    told = lines.where(F.trim(LINE) != "").withColumn("f", F.from_json(LINE, ", ".join(_FIELDS.values())))
    taken = with_target(told, F.col("f.RequestURI"))
    f = {name: F.col(f"f.{field.split()[0]}") for name, field in _FIELDS.items()}
    # Nanoseconds are more than Spark reads.
    at = F.regexp_replace(f["time"], r"(\.\d{1,6})\d*", "$1").try_cast("timestamp")
    said = said_by_versity({**f, "ts": at}, F.lit(None).cast("string"))
    return rows(
        taken,
        SOURCE,
        said,
        (f["request_id"].isNull() | (f["request_id"] == ""), "no JSON object of a request"),
        (at.isNull(), "it has no time"),
        (f["op"].isNull(), "it has no operation"),
        (_contradicts(said), "its key is not the one of its path"),
    )


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
