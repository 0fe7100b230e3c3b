"""Compare what a signature costs with what botocore's costs, for the same requests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from bench.figures import Result, ratios, result
from bench.process import BenchFailed
from signproxy.s3.canonical import canonical_path, canonical_query
from signproxy.s3.sigv4 import SigningKey, amz_date

_MUST = 6.0
_GOAL = 8.0
_ROUNDS = 31
_REQUESTS = 400
"""Of each shape and round, every one for another key: nothing that is remembered by key helps either side."""

_HOST = "lake.s3.eu-west-1.amazonaws.com"
_REGION = "eu-west-1"
_ACCESS_KEY_ID = "AKIAIOSFODNN7EXAMPLE"
_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105 - the published example
_TOKEN = "IQoJb3JpZ2luX2VjEJr" + "x" * 800
# What botocore signs whatever the client declared, so that both sides hash the same bytes.
_PAYLOAD = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@dataclass(frozen=True, slots=True)
class _Shape:
    """One kind of request that engines send; `{}` in key or query stands for its number."""

    name: str
    method: str
    key: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    token: str = ""


_SHAPES = (
    _Shape(
        "get",
        "GET",
        "sales/orders/data/00007-{}-5d1f4c1e-8a0b-4a58-9f3c-2f0a9b1c7d11-0-00001.parquet",
        headers=(("x-amz-te", "append-md5"),),
    ),
    _Shape(
        "put_partitioned_session",
        "PUT",
        "sales/orders/data/day=2026-11-18/region=EU/00007-{}-5d1f4c1e-8a0b-4a58-9f3c-2f0a9b1c7d11.parquet",
        headers=(("content-type", "application/octet-stream"),),
        token=_TOKEN,
    ),
    _Shape(
        "upload_part",
        "PUT",
        "sales/orders/data/00007-{}-5d1f4c1e-8a0b-4a58-9f3c-2f0a9b1c7d11-0-00001.parquet",
        query=(("uploadId", "VXBsb2FkIElEIGZvciA2aWWpbmcncyBteS1tb3ZpZS5tMnRzIHVwbG9hZA"), ("partNumber", "7")),
        headers=(("content-type", "application/octet-stream"),),
    ),
    _Shape(
        "list",
        "GET",
        "",
        query=(("list-type", "2"), ("prefix", "sales/orders/data/day={}/"), ("delimiter", "/"), ("max-keys", "1000")),
    ),
)


@dataclass(frozen=True, slots=True)
class _Request:
    """One request in the two forms that the two signers take it in."""

    shape: _Shape
    path: str
    query: tuple[tuple[str, str], ...]
    url: str
    """As an AWS SDK writes it."""


def measure() -> list[Result]:
    """Sign each shape by turns with either signer; the ratio of a round is of CPU time, so that load cancels out.

    Ours pays for the canonical form of a decoded key and query as well; botocore takes both as they are in the URL.
    """
    own_all = [0.0] * _ROUNDS
    peer_all = [0.0] * _ROUNDS
    results = []
    for shape in _SHAPES:
        requests = [_numbered(shape, number) for number in range(_REQUESTS)]
        key = SigningKey(_ACCESS_KEY_ID, _SECRET, _REGION)
        peer = S3SigV4Auth(Credentials(_ACCESS_KEY_ID, _SECRET, shape.token or None), "s3", _REGION)
        _compare(key, peer, requests[0])
        own_times = []
        peer_times = []
        for _ in range(_ROUNDS):
            own_times.append(_own_seconds(key, requests))
            peer_times.append(_peer_seconds(peer, requests))
        own_all = [sum(pair) for pair in zip(own_all, own_times, strict=True)]
        peer_all = [sum(pair) for pair in zip(peer_all, peer_times, strict=True)]
        results.append(_result(shape.name, peer_times, own_times))
    return [_result("all", peer_all, own_all, must=_MUST, goal=_GOAL), *results]


def _result(
    name: str, peer: Sequence[float], own: Sequence[float], *, must: float | None = None, goal: float | None = None
) -> Result:
    return result(
        f"sigv4.{name}",
        ratios(peer, own),
        unit="x",
        better="higher",
        against="botocore's S3SigV4Auth.add_auth, CPU time per signature",
        must=must,
        goal=goal,
    )


def _own_seconds(key: SigningKey, requests: Sequence[_Request]) -> float:
    began = time.thread_time()
    for request in requests:
        _sign(key, request, amz_date(int(time.time())))
    return time.thread_time() - began


def _peer_seconds(peer: S3SigV4Auth, requests: Sequence[_Request]) -> float:
    began = time.thread_time()
    for request in requests:
        _sign_with_peer(peer, request)
    return time.thread_time() - began


def _sign(key: SigningKey, request: _Request, moment: str) -> str:
    shape = request.shape
    return key.authorization(
        shape.method,
        _HOST,
        canonical_path(request.path),
        canonical_query(request.query),
        shape.headers,
        _PAYLOAD,
        moment,
        shape.token,
    )


def _sign_with_peer(peer: S3SigV4Auth, request: _Request) -> AWSRequest:
    signed = AWSRequest(method=request.shape.method, url=request.url, headers=dict(request.shape.headers))
    peer.add_auth(signed)
    return signed


def _compare(key: SigningKey, peer: S3SigV4Auth, request: _Request) -> None:
    """Stop unless both signers make the same signature: a wrong one is quick to make."""
    signed = _sign_with_peer(peer, request)
    if _sign(key, request, signed.headers["X-Amz-Date"]) != signed.headers["Authorization"]:
        raise BenchFailed(f"sigv4: the signatures of {request.url} differ")


def _numbered(shape: _Shape, number: int) -> _Request:
    path = "/" + shape.key.format(number)
    query = tuple((name, value.format(number)) for name, value in shape.query)
    encoded = urlencode(query, quote_via=quote, safe="-_.~")
    return _Request(shape, path, query, f"https://{_HOST}{quote(path, safe='/~')}" + (f"?{encoded}" if encoded else ""))
