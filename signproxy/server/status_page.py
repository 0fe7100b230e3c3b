"""Write the status page: HTML that stands alone, in which a stranger's text is text and nothing else."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from signproxy.diagnosis import Diagnosis
from signproxy.gate.refusals import Refusal
from signproxy.server.report import AuditReport, FleetReport, ReloadReport, WorkerReport
from signproxy.server.status import RefusalGroup, State, Status
from signproxy.server.status_style import STYLE
from signproxy.server.times import ago, ahead, moment, span
from signproxy.telemetry.neutralise import neutralise

MAX_NAME_CHARACTERS = 80
MAX_TEXT_CHARACTERS = 600
"""No real name or error is longer; JSON and the audit trail have it whole."""

_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_CLASSES = {State.READY: "good", State.READY_BUT: "look", State.NOT_READY: "wrong", State.DRAINING: "look"}
_CODE = re.compile("`([^`]+)`")

Cell = tuple[str, str]
"""A class and markup."""


def page(status: Status) -> str:
    """Return the page."""
    fleet = status.fleet
    parts = [
        _head(status),
        f'<h1 class="{_CLASSES[status.state]}">{text(status.verdict)}</h1>\n',
        _origin(status),
        _troubles(status.troubles),
        _refusals(status.refusals, status.at),
        _workers(fleet, status.at),
        _reload(fleet.last_reload, fleet.last_accepted_at, status.at),
        _keys(status),
        _credentials(status),
        _upstreams(status),
        _certificates(status),
        _audit(fleet.workers),
        _checks(status),
        "</main>\n</body>\n</html>\n",
    ]
    return "".join(parts)


def _head(status: Status) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>signproxy: {text(status.state.value)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
    )


def _origin(status: Status) -> str:
    fleet = status.fleet
    started = f"{text(moment(fleet.started_at))} ({text(ago(status.at - fleet.started_at))})"
    return (
        f'<p class="soft small">signproxy {text(fleet.version)}, started {started}. '
        f"Seen at {text(moment(status.at))}. For programs: <code>/status?format=json</code></p>\n"
    )


def text(raw: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return text as markup that shows exactly that text.

    Characters that act or hide are shown as escapes, and so are marks that pile up on a letter until they cover the
    lines around it. Letters that run from right to left turn only what stands within the element.
    """
    shown = neutralise(raw, limit)
    if not shown.isascii():
        shown = _without_piles(shown)
    return f"<bdi>{shown.translate(_MARKUP)}</bdi>" if not shown.isascii() else shown.translate(_MARKUP)


def name(raw: str) -> str:
    """Return a name or digest as markup."""
    return f"<code>{text(raw, MAX_NAME_CHARACTERS)}</code>" if raw else '<span class="soft">none</span>'


def prose(own: str) -> str:
    """Return a sentence of signproxy's own, in which backticks mark what is code."""
    return _CODE.sub(r"<code>\1</code>", text(own))


def _without_piles(raw: str) -> str:
    written: list[str] = []
    marks = 0
    for character in raw:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        # Two marks on one letter are Vietnamese; three are no language.
        written.append(character if marks <= 2 else f"\\u{ord(character):04x}")
    return "".join(written)


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{body}</section>\n"


def _table(titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-title="{title}"{_class(kind)}>{markup}</td>'
            for title, (kind, markup) in zip(titles, row, strict=True)
        )
        + "</tr>\n"
        for row in rows
    )
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _number(value: float) -> Cell:
    return "number", f"{value:,}"


def _problem(problem: str) -> Cell:
    return ("wide wrong", text(problem)) if problem else ("wide", "none")


def _troubles(troubles: Sequence[Diagnosis]) -> str:
    if not troubles:
        return ""
    return _section("What is wrong", f"<ul>\n{''.join(map(_trouble, troubles))}</ul>\n")


def _trouble(trouble: Diagnosis) -> str:
    what = f"<p><b>{text(_sentence(str(trouble)))}</b></p>"
    remedy = f"<p>{prose(trouble.remedy)}</p>" if trouble.remedy else ""
    return f'<li class="card {trouble.weight.value}">{what}{_list(trouble.details)}{remedy}</li>\n'


def _sentence(what: str) -> str:
    return f"{what[:1].upper()}{what[1:]}"


def _list(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return f'<ul class="plain">{"".join(f"<li>{text(line)}</li>" for line in lines)}</ul>'


def _refusals(groups: Sequence[RefusalGroup], now: float) -> str:
    if not groups:
        return _section("Last refusals", '<p class="soft">None since the workers were started.</p>\n')
    kept = sum(group.count for group in groups)
    return _section("Last refusals", f"<ul>\n{''.join(_refusal(group, kept, now) for group in groups)}</ul>\n")


def _refusal(group: RefusalGroup, kept: int, now: float) -> str:
    last = group.last
    times = f", {group.count} of the last {kept}" if group.count > 1 else ""
    status = f" ({group.status})" if group.status else ""
    ids = f"{text(moment(last.at))}, request {name(last.request_id)}, event {name(last.event_id)}"
    parts = [
        f'<p><b>{name(last.reason)}</b>{status} <span class="soft">{text(ago(now - last.at))}{times}</span></p>',
        f"<p>{_who(last)}</p>",
        f"<p>{text(last.detail)}</p>" if last.detail else "",
        f"<p>{prose(group.meaning)} {prose(group.remedy)}</p>" if group.meaning else "",
        f'<p class="soft small">{ids}</p>',
    ]
    return f'<li class="card">{"".join(parts)}</li>\n'


def _who(refusal: Refusal) -> str:
    who = f"principal {name(refusal.principal)}" if refusal.principal else "an unknown caller"
    what = f", {name(refusal.operation)}" if refusal.operation else ""
    table = ".".join(part for part in (refusal.catalog, refusal.table) if part)
    where = f", table {name(table)}" if refusal.table else f", catalog {name(table)}" if table else ""
    return f"{_sentence(who)}{what}{where}"


def _workers(fleet: FleetReport, now: float) -> str:
    titles = ("worker", "pid", "up for", "state", "policy", "epoch", "settings", "connections", "in flight", "lag")
    rows = [
        (
            _number(worker.worker),
            ("number", str(worker.pid)),
            ("number", text(span(now - worker.started_at))),
            _problem("; ".join(f"{name}: {each}" for name, each in worker.problems.items() if each))
            if any(worker.problems.values())
            else ("wide", "ready"),
            ("digest", name(worker.policy_rev)),
            _number(worker.policy_epoch),
            ("digest", name(worker.config_digest)),
            _number(worker.connections),
            _number(worker.in_flight),
            ("number", f"{worker.lag_seconds * 1000:,.0f} ms"),
        )
        for worker in fleet.workers
    ]
    counted = f"{len(fleet.workers)} of {fleet.wanted_workers} answer; replaced since the start: {fleet.restarts}."
    return _section("Workers", f"<p>{counted}</p>\n{_table(titles, rows) if rows else ''}")


def _reload(reload: ReloadReport | None, accepted_at: float, now: float) -> str:
    since = f"<p>In force since {text(moment(accepted_at))} ({text(ago(now - accepted_at))}).</p>\n"
    if reload is None:
        return _section("Configuration", f"{since}<p>Nothing was reloaded since the start.</p>\n")
    outcome = "taken over" if reload.accepted else "not taken over"
    told = (
        f"<p>Last reload {text(moment(reload.at))} ({text(ago(now - reload.at))}): {outcome} "
        f"after {reload.seconds:.2f} s.</p>\n"
    )
    # Why it was not taken over stands above, among what is wrong.
    changes = _list(reload.changes) if reload.accepted else ""
    return _section("Configuration", f"{since}{told}{changes}\n")


def _keys(status: Status) -> str:
    if not status.keys:
        return ""
    rows = [
        (
            ("", name(each.issuer)),
            _number(each.keys),
            ("number", "from the settings" if each.age == 0 else text(_age(each.age))),
            _number(each.failures),
            _problem(each.last_error),
        )
        for each in status.keys
    ]
    return _section("Token keys", _table(("issuer", "keys", "fetched", "failures", "last error"), rows))


def _age(seconds: float) -> str:
    return "never" if seconds == float("inf") else ago(seconds)


def _credentials(status: Status) -> str:
    if not status.credentials:
        return ""
    rows = [
        (
            ("", name(each.storage)),
            ("", name(each.bucket) if each.bucket else "all others" if _has_own(status, each.storage) else "all"),
            ("", name(each.provider)),
            _expiry(each.expires_at, status.at),
            ("number", text(moment(each.refreshed_at))),
            _number(each.failures),
            _problem(each.problem),
        )
        for each in status.credentials
    ]
    titles = ("storage", "bucket", "provider", "expire", "last answer", "failures", "problem")
    return _section("Credentials", _table(titles, rows))


def _has_own(status: Status, storage: str) -> bool:
    return any(each.bucket for each in status.credentials if each.storage == storage)


def _expiry(expires_at: float | None, now: float) -> Cell:
    if expires_at is None:
        return "number", "never"
    if expires_at == 0:
        return "number wrong", "there are none"
    return "number", f"{text(moment(expires_at))}, {text(ahead(expires_at - now))}"


def _upstreams(status: Status) -> str:
    if not status.upstreams:
        return ""
    rows = [
        (
            ("", name(each.catalog)),
            ("wide", text(each.uri)),
            ("number", text(moment(each.last_success_at))),
            ("number", text(moment(each.last_failure_at))),
            _number(each.tables),
            _number(each.in_flight),
            _problem(each.problem),
        )
        for each in status.upstreams
    ]
    titles = ("catalog", "upstream", "last answer", "last failure", "known tables", "in flight", "problem")
    return _section("Upstream catalogs", _table(titles, rows))


def _certificates(status: Status) -> str:
    if not status.certificates:
        return ""
    rows = [
        (
            ("", name(each.listener)),
            ("number", f"{text(moment(each.expires_at))}, {text(ahead(each.expires_at - status.at))}"),
            ("number", text(moment(each.loaded_at))),
        )
        for each in status.certificates
    ]
    return _section("Certificates", _table(("listener", "expires", "in force since"), rows))


def _audit(workers: Sequence[WorkerReport]) -> str:
    titles = (
        *("worker", "boot", "queued", "written", "lost", "turned away", "write errors"),
        *("segments sealed", "segments to ship", "problem"),
    )
    rows = [(_number(worker.worker), *_audit_cells(worker.audit)) for worker in workers]
    return _section("Audit trail", _table(titles, rows)) if rows else ""


def _audit_cells(audit: AuditReport) -> tuple[Cell, ...]:
    numbers = (audit.queued, audit.written, audit.dropped, audit.refused, audit.errors, audit.sealed, audit.waiting)
    return (("digest", name(audit.boot_id)), *map(_number, numbers), _problem(audit.problem or audit.shipping_problem))


def _checks(status: Status) -> str:
    failing = sum(bool(check.what) for check in status.checks)
    count = f"{failing} of {len(status.checks)} fail" if failing else f"all {len(status.checks)} pass"
    lines = "".join(f"<li>{text(neutralise(check.line(detail=True)))}</li>" for check in status.checks)
    return f'<details>\n<summary>Checks of /readyz: {count}</summary>\n<ul class="plain">{lines}</ul>\n</details>\n'
