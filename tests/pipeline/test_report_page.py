"""The page: it says what is known and no more, reads well without eyes, and no name in it can act."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import pytest

from signproxy.pipeline.finding_specs import SPECS
from signproxy.pipeline.report.data import ClassCount, FindingGroup, ReportData, Timeline, TimelineSlot, TrailSummary
from signproxy.pipeline.report.page import POLICY, page, query_of
from signproxy.pipeline.report.verdict import ReportStatus, verdict
from tests.pipeline.markup import Page
from tests.pipeline.report_example import FIRST, HOSTILE, group, report

ELEMENTS = set(
    "html head meta title style body header p h1 ul li span b nav a main section h2 h3 article code dl div dt dd "
    "details summary pre figure svg desc rect line text path circle table caption thead tbody tr th td time footer "
    "bdi".split()
)
ATTRIBUTES = set(
    "lang charset http-equiv content name class id href aria-label aria-labelledby tabindex role scope datetime "
    "viewbox width height x y x1 x2 y1 y2 cx cy r d text-anchor transform".split()
)
GOOD = ReportData(
    made_at=datetime(2026, 11, 30, tzinfo=UTC),
    classes=(ClassCount("stamp", 1_000), ClassCount("known_service", 3)),
    trail=TrailSummary(segments=3, events=1_000, verdicts={"whole": 3}),
)


@pytest.fixture(scope="module")
def ordinary() -> Page:
    return Page(page(report()))


@pytest.fixture(scope="module")
def hostile() -> Page:
    return Page(page(report(HOSTILE)))


@pytest.mark.parametrize("names", ((), HOSTILE), ids=("ordinary", "hostile"))
def test_page_is_made_of_known_elements_alone(names: tuple[str, ...]) -> None:
    """An element that a name brought along would run in the browser of the operator who looks into an incident."""
    parsed = Page(page(report(names)))
    assert parsed.tags() <= ELEMENTS
    assert {name for _, attributes in parsed.elements for name in attributes} <= ATTRIBUTES
    assert parsed.wrong == []
    assert parsed.open == []
    assert len(parsed.elements) > 1_000


def test_links_lead_to_parts_of_the_page_alone(hostile: Page) -> None:
    """A link that a name chose would lead an operator to a stranger's page."""
    links = [attributes["href"] for attributes in hostile.of("a")]
    parts = {attributes.get("id") for attributes in hostile.of("section")}
    assert len(links) == 11
    assert {link.removeprefix("#") for link in links} == parts


def test_policy_is_strict(hostile: Page) -> None:
    """Without its policy, one mistake in escaping would be a script that runs."""
    metas = [meta for meta in hostile.of("meta") if "http-equiv" in meta]
    assert metas == [{"http-equiv": "Content-Security-Policy", "content": POLICY}]
    assert POLICY == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    # It holds from where it stands: nothing but the charset may come before it.
    assert [tag for tag, _ in hostile.elements[:4]] == ["html", "head", "meta", "meta"]


def test_style_fetches_nothing(hostile: Page) -> None:
    """A style sheet that imports or shows an image from elsewhere tells that host who reads the report, and when."""
    style = page(report(HOSTILE)).partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert len(hostile.of("style")) == 1


def test_nothing_on_the_page_acts_or_hides() -> None:
    """A bidi or control character would make a key read as another one; it has to be seen as an escape."""
    written = page(report(HOSTILE))
    found = {
        f"U+{ord(character):04X}"
        for character in written
        if character != "\n" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    }
    assert found == set()
    assert written.encode()
    assert re.search("[\u0300-\u036f]{3}", written) is None


def test_hostile_names_are_still_told_apart(hostile: Page) -> None:
    """A name that is cut or emptied for safety could not be looked for in the trail."""
    text = hostile.text
    for shown in ("<script>alert(1)</script>", "{{7*7}}", "\\u202e", "\\x1b[2J", "=HYPERLINK(", "שלום", "大家"):
        assert shown in text, shown
    assert "(1024 characters)" in text


def test_long_names_end(hostile: Page) -> None:
    """A key of 1,024 bytes on every row would bury the report in one name."""
    assert max(len(text.strip()) for text in hostile.shown) < 500
    assert max(len(text) for text in hostile.all_text if "kkkk" in text) < 1_000


def test_every_chart_can_be_read_without_eyes(ordinary: Page) -> None:
    """A chart without title, description and figures says nothing to a user of a screen reader."""
    drawings = ordinary.of("svg")
    ids = {attributes["id"] for _, attributes in ordinary.elements if "id" in attributes}
    assert len(drawings) == 10
    for drawing in drawings:
        assert drawing["role"] == "img"
        assert set(drawing["aria-labelledby"].split()) <= ids
    assert len(ordinary.of("caption")) == len(ordinary.of("table")) >= 13
    assert all(attributes["scope"] in ("col", "row") for attributes in ordinary.of("th"))
    assert len(ids) == sum("id" in attributes for _, attributes in ordinary.elements)


def test_headings_step_down_one_at_a_time(ordinary: Page) -> None:
    """Who goes from heading to heading gets lost where a level is left out."""
    levels = [int(tag[1]) for tag, _ in ordinary.elements if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_verdict_comes_first(ordinary: Page) -> None:
    """A reader who opens the page for ten seconds has to know how things stand."""
    assert (
        ordinary.text.find("99.79 % of 1,568,722 storage requests attributed; 3 critical, 26 high, 300 low findings")
        < 150
    )
    assert "1 gap in the audit trail (57 events missing), 1 segment not whole" in ordinary.text


def test_a_finding_has_all_that_is_needed(ordinary: Page) -> None:
    """A finding without its evidence, what to do, or a query is one that cannot be checked."""
    text = ordinary.text
    for part in (
        "Refused by signproxy, served by the store denied_but_served",
        "principal idp/svc-sales-012",
        "table lake.sales.orders",
        "request_ids 4E1F0A9B2C3D4E5F",
        "3 times, 2026-11-01 00:00:00 UTC to 2026-11-01 05:00:00 UTC",
        "What to do Replace the key, and look for who has it.",
        "array_contains(a.faults, 'denied_but_served')",
        "a.event_date BETWEEN DATE '2026-11-01' AND DATE '2026-11-01'",
        "280 more are not on this page; the files beside this page have the first 200.",
        "6 more are not on this page; the files beside this page have all of them.",
    ):
        assert part in text, part


def test_findings_come_by_weight() -> None:
    """A critical finding below a hundred of no weight is not read."""
    groups = (group("first_seen", "info", 9), group("replay", "high", 1), group("unknown_stamp", "critical", 1))
    text = Page(page(ReportData(groups=groups, severities={"info": 9, "high": 1, "critical": 1}))).text
    assert text.index("unknown_stamp") < text.index("replay") < text.index("first_seen")


def test_an_unknown_class_of_finding_is_shown() -> None:
    """A newer job's findings must not vanish from, or break, an older page."""
    found = (group("something_new", "medium", 1),)
    assert "Something new something_new" in Page(page(ReportData(groups=found, severities={"medium": 1}))).text


def test_an_empty_warehouse_says_so() -> None:
    """A page of nothing that looks like a page of good news would be believed."""
    data = ReportData(made_at=datetime(2026, 11, 30, tzinfo=UTC))
    parsed = Page(page(data))
    assert verdict(data).standing is ReportStatus.NOTHING
    assert "There is nothing to report on: the warehouse holds no rows" in parsed.text
    assert parsed.of("svg") == []
    assert sum(attributes.get("class") == "empty" for attributes in parsed.of("p")) == 11
    assert "They come from: ingest-s3log, then reconcile." in parsed.text


def test_all_is_well_only_where_everything_was_looked_at() -> None:
    """Green without the stores' logs would mean that accesses past signproxy were never looked for."""
    assert verdict(GOOD).standing is ReportStatus.GOOD
    assert "no findings" in verdict(GOOD).sentence
    without_logs = ReportData(
        trail=GOOD.trail, timeline=Timeline("day", (TimelineSlot(datetime(2026, 11, 1, tzinfo=UTC), 5),))
    )
    assert verdict(without_logs).standing is ReportStatus.LOOK
    assert "nothing is known of accesses past signproxy" in verdict(without_logs).sentence
    without_trail = ReportData(classes=GOOD.classes)
    assert verdict(without_trail).standing is ReportStatus.LOOK


@pytest.mark.parametrize(
    ("change", "standing"),
    (
        ({"severities": {"critical": 1}}, ReportStatus.WRONG),
        ({"severities": {"high": 1}}, ReportStatus.WRONG),
        ({"severities": {"medium": 1}}, ReportStatus.LOOK),
        ({"severities": {"info": 5}}, ReportStatus.GOOD),
        ({"classes": (ClassCount("stamp", 10**9), ClassCount("unattributed", 1))}, ReportStatus.WRONG),
        ({"trail": TrailSummary(segments=3, gaps=1, missing=1)}, ReportStatus.WRONG),
        ({"trail": TrailSummary(segments=3, faults=1)}, ReportStatus.WRONG),
    ),
    ids=("critical", "high", "medium", "info", "one-unattributed", "gap", "faulty-segment"),
)
def test_one_fault_is_enough(change: dict[str, object], standing: ReportStatus) -> None:
    """One request among a billion that no principal asked for is what the report is made for."""
    data = msgspec.structs.replace(GOOD, **change)
    assert verdict(data).standing is standing
    assert f'<h1 class="verdict {standing.value}">' in page(data)


def test_almost_all_is_not_all() -> None:
    """100 % with something left over would hide exactly what is looked for."""
    data = ReportData(classes=(ClassCount("stamp", 10**9), ClassCount("unattributed", 1)))
    assert "99.99 % of 1,000,000,001 storage requests attributed" in verdict(data).sentence


def test_one_day_and_one_of_everything_is_drawn() -> None:
    """The first day of a new deployment has one of everything: an axis must not divide by nothing."""
    data = report()
    small = msgspec.structs.replace(
        data,
        first_day=FIRST,
        last_day=FIRST,
        timeline=Timeline("hour", (TimelineSlot(datetime(2026, 11, 1, 7, tzinfo=UTC), 0, 1, 0),)),
        heat=msgspec.structs.replace(data.heat, principals=("a",), tables=("t",), cells=data.heat.cells[:1]),
        breadth=data.breadth[:1],
        unattributed=data.unattributed[1:2],
    )
    parsed = Page(page(small))
    assert len(parsed.of("svg")) == 9
    assert "nan" not in parsed.text.lower().split()
    assert "2026-11-01 to" not in parsed.text[:80]


def test_same_values_make_the_same_page() -> None:
    """A page that differs from run to run cannot be compared with last week's."""
    assert page(report()) == page(report())


def test_days_stand_in_queries_and_no_names() -> None:
    """A name with a quote in it would be run by the operator who pastes the query."""
    for name in SPECS:
        for text in HOSTILE:
            found: FindingGroup = group(name, "high", 2, text)
            query = query_of(found)
            assert "{" not in query
            assert text not in query
            assert query == query_of(group(name, "high", 2))
