"""Shape what a store's log says of a request, whichever store it is; and say what of it is not to be relied on.

Keys, user agents, queries and whatever else a client sends are an attacker's to choose. So each of them is taken
apart by what the store itself wrote around it, and a row that does not add up is not guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it
from pyspark.sql.types import StringType

from signproxy.pipeline.schemas import DAY, table

STAMP = "x-signproxy-id"
"""The query parameter that carries an event's id."""

PROBLEM = "problem"
"""Why a line could not be taken; null where it could."""
LINE = "line"
"""The line itself, for the quarantine."""

_ACCESS = tuple(
    field for field in table("s3_access").columns.fields if field.name not in (DAY, "ingest_batch", "src_file")
)
COLUMNS = tuple(field.name for field in _ACCESS)
"""What a format says of a request; what it does not say is null."""

CLAIMED_ERRORS = (
    "SignatureDoesNotMatch",
    "InvalidAccessKeyId",
    "XAdminUserNotFound",
    "AuthorizationHeaderMalformed",
    "InvalidToken",
    "IncompleteSignature",
)
"""Errors after which it is not known who asked: the name in the row is what the request claimed."""


class Quality:
    """What is wrong with a row that is kept all the same."""

    CLAIMED_KEY = "claimed_key"
    """The signature was bad: the access key is what the caller claimed."""
    BYTES_UNKNOWN = "bytes_unknown"
    """The store does not say how much it sent."""
    STATUS_UNSURE = "status_unsure"
    """The store says 200 where it answered 206, or has no status at all."""
    QUOTED_AGENT = "quotes_in_user_agent"
    """Quotes in the user agent shifted what stands after it: it was taken apart the slow way."""
    SHIFTED = "shifted_columns"
    """Unquoted spaces, or fields too many: it was taken apart the slow way."""
    KEY_DISAGREES = "key_disagrees"
    """The key's own column and the request's path name different keys."""
    STAMP_REPEATED = "stamp_repeated"
    """More than one stamp: none of them is ours, for signproxy refuses what carries one."""
    NO_QUERY = "no_query"
    """The log has no query, so a stamp is not to be seen."""


def decoded(text: Column) -> Column:
    """Undo the escapes of a part of a URL; a plus is a plus there. What is no escape stays as it is."""
    plain = F.try_url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))
    return F.when(F.instr(text, "%") > 0, F.coalesce(plain, text)).otherwise(text)


def stamp_of(query: Column) -> Column:
    """Return a query's stamp; several are joined by a comma, which no event's id has.

    A client may write the same signed query in another way, as `x%2Dsignproxy-id=`: names and values are decoded, each
    by itself, so that an escaped `&` makes no parameter.
    """
    parts = F.filter(
        F.split(query, "&"),
        lambda part: decoded(F.substring_index(part, "=", 1)) == STAMP,
    )
    values = F.transform(parts, lambda part: decoded(F.regexp_replace(part, "^[^=]*=?", "")))
    slow = F.nullif(F.array_join(values, ","), F.lit(""))
    quick = F.nullif(F.regexp_extract(query, f"^(?:.*&)?{STAMP}=([0-9A-Z]*)$", 1), F.lit(""))
    # Where signproxy put it: at the end. One in front of it makes two, which the slow way finds.
    once = (F.instr(query, "%") == 0) & (F.instr(query, STAMP) == F.length(query) - _STAMPED_LENGTH + 1)
    return F.when(query.isNull() | (query == ""), F.lit(None).cast(StringType())).otherwise(
        F.when(once, F.coalesce(quick, slow)).otherwise(slow)
    )


_STAMPED_LENGTH = len(STAMP) + 1 + 26


_MARK = "\x01"
"""What parts the fields of a line that a pattern took apart; a line that has it itself comes out with too many."""


def fields_of(text: Column, pattern: str, count: int) -> Column:
    """Return the groups of a pattern that fits the whole text, null where it does not: in one go, not one by one."""
    apart = F.split(F.regexp_replace(text, pattern, _MARK.join(f"${at}" for at in range(1, count + 1))), _MARK, -1)
    return F.when(F.size(apart) == count, apart)


def dashed(column: Column) -> Column:
    """Return null for a dash or nothing, which say that there is none."""
    return F.when((column != "-") & (column != ""), column)


def number(column: Column, kind: str = "long") -> Column:
    """Return a number, null where there is none."""
    return F.nullif(column, F.lit("-")).try_cast(kind)


def quality(**problems: Column) -> Column:
    """Return the names of the problems that a row has; null where it has none. A condition that is null is not met."""
    names = [F.when(condition, F.lit(getattr(Quality, name))) for name, condition in problems.items()]
    found = F.array_compact(F.array(*names))
    return F.when(F.size(found) > 0, found)


def identity(requester: Column) -> Mapping[str, Column]:
    """Return who asked, of an ARN: `arn:aws:sts::123456789012:assumed-role/role/session`."""
    parts = F.split(requester, "[:/]")
    is_arn = requester.startswith("arn:")
    is_role = is_arn & (F.try_element_at(parts, F.lit(6)) == "assumed-role")
    return {
        "account": F.when(is_arn, F.nullif(F.try_element_at(parts, F.lit(5)), F.lit(""))),
        "role": F.when(is_role, F.try_element_at(parts, F.lit(7))),
        "session_name": F.when(is_role, F.substring_index(requester, "/", -1)),
    }


def method_of(op: Column) -> Column:
    """Return the HTTP method of an operation, by its name in S3's API; null where that is not known."""
    name = F.regexp_replace(op, "^s3_", "")
    posts = (
        "CreateMultipartUpload NewMultipartUpload CompleteMultipartUpload RestoreObject SelectObjectContent "
        "PostObject PostPolicyBucket"
    )
    return (
        F.when(name.rlike("^(Get|List|Select)"), "GET")
        .when(name.startswith("Head"), "HEAD")
        .when(name.isin("DeleteObjects", "DeleteMultipleObjects"), "POST")
        .when(name.rlike("^(Delete|Abort)"), "DELETE")
        .when(name.isin(posts.split()), "POST")
        .when(name.rlike("^(Put|Upload|Copy|Create)"), "PUT")
    )


def with_target(lines: DataFrame, target: Column) -> DataFrame:
    """Add the `path`, the `query` and the `stamp` of what was asked for, each computed once."""
    at = F.instr("target", "?")
    query = F.when(at > 0, F.substring("target", at + 1, F.length("target")))
    parts = {"path": F.substring_index("target", "?", 1), "query": query}
    return lines.withColumn("target", target).withColumns(parts).withColumn("stamp", stamp_of(F.col("query")))


def rows(lines: DataFrame, source: str, said: Mapping[str, Column], *problems: tuple[Column, str]) -> DataFrame:
    """Return one row per line: what it says, and the first problem that keeps it from being taken, if there is one.

    A condition that is null is met, for nothing proves the row.
    """
    known = {"source": F.lit(source), **said}
    columns = [known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in _ACCESS]
    texts = [F.when(F.coalesce(condition, F.lit(True)), F.lit(text)) for condition, text in problems]
    keep = [name for name in ("src_file",) if name in lines.columns]
    return lines.select(*columns, F.coalesce(*texts).alias(PROBLEM), LINE, *keep)
