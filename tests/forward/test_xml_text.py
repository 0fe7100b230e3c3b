"""Keys in a store's answer are read as the store means them."""

from __future__ import annotations

import pytest

from signproxy.forward.xml_text import unescaped


@pytest.mark.parametrize(
    ("text", "meant"),
    (
        ("plain/key", "plain/key"),
        ("a&amp;b&lt;c&gt;d&quot;e&apos;f", "a&b<c>d\"e'f"),
        ("&#65;&#x42;&#x1F600;", "AB\N{GRINNING FACE}"),
        # Resolved once: the text of a reference is no reference.
        ("&amp;lt;", "&lt;"),
        # Entities of HTML are none of XML, with or without their semicolon.
        ("&copy;&copy&eacute;", "&copy;&copy&eacute;"),
        ("a\r\nb\rc\n&#13;", "a\nb\nc\n\r"),
        ("&#9999999;", "&#9999999;"),
    ),
)
def test_references_are_resolved_as_xml_has_them(text: str, meant: str) -> None:
    """An upload would be marked for another key than its own, and its owner could never finish it."""
    assert unescaped(text) == meant
