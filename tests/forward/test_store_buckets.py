"""Read what stores say of their buckets."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.forward.store_buckets import buckets_in, query_of
from signproxy.gate.forwarded import StoreBucket
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
