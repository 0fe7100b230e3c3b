"""The status page as a browser gets it: whole, without scripts, and with strangers' text as text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import msgspec
import pytest

from signproxy.server.status.readiness import Readiness
from signproxy.server.status.report import FleetReport
from signproxy.server.status.status import status_of
from signproxy.server.status.status_page import (
    MAX_NAME_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    POLICY,
    STYLE,
    Markup,
    fill,
    name,
    page,
    prose,
    text,
)
from tests.server.status.reports import (
    ACTING,
    CREDENTIALS,
    HOSTILE,
    LONG,
    NOW,
    PILED,
    REFUSAL,
    fleet,
    hostile_fleet,
    worker,
)

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Reader(HTMLParser):
    """Reads a page strictly: what opens must close, in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(report: FleetReport) -> str:
    readiness = Readiness()
    readiness.judge(fleet())
    return page(status_of(report, readiness.judge(report), NOW))


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


PAGES = {
    "well": fleet(worker(refusals=(REFUSAL,)), worker(1)),
    "alone": fleet(),
    "bare": fleet(worker(keys=(), credentials=(), certificates=()), last_reload=None),
    "no worker": fleet(workers=(), wanted_workers=2),
    "hostile": hostile_fleet(),
}


@pytest.mark.parametrize("report", PAGES.values(), ids=PAGES)
def test_a_page_is_well_formed_and_holds_nothing_that_acts(report: FleetReport) -> None:
    """A browser guesses at broken markup, and a guess may be a script."""
    reader = read(shown(report))
    assert reader.faults == []
    assert reader.open == []
    assert {tag for tag, _ in reader.tags} <= {
        *("html", "head", "meta", "title", "style", "body", "main", "section", "details", "summary"),
        *("h1", "h2", "p", "ul", "li", "div", "table", "thead", "tbody", "tr", "th", "td", "span", "b", "bdi", "code"),
    }
    # Only what the style needs: no address, no style of its own, no handler.
    assert {attribute for _, attributes in reader.tags for attribute in attributes} <= {
        *("lang", "charset", "name", "content", "class", "scope", "data-title"),
    }


@pytest.mark.parametrize("report", PAGES.values(), ids=PAGES)
def test_no_character_of_a_page_acts_or_hides(report: FleetReport) -> None:
    """A name that reads backwards is another name; one that holds an escape acts where the page is saved and shown."""
    assert [character for character in shown(report) if not character.isprintable() and character != "\n"] == []


def test_the_style_is_the_one_that_the_policy_lets_pass() -> None:
    """With another hash the page is bare; without the policy a slip in escaping is a script."""
    (style,) = re.findall(r"<style>(.*?)</style>", shown(fleet()), re.DOTALL)
    assert style == STYLE
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    directives = dict(part.strip().partition(" ")[::2] for part in POLICY.split(";"))
    assert directives == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "sandbox": "",
    }
    # Nor does the style fetch anything.
    assert "url(" not in style
    assert "@import" not in style


def test_what_a_caller_writes_is_shown_as_it_was_written() -> None:
    """An attack must be recognised as what it was."""
    attack = "<script>alert('\"&')</script>"
    reader = read(shown(fleet(worker(refusals=(msgspec.structs.replace(REFUSAL, detail=attack),)))))
    assert attack in reader.texts


def test_the_verdict_comes_first_and_what_is_wrong_next() -> None:
    """An operator who was woken up reads from the top."""
    markup = shown(fleet(worker(0, refusals=(REFUSAL,)), wanted_workers=2))
    order = [markup.index(part) for part in ("<h1", "What is wrong", "Last refusals", "<h2>Workers")]
    assert order == sorted(order)
    assert markup.index("<body") < order[0]
    assert len(re.findall("<h1", markup)) == 1
    assert '<h1 class="look">Ready, with problems. Policy ' in markup
    assert "What is wrong" not in shown(fleet())


@pytest.mark.parametrize(
    ("raw", "markup"),
    (
        ("plain", "plain"),
        ("<b>&'\"", "&lt;b&gt;&amp;&#39;&quot;"),
        ("&lt;", "&amp;lt;"),
        ("a\x1b[2J\r\nb", "a\\x1b[2J\\x0d\\x0ab"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("\udcff", "\\udcff"),
        # Letters that run from right to left turn nothing but themselves.
        ("\u05e9\u05dc\u05d5\u05dd", "<bdi>\u05e9\u05dc\u05d5\u05dd</bdi>"),
        ("<\u05e9", "<bdi>&lt;\u05e9</bdi>"),
        # Two marks are Vietnamese, more of them paint over the lines around.
        ("e\u0302\u0301", "<bdi>e\u0302\u0301</bdi>"),
        ("e\u0302\u0301\u0300\u0303", "<bdi>e\u0302\u0301\\u0300\\u0303</bdi>"),
    ),
)
def test_text_becomes_markup_that_shows_it(raw: str, markup: str) -> None:
    """This function is all that stands between a stranger's name and the page."""
    assert text(raw) == markup


def test_what_is_filled_into_a_template_is_text_unless_it_is_markup() -> None:
    """A name that is put into the page without a thought of escaping would be a script."""
    bold = Markup("<b>{}</b>")
    assert fill("<p>{} {}</p>", HOSTILE, bold) == f"<p>{text(HOSTILE)} <b>{{}}</b></p>"
    assert fill("<p>{}</p>", ("<", [bold, ">"])) == "<p>&lt;<b>{}</b>&gt;</p>"
    # A list of nothing, or a section about nothing, is not shown.
    assert fill("<ul>{}</ul>", ()) == ""


def test_long_text_is_cut_and_says_so() -> None:
    """One refused request of 64 KiB would be the whole page."""
    assert len(read(text(LONG)).texts[0]) < MAX_TEXT_CHARACTERS + 30
    assert "(5000 characters)" in text(LONG)
    assert name(LONG).count("x") == MAX_NAME_CHARACTERS
    # Each cut before it is escaped, so that no half of an escape is left.
    assert text("<" * 5_000).count("&lt;") == MAX_TEXT_CHARACTERS
    assert len(shown(hostile_fleet())) < 200_000


@pytest.mark.parametrize("attack", (HOSTILE, ACTING, LONG, PILED))
def test_own_sentences_mark_code_and_nothing_else(attack: str) -> None:
    """Backticks are signproxy's own way to write; in a stranger's text they are text."""
    assert prose("run `signproxy check-config`, or not") == "run <code>signproxy check-config</code>, or not"
    assert prose("`<b>`") == "<code>&lt;b&gt;</code>"
    assert "<code>" not in text(f"`{attack}`")


def test_missing_credentials_and_buckets_are_said_in_words() -> None:
    """A zero that means `none at all` reads like 1970."""
    missing = msgspec.structs.replace(CREDENTIALS, expires_at=0.0, refreshed_at=0.0)
    own = msgspec.structs.replace(CREDENTIALS, bucket="landing", expires_at=None)
    texts = read(shown(fleet(worker(credentials=(missing, own))))).texts
    assert "there are none" in texts
    assert "all others" in texts
    assert "landing" in texts
    assert not [each for each in texts if "1970" in each]
