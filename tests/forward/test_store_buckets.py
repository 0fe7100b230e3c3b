"""Read what stores say of their buckets."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.forward.store_buckets import PAGES, buckets_in, every_bucket, query_of
from signproxy.gate.forwarded import StoreBucket
from signproxy.s3.xml_document import read_document
from tests.pieces import drained
from tests.s3.world import MINIO

_LIST = '<?xml version="1.0"?>\n<ListAllMyBucketsResult xmlns="x"><Owner><ID>o</ID></Owner>{}</ListAllMyBucketsResult>'


@pytest.mark.parametrize(
    ("content", "told", "token"),
    (
        ("<Buckets/>", (), ""),
        ("", (), ""),
        ("<Buckets></Buckets>", (), ""),
        ("<Buckets>\n <Bucket><CreationDate>d</CreationDate><Name>a</Name></Bucket>\n</Buckets>", (("a", "d"),), ""),
        ("<Buckets><Bucket><Name>a&amp;b</Name></Bucket></Buckets>", (("a&b", ""),), ""),
        (
            "<Buckets><Bucket><Name>a</Name></Bucket></Buckets><ContinuationToken>t&lt;</ContinuationToken>",
            (("a", ""),),
            "t<",
        ),
    ),
)
def test_the_buckets_of_a_page(content: str, told: tuple[tuple[str, str], ...], token: str) -> None:
    """A bucket that is there would not be shown, or the list would never go on."""
    expected = [StoreBucket(name, MINIO, created) for name, created in told]
    assert drained(buckets_in(_LIST.format(content).encode(), MINIO)) == (expected, token)


@pytest.mark.parametrize("document", (b"", b"<html/>", b"\xffListAllMyBucketsResult"))
def test_another_document_is_no_empty_list(document: bytes) -> None:
    """A proxy's error page with status 200 would look like a store that lost everything."""
    with pytest.raises(Refused) as refused:
        drained(buckets_in(document, MINIO))
    assert refused.value.reason is Reason.STORE_INVALID


def test_a_token_is_signed_as_it_is_sent() -> None:
    """The store would refuse the second page for its signature."""
    assert query_of("") == ""
    assert query_of("a b/c+d~") == "continuation-token=a%20b%2Fc%2Bd~"


def test_ten_thousand_buckets_are_taken_out_piece_by_piece() -> None:
    """A page as long as a store may write would keep every other caller waiting at its end."""
    names = "".join([f"<Bucket><Name>b{number}</Name></Bucket>" for number in range(10_000)])
    document = _LIST.format(f"<Buckets>{names}</Buckets>").encode()
    read = sum(1 for _ in read_document(document))
    assert sum(1 for _ in buckets_in(document, MINIO)) - read == 10_000 // 64
    assert len(drained(buckets_in(document, MINIO))[0]) == 10_000


async def test_each_page_is_charged_before_it_is_read_and_before_the_next_one_is_asked_for() -> None:
    """A caller that owes too much already would have a hundred pages of a store read for it."""
    page = _LIST.format("<Buckets/><ContinuationToken>next</ContinuationToken>").encode()
    asked: list[str] = []
    charged: list[bytes] = []

    async def answer(token: str) -> bytes:
        assert len(charged) == len(asked)
        asked.append(token)
        # The last one is no document: it is not read.
        return page if len(asked) < 4 else b"no XML"

    def charge(document: bytes) -> None:
        charged.append(document)
        if len(charged) == 4:
            raise Refused(Reason.RATE_LIMITED)

    with pytest.raises(Refused) as refused:
        await every_bucket(MINIO, answer, charge)
    assert refused.value.reason is Reason.RATE_LIMITED
    assert asked == ["", "next", "next", "next"]
    assert charged == [page, page, page, b"no XML"]


async def test_a_list_without_an_end_is_not_followed_for_ever() -> None:
    """A store could tell of the next page whatever it was asked."""
    page = _LIST.format("<Buckets><Bucket><Name>a</Name></Bucket></Buckets><ContinuationToken>t</ContinuationToken>")

    async def answer(_: str) -> bytes:
        return page.encode()

    assert len(await every_bucket(MINIO, answer, None)) == PAGES
