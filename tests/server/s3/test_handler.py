"""A request of an S3 client is judged, forwarded and recorded once; a refusal is one that S3's clients understand."""

from __future__ import annotations

import asyncio
import hashlib
import re
import socket
import struct
from datetime import datetime
from time import time
from typing import Any, cast
from urllib.parse import urlsplit
from xml.etree import ElementTree

import msgspec
import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys

from signproxy.audit.event import Verdict
from signproxy.config.s3 import S3LimitSettings
from signproxy.config.settings import LimitSettings
from signproxy.errors import Reason
from signproxy.s3.answers import escaped
from signproxy.s3.codes import s3_code
from signproxy.server.s3 import s3_way as module
from signproxy.server.status.status import grouped
from signproxy.transfer.faults import MessageFault, MessageInvalid
from tests.audit.sinks import MemorySink
from tests.forward.upstream import Talk, serving
from tests.server.s3.door import POLICY, REGION, Door, answer_of, opened, request, signed
from tests.verifier import WireHttp, verify
from tests.waiting import until

TARGET = "/data/wh/t1/data/a.parquet"
OUTSIDE = "/data/wh/t2/data/a.parquet"
DELETE = b"<Delete>%b</Delete>"


HALF = 1024 * 1024
"""Of an answer that is too large to be collected first."""


def deletion(*keys: str) -> bytes:
    return DELETE % b"".join(b"<Object><Key>%b</Key></Object>" % key.encode() for key in keys)


# -- what is served ----------------------------------------------------------------------------------------------------


async def test_what_the_policy_allows_is_forwarded_and_recorded_once() -> None:
    """The trail could not say who read an object, or from which store's answer it came."""
    async with opened(serving(b"content", 'ETag: "x"\r\n')) as door:
        answer = await door.ask("GET", TARGET, who="reader")
        assert (answer.status, answer.body, answer.headers["ETag"]) == (200, b"content", '"x"')
        assert answer.headers["x-amz-request-id"] == "UP1"
        event = door.event
        assert answer.headers["x-signproxy-event-id"] == event.event_id
        assert (event.kind.value, event.decision.value, event.s3_op) == ("forward", "allow", "GetObject")
        assert (event.principal, event.table, event.key) == ("static/reader", "t1", "wh/t1/data/a.parquet")
        assert (event.http_status, event.bytes_out, event.remote_ip) == (200, 7, "127.0.0.1")
        sent = door.upstream.requests[0]
        assert sent.target == TARGET
        assert "Bearer" not in sent.head.decode()


async def test_requests_of_one_connection_are_each_judged_for_themselves() -> None:
    """The second request of a connection would be served on the word of the first."""
    async with opened(serving(b"content")) as door:
        client = await door.connect()
        assert (await door.ask("GET", TARGET, who="reader", client=client)).status == 200
        assert (await door.ask("GET", TARGET, who="nobody", client=client)).status == 403
        assert (await door.ask("GET", TARGET, who="reader", client=client)).status == 200
        assert [event.principal for event in door.events()] == ["static/reader", "static/nobody", "static/reader"]
        await client.close()


async def test_a_key_opens_the_listener_for_the_holder_of_its_secret() -> None:
    """A stock SDK could not be used, or could be with another caller's secret."""
    async with opened(serving(b"content")) as door:
        key = door.key()
        headers = signed(door, key, "GET", TARGET)
        assert (await door.ask("GET", TARGET, who=None, headers=headers)).status == 200
        other = msgspec.structs.replace(key, secret_access_key="x" * 40)
        refused = await door.ask("GET", TARGET, who=None, headers=signed(door, other, "GET", TARGET))
        assert (refused.status, refused.code) == (403, "SignatureDoesNotMatch")
        assert [event.reason for event in door.events()] == ["allowed", "signature_mismatch"]


async def test_the_store_is_shown_nothing_of_how_the_caller_was_identified() -> None:
    """A store, and its log, would get tokens that are good elsewhere."""
    async with opened(serving(b"content")) as door:
        key = door.key()
        await door.ask("GET", TARGET, who=None, headers=signed(door, key, "GET", TARGET))
        head = door.upstream.requests[0].head.decode()
        assert key.access_key_id not in head
        assert key.session_token not in head
        assert "AKIAEXAMPLE0000STORE" in head


def presigned(door: Door, method: str, target: str) -> str:
    """Return a target as botocore presigns it, with all that stands in its query."""
    key = door.key()
    asked = AWSRequest(method, f"http://{door.address}{target}")
    credentials = Keys(key.access_key_id, key.secret_access_key, key.session_token)
    S3SigV4QueryAuth(credentials, "s3", REGION, 600).add_auth(asked)
    parts = urlsplit(asked.url)
    return f"{parts.path}?{parts.query}"


async def test_a_checksum_in_the_query_of_a_presigned_upload_stays_there() -> None:
    """The SDK for JavaScript presigns the checksum of an empty body by default: uploads through the URL were 400."""
    target = f"{TARGET}?x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject"
    async with opened(serving(b"")) as door:
        sent_as = presigned(door, "PUT", target)
        told = await door.ask("PUT", sent_as, who=None, headers={"Host": door.address}, body=b"content")
        assert told.status == 200, told.body
        sent = door.upstream.requests[0]
        path, _, query = sent.target.partition("?")
        assert (path, sent.body) == (TARGET, b"content")
        assert sorted(query.split("&")) == [
            "x-amz-checksum-crc32=AAAAAA%3D%3D", "x-amz-sdk-checksum-algorithm=CRC32", "x-id=PutObject",
        ]  # fmt: skip
        assert b"checksum" not in sent.head.partition(b"\r\n")[2].lower()
        assert b"X-Amz-Signature" not in sent.head
        lines = [line.split(": ", 1) for line in sent.head.decode("latin-1").split("\r\n")[1:-2]]
        wire = WireHttp("PUT", sent.stamped_target, tuple((name, value) for name, value in lines), sent.body)
        verify(wire, {"AKIAEXAMPLE0000STORE": "store+secret"}, now=time(), region=REGION)


async def test_a_header_in_the_query_reaches_no_further_than_as_a_header() -> None:
    """A caller that may presign would make an object public, or copy what it may not read."""
    async with opened(serving(b"")) as door:
        for query, reason in (
            ("x-amz-acl=public-read", "header_value"),
            ("X-AMZ-ACL=public-read", "header_value"),
            ("x-amz-grant-read=uri%3Deverybody", "header_refused"),
            ("x-amz-copy-source=%2Fdata%2Fwh%2Ft2%2Fa", "copy_source_outside"),
            ("x-amz-decoded-content-length=3", "header_refused"),
        ):
            target = presigned(door, "PUT", f"{TARGET}?{query}")
            told = await door.ask("PUT", target, who=None, headers={"Host": door.address}, body=b"")
            assert (400 <= told.status < 404, door.events()[-1].reason) == (True, reason)
        assert not door.upstream.requests


OFFER = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA"}


@pytest.mark.parametrize("headers", (OFFER, {"Expect": ""}, {"Expect": "100-continue-not"}), ids=("h2c", "", "unknown"))
async def test_an_offer_that_a_server_may_ignore_is_ignored(headers: dict[str, str]) -> None:
    """Java's own client offers HTTP/2 with each request, as `curl --http2` does, and was refused where S3 serves it."""
    async with opened(serving(b"content")) as door:
        client = await door.connect()
        for method, body in (("GET", None), ("PUT", b"data"), ("GET", None)):
            answer = await door.ask(method, TARGET, headers=headers, body=body, client=client)
            assert answer.status == 200
            assert "Upgrade" not in answer.headers
        for sent in door.upstream.requests:
            for name in ("connection", "upgrade", "http2-settings", "expect"):
                assert name not in sent.head.decode().lower()
        assert door.upstream.requests[1].body == b"data"
        await client.close()


async def test_what_signproxy_said_of_an_answer_may_be_sent_back() -> None:
    """Clients that write an object's own headers back, such as `s3cmd modify`, were refused for one of ours."""
    async with opened(serving(b"content")) as door:
        told = (await door.ask("HEAD", TARGET)).headers
        headers = {"x-signproxy-event-id": told["x-signproxy-event-id"], "x-amz-meta-kept": "1"}
        assert (await door.ask("PUT", TARGET, headers=headers, body=b"data")).status == 200
        sent = door.upstream.requests[-1].head.decode()
        assert "x-signproxy" not in sent.partition("\r\n")[2]
        assert "x-amz-meta-kept: 1" in sent
        refused = await door.ask("PUT", TARGET, headers={"x-signproxy-id": "x"}, body=b"data")
        assert (refused.status, door.events()[-1].reason) == (403, "header_refused")


async def test_a_bucket_may_stand_in_the_host() -> None:
    """Clients that know no path style could not be used."""
    async with opened(serving(b"content"), base_domains=("s3.test",)) as door:
        answer = await door.ask("GET", "/wh/t1/data/a.parquet", headers={"Host": "data.s3.test"})
        assert answer.status == 200
        assert door.upstream.requests[0].target == TARGET
        assert (door.event.bucket, door.event.key) == ("data", "wh/t1/data/a.parquet")


async def test_buckets_are_those_that_the_caller_may_know_of() -> None:
    """A client would be shown the buckets of all tenants, or none at all."""
    async with opened() as door:
        answer = await door.ask("GET", "/", who="reader")
        assert re.findall(rb"<Name>(.*?)</Name>", answer.body) == [b"data"]
        answer = await door.ask("GET", "/", who="writer")
        assert re.findall(rb"<Name>(.*?)</Name>", answer.body) == [b"data", b"other"]
        assert [event.call for event in door.events()] == ["ListBuckets", "ListBuckets"]
        assert not door.upstream.requests


def _told(*names: str, token: str = "") -> bytes:
    buckets = "".join(f"<Bucket><Name>{name}</Name></Bucket>" for name in names)
    following = f"<ContinuationToken>{token}</ContinuationToken>" if token else ""
    owner = "<Owner><DisplayName>o</DisplayName></Owner>"
    return f"<ListAllMyBucketsResult>{owner}<Buckets>{buckets}</Buckets>{following}</ListAllMyBucketsResult>".encode()


async def test_buckets_that_clients_made_are_shown_to_callers_that_may_know_of_them() -> None:
    """A client would make a bucket and not find it, or find the buckets of all tenants."""
    pages = [_told("data", "made-1", "others-1", token="a b/c"), _told("made-2", "zzz")]
    pages[0] = pages[0].replace(b"made-1</Name>", b"made-1</Name><CreationDate>2020-01-02T03:04:05.678Z</CreationDate>")

    async def script(talk: Talk) -> None:
        while True:
            asked = await talk.request()
            await talk.answer(pages["continuation" in asked.target])

    async with opened(script) as door:
        answer = await door.ask("GET", "/", who="maker")
        assert re.findall(rb"<Name>(.*?)</Name>", answer.body) == [b"made-1", b"made-2"]
        # What the store does not say is the time since which the policy lists it, and not 1970.
        made, listed = re.findall(rb"<CreationDate>(.*?)</CreationDate>", answer.body)
        assert made == b"2020-01-02T03:04:05.678Z"
        assert abs(datetime.fromisoformat(listed.decode()).timestamp() - time()) < 60
        assert [asked.target for asked in door.upstream.requests] == ["/", "/?continuation-token=a%20b%2Fc"]
        assert "AKIAEXAMPLE0000STORE" in door.upstream.requests[0].head.decode()
        event = door.event
        assert (event.call, event.decision, event.upstream_status) == ("ListBuckets", Verdict.ALLOW, 200)
        # Each page stands in the store's log: as the event's, and not as what was never decided.
        assert (event.method, event.stamped, event.upstream_repeats) == ("GET", True, 1)
        assert {asked.stamp for asked in door.upstream.requests} == {event.event_id}
        answer = await door.ask("GET", "/?max-buckets=1&prefix=made-", who="maker")
        assert re.findall(rb"<Name>(.*?)</Name>", answer.body) == [b"made-1"]
        assert b"<ContinuationToken>made-1<" in answer.body


@pytest.mark.parametrize("status", ("503 Slow Down", "500 Internal Server Error", "400 Bad Request"))
async def test_a_store_that_fails_to_list_its_buckets_has_not_lost_them(status: str) -> None:
    """A client that mirrors what it sees would remove everything on its other side."""
    async with opened(serving(b"<Error/>", status=status)) as door:
        answer = await door.ask("GET", "/", who="maker")
        assert answer.status in (502, 503)
        assert (door.event.reason[:6], door.event.upstream_status) == ("store_", int(status[:3]))


async def test_a_store_that_may_not_list_its_buckets_shows_none_of_them() -> None:
    """Keys that may read objects and list no buckets are what careful people give signproxy."""
    async with opened(serving(b"<Error/>", status="403 Forbidden")) as door:
        answer = await door.ask("GET", "/", who="maker")
        assert (answer.status, re.findall(rb"<Name>(.*?)</Name>", answer.body)) == (200, [])
        assert door.event.upstream_status == 403


@pytest.mark.parametrize(
    "document", (b"<html>", b"\xff", _told("made-1", token="again")), ids=("html", "bytes", "endless")
)
async def test_a_store_that_answers_with_no_list_of_buckets_is_told_of(document: bytes) -> None:
    """An empty list would look like a store that lost everything; an endless one would never end."""
    async with opened(serving(document)) as door:
        answer = await door.ask("GET", "/", who="maker")
        if b"again" in document:
            assert answer.status == 200
            assert len(door.upstream.requests) == 100
        else:
            assert (answer.status, door.event.reason) == (502, "store_invalid")


async def test_keys_of_a_bulk_delete_are_judged_one_by_one() -> None:
    """One key outside would be deleted with the others, or keep them all."""
    result = b"<DeleteResult><Deleted><Key>wh/t1/data/a</Key></Deleted></DeleteResult>"
    async with opened(serving(result)) as door:
        body = deletion("wh/t1/data/a", "wh/t2/data/b")
        answer = await door.ask("POST", "/data?delete", body=body)
        assert re.findall(rb"<Key>(.*?)</Key>", answer.body) == [b"wh/t1/data/a", b"wh/t2/data/b"]
        assert re.findall(rb"<Code>(.*?)</Code>", answer.body) == [b"AccessDenied"]
        assert b"wh/t2" not in door.upstream.requests[-1].body
        assert door.events()[-1].refused_keys == 1


async def test_a_key_that_is_too_long_is_told_beside_the_keys_that_are_deleted() -> None:
    """boto3's clean-up of a bucket ended in MalformedXML for one name, and nothing was deleted."""
    result = b"<DeleteResult><Deleted><Key>wh/t1/data/a</Key></Deleted></DeleteResult>"
    long = "wh/t1/data/" + "a" * 1100
    async with opened(serving(result)) as door:
        answer = await door.ask("POST", "/data?delete", body=deletion("wh/t1/data/a", long))
        assert answer.status == 200, answer.body
        assert re.findall(r"<Key>(.*?)</Key>", answer.body.decode()) == ["wh/t1/data/a", long]
        assert re.findall(rb"<Code>(.*?)</Code>", answer.body) == [b"KeyTooLongError"]
        assert b"aaa" not in door.upstream.requests[-1].body
        assert (door.events()[-1].refused_keys, door.events()[-1].key_count) == (1, 1)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    (
        (b"<Delete>", "MalformedXML", "not well-formed XML"),
        (b"<!DOCTYPE Delete><Delete/>", "MalformedXML", "without document type"),
        (b"<Delete/>", "MalformedXML", "1 to 1,000 objects"),
        (deletion(*map(str, range(1001))), "MalformedXML", "more than 1000 objects"),
        (
            DELETE % b"<Object><Key>wh/t1/data/a</Key><VersionId>v</VersionId></Object>",
            "InvalidArgument",
            "VersionId is not accepted",
        ),
        (deletion("a" * 10_000), "KeyTooLongError", "key of 10000 characters, at most 8192 are read"),
    ),
    ids=("no XML", "document type", "no objects", "1,001 objects", "version", "endless key"),
)
async def test_the_fault_of_a_bulk_delete_is_told(body: bytes, code: str, words: str) -> None:
    """`The body of the bulk delete is not allowed` says nothing of what to change."""
    async with opened(serving(b"<DeleteResult/>")) as door:
        answer = await door.ask("POST", "/data?delete", body=body)
        assert (answer.status, answer.code) == (400, code)
        assert words in (ElementTree.fromstring(answer.body).findtext("Message") or "")  # noqa: S314 - of our server
        assert not door.upstream.requests


async def test_the_header_that_is_refused_is_told() -> None:
    """A client sends a dozen headers by itself: which of them to switch off cannot be found out otherwise."""
    async with opened(serving(b"")) as door:
        for name, words in (
            ("x-amz-grant-read", "The header 'x-amz-grant-read' is not allowed here"),
            ("x-amz-acl", "The value of the header 'x-amz-acl' is not allowed here"),
        ):
            answer = await door.ask("PUT", TARGET, headers={"x-amz-meta-a": "1", name: "public-read"}, body=b"a")
            assert answer.code == "AccessDenied"
            assert ElementTree.fromstring(answer.body).findtext("Message") == words  # noqa: S314 - of our server
        answer = await door.ask("GET", f"{TARGET}?acl")
        message = ElementTree.fromstring(answer.body).findtext("Message")  # noqa: S314 - of our own server
        assert message == "This S3 operation is not allowed here"


@pytest.mark.parametrize("value", ("", ",", "keep-alive,", ", keep-alive"))
async def test_a_client_behind_a_proxy_that_leaves_an_empty_option_is_served(value: str) -> None:
    """`Connection: keep-alive,` is a list with an empty element: each request with it was 400."""
    async with opened(serving(b"content")) as door:
        client = await door.connect()
        for _ in range(3):
            assert (await door.ask("GET", TARGET, headers={"Connection": value}, client=client)).status == 200
        await client.close()


@pytest.mark.parametrize("reference", ("&#x000002e;", "&#0000000046;", "&#46;"))
async def test_a_decoy_does_not_take_a_refused_key_along(reference: str) -> None:
    """A second reader took the two for one, and the metadata of a table was deleted by who may not."""
    refused = f"wh/t1/metadata/v1.metadata{reference}json"
    decoy = refused.replace("&", "&amp;")
    async with opened(serving(b"<DeleteResult/>")) as door:
        answer = await door.ask("POST", "/data?delete", body=deletion(refused, decoy, "wh/t1/data/a"))
        document = ElementTree.fromstring(answer.body)  # noqa: S314 - of our own server
        assert [key.text for key in document.iterfind("{*}Error/{*}Key")] == ["wh/t1/metadata/v1.metadata.json"]
        sent = ElementTree.fromstring(door.upstream.requests[-1].body)  # noqa: S314 - as a store reads it
        assert [key.text for key in sent.iterfind("{*}Object/{*}Key")] == [refused, "wh/t1/data/a"]
        (event,) = door.events()
        listed = f"{refused}\nwh/t1/data/a\n".encode()
        assert (event.key_count, event.keys_sha256) == (2, hashlib.sha256(listed).hexdigest())
        assert event.refused_keys == 1


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target", "who", "reason"),
    (
        ("GET", TARGET, None, Reason.ANONYMOUS_REQUEST),
        ("GET", OUTSIDE, "reader", Reason.NO_REMOTE_SIGN),
        ("GET", "/nowhere/a", "reader", Reason.ENDPOINT_UNKNOWN),
        ("PUT", TARGET, "reader", Reason.NO_WRITE_DATA),
        ("GET", "/data/wh/t1/../t2/a", "reader", Reason.KEY_DOT_SEGMENT),
        ("GET", "//data/a", "reader", Reason.KEY_EMPTY_SEGMENT),
        ("GET", f"{TARGET}?acl", "reader", Reason.OPERATION_REFUSED),
        ("GET", "/data", "reader", Reason.LIST_PREFIX),
    ),
)
async def test_a_refusal_is_one_that_clients_of_s3_understand(
    method: str, target: str, who: str | None, reason: Reason
) -> None:
    """An SDK that cannot read the answer repeats the request, or shows a parser's error."""
    async with opened() as door:
        answer = await door.ask(method, target, who=who, body=b"" if method == "PUT" else None)
        status, code, message, _ = s3_code(reason)
        event = door.event
        assert (answer.status, answer.code, event.reason) == (status, code, reason.code)
        assert event.http_status == status
        tree = ElementTree.fromstring(answer.body)  # noqa: S314 - of our own server
        assert tree.findtext("Message") == (message or reason.value.message)
        assert tree.findtext("Resource") == target.partition("?")[0]
        assert tree.findtext("RequestId") == answer.headers["x-amz-request-id"] == event.request_id
        assert answer.headers["x-signproxy-event-id"] == event.event_id
        assert answer.headers["Content-Type"] == "application/xml"
        assert event.detail.split(";")[0] not in answer.body.decode()
        assert not door.upstream.requests


async def test_a_refused_head_request_has_no_body() -> None:
    """What follows would be read as the next answer."""
    async with opened(serving(b"content")) as door:
        client = await door.connect()
        refused = await door.ask("HEAD", OUTSIDE, who="reader", client=client)
        assert refused.status == 403
        assert (await door.ask("GET", TARGET, who="reader", client=client)).body == b"content"
        await client.close()


async def test_a_request_id_of_the_caller_is_kept() -> None:
    """A request could not be followed through the systems that it passes."""
    async with opened() as door:
        answer = await door.ask("GET", OUTSIDE, headers={"X-Request-Id": "job-1"})
        assert answer.headers["x-amz-request-id"] == door.event.request_id == "job-1"


async def test_headers_that_are_not_signed_are_named() -> None:
    """An operator who looks for the fault would have to guess which header an intermediary added."""
    async with opened() as door:
        headers = signed(door, door.key(), "GET", TARGET) | {"x-amz-copy-source": "/data/wh/t2/a"}
        answer = await door.ask("GET", TARGET, who=None, headers=headers)
        assert (answer.status, answer.code) == (403, "AccessDenied")
        assert b"<HeadersNotSigned>x-amz-copy-source</HeadersNotSigned>" in answer.body


async def test_a_refusal_tells_what_s3_tells_of_it_and_the_trail_what_was_told() -> None:
    """An SDK corrects its clock by the time in the answer; a trail with another status is no evidence."""
    async with opened() as door:
        headers = {**signed(door, door.key(), "GET", TARGET), "x-amz-date": "20200101T000000Z"}
        headers["Authorization"] = re.sub("/[0-9]{8}/", "/20200101/", headers["Authorization"])
        answer = await door.ask("GET", TARGET, who=None, headers=headers)
        assert (answer.status, answer.code) == (403, "RequestTimeTooSkewed")
        tree = ElementTree.fromstring(answer.body)  # noqa: S314 - of our own server
        assert tree.findtext("RequestTime") == "20200101T000000Z"
        assert re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z", tree.findtext("ServerTime") or "")
        headers["x-amz-date"] = "yesterday"
        answer = await door.ask("GET", TARGET, who=None, headers=headers)
        assert (answer.status, answer.code) == (403, "AccessDenied")
        assert [(event.reason, event.http_status) for event in door.events()] == [
            ("time_skewed", 403),
            ("authorization_malformed", 403),
        ]


async def test_what_can_be_read_in_two_ways_has_its_event() -> None:
    """An attempt to smuggle a request would leave no trace."""
    async with opened() as door:
        client = await door.connect()
        await client.send(
            b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        )
        said = await client.ended()
        assert said.startswith(b"HTTP/1.1 400 ")
        assert b"<Code>InvalidRequest</Code>" in said
        assert (door.event.reason, door.event.http_status) == ("http_invalid", 400)
        await client.close()


async def test_a_request_without_the_body_that_it_announces_leaves_the_next_one_alone() -> None:
    """Requests without a body have one between them: what is wrong with one would be wrong with all that follow."""
    async with opened(serving(b"object")) as door:
        client = await door.connect()
        assert (await door.ask("GET", TARGET, client=client)).body == b"object"
        chunks = {
            "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
            "x-amz-decoded-content-length": "5",
            "x-amz-trailer": "x-amz-checksum-crc32",
        }
        refused = await door.ask("PUT", f"{TARGET}-new", headers=chunks, client=client)
        assert (refused.status, refused.code) == (400, "IncompleteBody")
        again = await door.connect() if refused.headers.get("connection") == "close" else client
        assert (await door.ask("GET", TARGET, client=again)).body == b"object"
        await client.close()
        await again.close()


async def test_a_fault_of_ours_is_an_answer_and_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would wait for an answer that never comes, without a reason in sight."""

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    async with opened() as door:
        monkeypatch.setattr(module, "addressed_by", broken)
        answer = await door.ask("GET", TARGET)
        assert (answer.status, answer.code) == (500, "InternalError")
        assert (door.event.reason, door.event.decision.value) == ("internal", "error")


async def test_a_store_that_does_not_answer_is_told() -> None:
    """A client would hang on a store that is gone."""

    async def gone(talk: Talk) -> None:
        await talk.request()
        talk.reset()

    async with opened(gone) as door:
        answer = await door.ask("PUT", TARGET, body=b"x")
        assert (answer.status, answer.code) == s3_code(Reason.STORE_UNAVAILABLE)[:2]
        assert door.event.reason == "store_unavailable"
        # What was sent may have taken effect all the same.
        assert (door.event.bytes_in, door.event.payload) == (1, "unsigned")
        # So the store's log has to name the event: there is no id of the store's to join by.
        assert (door.event.upstream_request_id, door.event.stamped) == ("", True)
        assert door.upstream.requests[0].stamp == door.event.event_id


@pytest.mark.parametrize(("end", "reason"), (("reset", "client_gone"), ("closed", "chunk_incomplete")))
async def test_a_client_that_leaves_within_its_upload_leaves_an_event_that_the_stores_log_names(
    end: str, reason: str
) -> None:
    """The pipeline would take the half of an upload for the work of a thief who has signproxy's own key."""
    begun = asyncio.Event()
    targets: list[bytes] = []

    async def listens(talk: Talk) -> None:
        targets.append((await talk.head()).split(b" ", 2)[1])
        begun.set()
        await talk.stall()

    async with opened(listens) as door:
        client = await door.connect()
        await client.send(request("PUT", TARGET, headers={"Content-Length": "1000000"}) + b"x" * 1000)
        await begun.wait()
        if end == "reset":
            linger = struct.pack("ii", 1, 0)
            client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await client.close()
        await until(lambda: bool(door.events()))
        event = door.event
        assert (event.reason, event.upstream_request_id, event.stamped) == (reason, "", True)
        assert targets == [f"{TARGET}?x-signproxy-id={event.event_id}".encode()]


async def test_a_client_cannot_choose_the_id_that_the_stores_log_names() -> None:
    """A caller would put what it does on the account of another caller's event."""
    async with opened() as door:
        answer = await door.ask("GET", f"{TARGET}?x-signproxy-id=01KABCDEFGHJKMNPQRSTVWXYZ0")
        assert (answer.status, door.event.reason, door.event.stamped) == (400, "query_reserved", False)
        assert not door.upstream.requests


# -- bodies ------------------------------------------------------------------------------------------------------------


async def test_a_client_that_waits_sends_its_body_only_once_it_may() -> None:
    """A refused upload of gigabytes would be sent all the same."""
    async with opened() as door:
        client = await door.connect()
        expecting = {"Expect": "100-continue", "Content-Length": "4"}
        await client.send(request("PUT", OUTSIDE, headers=expecting))
        refused = await answer_of(client)
        assert (refused.status, refused.headers["Connection"]) == (403, "close")
        assert await client.ended() == b""
        await client.close()
        client = await door.connect()
        await client.send(request("PUT", TARGET, headers=expecting))
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"body")
        assert (await answer_of(client)).status == 200
        assert door.upstream.requests[0].body == b"body"
        await client.close()


async def test_a_bulk_delete_of_a_client_that_waits_is_read() -> None:
    """boto3 sends no body before it is told to, and would wait for ever."""
    body = deletion("wh/t1/data/a")
    async with opened(serving(b"<DeleteResult/>")) as door:
        client = await door.connect()
        headers = {"Expect": "100-continue", "Content-Length": str(len(body))}
        await client.send(request("POST", "/data?delete", headers=headers))
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(body)
        assert (await answer_of(client)).status == 200
        await client.close()


@pytest.mark.parametrize("chunked", (False, True))
async def test_a_bulk_delete_is_not_read_without_end(chunked: bool) -> None:
    """Its body is held in memory: a client that sends gigabytes would take it all."""
    async with opened() as door:
        client = await door.connect()
        size = module.MAX_BULK_DELETE + 1
        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(size)}
        await client.send(request("POST", "/data?delete", headers=framing))
        if chunked:
            await client.send(b"%x\r\n%b\r\n" % (size, bytes(size)))
        answer = await answer_of(client)
        assert (answer.status, answer.code) == s3_code(Reason.ENTITY_TOO_LARGE)[:2]
        assert answer.headers["Connection"] == "close"
        await client.close()


async def test_a_body_that_was_not_read_ends_the_connection() -> None:
    """What is left of it would be read as the next request."""
    async with opened(serving(b"content")) as door:
        client = await door.connect()
        smuggled = request("GET", TARGET, who="writer")
        await client.send(request("PUT", OUTSIDE, body=smuggled))
        assert (await answer_of(client)).headers["Connection"] == "close"
        assert await client.ended() == b""
        assert len(door.events()) == 1
        await client.close()


async def test_a_client_that_stops_sending_is_let_go() -> None:
    """One byte a minute would hold a connection, and a store's, for days."""
    async with opened(limits=S3LimitSettings(idle_seconds=0.2)) as door:
        client = await door.connect()
        await client.send(request("POST", "/data?delete", headers={"Content-Length": "50"}) + b"<De")
        answer = await answer_of(client)
        assert (answer.status, answer.code) == (400, "RequestTimeout")
        assert door.event.reason == "body_stalled"
        await client.close()


async def test_a_client_that_is_gone_leaves_its_event() -> None:
    """An attempt could not be told from one that never was."""
    async with opened() as door:
        client = await door.connect()
        await client.send(request("POST", "/data?delete", headers={"Content-Length": "50"}) + b"<De")
        await asyncio.sleep(0.05)
        await client.close()
        await until(lambda: bool(door.product.sink.lines))  # type: ignore[attr-defined]
        assert (door.event.reason, door.event.principal) == ("client_gone", "static/writer")


# -- limits ------------------------------------------------------------------------------------------------------------


async def test_too_many_requests_are_told_to_slow_down() -> None:
    """SDKs repeat at once what has another code, and make it worse."""
    limits = LimitSettings(requests_per_second=1, burst=1)
    async with opened(serving(b"content"), callers=limits) as door:
        first, second = await door.ask("GET", TARGET), await door.ask("GET", TARGET)
        assert first.status == 200
        assert (second.status, second.code) == (503, "SlowDown")
        assert second.headers["Retry-After"] == "1"


async def test_one_caller_has_so_many_transfers_and_no_more() -> None:
    """A job with a thousand downloads would leave nothing for the others."""
    begun = asyncio.Event()
    release = asyncio.Event()

    async def slow(talk: Talk) -> None:
        await talk.request()
        begun.set()
        await release.wait()
        await talk.answer(b"late")

    async with opened(slow, limits=S3LimitSettings(in_flight=1)) as door:
        first = asyncio.create_task(door.ask("GET", TARGET, who="writer"))
        await begun.wait()
        assert door.service.in_flight == 1
        refused = await door.ask("GET", TARGET, who="writer")
        assert (refused.status, refused.code) == (503, "SlowDown")
        release.set()
        assert (await first).body == b"late"
        await until(lambda: door.service.in_flight == 0)


async def test_strangers_are_answered_late_when_there_are_many() -> None:
    """Guessing keys would cost nothing."""
    async with opened(callers=LimitSettings(unauthenticated_per_second=1)) as door:
        await door.ask("GET", TARGET, who=None)
        late = asyncio.create_task(door.ask("GET", TARGET, who=None))
        await until(lambda: door.product.handler.limits.strangers.now == 1)
        assert (await late).status == 403


class _Full(MemorySink):
    """A disk without room, until there is some."""

    full = True

    def write(self, lines: bytes, count: int) -> None:
        if self.full:
            raise OSError(28, "No space left on device")


async def test_nothing_is_served_that_the_trail_does_not_take() -> None:
    """Objects would be read with nothing to show for it."""
    disk = _Full()
    async with opened(serving(b"content"), sink=disk) as door:
        await door.ask("GET", TARGET)
        await until(lambda: not door.product.trail.state.healthy)
        asked = len(door.upstream.requests)
        answer = await door.ask("GET", TARGET)
        assert (answer.status, answer.code) == (503, "ServiceUnavailable")
        assert len(door.upstream.requests) == asked
        # Else the end would wait for it.
        disk.full = False


# -- reload and end ----------------------------------------------------------------------------------------------------


async def test_other_settings_are_in_force_with_the_next_request() -> None:
    """A revoke, or a new base domain, would wait for every connection to end."""
    async with opened(serving(b"content")) as door:
        client = await door.connect()
        host = {"Host": "data.s3.test"}
        assert (await door.ask("GET", "/wh/t1/data/a", client=client, headers=host)).code == "InvalidBucketName"
        s3 = msgspec.structs.replace(door.settings.s3, base_domains=("s3.test",))
        unused = door.reload(s3)
        assert unused is None
        assert (await door.ask("GET", "/wh/t1/data/a", client=client, headers=host)).status == 200
        s3 = msgspec.structs.replace(s3, upstream=msgspec.structs.replace(s3.upstream, connections=1))
        unused = door.reload(s3)
        assert unused is not None
        await unused.aclose()
        assert (await door.ask("GET", "/wh/t1/data/a", client=client, headers=host)).status == 200
        await client.close()


async def test_a_download_is_finished_before_the_end() -> None:
    """A rolling restart would break every large read."""
    half = asyncio.Event()

    async def slow(talk: Talk) -> None:
        await talk.request()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nhalf" % (2 * HALF) + bytes(HALF - 4))
        await half.wait()
        await talk.send(b"half" + bytes(HALF - 4))

    async with opened(slow) as door:
        client = await door.connect()
        await client.send(request("GET", TARGET))
        await client.reader.readuntil(b"half")
        ending = asyncio.create_task(door.service.finish(10))
        await asyncio.sleep(0.2)
        half.set()
        assert len(await client.ended()) == 2 * HALF - 4
        await ending
        assert door.event.bytes_out == 2 * HALF
        await client.close()


async def test_a_download_that_takes_too_long_is_cut_off_and_recorded() -> None:
    """The process would not end, or the transfer would have no event."""

    async def slow(talk: Talk) -> None:
        await talk.request()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nhalf" % (2 * HALF) + bytes(HALF - 4))
        await talk.sleep()

    async with opened(slow) as door:
        client = await door.connect()
        await client.send(request("GET", TARGET))
        await client.reader.readuntil(b"half")
        await door.service.finish(0.1)
        assert len(await client.ended()) < HALF
        await until(lambda: bool(door.product.sink.lines))  # type: ignore[attr-defined]
        assert len(door.events()) == 1
        await client.close()


async def test_draining_tells_clients_to_go_elsewhere() -> None:
    """They would stay until the process is gone, and lose a request to it."""
    async with opened(serving(b"content")) as door:
        client = await door.connect()
        door.service.drain()
        answer = await door.ask("GET", TARGET, client=client)
        assert (answer.body, answer.headers["Connection"]) == (b"content", "close")
        assert await client.ended() == b""
        await client.close()


async def test_a_refusal_has_one_status_wherever_it_is_told() -> None:
    """An operator who compares the client's 403 with a 400 on the status page looks for two requests."""
    async with opened() as door:
        asked = {"/data?list-type=2": "list_prefix", TARGET: "anonymous_request", "/other/wh/../a": "key_dot_segment"}
        for target, reason in asked.items():
            told = await door.ask("GET", target, who=None if reason == "anonymous_request" else "reader")
            (group,) = [
                each for each in grouped(door.service.handler.recorder.refusals()) if each.last.reason == reason
            ]
            recorded = [event.http_status for event in door.events() if event.reason == reason]
            assert told.status == group.status == group.last.status
            assert recorded == [told.status]
        # S3 tells it otherwise than Iceberg's REST catalog.
        assert (s3_code(Reason.LIST_PREFIX).status, Reason.LIST_PREFIX.status) == (403, 400)


@pytest.mark.parametrize("fault", MessageFault)
async def test_a_message_that_is_refused_is_told_what_is_wrong_with_it(fault: MessageFault) -> None:
    """`The HTTP message is not well-formed` leaves the author of a client with nothing to look for."""
    async with opened() as door:
        guest = _Listening()
        await door.service.handler.serve_malformed(cast("Any", guest), MessageInvalid(fault, "a stranger's name"))
        told = guest.written.decode()
        assert "<Code>InvalidRequest</Code>" in told
        assert f"<Message>The HTTP message is not well-formed: {escaped(fault.value)}.</Message>" in told
        assert "stranger" not in told
        assert door.event.reason == "http_invalid"


class _Listening:
    """A connection that keeps what is written to it."""

    peer = "127.0.0.1"

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


async def test_the_regions_of_a_policy_are_in_force_with_it() -> None:
    """The keys of a storage in a new region would be refused until the reload after the next."""
    elsewhere = POLICY.replace(f"region: {REGION}", "region: eu-west-9")
    async with opened(serving(b"content"), policy=elsewhere) as door:
        key = door.key()
        path = "/data/wh/t1/data/a"
        refused = await door.ask("GET", path, who=None, headers=signed(door, key, "GET", path))
        assert refused.status == 400, refused
        product = door.product
        product.source.replace(POLICY % door.upstream.port)
        product.generation = msgspec.structs.replace(product.generation, state=product.source.load(2))
        product.assemble()
        assert (await door.ask("GET", path, who=None, headers=signed(door, key, "GET", path))).status == 200
