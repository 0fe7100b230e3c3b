"""Read what stores say of their buckets."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.forward.store_buckets import names_in, query_of

_LIST = '<?xml version="1.0"?>\n<ListAllMyBucketsResult xmlns="x"><Owner><ID>o</ID></Owner>{}</ListAllMyBucketsResult>'


@pytest.mark.parametrize(
    ("content", "names", "token"),
    (
        ("<Buckets/>", (), ""),
        ("", (), ""),
        ("<Buckets></Buckets>", (), ""),
        ("<Buckets>\n <Bucket><CreationDate>d</CreationDate><Name>a</Name></Bucket>\n</Buckets>", ("a",), ""),
        ("<Buckets><Bucket><Name>a&amp;b</Name></Bucket></Buckets>", ("a&b",), ""),
        (
            "<Buckets><Bucket><Name>a</Name></Bucket></Buckets><ContinuationToken>t&lt;</ContinuationToken>",
            ("a",),
            "t<",
        ),
    ),
)
def test_the_names_of_a_page(content: str, names: tuple[str, ...], token: str) -> None:
    """A bucket that is there would not be shown, or the list would never go on."""
    assert names_in(_LIST.format(content).encode()) == (names, token)


@pytest.mark.parametrize("document", (b"", b"<html/>", b"\xffListAllMyBucketsResult"))
def test_another_document_is_no_empty_list(document: bytes) -> None:
    """A proxy's error page with status 200 would look like a store that lost everything."""
    with pytest.raises(Refused) as refused:
        names_in(document)
    assert refused.value.reason is Reason.STORE_INVALID


def test_a_token_is_signed_as_it_is_sent() -> None:
    """The store would refuse the second page for its signature."""
    assert query_of("") == ""
    assert query_of("a b/c+d~") == "continuation-token=a%20b%2Fc%2Bd~"
