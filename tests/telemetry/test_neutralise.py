"""What people are shown of a stranger's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.telemetry.neutralise import neutralise


@pytest.mark.parametrize(
    ("text", "shown"),
    (
        ("sales/orders/part-0.parquet", "sales/orders/part-0.parquet"),
        ("", ""),
        # Letters of any script are no danger.
        ("Größe/données/数据", "Größe/données/数据"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\r\nb\tc\0", "a\\x0d\\x0ab\\x09c\\x00"),
        ("\x7f\x9b", "\\x7f\\x9b"),
        ("part\u202egnp.exe", "part\\u202egnp.exe"),
        ("\u2066\u200b\ufeff\u2028", "\\u2066\\u200b\\ufeff\\u2028"),
        # A space that looks like the plain one but is none.
        ("a\u00a0b", "a\\xa0b"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
    ),
)
def test_only_what_could_act_or_hide_is_escaped(text: str, shown: str) -> None:
    """An operator reads refused keys in a terminal: they must neither clear it nor read backwards."""
    assert neutralise(text) == shown


@given(st.text())
def test_the_result_is_always_printable(text: str) -> None:
    """One forgotten category is enough to write to the operator's terminal."""
    assert neutralise(text).isprintable()


@pytest.mark.parametrize(("length", "shown"), ((3, "aaa"), (4, "aaa… (4 characters)"), (9, "aaa… (9 characters)")))
def test_long_text_is_cut_and_says_so(length: int, shown: str) -> None:
    """A cut without a mark would read as the whole."""
    assert neutralise("a" * length, 3) == shown
