"""A bulk delete is signed for exactly the keys that every store will read out of its body."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import unescape
from typing import Any
from xml.dom import minidom
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import botocore.loaders
import botocore.model
import botocore.serialize
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.s3.bulk_delete import (
    MAX_BODY_BYTES,
    MAX_KEYS,
    MAX_TEXT,
    BulkDelete,
    DeletedObject,
    DeleteRules,
    read_bulk_delete,
    reading,
)
from signproxy.s3.codes import S3Answer, s3_answer
from signproxy.s3.forwarded import FORWARDED
from signproxy.s3.key import MAX_KEY_BYTES, check_key

FAULTS = frozenset(
    {
        Reason.DELETE_BODY,
        Reason.DELETE_MARKUP,
        Reason.DELETE_SIZE,
        Reason.DELETE_WHITE_SPACE,
        Reason.KEY_CHARACTER,
        Reason.KEY_DOT_SEGMENT,
        Reason.KEY_EMPTY_SEGMENT,
        Reason.KEY_PATH_PARAMETER,
        Reason.KEY_TOO_LONG,
    }
)
"""Of a body, besides a repeated key."""

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


DECLARATION = "delete_markup: a document type, comment or CDATA section"
BRACKETS = "angle brackets that do not pair up, or a tag that is too long"


def body_of(inner: str, *, root: str = "Delete", before: str = "") -> bytes:
    return f"{before}<{root}>{inner}</{root.partition(' ')[0]}>".encode()


def objects(keys: Iterable[str]) -> str:
    return "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)


def keys_read(body: bytes) -> tuple[str, ...]:
    """Return the keys of a body that is signed as it is: each one once, without a condition."""
    read = read_bulk_delete(body)
    assert read.objects == tuple(DeletedObject(key) for key in read.keys)
    return read.keys


def keys_or_refusal(body: bytes) -> tuple[str, ...] | Refused:
    try:
        return keys_read(body)
    except Refused as refusal:
        if refusal.reason not in FAULTS:
            raise
        return refusal


def refusal_of(body: bytes) -> Refused:
    refusal = keys_or_refusal(body)
    assert isinstance(refusal, Refused)
    return refusal


def fault_of(body: bytes) -> str:
    """Return the reason of a refusal, where it is not the XML itself, and its detail."""
    refusal = refusal_of(body)
    return refusal.detail if refusal.reason is Reason.DELETE_BODY else str(refusal)


@pytest.mark.parametrize(
    ("body", "keys"),
    (
        pytest.param(body_of(objects(["t/a"])), ("t/a",), id="bare"),
        pytest.param(
            body_of(
                "<Object><Key>t/a</Key></Object><Object><Key>t/b</Key></Object>",
                root=f"Delete {NAMESPACE}",
                before='<?xml version="1.0" encoding="UTF-8"?>',
            ),
            ("t/a", "t/b"),
            id="Iceberg Java",
        ),
        pytest.param(
            body_of(
                "\n  <Quiet>true</Quiet>\r\n\t<Object>\n <Key>t/a</Key>\n </Object>\n",
                root=f"Delete {NAMESPACE}",
                before="<?xml version='1.0' encoding='utf-8' standalone='yes'?>\n",
            )
            + b"\n \n",
            ("t/a",),
            id="indented, quiet first",
        ),
        pytest.param(body_of(objects(["t/a"]), before='<?xml version="1.0"?>'), ("t/a",), id="no encoding declared"),
        pytest.param(body_of(objects(["t/a"]) + "<Quiet>t&#114;ue</Quiet>"), ("t/a",), id="quiet in pieces"),
        pytest.param(body_of(objects(["t/a"]) + "<Quiet>false</Quiet>"), ("t/a",), id="quiet last"),
        pytest.param(body_of(objects(["b", "a", "c"])), ("b", "a", "c"), id="order kept"),
        pytest.param(body_of(objects(["t/A", "t/a"])), ("t/A", "t/a"), id="two spellings are two keys"),
        pytest.param(body_of(objects(["t/d=a+b%3D1"])), ("t/d=a+b%3D1",), id="plus and percent are literal"),
        pytest.param(body_of(objects(["t/a b  c"])), ("t/a b  c",), id="inner spaces kept"),
        pytest.param(
            body_of("<Object><Key>t/&lt;&gt;&amp;&quot;&apos;</Key></Object>"), ("t/<>&\"'",), id="XML's five entities"
        ),
        pytest.param(
            body_of("<Object><Key>t/&#65;&#x42;&#x1F600;</Key></Object>"), ("t/AB😀",), id="character references"
        ),
        # Double escapes are text: decoding twice would delete another key.
        pytest.param(body_of("<Object><Key>t/&amp;#65;</Key></Object>"), ("t/&#65;",), id="decoded once"),
        pytest.param(body_of(objects(["t/日本/😀"])), ("t/日本/😀",), id="beyond the basic plane"),
        pytest.param(body_of(objects(["t/e\u0301", "t/é"])), ("t/e\u0301", "t/é"), id="not normalised"),
        pytest.param(body_of(objects(["t/]]"])), ("t/]]",), id="brackets"),
        # A reference in the declared namespace is the same namespace to every parser.
        pytest.param(
            body_of(objects(["t/a"]), root='Delete xmlns="http://s3.amazonaws.com/doc/2006&#45;03-01/"'),
            ("t/a",),
            id="namespace by reference",
        ),
    ),
)
def test_the_keys_of_a_documented_body_are_read_as_written(body: bytes, keys: tuple[str, ...]) -> None:
    """Every commit of every writer ends with such a body; a key read wrong is a file deleted wrong."""
    assert keys_read(body) == keys


@pytest.mark.parametrize(
    ("body", "fault"),
    (
        (b"", "no element found"),
        (b"keys", "syntax error"),
        (b"<Delete>", "no element found"),
        (b'{"Key":"t/a"}', "not well-formed (invalid token)"),
        (body_of("<Object><Key>t/a</Object></Key>"), "mismatched tag"),
        # Parsers that stop at the end of the first document never see the second.
        (body_of(objects(["t/a"])) * 2, "junk after document element"),
        (
            b" " + body_of(objects(["t/a"]), before='<?xml version="1.0"?>'),
            "XML or text declaration not at start of entity",
        ),
        (body_of("<Object><Key>&amp;&nbsp;</Key></Object>"), "undefined entity"),
        (body_of("<Object><Key>&#xD800;</Key></Object>"), "reference to invalid character number"),
        (body_of("<Object><Key>&#0;</Key></Object>"), "reference to invalid character number"),
        (body_of(objects(["t/a"]), root=f"Delete {NAMESPACE} {NAMESPACE}"), "duplicate attribute"),
    ),
)
def test_what_is_no_xml_is_refused(body: bytes, fault: str) -> None:
    """Parsers repair such bodies each in its own way."""
    assert refusal_of(body).detail.startswith(f"not well-formed XML: {fault}: line 1, column ")


@pytest.mark.parametrize(
    ("body", "detail"),
    (
        # Encodings
        (b"\xef\xbb\xbf" + body_of(objects(["t/a"])), "delete_markup: a byte order mark or NUL"),
        (body_of(objects(["t/a"])).decode().encode("utf-16"), "delete_markup: a byte order mark or NUL"),
        (body_of(objects(["t/a"])).decode().encode("utf-16-le"), "delete_markup: a byte order mark or NUL"),
        (body_of(objects(["t/a"])).decode().encode("utf-16-be"), "delete_markup: a byte order mark or NUL"),
        (b"\xfe\xff" + body_of(objects(["t/a"])), "delete_markup: not UTF-8 at byte 0"),
        (body_of(objects(["t/\0"])), "delete_markup: a byte order mark or NUL"),
        (body_of(objects(["t/\0a"])), "delete_markup: a byte order mark or NUL"),
        (b"\xef\xbb\xbf\n" + body_of(objects(["t/a"])), "delete_markup: a byte order mark or NUL"),
        (b"<Delete><Object><Key>t/\xe9</Key></Object></Delete>", "delete_markup: not UTF-8 at byte 23"),
        # An overlong slash, and a surrogate pair written as two characters.
        (b"<Delete><Object><Key>t\xc0\xafa</Key></Object></Delete>", "delete_markup: not UTF-8 at byte 22"),
        (
            b"<Delete><Object><Key>t/\xed\xa0\xbd\xed\xb8\x80</Key></Object></Delete>",
            "delete_markup: not UTF-8 at byte 23",
        ),
        (
            body_of(objects(["t/a"]), before='<?xml version="1.0" encoding="UTF-16"?>'),
            "delete_markup: encoding 'UTF-16'",
        ),
        (
            body_of(objects(["t/a"]), before='<?xml version="1.0" encoding="ISO-8859-1"?>'),
            "delete_markup: encoding 'ISO-8859-1'",
        ),
        (body_of(objects(["t/a"]), before='<?xml version="1.0" encoding="UTF-7"?>'), "delete_markup: encoding 'UTF-7'"),
        # XML 1.1 ends lines, and so keys, elsewhere.
        (body_of(objects(["t/a"]), before='<?xml version="1.1"?>'), "delete_markup: XML version '1.1'"),
        # Document types, entities
        (body_of(objects(["t/a"]), before="<!DOCTYPE Delete>"), DECLARATION),
        (
            body_of("<Object><Key>&d;</Key></Object>", before='<!DOCTYPE Delete [<!ENTITY d "d">]>'),
            DECLARATION,
        ),
        (
            body_of(
                "<Object><Key>&x;</Key></Object>", before='<!DOCTYPE Delete [<!ENTITY x SYSTEM "file:///etc/hosts">]>'
            ),
            DECLARATION,
        ),
        (body_of(objects(["t/a"]), before='<!DOCTYPE Delete SYSTEM "http://127.0.0.1/d.dtd">'), DECLARATION),
        (
            body_of(objects(["t/a"]), before='<!DOCTYPE Delete [<!ENTITY % p SYSTEM "file:///p">%p;]>'),
            DECLARATION,
        ),
        # Default attributes would come from here.
        (
            body_of(objects(["t/a"]), before='<!DOCTYPE Delete [<!ATTLIST Key xml:space CDATA "default">]>'),
            DECLARATION,
        ),
        # What some parsers drop and others split a text at
        (body_of("<Object><Key>t/a<!-- -->b</Key></Object>"), DECLARATION),
        (body_of(f"<!-- -->{objects(['t/a'])}"), DECLARATION),
        (body_of(objects(["t/a"])) + b"<!-- -->", DECLARATION),
        (body_of(objects(["t/a"]), before="<!-- -->"), DECLARATION),
        (body_of("<Object><Key>t/a<?p q?>b</Key></Object>"), "delete_markup: a processing instruction"),
        (body_of(objects(["t/a"]), before='<?xml-stylesheet href="a"?>'), "delete_markup: a processing instruction"),
        (body_of("<Object><Key><![CDATA[t/a]]></Key></Object>"), DECLARATION),
        (body_of(f"<![CDATA[]]>{objects(['t/a'])}"), DECLARATION),
        # A bracket inside a text or an attribute ends a tag for a reader that goes by patterns.
        (body_of("<Object><Key>t/a>b</Key></Object>"), BRACKETS),
        (body_of("<Object><Key>t/a]]>b</Key></Object>"), BRACKETS),
        (body_of(objects(["t/a"]), root='Delete a=">"'), BRACKETS),
        (body_of("<Object><Key>t/a<b</Key></Object>"), BRACKETS),
        (body_of("<Object><Key>t/a<b</Key>></Object>"), BRACKETS),
        (body_of("<Object><Key>t/a<></Key></Object>"), BRACKETS),
        # Structure
        (b"<Delete/>", "delete_size: no Object"),
        (body_of(""), "delete_size: no Object"),
        (body_of("<Quiet>true</Quiet>"), "delete_size: no Object"),
        (b"<Object><Key>t/a</Key></Object>", "element 'Object' in the document"),
        (body_of(objects(["t/a"]), root="delete"), "element 'delete' in the document"),
        (body_of("<Key>t/a</Key>"), "element 'Key' in Delete"),
        (body_of("<object><Key>t/a</Key></object>"), "element 'object' in Delete"),
        (body_of("<Object><key>t/a</key></Object>"), "element 'key' in Object"),
        (body_of("<Object><Object><Key>t/a</Key></Object></Object>"), "element 'Object' in Object"),
        (body_of(f"<Delete>{objects(['t/a'])}</Delete>"), "element 'Delete' in Delete"),
        (body_of("<Object><Key>t/<b>a</b></Key></Object>"), "element 'b' in Key"),
        (body_of("<Object><Key>t/<Key>a</Key></Key></Object>"), "element 'Key' in Key"),
        (body_of("<Quiet><Key>t/a</Key></Quiet>"), "element 'Key' in Quiet"),
        (body_of("<Object><Quiet>true</Quiet></Object>"), "element 'Quiet' in Object"),
        (body_of("<Object/>"), "object 1: no Key"),
        (body_of(objects(["t/a"]) + "<Object> </Object>"), "object 2: no Key"),
        (body_of("<Object><Key>t/a</Key><Key>t/b</Key></Object>"), "object 1: a second Key"),
        (body_of(objects(["t/a"]) + "<Object><Key>t/b</Key><Key/></Object>"), "object 2: a second Key"),
        (body_of("<Object><Key>t/a</Key>b</Object>"), "text in Object"),
        (body_of(f"a{objects(['t/a'])}"), "text in Delete"),
        # White space to Python, none to XML.
        (body_of(f"\u00a0{objects(['t/a'])}"), "text in Delete"),
        (body_of(objects(["t/a"]) + "&#65;"), "text in Delete"),
        # What deletes more, or something else, than the key says
        (body_of("<Object><Key>t/a</Key><VersionId>null</VersionId></Object>"), "element 'VersionId' in Object"),
        (body_of("<Object><VersionId/><Key>t/a</Key></Object>"), "element 'VersionId' in Object"),
        (body_of("<Object><Key>t/a</Key><ETag>e</ETag></Object>"), "element 'ETag' in Object"),
        (body_of("<Object><Key>t/a</Key><LastModifiedTime/></Object>"), "element 'LastModifiedTime' in Object"),
        (body_of("<Object><Key>t/a</Key><Size>1</Size></Object>"), "element 'Size' in Object"),
        (body_of(objects(["t/a"]) + "<Prefix>t/</Prefix>"), "element 'Prefix' in Delete"),
        # Names and attributes
        (body_of(objects(["t/a"]), root='Delete xmlns="http://example.org/"'), "attributes of Delete"),
        (body_of(objects(["t/a"]), root='Delete xmlns=""'), "attributes of Delete"),
        (body_of(objects(["t/a"]), root='Delete a="b"'), "attributes of Delete"),
        (body_of(objects(["t/a"]), root=f'Delete {NAMESPACE} a="b"'), "attributes of Delete"),
        (body_of(f"<Object {NAMESPACE}><Key>t/a</Key></Object>"), "attributes of Object"),
        (body_of('<Object><Key xml:space="preserve">t/a</Key></Object>'), "attributes of Key"),
        (body_of('<Object><Key encoding="url">t%2Fa</Key></Object>'), "attributes of Key"),
        (body_of(f'{objects(["t/a"])}<Quiet a="">true</Quiet>'), "attributes of Quiet"),
        (
            f'<s:Delete xmlns:s="http://s3.amazonaws.com/doc/2006-03-01/">{objects(["t/a"])}</s:Delete>'.encode(),
            "element 's:Delete' in the document",
        ),
        (body_of("<Object><s:Key>t/a</s:Key></Object>"), "element 's:Key' in Object"),
        # Quiet
        (body_of(objects(["t/a"]) + "<Quiet/>"), "Quiet is neither true nor false"),
        (body_of(objects(["t/a"]) + "<Quiet>True</Quiet>"), "Quiet is neither true nor false"),
        (body_of(objects(["t/a"]) + "<Quiet> true</Quiet>"), "Quiet is neither true nor false"),
        (body_of("<Quiet>true</Quiet>" + objects(["t/a"]) + "<Quiet>true</Quiet>"), "a second Quiet"),
        # Keys
        (body_of("<Object><Key/></Object>"), "key_empty_segment: object 1: key ''"),
        (body_of(objects(["t/a", "/t/b"])), "key_empty_segment: object 2: key '/t/b'"),
        (body_of(objects(["t/a", "t/b", "t//c"])), "key_empty_segment: object 3: key 't//c'"),
        (body_of(objects(["t/../u/a"])), "key_dot_segment: object 1: key 't/../u/a'"),
        (body_of(objects(["t\\a"])), "key_character: object 1: key 't\\\\a'"),
        # XML turns a carriage return into a line feed, a reference to one stays: no key of ours has either.
        (body_of(objects(["t/a\r\nb"])), "key_character: object 1: key 't/a\\nb'"),
        (body_of(objects(["t/a\rb"])), "key_character: object 1: key 't/a\\nb'"),
        (body_of("<Object><Key>t/a&#13;b</Key></Object>"), "key_character: object 1: key 't/a\\rb'"),
        (body_of("<Object><Key>t/a&#x85;b</Key></Object>"), "key_character: object 1: key 't/a\\x85b'"),
        (body_of("<Object><Key>\nt/a\n</Key></Object>"), "key_character: object 1: key '\\nt/a\\n'"),
        # Trimmed, as some parsers do, these would be metadata files.
        (
            body_of(objects(["t/v1.metadata.json "])),
            "delete_white_space: object 1: white space around key 't/v1.metadata.json '",
        ),
        (body_of(objects([" t/a"])), "delete_white_space: object 1: white space around key ' t/a'"),
        (body_of(objects(["t/a\u3000"])), "delete_white_space: object 1: white space around key 't/a\\u3000'"),
    ),
)
def test_what_a_parser_might_read_otherwise_is_refused(body: bytes, detail: str) -> None:
    """The store would delete other files than those that were judged."""
    assert fault_of(body) == detail


@pytest.mark.parametrize(
    ("body", "detail"),
    (
        (body_of(objects(["t/a", "t/b", "t/a"])), "object 3: key 't/a' is repeated"),
        (
            body_of("<Object><Key>t/a</Key></Object><Object><Key>t/&#97;</Key></Object>"),
            "object 2: key 't/a' is repeated",
        ),
    ),
)
def test_a_key_that_is_named_twice_is_told_as_that(body: bytes, detail: str) -> None:
    """The client would be told that its body is not allowed, and nothing of what to change."""
    with pytest.raises(Refused) as refused:
        read_bulk_delete(body)
    assert (refused.value.reason, refused.value.detail) == (Reason.DELETE_REPEATED, detail)


CONDITIONAL = DeleteRules(check=None, conditions=True, written_anew=True)


def test_everything_that_an_object_names_is_read() -> None:
    """What is sent is written from this: a version that is left out deletes the newest one instead."""
    body = body_of(
        "<Quiet>true</Quiet>"
        "<Object><Size>1</Size><Key> t/a </Key><ETag>&quot;e&quot;</ETag><VersionId>v&#x0000041;</VersionId></Object>"
        "<Object><Key> t/a </Key><LastModifiedTime>\n t</LastModifiedTime></Object><Object><Key>b</Key></Object>"
    )
    read = read_bulk_delete(body, CONDITIONAL)
    assert read == BulkDelete(
        (
            DeletedObject(" t/a ", (("Size", "1"), ("ETag", '"e"'), ("VersionId", "vA"))),
            DeletedObject(" t/a ", (("LastModifiedTime", "\n t"),)),
            DeletedObject("b"),
        ),
        quiet=True,
    )
    assert read.keys == (" t/a ", "b")


@pytest.mark.parametrize(
    ("quiet", "read"), (("", False), ("<Quiet>false</Quiet>", False), ("<Quiet>true</Quiet>", True))
)
def test_whether_a_client_wants_to_hear_of_errors_alone_is_read(quiet: str, *, read: bool) -> None:
    """A client that counts what was deleted would be told of nothing."""
    assert read_bulk_delete(body_of(objects(["t/a"]) + quiet)).quiet is read


@pytest.mark.parametrize("name", ("VersionId", "ETag", "LastModifiedTime", "Size"))
@pytest.mark.parametrize("second", ("w", ""))
def test_a_condition_that_is_named_twice_is_refused(name: str, second: str) -> None:
    """Of two versions one parser reads the first and another the last."""
    one = f"<{name}></{name}><Key>t/a</Key><{name}>{second}</{name}>"
    with pytest.raises(Refused) as refused:
        read_bulk_delete(body_of(f"<Object>{one}</Object>"), CONDITIONAL)
    assert refused.value.detail == f"object 1: a second {name}"
    # Each object may have its own.
    two = f"<Object><Key>t/a</Key><{name}>v</{name}></Object>" * 2
    objects_read = read_bulk_delete(body_of(two), CONDITIONAL).objects
    assert objects_read == (DeletedObject("t/a", ((name, "v"),)),) * 2


def test_a_long_body_is_read_piece_by_piece() -> None:
    """Every other caller would wait for the last key of it."""
    keys = tuple(f"t/{number}{'é&' * 100}" for number in range(1000))
    body = body_of(objects(keys))
    pieces = reading(body)
    for _ in range(2 + (len(body) - 1) // (4 * 1024)):
        next(pieces)
    with pytest.raises(StopIteration) as end:
        next(pieces)
    assert end.value.value == read_bulk_delete(body) == BulkDelete(tuple(map(DeletedObject, keys)))


def test_a_thousand_keys_are_read_and_one_more_is_refused() -> None:
    """S3 refuses a longer list only after it was signed; a signer without a bound can be kept busy."""
    keys = tuple(f"t/{number}" for number in range(MAX_KEYS + 1))
    assert keys_read(body_of(objects(keys[:-1]))) == keys[:-1]
    assert fault_of(body_of(objects(keys))) == "delete_size: more than 1000 objects"


def test_two_mebibytes_are_read_and_one_byte_more_is_refused() -> None:
    """The largest body that S3 takes must pass, and no larger one may cost a parse."""
    body = body_of(objects(["t/a"]))
    largest = body + b"\n" * (MAX_BODY_BYTES - len(body))
    assert len(largest) == 2 * 1024 * 1024
    assert keys_read(largest) == ("t/a",)
    assert fault_of(largest + b"\n") == "delete_size: 2097153 bytes, at most 2097152 are read"


@pytest.mark.parametrize("character", ("a", "é", "😀", "&"))
def test_the_longest_key_is_read_and_a_longer_one_is_refused(character: str) -> None:
    """A key's limit counts UTF-8 bytes, however many characters or references they are written as."""
    longest = "t/aa" + character * ((MAX_KEY_BYTES - 4) // len(character.encode()))
    assert len(longest.encode()) == MAX_KEY_BYTES
    assert keys_read(body_of(objects([longest]))) == (longest,)
    assert fault_of(body_of(objects([longest + "a"]))).startswith("key_too_long: object 1: ")


@pytest.mark.parametrize("key", ("a" * (MAX_KEY_BYTES + 1), "é" * 1111, "😀" * MAX_TEXT))
def test_a_key_that_is_too_long_does_not_keep_the_others_of_a_forwarded_body_from_being_read(key: str) -> None:
    """A clean-up of a thousand objects would delete none of them for one name; S3 refuses that name alone."""
    read = read_bulk_delete(body_of(objects(["t/a", key, "t/b"])), FORWARDED)
    assert read.keys == ("t/a", key, "t/b")


def test_a_text_that_no_client_of_s3_writes_is_refused_with_the_body() -> None:
    """Each text that is kept is repeated in the answer, or in a document that is written anew."""
    for inner, reason, fault in (
        (f"<Key>{'a' * (MAX_TEXT + 1)}</Key>", Reason.KEY_TOO_LONG, "key"),
        (f"<VersionId>{'a' * (MAX_TEXT + 1)}</VersionId><Key>t/a</Key>", Reason.DELETE_BODY, "VersionId"),
    ):
        body = body_of(objects(["t/a"]) + f"<Object>{inner}</Object>")
        with pytest.raises(Refused) as refused:
            read_bulk_delete(body, FORWARDED)
        assert refused.value.reason is reason
        assert refused.value.detail == f"object 2: {fault} of 8193 characters, at most 8192 are read"
        read_bulk_delete(body.replace(b"a" * (MAX_TEXT + 1), b"a" * MAX_TEXT), FORWARDED)


NOT_ACCEPTED = "The body of the bulk delete is not the XML that is accepted"
MARKUP = Reason.DELETE_MARKUP.value.message
SIZE = "A bulk delete names 1 to 1,000 objects, in at most 2 MiB"


@pytest.mark.parametrize(
    ("body", "words"),
    (
        (b"keys", f"{NOT_ACCEPTED}: not well-formed XML: syntax error: line 1, column 0"),
        (body_of(objects(["t/a"]), before="<!DOCTYPE Delete>"), f"{MARKUP}: a document type, comment or CDATA section"),
        (body_of(objects(map(str, range(1001)))), f"{SIZE}: more than 1000 objects"),
        (b"<Delete/>", f"{SIZE}: no Object"),
        (body_of("<Object><Key>t/a</Key><Other/></Object>"), f"{NOT_ACCEPTED}: element 'Other' in Object"),
        # A text of the caller's may be shown where it moves the cursor.
        (body_of("<Object><Key>t/a</Key><\x7f/></Object>"), f"{NOT_ACCEPTED}: not well-formed XML: "),
    ),
)
def test_the_answer_names_the_fault_of_a_forwarded_body(body: bytes, words: str) -> None:
    """`The body of the bulk delete is not allowed` says nothing of what to change."""
    with pytest.raises(Refused) as refused:
        read_bulk_delete(body, FORWARDED)
    told = s3_answer(refused.value)
    assert told == S3Answer(400, "MalformedXML", told.message)
    assert told.message.startswith(words)
    assert told.message.isprintable()


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    (
        (body_of(objects(["wh/../a"])), Reason.KEY_DOT_SEGMENT, "dot segments"),
        (body_of(objects(["wh//a"])), Reason.KEY_EMPTY_SEGMENT, "empty segments"),
        (body_of(objects(["wh/;a/b"])), Reason.KEY_PATH_PARAMETER, "begins with a semicolon"),
        (body_of(objects(["wh/a\\b"])), Reason.KEY_CHARACTER, "a character that is not allowed"),
        (body_of(objects(["a" * 1025])), Reason.KEY_TOO_LONG, "longer than 1,024 bytes"),
        (body_of(objects(["wh/a "])), Reason.DELETE_WHITE_SPACE, "begins or ends with white space"),
        (body_of(objects(["wh/a"]), before="<!DOCTYPE Delete>"), Reason.DELETE_MARKUP, "without document type"),
        (body_of(objects(map(str, range(1001)))), Reason.DELETE_SIZE, "1 to 1,000 objects"),
        (b"<Delete/>", Reason.DELETE_SIZE, "1 to 1,000 objects"),
        (b"keys", Reason.DELETE_BODY, "not the XML that is accepted"),
        (body_of("<Object><Key>t/a</Key><VersionId>v</VersionId></Object>"), Reason.DELETE_BODY, "no VersionId"),
    ),
)
def test_the_reason_names_the_rule_that_a_signed_body_breaks(body: bytes, reason: Reason, words: str) -> None:
    """Users look the code up in the table of reasons: one text for all faults says nothing of what to change."""
    refusal = refusal_of(body)
    assert refusal.reason is reason
    assert words in reason.value.message


@pytest.mark.parametrize("name", ("VersionId", "ETag", "LastModifiedTime", "Size"))
def test_the_answer_names_the_condition_that_a_signed_body_must_not_hold(name: str) -> None:
    """A client's own switch writes it; a list of four elements does not say which switch to turn off."""
    refusal = refusal_of(body_of(f"<Object><Key>t/a</Key><{name}>v</{name}></Object>"))
    assert (refusal.reason, refusal.detail) == (Reason.DELETE_BODY, f"element {name!r} in Object")
    told = s3_answer(refusal).message
    assert told == (
        f"In a table a bulk delete names objects by their key alone: {name} is not accepted; leave it out. "
        "Only volumes accept it"
    )
    # Anywhere else it is no element of the document at all.
    misplaced = refusal_of(body_of(f"<{name}>v</{name}>"))
    assert s3_answer(misplaced).message == f"{NOT_ACCEPTED}: element {name!r} in Delete"


def test_a_text_in_many_pieces_is_one_key() -> None:
    """The parser hands a text over in pieces; a key that lost one is another key."""
    keys = tuple(f"t/{number}/{'&<é>' * 200}" for number in range(200))
    body = body_of(objects(keys))
    assert len(body) > 400_000
    assert keys_read(body) == keys
    too_long = body_of(objects([keys[0] * 20]))
    characters = len(keys[0]) * 20
    assert fault_of(too_long) == f"key_too_long: object 1: key of {characters} characters, at most 1024 are read"


@pytest.mark.parametrize(
    "body",
    (
        body_of(f"<{'x' * 1_000_000}/>"),
        body_of(objects(["t/" + "\x07" * 1_000_000]).replace("\x07", "\\")),
        body_of(objects(["t/" + "\u2028" * 300_000])),
        body_of(objects(["t/a"]), root="Delete " + " ".join(f'a{number}=""' for number in range(50_000))),
        body_of(objects(["t/a"]), before=f'<?xml version="1.0" encoding="{"x" * 1_000_000}"?>'),
        body_of(objects(["t/a"]), before=f'<?xml version="1.{"0" * 1_000_000}"?>'),
        body_of("<Object>" + "t/a" * 300_000 + "</Object>"),
        body_of(f"<Quiet>{'true' * 300_000}</Quiet>"),
    ),
    ids=("element", "long key", "odd key", "attributes", "encoding", "version", "text", "quiet"),
)
def test_a_refusal_does_not_repeat_a_megabyte(body: bytes) -> None:
    """Each refusal is an audit event: a hostile body would fill the disk."""
    assert len(refusal_of(body).detail) < 200


@pytest.mark.parametrize(
    ("body", "detail"),
    (
        ("<Delete><{}/></Delete>", "element {!r} in Delete"),
        ('<?xml version="1.0" encoding="{}"?><Delete/>', "delete_markup: encoding {!r}"),
        ('<?xml version="{}"?><Delete/>', "delete_markup: XML version {!r}"),
    ),
)
def test_a_refusal_names_the_beginning_of_a_long_name(body: str, detail: str) -> None:
    """Enough to find the client that wrote it, not more."""
    shown = "x" * 64
    assert fault_of(body.format(shown).encode()) == detail.format(shown)
    assert fault_of(body.format(shown + "x").encode()) == detail.format(shown)


def test_a_tag_of_a_kibibyte_is_read_and_a_longer_one_is_refused() -> None:
    """Expat reads a tag as a whole: with 180,000 attributes it stops the event loop for a third of a second."""
    padding = " " * (1024 - len("Delete"))
    assert keys_read(body_of(objects(["t/a"]), root=f"Delete{padding}")) == ("t/a",)
    assert refusal_of(body_of(objects(["t/a"]), root=f"Delete{padding} ")).detail == BRACKETS


# What real clients write, and what three parsers read.


@cache
def delete_objects_serializer() -> tuple[Any, Any]:
    model = botocore.loaders.Loader().load_service_model("s3", "service-2")
    operation = botocore.model.ServiceModel(model).operation_model("DeleteObjects")
    return botocore.serialize.create_serializer("rest-xml", include_validation=False), operation


def written_by_botocore(keys: Iterable[str]) -> bytes:
    serializer, operation = delete_objects_serializer()
    parameters = {"Bucket": "b", "Delete": {"Objects": [{"Key": key} for key in keys], "Quiet": True}}
    body: bytes = serializer.serialize_to_request(parameters, operation)["body"]
    return body


def is_allowed(key: str) -> bool:
    try:
        check_key(key)
    except Refused:
        return False
    return key == key.strip()


# XML has no way to write U+FFFE and U+FFFF.
key_characters = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
keys_allowed = st.lists(
    st.text(key_characters | st.sampled_from("/&<>\"' +%=-a]"), min_size=1, max_size=20)
    .map("t/".__add__)
    .filter(is_allowed),
    min_size=1,
    max_size=6,
    unique=True,
)


@given(keys_allowed)
def test_a_body_of_the_aws_sdk_gives_its_keys_back(keys: list[str]) -> None:
    """The SDK is what most clients use; every key that they may write they may delete."""
    assert keys_read(written_by_botocore(keys)) == tuple(keys)


def read_by_element_tree(body: bytes) -> list[str]:
    elements = ET.fromstring(body).iter()  # noqa: S314 - a lenient reader is the point
    return [element.text or "" for element in elements if element.tag.rpartition("}")[2] == "Key"]


def read_by_first_text_node(body: bytes) -> list[str]:
    document = minidom.parseString(body)  # noqa: S318 - a lenient reader is the point
    texts = [element.firstChild for element in document.getElementsByTagName("Key")]
    return [text.data for text in texts if isinstance(text, minidom.Text)]


def read_by_trimming_parser(body: bytes) -> list[str]:
    """Read as xmltodict does unless told otherwise."""
    return [key.strip() for key in read_by_element_tree(body)]


def read_by_pattern(body: bytes) -> list[str]:
    """Read as a program without any parser might."""
    found = re.findall(r"<Key\s*>([^<]*)</Key\s*>", body.decode())
    return [unescape(text) for text in found]


TOKENS = (
    *"<Delete> </Delete> <Object> </Object> <Key> </Key> <Key/> <Quiet>true</Quiet> <VersionId>v</VersionId>".split(),
    *"<!----> <!--a--> <![CDATA[b]]> <?p?> &amp; &#47; &#x2e; &#13; &#32; &lt; &a; ]]> <s:Key> </s:Key>".split(),
    *("<!DOCTYPE Delete>", '<?xml version="1.0"?>', 'xmlns=""', "<", ">", "&", '"', "/", "..", "t/b", "\ufeff"),
    *(" ", "\r\n", "\r", "\n", "\t", "\0", "\u0085", "\u2028", "\u00a0"),
)


@st.composite
def mutated_bodies(draw: st.DrawFn) -> bytes:
    """Take a valid body and insert, drop or double pieces of it at any place."""
    text = body_of(
        objects(draw(keys_allowed)),
        root=draw(st.sampled_from(["Delete", f"Delete {NAMESPACE}"])),
        before=draw(st.sampled_from(["", '<?xml version="1.0" encoding="UTF-8"?>', "\n"])),
    ).decode()
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        middle = draw(st.sampled_from([*TOKENS, text[start:end] * 2, ""]))
        text = text[:start] + middle + text[end if draw(st.booleans()) else start :]
    return text.encode()


@settings(max_examples=5 * settings().max_examples)
@given(mutated_bodies())
def test_all_parsers_read_the_keys_that_are_allowed(body: bytes) -> None:
    """Where two parsers differ, the store may delete what was never judged."""
    keys = keys_or_refusal(body)
    if isinstance(keys, Refused):
        return
    expected = list(keys)
    assert read_by_element_tree(body) == expected
    assert read_by_first_text_node(body) == expected
    assert read_by_trimming_parser(body) == expected
    assert read_by_pattern(body) == expected
    assert all(is_allowed(key) for key in keys)


def test_mutated_bodies_come_in_both_kinds() -> None:
    """The property above would prove nothing if all its bodies were refused, or none."""
    outcomes = {"allowed": 0, "refused": 0}

    @settings(max_examples=60, derandomize=True, database=None)
    @given(mutated_bodies())
    def count(body: bytes) -> None:
        outcomes["refused" if isinstance(keys_or_refusal(body), Refused) else "allowed"] += 1

    count()
    assert min(outcomes.values()) > 5


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_refused(body: bytes) -> None:
    """An exception of another kind would be a 503 with a stack trace for each hostile body."""
    refusal_of(body)


@settings(max_examples=3 * settings().max_examples)
@given(mutated_bodies(), st.integers(0, 400), st.binary(max_size=4))
def test_any_broken_bytes_are_read_or_refused(body: bytes, position: int, noise: bytes) -> None:
    """Bytes that are no text, in the middle of what is."""
    keys_or_refusal(body[:position] + noise + body[position:])
