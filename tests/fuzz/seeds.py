"""What a search begins with: messages as clients send them, one per operation, storage and kind of table."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.fuzz.harness import prefix_of
from tests.product import HOST

LAKE = "/lake/v1/aws/s3/sign"
T1 = "/s3-sign/v1/lake/namespaces/ns/tables/t1"
ONCE = "/s3-sign/v1/lake/namespaces/ns/tables/once"
PATH_STYLE = "https://s3.us-west-2.amazonaws.com/my-bucket"

_BULK = (
    '<?xml version="1.0" encoding="UTF-8"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<Object><Key>wh/t1/a&amp;b</Key></Object><Object><Key>wh/t1/\u00e9&#x41;</Key></Object>"
    "<Quiet>true</Quiet></Delete>"
)

# Caller, route, method, uri, headers, body.
_MESSAGES: tuple[tuple[str, str, str, str, dict[str, str], str | None], ...] = (
    ("reader", T1, "GET", f"{HOST}/wh/t1/data/f.parquet", {"Range": "bytes=0-3", "x-amz-te": "append-md5"}, None),
    ("reader", T1, "HEAD", f"{PATH_STYLE}/wh/t1/metadata/snap-1.avro", {"amz-sdk-request": "attempt=1"}, None),
    ("reader", T1, "GET", f"{HOST}/wh/t1/p=a%252Fb%20c/%C3%A9+1?x-id=GetObject", {"User-Agent": "a"}, None),
    ("reader", T1, "GET", f"{HOST}?list-type=2&prefix=wh/t1/&delimiter=/&max-keys=9&encoding-type=url", {}, None),
    ("reader", T1, "GET", f"{HOST}/wh/t1/f?tagging", {}, None),
    ("reader", T1, "GET", f"{HOST}?versions&prefix=wh%2Ft1%2Fa", {}, None),
    ("writer", T1, "GET", f"{HOST}?uploads=&prefix=wh/t1/a+b", {}, None),
    ("writer", T1, "GET", f"{HOST}/wh/t1/f?uploadId=u%2B1&max-parts=9&part-number-marker=1", {}, None),
    (
        "writer", T1, "PUT", f"{HOST}/wh/t1/f",
        {
            "Content-Type": "a/b", "Content-MD5": "x==", "x-amz-meta-a": "b", "x-amz-server-side-encryption": "AES256",
            "x-amz-storage-class": "STANDARD", "If-None-Match": "*", "Content-Length": "3", "Host": HOST[8:],
        },
        None,
    ),
    (
        "writer", T1, "PUT", f"{HOST}/wh/t1/f",
        {
            "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "Content-Encoding": "aws-chunked",
            "X-Amz-Trailer": "x-amz-checksum-crc32", "X-Amz-Decoded-Content-Length": "3", "Expect": "100-continue",
        },
        None,
    ),
    ("writer", T1, "PUT", f"{HOST}/wh/t1/f", {"x-amz-copy-source": "/my-bucket/wh/t1/a%20b"}, None),
    (
        "writer", T1, "PUT", f"{HOST}/wh/t1/f?partNumber=2&uploadId=u",
        {"x-amz-copy-source": "my-bucket/wh/t1/a?versionId=1", "x-amz-copy-source-range": "bytes=0-9"},
        None,
    ),
    ("writer", T1, "PUT", f"{HOST}/wh/t1/f?tagging", {"x-amz-content-sha256": "0" * 64}, None),
    ("writer", T1, "POST", f"{HOST}/wh/t1/f?uploads", {"Content-Length": "0"}, None),
    ("writer", ONCE, "POST", f"{HOST}/wh/once/f?uploadId=u", {"Content-Type": "application/xml"}, None),
    ("writer", ONCE, "PUT", f"{HOST}/wh/once/f", {}, None),
    ("writer", T1, "DELETE", f"{HOST}/wh/t1/f?uploadId=u", {}, None),
    ("keeper", T1, "DELETE", f"{HOST}/wh/t1/metadata/v1.metadata.json", {}, None),
    (
        "writer", T1, "POST", f"{HOST}?delete", {"Content-MD5": "x", "Content-Type": "application/xml"},
        _BULK,
    ),
    ("reader", LAKE, "GET", "http://minio.local:9000/small/wh/small/f", {}, None),
    ("writer", LAKE, "PUT", "https://small.s3.minio.corp:443/data/two/f", {}, None),
    ("reader", LAKE, "GET", "https://b.with.dot.s3.us-west-2.amazonaws.com/data/two/f", {}, None),
    ("writer", LAKE, "PUT", f"{HOST}/wh/a%20b%2B%C3%A9%252Fc%3Dd/f", {}, None),
    ("partial", "/located/v1/aws/s3/sign", "PUT", f"{HOST}/by/l1/f", {}, None),
    ("both", "/nested/v1/aws/s3/sign", "GET", f"{HOST}/nest/n1/sub/n2/f", {}, None),
    # What is refused, one per kind: a search needs to know the words.
    ("reader", T1, "GET", f"{HOST}/wh/t1/../t10/%2e%2e/f", {}, None),
    ("reader", T1, "GET", f"{HOST}/wh/t1//f;x=..%5c%00?acl&versionId=1&X-Amz-Expires=1", {}, None),
    ("writer", T1, "PUT", f"{HOST}/wh/t1/f", {"x-amz-acl": "public-read", "x-minio-force-delete": "true"}, None),
)  # fmt: skip


def seeds() -> Iterator[bytes]:
    """Yield the inputs."""
    for who, path, method, uri, headers, body in _MESSAGES:
        region = "us-east-1" if "minio" in uri else "us-west-2"
        message: dict[str, object] = {
            "region": region,
            "uri": uri,
            "method": method,
            "headers": {name: [value] for name, value in headers.items()},
            "properties": {},
        }
        if body is not None:
            message["body"] = body
        yield prefix_of(who, path) + json.dumps(message).encode()


WORDS: tuple[str, ...] = tuple(
    """
    %2F %2f %2e%2e %2E . .. ../ ./ // %252F %25 %00 %0d%0a %5C \\\\ ; ;x= ..; + %20 %C3%A9 %FF %c0%ae ? # & = @ : %3F
    list-type=2 prefix= wh/t1/ wh/t10/ wh/sealed/metadata/ delimiter=/ uploads uploadId= partNumber= tagging versions
    delete acl versionId= x-id= max-keys= X-Amz-Date= x-signproxy-id= metadata/v1.metadata.json version-hint.text
    x-amz-copy-source /my-bucket/wh/t1/a /my-bucket/wh/t10/a x-amz-content-sha256 UNSIGNED-PAYLOAD Host x-amz-meta-
    STREAMING-UNSIGNED-PAYLOAD-TRAILER aws-chunked Content-Encoding x-amz-trailer If-Match If-None-Match * Range
    <Key> </Key> <Object> </Object> <Delete> </Delete> <Quiet> &amp; &#47; <!-- --> <![CDATA[ ]]> <!DOCTYPE wh/t1/a
    my-bucket b.with.dot small https:// http:// :443 :9000 s3.us-west-2.amazonaws.com .s3.minio.corp minio.local:9000
    us-west-2 us-east-1 GET HEAD PUT POST DELETE \u00e9 \uff0e \u200b
    """.split()
)
"""Words that mean something to S3, its stores or the parsers between."""
