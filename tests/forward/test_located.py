"""The answer to a completed upload names the address that the client asked for, however the store writes it."""

from __future__ import annotations

import pytest

from signproxy.forward.verdict import COMPLETED, UNKNOWN, BodyVerdict, Located
from signproxy.s3.xml_document import PIECE
from tests.pieces import drained

OWN = "http://s3.local/data/a&b"
ITS = "http://store-internal:9000/data/a"
_RESULT = "<CompleteMultipartUploadResult{}>{}<Key>k</Key></CompleteMultipartUploadResult>"
_WRITTEN = "<Location>http://s3.local/data/a&amp;b</Location>"


def _passed(document: str, step: int) -> tuple[str, str]:
    """Return what the client gets, and the verdict."""
    verdict = BodyVerdict()
    located = Located(OWN, verdict)
    content = document.encode()
    if not step:
        return drained(located.whole(content)).decode(), verdict.result()
    passed = b""
    for start in range(0, len(content), step):
        passed += b"".join(located.feed(memoryview(content)[start : start + step]))
    return (passed + b"".join(located.finish())).decode(), verdict.result()


@pytest.mark.parametrize(
    ("given", "written"),
    (
        (f"<Location>{ITS}</Location>", _WRITTEN),
        (f"<Location >{ITS}</Location >", _WRITTEN.replace("</Location", "</Location ")),
        (f'<Location xmlns="">{ITS}</Location>', _WRITTEN),
        (f"<Location\n>{ITS}</Location>", _WRITTEN),
        (f"<Location><![CDATA[{ITS}]]></Location>", _WRITTEN),
        ("<Location>http://store-<!-- x -->internal:9000<?y?>&#x2f;a</Location>", _WRITTEN),
        ("<Location></Location>", _WRITTEN),
        # Of two, one client reads the first and another the last.
        (f"<Location>{ITS}</Location><Location>{ITS}</Location>", _WRITTEN * 2),
        (f"<Tag><![CDATA[<Location>x</Location>]]></Tag><Location>{ITS}</Location>", "<Tag>{}</Tag>" + _WRITTEN),
        (f"<!-- <Location>x</Location> --><Location>{ITS}</Location>", "<!-- <Location>x</Location> -->" + _WRITTEN),
    ),
)
@pytest.mark.parametrize("before", ("", "  \n", '<?xml version="1.0"?>\n', ' <?xml version="1.0"?>\n   ', "<!-- x -->"))
@pytest.mark.parametrize("step", (0, 1, 7, 100_000))
def test_no_spelling_of_an_answer_shows_the_stores_own_address(
    given: str, written: str, before: str, step: int
) -> None:
    """A client that follows it finds nothing there, and learns where the store is."""
    passed, verdict = _passed(before + _RESULT.format("", given), step)
    assert passed == before + _RESULT.format("", written.replace("{}", "<![CDATA[<Location>x</Location>]]>"))
    assert verdict == COMPLETED


@pytest.mark.parametrize("step", (0, 1, 7, 100_000))
@pytest.mark.parametrize(
    ("document", "verdict"),
    (
        # What a key or an error says is no address.
        (_RESULT.format("", "<Tag>&lt;Location>x&lt;/Location></Tag>"), COMPLETED),
        (_RESULT.format("", "<Location/>"), COMPLETED),
        (_RESULT.format("", f"<Tag><Location>{ITS}</Location></Tag>"), COMPLETED),
        ("<Error><Code>InternalError</Code></Error>", "InternalError"),
        ("no XML", UNKNOWN),
        ("<!DOCTYPE a><a/>", UNKNOWN),
        (" \n", UNKNOWN),
        ("", UNKNOWN),
        ("<?xml version", UNKNOWN),
    ),
)
def test_everything_else_comes_byte_for_byte(document: str, verdict: str, step: int) -> None:
    """The object is there: a client that gets a changed answer, or none, would write it again."""
    assert _passed(document, step) == (document, verdict)


def test_a_broken_end_keeps_no_address_in_its_place() -> None:
    """A store that is cut off would show its address where it otherwise does not."""
    for end in ("<Key>", "</Wrong>", "\0"):
        document = f"<CompleteMultipartUploadResult><Location>{ITS}</Location>{end}"
        assert _passed(document, 7)[0] == (
            document if end == "\0" else document.replace(ITS, OWN.replace("&", "&amp;"))
        )


@pytest.mark.parametrize("step", (0, 1000, 100_000))
def test_no_more_is_held_than_is_read(step: int) -> None:
    """A store that answers gigabytes would fill the memory, or keep the worker busy."""
    near, far = (f"{'x' * size}<Location>{ITS}</Location>" for size in (PIECE // 2, PIECE))
    for given, found in ((near, True), (far, False)):
        document = _RESULT.format("", given + "y" * 3 * PIECE)
        passed, _ = _passed(document, step)
        assert passed == (document.replace(ITS, OWN.replace("&", "&amp;")) if found else document)
    located = Located(OWN, BodyVerdict())
    passed_on = 0
    for count in range(1, 9):
        passed_on += sum(map(len, located.feed(memoryview(b"a" * 4096))))
        assert count * 4096 - passed_on < PIECE


def test_blanks_go_on_at_once_for_minutes() -> None:
    """The client would give up while the store works."""
    verdict = BodyVerdict()
    located = Located(OWN, verdict)
    for blanks in (b" ", b"\n", b'<?xml version="1.0" encoding="UTF-8"?>\n', *[b" \r\n\t"] * 3000):
        assert b"".join(located.feed(memoryview(blanks))) == blanks
    # Of the first line itself nothing goes on before its end: it may be the document's.
    located = Located(OWN, BodyVerdict())
    assert b"".join(located.feed(memoryview(b" <?xml version"))) == b" "
    assert b"".join(located.feed(memoryview(b'="1.0"?>\n  '))) == b'<?xml version="1.0"?>\n  '
    assert b"".join(located.feed(memoryview(b"<Error><Code>X</Code>"))) == b""
    assert b"".join(located.feed(memoryview(b"</Error>"))) == b""
    assert b"".join(located.finish()) == b"<Error><Code>X</Code></Error>"
