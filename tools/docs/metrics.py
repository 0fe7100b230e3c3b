"""Write the page of metrics."""

from __future__ import annotations

import re
from collections.abc import Sequence

from signproxy.telemetry.families import Family, Fold, Type
from signproxy.telemetry.metrics import all_metrics
from tools.docs.alerts import ALERTS, Alert
from tools.docs.markdown import code, codes, table

_INTRODUCTION = """\
# Metrics

`GET /metrics` of the admin listener answers in Prometheus' text format, or in OpenMetrics where the scraper's `Accept`
asks for it. With several workers one scrape speaks for all of them: the column "of several workers" says how their
values become one. What a worker had counted when it ended is kept, so counters fall only when the server itself is
restarted.

In OpenMetrics `signproxy_requests_total` and the stage `total` of `signproxy_request_duration_seconds` carry exemplars:
the `event_id` of the latest audit event of that count or bucket, which `signproxy explain --event ID --audit FILE`
explains. Requests without an event of their own leave none. Prometheus stores exemplars where its feature
`exemplar-storage` is on.

No metric is labelled with a principal, a table or anything else that callers can choose. Those numbers are in the audit
trail. The last refusals, with what to do about each, are in `/status`; the log has a line for each refusal, unless they
come in a flood, which `signproxy_log_suppressed_total` counts.

`stable` metrics keep name, labels and meaning between versions. `experimental` ones may change with a word in the
release notes.

How long a revoke takes to bite has no metric of its own: at most `reload.poll_seconds`, and then the reload, whose time
is `signproxy_config_reload_seconds`; it counts as done only when every worker has it.

## All metrics

Times are Unix times in seconds; durations are seconds.
"""

_ALERTS = """\

## Suggested alerts

Thresholds are beginnings. Where Prometheus cannot reach the server at all, `up == 0` of the scrape job tells.
"""

NAME = re.compile(r"\bsignproxy_[a-z_]+")
_PARTS = ("_bucket", "_sum", "_count")

_FOLDS = {Fold.SUM: "sum", Fold.MIN: "least", Fold.MAX: "greatest", Fold.ONCE: "told once"}


def page() -> str:
    """Return the page."""
    families = all_metrics()
    titles = ("metric", "type", "labels", "meaning", "of several workers", "stability", "alert")
    return "".join(
        (
            f"{_INTRODUCTION}\n",
            table(titles, map(_row, families)),
            f"{_ALERTS}\n",
            table(("alert", "expression", "for", "severity", "what to do"), map(_alert, ALERTS)),
            "\n## Buckets\n\n",
            table(("metric", "upper bounds in seconds"), map(_bounds, _histograms(families))),
        )
    )


def metrics_in(expression: str) -> set[str]:
    """Return the metrics that an expression asks for, by the names that they are declared with."""
    histograms = {family.name for family in _histograms(all_metrics())}
    found = set()
    for name in NAME.findall(expression):
        whole = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name)
        found.add(whole if whole in histograms else name)
    return found


def _histograms(families: Sequence[Family]) -> list[Family]:
    return [family for family in families if family.type is Type.HISTOGRAM]


def _row(family: Family) -> tuple[str, ...]:
    alerts = [alert.name for alert in ALERTS if family.name in metrics_in(alert.expression)]
    return (
        code(family.name),
        family.type.value,
        codes(family.labels),
        family.help,
        _FOLDS[family.fold] if family.type is Type.GAUGE else _FOLDS[Fold.SUM],
        family.stability.value,
        ", ".join(alerts),
    )


def _alert(alert: Alert) -> tuple[str, ...]:
    return code(alert.name), code(alert.expression), alert.held, alert.severity.value, alert.remedy


def _bounds(family: Family) -> tuple[str, str]:
    return code(family.name), ", ".join(f"{bound:g}" for bound in family.bounds)
