"""Keep what a perfect pipeline would say of the generated month, beside the data and never in it.

    <directory>/
        audit/v1/dt=…/*.ndjson.gz            sealed segments                                   `ingest`
        logs/aws/…                           S3 server access logs, text, PartitionedPrefix    `ingest-s3log`
        logs/cloudtrail/…/*.json.gz          CloudTrail data events                            `ingest-s3log`
        logs/versitygw-webhook/*.ndjson.gz   versitygw's webhook, a JSON object per line       `ingest-s3log`
        logs/versitygw-file/access.log*      versitygw's file log                              `ingest-s3log`
        logs/minio/*.ndjson.gz               MinIO's audit webhook, a JSON object per line     `ingest-s3log`
        policy/*.ndjson                      what `signproxy policy export` printed on the first and the last day
        prices.yaml                          a price list
        truth/summary.json                   `Summary`
        truth/faults.ndjson                  a `Fault` per line: planted faults and their near misses
        truth/requests-*.csv.gz              the class of every row of the stores' logs
        truth/first_seen.ndjson              the first use of each table by each principal, by access
        truth/grants.ndjson                  the state of each grant
        truth/principals.ndjson              entitled and used tables of each principal
        truth/revocations.ndjson             the last success after each revoke, by way
        truth/quality.ndjson                 lines of the stores' logs that are traps

**Faults and near misses.** Each line of `faults.ndjson` names a class, and whether it has to be found (`planted`). A
near miss (`planted: false`) looks like its class and must not be found as that class: what differs stands in `what`.
The rows that prove it are `event_ids` (of the audit trail) and `requests` (pairs of source and the store's request id).
On the same rows the classes of `also` may be found besides, without being wrong. A test of precision counts a
finding as right if its class and one of its rows, or its class and principal where it has no rows, are those of a
planted fault or of an `also`; as wrong otherwise. A test of recall wants each planted fault in one finding.

Classes, as `findings.class` has them: denied_but_served, proxy_key_without_stamp, unknown_stamp, stamp_key_mismatch,
stamp_method_mismatch, replay, signature_retried, ip_mismatch, late_after_revoke, allowed_but_s3_denied, unattributed,
audit_gap. Besides: denial_burst, enumeration, first_seen, unused_grant, too_young_grant, over_entitlement,
revocation_latency, bad_line, bad_segment, whose values stand in `expect`:

    denial_burst        minute, n
    enumeration         hour, tables, refused
    first_seen          access
    unused_grant, too_young_grant   privilege, securable, via_role, granted_at, state
    over_entitlement    entitled, used
    revocation_latency  way (sign, forward, vend), securable, revoked_at, last_success, seconds
    audit_gap           boot_id, first_seq, last_seq: the events that are missing, both included
    bad_line            segment, reason: the line is quarantined, and no sequence number is missing because of it
    bad_segment         segment, verdict: as the ledger says it (truncated, altered, duplicate, misnamed);
                        what a truncated, altered or misnamed one held counts as lost, and stands as an audit_gap too

Habits (denial_burst, enumeration, first_seen) are planted only in a month of 18 days or more. All other first uses of
tables stand in `first_seen.ndjson`: those of the month's second half are as true as the planted one.

**Requests.** `requests-*.csv.gz` has `source,request_id,class,event_id,principal`: one class for each row that a
store's log has, several joined by `|` where either is right. `source` is aws, cloudtrail, versitygw-webhook,
versitygw-file or minio. The rows of a bulk delete's keys (`BATCH.DELETE.OBJECT`) and of a copy's source have the id of
their request, which stands once. `probable` is what CloudTrail leaves of signed requests: it shows no query; and a
forwarded request without a stamp whose answer was lost. Where two principals asked for the same object within minutes,
it is not known whose request it was.

**What is ordinary, and no finding**: a signed request that was never sent; a second use of a cacheable signature within
30 s; a repetition after the store answered 503, which is told as `signature_retried`; a request without a stamp on the
proxy's key whose id a forward event has; a sidecar's loopback address in an event against the pod's in the log; the
proxy's own address in the log of a forwarded request; rows of the services that `Summary.known_services` lists; rows on
the proxy's key that a store refused for their signature, for it logs the key that was claimed.

**Grants.** A grant is used if an allowed event of its principal (or of the effective principal, where there is one)
needs its privilege on a table at or below its securable: TABLE_REMOTE_SIGN for each way, TABLE_READ_DATA for reads
and lists, TABLE_WRITE_DATA for writes and deletes, both for copies. `ambiguous` stands where TABLE_WRITE_DATA was
held and only read with. A grant of the last 90 days that is not used is too young.

The content follows from seed and size alone, down to the byte as far as one zlib packs like another.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

Request = tuple[str, str]
"""The source and the store's own id of a request."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """A planted fault, or its near miss."""

    fault_id: str
    class_: str
    planted: bool
    what: str
    """What was done, or what keeps it from being one, in a sentence."""
    principal: str = ""
    catalog: str = ""
    namespace: str = ""
    table: str = ""
    bucket: str = ""
    event_ids: tuple[str, ...] = ()
    requests: tuple[Request, ...] = ()
    first_ts: str = ""
    last_ts: str = ""
    n: int = 1
    also: tuple[str, ...] = ()
    expect: Mapping[str, Any] = {}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What there is, as numbers."""

    seed: int
    events: int
    """That a perfect ingest has in `events`: those that were written, without those that are lost with a segment."""
    written: int
    """Events that were ever written into a segment."""
    bad_lines: int
    first_day: str
    days: int
    tables: int
    principals: int
    instances: int
    segments: int
    """Files below `audit/`."""
    kinds: Mapping[str, int]
    """Events in `events`, by kind and decision: `sign/allow`."""
    requests: Mapping[str, int]
    """Rows of the stores' logs that are whole, by source."""
    classes: Mapping[str, int]
    """The same by class."""
    proxy: Mapping[str, str]
    """By bucket: whom the store's log names for what signproxy signs or forwards itself."""
    vending_role: str
    known_services: tuple[str, ...]
    """Whom the log may name for requests that are not signproxy's business, with `*` for any text."""
    stamped_buckets: tuple[str, ...]
    """Buckets whose log shows the stamp."""


class Requests:
    """Writes the class of each row of the stores' logs."""

    def __init__(self, path: Path) -> None:
        self._raw = path.open("wb")
        self._file = gzip.GzipFile("", "wb", 1, self._raw, mtime=0)
        self._file.write(b"source,request_id,class,event_id,principal\n")
        self.classes: dict[str, int] = {}
        self._lines: list[str] = []

    def add(self, source: str, request_id: str, class_: str, event_id: str, principal: str) -> None:
        """Note a request; none of the five has a comma or a quote in it."""
        self.classes[class_] = self.classes.get(class_, 0) + 1
        self._lines.append(f"{source},{request_id},{class_},{event_id},{principal}\n")
        if len(self._lines) >= 4096:
            self._flush()

    def close(self) -> None:
        """Write what is left."""
        self._flush()
        self._file.close()
        self._raw.close()

    def _flush(self) -> None:
        self._file.write("".join(self._lines).encode())
        self._lines.clear()


def write_lines(path: Path, rows: list[Any]) -> None:
    """Write a JSON object per line."""
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))


def read_faults(directory: Path) -> list[Fault]:
    """Return the planted faults and their near misses, from the `truth` directory."""
    return msgspec.json.Decoder(Fault).decode_lines((directory / "faults.ndjson").read_bytes())


def read_summary(directory: Path) -> Summary:
    """Return the numbers."""
    return msgspec.json.decode((directory / "summary.json").read_bytes(), type=Summary)


def read_requests(directory: Path) -> dict[Request, tuple[tuple[str, ...], str]]:
    """Return the classes that are right and the event, of each request."""
    found: dict[Request, tuple[tuple[str, ...], str]] = {}
    for path in sorted(directory.glob("requests-*.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                found[row["source"], row["request_id"]] = (tuple(row["class"].split("|")), row["event_id"])
    return found
