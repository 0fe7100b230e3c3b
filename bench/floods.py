"""Write the requests whose work is many times that of a read: one caller sends each as fast as it is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from bench import policy_files
from bench.policy_files import BUCKET, REGION

LEARNED = "learned"
"""The catalog that has an upstream."""
NAMES = 10_000
"""Tables of the namespace that is listed, and of the transaction."""

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


def floods(token: str) -> Iterator[Flood]:
    """Yield each of them, with this caller's token where it shows one."""
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
    yield _api("plans", "scan plans of a megabyte", token, "POST", f"{tables}/t0/plan", b"{}")
    deep = f"{below}/namespaces/{'%1F'.join('a' * _LEVELS)}"
    yield _api("levels", f"namespaces of {_LEVELS:,} levels", token, "GET", deep, b"")
    query = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=SPNOBODY%2F20260101%2F{}%2Fs3%2Faws4_request"
    query += "&X-Amz-Date=20260101T000000Z&X-Amz-Expires=600&X-Amz-SignedHeaders=host&X-Amz-Signature={}"
    presigned = f"/{BUCKET}/{own}/data/a?{query.format(REGION, '0' * 64)}"
    request = _request("GET", presigned, "", b"")
    yield Flood("presigned", "presigned URLs with a key that was not issued here", request, of_listener=True)


def names_answer() -> bytes:
    """Return what the upstream says of its namespace."""
    return json.dumps(
        {"identifiers": [{"namespace": ["big"], "name": f"t{number}"} for number in range(NAMES)]}
    ).encode()


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
