"""Plant lines in the stores' logs that trip readers: quotes, spaces, fields too many or few, and no lines at all."""

from __future__ import annotations

from typing import Any

from tools.sample_data import json_logs
from tools.sample_data.logs import StoreLogs
from tools.sample_data.rows import Row
from tools.sample_data.scenes_requests import source_path
from tools.sample_data.stage import Stage, on_namespace
from tools.sample_data.world import AWS, FILE, MINIO, STRANGER, TRAIL, WEBHOOK, Bucket, Principal, Table

Trap = dict[str, Any]


class Lines:
    """Writes such lines, and what is to be read of each."""

    def __init__(self, stage: Stage, logs: StoreLogs) -> None:
        self._stage = stage
        self._logs = logs
        self.traps: list[Trap] = []

    def play(self) -> None:
        """Write one line of each kind."""
        self._aws()
        self._versity()
        self._minio()
        self._trail()

    def several(self, row: Row) -> None:
        """Write the further rows that some requests have at AWS."""
        lines = self._logs.aws.lines
        if row.s3_op == "DeleteObjects":
            for number in range(3):
                path = f"warehouse/deleted/{row.request_id}/{number:05d}.parquet"
                self._logs.aws.put(lines.deleted(row, path).encode(), row.at)
        elif row.s3_op == "CopyObject":
            table = next(one for one in self._stage.world.tables if row.key.startswith(f"{one.location}/"))
            self._logs.aws.put(lines.copied_from(row, source_path(table)).encode(), row.at)

    def _signed(self, bucket: Bucket, name: str = "", **changes: Any) -> Row:
        """Return a row of a request that is in order, which is not written yet."""
        stage = self._stage
        person: Principal = stage.person("svc-reader")
        table: Table = stage.table(bucket)
        stage.grant(person, on_namespace(table))
        at = stage.moment()
        key = f"{table.location}/data/{name}" if name else ""
        event = stage.event(person, table, at, key=key)
        row = stage.row(person, table, at + 1, event, **changes)
        stage.rows.remove(row)
        return row

    def _good(self, row: Row, line: bytes, trap: str) -> None:
        """Write a line that is to be read like any other."""
        source = row.bucket.source
        {"aws": self._logs.aws, "versitygw-file": self._logs.file}[source].put(line, row.at)
        self._logs.note(row)
        self._note(source, trap, row.request_id, read=True)

    def _note(self, source: str, trap: str, request_id: str, *, read: bool) -> None:
        self.traps.append({"source": source, "trap": trap, "request_id": request_id, "read": read})

    def _aws(self) -> None:
        log = self._logs.aws
        line = log.lines.line
        row = self._signed(AWS, user_agent='Mozilla/5.0 "the best" (x) "1.0')
        self._good(row, line(row).encode(), "quotes in the user agent")
        row = self._signed(AWS, user_agent='x" - - SigV2 - - - - - - "y')
        self._good(row, line(row).encode(), "a user agent that looks like the end of a line")
        row = self._signed(AWS)
        self._good(row, line(row).rpartition(" ")[0].encode() + b"\n", "without the source region, as until 2025")
        row = self._signed(AWS)
        self._good(
            row, b" ".join(line(row).encode().split(b" ")[:-5]) + b"\n", "without the last five fields, as in 2018"
        )
        row = self._signed(AWS)
        self._good(row, line(row).encode()[:-1] + b" new-field -\n", "fields that were added later")
        for _ in range(3):
            table = self._stage.table(AWS)
            request_id, at = self._stage.request_id(), self._stage.moment()
            path = self._stage.key(table)
            log.put(log.lines.expired(at, "lake", request_id, path).encode(), at)
            expired = self._signed(AWS)._replace(
                request_id=request_id, class_="known_service", event_id="", principal=""
            )
            self._logs.note(expired)
            self._note("aws", "a lifecycle rule's doing, without a request", request_id, read=True)
        # A caller without any right puts a quote into its URL, to pass for another caller's request.
        victim = self._signed(AWS)
        self._good(victim, line(victim).encode(), "ordinary, and another caller fakes one with its stamp")
        forged = victim._replace(
            request_id=self._stage.request_id(),
            requester="-",
            remote_ip="198.51.100.66",
            path=f'x" 200 - 1 1 1 1 "-" "-" - "GET /{victim.path}',
            status=403,
            error="AccessDenied",
            sent=243,
        )
        log.put(line(forged).replace(f" {forged.path} ", " x ", 1).encode(), forged.at)
        self._note(
            "aws", "a quote in the URL, which fakes a stamp: must not be believed", forged.request_id, read=False
        )
        log.put(line(victim).encode()[:211] + b"\n", victim.at)
        self._note("aws", "half a line", "", read=False)
        log.put(b"\x00\xff\xfe not a log\n", victim.at)
        self._note("aws", "no line of a log", "", read=False)

    def _versity(self) -> None:
        line = self._logs.file.lines.line
        row = self._signed(FILE, user_agent="a b  c 200 - 5")
        self._good(row, line(row).encode(), "spaces in the user agent, which is not quoted")
        row = self._signed(FILE, "part 1 of 2 200 - 0 copy.parquet")
        self._good(row, line(row).encode(), "spaces in the key, which is not quoted")
        self._logs.file.put(self._logs.file.lines.banner(row.at).encode(), row.at)
        self._note("versitygw-file", "the line that a rotation begins with", "", read=False)
        self._logs.file.put(b"signproxy lake-archive [18/\n", row.at)
        self._note("versitygw-file", "half a line", "", read=False)
        self._logs.webhook.put(json_logs.versity(self._signed(WEBHOOK))[:100] + b"\n", self._stage.moment())
        self._note("versitygw-webhook", "half an object", "", read=False)

    def _minio(self) -> None:
        row = self._signed(MINIO)._replace(sent=-1)
        self._logs.add(row)
        self._note("minio", "bytes that the store does not know", row.request_id, read=True)
        self._logs.minio.put(b'{"version":"1","event":"","trigger":"background"}\n', row.at)
        self._note("minio", "no request", "", read=False)

    def _trail(self) -> None:
        row = self._signed(TRAIL)
        self._logs.add(row)
        other = json_logs.cloudtrail(row._replace(requester=STRANGER, request_id=self._stage.request_id()))
        management = other.replace(b'"s3.amazonaws.com"', b'"kms.amazonaws.com"').replace(b'"GetObject"', b'"Decrypt"')
        self._logs.trail.put(management, row.at)
        self._note("cloudtrail", "another service's record", "", read=False)
