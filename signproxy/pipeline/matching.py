"""Name what requests and events are matched by: classes, the columns that are carried along, the limits of time."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

STAMP, REQUEST_ID, SESSION = "stamp", "request_id", "session"
KNOWN_SERVICE, PROBABLE, UNATTRIBUTED = "known_service", "probable", "unattributed"
CLASSES = (STAMP, REQUEST_ID, SESSION, PROBABLE, KNOWN_SERVICE, UNATTRIBUTED)

SIGNATURE_SECONDS = 900
"""S3 takes no signature that is older."""
CACHE_SECONDS = 30
"""Iceberg's Java client uses a cacheable signature again for so long."""
CLOCK_SECONDS = 2
"""A store's log counts whole seconds, and its clock is not signproxy's."""
SESSION_SECONDS = 12 * 3600
"""No session of vended keys lives longer."""

HEADS_OF_PARTS = ("REST.POST.MULTI_OBJECT_DELETE", "REST.COPY.OBJECT", "REST.COPY.PART")
PARTS_OF_A_REQUEST = ("BATCH.DELETE.OBJECT", "REST.COPY.OBJECT_GET", "REST.COPY.PART_GET")
"""Rows beside the one of the request that they belong to: the keys of a bulk delete, the source of a copy."""

ID = "[0-9A-HJKMNP-TV-Z]{26}"
SEGMENT = r"(^|/)audit/v1/dt=\d{4}-\d{2}-\d{2}/[^/]+\.ndjson\.gz$"
"""The key of a sealed segment where `audit.ship` puts it."""
LOOPBACK = r"^(127\.|::1$|::ffff:127\.|$)"


class KnownRequesters(msgspec.Struct, frozen=True):
    """What the operator knows of who appears in the stores' logs; `*` stands for any text."""

    proxy: tuple[str, ...] = ()
    """Requesters or access keys that are signproxy's own, and no other party's."""
    services: tuple[str, ...] = ()
    """Requesters that need no decision: lifecycle, inventory, replication, the catalog itself."""
    vending_role: str = ""
    """The role of vended keys; empty where any role's sessions may be."""


NONE_KNOWN = KnownRequesters()

EVENT = (
    *("event_id", "kind", "ts", "principal", "effective_principal", "catalog", "namespace", "table", "bucket", "key"),
    *("key_count", "method", "decision", "rule_id", "policy_rev", "remote_ip", "access_key_id", "stamped", "cacheable"),
    *("expires_at", "upstream_request_id", "upstream_repeats", "upstream_us", "total_us", "application", "query_id"),
    "decided_at",
)
TOLD = tuple(
    f"e_{name}"
    for name in (
        *("event_id", "kind", "ts", "principal", "effective_principal", "catalog", "namespace", "table", "key"),
        *("method", "decision", "rule_id", "policy_rev", "remote_ip", "cacheable", "expires_at", "application"),
        *("query_id", "stamped", "decided_at"),
    )
)
"""What is kept of the event behind a request."""
REQUEST = (
    *("request_key", "event_date", "ts", "bucket", "key", "method", "op", "status", "error", "bytes_sent", "source"),
    *("remote_ip", "requester", "access_key_id", "role", "session_name", "request_id", "stamp", "object_size"),
    *("is_part", "is_claimed"),
)

MARKS = ("is_replayed", "is_retried", "is_disputed")
"""What was found out about a request on the way; false where nothing was."""
COLUMNS = (
    *(*REQUEST, "class", *TOLD, *MARKS),
    *("bad_stamp", "bad_event_id", "bad_key", "bad_method", "bad_principal"),
)
"""What is carried from one join to the next."""


WITHOUT_QUERY = ("cloudtrail",)
"""Logs that never show a stamp."""


def no_null(condition: Column) -> Column:
    """Return a condition that counts as not met where it is null."""
    return F.coalesce(condition, F.lit(False))


def is_one_of(patterns: Iterable[str]) -> Column:
    """Whether the requester or its access key is one of these."""
    found = F.lit(False)
    for pattern in patterns:
        if "*" in pattern:
            like = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")
            found = found | F.col("requester").like(like)
        else:
            found = found | (F.col("requester") == pattern) | (F.col("access_key_id") == pattern)
    return F.coalesce(found, F.lit(False))
