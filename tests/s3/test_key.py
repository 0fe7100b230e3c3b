"""Which keys may be addressed: one key, one object, whichever party decodes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.s3.key import MAX_KEY_BYTES, check_key, check_prefix


def _outcome(key: str) -> Reason | None:
    try:
        check_key(key)
    except Refused as refused:
        return refused.reason
    return None


_KEYS: list[tuple[str, Reason | None]] = [
    ("wh/t1/data/f.parquet", None),
    ("f", None),
    ("wh/t1/data/day=2024-01-01/a+b c~d.parquet", None),
    # Hive partitions: Iceberg escapes inside the segment, so the key itself holds percent signs.
    ("wh/t1/city=a%2Fb/f", None),
    ("wh/t1/..%2f/f", None),
    ("wh/t1/%2e%2e/f", None),
    ("wh/t1/caf\u00e9/f", None),
    ("wh/t1/cafe\u0301/f", None),  # NFC and NFD are two keys, both legal
    ("wh/t1/\U0001f9ca/f", None),
    ("wh/t1/\uff0e\uff0e/f", None),  # full-width dots: S3 never folds them
    ("wh/t1/a:b;c=d@e!$&'()*,", None),
    ("wh/t1/.hidden", None),
    ("wh/t1/...", None),
    ("wh/t1/..a/a../a..b", None),
    ("wh/t1/a.", None),
    # empty segments: folded by some stores, kept by others
    ("", Reason.KEY_EMPTY_SEGMENT),
    ("/wh/t1/f", Reason.KEY_EMPTY_SEGMENT),
    ("wh//t1/f", Reason.KEY_EMPTY_SEGMENT),
    ("wh/t1/f/", Reason.KEY_EMPTY_SEGMENT),
    ("/", Reason.KEY_EMPTY_SEGMENT),
    # dot segments: resolved by versitygw and s3s-fs, kept by AWS and Swift, refused by MinIO
    (".", Reason.KEY_DOT_SEGMENT),
    ("..", Reason.KEY_DOT_SEGMENT),
    ("../f", Reason.KEY_DOT_SEGMENT),
    ("./f", Reason.KEY_DOT_SEGMENT),
    ("wh/t1/../t2/f", Reason.KEY_DOT_SEGMENT),
    ("wh/t1/./f", Reason.KEY_DOT_SEGMENT),
    ("wh/t1/..", Reason.KEY_DOT_SEGMENT),
    ("wh/t1/.", Reason.KEY_DOT_SEGMENT),
    # MinIO refuses them padded, others trim
    ("wh/ ../f", Reason.KEY_DOT_SEGMENT),
    ("wh/.. /f", Reason.KEY_DOT_SEGMENT),
    (" ./f", Reason.KEY_DOT_SEGMENT),
    ("wh/ /f", Reason.KEY_EMPTY_SEGMENT),
    ("wh/\u00a0../f", Reason.KEY_DOT_SEGMENT),
    # servlet containers cut path parameters
    ("wh/..;/t2/f", Reason.KEY_DOT_SEGMENT),
    ("wh/..;a=b/t2", Reason.KEY_DOT_SEGMENT),
    ("wh/.;x/t2", Reason.KEY_DOT_SEGMENT),
    # empty to a reader that cuts them
    ("wh/;x/t2", Reason.KEY_PATH_PARAMETER),
    ("wh/ ;x/t2", Reason.KEY_PATH_PARAMETER),
    ("data/;a=b/a", Reason.KEY_PATH_PARAMETER),
    (";x", Reason.KEY_PATH_PARAMETER),
    ("wh/a;x/t2", None),
    # characters
    ("wh/t1\x00/f", Reason.KEY_CHARACTER),
    ("wh/t1\t0/f", Reason.KEY_CHARACTER),
    ("wh/t1\n/f", Reason.KEY_CHARACTER),
    ("wh/t1\r/f", Reason.KEY_CHARACTER),
    ("wh/t1\x1f/f", Reason.KEY_CHARACTER),
    ("wh/t1\x7f/f", Reason.KEY_CHARACTER),
    ("wh/t1\x80/f", Reason.KEY_CHARACTER),
    ("wh/t1\x9f/f", Reason.KEY_CHARACTER),
    ("wh/t1\u2028/f", Reason.KEY_CHARACTER),
    ("wh/t1\u2029/f", Reason.KEY_CHARACTER),
    ("wh/t1\ud800/f", Reason.KEY_CHARACTER),
    ("wh/t1\udfff/f", Reason.KEY_CHARACTER),
    ("wh\\t1/f", Reason.KEY_CHARACTER),  # a separator to MinIO's checks and to WHATWG parsers
]


@pytest.mark.parametrize(("key", "expected"), _KEYS, ids=[ascii(key) for key, _ in _KEYS])
def test_a_key_is_one_object_for_every_store(key: str, expected: Reason | None) -> None:
    """A key that two layers read differently is judged as one object and served as another."""
    assert _outcome(key) is expected


def test_the_longest_key_of_s3_passes_and_one_byte_more_does_not() -> None:
    """S3 counts bytes, not characters."""
    assert _outcome("a" * MAX_KEY_BYTES) is None
    assert _outcome("a" * (MAX_KEY_BYTES + 1)) is Reason.KEY_TOO_LONG
    assert _outcome("\u00e9" * (MAX_KEY_BYTES // 2)) is None
    assert _outcome("\u00e9" * (MAX_KEY_BYTES // 2) + "a") is Reason.KEY_TOO_LONG
    assert _outcome("\U0001f9ca" * (MAX_KEY_BYTES // 4)) is None
    assert _outcome("\U0001f9ca" * (MAX_KEY_BYTES // 4) + "a") is Reason.KEY_TOO_LONG


@given(st.text(min_size=1, max_size=40))
def test_the_quick_look_and_the_exact_one_agree(key: str) -> None:
    """The quick way must never let through what the rules refuse."""
    forbidden = any(
        ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F or c in "\u2028\u2029\\" or 0xD800 <= ord(c) <= 0xDFFF for c in key
    )
    refused = forbidden or any(segment.partition(";")[0].strip() in ("", ".", "..") for segment in key.split("/"))
    assert (_outcome(key) is not None) == refused


@given(st.lists(st.sampled_from([".", "..", "a", " ", "", "/", ";", "\\", "%2e", "..."]), max_size=12).map("".join))
def test_dot_segments_do_not_hide_in_any_combination(key: str) -> None:
    """Random text seldom holds two dots beside a slash."""
    if _outcome(key) is None:
        for segment in key.split("/"):
            assert segment.partition(";")[0].strip() not in ("", ".", "..")
            assert "\\" not in segment


_PREFIXES: list[tuple[str, bool]] = [
    ("wh/t1/", True),
    ("wh/t1/data", True),
    ("wh/t1/data/part-", True),
    ("wh/t1/..a", True),
    ("a", True),
    ("", False),
    ("/", False),
    ("/wh/t1/", False),
    ("wh//t1/", False),
    ("wh/t1//", False),
    ("wh/t1/../other/", False),
    ("wh/t1/..", False),
    ("wh/t1/.", False),
    ("wh/t1/\x00", False),
    ("wh\\t1", False),
]


@pytest.mark.parametrize(("prefix", "allowed"), _PREFIXES, ids=[ascii(prefix) for prefix, _ in _PREFIXES])
def test_a_list_prefix_is_the_beginning_of_a_key(prefix: str, allowed: bool) -> None:
    """A prefix that no key can begin with is a question about something else."""
    if allowed:
        check_prefix(prefix)
    else:
        with pytest.raises(Refused) as refused:
            check_prefix(prefix)
        assert refused.value.reason is Reason.LIST_PREFIX


def test_the_refusal_of_a_prefix_says_why() -> None:
    """`list_prefix` alone would leave the operator to guess among four faults."""
    with pytest.raises(Refused, match="empty prefix"):
        check_prefix("")
    with pytest.raises(Refused, match=r"key_dot_segment: key 'wh/../t2'"):
        check_prefix("wh/../t2/")


def test_the_details_show_the_key_escaped() -> None:
    """A control character that reaches a terminal can rewrite what the operator sees."""
    with pytest.raises(Refused, match=r"key 'a\\x1b\[2J'"):
        check_key("a\x1b[2J")
    with pytest.raises(Refused, match="key 'a//b'"):
        check_key("a//b")
    with pytest.raises(Refused, match="key of 1025 bytes"):
        check_key("a" * 1025)
