"""Write the status page: HTML that stands alone, in which a stranger's text is text and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files

from signproxy.diagnosis import Diagnosis
from signproxy.gate.refusals import Refusal
from signproxy.server.status.report import FleetReport, ReloadReport
from signproxy.server.status.status import RefusalGroup, State, Status
from signproxy.server.status.times import ago, ahead, moment, span
from signproxy.telemetry.neutralise import neutralise

STYLE = "\n" + files("signproxy.server.status").joinpath("status.css").read_text(encoding="utf-8")

_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
)
"""Content-Security-Policy: no script, no request, no frame, no form, whatever text finds its way into the page."""

MAX_NAME_CHARACTERS = 80
MAX_TEXT_CHARACTERS = 600
"""No real name or error is longer; JSON and the audit trail have it whole."""

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_CLASSES = {State.READY: "good", State.READY_BUT: "look", State.NOT_READY: "wrong", State.DRAINING: "look"}
_CODE = re.compile("`([^`]+)`")

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>signproxy: {}</title>
<style>{}</style>
</head>
<body>
<main>
<h1 class="{}">{}</h1>
<p class="soft small">signproxy {}, started {} ({}). Seen at {}. For programs: <code>/status?format=json</code></p>
{}</main>
</body>
</html>
"""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Part = str | Iterable["Part"]
Cell = int | Markup | tuple[str, Part]
"""A number, markup, or a class and what stands in it."""


def page(status: Status) -> str:
    """Return the page."""
    fleet, now = status.fleet, status.at
    sections = (
        _section("What is wrong", _cards(map(_trouble, status.troubles))),
        _section("Last refusals", _refusals(status.refusals, now)),
        _section("Workers", _workers(fleet, now)),
        _section("Configuration", _reload(fleet.last_reload, fleet.last_accepted_at, now)),
        *_tables(status),
        _checks(status.checks),
    )
    verdict = (_CLASSES[status.state], status.verdict)
    origin = (fleet.version, moment(fleet.started_at), ago(now - fleet.started_at), moment(now))
    return fill(_PAGE, status.state.value, Markup(STYLE), *verdict, *origin, sections)


def fill(template: str, *parts: Part) -> Markup:
    """Return a template with each `{}` filled: by markup as it is, by other text as text. Of nothing comes nothing."""
    filling = [_markup(part) for part in parts]
    return Markup(template.format(*filling) if any(filling) else "")


def text(raw: str, limit: int = MAX_TEXT_CHARACTERS) -> Markup:
    """Return text as markup that shows exactly that text.

    Characters that act or hide are shown as escapes, and so are marks that pile up on a letter until they cover the
    lines around it. Letters that run from right to left turn only what stands within the element.
    """
    shown = neutralise(raw, limit)
    if shown.isascii():
        return Markup(shown.translate(_ESCAPES))
    return Markup(f"<bdi>{_without_piles(shown).translate(_ESCAPES)}</bdi>")


def name(raw: str) -> Markup:
    """Return a name or digest as markup."""
    return fill("<code>{}</code>", text(raw, MAX_NAME_CHARACTERS)) if raw else Markup('<span class="soft">none</span>')


def prose(own: str) -> Markup:
    """Return a sentence of signproxy's own, in which backticks mark what is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", text(own)))


def _markup(part: Part) -> Markup:
    match part:
        case Markup():
            return part
        case str():
            return text(part)
        case _:
            return Markup("".join(map(_markup, part)))


def _without_piles(raw: str) -> str:
    written: list[str] = []
    marks = 0
    for character in raw:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        # Two marks on one letter are Vietnamese; three are no language.
        written.append(character if marks <= 2 else f"\\u{ord(character):04x}")
    return "".join(written)


def _section(title: str, body: Part) -> Markup:
    return fill(f"<section>\n<h2>{title}</h2>\n{{}}</section>\n", body)


def _cards(cards: Iterable[Markup]) -> Markup:
    return fill("<ul>\n{}</ul>\n", cards)


def _lines(lines: Iterable[str]) -> Markup:
    return fill('<ul class="plain">{}</ul>', (fill("<li>{}</li>", line) for line in lines))


def _table(titles: str, rows: Iterable[Sequence[Cell]]) -> Markup:
    columns = titles.split(", ")
    head = "".join(f'<th scope="col">{title}</th>' for title in columns)
    table = f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{{}}</tbody>\n</table></div>\n'
    return fill(table, (fill("<tr>{}</tr>\n", map(_cell, columns, row)) for row in rows))


def _cell(title: str, cell: Cell) -> Markup:
    if isinstance(cell, Markup):
        return fill('<td data-title="{}">{}</td>', title, cell)
    kind, content = ("number", f"{cell:,}") if isinstance(cell, int) else cell
    return fill('<td data-title="{}" class="{}">{}</td>', title, kind, content)


def _time(at: float) -> Cell:
    return "number", moment(at)


def _problem(problem: str, well: str = "none") -> Cell:
    return ("wide wrong", problem) if problem else ("wide", well)


def _trouble(trouble: Diagnosis) -> Markup:
    said = str(trouble)
    what = fill("<p><b>{}</b></p>", f"{said[:1].upper()}{said[1:]}")
    parts = (what, _lines(trouble.details), fill("<p>{}</p>", prose(trouble.remedy)))
    return fill('<li class="card {}">{}</li>\n', trouble.weight.value, parts)


def _refusals(groups: Sequence[RefusalGroup], now: float) -> Markup:
    kept = sum(group.count for group in groups)
    none = Markup('<p class="soft">None since the workers were started.</p>\n')
    return _cards(_refusal(group, kept, now) for group in groups) or none


def _refusal(group: RefusalGroup, kept: int, now: float) -> Markup:
    last = group.last
    status = f" ({group.status})" if group.status else ""
    times = f", {group.count} of the last {kept}" if group.count > 1 else ""
    ids = (moment(last.at), name(last.request_id), name(last.event_id))
    parts = (
        fill('<p><b>{}</b>{} <span class="soft">{}{}</span></p>', name(last.reason), status, ago(now - last.at), times),
        fill("<p>{}</p>", _who(last)),
        fill("<p>{}</p>", last.detail),
        fill("<p>{} {}</p>", prose(group.meaning), prose(group.remedy)),
        fill('<p class="soft small">{}, request {}, event {}</p>', *ids),
    )
    return fill('<li class="card">{}</li>\n', parts)


def _who(refusal: Refusal) -> Part:
    table = ".".join(part for part in (refusal.catalog, refusal.table) if part)
    return (
        ("Principal ", name(refusal.principal)) if refusal.principal else "An unknown caller",
        (", ", name(refusal.operation)) if refusal.operation else "",
        (", table " if refusal.table else ", catalog ", name(table)) if table else "",
    )


def _workers(fleet: FleetReport, now: float) -> Part:
    titles = "worker, pid, up for, state, policy, epoch, settings, connections, in flight, lag"
    rows = [
        (
            worker.worker,
            ("number", str(worker.pid)),
            ("number", span(now - worker.started_at)),
            _problem("; ".join(f"{check}: {each}" for check, each in worker.problems.items() if each), "ready"),
            ("digest", name(worker.policy_rev)),
            worker.policy_epoch,
            ("digest", name(worker.config_digest)),
            worker.connections,
            worker.in_flight,
            ("number", f"{worker.lag_seconds * 1000:,.0f} ms"),
        )
        for worker in fleet.workers
    ]
    counted = f"{len(fleet.workers)} of {fleet.wanted_workers} answer; replaced since the start: {fleet.restarts}."
    return fill("<p>{}</p>\n", counted), _table(titles, rows)


def _reload(reload: ReloadReport | None, accepted_at: float, now: float) -> Part:
    since = fill("<p>In force since {} ({}).</p>\n", moment(accepted_at), ago(now - accepted_at))
    if reload is None:
        return since, Markup("<p>Nothing was reloaded since the start.</p>\n")
    when = f"{moment(reload.at)} ({ago(now - reload.at)})"
    outcome = f"{'taken over' if reload.accepted else 'not taken over'} after {reload.seconds:.2f} s"
    told = fill("<p>Last reload {}: {}.</p>\n", when, outcome)
    # Why it was not taken over stands above, among what is wrong.
    return since, told, _lines(reload.changes) if reload.accepted else "", Markup("\n")


def _fetched(age: float) -> str:
    if age == 0:
        return "from the settings"
    return "never" if age == float("inf") else ago(age)


def _expiry(expires_at: float | None, now: float) -> Cell:
    if expires_at is None:
        return "number", "never"
    if expires_at == 0:
        return "number wrong", "there are none"
    return "number", f"{moment(expires_at)}, {ahead(expires_at - now)}"


def _tables(status: Status) -> Iterator[Markup]:
    """Yield what has a row for each issuer, storage, upstream, listener and trail."""
    now = status.at
    keys = (
        (name(each.issuer), each.keys, ("number", _fetched(each.age)), each.failures, _problem(each.last_error))
        for each in status.keys
    )
    yield _section("Token keys", _table("issuer, keys, fetched, failures, last error", keys))
    split = {each.storage for each in status.credentials if each.bucket}
    credentials = (
        (
            name(each.storage),
            name(each.bucket) if each.bucket else Markup("all others" if each.storage in split else "all"),
            name(each.provider),
            _expiry(each.expires_at, now),
            _time(each.refreshed_at),
            each.failures,
            _problem(each.problem),
        )
        for each in status.credentials
    )
    titles = "storage, bucket, provider, expire, last answer, failures, problem"
    yield _section("Credentials", _table(titles, credentials))
    upstreams = (
        (
            name(each.catalog),
            ("wide", each.uri),
            _time(each.last_success_at),
            _time(each.last_failure_at),
            each.tables,
            each.in_flight,
            _problem(each.problem),
        )
        for each in status.upstreams
    )
    titles = "catalog, upstream, last answer, last failure, known tables, in flight, problem"
    yield _section("Upstream catalogs", _table(titles, upstreams))
    certificates = (
        (name(each.listener), _expiry(each.expires_at, now), _time(each.loaded_at)) for each in status.certificates
    )
    yield _section("Certificates", _table("listener, expires, in force since", certificates))
    trails = (
        (
            worker.worker,
            ("digest", name(worker.audit.boot_id)),
            *(worker.audit.queued, worker.audit.written, worker.audit.dropped),
            *(worker.audit.refused, worker.audit.errors, worker.audit.sealed, worker.audit.waiting),
            _problem(worker.audit.problem or worker.audit.shipping_problem),
        )
        for worker in status.fleet.workers
    )
    titles = (
        "worker, boot, queued, written, lost, turned away, write errors, segments sealed, segments to ship, problem"
    )
    yield _section("Audit trail", _table(titles, trails))


def _checks(checks: Sequence[Diagnosis]) -> Markup:
    failing = sum(bool(check.what) for check in checks)
    count = f"{failing} of {len(checks)} fail" if failing else f"all {len(checks)} pass"
    template = "<details>\n<summary>Checks of /readyz: {}</summary>\n{}\n</details>\n"
    # As the probe shows them, and cut only then.
    return fill(template, count, _lines(neutralise(check.line(detail=True)) for check in checks))
