"""A request is canonicalised as the store does it, or no signature of ours verifies."""

from __future__ import annotations

import string
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.s3.canonical import canonical_path, canonical_query, encode_query_part

UNRESERVED = string.ascii_letters + string.digits + "-._~"

# Lone surrogates have no UTF-8, so no decoded key holds them; unusual characters are drawn as often as plain ones.
any_text = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" /+%=&?#é~" + UNRESERVED), max_size=60)


@pytest.mark.parametrize(
    ("wire", "canonical"),
    (
        # What Swift 2.38.3 and SeaweedFS 4.48 verify for a path on the wire; every other form is a 403 there.
        ("/lake/a=b", "/lake/a%3Db"),
        ("/lake/a:b", "/lake/a%3Ab"),
        ("/lake/x+y", "/lake/x%2By"),
        ("/lake/%c3%a9", "/lake/%C3%A9"),
        ("/lake/%7E", "/lake/~"),
        ("/lake/q%2Fv", "/lake/q/v"),
        ("/lake/q%252Fv", "/lake/q%252Fv"),
        ("/lake/q//w", "/lake/q//w"),
        ("/lake/q/../w", "/lake/q/../w"),
        ("/lake/q/%2e%2e/w", "/lake/q/../w"),
        ("/lake/d/", "/lake/d/"),
        # What Iceberg Java writes for the key characters that it escapes.
        ("/k%3D%2B%2525%20%C3%A9%21%2A%27%28%29", "/k%3D%2B%2525%20%C3%A9%21%2A%27%28%29"),
        # Java addresses a bucket by its host with no path at all.
        ("", "/"),
        ("/", "/"),
        ("/lake/😀/日本.parquet", "/lake/%F0%9F%98%80/%E6%97%A5%E6%9C%AC.parquet"),
        # Decomposed and composed é are two keys.
        ("/lake/e\u0301", "/lake/e%CC%81"),
    ),
)
def test_a_path_is_encoded_as_strict_stores_encode_it(wire: str, canonical: str) -> None:
    """Keys with these characters would be answered with SignatureDoesNotMatch."""
    assert canonical_path(unquote(wire)) == canonical


@pytest.mark.parametrize(
    ("pairs", "canonical"),
    (
        ([], ""),
        ([("prefix", "a/b")], "prefix=a%2Fb"),
        ([("prefix", "a b")], "prefix=a%20b"),
        ([("prefix", "a+b")], "prefix=a%2Bb"),
        ([("location", "")], "location="),
        ([("uploadId", "u"), ("partNumber", "2")], "partNumber=2&uploadId=u"),
        # Sorted as joined text `a-b=1` would stand first: `-` sorts before `=`.
        ([("a-b", "1"), ("a", "1")], "a=1&a-b=1"),
        ([("a", "b"), ("a", "a")], "a=a&a=b"),
        # Sorted after encoding: %C3 sorts before z, é after it.
        ([("z", "1"), ("é", "1")], "%C3%A9=1&z=1"),
        ([("a", "z"), ("a", "é")], "a=%C3%A9&a=z"),
        # Upper case stands before lower case.
        ([("b", ""), ("A", ""), ("B", ""), ("a", "")], "A=&B=&a=&b="),
        ([("continuation-token", "1a+/=="), ("list-type", "2")], "continuation-token=1a%2B%2F%3D%3D&list-type=2"),
    ),
)
def test_a_query_is_sorted_by_its_encoded_pairs(pairs: list[tuple[str, str]], canonical: str) -> None:
    """Lists and multipart uploads would be answered with SignatureDoesNotMatch."""
    assert canonical_query(pairs) == canonical
    assert canonical_query(reversed(pairs)) == canonical


@pytest.mark.parametrize("code", range(256))
def test_each_character_is_escaped_unless_it_is_unreserved(code: int) -> None:
    """A single character on the wrong side of the list breaks every key that holds it."""
    character = chr(code)
    escaped = "".join(f"%{byte:02X}" for byte in character.encode())
    assert encode_query_part(character) == (character if character in UNRESERVED else escaped)
    assert canonical_path(f"/{character}") == "/" + (character if character in UNRESERVED + "/" else escaped)
    # Beside a character outside ASCII another way is taken.
    assert encode_query_part(f"é{character}")[6:] == encode_query_part(character)
    assert canonical_path(f"/é{character}")[7:] == canonical_path(f"/{character}")[1:]


@given(any_text)
def test_encoding_agrees_with_the_standard_librarys(text: str) -> None:
    """An own encoder may be faster than urllib's, never different."""
    assert canonical_path(f"/{text}") == quote(f"/{text}", safe="/~")
    assert encode_query_part(text) == quote(text, safe="~")


@given(any_text)
def test_decoding_once_gives_the_text_back(text: str) -> None:
    """A store that decodes what was signed must reach the key that was judged."""
    assert unquote(canonical_path(f"/{text}"), errors="strict") == f"/{text}"
    assert unquote(encode_query_part(text), errors="strict") == text


@given(st.lists(st.tuples(any_text, any_text), max_size=6).flatmap(lambda p: st.tuples(st.just(p), st.permutations(p))))
def test_the_order_on_the_wire_does_not_matter(pairs: tuple[list[tuple[str, str]], list[tuple[str, str]]]) -> None:
    """Java re-orders the parameters after the signature was made."""
    given_order, other_order = pairs
    assert canonical_query(given_order) == canonical_query(other_order)


def test_a_lone_surrogate_is_no_text() -> None:
    """Were it replaced, the signed key would be another one than the judged."""
    with pytest.raises(UnicodeEncodeError):
        canonical_path("/\ud800")
    with pytest.raises(UnicodeEncodeError):
        encode_query_part("\ud800")
