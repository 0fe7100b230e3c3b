"""Write the requests whose work is many times that of a read: one caller sends each as fast as it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import uvloop

from bench import policy_files
from bench.policy_files import BUCKET, REGION
from bench.process import LOAD_CORE, answers, free_port, running, wait_until
from signproxy.catalog.call_body import MAX_PROPERTIES, MAX_REQUIREMENTS, MAX_UPDATES

LEARNED = "learned"
"""The catalog that has an upstream."""
NAMES = 10_000
"""Tables of the namespace that is listed, and of the transaction."""

LISTED = "listed"
"""The bucket of the store, which has an upload for every key of it."""
MADE = "made-"
"""What the names of the buckets begin with that only the store can list."""

_UPLOADS = 1000
"""What S3 tells of in one answer."""
_MADE = 10_000

COLUMNS = 20_000
"""Of the table that is to be created."""

_KEYS = 1000
_OWN = 7
"""A table of the greedy caller's."""
_LEVELS = 2000


class Flood(msgspec.Struct, frozen=True):
    """One request, over and over."""

    name: str
    words: str
    content: bytes
    of_listener: bool
    """Whether it goes to the S3 listener, and not to the API."""


def floods(token: str, maker: str = "") -> Iterator[Flood]:
    """Yield each of them, with this caller's token where it shows one.

    `maker` is the token of a caller for whose list of buckets the store is asked, where there is a store.
    """
    own = policy_files.location_of(_OWN)
    unowned = _delete(f"elsewhere/{number}" for number in range(_KEYS))
    yield _s3("bulk_unowned", f"bulk deletes of {_KEYS:,} keys that lie nowhere", token, "POST", "delete", unowned)
    guarded = _delete(f"{own}/metadata/v{number}.metadata.json" for number in range(_KEYS))
    yield _s3("bulk_guarded", f"bulk deletes of {_KEYS:,} metadata files", token, "POST", "delete", guarded)
    message = json.dumps(
        {
            "method": "POST",
            "region": REGION,
            "uri": f"https://{BUCKET}.s3.{REGION}.amazonaws.com/?delete",
            "headers": {},
            "body": _delete(f"{own}/data/part-{number}.parquet" for number in range(_KEYS)).decode(),
        }
    ).encode()
    namespace, table = policy_files.namespace_of(_OWN), policy_files.table_name(_OWN)
    sign = f"/s3-sign/v1/{policy_files.CATALOG}/namespaces/{namespace}/tables/{table}"
    yield _api("bulk_signed", f"signed bulk deletes of {_KEYS:,} keys", token, "POST", sign, message)
    yield Flood("buckets", "lists of all buckets", _request("GET", "/", token, b""), of_listener=True)
    below = f"/catalogs/{LEARNED}/v1/{LEARNED}"
    tables = f"{below}/namespaces/big/tables"
    yield _api("names", f"lists of a namespace with {NAMES:,} tables", token, "GET", tables, b"")
    changes = [
        {"identifier": {"namespace": ["big"], "name": f"t{number}"}, "requirements": [], "updates": []}
        for number in range(NAMES)
    ]
    commit = json.dumps({"table-changes": changes}).encode()
    yield _api(
        "transactions", f"transactions of {NAMES:,} tables", token, "POST", f"{below}/transactions/commit", commit
    )
    yield from _within_one_table(tables, token)
    yield _api("plans", "scan plans of a megabyte", token, "POST", f"{tables}/t0/plan", b"{}")
    deep = f"{below}/namespaces/{'%1F'.join('a' * _LEVELS)}"
    yield _api("levels", f"namespaces of {_LEVELS:,} levels", token, "GET", deep, b"")
    query = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=SPNOBODY%2F20260101%2F{}%2Fs3%2Faws4_request"
    query += "&X-Amz-Date=20260101T000000Z&X-Amz-Expires=600&X-Amz-SignedHeaders=host&X-Amz-Signature={}"
    presigned = f"/{BUCKET}/{own}/data/a?{query.format(REGION, '0' * 64)}"
    request = _request("GET", presigned, "", b"")
    yield Flood("presigned", "presigned URLs with a key that was not issued here", request, of_listener=True)
    if maker:
        uploads = _request("GET", f"/{LISTED}?uploads", token, b"")
        yield Flood("uploads", f"lists of {_UPLOADS:,} multipart uploads", uploads, of_listener=True)
        made = _request("GET", "/?max-buckets=1", maker, b"")
        yield Flood("made", f"lists of buckets for which a store tells of {_MADE:,}", made, of_listener=True)


def _within_one_table(tables: str, token: str) -> Iterator[Flood]:
    """Yield calls about one table that hold as much as is read of it, and one that holds too much."""
    commits = (
        ("requirements", MAX_REQUIREMENTS, {"requirements": [{"type": "x"}] * MAX_REQUIREMENTS, "updates": []}),
        ("updates", MAX_UPDATES, {"requirements": [], "updates": [{"action": "x"}] * MAX_UPDATES}),
    )
    for name, count, commit in commits:
        words = f"commits of {count:,} {name} to one table"
        yield _api(name, words, token, "POST", f"{tables}/t0", json.dumps(commit).encode())
    fields = [
        {"id": number, "name": f"column-{number}", "required": False, "type": "string"} for number in range(COLUMNS)
    ]
    creations: tuple[tuple[str, str, dict[str, object]], ...] = (
        (
            "properties",
            f"creations of a table with {MAX_PROPERTIES:,} properties",
            {"properties": _many(MAX_PROPERTIES)},
        ),
        ("columns", f"creations of a table with {COLUMNS:,} columns", {"schema": {"type": "struct", "fields": fields}}),
        # The parser takes longest for them, and finds them all before they are refused.
        ("members", "creations of a table that are refused for their 100,000 members", _many(100_000)),
    )
    for name, words, creation in creations:
        yield _api(name, words, token, "POST", tables, json.dumps({"name": "new", **creation}).encode())


def _many(count: int) -> dict[str, object]:
    return {f"member-{number}": "" for number in range(count)}


def names_answer() -> bytes:
    """Return what the upstream says of its namespace."""
    return json.dumps(
        {"identifiers": [{"namespace": ["big"], "name": f"t{number}"} for number in range(NAMES)]}
    ).encode()


@contextlib.contextmanager
def store(scratch: Path) -> Iterator[str]:
    """Run a store that tells of many uploads and many buckets; yield its URL."""
    url = f"http://127.0.0.1:{free_port()}"
    log = scratch / "store.log"
    with running([sys.executable, "-m", "bench.floods", url], core=LOAD_CORE, log=log) as process:
        wait_until(lambda: answers(url), process, log)
        yield url


def _delete(keys: Iterator[str]) -> bytes:
    return f"<Delete>{''.join([f'<Object><Key>{key}</Key></Object>' for key in keys])}</Delete>".encode()


def _s3(name: str, words: str, token: str, method: str, query: str, body: bytes) -> Flood:
    return Flood(name, words, _request(method, f"/{BUCKET}?{query}", token, body), of_listener=True)


def _api(name: str, words: str, token: str, method: str, path: str, body: bytes) -> Flood:
    return Flood(name, words, _request(method, path, token, body), of_listener=False)


def _request(method: str, target: str, token: str, body: bytes) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    if body:
        lines.append("Content-Type: application/json")
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Store(asyncio.Protocol):
    """Answers every request of a connection with a list: of uploads where the query asks for them, else of buckets."""

    def __init__(self, uploads: bytes, buckets: bytes) -> None:
        self._uploads = uploads
        self._buckets = buckets
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of where to answer."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer whatever has arrived whole."""
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for head in heads:
            of_uploads = b"?uploads" in head.partition(b"\r\n")[0]
            self._transport.write(self._uploads if of_uploads else self._buckets)


def _every_upload() -> str:
    person = "<ID>bench</ID><DisplayName>bench</DisplayName>"
    uploads = [
        f"<Upload><Key>data/part-{number}.parquet</Key><UploadId>{number:064}</UploadId>"
        f"<Initiator>{person}</Initiator><Owner>{person}</Owner><StorageClass>STANDARD</StorageClass>"
        "<Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>"
        for number in range(_UPLOADS)
    ]
    return f"<ListMultipartUploadsResult>{''.join(uploads)}</ListMultipartUploadsResult>"


def _every_bucket() -> str:
    created = "<CreationDate>2026-01-01T00:00:00.000Z</CreationDate>"
    buckets = [f"<Bucket><Name>{MADE}{number}</Name>{created}</Bucket>" for number in range(_MADE)]
    return f"<ListAllMyBucketsResult><Buckets>{''.join(buckets)}</Buckets></ListAllMyBucketsResult>"


def _answer(document: str) -> bytes:
    content = document.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def _serve(url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    lists = _answer(_every_upload()), _answer(_every_bucket())
    server = await asyncio.get_running_loop().create_server(lambda: _Store(*lists), host, int(port))
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as running_loop:
        running_loop.run(_serve(*sys.argv[1:]))
