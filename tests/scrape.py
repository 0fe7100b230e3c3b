"""Read what a scrape is answered with prometheus_client's own parsers: Prometheus' text and OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from signproxy.telemetry.exposition import Exposition

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"

Seen = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(shown: Exposition) -> Iterable[Metric]:
    """Return the metrics, read as the answer's content type says."""
    families: Iterable[Metric]
    if shown.content_type.startswith("application/openmetrics-text;"):
        families = open_metrics(shown.body.decode())  # type: ignore[no-untyped-call]  # published without types
    else:
        families = plain_text(shown.body.decode())
    return list(families)


def scraped(shown: Exposition) -> Seen:
    """Return the values by sample name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parsed(shown)
        for sample in family.samples
    }
