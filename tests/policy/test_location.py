"""Prove the grammar of locations: what two readers could take for different places is no location."""

from __future__ import annotations

import pytest

from signproxy.policy.location import Location, LocationInvalid, bucket_problem, parse_location, parse_root

REJECTED = (
    "",
    "lake/wh/t",
    "s3:/lake/t",
    "s3:lake/t",
    "://lake/t",
    "S3://lake/t",  # schemes are lower case; another spelling was typed by hand
    "https://lake/t",
    "gs://lake/t",
    "s3b://lake/t",
    "s3://",
    "s3:///t",
    "s3://lake",  # a bucket is no table
    "s3://lake/",
    "s3://lake//",
    "s3://lake//t",
    "s3://lake/t//",
    "s3://lake/a//b",
    "s3://lake/./t",
    "s3://lake/a/./t",
    "s3://lake/a/../t",
    "s3://lake/t/.",
    "s3://lake/t/..",
    "s3://lake/t/ ..",
    "s3://lake/t/..;x",
    "s3://lake/a\\b",
    "s3://lake/t?x",
    "s3://lake/t#x",
    "s3://lake./t",
    "s3://.lake/t",
    "s3://user@lake/t",
    "s3://lake:9000/t",
    *(f"s3://lake/a{character}b" for character in "\t\n\r\0\x7f\a\x1f\u0085\u200b\u202e\ufeff\u2028\u2029"),
    *(f"s3://lake/a{character}b" for character in ("\U000e0041", "\U000e0001", "\ud800")),
)

ACCEPTED = (
    "s3://lake/t",
    "s3://lake/wh/a b/t",
    "s3://lake/wh/%09",
    "s3://lake/wh/%0A/%7F/%2E",
    "s3://lake/wh/+~!'*$",
    "s3://lake/wh/a@b",
    "s3://lake/wh/ä/日本",
    "s3://lake/wh/a;b",
    "s3://lake/wh/.hidden",
    "s3://b.with.dot/t",
    "s3://0ab/t",
)


@pytest.mark.parametrize("text", REJECTED, ids=ascii)
def test_an_ambiguous_location_is_refused(text: str) -> None:
    """A store and signproxy that read a location differently would disagree about whose data it is."""
    with pytest.raises(LocationInvalid):
        parse_location(text)


@pytest.mark.parametrize("text", ACCEPTED, ids=ascii)
def test_a_location_is_taken_as_it_is_written(text: str) -> None:
    """A location that was decoded or folded would no longer equal the keys below it."""
    assert str(parse_location(text)) == text


@pytest.mark.parametrize("text", ("s3://lake/wh/t", "s3a://lake/wh/t", "s3n://lake/wh/t", "s3://lake/wh/t/"))
def test_spellings_of_one_place_are_one_location(text: str) -> None:
    """Hadoop writes s3a, some catalogs a trailing slash; the keys are the same."""
    assert parse_location(text) == Location("lake", "wh/t")


@pytest.mark.parametrize(
    ("one", "other"),
    (
        ("s3://lake/%3F", "s3://lake/%3f"),
        ("s3://lake/%41bc", "s3://lake/Abc"),
        ("s3://lake/abc", "s3://lake/Abc"),
        ("s3://lake/é", "s3://lake/e\u0301"),
    ),
)
def test_different_texts_are_different_places(one: str, other: str) -> None:
    """S3 compares bytes: what looks alike or decodes alike is another object."""
    assert parse_location(one) != parse_location(other)


@pytest.mark.parametrize(
    ("path", "fits"),
    (("a" * 1022, True), ("a" * 1023, False), ("ä" * 511, True), ("ä" * 512, False), ("a" * 1025, False)),
)
def test_a_location_leaves_room_for_a_key(path: str, fits: bool) -> None:
    """Below a longer location no key could lie, so it was a mistake."""
    if fits:
        assert parse_location(f"s3://lake/{path}").path == path
    else:
        with pytest.raises(LocationInvalid):
            parse_location(f"s3://lake/{path}")


@pytest.mark.parametrize(("length", "told"), ((4096, "s3://"), (4097, "4097 characters")))
def test_overlong_text_is_not_repeated(length: int, told: str) -> None:
    """A hostile location must not fill the log."""
    text = "s3://lake/" + "?" * (length - 10)
    with pytest.raises(LocationInvalid) as caught:
        parse_location(text)
    assert told in str(caught.value)
    assert (text in str(caught.value)) == (length == 4096)


def test_a_fault_is_shown_escaped() -> None:
    """Control characters in a location must not reach the operator's terminal."""
    with pytest.raises(LocationInvalid) as caught:
        parse_location("s3://lake/a\x1b[2Jb")
    assert "\x1b" not in str(caught.value)
    with pytest.raises(LocationInvalid, match=r"U\+200B"):
        parse_location("s3://lake/a\u200bb")


@pytest.mark.parametrize(
    ("name", "sound"),
    (
        ("abc", True),
        ("ab", False),
        ("a" * 63, True),
        ("a" * 64, False),
        ("0-9.a", True),
        ("my..b", False),
        ("my_b", False),
        ("Lake", False),
        ("läke", False),
        (".ab", False),
        ("ab.", False),
        ("-ab", False),
        ("ab-", False),
        ("", False),
        ("192.168.5.4", False),  # a host that is no name
        ("192.168.5.4a", True),
        ("abc\n", False),
    ),
)
def test_bucket_names(name: str, sound: bool) -> None:
    """A bucket name that is no host label would move a virtual-host address to another server."""
    assert (bucket_problem(name) == "") is sound
    if sound:
        assert parse_location(f"s3://{name}/t").bucket == name
    else:
        with pytest.raises(LocationInvalid):
            parse_location(f"s3://{name}/t")


@pytest.mark.parametrize("text", ("s3://lake", "s3://lake/", "s3a://lake"))
def test_a_root_may_be_a_whole_bucket(text: str) -> None:
    """A catalog may own its bucket; only a table may not."""
    root = parse_root(text)
    assert root == Location("lake", "")
    assert str(root) == "s3://lake"
    assert root.prefix == ""


def test_a_root_of_empty_segments_is_refused() -> None:
    """`s3://lake//` would be the folder without a name, not the bucket."""
    with pytest.raises(LocationInvalid):
        parse_root("s3://lake//")


@pytest.mark.parametrize(
    ("root", "inner", "inside"),
    (
        ("s3://lake", "s3://lake/t", True),
        ("s3://lake", "s3://cold/t", False),
        ("s3://lake/wh", "s3://lake/wh/t", True),
        ("s3://lake/wh/", "s3://lake/wh/a/b", True),
        ("s3://lake/wh", "s3://lake/wh", False),  # a table at the root would own all others
        ("s3://lake/wh", "s3://lake/wh2/t", False),
        ("s3://lake/wh", "s3://lake/wh2", False),
        ("s3://lake/wh", "s3://lake/w", False),
        ("s3://lake/wh", "s3://cold/wh/t", False),
        ("s3://lake/wh", "s3://lake/WH/t", False),
    ),
)
def test_what_lies_below_a_root(root: str, inner: str, inside: bool) -> None:
    """A table outside the roots would let a policy's editor reach other data of the bucket."""
    assert parse_root(root).contains(parse_root(inner)) is inside
