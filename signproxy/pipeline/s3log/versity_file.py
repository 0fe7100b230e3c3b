"""versitygw's file log: 26 fields that are apart by spaces and never quoted, so a key or a user agent shifts the rest.

Each line has the path of its request three times: as the key, in the request, and, last, in an ARN. The last one ends
the line, so it is found for certain; a line is taken only if the other two are the same, where no text that a client
put into a key or a user agent can pass for a request of its own.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.s3log.rows import (
    LINE,
    Quality,
    decoded,
    fields_of,
    rows,
    with_target,
)
from signproxy.pipeline.s3log.versity_webhook import said_by_versity

SOURCE = "versitygw-file"

BANNER = "log starts "
"""What the first line of each file, and of each rotation, begins with."""

_ARN = " arn:aws:s3:::"
_HEAD = r"^(\S+) (\S+) \[(\d{2}/[A-Za-z]+/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\] (\S+) (\S+) (\S+) (\S+) "
_REQUEST = r"^(/\S*) (\d{3}) (.*?) (\d+) (\d+) (\d+) (\d+) (\S+) (.*) (\S+) (\S+) SigV4 (\S+) (AuthHeader) (\S+) (\S+)$"
_HEAD_FIELDS = ("owner", "bucket", "time", "ip", "requester", "request_id", "op")
_REQUEST_FIELDS = (
    *("target", "status", "error", "bytes", "size", "total", "turn", "referer", "agent", "version", "host_id"),
    *("cipher", "auth", "host", "tls"),
)


def requests(lines: DataFrame) -> DataFrame:
    """Return what each line says."""
    line = F.col(LINE)
    kept = lines.where((F.trim(line) != "") & ~line.startswith(BANNER))
    # The path, from the end: everything behind the last ARN, without the word that ends the line.
    tail = F.regexp_replace(F.substring_index(line, _ARN, -1), " Yes$", "")
    head = F.regexp_extract(line, f"{_HEAD}", 0)
    # The path of the ARN says how long the key of its own column is, in front of the request.
    ended = kept.withColumns({"tail": tail, "head": head}).withColumn(
        "bucket", F.split_part("tail", F.lit("/"), F.lit(2))
    )
    key = F.substring(F.col("tail"), F.length("bucket") + 3, F.length("tail"))
    keyed = ended.withColumn("key", F.nullif(key, F.lit(""))).withColumn("shown", F.coalesce("key", F.lit("-")))
    middle = F.substring(
        line, F.length("head") + 1, F.length(line) - F.length("head") - F.length("tail") - len(_ARN) - 4
    )
    rest = F.when(
        middle.startswith(F.concat("shown", F.lit(" /"))), F.substring(middle, F.length("shown") + 2, F.length(line))
    )
    taken = with_target(
        keyed.withColumn("rest", rest).withColumns(
            {
                "first": fields_of(F.col("head"), _HEAD, len(_HEAD_FIELDS)),
                "last": fields_of(F.col("rest"), _REQUEST, len(_REQUEST_FIELDS)),
            }
        ),
        F.element_at("last", 1),
    )
    f = {name: F.element_at("first", at) for at, name in enumerate(_HEAD_FIELDS, start=1)}
    f |= {name: F.element_at("last", at) for at, name in enumerate(_REQUEST_FIELDS, start=1)}
    at = F.try_to_timestamp(f["time"], F.lit("dd/MMMM/yyyy:HH:mm:ss Z"))
    said = said_by_versity(
        {
            **{name: F.nullif(column, F.lit("-")) for name, column in f.items()},
            "ts": at,
            "key": F.col("key"),
            "status": f["status"].try_cast("int"),
            **{name: f[name].try_cast("long") for name in ("bytes", "size", "total", "turn")},
        },
        F.when(F.contains(F.col("shown"), F.lit(" ")) | (f["referer"] != "-"), F.lit(Quality.SHIFTED)),
    )
    path = decoded(F.col("path"))
    whole = F.rtrim(path, F.lit("/")) == F.rtrim(F.col("tail"), F.lit("/"))
    return rows(
        taken,
        SOURCE,
        said,
        (F.col("first").isNull(), "not a line of versitygw's log"),
        (F.col("last").isNull(), "its key, its path and its ARN are not of one request"),
        (f["bucket"] != F.coalesce(F.nullif(F.col("bucket"), F.lit("")), F.lit("-")), "its bucket is not its path's"),
        (~(whole | (path == F.concat(F.lit("/"), "key"))), "its key is not the one of its path"),
        (at.isNull(), "it has no time"),
    )
