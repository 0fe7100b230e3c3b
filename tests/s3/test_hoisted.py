"""What an SDK moved into the query of a presigned URL is judged as a header, and goes on as what it is there."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.s3.forwarded import Forwardable
from signproxy.s3.hoisted import beside, parted, with_hoisted
from signproxy.s3.operation import Operation
from signproxy.s3.payload import PayloadMode
from signproxy.s3.rules import Rules
from tests.s3.forwarded_world import ALL, OBJECT, TABLE, asked, outcome, passes

CHECKSUM = (("x-amz-checksum-crc32", "AAAAAA=="), ("x-amz-sdk-checksum-algorithm", "CRC32"))


def test_a_checksum_in_the_query_is_none_of_the_body() -> None:
    """The JavaScript SDK presigns that of an empty body: as a header, each upload through its URL fails."""
    passed = passes(asked("PUT", headers={"Content-Type": "a/b"}, hoisted=CHECKSUM, payload="UNSIGNED-PAYLOAD"))
    assert passed.hoisted == "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32"
    assert passed.headers == (("Content-Type", "a/b"),)
    assert passed.request.headers == (("content-type", "a/b"),)
    assert passed.request.operation is Operation.PUT_OBJECT
    assert passed.mode is PayloadMode.UNSIGNED
    # Where nothing was moved, nothing is there.
    assert passes(asked("PUT")).hoisted == ""


@pytest.mark.parametrize(
    ("name", "value", "rules", "expected"),
    (
        ("x-amz-acl", "public-read", TABLE, Reason.HEADER_VALUE),
        ("X-Amz-Acl", "public-read", TABLE, Reason.HEADER_VALUE),
        ("x-amz-acl", "public-read", ALL, None),
        ("x-amz-tagging", "a=b", TABLE, Reason.HEADER_VALUE),
        ("x-amz-tagging", "a=b", OBJECT, None),
        ("x-amz-grant-read", "id=1", TABLE, Reason.HEADER_REFUSED),
        ("x-amz-server-side-encryption", "aws:kms", TABLE, Reason.HEADER_VALUE),
        ("x-amz-server-side-encryption", "AES256", TABLE, None),
        ("x-amz-storage-class", "GLACIER", TABLE, Reason.HEADER_VALUE),
        ("x-amz-rename-source", "/lake/other", ALL, Reason.HEADER_REFUSED),
        ("x-amz-meta-snowball-auto-extract", "true", ALL, Reason.HEADER_REFUSED),
        ("x-amz-expected-bucket-owner", "1", TABLE, None),
        ("x-amz-copy-source", "/lake/wh/t1/data/../../t2/f", TABLE, Reason.COPY_SOURCE),
        # What says how a body is framed is believed by one reader, and not by the other.
        ("x-amz-decoded-content-length", "5", ALL, Reason.HEADER_REFUSED),
        ("X-Amz-Trailer", "x-amz-checksum-crc32", ALL, Reason.HEADER_REFUSED),
    ),
)
def test_what_was_moved_is_judged_as_a_header(name: str, value: str, rules: Rules, expected: Reason | None) -> None:
    """A store that reads it there obeys it: a rule for headers that looks at headers alone is passed by."""
    found = outcome(asked("PUT", hoisted=((name, value),)), rules)
    if expected is not None:
        assert found is expected
        return
    assert isinstance(found, Forwardable)
    assert found.hoisted.partition("=")[0] == name
    assert (found.headers, found.request.headers) == ((), ())


def test_a_copy_is_one_to_each_store() -> None:
    """Left in the query, it is a copy to some stores and an empty object to the others: the event would name one."""
    source = ("X-Amz-Copy-Source", "/lake/wh/t1/data/g.parquet")
    directive = ("x-amz-metadata-directive", "COPY")
    passed = passes(asked("PUT", hoisted=(source, directive)), OBJECT)
    assert passed.request.operation is Operation.COPY_OBJECT
    assert passed.hoisted == ""
    assert passed.headers == (source, directive)
    assert passed.request.headers == ((source[0].lower(), source[1]), directive)


def test_what_is_sent_is_written_anew_from_what_was_judged() -> None:
    """A parameter that is found again in the text may be read otherwise there."""
    hoisted = (("X-Amz-Meta-A", "voil\u00c3\u00a0 &=+/"), ("x-amz-meta-b", ""))
    assert beside((("a", "1"),), ("A",), hoisted) == (
        (("a", "1"), ("x-amz-meta-a", "voil\u00c3\u00a0 &=+/"), ("x-amz-meta-b", "")),
        ("A", "X-Amz-Meta-A", "x-amz-meta-b"),
    )
    sent = (("A", "1"), ("X-Amz-Meta-A", "x"), ("x-amz-meta-b", ""))
    signed = (("x-amz-meta-a", "x"), ("x-amz-meta-b", ""), ("x-amz-meta-c", "2"))
    assert parted(sent, signed, hoisted) == (
        (("A", "1"),),
        (("x-amz-meta-c", "2"),),
        "X-Amz-Meta-A=voil%C3%A0%20%26%3D%2B%2F&x-amz-meta-b=",
    )


@pytest.mark.parametrize(
    ("target", "query", "hoisted", "expected"),
    (
        ("/b/k", "", "x-amz-b=2&x-amz-a=1", ("/b/k?x-amz-b=2&x-amz-a=1", "x-amz-a=1&x-amz-b=2")),
        ("/b/k?uploads", "uploads=", "X-Amz-A=1", ("/b/k?uploads&X-Amz-A=1", "X-Amz-A=1&uploads=")),
        ("/b?z=1&a=2", "a=2&z=1", "y=4&b=3", ("/b?z=1&a=2&y=4&b=3", "a=2&b=3&y=4&z=1")),
        # The pair with the shorter name stands first, whatever its value begins with.
        ("/b/k?y=1", "y=1", "x-amz=1&x-amz-a=1", ("/b/k?y=1&x-amz=1&x-amz-a=1", "x-amz=1&x-amz-a=1&y=1")),
    ),
)
def test_a_query_is_signed_in_its_order(target: str, query: str, hoisted: str, expected: tuple[str, str]) -> None:
    """A store sorts names and values, and would find another signature."""
    assert with_hoisted(target, query, hoisted) == expected
