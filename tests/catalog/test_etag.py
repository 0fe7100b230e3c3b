"""ETags of answers that were changed."""

from __future__ import annotations

import pytest

from signproxy.catalog.signer_grant import MAX_TAG, MAX_TAGS, marked, unmarked


@pytest.mark.parametrize("etag", ('"abc"', 'W/"abc"', '""', '"a.sp-b"', '"a,b"', '"\'/+="'))
def test_a_tag_finds_its_way_back(etag: str) -> None:
    """The upstream would never find its answer unchanged."""
    own = marked(etag, "0123")
    assert own is not None
    assert own != etag
    assert unmarked(own, "0123") == etag
    assert unmarked(f' "x" , {own},W/"y"', "0123") == etag


@pytest.mark.parametrize(
    "header",
    (
        # Of an answer without signproxy, of one for other settings, and of none.
        '"abc"',
        '"abc.sp-9999"',
        "*",
        "",
        '"abc.sp-0123',
        'abc.sp-0123"',
        '"abc.sp-0123"x',
        '"abc.sp-0123" "abc.sp-0123"',
        '"a\x80.sp-0123"',
        '"a\r\nX: y.sp-0123"',
    ),
)
def test_a_tag_of_another_answer_is_not_sent_on(header: str) -> None:
    """The client would go on with an answer that leads to no signer, or to another one."""
    assert unmarked(header, "0123") is None


def test_of_several_tags_those_of_the_same_answer_are_sent_on() -> None:
    """A client that knows two answers would be sent the whole table though it has it."""
    assert unmarked('"a.sp-1", W/"b.sp-1","c.sp-2"', "1") == '"a", W/"b"'
    many = ", ".join(f'"{number}.sp-1"' for number in range(MAX_TAGS + 5))
    sent = unmarked(many, "1")
    assert sent is not None
    assert sent.count('"') == 2 * MAX_TAGS


@pytest.mark.parametrize(
    "etag", ("", "abc", '"abc', 'abc"', '"a"b"', '"a\n"', '"\u00e9"', 'w/"a"', f'"{"a" * MAX_TAG}"')
)
def test_what_is_no_tag_is_left_out(etag: str) -> None:
    """An upstream could write lines of its own into the answer's head."""
    assert marked(etag, "1") is None
