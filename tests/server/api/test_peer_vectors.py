"""Vectors of other signers that need a table and a caller.

Containment (C), bulk delete (D), lists (L17), client encodings (R), endpoint behaviour (E), and what two shipping
signers answered when they were probed (P).
"""

from __future__ import annotations

from typing import Any

import pytest

from signproxy.errors import Reason
from tests.product import HOST, SIGN_T1, Product

PATH_STYLE = "https://s3.us-west-2.amazonaws.com/my-bucket"

# Tables of these vectors, besides those of the product: a location of one level, dotted buckets, odd characters.
POLICY = """
remote_signing: true
default_catalog: lake
storages:
  aws: {kind: aws, region: us-west-2, buckets: [my-bucket, b.with.dot, bkt-2]}
  service:
    kind: s3-compatible
    region: us-west-2
    buckets: [svc]
    endpoints: [{url: "https://s3.my-service", styles: [path, virtual-host]}]
    checks_unsigned_headers: true
catalogs:
  lake: {storages: [aws, service], remote_signing: true}
  plain: {storages: [aws], remote_signing: true, metadata: open}
tables:
  - {name: t, namespace: ns, location: "s3://my-bucket/key"}
  - {name: t2, namespace: ns, location: "s3://my-bucket/ns/other"}
  - {name: tbl, namespace: ns, location: "s3a://my-bucket/ns/tbl/"}
  - {name: svc, namespace: ns, location: "s3n://svc/key"}
  - {name: dotted, namespace: ns, location: "s3://b.with.dot/key"}
  - {name: percent, namespace: ns, location: "s3://my-bucket/lit/with%20"}
  - {name: space, namespace: ns, location: "s3://my-bucket/lit/with "}
  - {name: quote, namespace: ns, location: "s3://my-bucket/parent/%22"}
  - {name: star, namespace: ns, location: "s3://my-bucket/odd/*"}
  - {name: dollar, namespace: ns, location: "s3://my-bucket/odd/$"}
  - {name: apostrophe, namespace: ns, location: "s3://my-bucket/odd/'"}
  - {name: plus, namespace: ns, location: "s3://my-bucket/odd/+"}
  - {name: question, namespace: ns, location: "s3://my-bucket/odd/%3F"}
  - {name: hash, namespace: ns, location: "s3://my-bucket/odd/%23"}
catalog_roles: {lake: [reader, writer]}
principal_roles: {readers: {lake: [reader]}, writers: {lake: [writer]}}
principals: {reader: {roles: [readers]}, writer: {roles: [writers]}}
grants:
  - {role: reader, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: writer, privileges: [TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]}
""".replace("  plain: {storages: [aws], remote_signing: true, metadata: open}\n", "")


async def _ask(table: str, method: str, uri: str, **more: Any) -> Reason | str:
    """Return the signed URI without its stamp, or the reason of the refusal as the operator sees it."""
    async with Product(POLICY).running() as product:
        status, answer = await product.sign(
            method, uri, who=more.pop("who", "writer"), path=f"/s3-sign/v1/lake/namespaces/ns/tables/{table}", **more
        )
        if status == 200:
            return str(answer["uri"]).rpartition("x-signproxy-id=")[0].rstrip("?&")
        code = product.events()[0].reason
    return next(reason for reason in Reason if reason.code == code)


_CONTAINED = [
    ("C1 region", "t", "https://my-bucket.s3.us-west-2.amazonaws.com/key/f", True),
    ("C1 global", "t", "https://my-bucket.s3.amazonaws.com/key/f", True),
    ("C1 service", "svc", "https://svc.s3.my-service/key/f", True),
    # Others sign the location itself; an object must have a name below it.
    ("C1 location itself", "t", "https://my-bucket.s3.us-west-2.amazonaws.com/key", False),
    ("C2 host", "t", f"{HOST}/key/d/f.parquet", True),
    ("C2 path", "t", f"{PATH_STYLE}/key/d/f.parquet", True),
    # A location is the key's text: `with%20` on the wire is a space, `with%2520` the text `with%20`.
    ("C3 space", "space", f"{HOST}/lit/with%20/f", True),
    ("C3 space, path", "space", f"{PATH_STYLE}/lit/with%20/f", True),
    ("C3 stored encoded", "percent", f"{HOST}/lit/with%20/f", False),
    ("C3 stored encoded, wire too", "percent", f"{HOST}/lit/with%2520/f", True),
    ("C3 the other way", "space", f"{HOST}/lit/with%2520/f", False),
    ("C4", "t", f"{HOST}/key-2", False),
    ("C4 below", "t", f"{HOST}/key-2/f", False),
    ("C4 case", "t", f"{HOST}/KEY/f", False),
    ("C5", "t", "https://bkt-2.s3.us-west-2.amazonaws.com/key/f", False),
    ("C6 host", "dotted", "https://b.with.dot.s3.us-west-2.amazonaws.com/key/f", True),
    ("C6 path", "dotted", "https://s3.us-west-2.amazonaws.com/b.with.dot/key/f", True),
    ("R2", "quote", f"{HOST}/parent/%2522/data/f", True),
    ("R2 decoded", "quote", f"{HOST}/parent/%22/data/f", False),
    ("R3 star", "star", f"{HOST}/odd/%2A/f", True),
    ("R3 star sibling", "star", f"{HOST}/odd/$/f", False),
    ("R3 dollar", "dollar", f"{HOST}/odd/%24/f", True),
    ("R3 apostrophe", "apostrophe", f"{HOST}/odd/%27/f", True),
    ("R3 plus", "plus", f"{HOST}/odd/%2B/f", True),
    ("R3 plus raw", "plus", f"{HOST}/odd/+/f", True),
    ("R3 plus is no space", "plus", f"{HOST}/odd/%20x/f", False),
    ("R3 question", "question", f"{HOST}/odd/%253F/f", True),
    ("R3 question decoded", "question", f"{HOST}/odd/%3F/f", False),
]


@pytest.mark.parametrize(("_name", "table", "uri", "inside"), _CONTAINED, ids=[row[0] for row in _CONTAINED])
async def test_a_key_is_inside_its_table_by_whole_segments(_name: str, table: str, uri: str, inside: bool) -> None:
    """A neighbour that merely begins alike is another team's data."""
    assert await _ask(table, "PUT", uri) == (uri if inside else Reason.OUTSIDE_TABLE)


async def test_r1_iceberg_escapes_partition_values_itself() -> None:
    """The key holds the text `%2F`; a signer that decodes twice sees a slash."""
    wire = f"{HOST}/key/data/p%252Fq%2Br%2521%253F%25C3%25A4=2.2/0.parquet"
    assert await _ask("t", "PUT", wire) == wire


_LISTS = [
    ("tbl", "ns/tbl/", True),
    ("tbl", "ns/tbl/data/", True),
    ("tbl", "ns/tbl/metadata", True),
    ("tbl", "ns/tbl", False),
    ("tbl", "ns/tbl_secret/", False),
    ("tbl", "ns/other/", False),
    ("tbl", "ns/", False),
    ("svc", "key/", False),  # another bucket
    ("hash", "odd/%2523/", True),
    ("hash", "odd/%23/", False),
]


@pytest.mark.parametrize(("table", "prefix", "inside"), _LISTS)
async def test_l17_a_list_reaches_past_the_tables_slash(table: str, prefix: str, inside: bool) -> None:
    """Without the slash the list shows the siblings that begin alike."""
    uri = f"{HOST}?list-type=2&prefix={prefix}"
    assert await _ask(table, "GET", uri, who="reader") == (uri if inside else Reason.OUTSIDE_TABLE)


def _delete(*keys: str) -> str:
    return "<Delete>" + "".join(f"<Object><Key>{key}</Key></Object>" for key in keys) + "</Delete>"


async def test_d6_a_foreign_key_in_a_bulk_delete_refuses_it_whole() -> None:
    """One key among a thousand is enough to delete another team's file."""
    uri = f"{HOST}?delete"
    own = ["key/a", "key/b"]
    assert await _ask("t", "POST", uri, body=_delete(*own)) == uri
    assert await _ask("t", "POST", uri, body=_delete(*own, "ns/other/c")) is Reason.OUTSIDE_TABLE
    assert await _ask("t", "POST", uri, body=_delete("ns/other/c", *own)) is Reason.OUTSIDE_TABLE


async def test_d8_a_bulk_delete_needs_the_right_to_write() -> None:
    """It is a POST, but what counts is that it deletes."""
    assert await _ask("t", "POST", f"{HOST}?delete", body=_delete("key/a"), who="reader") is Reason.NO_WRITE_DATA


_E = [
    ("reader", "GET", True),
    ("reader", "HEAD", True),
    ("reader", "PUT", False),
    ("reader", "DELETE", False),
    ("writer", "GET", True),  # writing implies reading
    ("writer", "HEAD", True),
    ("writer", "PUT", True),
    ("writer", "DELETE", True),
]


@pytest.mark.parametrize(("who", "method", "signed"), _E)
async def test_e_the_lattice_of_reading_and_writing(who: str, method: str, signed: bool) -> None:
    """Readers read, writers do both."""
    answer = await _ask("t", method, f"{HOST}/key/f", who=who)
    assert answer == (f"{HOST}/key/f" if signed else Reason.NO_WRITE_DATA)


_P: list[tuple[str, str, str, dict[str, Any], Reason | None]] = [
    # What Nessie or Lakekeeper signed, and the reason with which it is refused here. None: signed here.
    ("other path", "GET", f"{HOST}/wh/other/f", {}, Reason.OUTSIDE_TABLE),
    ("other bucket", "GET", "https://my-other.s3.us-west-2.amazonaws.com/wh/t1/f", {}, Reason.OUTSIDE_TABLE),
    ("sibling, read", "GET", f"{HOST}/wh/t10/f", {}, Reason.OUTSIDE_TABLE),
    ("sibling, write", "PUT", f"{HOST}/wh/t10/f", {}, Reason.OUTSIDE_TABLE),
    ("foreign segment in front", "GET", f"{HOST}/wh/victim/ns/t1/f", {}, Reason.OUTSIDE_TABLE),
    ("dot segment", "GET", f"{HOST}/wh/t1/../t2/f", {}, Reason.KEY_DOT_SEGMENT),
    ("encoded dot segment", "GET", f"{HOST}/wh/t1/%2e%2e/t2/f", {}, Reason.KEY_DOT_SEGMENT),
    ("encoded slash after dots", "GET", f"{HOST}/wh/t1/..%2Ft2/f", {}, Reason.KEY_DOT_SEGMENT),
    ("all encoded", "GET", f"{HOST}/wh/t1/%2e%2e%2Ft2/f", {}, Reason.KEY_DOT_SEGMENT),
    ("metadata, write", "PUT", f"{HOST}/wh/t1/metadata/v1.metadata.json", {}, Reason.METADATA_PROTECTED),
    ("metadata, delete", "DELETE", f"{HOST}/wh/t1/metadata/v1.metadata.json", {}, Reason.METADATA_PROTECTED),
    ("metadata, escaped letter", "PUT", f"{HOST}/wh/t1/metadata/v1.metadat%61.json", {}, Reason.METADATA_PROTECTED),
    (
        "metadata, version",
        "DELETE",
        f"{HOST}/wh/t1/metadata/v1.metadata.json?versionId=1",
        {},
        Reason.OPERATION_UNKNOWN,
    ),
    ("next metadata", "PUT", f"{HOST}/wh/t1/metadata/v2.metadata.json", {}, Reason.METADATA_PROTECTED),
    ("foreign host", "GET", "https://evil.example/my-bucket/wh/t1/f", {}, Reason.ENDPOINT_UNKNOWN),
    ("bucket.s3.evil", "GET", "https://my-bucket.s3.evil.example/wh/t1/f", {}, Reason.ENDPOINT_UNKNOWN),
    ("userinfo", "GET", "https://my-bucket.s3.us-west-2.amazonaws.com@evil.example/wh/t1/f", {}, Reason.URI_USERINFO),
    (
        "Host header",
        "GET",
        f"{HOST}/wh/t1/f",
        {"headers": {"Host": "victim.s3.us-west-2.amazonaws.com"}},
        Reason.HEADER_HOST,
    ),
    (
        "copy source",
        "PUT",
        f"{HOST}/wh/t1/f",
        {"headers": {"x-amz-copy-source": "/my-bucket/wh/t2/f"}},
        Reason.COPY_SOURCE_OUTSIDE,
    ),
    ("acl", "PUT", f"{HOST}/wh/t1/f?acl", {}, Reason.OPERATION_REFUSED),
    ("tagging", "DELETE", f"{HOST}/wh/t1/f?tagging", {}, Reason.OPERATION_REFUSED),
    ("unknown query", "GET", f"{HOST}/wh/t1/f?whatever=1", {}, Reason.OPERATION_UNKNOWN),
    ("region", "GET", f"{HOST}/wh/t1/f", {"region": "eu-west-1"}, Reason.REGION_MISMATCH),
    ("delete on an object", "POST", f"{HOST}/wh/t1/f?delete", {"body": _delete("wh/t2/f")}, Reason.OPERATION_UNKNOWN),
    ("PATCH", "PATCH", f"{HOST}/wh/t1/f", {}, Reason.METHOD_UNKNOWN),
    ("OPTIONS", "OPTIONS", f"{HOST}/wh/t1/f", {}, Reason.METHOD_UNKNOWN),
    ("lower-case put", "put", f"{HOST}/wh/t1/f", {}, Reason.METHOD_UNKNOWN),
    ("PUT by a reader", "PUT", f"{HOST}/wh/t1/f", {"who": "reader"}, Reason.NO_WRITE_DATA),
    ("list of its own", "GET", f"{HOST}?list-type=2&prefix=wh/t1/", {}, None),
    ("bulk delete of its own", "POST", f"{HOST}?delete", {"body": _delete("wh/t1/f")}, None),
    ("uri is verbatim", "GET", f"{HOST}/wh/t1/a+b=c%20d", {}, None),
]


@pytest.mark.parametrize(("_name", "method", "uri", "more", "expected"), _P, ids=[row[0] for row in _P])
async def test_p_what_others_sign_is_refused_by_its_reason(
    _name: str, method: str, uri: str, more: dict[str, Any], expected: Reason | None
) -> None:
    """Each of these was a signature that a shipping signer gave away, or a request of its own that it refused."""
    async with Product().running() as product:
        status, answer = await product.sign(method, uri, path=SIGN_T1, **{"who": "writer", **more})
        event = product.events()[0]
    if expected is None:
        assert status == 200, answer
        assert answer["uri"] == f"{uri}{'&' if '?' in uri else '?'}x-signproxy-id={event.event_id}"
    else:
        assert (status, event.reason) == (expected.status, expected.code)
