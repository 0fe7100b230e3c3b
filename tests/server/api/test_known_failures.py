"""What went wrong between signers and clients before, row by row of a catalogue of 21 public failures.

Each test is named for its row and the public issue that it comes from.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from signproxy.errors import Reason
from signproxy.server.api.listener import MAX_HEADER
from tests.product import ACCESS_KEY, HOST, KEY, SECRET, SIGN_T1, Product, ServeProduct, sign_message, token_of
from tests.verifier import as_java, as_pyiceberg, verify


def _signed_names(answer: dict[str, Any]) -> list[str]:
    return str(answer["headers"]["Authorization"][0]).split("SignedHeaders=")[1].split(",")[0].split(";")


async def test_row_01_chunked_uploads_are_not_signed_as_unsigned_payload(serve_product: ServeProduct) -> None:
    """iceberg-python #2422: the store kept the chunk framing as the object."""
    chunked = {"Content-Encoding": "aws-chunked", "X-Amz-Trailer": "x-amz-checksum-crc32"}
    product = await serve_product(Product())
    for sent in ({**chunked, "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}, chunked):
        _, answer = await product.sign("PUT", who="writer", headers=sent)
        assert answer["headers"]["x-amz-content-sha256"] == ["STREAMING-UNSIGNED-PAYLOAD-TRAILER"]


async def test_row_02_expect_is_no_reason_to_fail(serve_product: ServeProduct) -> None:
    """iceberg-python #3291, #3526: a signer under load answered 412 to it."""
    product = await serve_product(Product())
    status, answer = await product.sign("PUT", who="writer", headers={"Expect": "100-continue", "Connection": "x"})
    assert status == 200
    assert "expect" not in _signed_names(answer)
    status, headers, _ = await product.call(
        "POST", SIGN_T1, headers={"Expect": "100-continue"}, body=msgspec.json.encode(sign_message())
    )
    assert (status, headers["Content-Type"]) == (200, "application/json")


@pytest.mark.parametrize(
    "uri",
    (
        f"{HOST}/{KEY}",
        f"https://s3.us-west-2.amazonaws.com/my-bucket/{KEY}",
        f"https://my-bucket.s3.amazonaws.com/{KEY}",
    ),
)
async def test_row_03_both_styles_are_signed_as_they_were_sent(uri: str, serve_product: ServeProduct) -> None:
    """iceberg-python #2746, nessie #12854: the bucket was guessed from the first label."""
    product = await serve_product(Product())
    status, answer = await product.sign("GET", uri)
    assert status == 200
    assert answer["uri"].startswith(uri)


async def test_row_04_lists_below_the_table_are_signed(serve_product: ServeProduct) -> None:
    """Lakekeeper #1917: `remove_orphan_files` died."""
    product = await serve_product(Product())
    assert (await product.sign("GET", f"{HOST}?list-type=2&prefix=wh/t1/data/"))[0] == 200
    assert (await product.sign("GET", f"{HOST}?list-type=2&prefix=wh/"))[0] == 403


async def test_row_05_a_bulk_delete_is_bound_to_its_body(serve_product: ServeProduct) -> None:
    """Iceberg #8365: without the hash the client could send other keys."""
    body = "<Delete><Object><Key>wh/t1/\U0001f9ca</Key></Object></Delete>"
    message = sign_message("POST", f"{HOST}?delete", {"Content-MD5": "x"}, body=body)
    product = await serve_product(Product())
    _, _, answer = await product.call("POST", SIGN_T1, who="writer", body=msgspec.json.encode(message))
    refused = await product.sign("POST", f"{HOST}?delete", who="writer")
    assert (refused[0], refused[1]["error"]["type"]) == (400, "InvalidDeleteBody")
    wire = as_java(message, answer)
    verify(type(wire)(wire.method, wire.target, wire.headers, body.encode()), {ACCESS_KEY: SECRET}, now=time.time())
    other = body.replace("t1", "t2").encode()
    with pytest.raises(AssertionError, match="XAmzContentSHA256Mismatch"):
        verify(type(wire)(wire.method, wire.target, wire.headers, other), {ACCESS_KEY: SECRET}, now=time.time())


async def test_row_06_an_expired_token_is_a_401_that_says_so() -> None:
    """iceberg-python #2823: long jobs outlive their token; a 403 would not make the client refresh it."""
    assert Reason.TOKEN_EXPIRED.status == 401
    assert Reason.TOKEN_EXPIRED.value.message == "The bearer token has expired"


async def test_row_07_and_08_a_missing_token_is_named(serve_product: ServeProduct) -> None:
    """iceberg-python #2544, #2790: an empty 401 hid that no token was sent at all."""
    product = await serve_product(Product())
    for headers in ({}, {"Authorization": "Basic dTpw"}, {"Authorization": "Bearer "}, {"Authorization": ""}):
        status, got, answer = await product.call("POST", SIGN_T1, who=None, headers=headers, body=b"{}")
        assert (status, answer["error"]["message"]) == (401, "Missing bearer token")
        assert answer["error"]["type"] == "NotAuthorizedException"
        assert got["WWW-Authenticate"].startswith("Bearer")


async def test_row_09_an_unsigned_client_never_asks_and_that_is_documented() -> None:
    """iceberg-python #3625: some s3fs versions never call the signer; nothing here can see them."""
    from pathlib import Path

    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert "2026.2.0" in readme


async def test_row_10_another_catalogs_token_is_a_401_and_never_logged(serve_product: ServeProduct) -> None:
    """Iceberg #14100: catalog B's token was sent to catalog A's signer."""
    foreign = "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJiIn0.c2lnbmF0dXJl"
    product = await serve_product(Product())
    status, _, _ = await product.call("POST", SIGN_T1, headers={"Authorization": f"Bearer {foreign}"}, body=b"{}")
    assert status == 401
    events = product.events()
    assert events[0].reason == Reason.TOKEN_ISSUER_UNKNOWN.code
    assert foreign.encode() not in msgspec.json.encode(events)


async def test_row_11_answers_are_not_cached_across_principals(serve_product: ServeProduct) -> None:
    """Iceberg #17801: one user's signature was handed to another one of the same JVM."""
    product = await serve_product(Product())
    _, headers, _ = await product.call("POST", SIGN_T1, body=msgspec.json.encode(sign_message()))
    assert headers["Cache-Control"] == "no-cache"


async def test_row_12_few_headers_are_signed(serve_product: ServeProduct) -> None:
    """Iceberg #15417: a signed Range or User-Agent breaks every reuse of the signature."""
    sent = {
        "User-Agent": "x",
        "Range": "bytes=0-1",
        "If-Match": "e",
        "amz-sdk-invocation-id": "i",
        "amz-sdk-request": "attempt=1",
        "Referer": "r",
        "x-amzn-trace-id": "t",
        "Accept": "*/*",
        "x-amz-te": "append-md5",
    }
    product = await serve_product(Product())
    _, answer = await product.sign("GET", headers=sent)
    assert _signed_names(answer) == ["host", "x-amz-content-sha256", "x-amz-date", "x-amz-te"]


async def test_row_13_the_endpoint_is_relative_and_without_a_slash(serve_product: ServeProduct) -> None:
    """Nessie #8871: absolute endpoints and leading slashes break clients."""
    product = await serve_product(Product())
    _, _, answer = await product.call("GET", "/v1/config")
    overrides = answer["overrides"]
    assert not overrides["s3.signer.endpoint"].startswith(("/", "http"))
    assert overrides["s3.signer.uri"].startswith("https://")


async def test_row_14_the_advertised_host_is_the_operators(serve_product: ServeProduct) -> None:
    """Nexus-Stack #837: the Host of a request sent clients to a web page."""
    product = await serve_product(Product())
    _, _, answer = await product.call(
        "GET", "/v1/config", headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"}
    )
    assert answer["overrides"]["s3.signer.uri"] == "https://sign.example/base/catalogs/lake/"


async def test_row_15_nothing_is_rewritten_on_the_way_to_the_store(serve_product: ServeProduct) -> None:
    """Lakekeeper #1763: reads were truncated; a signer that never touches the body cannot."""
    uri = f"{HOST}/{KEY}"
    product = await serve_product(Product())
    _, answer = await product.sign("GET", uri, headers={"Range": "bytes=5-9"})
    assert answer["uri"].partition("?")[0] == uri
    assert set(answer["headers"]) == {"Authorization", "X-Amz-Date", "x-amz-content-sha256"}


@pytest.mark.parametrize("raw", ("a%3Db", "a=b", "a%252Fb", "caf%C3%A9", "caf%c3%a9", "%7Ea", "a:b", "a+b", "a%2Bb"))
async def test_row_16_every_spelling_of_a_key_verifies(raw: str, serve_product: ServeProduct) -> None:
    """Envoy #35023, multistore #105: keys were encoded twice, or not at all."""
    message = sign_message("GET", f"{HOST}/wh/t1/{raw}")
    product = await serve_product(Product())
    _, _, answer = await product.call("POST", SIGN_T1, body=msgspec.json.encode(message))
    for merge in (as_java, as_pyiceberg):
        verify(merge(message, answer), {ACCESS_KEY: SECRET}, now=time.time(), region="us-west-2")


async def test_row_17_another_region_is_told_at_once(serve_product: ServeProduct) -> None:
    """The store would only answer AuthorizationHeaderMalformed."""
    product = await serve_product(Product())
    status, answer = await product.sign(region="eu-central-1")
    assert (status, answer["error"]["type"]) == (400, "RegionMismatch")


async def test_row_18_signing_is_advertised_only_where_it_works(serve_product: ServeProduct) -> None:
    """Lakekeeper #1908: signing was advertised, and the table's own URIs refused."""
    product = await serve_product(Product())
    for warehouse, on in (("lake", True), ("located", True), ("dark", False), ("foreign", False)):
        _, _, answer = await product.call("GET", f"/v1/config?warehouse={warehouse}")
        assert bool(answer["endpoints"]) is on
        assert ("aws.remote-signing.enabled" in answer["overrides"]) is on


async def test_row_19_every_amz_header_is_signed_and_unknown_ones_refused(serve_product: ServeProduct) -> None:
    """Versitygw #2158: an unsigned header turned a write into a copy."""
    sent = {"x-amz-meta-b": "2", "X-Amz-Checksum-Crc32": "AAAAAA==", "x-amz-sdk-checksum-algorithm": "CRC32"}
    product = await serve_product(Product())
    _, answer = await product.sign("PUT", who="writer", headers=sent)
    assert {name.lower() for name in sent} <= set(_signed_names(answer))
    status, answer = await product.sign("PUT", who="writer", headers={"x-amz-acl": "public-read"})
    assert (status, answer["error"]["type"]) == (403, "HeaderNotAllowed")


async def test_row_20_an_endpoint_may_carry_a_query(serve_product: ServeProduct) -> None:
    """iceberg-python #740, #1028: endpoints with a query were mangled."""
    product = await serve_product(Product())
    for query in ("?", "?a=b", "?a=b/c&d"):
        assert (await product.sign(path=f"{SIGN_T1}{query}"))[0] == 200


async def test_row_21_content_md5_is_signed(serve_product: ServeProduct) -> None:
    """Lakekeeper #212: S3 answers 403 to one that is not."""
    product = await serve_product(Product())
    _, answer = await product.sign("PUT", who="writer", headers={"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="})
    assert "content-md5" in _signed_names(answer)


async def test_tokens_of_16_kib_reach_the_check_of_tokens(serve_product: ServeProduct) -> None:
    """Aiohttp's own limit of 8 KiB would answer in a form that no Iceberg client reads."""
    product = await serve_product(Product())
    for length in (16 * 1024, 16 * 1024 + 1):
        status, _, answer = await product.call(
            "POST", SIGN_T1, headers={"Authorization": f"Bearer {'a' * length}"}, body=b"{}"
        )
        assert (status, answer["error"]["type"]) == (401, "NotAuthorizedException")
    assert len(token_of("reader")) < MAX_HEADER
