"""How a query is parsed: once, by hand, and without room for two readings."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.s3.query import MAX_PARAMETERS, parse_query

_PARSED = [
    ("uploads", {"uploads": ""}),
    ("uploads=", {"uploads": ""}),
    ("list-type=2&prefix=wh/t1/", {"list-type": "2", "prefix": "wh/t1/"}),
    ("prefix=wh%2Ft1%2F", {"prefix": "wh/t1/"}),
    ("prefix=a+b", {"prefix": "a b"}),
    ("prefix=a%2Bb", {"prefix": "a+b"}),
    ("prefix=a%20b", {"prefix": "a b"}),
    ("prefix=a=b", {"prefix": "a=b"}),
    ("prefix=%2525", {"prefix": "%25"}),
    ("%61cl", {"acl": ""}),  # decoded, it is the parameter that the store sees
    ("prefix=%C3%A9", {"prefix": "\u00e9"}),
    ("prefix=%3B", {"prefix": ";"}),
    ("ACL", {"ACL": ""}),
]


@pytest.mark.parametrize(("raw", "expected"), _PARSED)
def test_a_parameter_is_decoded_once(raw: str, expected: dict[str, str]) -> None:
    """A parameter that is decoded twice, or not at all, is not the one that the store sees."""
    assert parse_query(raw) == expected


_REFUSED = [
    ("", Reason.QUERY_MALFORMED),
    ("&", Reason.QUERY_MALFORMED),
    ("a&", Reason.QUERY_MALFORMED),
    ("&a", Reason.QUERY_MALFORMED),
    ("a&&b", Reason.QUERY_MALFORMED),
    ("=x", Reason.QUERY_MALFORMED),
    ("a=1;b=2", Reason.QUERY_MALFORMED),  # one parameter here, two elsewhere
    ("prefix=%FF%FE", Reason.QUERY_MALFORMED),
    ("prefix=%C3%28", Reason.QUERY_MALFORMED),
    ("prefix=%80", Reason.QUERY_MALFORMED),
    ("%FF=a", Reason.QUERY_MALFORMED),
    ("prefix=a&prefix=b", Reason.QUERY_REPEATED),
    ("prefix=a&pre%66ix=b", Reason.QUERY_REPEATED),
    ("list-type=2&list-type=2", Reason.QUERY_REPEATED),
    ("X-Amz-Signature=a", Reason.QUERY_RESERVED),
    ("x-amz-acl=public-read", Reason.QUERY_RESERVED),
    ("%78-amz-acl=public-read", Reason.QUERY_RESERVED),
    ("x-minio-extract=true", Reason.QUERY_RESERVED),
    ("X-Goog-Algorithm=a", Reason.QUERY_RESERVED),
    ("AWSAccessKeyId=a", Reason.QUERY_RESERVED),
    ("Signature=a", Reason.QUERY_RESERVED),
    ("Expires=1", Reason.QUERY_RESERVED),
    # A stamp that the client brings would put its request into another one's trail.
    ("x-signproxy-id=01ARZ3NDEKTSV4RRFFQ69G5FAV", Reason.QUERY_RESERVED),
    ("X-Signproxy-Id=1", Reason.QUERY_RESERVED),
]


@pytest.mark.parametrize(("raw", "reason"), _REFUSED)
def test_a_query_with_two_readings_is_refused(raw: str, reason: Reason) -> None:
    """Which reading a store takes, it does not say."""
    with pytest.raises(Refused) as refused:
        parse_query(raw)
    assert refused.value.reason is reason


def test_as_many_parameters_as_the_limit_are_read() -> None:
    """A hostile query of thousands of names must not occupy the loop."""
    assert len(parse_query("&".join(f"a{i}" for i in range(MAX_PARAMETERS)))) == MAX_PARAMETERS == 32
    with pytest.raises(Refused, match="33 parameters, at most 32 are read") as refused:
        parse_query("&".join(f"a{i}" for i in range(MAX_PARAMETERS + 1)))
    assert refused.value.reason is Reason.QUERY_MALFORMED


def test_the_refusal_shows_the_part() -> None:
    """Among ten parameters the operator wants to know which."""
    for raw, shown in (
        ("a=1&b;c", "part 'b;c'"),
        ("=v", "part '=v' has no name"),
        ("x-amz-date=1", "parameter 'x-amz-date'"),
        ("a=1&a=2", "parameter 'a'"),
        ("p=%FF", "'%FF' does not decode to UTF-8"),
    ):
        with pytest.raises(Refused, match=shown):
            parse_query(raw)
