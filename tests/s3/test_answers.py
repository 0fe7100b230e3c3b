"""S3's XML holds whatever a caller named, and none of it can be read as markup."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from signproxy.s3.answers import delete_errors, delete_result_xml, error_xml, escaped, list_buckets_xml

_NS = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_HOSTILE = "</Key><Code>x</Code><!--&amp;'\"]]>"


def parsed(document: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(document)  # noqa: S314 - our own, and the parser of Python's clients


def test_an_error_is_what_sdks_read() -> None:
    """Code, Message and RequestId are what every SDK shows its user."""
    assert error_xml("AccessDenied", "No", "/b/k", "r-1", [("HeadersNotSigned", "x-amz-acl")]) == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b"<Error><Code>AccessDenied</Code><Message>No</Message><Resource>/b/k</Resource>"
        b"<HeadersNotSigned>x-amz-acl</HeadersNotSigned><RequestId>r-1</RequestId><HostId>r-1</HostId></Error>"
    )


def test_a_list_of_buckets_is_what_sdks_read() -> None:
    """Without CreationDate some SDKs fail on the list."""
    dates = ["2020-01-02T03:04:05.678Z", "2021-01-01T00:00:00.000Z"]
    root = parsed(list_buckets_xml(zip(["lake", "raw"], dates, strict=True)))
    assert root.tag == f"{_NS}ListAllMyBucketsResult"
    assert [each.text for each in root.iter(f"{_NS}Name")] == ["lake", "raw"]
    assert [each.text for each in root.iter(f"{_NS}CreationDate")] == dates
    assert [each.text for each in root.iter(f"{_NS}ID")] == ["signproxy"]


def test_a_part_of_a_list_says_where_the_next_one_begins() -> None:
    """A client would take the first part for all of it."""
    root = parsed(list_buckets_xml([("a", "d")], prefix="", next_token="a"))
    assert (root.findtext(f"{_NS}Prefix"), root.findtext(f"{_NS}ContinuationToken")) == ("", "a")
    root = parsed(list_buckets_xml([("a", "d")]))
    assert (root.find(f"{_NS}Prefix"), root.find(f"{_NS}ContinuationToken")) == (None, None)


def test_a_result_of_a_bulk_delete_tells_of_each_object() -> None:
    """A key that is missing from the answer is taken for deleted, and a version of it is another object."""
    root = parsed(delete_result_xml([("b", "AccessDenied", "No", ""), ("b", "AccessDenied", "No", "v<")]))
    assert [(each.tag, [(child.tag, child.text) for child in each]) for each in root] == [
        (f"{_NS}Error", [(f"{_NS}Key", "b"), (f"{_NS}Code", "AccessDenied"), (f"{_NS}Message", "No")]),
        (
            f"{_NS}Error",
            [
                (f"{_NS}Key", "b"),
                (f"{_NS}VersionId", "v<"),
                (f"{_NS}Code", "AccessDenied"),
                (f"{_NS}Message", "No"),
            ],
        ),
    ]


@given(st.text())
def test_any_text_comes_back_as_text(text: str) -> None:
    """A key made of markup must not add an element, or end the document early."""
    document = parsed(f"<a>{escaped(text)}</a>".encode())
    assert not list(document)
    read = document.text or ""
    assert len(read) == len(text)
    assert all(found in (sent, "\ufffd") for found, sent in zip(read, text, strict=True))


def test_hostile_keys_stay_keys() -> None:
    """What a key says must not become what signproxy says."""
    for document in (
        error_xml("C", "m", _HOSTILE, _HOSTILE),
        delete_result_xml([(_HOSTILE, "C", "m", "")]),
        list_buckets_xml([(_HOSTILE, _HOSTILE)]),
        b"<a>" + delete_errors([("k", "C", "m", _HOSTILE)]).encode() + b"</a>",
    ):
        assert _HOSTILE in [each.text for each in parsed(document).iter()]


def test_line_ends_survive_and_what_xml_cannot_hold_is_replaced() -> None:
    """Parsers make line feeds of carriage returns; a lone surrogate would be an error of ours."""
    assert escaped("a\r\n\tb") == "a&#xD;&#xA;&#x9;b"
    assert escaped("\x00\x1b\ud800\uffff\u2028") == "\ufffd" * 5
