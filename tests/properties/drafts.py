"""Draw sign requests: mostly what a client could honestly ask for, bent in one place or in none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from hypothesis import strategies as st

from tests.properties import spellings
from tests.properties.world import CALLERS, TABLES, Table


class Draft(NamedTuple):
    """Who asks, on which route, with which message."""

    who: str
    path: str
    message: dict[str, Any]

    @property
    def raw(self) -> bytes:
        # As any client's JSON library does, lone surrogates included.
        return json.dumps(self.message).encode()


Draw = Callable[[st.SearchStrategy[Any]], Any]

_SEGMENTS = (
    "data", "f.parquet", "p=1", "a b", "\u00e9", "e\u0301", "x%2Fy", "UPPER", "a+b", "metadata", "v1.metadata.json",
    "00-a.gz.metadata.json", "v2.metadata.json.gz", "version-hint.text", "snap-1.avro", "..x", "...", "t1", "sub", "n2",
    "a;b", "\u6c34", "it's", "(1)", "a:b@c,d$e!f*", "~._-", "\U0001f600", ".hidden",
)  # fmt: skip
_BUCKET_HOSTS = (
    "{}.s3.us-west-2.amazonaws.com", "{}.s3-us-west-2.amazonaws.com", "{}.s3.amazonaws.com",
    "{}.s3.dualstack.us-west-2.amazonaws.com", "{}.s3-accelerate.amazonaws.com", "s3.us-west-2.amazonaws.com/{}",
    "s3.us-west-2.amazonaws.com:443/{}", "s3-fips.us-west-2.amazonaws.com/{}",
)  # fmt: skip
_ODD_HOSTS = (
    "{}.s3.us-east-1.amazonaws.com", "evil.example/{}", "S3.us-west-2.amazonaws.com/{}", "a@s3.amazonaws.com/{}",
    "s3.us-west-2.amazonaws.com./{}", "s3.us-west-2.amazonaws.com:0443/{}", "s3.us-west-2.amazonaws.com:/{}",
    "{}.evil.example", "s3.us-west-2.amazonaws.com%2f{}", "s3.us-west-2.amazonaws.com\\{}", "s3.amazonaws.com//{}",
    "s3-website.us-west-2.amazonaws.com/{}", "{}.s3.us-west-2.amazonaws.com/my-bucket", "{}.minio.local:9000",
)  # fmt: skip
_MINIO_ORIGINS = (
    "http://minio.local:9000/{}", "https://s3.minio.corp/{}", "https://{}.s3.minio.corp", "https://{}.s3.minio.corp:443",
)  # fmt: skip
_ODD_QUERIES = (
    "acl", "policy", "tagging=", "versionId=1", "uploadId=", "uploads=1", "X-Amz-Expires=9", "a=1&a=2", "&", ";",
    "list-type=2&prefix=wh/t1/", "delete", "%61cl", "x-id=A&x-id=B", "prefix=wh/t1/", "retention", "x-id=%00", "=", "",
    "partNumber=0", "torrent", "Tagging", "x-signproxy-id=1", "uploadId=a%0Ab", "attributes", "x-id=GetObject",
)  # fmt: skip
_HEADERS: tuple[tuple[str, str], ...] = (
    ("Range", "bytes=0-9"), ("If-None-Match", "*"), ("If-Match", '"e"'), ("Content-Type", "a/b"), ("Date", "now"),
    ("Content-MD5", "x=="), ("x-amz-meta-a", "one  two"), ("X-Amz-Meta-B", ""), ("User-Agent", "iceberg/1"),
    ("amz-sdk-request", "attempt=1"), ("Accept-Encoding", "gzip"), ("x-amz-checksum-crc32", "AAAAAA=="),
    ("x-amz-storage-class", "STANDARD"), ("x-amz-server-side-encryption", "AES256"), ("Content-Encoding", "gzip"),
    ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("x-amz-content-sha256", "0" * 64), ("x-amz-tagging", "a=b"),
    ("x-amz-expected-bucket-owner", "1"), ("Expect", "100-continue"), ("Transfer-Encoding", "chunked"),
    ("x-amz-meta-c", " padded "), ("x-amz-sdk-checksum-algorithm", "CRC32"), ("Cache-Control", "no-store"),
)  # fmt: skip
_ODD_HEADERS: tuple[tuple[str, str], ...] = (
    ("x-amz-acl", "public-read"), ("Authorization", "AWS a:b"), ("x-amz-date", "20260101T000000Z"), ("Host", "evil"),
    ("x-amz-meta-snowball-auto-extract", "true"), ("x-minio-force-delete", "true"), ("x-amz-meta-a", "a\r\nb: c"),
    ("x-amz-copy-source", "/my-bucket/wh/t2/a"), ("x-amz-meta-\u00e9", "1"), ("x-amz-meta-a", "\u00e9"), ("a b", "1"),
    ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), ("x-amz-grant-read", "id=1"), ("", "x"),
    ("X-HTTP-Method-Override", "DELETE"), ("x-amz-website-redirect-location", "/x"), ("x-amz-te", "other"),
    ("Content-Encoding", "aws-chunked"), ("x-amz-security-token", "t"), ("x-amz-rename-source", "/my-bucket/wh/t1/a"),
    ("x-amz-metadata-directive", "REPLACE"), ("x-goog-copy-source", "a/b"), ("x-amz-nosuch", "1"),
)  # fmt: skip


def _seldom(draw: Draw, one_in: int) -> bool:
    """Whether to bend something; shrinks to no."""
    return bool(draw(st.integers(0, one_in - 1)) == one_in - 1)


def _pick(draw: Draw, options: tuple[Any, ...]) -> Any:
    return options[draw(st.integers(0, len(options) - 1))]


def _rest(draw: Draw) -> str:
    return "/".join(draw(st.lists(st.sampled_from(_SEGMENTS), min_size=1, max_size=4)))


def _key_near(draw: Draw, table: Table, place: str, stray: int) -> str:
    """Return a key in the table, or seldom beside it: its sibling, its own location, its parent, another table's."""
    prefix = place.split(" ", 2)[2]
    if not _seldom(draw, stray):
        return prefix + _rest(draw)
    other = _pick(draw, TABLES).places[0].split(" ", 2)[2]
    return str(
        _pick(
            draw,
            (
                prefix[:-1] + "0/" + _rest(draw),
                prefix[:-1],
                prefix,
                prefix.rpartition("/")[0].rpartition("/")[0] + "/f",
                other + _rest(draw),
                prefix.swapcase() + _rest(draw),
                prefix[:-1] + _rest(draw),
                _rest(draw),
                prefix + "metadata",
                "",
            ),
        )
    )


def _spelled(draw: Draw, key: str, bend: int) -> str:
    if not key:
        return key
    family = spellings.HOSTILE if _seldom(draw, bend) else spellings.HONEST
    return str(_pick(draw, family)(draw, key))


def _origin(draw: Draw, store: str, bucket: str) -> str:
    if _seldom(draw, 15):
        return f"{_pick(draw, ('https', 'http'))}://{_pick(draw, _ODD_HOSTS).format(bucket)}"
    if store == "minio":
        return str(_pick(draw, _MINIO_ORIGINS).format(bucket))
    return f"https://{_pick(draw, _BUCKET_HOSTS).format(bucket)}"


class _Shape(NamedTuple):
    """An operation as a client asks for it."""

    method: str
    query: str = ""
    on: str = "object"
    copies: bool = False


_READS = (_Shape("GET"), _Shape("HEAD"), _Shape("GET", "list-type=2&prefix={}", "prefix"), _Shape("GET", "tagging"))
_WRITES = (
    _Shape("PUT"), _Shape("DELETE"), _Shape("PUT", "", "object", copies=True), _Shape("POST", "uploads"),
    _Shape("PUT", "partNumber=7&uploadId=u"), _Shape("PUT", "uploadId=u%2B&partNumber=7", "object", copies=True),
    _Shape("POST", "uploadId=u"), _Shape("DELETE", "uploadId=u"), _Shape("POST", "delete", "keys"),
    _Shape("GET", "uploadId=u&max-parts=2"), _Shape("PUT", "tagging"),
    _Shape("GET", "versions&prefix={}&delimiter=/", "prefix"), _Shape("GET", "uploads&prefix={}", "prefix"),
)  # fmt: skip
_ODD_SHAPES = (
    _Shape("PATCH"), _Shape("get"), _Shape("OPTIONS"), _Shape("POST"), _Shape("POST", "delete"),
    _Shape("HEAD", "", "prefix"), _Shape("GET", "", "prefix"), _Shape("PUT", "", "prefix"),
    _Shape("DELETE", "", "prefix"), _Shape("GET", "list-type=2", "prefix"),
    _Shape("GET", "list-type=1&prefix={}", "prefix"), _Shape("GET", "list-type=2&prefix={}"),
    _Shape("GET", "list-type=2&prefix={}&prefix={}", "prefix"),
)  # fmt: skip
COPIES = tuple(shape for shape in _WRITES if shape.copies)
LISTS = tuple(shape for shape in _READS + _WRITES if shape.on == "prefix")


def _bulk(draw: Draw, keys: list[str]) -> str:
    objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    body = f"<Delete>{objects}<Quiet>true</Quiet></Delete>"
    if _seldom(draw, 8):
        place = draw(st.integers(0, len(body)))
        odd = (
            "<!-- x -->",
            "<VersionId>1</VersionId>",
            "&amp;",
            "&#47;",
            "&#x2e;",
            "<Key>x</Key>",
            " ",
            "<![CDATA[x]]>",
            "\0",
        )
        body = body[:place] + str(_pick(draw, odd)) + body[place:]
    return body


@st.composite
def drafts(draw: Draw, *, bend: int = 4, stray: int = 7, shapes: tuple[_Shape, ...] = ()) -> Draft:
    """Return a sign request, of one of these shapes if there are any.

    One in `bend` of its keys is spelled as no honest client would, one in `stray` lies beside the table.
    """
    table: Table = _pick(draw, TABLES)
    place = str(_pick(draw, table.places))
    store, bucket, prefix = place.split(" ", 2)
    reads = draw(st.booleans())
    usual = shapes or (_READS if reads else _WRITES)
    shape: _Shape = _pick(draw, _ODD_SHAPES if _seldom(draw, 12) else usual)
    who = str(_pick(draw, CALLERS)) if _seldom(draw, 8) else _fitting(table, reads=shape in _READS)
    query, body, headers = shape.query, None, {}
    if shape.on == "object":
        raw_key = _spelled(draw, _key_near(draw, table, place, stray), bend)
    else:
        raw_key = ""
        asked = str(_pick(draw, (prefix, prefix + "a", _key_near(draw, table, place, stray))))
        query = query.replace("{}", _spelled(draw, asked, bend))
    if shape.on == "keys" and not _seldom(draw, 10):
        keys = [_key_near(draw, table, place, stray) for _ in range(draw(st.integers(1, 3)))]
        body = _bulk(draw, keys)
    for _ in range(draw(st.integers(0, 4))):
        name, value = _pick(draw, _ODD_HEADERS if _seldom(draw, 12) else _HEADERS)
        headers[name] = [value] if not _seldom(draw, 20) else [value] * draw(st.integers(0, 2))
    if shape.copies:
        source = _spelled(draw, _key_near(draw, table, place, stray), bend)
        headers["x-amz-copy-source"] = [f"{_pick(draw, ('/', ''))}{bucket}/{source}"]
    if _seldom(draw, 10):
        query = f"{query}&{_pick(draw, _ODD_QUERIES)}" if query else str(_pick(draw, _ODD_QUERIES))
    uri = _origin(draw, store, bucket) + (f"/{raw_key}" if raw_key else "") + (f"?{query}" if query else "")
    region = {"aws": "us-west-2", "minio": "us-east-1"}[store] if not _seldom(draw, 25) else "eu-west-1"
    message: dict[str, Any] = {"region": region, "uri": uri, "method": shape.method, "headers": headers}
    if body is not None:
        message["body"] = body
    return Draft(who, _route(draw, table), message)


def _fitting(table: Table, *, reads: bool) -> str:
    """Return a caller who may read, or write, the table."""
    if table.catalog == "lake":
        return "reader" if reads else "keeper"
    if table.catalog == "located":
        return "reader" if reads else "partial"
    return "both"


def _route(draw: Draw, table: Table) -> str:
    named = table if not _seldom(draw, 8) else _pick(draw, TABLES)
    return str(
        _pick(
            draw,
            (
                f"/s3-sign/v1/{table.catalog}/namespaces/ns/tables/{named.name}",
                f"/v1/{table.catalog}/namespaces/ns/tables/{named.name}/sign",
                f"/{table.catalog}/v1/aws/s3/sign",
                f"/catalogs/{table.catalog}/v1/aws/s3/sign",
            ),
        )
    )


_TEXT = st.text(max_size=60)
_NAMED = st.sampled_from([name for name, _ in _HEADERS + _ODD_HEADERS])


@st.composite
def wild(draw: Draw) -> Draft:
    """Return a sign request with anything at all in some of its fields."""
    honest: Draft = draw(drafts())
    message = dict(honest.message)
    for field in draw(st.sets(st.sampled_from(("region", "uri", "tail", "method", "headers", "body")), min_size=1)):
        match field:
            case "tail":
                message["uri"] += draw(_TEXT)
            case "headers":
                message["headers"] = draw(st.dictionaries(_NAMED | _TEXT, st.lists(_TEXT, max_size=2), max_size=5))
            case "body":
                message["body"] = draw(st.none() | _TEXT | _TEXT.map(lambda text: f"<Delete>{text}</Delete>"))
            case _:
                message[field] = draw(_TEXT)
    return Draft(honest.who, honest.path, message)
