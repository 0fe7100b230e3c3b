"""Write a report as one HTML page that stands alone: no script, no request, and a stranger's text is only text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from signproxy.pipeline.finding_specs import SPECS, FindingSpec
from signproxy.pipeline.job import Severity
from signproxy.pipeline.report import text
from signproxy.pipeline.report.charts import log_share, part, pixels, text_width, ticks
from signproxy.pipeline.report.data import FindingGroup, ReportData
from signproxy.pipeline.report.sections import sections
from signproxy.pipeline.report.twin import shown
from signproxy.pipeline.report.verdict import verdict

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content-Security-Policy: nothing is run and nothing is fetched, whatever text finds its way into the page."""

SHOWN_AT_ONCE = 3
MAX_SHOWN = 20
"""Findings of one class; the files beside the page have more."""

_EVIDENCE = (
    *("key", "event_key", "method", "event_method", "op", "status", "error", "remote_ip", "event_ip", "requester"),
    *("age_seconds", "way", "rule_id", "policy_rev", "source", "request_ids", "event_ids"),
)


def page(data: ReportData) -> str:
    """Return the page."""
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            data=data,
            verdict=verdict(data),
            groups=sorted(data.groups, key=lambda group: (-Severity[group.severity.upper()], -group.n)),
            sections=sections(data),
            policy=POLICY,
            at_once=SHOWN_AT_ONCE,
            max_shown=MAX_SHOWN,
        )
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("signproxy.pipeline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Whatever a template prints without saying how, it prints as text that cannot act.
        finalize=_finalize,
    )
    style = files("signproxy.pipeline.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    environment.globals.update(
        style=Markup(style),  # noqa: S704 - this package's own file
        meaning_of=meaning_of,
        query_of=query_of,
        **{made.__name__: made for made in (ticks, log_share, text_width, part)},
        **{made.__name__: made for made in (text.beginning, text.shortened, text.harmless)},
        **{made.__name__: made for made in (text.number, text.short, text.percent)},
    )
    environment.filters.update(
        name=text.name,
        text=text.text,
        number=text.number,
        moment=text.moment,
        minute=text.minute,
        plain=text.plain,
        plural=text.plural,
        sql=Markup.escape,
        shown=shown,
        px=pixels,
        in_order=_in_order,
    )
    return environment


def _in_order(evidence: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return evidence in the order of the questions: what, how it ended, who from where, and then by which ids."""
    place = {name: at for at, name in enumerate(_EVIDENCE)}
    return sorted(evidence.items(), key=lambda each: (place.get(each[0], len(place)), each[0]))


def _finalize(value: object) -> object:
    return text.text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def meaning_of(name: str) -> FindingSpec:
    """Return what a class means; of one that is not known here, its name."""
    unknown = FindingSpec(
        title=name.replace("_", " ").capitalize(), sql="SELECT *\nFROM findings\nORDER BY last_ts DESC"
    )
    return SPECS.get(name, unknown)


def query_of(group: FindingGroup) -> str:
    """Return the query that shows the rows behind a group's findings."""
    meaning = meaning_of(group.class_)
    dated = meaning.dated or ("a" if meaning.shown else "")
    days = [at.date() for one in group.findings for at in (one.first, one.last) if at is not None]
    condition = ""
    if dated and days:
        condition = f"\n  AND {dated}.event_date BETWEEN DATE '{min(days)}' AND DATE '{max(days)}'"
    return meaning.query(group.class_).replace("{days}", condition)
