"""The page of metrics and alerts: it describes every metric, and no alert asks for one that is not there."""

from __future__ import annotations

import re

import pytest

from signproxy.telemetry.families import Type
from signproxy.telemetry.metrics import all_metrics
from tools.docs.alerts import ALERTS, Alert
from tools.docs.generate import DOCS
from tools.docs.metrics import NAME, metrics_in, page

_SELECTOR = re.compile(r"(signproxy_[a-z_]+)\{([^}]*)\}")
_GROUPED = re.compile(r"by \(([^)]*)\)")
# Not ours: what a scrape and a histogram add.
_OTHERS = {"instance", "le"}


def test_the_committed_page_is_made_from_the_code() -> None:
    """The documentation would describe another version."""
    assert (DOCS / "metrics.md").read_text().endswith(page())


def test_every_metric_has_its_row() -> None:
    """An operator would look for a name in vain."""
    rows = [line for line in page().splitlines() if line.startswith("| `signproxy_")]
    for family in all_metrics():
        (row,) = (row for row in rows if row.startswith(f"| `{family.name}` | {family.type.value} |"))
        assert family.help in row
        assert family.stability.value in row
        assert all(f"`{label}`" in row for label in family.labels)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_asks_only_for_metrics_and_labels_that_exist(alert: Alert) -> None:
    """An alert on a name that is not there never rings, unnoticed."""
    families = {family.name: family for family in all_metrics()}
    asked = metrics_in(alert.expression)
    assert asked
    assert asked <= set(families)
    for name, matchers in _SELECTOR.findall(alert.expression):
        (declared,) = metrics_in(name)
        labels = set(re.findall(r'(\w+)(?:=|!=|=~|!~)"', matchers))
        assert labels
        assert labels <= set(families[declared].labels)
    known = {label for name in asked for label in families[name].labels}
    for names in _GROUPED.findall(alert.expression):
        assert set(names.split(", ")) <= known | _OTHERS


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_is_one_that_prometheus_would_take(alert: Alert) -> None:
    """A group of rules with one fault in it is refused whole."""
    for opening, closing in ("()", "{}", "[]"):
        assert alert.expression.count(opening) == alert.expression.count(closing)
    assert alert.expression.count('"') % 2 == 0
    assert re.fullmatch(r"\d+[mh]", alert.held)
    assert re.search(r" (>|<|==) ", alert.expression)
    # Counters are asked for their growth, gauges for what they are.
    families = {family.name: family for family in all_metrics()}
    for name in NAME.findall(alert.expression):
        (declared,) = metrics_in(name)
        grows = re.search(rf"(?:rate|increase)\({re.escape(name)}\b", alert.expression) is not None
        assert grows is (families[declared].type is not Type.GAUGE), name
    assert alert.remedy.endswith(".")


def test_alerts_have_names_of_their_own() -> None:
    """Two rules of one name silence each other."""
    names = [alert.name for alert in ALERTS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"Signproxy[A-Za-z]+", name) for name in names)


def test_values_of_labels_in_alerts_are_those_that_are_counted() -> None:
    """`result="failed"` of one metric is `result="failure"` of another."""
    from signproxy.audit.event import Verdict
    from signproxy.credentials.slot import RefreshResult
    from signproxy.errors import Reason
    from signproxy.telemetry.declared_metrics import Result

    counted = {
        ("signproxy_requests_total", "decision"): {verdict.value for verdict in Verdict},
        ("signproxy_requests_total", "reason"): {reason.code for reason in Reason},
        ("signproxy_request_duration_seconds_bucket", "stage"): {"authz", "sign", "total"},
        ("signproxy_config_reload_total", "result"): {result.value for result in Result},
        ("signproxy_credentials_refresh_total", "result"): {result.value for result in RefreshResult},
        ("signproxy_connections_rejected_total", "reason"): {"surplus", "slow", "unread"},
    }
    looked_at = 0
    for alert in ALERTS:
        for name, matchers in _SELECTOR.findall(alert.expression):
            for label, value in re.findall(r'(\w+)!?="([^"]*)"', matchers):
                assert value in counted[name, label], alert.name
                looked_at += 1
    assert looked_at >= 6
