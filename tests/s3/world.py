"""Build the storages and sign requests that the tests of this room share."""

from __future__ import annotations

from signproxy.errors import Reason, Refused
from signproxy.s3.classify import classify
from signproxy.s3.request import S3Request, WireRequest
from signproxy.s3.storage import (
    EndpointIndex,
    OptIns,
    S3Endpoint,
    Storage,
    StorageKind,
    Style,
    aws_endpoints,
)

BOTH = (Style.PATH, Style.VIRTUAL_HOST)

AWS = Storage(
    name="aws",
    kind=StorageKind.AWS,
    region="us-west-2",
    buckets=("my-bucket", "my.app.bucket", "bkt"),
    endpoints=aws_endpoints("us-west-2"),
    checks_unsigned_headers=True,
)
MINIO = Storage(
    name="minio",
    kind=StorageKind.S3_COMPATIBLE,
    region="us-east-1",
    buckets=("lake", "b.with.dot"),
    endpoints=(
        S3Endpoint("http", "minio.local:9000", (Style.PATH,)),
        S3Endpoint("https", "s3.minio.corp", BOTH),
        S3Endpoint("http", "127.0.0.1:9000", (Style.PATH,)),
    ),
)
ENDPOINTS = EndpointIndex([AWS, MINIO])

KEY = "wh/t1/data/f.parquet"
AWS_PATH = "https://s3.us-west-2.amazonaws.com/my-bucket"
AWS_HOST = "https://my-bucket.s3.us-west-2.amazonaws.com"


def wire(
    method: str = "GET",
    uri: str = f"{AWS_HOST}/{KEY}",
    headers: dict[str, str] | None = None,
    *,
    region: str = "us-west-2",
    body: str | None = None,
) -> WireRequest:
    """Return a sign request; headers with one value each."""
    return WireRequest(
        method=method,
        uri=uri,
        headers={name: [value] for name, value in (headers or {}).items()},
        region=region,
        body=body,
    )


def with_opt_ins(opt_ins: OptIns, *, bucket_owner: str = "") -> EndpointIndex:
    """Return an index whose AWS storage has these opt-ins."""
    return EndpointIndex(
        [
            Storage(
                name="aws",
                kind=StorageKind.AWS,
                region="us-west-2",
                buckets=("my-bucket",),
                endpoints=aws_endpoints("us-west-2"),
                opt_ins=opt_ins,
                bucket_owner=bucket_owner,
            )
        ]
    )


def outcome(request: WireRequest, endpoints: EndpointIndex = ENDPOINTS) -> S3Request | Reason:
    """Return the classified request, or the reason of its refusal."""
    try:
        return classify(endpoints, request)
    except Refused as refused:
        return refused.reason


def accepted(request: WireRequest, endpoints: EndpointIndex = ENDPOINTS) -> S3Request:
    """Return the classified request; a refusal fails the test with its detail."""
    return classify(endpoints, request)
