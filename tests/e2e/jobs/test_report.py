"""The page in a real browser: it asks for nothing, complains of nothing, fits, and can be read in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from signproxy.pipeline.report.data import ReportData
from signproxy.pipeline.report.page import page
from tests.e2e.jobs.browser import Browser, browser
from tests.pipeline.report_example import HOSTILE, report

pytestmark = pytest.mark.ci

PAGES = {"ordinary": report(), "hostile": report(HOSTILE), "empty": ReportData()}
# Of each text, how much lighter or darker it is than what lies behind it: WCAG's ratio.
CONTRAST = """
(() => {
  const parse = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = parse(colour).slice(0, 3).map(v => v / 255)
      .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((parse(colour)[3] ?? 1) > .99) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || ['title', 'desc'].includes(element.tagName.toLowerCase())) continue;
    const style = getComputedStyle(element);
    const front = element instanceof SVGElement ? style.fill : style.color;
    const [high, low] = [light(front), light(behind(element))].sort((a, b) => b - a);
    const ratio = (high + .05) / (low + .05);
    if (ratio < 4.5) found.push([element.tagName, element.textContent.slice(0, 40), ratio]);
  }
  return found;
})()
"""
# Labels of a drawing that lie on one another, and shapes beyond its edge; slanted labels are beside, not on, their own.
OVERLAPS = """
[...document.querySelectorAll('svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')];
  const boxes = texts.map(text => [text, text.getBoundingClientRect()]);
  const beyond = boxes.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1
    || box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
  const straight = boxes.filter(([text]) => !text.hasAttribute('transform'));
  const crossing = straight.flatMap(([text, a], at) => straight.slice(at + 1)
    .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
    .map(([other]) => [text.textContent, other.textContent]));
  return [...beyond.map(([text]) => ['beyond', text.textContent]), ...crossing];
})
"""


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("report")
    found = {name: directory / f"{name}.html" for name in PAGES}
    for name, data in PAGES.items():
        found[name].write_text(page(data), encoding="utf-8")
    return found


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("look", ({}, {"dark": True}, {"width": 420}, {"media": "print", "width": 700}), ids=str)
def test_page_opens_and_fits(opened: Browser, paths: dict[str, Path], name: str, look: dict[str, object]) -> None:
    """A request tells a stranger who reads; an error or a page that is wider than its window is not read to its end."""
    opened.requests.clear()
    opened.complaints.clear()
    opened.open(paths[name], **look)  # type: ignore[arg-type]  # one row of the table above
    opened.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert opened.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert opened.requests == [paths[name].as_uri()]
    assert opened.complaints == []
    assert opened.evaluate("document.querySelectorAll('script, iframe, img, [onload], [onerror]').length") == 0
    assert opened.evaluate("document.querySelectorAll('h2').length") == 11


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("look", ({}, {"dark": True}, {"media": "print"}), ids=str)
def test_text_stands_out(opened: Browser, paths: dict[str, Path], name: str, look: dict[str, object]) -> None:
    """Grey on grey is hard to read, and cannot be read on a projector."""
    opened.open(paths[name], **look)  # type: ignore[arg-type]  # one row of the table above
    opened.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert opened.evaluate(CONTRAST) == []


@pytest.mark.parametrize("name", ("ordinary", "hostile"))
def test_labels_do_not_lie_on_one_another(opened: Browser, paths: dict[str, Path], name: str) -> None:
    """Two labels on one place are two that cannot be read."""
    opened.open(paths[name])
    assert opened.evaluate(OVERLAPS) == []


def test_print_shows_the_figures(opened: Browser, paths: dict[str, Path], tmp_path: Path) -> None:
    """What is folded away cannot be unfolded on paper; in the dark, paper stays white."""
    opened.open(paths["ordinary"], media="print", dark=True)
    hidden = "[...document.querySelectorAll('details:not(.long) table')].filter(each => !each.checkVisibility()).length"
    assert opened.evaluate(hidden) == 0
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    opened.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")


def test_the_policy_holds(opened: Browser, tmp_path: Path) -> None:
    """If escaping failed one day, the policy keeps a script from running: a browser has to obey it."""
    attack = "<script>document.title = 'run'</script><img src='http://127.0.0.1:9/x'><h2>"
    (tmp_path / "broken.html").write_text(page(report()).replace("<h2", attack, 1), encoding="utf-8")
    opened.requests.clear()
    opened.complaints.clear()
    opened.open(tmp_path / "broken.html")
    assert opened.evaluate("document.title") != "run"
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)
