"""Alerts look at metrics that exist, and every pod is scraped where it serves them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from signproxy.telemetry.metrics import all_metrics
from tests.deploy.kustomize import optional
from tests.deploy.manifests import of_kind, product_pods

MONITOR, RULE = optional()["monitoring.yaml"]
ALERTS = [rule for group in RULE["spec"]["groups"] for rule in group["rules"]]
METRICS = {family.name: set(family.labels) for family in all_metrics()}

DISCOVERED = {"namespace", "pod", "container"}
"""Labels that scraping adds."""

_METRIC = re.compile(r"(signproxy_\w+)(?:\{([^}]*)\})?")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_each_alert_asks_for_what_is_measured(alert: dict[str, Any]) -> None:
    """An alert about a metric that was renamed never comes."""
    found = _METRIC.findall(alert["expr"])
    assert found
    labels = set(DISCOVERED)
    for name, matchers in found:
        assert name in METRICS
        labels |= METRICS[name]
        assert set(re.findall(r"(\w+)=", matchers)) <= METRICS[name]
    for group in re.findall(r"by \(([^)]*)\)", alert["expr"]):
        assert set(group.split(", ")) <= labels
    assert set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"])) <= labels
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert alert["expr"].count("(") == alert["expr"].count(")")


def test_every_pod_is_scraped() -> None:
    """A fleet without metrics looks like one without troubles."""
    spec = MONITOR["spec"]
    scraped = {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]}
    assert {endpoint["path"] for endpoint in spec["podMetricsEndpoints"]} == {"/metrics"}
    (rule,) = spec["selector"]["matchExpressions"]
    for pod in product_pods():
        assert pod.product is not None
        assert len(scraped & {port["name"] for port in pod.product["ports"]}) == 1
        assert pod.metadata["labels"][rule["key"]] in rule["values"]
    namespaces = {name for variant in ("gateway", "sidecar") for name in of_kind(variant, "Namespace")}
    assert set(spec["namespaceSelector"]["matchNames"]) == namespaces
