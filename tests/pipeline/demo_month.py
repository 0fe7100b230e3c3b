"""Generate one small month for all tests of the generator, and read it with nothing but the standard library."""

from __future__ import annotations

import csv
import gzip
import json
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from tools.sample_data.generate import Size, generate
from tools.sample_data.truth import Fault, Summary, read_faults, read_summary

Json = dict[str, Any]

_NOT_TAKEN = ("truncated", "altered", "misnamed")
_AWS_TIME = "[%d/%b/%Y:%H:%M:%S"
_VERSITY_TIME = "%d/%B/%Y:%H:%M:%S"
_VERSITY = re.compile(
    r"signproxy (?P<bucket>\S+) \[(?P<time>\S+) \+0000\] (?P<ip>\S+) (?P<requester>\S+) (?P<request_id>\S+) "
    r"s3_(?P<op>\S+) (?P<key>.*) (?P<uri>/\S+) (?P<status>\d{3}) (?P<error>\S+) \d+ \d+ \d+ \d+ - (?P<agent>.*) - \S+ "
    r"SigV4 - AuthHeader s3\.us-east-1\.amazonaws\.com - arn:aws:s3:::(?P<path>.*) Yes"
)


class Request(NamedTuple):
    """A row of a store's log, as an independent reader has it."""

    source: str
    request_id: str
    at: float
    bucket: str
    key: str
    method: str
    status: int
    stamp: str
    requester: str
    ip: str
    error: str
    op: str
    sent: int = -1
    """Bytes of the answer, where the log tells."""


class Month(NamedTuple):
    """A generated month."""

    directory: Path
    seed: int
    summary: Summary
    faults: list[Fault]

    @property
    def truth(self) -> Path:
        return self.directory / "truth"


@cache
def the_month() -> Month:
    """Return a month of a new seed, which is printed: a failure is repeated with it."""
    seed = secrets.randbits(32)
    sys.stdout.write(f"the month's seed: {seed}\n")
    return month_of(seed)


def month_of(seed: int, **changes: Any) -> Month:
    """Return the month of a seed."""
    _places.append(place := tempfile.TemporaryDirectory(prefix="signproxy-demo-"))
    directory = Path(place.name) / "demo"
    generate(directory, Size(seed=seed, **{"events": 12_000, "tables": 2_000, "instances": 2, **changes}))
    truth = directory / "truth"
    return Month(directory, seed, read_summary(truth), read_faults(truth))


_places: list[tempfile.TemporaryDirectory[str]] = []


def lines_of(path: Path) -> list[Json]:
    """Return the JSON objects of a file, one a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@cache
def the_events() -> tuple[Json, ...]:
    """Return the events that a perfect ingest has: of segments that can be taken, once, and no bad lines."""
    month = the_month()
    spoiled = {one.expect["segment"] for one in month.faults if one.expect.get("verdict") in _NOT_TAKEN}
    found: dict[tuple[str, int], Json] = {}
    for path in sorted(month.directory.glob("audit/v1/dt=*/*.gz")):
        if path.name in spoiled:
            continue
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                event = _json(line)
                if event is not None and event["kind"] not in ("segment_start", "segment_end"):
                    found[event["boot_id"], event["seq"]] = event
    return tuple(found.values())


def _json(line: str) -> Json | None:
    try:
        event: Json = json.loads(line)
    except ValueError:
        return None
    is_whole = event.get("schema") == "signproxy.audit/1" and "event_id" in event and type(event.get("seq", 0)) is int
    return event if is_whole else None


@cache
def the_requests() -> tuple[Request, ...]:
    """Return the rows of all logs, as the standard library reads them; lines that are none are left out."""
    directory = the_month().directory / "logs"
    return (
        *_aws(directory / "aws"),
        *_versity_file(directory / "versitygw-file"),
        *_versity_webhook(directory / "versitygw-webhook"),
        *_minio(directory / "minio"),
        *_cloudtrail(directory / "cloudtrail"),
    )


def _aws(directory: Path) -> Iterator[Request]:
    for path in sorted(one for one in directory.rglob("*") if one.is_file()):
        text = path.read_bytes().decode("utf-8", "replace").replace("\x00", "")
        for row in csv.reader(text.splitlines(), delimiter=" ", quotechar='"'):
            if len(row) < 20 or row[7] in ("BATCH.DELETE.OBJECT", "REST.COPY.OBJECT_GET"):
                continue
            method, _, rest = row[9].partition(" ")
            query = parse_qs(urlsplit(rest.partition(" ")[0]).query, keep_blank_values=True)
            yield Request(
                "aws",
                row[6],
                datetime.strptime(row[2], _AWS_TIME).replace(tzinfo=UTC).timestamp(),
                row[1],
                "" if row[8] == "-" else unquote(row[8]),
                method,
                int(row[10]) if row[10] != "-" else 0,
                query.get("x-signproxy-id", [""])[0],
                row[5],
                row[4],
                row[11],
                row[7],
                int(row[12]) if row[12] != "-" else 0,
            )


def _versity_file(directory: Path) -> Iterator[Request]:
    for path in sorted(directory.iterdir()):
        for line in path.read_text().splitlines():
            match = _VERSITY.fullmatch(line)
            if match is None:
                continue
            yield Request(
                "versitygw-file",
                match["request_id"],
                datetime.strptime(match["time"], _VERSITY_TIME).replace(tzinfo=UTC).timestamp(),
                match["bucket"],
                match["path"].removeprefix(f"/{match['bucket']}/"),
                _method_of(match["op"]),
                int(match["status"]),
                _stamp_of(match["uri"]),
                match["requester"],
                match["ip"],
                match["error"],
                match["op"],
            )


def _versity_webhook(directory: Path) -> Iterator[Request]:
    for row in _ndjson(directory):
        op = row["Operation"].removeprefix("s3_")
        yield Request(
            "versitygw-webhook",
            row["RequestID"],
            _moment(row["Time"]),
            row["Bucket"],
            row["Key"],
            _method_of(op),
            row["HttpStatus"],
            _stamp_of(row["RequestURI"]),
            row["Requester"],
            row["RemoteIP"],
            row["ErrorCode"],
            op,
        )


def _minio(directory: Path) -> Iterator[Request]:
    for row in _ndjson(directory):
        if "requestID" in row:
            api = row["api"]
            yield Request(
                "minio",
                row["requestID"],
                _moment(row["time"]),
                api["bucket"],
                api["object"],
                _method_of(api["name"]),
                api["statusCode"],
                row["requestQuery"].get("x-signproxy-id", ""),
                row["accessKey"],
                row["remotehost"],
                "",
                api["name"],
                api.get("tx", -1),
            )


def _cloudtrail(directory: Path) -> Iterator[Request]:
    for path in sorted(directory.rglob("*.json.gz")):
        for row in json.loads(gzip.decompress(path.read_bytes()))["Records"]:
            if row["eventSource"] == "s3.amazonaws.com":
                yield Request(
                    "cloudtrail",
                    row["requestID"],
                    _moment(row["eventTime"]),
                    row["requestParameters"]["bucketName"],
                    row["requestParameters"].get("key", ""),
                    _method_of(row["eventName"]),
                    403 if "errorCode" in row else 200,
                    "",
                    row["userIdentity"]["arn"],
                    row["sourceIPAddress"],
                    row.get("errorCode", ""),
                    row["eventName"],
                )


def _ndjson(directory: Path) -> Iterator[Json]:
    for path in sorted(directory.glob("*.ndjson.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _stamp_of(uri: str) -> str:
    return parse_qs(urlsplit(uri).query, keep_blank_values=True).get("x-signproxy-id", [""])[0]


def _moment(text: str) -> float:
    # Nanoseconds are more than `datetime` has.
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp() + float(f"0.{fraction or 0}")


def moment(text: str) -> float:
    """Return the Unix time of an event's."""
    return datetime.fromisoformat(text).timestamp()


def _method_of(op: str) -> str:
    if op.startswith(("Get", "List")):
        return "GET"
    if op.startswith("Head"):
        return "HEAD"
    if op.startswith(("Delete", "New", "Complete", "CreateMultipart")):
        return "DELETE" if op == "DeleteObject" else "POST"
    return "PUT"
