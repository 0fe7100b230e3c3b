"""A store's lists are charged before they are read: one caller's lists do not stop the service."""

from __future__ import annotations

import asyncio

from signproxy.config.settings import LimitSettings
from tests.forward.upstream import Talk, serving
from tests.server.s3.door import opened

_UPLOADS = "/data?uploads&prefix=wh/t1/data/"


def _uploads(count: int) -> bytes:
    upload = "<Upload><Key>wh/t1/data/{0}</Key><UploadId>{0}</UploadId></Upload>"
    listed = "".join([upload.format(number) for number in range(count)])
    return f"<ListMultipartUploadsResult>{listed}</ListMultipartUploadsResult>".encode()


async def test_the_uploads_of_a_list_are_charged() -> None:
    """Each is marked: a thousand of them for the price of one request let no other caller through."""
    async with opened(serving(_uploads(1000)), callers=LimitSettings(requests_per_second=1, burst=60)) as door:
        first = await door.ask("GET", _UPLOADS)
        assert (first.status, first.body.count(b".")) == (200, 1000)
        second = await door.ask("GET", _UPLOADS)
        assert (second.status, second.code) == (503, "SlowDown")
        # Another caller is not concerned.
        assert (await door.ask("GET", "/data/wh/t1/data/a", who="reader")).status == 200


async def test_lists_of_uploads_that_come_together_are_refused_before_they_are_read() -> None:
    """All of them are admitted before the first one is answered: the uploads of each would be marked."""
    all_asked = asyncio.Event()
    document = _uploads(1000)

    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            if len(door.upstream.requests) == 8:
                all_asked.set()
            await all_asked.wait()
            await talk.answer(document)

    async with opened(script, callers=LimitSettings(requests_per_second=1, burst=60)) as door:
        answers = await asyncio.gather(*[door.ask("GET", _UPLOADS) for _ in range(8)])
        assert sorted(answer.status for answer in answers) == [200] + [503] * 7
        assert {answer.code for answer in answers if answer.status == 503} == {"SlowDown"}
        # The store has answered all of them: its log and the trail tell the same.
        events = sorted(door.events(), key=lambda event: event.http_status)
        assert [event.http_status for event in events] == [200] + [503] * 7
        assert [event.reason for event in events] == ["allowed"] + ["rate_limited"] * 7
        assert {(event.call or event.s3_op, event.upstream_status, event.stamped) for event in events} == {
            ("ListMultipartUploads", 200, True)
        }
        assert {asked.stamp for asked in door.upstream.requests} == {event.event_id for event in events}


async def test_the_parts_of_a_list_are_charged_and_a_begun_upload_is_not() -> None:
    """A thousand parts are a document that is read whole; an upload whose id is withheld can never be aborted."""
    parts = b"".join([b"<Part><PartNumber>%d</PartNumber><ETag>%032d</ETag></Part>" % (n, n) for n in range(1000)])

    async def script(talk: Talk) -> None:
        while True:
            asked = await talk.request()
            await talk.answer(b"<R><UploadId>a</UploadId>%b</R>" % (parts if asked.method == "GET" else b""))

    async with opened(script, callers=LimitSettings(requests_per_second=1, burst=20)) as door:
        begun = await door.ask("POST", "/data/wh/t1/data/a?uploads", body=b"")
        upload_id = begun.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
        target = f"/data/wh/t1/data/a?uploadId={upload_id}"
        assert [(await door.ask("GET", target)).status for _ in range(2)] == [200, 503]


async def test_pages_of_buckets_are_charged_one_by_one_before_they_are_read() -> None:
    """Requests that come together would each have a hundred pages read before the first of them is counted."""
    names = b"".join([b"<Bucket><Name>made-%d</Name></Bucket>" % number for number in range(100)])
    page = b"<ListAllMyBucketsResult><Buckets>%b</Buckets>%b</ListAllMyBucketsResult>"
    endless = page % (names, b"<ContinuationToken>t</ContinuationToken>")
    async with opened(serving(endless), callers=LimitSettings(requests_per_second=1, burst=30)) as door:
        answers = await asyncio.gather(*[door.ask("GET", "/", who="maker") for _ in range(3)])
        # At most one of them is read to its end, and the first pages of the others.
        assert sum(answer.status == 503 for answer in answers) >= 2
        assert len(door.upstream.requests) <= 110
        refused = [event for event in door.events() if event.reason == "rate_limited"]
        assert {answer.code for answer in answers if answer.status == 503} == {"SlowDown"}
        assert {event.call for event in refused} == {"ListBuckets"}
