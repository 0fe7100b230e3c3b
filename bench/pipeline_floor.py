"""Do with DuckDB what two jobs of the pipeline do, as fast as it can; runs in an environment of its own.

`ingest` verifies every segment's digest, reads all columns of those that are whole, and writes Parquet by day.
`reconcile` gives each request of the stores' logs its class, from the same tables that the job reads, and writes the
same table. It looks for no findings and repeats no segment after a crash: it is the floor, not a replacement.
"""

# ruff: noqa: S608
# Its statements are made of the bench's own paths and of column names.
# mypy: disable-error-code="import-not-found"
# DuckDB is not installed where the tests are checked.

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import duckdb

_MAGIC = b"\x1f\x8b\x08"
_GZIP = 31

_PARTS = "('BATCH.DELETE.OBJECT', 'REST.COPY.OBJECT_GET', 'REST.COPY.PART_GET')"
_HEADS = "('REST.POST.MULTI_OBJECT_DELETE', 'REST.COPY.OBJECT', 'REST.COPY.PART')"
_LOOPBACK = r"^(127\.|::1$|::ffff:127\.|$)"
_REACH = 904
"""Seconds: a signature's life, and two clocks."""
_SESSION = 12 * 3600


def ingest(asked: dict[str, Any]) -> dict[str, Any]:
    """Verify, read and write."""
    whole: list[str] = []
    seen: set[str] = set()
    for path in asked["segments"]:
        digest = _digest(Path(path))
        if digest and digest not in seen:
            seen.add(digest)
            whole.append(path)
    names = [f'"{name}"' for name in asked["columns"] if name not in ("schema", "ts")]
    connection = _connection(asked)
    connection.execute(
        f"""COPY (
            SELECT {", ".join(names)}, ts::TIMESTAMPTZ AS ts, parse_filename(filename) AS segment,
                   ts::TIMESTAMPTZ::DATE AS event_date
            FROM read_json($files, format = 'newline_delimited', compression = 'gzip', columns = {asked["columns"]},
                           ignore_errors = true, filename = true)
            WHERE kind NOT IN ('segment_start', 'segment_end') AND schema = '{asked["schema"]}' AND ts IS NOT NULL
                AND {" AND ".join(f"{name} IS NOT NULL" for name in asked["needed"])}
        ) TO '{asked["output"]}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (event_date))""",
        {"files": whole},
    )
    return {"segments": len(whole)}


def reconcile(asked: dict[str, Any]) -> dict[str, Any]:
    """Join and write."""
    connection = _connection(asked)
    statement = _RECONCILE.format(
        events=f"read_parquet('{asked['warehouse']}/events/*/*/*.parquet', hive_partitioning = true)",
        access=f"read_parquet('{asked['warehouse']}/s3_access/*/*/*.parquet', hive_partitioning = true)",
        known=_is_one_of(asked["known_services"]),
        proxy=_is_one_of(asked["proxy"]),
        role=asked["vending_role"],
        loopback=_LOOPBACK,
        reach=_REACH,
        session=_SESSION,
        parts=_PARTS,
        heads=_HEADS,
    )
    connection.execute(
        f"COPY ({statement}) TO '{asked['output']}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (event_date))"
    )
    return {}


def counts(asked: dict[str, Any]) -> dict[str, Any]:
    """Count both sides' events by segment; say how many segments differ."""
    connection = _connection(asked)
    return {"differing": connection.execute(asked["query"]).fetchone()[0]}


def _connection(asked: dict[str, Any]) -> Any:
    connection = duckdb.connect()
    connection.execute(
        f"SET threads = {asked['threads']}; SET preserve_insertion_order = false; SET TimeZone = 'UTC'; "
        f"SET temp_directory = '{asked['scratch']}'; SET memory_limit = '{asked['memory']}'"
    )
    return connection


def _digest(path: Path) -> str:
    """Return the digest that a segment's last line says, if it is right."""
    content = path.read_bytes()
    at = content.rfind(_MAGIC)
    while at >= 0:
        unpacker = zlib.decompressobj(_GZIP)
        try:
            line = unpacker.decompress(content[at:])
            said: str = json.loads(line)["sha256"] if unpacker.eof and not unpacker.unused_data else ""
        except (zlib.error, ValueError, KeyError):
            said = ""
        if said:
            return said if hashlib.sha256(memoryview(content)[:at]).hexdigest() == said else ""
        at = content.rfind(_MAGIC, 0, at)
    return ""


def _is_one_of(patterns: list[str]) -> str:
    met = [
        f"r.requester LIKE '{pattern.replace('_', chr(92) + '_').replace('*', '%')}' ESCAPE '{chr(92)}'"
        if "*" in pattern
        else f"r.requester = '{pattern}' OR r.access_key_id = '{pattern}'"
        for pattern in patterns
    ]
    return f"({' OR '.join(f'coalesce({each}, false)' for each in met)})" if met else "false"


_TOLD = (
    "event_id kind ts principal effective_principal catalog namespace table key method decision rule_id policy_rev "
    "remote_ip expires_at application query_id"
).split()
_EVENT = ", ".join(f'e."{name}" AS e_{name}' for name in _TOLD)
_NONE = ", ".join(f"NULL::{'TIMESTAMPTZ' if name == 'ts' else 'VARCHAR'} AS e_{name}" for name in _TOLD)
_FIRST = ", ".join(f"coalesce(r.e_{name}, e.{name}) AS e_{name}" for name in _TOLD)

_RECONCILE = f"""
WITH happened AS (
    SELECT * FROM {{events}} WHERE kind IN ('sign', 'forward', 'vend', 'refresh')
), logged AS (
    SELECT * FROM {{access}} a WHERE source <> 'cloudtrail' OR NOT EXISTS (
        SELECT 1 FROM {{access}} b
        WHERE b.source <> 'cloudtrail' AND b.bucket = a.bucket AND b.request_id = a.request_id)
), named AS (
    SELECT *, concat_ws(':', source, coalesce(request_id, '-' || sha256(concat_ws(chr(31), ts::VARCHAR, remote_ip,
           method, key, user_agent)))) AS request_name,
           coalesce(list_contains(quality, 'claimed_key'), false)
           OR (coalesce(status IN (400, 401, 403), false) AND requester IS NULL) AS is_claimed,
           coalesce(op IN {{parts}}, false) AS is_part
    FROM logged
), heads AS (
    SELECT source, request_id, min(stamp) AS h_stamp, min(bucket) AS m_bucket, min(key) AS m_key,
           min(method) AS m_method
    FROM named WHERE op IN {{heads}} GROUP BY ALL
), asked AS (
    SELECT DISTINCT ON (request_key) * FROM (
        SELECT * EXCLUDE (request_name), request_name AS request_key, bucket AS m_bucket, key AS m_key,
               method AS m_method
        FROM named WHERE NOT is_part
        UNION ALL BY NAME
        SELECT n.* EXCLUDE (stamp, request_name), h.h_stamp AS stamp,
               concat_ws(':', n.request_name, n.op, coalesce(n.key, '')) AS request_key, h.m_bucket, h.m_key, h.m_method
        FROM named n LEFT JOIN heads h ON n.source = h.source AND n.request_id = h.request_id WHERE n.is_part
    )
), bearing AS (
    SELECT r.*, {_EVENT}, e.event_id IS NOT NULL
        AND coalesce(r.m_bucket, '') = coalesce(e.bucket, '')
        AND coalesce(r.m_key, '') = CASE WHEN coalesce(e.key_count, 0) > 0 THEN '' ELSE coalesce(e.key, '') END
        AND coalesce(r.m_method = e.method, false)
        AND coalesce(suffix(r.access_key_id, nullif(e.access_key_id, '')), true) AS holds
    FROM asked r LEFT JOIN happened e ON r.stamp = e.event_id
        AND (e.kind = 'sign' OR (e.kind = 'forward' AND e.stamped)) WHERE r.stamp IS NOT NULL
), by_stamp AS (
    SELECT * EXCLUDE (holds), 'stamp' AS class FROM bearing WHERE holds
), rest AS (
    SELECT * EXCLUDE (holds) REPLACE ({", ".join(f"NULL AS e_{name}" for name in _TOLD)}) FROM bearing WHERE NOT holds
    UNION ALL BY NAME SELECT *, {_NONE} FROM asked WHERE stamp IS NULL
), forwarded AS (
    SELECT DISTINCT ON (theirs, bucket) * FROM (
        SELECT *, nullif(trim(split_part(upstream_request_id, ',', 1)), '') AS theirs FROM happened
        WHERE kind = 'forward') WHERE theirs IS NOT NULL
), by_id AS (
    SELECT r.* EXCLUDE ({", ".join(f"e_{name}" for name in _TOLD)}), {_FIRST},
           CASE WHEN e.theirs IS NOT NULL THEN 'request_id' END AS class
    FROM rest r LEFT JOIN forwarded e ON r.request_id = e.theirs AND r.bucket = e.bucket
), minted AS (
    SELECT *, CASE WHEN class IS NULL AND ('{{role}}' = '' OR role = '{{role}}') AND NOT is_claimed
        THEN nullif(regexp_extract(session_name, '^sp-.*-([0-9A-HJKMNP-TV-Z]{{{{26}}}})$', 1), '') END AS minted
    FROM by_id
), by_session AS (
    SELECT r.* EXCLUDE ({", ".join(f"e_{name}" for name in _TOLD)}, class, minted), {_FIRST},
           coalesce(r.class, CASE WHEN e.event_id IS NOT NULL THEN 'session' END,
                    CASE WHEN coalesce(starts_with(r.op, 'S3.'), false) OR (NOT r.is_claimed AND {{known}})
                    THEN 'known_service' END) AS class
    FROM minted r LEFT JOIN happened e ON r.minted = e.event_id AND e.kind IN ('vend', 'refresh')
        AND e.decision = 'allow' AND epoch(r.ts) - epoch(e.ts) BETWEEN -60 AND {{session}}
), asking AS (
    SELECT * FROM by_session r WHERE class IS NULL AND stamp IS NULL AND NOT is_claimed AND NOT is_part
        AND requester IS NOT NULL AND method IS NOT NULL AND ts IS NOT NULL AND {{proxy}}
), candidates AS (
    SELECT *, last_value(CASE WHEN principal <> before_who THEN before_until END IGNORE NULLS) OVER (
        PARTITION BY p_bucket, p_key, p_method, p_ip ORDER BY p_at
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS p_other
    FROM (
        SELECT *, lag(principal) OVER w AS before_who, lag(p_until) OVER w AS before_until FROM (
            SELECT *, bucket AS p_bucket, method AS p_method,
                CASE WHEN coalesce(key_count, 0) > 0 THEN '' ELSE coalesce(key, '') END AS p_key,
                CASE WHEN kind = 'forward' OR regexp_matches(coalesce(remote_ip, ''), '{{loopback}}') THEN ''
                    ELSE remote_ip END AS p_ip,
                floor(epoch(ts))::BIGINT - 2
                    - CASE WHEN kind = 'forward' THEN coalesce(total_us, 0) // 1000000 ELSE 0 END AS p_at,
                floor(epoch(ts))::BIGINT - 2 + {{reach}} AS p_until
            FROM happened WHERE ((kind = 'sign' AND decision = 'allow') OR (kind = 'forward'
                    AND (decision <> 'deny' OR coalesce(upstream_us, 0) > 0)
                    AND (coalesce(upstream_request_id, '') = '' OR coalesce(upstream_repeats, 0) > 0)))
                AND (NOT coalesce(stamped, false)
                    OR bucket IN (SELECT bucket FROM asking WHERE source = 'cloudtrail')))
        WINDOW w AS (PARTITION BY p_bucket, p_key, p_method, p_ip ORDER BY p_at))
), probes AS (
    SELECT *, unnest(list_distinct([coalesce(remote_ip, ''), ''])) AS p_ip, floor(epoch(ts))::BIGINT AS p_at,
           coalesce(key, '') AS p_key
    FROM asking
), near AS (
    SELECT r.* EXCLUDE ({", ".join(f"e_{name}" for name in _TOLD)}, p_at, p_key), {_FIRST}
    FROM probes r ASOF JOIN candidates e ON r.bucket = e.p_bucket AND r.p_key = e.p_key AND r.method = e.p_method
        AND r.p_ip = e.p_ip AND r.p_at >= e.p_at
    WHERE r.p_at <= e.p_until AND (e.p_other IS NULL OR r.p_at > e.p_other)
), found AS (
    SELECT DISTINCT ON (request_key) * EXCLUDE (p_ip) REPLACE ('probable' AS class)
    FROM near ORDER BY request_key, p_ip = ''
), all_classes AS (
    SELECT * FROM by_stamp UNION ALL BY NAME SELECT * FROM found UNION ALL BY NAME
    SELECT * REPLACE (coalesce(class, 'unattributed') AS class) FROM by_session r
    WHERE NOT EXISTS (SELECT 1 FROM found f WHERE f.request_key = r.request_key)
)
SELECT request_key, class, e_event_id AS event_id, e_principal AS principal,
       coalesce(nullif(e_effective_principal, ''), e_principal) AS effective_principal, e_catalog AS catalog,
       e_namespace AS namespace, e_table AS "table", ts, bucket, key, method, op, status, bytes_sent,
       e_application AS application, e_query_id AS query_id, e_rule_id AS rule_id, e_policy_rev AS policy_rev, source,
       request_id, stamp, remote_ip, requester, error, e_kind AS way, e_ts AS event_ts, e_decision AS decision,
       e_expires_at AS expires_at, epoch(ts)::BIGINT - epoch(e_ts)::BIGINT AS age_seconds, event_date
FROM all_classes
"""


def main() -> None:
    """Do what `argv[1]` names, as the file `argv[2]` asks."""
    asked = json.loads(Path(sys.argv[2]).read_text())
    told = {"ingest": ingest, "reconcile": reconcile, "counts": counts}[sys.argv[1]](asked)
    Path(asked["told"]).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
