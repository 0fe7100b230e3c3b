"""What a caller gets from the sign routes, over HTTP, from the assembled product."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from signproxy.errors import Reason
from signproxy.server.api.routes import find_route
from tests.product import ACCESS_KEY, HOST, KEY, POLICY, SECRET, SIGN_T1, Product, ServeProduct, sign_message
from tests.verifier import as_java, as_pyiceberg, verify


def _verified(message: dict[str, object], answer: dict[str, Any], *, now: float | None = None) -> None:
    """Check the answer as the store would, sent by either client."""
    body = message.get("body")
    for merge in (as_java, as_pyiceberg):
        wire = merge(message, answer)
        if isinstance(body, str):
            wire = type(wire)(wire.method, wire.target, wire.headers, body.encode())
        verify(wire, {ACCESS_KEY: SECRET}, now=time.time() if now is None else now, region=str(message["region"]))


async def test_the_golden_exchange(serve_product: ServeProduct) -> None:
    """The contract's own request: a global host, signed for the region of the storage."""
    message: dict[str, object] = {
        "region": "us-west-2",
        "uri": "https://my-bucket.s3.amazonaws.com/wh/t1/path/to/file",
        "method": "GET",
        "headers": {"Host": ["my-bucket.s3.amazonaws.com"], "x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]},
        "body": None,
    }
    product = await serve_product(Product())
    status, headers, answer = await product.call("POST", SIGN_T1, body=msgspec.json.encode(message))
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert set(answer) == {"uri", "headers"}
    uri, _, stamp = answer["uri"].partition("?x-signproxy-id=")
    assert uri == message["uri"]
    assert stamp == headers["X-Request-ID"]
    signed = answer["headers"]
    assert set(signed) == {"Authorization", "X-Amz-Date", "x-amz-content-sha256"}
    assert signed["x-amz-content-sha256"] == ["UNSIGNED-PAYLOAD"]
    assert signed["Authorization"][0].startswith(f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/")
    assert "/us-west-2/s3/aws4_request, " in signed["Authorization"][0]
    _verified(message, answer)


async def test_the_cache_header_is_spelled_as_java_reads_it(serve_product: ServeProduct) -> None:
    """Java looks for `Cache-Control` in exactly this spelling, and 1.12 keeps `private` without asking for whom."""
    product = await serve_product(Product())
    raw = await _raw(product)
    assert b"\r\nCache-Control: no-cache\r\n" in raw
    assert b"private" not in raw


async def _raw(product: Product, *, version: str = "1.1", extra: str = "") -> bytes:
    import asyncio

    from tests.product import token_of

    body = msgspec.json.encode(sign_message())
    host, _, port = product.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST {SIGN_T1} HTTP/{version}\r\nHost: x\r\nAuthorization: Bearer {token_of('reader')}\r\n"
        f"{extra}Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    raw = await reader.readuntil(b"\r\n\r\n")
    length = int(raw.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    raw += await reader.readexactly(length)
    if b"Connection: close" in raw:
        assert await reader.read() == b""
    writer.close()
    return raw


async def test_a_connection_is_closed_when_the_client_asks_for_it(serve_product: ServeProduct) -> None:
    """A client that waits for the end of an HTTP/1.0 answer would wait until its time limit."""
    product = await serve_product(Product())
    assert b"Connection: close" not in await _raw(product)
    assert b"Connection: close" in await _raw(product, extra="Connection: close\r\n")
    assert b"Connection: close" in await _raw(product, version="1.0")
    assert b"Connection: close" in await _raw(product, version="1.0", extra="Connection: keep-alive\r\n")


_CACHE = [
    # (method, client's cache switched on, expected header)
    ("GET", True, "private"),
    ("HEAD", True, "private"),
    ("PUT", True, "no-cache"),
    ("DELETE", True, "no-cache"),
    ("POST", True, "no-cache"),
    ("GET", False, "no-cache"),
    ("HEAD", False, "no-cache"),
]


@pytest.mark.parametrize(("method", "switched_on", "expected"), _CACHE)
async def test_only_reads_may_be_cached_and_only_where_switched_on(
    method: str, switched_on: bool, expected: str, serve_product: ServeProduct
) -> None:
    """A cached bulk delete replays the first one's signature; a cached write outlives a revoke."""
    uri = f"{HOST}/{KEY}" + ("?uploads" if method == "POST" else "")
    product = await serve_product(Product(client_cache=switched_on))
    body = msgspec.json.encode(sign_message(method, uri))
    status, headers, _ = await product.call("POST", SIGN_T1, who="writer", body=body)
    assert (status, headers["Cache-Control"]) == (200, expected)
    event = product.events()[0]
    assert event.cacheable is (expected == "private")


_MOUNTS = ["", "/api", "/api/catalog", "/catalogs/lake"]
_TABLE_ROUTES = [
    "/s3-sign/v1/lake/namespaces/ns/tables/t1",
    "/s3-sign/v1/opaque-1/namespaces/ns/tables/t1",
    "/s3-sign/v1/namespaces/ns/tables/t1",
    "/v1/lake/namespaces/ns/tables/t1/sign",
    "/v1/opaque-1/namespaces/ns/tables/t1/sign",
    "/v1/namespaces/ns/tables/t1/sign",
    "/v1/aws/s3/sign",
    "/lake/v1/aws/s3/sign",
    "/opaque-1/v1/aws/s3/sign",
]


@pytest.mark.parametrize("mount", _MOUNTS)
@pytest.mark.parametrize("route", _TABLE_ROUTES)
async def test_every_route_signs_below_every_mount(mount: str, route: str, serve_product: ServeProduct) -> None:
    """Each client generation builds its own path; whichever it is, the same decision answers."""
    product = await serve_product(Product())
    status, answer = await product.sign(path=f"{mount}{route}")
    assert status == 200, answer
    _verified(sign_message(), answer)
    assert (product.events()[0].catalog, product.events()[0].table) == ("lake", "t1")


_ENCODINGS = [
    "/s3-sign/v1/lake/namespaces/a%1Fb+c%1Fd%2Be/tables/deep",  # Java: space as plus, plus as %2B
    "/s3-sign/v1/lake/namespaces/a%1Fb%20c%1Fd%2Be/tables/deep",  # PyIceberg
    "/s3-sign/v1/lake/namespaces/a%1fb%20c%1fd%2Be/tables/deep",
    "/s3-sign/v1/lake/namespaces/%61%1Fb%20c%1Fd%2Be/tables/dee%70",
    "/v1/lake/namespaces/a%1Fb+c%1Fd%2Be/tables/deep/sign",
]


@pytest.mark.parametrize("path", _ENCODINGS)
async def test_nested_namespaces_are_found_in_every_clients_encoding(path: str, serve_product: ServeProduct) -> None:
    """A namespace that one client reaches and another does not is a riddle for its user."""
    product = await serve_product(Product())
    status, answer = await product.sign(uri=f"{HOST}/wh/deep/data/f", path=path)
    assert status == 200, answer
    event = product.events()[0]
    assert (event.namespace, event.table) == ("a\x1fb c\x1fd+e", "deep")


_OPERATIONS = [
    ("GET", f"{HOST}/{KEY}", {"Range": "bytes=0-3", "x-amz-te": "append-md5"}, None),
    ("HEAD", f"{HOST}/{KEY}", {}, None),
    ("GET", f"{HOST}?list-type=2&prefix=wh/t1/&delimiter=/&max-keys=1&encoding-type=url", {}, None),
    ("GET", f"{HOST}/{KEY}?uploadId=u%2Fv", {}, None),
    ("PUT", f"{HOST}/{KEY}", {"Content-Type": "application/octet-stream", "Content-MD5": "x=="}, None),
    ("PUT", f"{HOST}/{KEY}", {"x-amz-copy-source": "/my-bucket/wh/t1/other"}, None),
    ("POST", f"{HOST}/{KEY}?uploads", {"Content-Length": "0"}, None),
    ("PUT", f"{HOST}/{KEY}?uploadId=u&partNumber=2", {"Expect": "100-continue"}, None),
    ("PUT", f"{HOST}/{KEY}?partNumber=2&uploadId=u", {"x-amz-copy-source": "my-bucket/wh/t1/o%20p"}, None),
    ("POST", f"{HOST}/{KEY}?uploadId=u", {"Content-Type": "application/xml"}, None),
    ("DELETE", f"{HOST}/{KEY}?uploadId=u", {}, None),
    ("DELETE", f"{HOST}/{KEY}", {}, None),
    ("POST", f"{HOST}?delete", {"Content-MD5": "x"}, "<Delete><Object><Key>wh/t1/\u00e9</Key></Object></Delete>"),
]


@pytest.mark.parametrize("session_token", ("", "session/token+=="))
@pytest.mark.parametrize(("method", "uri", "sent", "body"), _OPERATIONS, ids=str)
async def test_each_operation_verifies_as_both_clients_send_it(
    method: str, uri: str, sent: dict[str, str], body: str | None, session_token: str, serve_product: ServeProduct
) -> None:
    """Java lays its headers over the answer's, PyIceberg the other way round: one signature has to fit both."""
    message = sign_message(method, uri, sent, **({} if body is None else {"body": body}))
    product = await serve_product(Product(session_token=session_token))
    status, _, answer = await product.call("POST", SIGN_T1, who="writer", body=msgspec.json.encode(message))
    assert status == 200, answer
    assert ("X-Amz-Security-Token" in answer["headers"]) is bool(session_token)
    for merge in (as_java, as_pyiceberg):
        wire = merge(message, answer)
        wire = type(wire)(wire.method, wire.target, wire.headers, None if body is None else body.encode())
        tokens = {ACCESS_KEY: session_token} if session_token else None
        verify(wire, {ACCESS_KEY: SECRET}, now=time.time(), tokens=tokens)


async def test_pyicebergs_chunked_upload_keeps_its_payload_mode(serve_product: ServeProduct) -> None:
    """Any other value stores the framing as the object, unnoticed before the read."""
    message = sign_message(
        "PUT",
        headers={
            "Transfer-Encoding": "chunked",
            "Content-Encoding": "aws-chunked",
            "X-Amz-Trailer": "x-amz-checksum-crc32",
            "X-Amz-Decoded-Content-Length": "22",
            "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
            "Expect": "100-continue",
            "User-Agent": "aiobotocore",
        },
    )
    product = await serve_product(Product())
    _, _, answer = await product.call("POST", SIGN_T1, who="writer", body=msgspec.json.encode(message))
    assert answer["headers"]["x-amz-content-sha256"] == ["STREAMING-UNSIGNED-PAYLOAD-TRAILER"]
    _verified(message, answer)


async def test_a_short_signature_is_dated_back(serve_product: ServeProduct) -> None:
    """A revoked writer keeps signatures until they expire; the shorter they live, the sooner the revoke works."""
    message = sign_message()
    product = await serve_product(Product(signature_ttl=60))
    now = time.time()
    _, _, answer = await product.call("POST", SIGN_T1, body=msgspec.json.encode(message))
    _verified(message, answer, now=now + 55)
    with pytest.raises(AssertionError, match="RequestTimeTooSkewed"):
        _verified(message, answer, now=now + 65)


async def test_write_once_tables_guard_the_write(serve_product: ServeProduct) -> None:
    """Two writers of one key would overwrite each other's data file."""
    path = "/s3-sign/v1/lake/namespaces/ns/tables/once"
    uri = f"{HOST}/wh/once/f"
    product = await serve_product(Product())
    for method, address, guarded in (
        ("PUT", uri, True),
        ("POST", f"{uri}?uploadId=u", True),
        ("POST", f"{uri}?uploads", False),
        ("PUT", f"{uri}?partNumber=1&uploadId=u", False),
        ("GET", uri, False),
        ("DELETE", uri, False),
    ):
        for sent in ({}, {"If-None-Match": "*"}) if guarded else ({},):
            message = sign_message(method, address, {**sent, "Content-Type": "a/b", "x-amz-meta-a": "1"})
            _, _, answer = await product.call("POST", path, who="writer", body=msgspec.json.encode(message))
            assert ("If-None-Match" in answer["headers"]) is guarded
            assert ("if-none-match" in answer["headers"]["Authorization"][0]) is guarded
            _verified(message, answer)
    for refused in ({"If-None-Match": '"e"'}, {"If-Match": '"e"'}, {"x-amz-copy-source": "/my-bucket/wh/once/a"}):
        status, answer = await product.sign("PUT", uri, who="writer", path=path, headers=refused)
        assert (status, answer["error"]["type"]) == (403, "OverwriteForbidden")


async def test_a_write_to_an_unsafe_store_needs_the_operators_word(serve_product: ServeProduct) -> None:
    """On such a store the client adds a copy source to a signed PUT and reads every table."""
    path = "/s3-sign/v1/lake/namespaces/ns/tables/small"
    uri = "http://minio.local:9000/small/wh/small/f"
    product = await serve_product(Product())
    assert (await product.sign("GET", uri, path=path, region="us-east-1"))[0] == 200
    for method, address in (("PUT", uri), ("DELETE", uri), ("POST", f"{uri}?uploads")):
        status, answer = await product.sign(method, address, who="writer", path=path, region="us-east-1")
        assert (status, answer["error"]["type"]) == (403, "StorageNotSafe")
    # Looking at the parts of an upload changes nothing.
    assert (await product.sign("GET", f"{uri}?uploadId=u", who="writer", path=path, region="us-east-1"))[0] == 200
    product = await serve_product(Product(accepted_unsafe=frozenset({"minio"})))
    assert (await product.sign("PUT", uri, who="writer", path=path, region="us-east-1"))[0] == 200
    assert (await product.sign("GET", uri, path=path, region="us-east-1"))[0] == 200
    assert [event.unsafe_storage for event in product.events()] == [True, False]


_FORBIDDEN = "Insufficient privileges"
_DENIALS: list[tuple[str, str, str, str, int, str, Reason]] = [
    # who asks for which method and uri at which path, what is answered, and what the operator sees
    (
        "writer",
        "GET",
        f"{HOST}/{KEY}",
        "/s3-sign/v1/nope/namespaces/ns/tables/t1",
        403,
        _FORBIDDEN,
        Reason.CATALOG_UNKNOWN,
    ),
    (
        "writer",
        "GET",
        f"{HOST}/{KEY}",
        "/s3-sign/v1/hidden/namespaces/ns/tables/h1",
        403,
        _FORBIDDEN,
        Reason.PRINCIPAL_UNKNOWN,
    ),
    (
        "writer",
        "GET",
        f"{HOST}/{KEY}",
        "/s3-sign/v1/lake/namespaces/none/tables/t1",
        403,
        _FORBIDDEN,
        Reason.TABLE_UNKNOWN,
    ),
    (
        "writer",
        "GET",
        f"{HOST}/{KEY}",
        "/s3-sign/v1/lake/namespaces/ns/tables/none",
        403,
        _FORBIDDEN,
        Reason.TABLE_UNKNOWN,
    ),
    ("writer", "GET", f"{HOST}/elsewhere/f", "/v1/aws/s3/sign", 403, _FORBIDDEN, Reason.LOCATION_UNOWNED),
    ("nobody", "GET", f"{HOST}/{KEY}", SIGN_T1, 403, _FORBIDDEN, Reason.PRINCIPAL_UNKNOWN),
    ("stranger", "GET", f"{HOST}/{KEY}", SIGN_T1, 403, _FORBIDDEN, Reason.PRINCIPAL_UNKNOWN),
    ("data-only", "GET", f"{HOST}/{KEY}", SIGN_T1, 403, _FORBIDDEN, Reason.NO_REMOTE_SIGN),
    ("sign-only", "GET", f"{HOST}/{KEY}", SIGN_T1, 403, _FORBIDDEN, Reason.NO_READ_DATA),
    ("sign-only", "PUT", f"{HOST}/{KEY}", SIGN_T1, 403, _FORBIDDEN, Reason.NO_WRITE_DATA),
    ("reader", "PUT", f"{HOST}/{KEY}", SIGN_T1, 403, _FORBIDDEN, Reason.NO_WRITE_DATA),
    ("reader", "GET", f"{HOST}/{KEY}?uploadId=u", SIGN_T1, 403, _FORBIDDEN, Reason.NO_WRITE_DATA),
    (
        "reader",
        "GET",
        "http://far.local/far/dark/d1/f",
        "/s3-sign/v1/dark/namespaces/ns/tables/d1",
        403,
        "Remote signing is not enabled",
        Reason.REMOTE_SIGNING_OFF,
    ),
    # Whether a foreign catalog signs is not told.
    (
        "writer",
        "GET",
        "http://far.local/far/dark/d1/f",
        "/s3-sign/v1/dark/namespaces/ns/tables/d1",
        403,
        _FORBIDDEN,
        Reason.PRINCIPAL_UNKNOWN,
    ),
    (
        "reader",
        "GET",
        "http://far.local/far/foreign/f1/f",
        "/s3-sign/v1/foreign/namespaces/ns/tables/f1",
        403,
        "Cannot use S3 remote signing with federated catalogs",
        Reason.CATALOG_FEDERATED,
    ),
    (
        "writer",
        "GET",
        f"{HOST}/wh/t2/f",
        SIGN_T1,
        403,
        "The request leaves the locations of the table",
        Reason.OUTSIDE_TABLE,
    ),
    (
        "writer",
        "GET",
        f"{HOST}/wh/t10/f",
        SIGN_T1,
        403,
        "The request leaves the locations of the table",
        Reason.OUTSIDE_TABLE,
    ),
    # Another catalog's storage is as unknown as any host.
    (
        "writer",
        "GET",
        "http://far.local/far/dark/d1/f",
        SIGN_T1,
        403,
        "The uri does not address a storage of this catalog",
        Reason.ENDPOINT_UNKNOWN,
    ),
    (
        "writer",
        "GET",
        "http://no.local/far/dark/d1/f",
        SIGN_T1,
        403,
        "The uri does not address a storage of this catalog",
        Reason.ENDPOINT_UNKNOWN,
    ),
    (
        "writer",
        "PUT",
        f"{HOST}/wh/t1/metadata/v3.metadata.json",
        SIGN_T1,
        403,
        "The metadata files of the table are protected",
        Reason.METADATA_PROTECTED,
    ),
    (
        "writer",
        "DELETE",
        f"{HOST}/wh/t1/metadata",
        SIGN_T1,
        403,
        "The metadata files of the table are protected",
        Reason.METADATA_PROTECTED,
    ),
    (
        "writer",
        "GET",
        f"{HOST}/{KEY}",
        "/s3-sign/v1/located/namespaces/ns/tables/l1",
        403,
        _FORBIDDEN,
        Reason.PRINCIPAL_UNKNOWN,
    ),
    (
        "half",
        "GET",
        "https://my-other.s3.us-west-2.amazonaws.com/wh/l2/f",
        "/catalogs/located/v1/aws/s3/sign",
        403,
        _FORBIDDEN,
        Reason.NO_REMOTE_SIGN,
    ),
]


@pytest.mark.parametrize(("who", "method", "uri", "path", "status", "told", "reason"), _DENIALS, ids=str)
async def test_a_denial_tells_the_caller_little_and_the_operator_all(
    who: str, method: str, uri: str, path: str, status: int, told: str, reason: Reason, *, serve_product: ServeProduct
) -> None:
    """What a caller learns of other tables, it uses; what an operator does not learn is guessed."""
    region = "us-east-1" if ".local" in uri else "us-west-2"
    product = await serve_product(Product())
    got, answer = await product.sign(method, uri, who=who, path=path, region=region)
    assert (got, answer["error"]["message"], answer["error"]["code"]) == (status, told, status)
    assert answer["error"]["type"] == reason.value.type
    event = product.events()[0]
    assert event.reason == reason.code
    assert event.decision.value == "deny"
    assert event.principal == f"static/{who}"
    assert event.detail
    assert event.request_id == answer["error"]["request_id"]


async def test_unknown_and_forbidden_answer_with_the_same_bytes(serve_product: ServeProduct) -> None:
    """Any difference is a way to ask which catalogs and tables there are."""
    paths = [
        "/s3-sign/v1/nope/namespaces/ns/tables/t1",
        "/s3-sign/v1/hidden/namespaces/ns/tables/h1",
        "/s3-sign/v1/hidden/namespaces/ns/tables/nope",
        "/s3-sign/v1/lake/namespaces/nope/tables/t1",
        "/s3-sign/v1/lake/namespaces/ns/tables/nope",
        "/catalogs/nope/v1/aws/s3/sign",
    ]
    bodies = set()
    product = await serve_product(Product())
    for path in paths:
        status, answer = await product.sign(who="writer", path=path)
        answer["error"].pop("request_id")
        bodies.add((status, msgspec.json.encode(answer)))
    status, answer = await product.sign("GET", who="data-only")
    answer["error"].pop("request_id")
    bodies.add((status, msgspec.json.encode(answer)))
    assert len(bodies) == 1


async def test_by_location_authorises_the_table_that_owns_the_key(serve_product: ServeProduct) -> None:
    """PyIceberg sends a table's objects to whichever sign route it registered last."""
    uri = "https://my-other.s3.us-west-2.amazonaws.com/wh/l2/f"
    path = "/s3-sign/v1/located/namespaces/ns/tables/l1"
    product = await serve_product(Product())
    assert (await product.sign(uri=uri, path=path))[0] == 200
    assert (await product.sign(uri=uri, path=path, who="half"))[0] == 403
    assert (await product.sign(uri=uri.replace("l2", "l1"), path=path, who="half"))[0] == 200
    assert [event.table for event in product.events()] == ["l2", "l2", "l1"]
    # The name in the path is a hint, and not any word: a table of that name has to be there.
    assert (await product.sign(uri=uri, path=path.replace("l1", "nope")))[0] == 403
    assert product.events()[-1].reason == "table_unknown"


@pytest.mark.parametrize("stamp", ("query", "off"))
async def test_a_query_of_nothing_is_signed_as_no_query(stamp: str, serve_product: ServeProduct) -> None:
    """Some HTTP libraries leave the mark behind where they had no parameters; S3 reads both forms as one."""
    policy = POLICY.replace("    kind: aws\n", f'    kind: aws\n    stamp: "{stamp}"\n')
    product = await serve_product(Product(policy))
    message = sign_message("GET", f"{HOST}/{KEY}?")
    status, _, answer = await product.call("POST", SIGN_T1, who="reader", body=msgspec.json.encode(message))
    assert status == 200, answer
    assert answer["uri"].partition("?")[0] == f"{HOST}/{KEY}"
    assert answer["uri"].count("?") == (stamp == "query")
    _verified(message, answer)


async def test_an_issuer_speaks_for_its_catalogs_only(serve_product: ServeProduct) -> None:
    """A test issuer must not reach the catalog of production."""
    product = await serve_product(Product(catalogs=("located",)))
    status, answer = await product.sign()
    assert (status, answer["error"]["message"]) == (403, _FORBIDDEN)
    assert product.events()[0].reason == Reason.CATALOG_NOT_FOR_ISSUER.code


async def test_both_switches_are_off_unless_switched_on(serve_product: ServeProduct) -> None:
    """A catalog that signs because no switch says otherwise is a surprise in an audit."""
    from tests.product import POLICY

    for policy in (
        POLICY.replace("remote_signing: true\ndefault", "default", 1),
        POLICY.replace(
            'roots: ["s3://my-bucket/wh", "s3://small/wh"]\n    remote_signing: true',
            'roots: ["s3://my-bucket/wh", "s3://small/wh"]',
        ),
    ):
        product = await serve_product(Product(policy))
        status, answer = await product.sign()
        assert (status, answer["error"]["message"]) == (403, "Remote signing is not enabled")


async def test_a_reload_bites_on_the_next_request(serve_product: ServeProduct) -> None:
    """A revoked reader who is served once more has been served once too often."""
    from tests.product import POLICY

    product = await serve_product(Product())
    assert (await product.sign())[0] == 200
    product.source.replace(POLICY.replace("reader: {roles: [readers]}", "reader: {roles: []}"))
    product.state = product.source.load(2)
    assert (await product.sign())[0] == 403
    assert [event.policy_epoch for event in product.events()] == [1, 2]


def test_the_same_path_is_parsed_once() -> None:
    """A job signs thousands of files through one route."""
    assert find_route(SIGN_T1) is find_route(SIGN_T1)
