"""S3's server access log: lines of fields that are apart by spaces, two of them quoted, and nothing escaped.

A CSV parser takes a line apart for an eighth of what a pattern costs, as long as no client put quotes into a URL or a
user agent. So each line is checked field by field, and only one that does not add up is taken apart by the pattern,
which anchors what a client wrote between what S3 wrote.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.s3log.rows import (
    CLAIMED_ERRORS,
    dashed,
    decoded,
    fields_of,
    identity,
    number,
    quality,
    rows,
    with_target,
)

SOURCE = "aws"

_FIELDS = (
    "owner bucket day zone ip requester request_id op key uri status error bytes size total turn referer agent version "
    "host_id signature cipher auth host tls access_point acl region more"
).split()
"""The time has a space in it and so counts twice; `more` is whatever S3 may add one day, or a user agent's quotes."""

_LINE = ", ".join(f"{name} STRING" for name in _FIELDS)
_CSV = {"sep": " ", "quote": '"', "escape": '"', "mode": "PERMISSIVE", "emptyValue": ""}

_TIME = r"\[\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2}"
_ZONE = r"[+-]\d{4}\]"
_URI = r"(?:[A-Z]+ \S+ HTTP/\d(?:\.\d)?|-)"
_STATUS = r"(?:\d{3}|-)"
_COUNT = r"(?:\d+|-)"
_SIGNATURE = r"(?:SigV\w{1,3}|-)"
_AUTH = r"(?:AuthHeader|QueryString|-)"

# The two quoted texts of a client stand between fields that it cannot write: S3's own in front of the target, which has
# no spaces, and S3's own behind the user agent, of which the last ones of the line count.
_SLOWLY = (
    rf"^(\S+) (\S+) ({_TIME}) ({_ZONE}) (\S+) (\S+) (\S+) (\S+) (\S+) "
    rf'"?({_URI})"? ({_STATUS}) (\S+) ({_COUNT}) ({_COUNT}) ({_COUNT}) ({_COUNT}) '
    rf'"?((?<=")[^"]*(?=")|-)"? "?((?<=").*(?=")|-)"? (\S+) (\S+) ({_SIGNATURE}) (\S+) ({_AUTH}) (\S+)'
    r"(?: ([^\" ]+))?(?: ([^\" ]+))?(?: ([^\" ]+))?(?: ([^\" ]+))?((?: [^\" ]+)*)$"
)


def requests(lines: DataFrame) -> DataFrame:
    """Return what each line says."""
    quickly = lines.where(F.trim("line") != "").withColumn("quick", F.from_csv("line", _LINE, _CSV))
    slow = F.when(~_adds_up(F.col("quick")), F.coalesce(fields_of(F.col("line"), _SLOWLY, len(_FIELDS)), F.array()))
    checked = quickly.withColumn("slow", slow)
    is_slow = F.col("slow").isNotNull()
    taken = with_target(
        checked.withColumns(
            {
                name: F.when(is_slow, F.try_element_at("slow", F.lit(at))).otherwise(F.col(f"quick.{name}"))
                for at, name in enumerate(_FIELDS, start=1)
            }
        ),
        F.when(F.col("uri") != "-", F.split_part("uri", F.lit(" "), F.lit(2))),
    )
    f = {name: F.col(name) for name in _FIELDS}
    # Without its brackets, which mean something in a pattern of times.
    clock = F.concat_ws(" ", F.substring(f["day"], 2, 20), F.substring(f["zone"], 1, 5))
    at = F.try_to_timestamp(clock, F.lit("dd/MMM/yyyy:HH:mm:ss Z"))
    stamp = F.col("stamp")
    key, disagrees = _key(dashed(f["key"]), F.col("path"), f["bucket"])
    error = dashed(f["error"])
    claimed = error.isin(*CLAIMED_ERRORS)
    requester = dashed(f["requester"])
    proven = F.when(~F.coalesce(claimed, F.lit(False)), requester)
    method = F.when(F.col("target").isNotNull(), F.substring_index(f["uri"], " ", 1)).otherwise(_method_of(f["op"]))
    said = {
        "ts": at,
        "bucket": dashed(f["bucket"]),
        "key_raw": dashed(f["key"]),
        "key": key,
        "remote_ip": dashed(f["ip"]),
        "requester": proven,
        **identity(proven),
        "request_id": dashed(f["request_id"]),
        "op": f["op"],
        "method": method,
        "stamp": stamp,
        "status": number(f["status"], "int"),
        "error": error,
        "bytes_sent": F.coalesce(number(f["bytes"]), F.lit(0)),
        "object_size": number(f["size"]),
        "total_ms": number(f["total"], "double"),
        "tat_ms": number(f["turn"], "double"),
        "user_agent": dashed(f["agent"]),
        "auth_type": dashed(f["auth"]),
        "tls": dashed(f["tls"]),
        "version_id": dashed(f["version"]),
        "quality": quality(
            CLAIMED_KEY=claimed & requester.isNotNull(),
            QUOTED_AGENT=is_slow & F.contains(f["agent"], F.lit('"')),
            SHIFTED=is_slow & ~F.contains(F.coalesce(f["agent"], F.lit("")), F.lit('"')),
            KEY_DISAGREES=disagrees,
            STAMP_REPEATED=F.contains(stamp, F.lit(",")),
        ),
    }
    return rows(
        taken,
        SOURCE,
        said,
        (f["owner"].isNull() | f["op"].isNull(), "not a line of a server access log"),
        (at.isNull(), "it has no time"),
    )


def _adds_up(line: Column) -> Column:
    """Whether every field is of the shape that S3 gives it, and none is left over."""
    checks = (
        line.day.rlike(f"^{_TIME}$"),
        line.zone.rlike(f"^{_ZONE}$"),
        line.uri.rlike(f"^{_URI}$"),
        line.status.rlike(f"^{_STATUS}$"),
        line.bytes.rlike(f"^{_COUNT}$"),
        line.signature.rlike(f"^{_SIGNATURE}$"),
        line.auth.rlike(f"^{_AUTH}$"),
        line.more.isNull(),
    )
    return F.coalesce(reduce(Column.__and__, checks), F.lit(False))


def _key(said: Column, path: Column, bucket: Column) -> tuple[Column, Column]:
    """Return the key, and whether the row contradicts itself.

    S3 escapes the key of its own column once or twice; the path of the request, which was sent once escaped, decides.
    """
    whole = decoded(F.substring(path, 2, F.length(path)))
    prefix = F.concat(F.lit("/"), bucket, F.lit("/"))
    below = decoded(F.substring(path, F.length(prefix) + 1, F.length(path)))
    styled = F.when(path.startswith(prefix), below)
    once = decoded(said)
    twice = decoded(once)
    fits_once = once.eqNullSafe(whole) | once.eqNullSafe(styled)
    fits_twice = twice.eqNullSafe(whole) | twice.eqNullSafe(styled)
    key = F.when(fits_once, once).when(fits_twice, twice).otherwise(once)
    return key, path.isNotNull() & said.isNotNull() & ~fits_once & ~fits_twice


def _method_of(op: Column) -> Column:
    """Return the method of a row without a request of its own: a bulk delete's keys, or S3's own doings."""
    return F.when(op == "BATCH.DELETE.OBJECT", "DELETE").when(
        op.startswith("REST."), F.split_part(op, F.lit("."), F.lit(2))
    )
