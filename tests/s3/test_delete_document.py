"""A bulk delete is sent for exactly the objects that it was written from."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.s3.answers import delete_document
from signproxy.s3.bulk_delete import BulkDelete, DeletedObject, DeleteRules, read_bulk_delete

_ROOT = b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
_ANY = DeleteRules(check=lambda _: None, conditions=True, written_anew=True)
_NAMES = ("VersionId", "ETag", "LastModifiedTime", "Size")

# Everything that XML can hold, by whatever spelling.
_characters = st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff").filter(
    lambda each: each in "\t\n\r" or each >= " "
)
_texts = st.text(_characters | st.sampled_from("\t\n\r &<>\"'\x85\u2028]/."), max_size=20)
_objects = st.lists(
    st.builds(
        DeletedObject,
        _texts,
        st.lists(st.tuples(st.sampled_from(_NAMES), _texts), unique_by=lambda each: each[0]).map(tuple),
    ),
    min_size=1,
    max_size=5,
)


def read_by_element_tree(document: bytes) -> list[DeletedObject]:
    """Read as a store would that has a parser of its own."""
    found = []
    for element in ET.fromstring(document):  # noqa: S314 - our own, and the parser of stores in Python
        texts = [(child.tag.rpartition("}")[2], child.text or "") for child in element]
        if element.tag.endswith("}Object"):
            found.append(DeletedObject(dict(texts)["Key"], tuple(each for each in texts if each[0] != "Key")))
    return found


def test_a_document_names_each_object_in_its_order() -> None:
    """Clients count the objects of the answer, and a repeated one is two."""
    document = delete_document([DeletedObject("b"), DeletedObject("a&<>"), DeletedObject("b", (("VersionId", "v"),))])
    objects = b"<Object><Key>b</Key></Object><Object><Key>a&amp;&lt;&gt;</Key></Object>"
    assert document == _ROOT + objects + b"<Object><Key>b</Key><VersionId>v</VersionId></Object></Delete>"


def test_quiet_is_sent_where_it_was_asked_for() -> None:
    """A client that asked for errors alone would read a thousand elements, or the other way round none."""
    assert delete_document([DeletedObject("a")], quiet=True).endswith(b"</Object><Quiet>true</Quiet></Delete>")
    assert b"Quiet" not in delete_document([DeletedObject("a")], quiet=False)


@pytest.mark.parametrize(
    ("character", "written"),
    (
        ("\t", b"&#x9;"),
        ("\n", b"&#xA;"),
        ("\r", b"&#xD;"),
        ("\x85", b"&#x85;"),
        ("\u2028", b"&#x2028;"),
        ('"', b'"'),
        ("\u00e4", "\u00e4".encode()),
        ("\U0001f600", "\U0001f600".encode()),
    ),
)
def test_no_parser_turns_a_character_into_another(character: str, written: bytes) -> None:
    """A line end that is read as another one is another key."""
    assert delete_document([DeletedObject(f"t/{character}a")]) == (
        _ROOT + b"<Object><Key>t/" + written + b"a</Key></Object></Delete>"
    )


@given(_objects, st.booleans())
def test_what_is_written_is_what_every_parser_reads(objects: list[DeletedObject], quiet: bool) -> None:
    """A store would delete what was not judged."""
    document = delete_document(objects, quiet=quiet)
    assert read_by_element_tree(document) == objects
    if all(each.key for each in objects):
        assert read_bulk_delete(document, _ANY) == BulkDelete(tuple(objects), quiet)


_SPELLINGS = ("{}", "&#{:d};", "&#{:07d};", "&#x{:x};", "&#x{:09X};")


@st.composite
def _spelled(draw: st.DrawFn) -> tuple[str, str]:
    """Return a key, and one of the ways to spell it in XML; long references are the ones that weak readers miss."""
    key = draw(st.text(st.sampled_from("ab.&#x;46<>/ \u00e4"), min_size=1, max_size=12))
    spelled = ""
    for character in key:
        form = draw(st.sampled_from(_SPELLINGS[1:] if character in "&<>" else _SPELLINGS))
        spelled += character if form == "{}" else form.format(ord(character))
    return key, spelled


@given(st.lists(_spelled(), min_size=1, max_size=6), st.data())
def test_whichever_way_keys_are_spelled_only_the_allowed_ones_are_sent(
    spelled: list[tuple[str, str]], data: st.DataObject
) -> None:
    """A refused key that is spelled like an allowed decoy stayed in the body, and was deleted."""
    body = "".join([f"<Object><Key>{text}</Key></Object>" for _, text in spelled])
    read = read_bulk_delete(f"<Delete>{body}</Delete>".encode(), _ANY)
    assert [each.key for each in read.objects] == [key for key, _ in spelled]
    allowed = {key for key in read.keys if data.draw(st.booleans())}
    sent = delete_document([each for each in read.objects if each.key in allowed])
    assert [each.key for each in read_by_element_tree(sent)] == [key for key, _ in spelled if key in allowed]
