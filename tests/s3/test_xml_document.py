"""Answers of stores are read in one way, and changed where they were read."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.s3.xml_document import PIECE, Element, error_code, read_beginning, replaced, root_at
from signproxy.s3.xml_document import read_document as reading
from tests.pieces import drained


def read_document(document: bytes) -> Element:
    return drained(reading(document))


def fault_of(document: bytes) -> str:
    with pytest.raises(Refused) as refused:
        read_document(document)
    assert refused.value.reason is Reason.STORE_INVALID
    return refused.value.detail


@pytest.mark.parametrize(
    ("text", "meant"),
    (
        ("plain/key", "plain/key"),
        ("a&amp;b&lt;c&gt;d&quot;e&apos;f", "a&b<c>d\"e'f"),
        ("&#65;&#x42;&#x1F600;", "AB\N{GRINNING FACE}"),
        ("v1.metadata&#x000002e;json&#0000000046;", "v1.metadata.json."),
        # Resolved once: the text of a reference is not a reference.
        ("&amp;lt;", "&lt;"),
        ("a\r\nb\rc\n&#13;", "a\nb\nc\n\r"),
        ("a<![CDATA[<b>&amp;]]>c<!-- d -->e<?f g?>", "a<b>&amp;ce"),
        ("  a ", "  a "),
    ),
)
def test_a_text_is_read_as_every_parser_reads_it(text: str, meant: str) -> None:
    """An upload would be marked for another key than its own, and its owner could never finish it."""
    assert read_document(f"<R><Key>{text}</Key></R>".encode()).value("Key") == meant


def test_elements_know_where_they_stand() -> None:
    """What is written anew would be put into another element, or into the middle of a tag."""
    document = b'<?xml version="1.0"?>\n<R a="/>">\xc3\xa4<A>x</A><B/><C></C><D>/></D><E><F /></E></R>'
    root = read_document(document)
    assert (root.name, root.text) == ("R", "\u00e4")
    shown = [
        (each.name, each.text, each.is_short, document[each.start : each.end])
        for each in (root, *root.children, *root.children[4].children)
    ]
    assert shown == [
        ("R", "\u00e4", False, document[22:-4]),
        ("A", "x", False, b"<A>x"),
        ("B", "", True, b""),
        ("C", "", False, b"<C>"),
        ("D", "/>", False, b"<D>/>"),
        ("E", "", False, b"<E><F />"),
        ("F", "", True, b""),
    ]


def test_a_byte_order_mark_shifts_nothing() -> None:
    """Some stores begin with one; the ids of uploads would be cut in two."""
    document = b"\xef\xbb\xbf<R><A>x</A></R>"
    found = read_document(document).one("A")
    assert found is not None
    assert document[found.start : found.end] == b"<A>x"


def test_children_are_found_by_their_name() -> None:
    """The first of two elements would be read, and a client might read the last."""
    root = read_document(b"<R><A>1</A><B/><A>2</A><C><A>3</A></C></R>")
    assert [each.text for each in root.all("A")] == ["1", "2"]
    assert root.one("D") is None
    assert (root.value("B"), root.value("D")) == ("", "")
    for name, fault in (("A", "2 elements 'A' in 'R'"), ("C", "1 elements 'C' in 'R'")):
        with pytest.raises(Refused) as refused:
            root.value(name)
        assert refused.value.detail == f"XML: {fault}, or one that holds others"


@pytest.mark.parametrize(
    ("document", "fault"),
    (
        (b"", "XML: not well-formed: no element found: line 1, column 0"),
        (b"\x1f\x8b gzip", "XML: not well-formed: not well-formed (invalid token): line 1, column 0"),
        (b"<R>\xff</R>", "XML: not well-formed: not well-formed (invalid token): line 1, column 3"),
        (b"<R/>x", "XML: not well-formed: junk after document element: line 1, column 4"),
        (b"<R>&copy;</R>", "XML: not well-formed: undefined entity: line 1, column 3"),
        ("<R/>".encode("utf-16"), "XML: a NUL"),
        (b"<!DOCTYPE R><R/>", "XML: a document type"),
        (b'<!DOCTYPE R [<!ENTITY a "b">]><R>&a;</R>', "XML: a document type"),
    ),
)
def test_another_document_is_told_as_that(document: bytes, fault: str) -> None:
    """A stack trace would be the answer to what a proxy between says."""
    assert fault_of(document) == fault


def test_a_document_is_read_up_to_its_bounds() -> None:
    """A store, or what stands in its place, could keep a worker busy."""
    bounds = "XML: more than 120000 elements, or 16 levels"
    assert len(read_document(b"<R>%b</R>" % (b"<A/>" * 119_999)).children) == 119_999
    assert fault_of(b"<R>%b</R>" % (b"<A/>" * 120_000)) == bounds
    assert read_document(b"<A>" * 16 + b"</A>" * 16).children
    assert fault_of(b"<A>" * 17 + b"</A>" * 17) == bounds
    assert len(fault_of(b"<R>" + b"<A/><A/>" * 2 + b"</%b>" % (b"x" * 1000))) < 200


def test_a_long_document_is_read_piece_by_piece() -> None:
    """Ten thousand buckets take a tenth of a second; every other caller would wait for it."""
    pieces = reading(b"<R>%b</R>" % (b"<A>%b</A>" % (b"x" * 93) * 1000))
    assert sum(1 for _ in pieces) == 7


@pytest.mark.parametrize(
    ("document", "shown"),
    (
        (b"<R><A>x</A><B>y</B></R>", ("R", [("A", "x"), ("B", "y")])),
        (b"<R><A>x</A><B>y", ("R", [("A", "x"), ("B", "")])),
        (b"<R><A>x</A></B>", ("R", [("A", "x")])),
        (b"<R><A>x</A>\xff", ("R", [("A", "x")])),
        (b"<R><A>x</A>" + b"y" * PIECE + b"<B>", ("R", [("A", "x")])),
        (b"<R><A>x</A>" + b"<B/>" * PIECE, ("R", [("A", "x"), *[("B", "")] * ((PIECE - 11) // 4)])),
        (b"<R", ("", [])),
        (b"", ("", [])),
        (b"\0<R/>", ("", [])),
        (b"<!DOCTYPE R><R/>", ("", [])),
    ),
)
def test_a_beginning_is_read_as_far_as_it_goes(document: bytes, shown: object) -> None:
    """A document whose end is broken would hide the error, or the address, at its beginning."""
    root = read_beginning(document)
    assert (root.name, [(each.name, each.text) for each in root.children]) == shown
    assert all(document[each.start : each.end] == b"<A>x" for each in root.all("A"))
    assert all(each.is_short for each in root.all("B") if not each.text)


@pytest.mark.parametrize(
    ("document", "rest"),
    (
        (b"", b""),
        (b" \r\n\t", b""),
        (b"<R/> ", b"<R/> "),
        (b" <?xml version='1.0'?> \n<R/>", b"<R/>"),
        (b"<?xml version='1.0'?>", b""),
        (b" <?xml version='1.0'?", b"<?xml version='1.0'?"),
        (b"<?x", b"<?x"),
        (b"<?xml a?><?xml b?>", b"<?xml b?>"),
        # No blank of XML.
        (b"\x0b<R/>", b"\x0b<R/>"),
        (b"<!-- a --><R/>", b"<!-- a --><R/>"),
    ),
)
def test_a_document_begins_behind_its_blanks(document: bytes, rest: bytes) -> None:
    """A client whose store still works would wait for it in silence, and give up."""
    assert document[root_at(document) :] == rest


def test_pieces_are_replaced_where_they_stand() -> None:
    """Whatever else the store says must reach the client byte for byte."""
    assert replaced(b"0123456789", []) == b"0123456789"
    assert replaced(b"0123456789", [(0, 1, b"a"), (3, 3, b"b"), (8, 10, b"")]) == b"a12b34567"


_NAMES = st.sampled_from(("A", "Bc", "D-e", "F.g"))
_TEXTS = st.text(st.sampled_from("ab /<>&\"'\r\n\t]\u00e4\U0001f600"), max_size=8)


@st.composite
def _trees(draw: st.DrawFn, depth: int = 0) -> str:
    name = draw(_NAMES)
    inner = ""
    for _ in range(draw(st.integers(0, 3))):
        if depth < 3 and draw(st.booleans()):
            inner += draw(_trees(depth + 1))
        else:
            text = draw(_TEXTS)
            plain = text.replace("&", "&amp;").replace("<", "&#x00003c;").replace("]]>", "]]&gt;")
            inner += draw(st.sampled_from((plain, "<!--/>-->", "<?p />?>", f"<![CDATA[{text.replace(']]>', '')}]]>")))
    start = f"<{name}{draw(st.sampled_from(('', ' ')))}"
    return f"{start}/>" if not inner and draw(st.booleans()) else f"{start}>{inner}</{name}>"


def _seen(element: ET.Element) -> tuple[object, ...]:
    text = (element.text or "") + "".join([child.tail or "" for child in element])
    return (element.tag, text, [_seen(child) for child in element])


def _shown(element: Element) -> tuple[object, ...]:
    return (element.name, element.text, [_shown(child) for child in element.children])


def _check_places(document: bytes, element: Element) -> None:
    tag = re.compile(rb"<%b\s*(/?)>" % re.escape(element.name.encode())).match(document, element.start)
    assert tag is not None
    assert element.is_short is bool(tag[1])
    assert element.is_short or document.startswith(b"</%b>" % element.name.encode(), element.end)
    for child in element.children:
        _check_places(document, child)


@given(_trees())
def test_a_document_means_to_us_what_it_means_to_a_client(text: str) -> None:
    """What is marked, shown or compared would not be what the client reads."""
    document = text.encode()
    root = read_document(document)
    assert _shown(root) == _seen(ET.fromstring(document))  # noqa: S314 - our own, and the parser of Python's clients
    _check_places(document, root)


@pytest.mark.parametrize(
    ("document", "code"),
    (
        (b"<Error><Code> NoSuchKey </Code><Message>m</Message></Error>", "NoSuchKey"),
        (b"<Error><Code>" + b"a" * 64 + b"</Code></Error>", "a" * 64),
        (b"<Error><Code>" + b"a" * 65 + b"</Code></Error>", ""),
        (b"<Error><Code>No\nSuch</Code></Error>", ""),
        (b"<Error><Code></Code></Error>", ""),
        (b"<Error><Code>A</Code><Code>B</Code></Error>", ""),
        (b"<Error><Message>m</Message></Error>", ""),
        (b"<Result><Code>A</Code></Result>", ""),
        # What was read before a fault stands.
        (b"<Error><Code>A.b9</Code><Message>\x1b", "A.b9"),
        (b"", ""),
    ),
)
def test_the_code_of_an_error_is_told_where_it_can_be_one(document: bytes, code: str) -> None:
    """An operator looks for the code; a store that says something else there would write into the log what it likes."""
    assert error_code(read_beginning(document)) == code
