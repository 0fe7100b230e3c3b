"""Write the stores' logs to files, as each store or what collects them lays them out."""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from pathlib import Path
from time import gmtime, strftime
from typing import IO, cast

from tools.sample_data import json_logs
from tools.sample_data.access_log import AwsLines, VersityLines
from tools.sample_data.rows import Row
from tools.sample_data.truth import Requests
from tools.sample_data.world import ACCOUNT, REGION

_BUFFERED = 1024
"""Lines that are kept until they are written together."""
_FEW = 2000
"""Rows that a file has at least: a day of little traffic does not begin a new one."""
_MANY = 100_000
_LEVEL = 1


class _File:
    """A file that is packed where its name says so; the same lines make the same bytes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._raw = path.open("wb")
        self._out: IO[bytes] = self._raw
        if path.suffix == ".gz":
            # Without the name and the time that stand in gzip's head else.
            self._out = cast("IO[bytes]", gzip.GzipFile("", "wb", _LEVEL, self._raw, mtime=0))
        self._rows = 0

    def write(self, data: bytes) -> None:
        self._out.write(data)

    def close(self) -> None:
        self._out.close()
        self._raw.close()


class LogFiles(ABC):
    """One store's log of the requests of one instance; a new file with a day, or when one is long."""

    def __init__(self, directory: Path, part: int) -> None:
        self._directory = directory
        self._part = part
        self._file: _File | None = None
        self._lines: list[bytes] = []
        self._rows = 0
        self._day = 0
        self._number = 0

    def add(self, row: Row) -> None:
        """Write a request."""
        self.put(self.encode(row), row.at)

    def put(self, line: bytes, at: float) -> None:
        """Write a line as it is."""
        day = int(at // 86_400)
        if self._file is None or self._rows >= _MANY or (day > self._day and self._rows >= _FEW):
            self.close()
            self._number += 1
            self._rows = 0
            self._day = day
            self._file = _File(self._directory / self.path(at, self._number, self._part))
            self._file.write(self.head(at))
        self._lines.append(line)
        self._rows += 1
        if len(self._lines) >= _BUFFERED:
            self._flush(self._file)

    def close(self) -> None:
        """Complete the file."""
        if self._file is not None:
            self._flush(self._file)
            self._file.write(self.tail)
            self._file.close()
            self._file = None

    @abstractmethod
    def encode(self, row: Row) -> bytes:
        """Return a request as it stands in the log."""

    @abstractmethod
    def path(self, at: float, number: int, part: int) -> str:
        """Return where a file lies."""

    between = b""
    tail = b""

    def head(self, at: float) -> bytes:  # noqa: ARG002 - where it says the time
        """Return what a file begins with."""
        return b""

    def _flush(self, file: _File) -> None:
        if self._lines:
            if self.between and self._rows > len(self._lines):
                file.write(self.between)
            file.write(self.between.join(self._lines))
            self._lines.clear()


class AwsLog(LogFiles):
    """S3 server access logs, partitioned by the day of the events."""

    def __init__(self, directory: Path, part: int) -> None:
        super().__init__(directory, part)
        self.lines = AwsLines()

    def encode(self, row: Row) -> bytes:
        """Return a request as it stands in the log."""
        return self.lines.line(row).encode()

    def path(self, at: float, number: int, part: int) -> str:
        """Return where a file lies."""
        moment = gmtime(int(at))
        unique = f"{part:04X}{number:012X}"
        return strftime(f"logs/aws/{ACCOUNT}/{REGION}/lake/%Y/%m/%d/%Y-%m-%d-00-00-00-{unique}", moment)


class VersityLog(LogFiles):
    """versitygw's file log."""

    def __init__(self, directory: Path, part: int) -> None:
        super().__init__(directory, part)
        self.lines = VersityLines()

    def encode(self, row: Row) -> bytes:
        """Return a request as it stands in the log."""
        return self.lines.line(row).encode()

    def head(self, at: float) -> bytes:
        """Return what a file begins with."""
        return self.lines.banner(at).encode()

    def path(self, at: float, number: int, part: int) -> str:  # noqa: ARG002 - it is rotated by number
        """Return where a file lies."""
        return f"logs/versitygw-file/access.log.{part}-{number}"


class WebhookLog(LogFiles):
    """What versitygw's webhook sent, collected."""

    def encode(self, row: Row) -> bytes:
        """Return a request as it stands in the log."""
        return json_logs.versity(row)

    def path(self, at: float, number: int, part: int) -> str:
        """Return where a file lies."""
        return f"logs/versitygw-webhook/{strftime('%Y-%m-%d', gmtime(int(at)))}-{part}-{number}.ndjson.gz"


class MinioLog(LogFiles):
    """What MinIO's audit webhook sent, collected."""

    def encode(self, row: Row) -> bytes:
        """Return a request as it stands in the log."""
        return json_logs.minio(row)

    def path(self, at: float, number: int, part: int) -> str:
        """Return where a file lies."""
        return f"logs/minio/{strftime('%Y-%m-%d', gmtime(int(at)))}-{part}-{number}.ndjson.gz"


class TrailLog(LogFiles):
    """CloudTrail's files: one JSON object each, with all events in it."""

    between = b","
    tail = b"]}"

    def encode(self, row: Row) -> bytes:
        """Return a request as it stands in the log."""
        return json_logs.cloudtrail(row)

    def head(self, at: float) -> bytes:  # noqa: ARG002 - the same at any time
        """Return what a file begins with."""
        return b'{"Records":['

    def path(self, at: float, number: int, part: int) -> str:
        """Return where a file lies."""
        moment = gmtime(int(at))
        name = f"{ACCOUNT}_CloudTrail_{REGION}_%Y%m%dT%H%MZ_{part:04X}{number:012X}.json.gz"
        return strftime(f"logs/cloudtrail/AWSLogs/{ACCOUNT}/CloudTrail/{REGION}/%Y/%m/%d/{name}", moment)


class StoreLogs:
    """The logs of all stores, and the class of each of their rows."""

    def __init__(self, directory: Path, part: int) -> None:
        self.aws = AwsLog(directory, part)
        self.file = VersityLog(directory, part)
        self.webhook = WebhookLog(directory, part)
        self.minio = MinioLog(directory, part)
        self.trail = TrailLog(directory, part)
        self._by_source: dict[str, LogFiles] = {
            "aws": self.aws,
            "cloudtrail": self.trail,
            "versitygw-webhook": self.webhook,
            "versitygw-file": self.file,
            "minio": self.minio,
        }
        self.requests = Requests(directory / "truth" / f"requests-{part:02d}.csv.gz")
        self.counts: dict[str, int] = {}

    def add(self, row: Row) -> None:
        """Write a request where its bucket is logged."""
        source = row.bucket.source
        self._by_source[source].add(row)
        self.note(row)

    def note(self, row: Row) -> None:
        """Note the class of a row that was written already."""
        source = row.bucket.source
        self.counts[source] = self.counts.get(source, 0) + 1
        self.requests.add(source, row.request_id, row.class_, row.event_id, row.principal)

    def close(self) -> None:
        """Complete all files."""
        for log in self._by_source.values():
            log.close()
        self.requests.close()
