"""What signproxy writes as XML is read as it was meant: answers by clients, and a bulk delete by the store."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.s3.answers import delete_document, delete_errors, delete_result_xml, error_xml, escaped, list_buckets_xml
from signproxy.s3.bulk_delete import BulkDelete, DeletedObject, DeleteRules, read_bulk_delete

_NS = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_HOSTILE = "</Key><Code>x</Code><!--&amp;'\"]]>"


def parsed(document: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(document)  # noqa: S314 - our own, and the parser of Python's clients


def test_an_error_is_what_sdks_read() -> None:
    """Code, Message and RequestId are what every SDK shows its user."""
    assert error_xml("AccessDenied", "No", "/b/k", "r-1", [("HeadersNotSigned", "x-amz-acl")]) == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b"<Error><Code>AccessDenied</Code><Message>No</Message><Resource>/b/k</Resource>"
        b"<HeadersNotSigned>x-amz-acl</HeadersNotSigned><RequestId>r-1</RequestId><HostId>r-1</HostId></Error>"
    )


def test_a_list_of_buckets_is_what_sdks_read() -> None:
    """Without CreationDate some SDKs fail on the list."""
    dates = ["2020-01-02T03:04:05.678Z", "2021-01-01T00:00:00.000Z"]
    root = parsed(list_buckets_xml(zip(["lake", "raw"], dates, strict=True)))
    assert root.tag == f"{_NS}ListAllMyBucketsResult"
    assert [each.text for each in root.iter(f"{_NS}Name")] == ["lake", "raw"]
    assert [each.text for each in root.iter(f"{_NS}CreationDate")] == dates
    assert [each.text for each in root.iter(f"{_NS}ID")] == ["signproxy"]


def test_a_part_of_a_list_says_where_the_next_one_begins() -> None:
    """A client would take the first part for all of it."""
    root = parsed(list_buckets_xml([("a", "d")], prefix="", next_token="a"))
    assert (root.findtext(f"{_NS}Prefix"), root.findtext(f"{_NS}ContinuationToken")) == ("", "a")
    root = parsed(list_buckets_xml([("a", "d")]))
    assert (root.find(f"{_NS}Prefix"), root.find(f"{_NS}ContinuationToken")) == (None, None)


def test_a_result_of_a_bulk_delete_tells_of_each_object() -> None:
    """A key that is missing from the answer is taken for deleted, and a version of it is another object."""
    root = parsed(delete_result_xml([("b", "AccessDenied", "No", ""), ("b", "AccessDenied", "No", "v<")]))
    assert [(each.tag, [(child.tag, child.text) for child in each]) for each in root] == [
        (f"{_NS}Error", [(f"{_NS}Key", "b"), (f"{_NS}Code", "AccessDenied"), (f"{_NS}Message", "No")]),
        (
            f"{_NS}Error",
            [
                (f"{_NS}Key", "b"),
                (f"{_NS}VersionId", "v<"),
                (f"{_NS}Code", "AccessDenied"),
                (f"{_NS}Message", "No"),
            ],
        ),
    ]


@given(st.text())
def test_any_text_comes_back_as_text(text: str) -> None:
    """A key made of markup must not add an element, or end the document early."""
    document = parsed(f"<a>{escaped(text)}</a>".encode())
    assert not list(document)
    read = document.text or ""
    assert len(read) == len(text)
    assert all(found in (sent, "\ufffd") for found, sent in zip(read, text, strict=True))


def test_hostile_keys_stay_keys() -> None:
    """What a key says must not become what signproxy says."""
    for document in (
        error_xml("C", "m", _HOSTILE, _HOSTILE),
        delete_result_xml([(_HOSTILE, "C", "m", "")]),
        list_buckets_xml([(_HOSTILE, _HOSTILE)]),
        b"<a>" + delete_errors([("k", "C", "m", _HOSTILE)]).encode() + b"</a>",
    ):
        assert _HOSTILE in [each.text for each in parsed(document).iter()]


def test_line_ends_survive_and_what_xml_cannot_hold_is_replaced() -> None:
    """Parsers make line feeds of carriage returns; a lone surrogate would be an error of ours."""
    assert escaped("a\r\n\tb") == "a&#xD;&#xA;&#x9;b"
    assert escaped("\x00\x1b\ud800\uffff\u2028") == "\ufffd" * 5


# -- the document of a bulk delete -----------------------------------------------------------------------------------

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
    for element in ElementTree.fromstring(document):  # noqa: S314 - our own, and the parser of stores in Python
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
