"""What a scrape shows, and that it adds up over processes."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import partial
from random import Random

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.registry import DuplicateTimeseries

from signproxy.telemetry.declared_metrics import STAGE_BOUNDS, Result
from signproxy.telemetry.exposition import SnapshotCollector, expose
from signproxy.telemetry.families import (
    MAX_CHILDREN,
    Counted,
    Exemplar,
    Fold,
    ReadFamily,
    Registry,
    Sample,
    Stability,
    Type,
    add_up,
)
from signproxy.telemetry.metrics import Metrics, all_metrics
from tests.scrape import OPEN_METRICS, Seen, parsed, scraped

FORMATS = ("", OPEN_METRICS)


def test_a_request_is_counted_by_operation_decision_and_reason() -> None:
    """Alerts on refusals stand on these three labels."""
    metrics = Metrics("1.2.3")
    for _ in range(3):
        metrics.answered("GetObject", "allow", "allowed", 10)
    metrics.answered("PutObject", "deny", "no_write_data", 10)
    seen = scraped(metrics.render())
    name = "signproxy_requests_total"
    assert seen[name, (("decision", "allow"), ("op", "GetObject"), ("reason", "allowed"))] == 3
    assert seen[name, (("decision", "deny"), ("op", "PutObject"), ("reason", "no_write_data"))] == 1
    build = {labels for sample, labels in seen if sample == "signproxy_build_info"}
    assert {dict(labels)["version"] for labels in build} == {"1.2.3"}


def test_durations_fall_into_cumulative_buckets() -> None:
    """A quantile over buckets that do not add up is a number without a meaning."""
    metrics = Metrics("")
    for microseconds in (25, 26, 40, 10_000_000):
        metrics.answered("sign", "deny", "token_missing", microseconds)
    metrics.signed("GetObject", 30, 60, 10_000_001, "0101")
    seen = scraped(metrics.render())

    def bucket(stage: str, bound: str) -> float:
        return seen["signproxy_request_duration_seconds_bucket", (("le", bound), ("stage", stage))]

    # A bound belongs to its bucket.
    assert (bucket("total", "2.5e-05"), bucket("total", "5e-05"), bucket("total", "5.0"), bucket("total", "+Inf")) == (
        1,
        3,
        3,
        5,
    )
    assert seen["signproxy_request_duration_seconds_count", (("stage", "total"),)] == 5
    assert math.isclose(seen["signproxy_request_duration_seconds_sum", (("stage", "total"),)], 20.000092)
    assert (bucket("authz", "5e-05"), bucket("sign", "5e-05"), bucket("sign", "0.0001")) == (1, 0, 1)


@pytest.mark.parametrize("phases", ((0, 0, 0, 0), (1, 0, 250, 600), (100, 101, 99, 700_000_000), (7, 1_000_000, 0, 1)))
@pytest.mark.parametrize("event_id", ("", "0101"))
def test_a_forwarded_request_is_measured_as_a_histogram_measures(
    phases: tuple[int, int, int, int], event_id: str
) -> None:
    """Counting without a call for each number must not put one into another bucket."""
    metrics, plain = Metrics(""), Metrics("")
    counts = metrics.forwarded("GetObject", "allow", "allowed")
    for total in (25, 26, 10_000_001):
        counts.count(event_id, 200, total, *phases, 3, 4)
        for at, (phase, microseconds) in enumerate(zip(plain.forward.phases, phases, strict=True)):
            if microseconds or not at:
                phase.observe(microseconds * 1e-6)
    assert [each.sample(()) for each in metrics.forward.phases] == [each.sample(()) for each in plain.forward.phases]
    for total in (25, 26, 10_000_001):
        plain.answered("GetObject", "allow", "allowed", total, event_id)
    assert counts._total.sample(()) == plain._total.sample(())


@pytest.mark.parametrize("accept", FORMATS)
def test_every_metric_is_read_by_prometheus_own_parser(accept: str) -> None:
    """An exposition that Prometheus refuses takes all metrics with it."""
    metrics = Metrics("1")
    metrics.answered("GetObject", "allow", "allowed", 10)
    metrics.policy_revision.replace(("5f2c",), 1)
    metrics.policy_epoch.labels().set(7)
    metrics.reloaded(Result.FAILURE, 0.2)
    metrics.catalog_calls.labels("load_table", "2xx").inc()
    metrics.vended.labels("issued", "read").inc()
    metrics.forward.answered("GetObject", "allow", 200)
    metrics.forward.payload_failed("payload_hash")
    # Whatever is kept elsewhere.
    for read in (*vars(metrics).values(), *vars(metrics.forward).values()):
        if isinstance(read, ReadFamily):
            values = {tuple(f"a {label}" for label in read.family.labels): math.inf}
            read.read_from(partial(dict, values))
    families = {family.name: family for family in parsed(metrics.render(accept=accept))}
    # The parser takes `_total` off the names of counters.
    assert set(families) == {family.name.removesuffix("_total") for family in all_metrics()}
    assert all(family.samples for family in families.values())
    for described in all_metrics():
        found = families[described.name.removesuffix("_total")]
        assert (found.type, found.documentation) == (described.type.value, described.help)


def test_a_metric_without_values_is_still_described() -> None:
    """Dashboards are built before the first request comes."""
    text = Metrics("").render().body.decode()
    assert "# TYPE signproxy_requests_total counter\n" in text
    assert not [family for family in all_metrics() if f"# HELP {family.name} " not in text]


def test_names_follow_the_conventions_and_every_metric_is_described() -> None:
    """The documentation's table is made from this list."""
    for family in all_metrics():
        assert family.name.startswith("signproxy_")
        assert family.help.endswith(".")
        assert (family.type is Type.COUNTER) == family.name.endswith("_total")
        assert family.stability in Stability
        assert (family.bounds != ()) == (family.type is Type.HISTOGRAM)


def test_no_metric_is_labelled_by_who_or_what() -> None:
    """A series per principal or table would take the memory of the pod and of its scraper."""
    labels = {label for family in all_metrics() for label in family.labels}
    closed = {"op", "decision", "reason", "stage", "result", "caller", "rev", "digest", "version", "python"}
    closed |= {"call", "status", "kind", "phase", "direction", "state", "access"}
    # Closed as well: the operator's settings and policy name them.
    assert labels == closed | {"issuer", "storage", "listener", "catalog"}


@pytest.mark.parametrize("accept", FORMATS)
@pytest.mark.parametrize("text", ('say "yes"', "back\\slash", "two\nlines", "\u20ac", "a,b}{=", "", "\udcff"))
def test_label_values_and_help_are_escaped(text: str, accept: str) -> None:
    """An issuer's name is free text; unescaped it could add samples of its own to the exposition."""
    registry = Registry()
    registry.counter("a_total{label}", text).labels(text).inc()
    (family,) = parsed(expose(registry.families(), registry.snapshot(), accept))
    expected = text.encode("utf-8", "backslashreplace").decode()
    assert family.samples[0].labels == {"label": expected}
    assert family.documentation == expected


@pytest.mark.parametrize("accept", FORMATS)
@pytest.mark.parametrize("value", (0, 1, -1, 2**53, 1e300, 0.1, 1e-9, 1_800_000_000.123, math.inf, -math.inf, math.nan))
def test_numbers_come_back_exactly(value: float, accept: str) -> None:
    """A time in seconds that loses its last digits is an hour off."""
    registry = Registry()
    registry.gauge("a", "A.").labels().set(value)
    (family,) = parsed(expose(registry.families(), registry.snapshot(), accept))
    seen = family.samples[0].value
    assert seen == value or (math.isnan(seen) and math.isnan(value))


# -- what a scraper asks for -------------------------------------------------------------------------------------------

# What Prometheus 3 sends.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PLAIN = "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    (
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html", PLAIN),
        ("text/plain;version=0.0.4", PLAIN),
        ("text/plain;version=1.0.0", "text/plain; version=1.0.0; charset=utf-8; escaping=underscores"),
        (PROMETHEUS, f"{OPEN_METRICS}; charset=utf-8; escaping=allow-utf-8"),
        ("application/openmetrics-text", f"{OPEN_METRICS}; charset=utf-8"),
        # Formats that this server does not write: the answer would claim to be one of them.
        ("application/openmetrics-text;version=0.0.1", PLAIN),
        ("application/openmetrics-text;version=2.0.0", PLAIN),
        ("application/openmetrics-text;version=1.0.0.7", PLAIN),
        # Not even a number.
        ("application/openmetrics-text;version=one", PLAIN),
        ("application/openmetrics-text;version=1.x", PLAIN),
        ("text/plain;version=9\u00e9", PLAIN),
        (f"text/plain;version={'9' * 5000}", PLAIN),
        (";,=;version", PLAIN),
        (",,", PLAIN),
        # One that cannot be read takes nothing from the one behind it.
        ("text/plain;version=1.x, application/openmetrics-text", f"{OPEN_METRICS}; charset=utf-8"),
    ),
)
def test_a_scraper_gets_the_format_that_it_asks_for(accept: str, content_type: str) -> None:
    """A scraper drops an answer in a format that it did not ask for, and one request must not break the listener."""
    metrics = Metrics("1")
    metrics.answered("GetObject", "allow", "allowed", 10)
    shown = metrics.render(accept=accept)
    assert shown.content_type == content_type
    name = "signproxy_requests_total"
    assert scraped(shown)[name, (("decision", "allow"), ("op", "GetObject"), ("reason", "allowed"))] == 1
    assert shown.body.endswith(b"# EOF\n") is content_type.startswith("application/openmetrics-text")


OPEN = f"{OPEN_METRICS}; charset=utf-8"
UNDERSCORES = f"{OPEN}; escaping=underscores"
NEWER_TEXT = "text/plain; version=1.0.0; charset=utf-8; escaping=underscores"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    (
        # What is not accepted is not sent, whatever stands beside it.
        ("application/openmetrics-text;q=0, text/plain", PLAIN),
        ("application/openmetrics-text; q=0.000, */*", PLAIN),
        ("application/openmetrics-text;q=0", PLAIN),
        ("application/openmetrics-text;q=0, text/html", PLAIN),
        ("application/openmetrics-text;version=1.0.0;q=0, application/openmetrics-text;q=0.1", OPEN),
        ("text/plain;q=0, */*", OPEN),
        ("text/*;q=0, */*", OPEN),
        # Nothing that is written here is accepted: an answer is of more use than none.
        ("text/plain;q=0", PLAIN),
        ("*/*;q=0", PLAIN),
        # The greater weight wins, wherever it stands.
        (f"text/plain;version=0.0.4;q=0.9,{OPEN_METRICS};q=0.1", PLAIN),
        (f"{OPEN_METRICS};q=0.1,text/plain;version=0.0.4;q=0.9", PLAIN),
        (f"text/plain;version=1.0.0;q=0.4,{OPEN_METRICS};q=0.5", UNDERSCORES),
        (f"{OPEN_METRICS};q=0.4,text/plain;version=1.0.0;q=0.5", NEWER_TEXT),
        (f"{OPEN_METRICS};q=0.999,text/plain", PLAIN),
        (f"{OPEN_METRICS};q=0.5,*/*;q=0.9", PLAIN),
        # What is wanted most is no format of ours, in no version of ours.
        (f"text/html, application/openmetrics-text;version=0.0.1;q=0.9, {OPEN_METRICS};q=0.1", UNDERSCORES),
        # Of equal weights the newer formats come before the oldest one, and before what only a wildcard names.
        (f"text/plain;version=0.0.4,{OPEN_METRICS}", UNDERSCORES),
        (f"{OPEN_METRICS};q=0.5,text/plain;version=1.0.0;q=0.5", UNDERSCORES),
        (f"text/plain;version=1.0.0;q=0.5,{OPEN_METRICS};q=0.5", NEWER_TEXT),
        ("text/plain;version=0.0.4, */*", PLAIN),
        # A wildcard of one kind means that kind; the narrowest one counts.
        ("application/*", OPEN),
        ("text/*", PLAIN),
        ("application/*;q=0.2, */*;q=0.1", OPEN),
        ("application/*;q=0.1, */*;q=0.2", PLAIN),
        # Names of types and of the weight in any case, with blanks.
        ("Application/OpenMetrics-Text ; Q=0.5 , text/plain ; q=0.4", OPEN),
        # What is no weight counts as if it were not there.
        ("application/openmetrics-text;q=2, text/plain;q=0.9", OPEN),
        ("application/openmetrics-text;q=-1, text/plain;q=0.9", OPEN),
        ("application/openmetrics-text;q=, text/plain;q=0.9", OPEN),
        ("application/openmetrics-text;q=nan, text/plain;q=0.9", OPEN),
        ("application/openmetrics-text;q=\u0661, text/plain;q=0.9", OPEN),
    ),
)
def test_a_scraper_gets_the_format_that_it_prefers(accept: str, content_type: str) -> None:
    """A scraper that refuses OpenMetrics, or wants it least, cannot read the answer, and all numbers are missing."""
    assert Metrics("1").render(accept=accept).content_type == content_type


def test_both_formats_say_the_same() -> None:
    """A dashboard would change with the version of the scraper."""
    metrics = Metrics("1")
    metrics.signed("GetObject", 30, 60, 100, "0001")
    metrics.answered("PutObject", "deny", "no_write_data", 10)
    metrics.policy_revision.replace(("5f2c",), 1)
    assert scraped(metrics.render()) == scraped(metrics.render(accept=OPEN_METRICS))


def test_no_two_metrics_write_one_series() -> None:
    """`a_seconds` as a histogram writes `a_seconds_count`; a counter of that name would make Prometheus refuse all."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(all_metrics(), ()))
    clash = Registry()
    clash.gauge("signproxy_request_duration_seconds_count", "A.")
    with pytest.raises(DuplicateTimeseries):
        registry.register(SnapshotCollector(clash.families(), ()))


# -- exemplars ---------------------------------------------------------------------------------------------------------


def exemplars(metrics: Metrics, *others: tuple[Counted, ...]) -> dict[tuple[str, str], tuple[str, float]]:
    """Return event id and value by sample name and by `le` or reason."""
    return {
        (sample.name, sample.labels.get("le") or sample.labels["reason"]): (
            sample.exemplar.labels["event_id"],
            round(sample.exemplar.value, 9),
        )
        for family in parsed(metrics.render(*others, accept=OPEN_METRICS))
        for sample in family.samples
        if sample.exemplar is not None
    }


def test_a_slow_request_leads_to_its_audit_event() -> None:
    """An operator sees that requests are slow or refused, and has to search the trail for one of them."""
    metrics = Metrics("1")
    metrics.signed("GetObject", 30, 60, 100, "0001")
    metrics.signed("GetObject", 30, 60, 90_000, "0002")
    metrics.signed("GetObject", 30, 60, 80_000, "0003")
    metrics.answered("PutObject", "deny", "no_write_data", 20, "0004")
    # The event of a refusal that is only summed up cannot be looked up.
    metrics.answered("PutObject", "deny", "no_write_data", 20)
    metrics.forwarded("GetObject", "allow", "allowed").count("0005", 206, 200, 10, 0, 100, 100, 0, 4096)
    duration = "signproxy_request_duration_seconds_bucket"
    assert exemplars(metrics) == {
        (duration, "2.5e-05"): ("0004", 20e-6),
        (duration, "0.0001"): ("0001", 100e-6),
        (duration, "0.00025"): ("0005", 200e-6),
        (duration, "0.1"): ("0003", 0.08),
        ("signproxy_requests_total", "allowed"): ("0005", 1.0),
        ("signproxy_requests_total", "no_write_data"): ("0004", 1.0),
    }
    assert b"event_id" not in metrics.render().body


def test_a_signed_request_is_measured_as_any_other_is() -> None:
    """The one call of a signed request is written out for speed: a dashboard must not see that."""
    quick, plain = Metrics("1"), Metrics("1")
    drawn = Random(7)
    edges = [0, *(round(bound * 1e6) + step for bound in STAGE_BOUNDS for step in (-1, 0, 1))]
    for number in range(3_000):
        op = drawn.choice(("GetObject", "PutObject"))
        authz, sign, total = (drawn.choice((drawn.choice(edges), drawn.randrange(20_000_000))) for _ in range(3))
        event_id = f"{number:04d}"
        quick.signed(op, authz, sign, total, event_id)
        counter = plain.requests.labels(op, "allow", "allowed")
        counter.inc()
        counter.event_id = event_id
        plain.stage_seconds.labels("authz").observe(authz * 1e-6)
        plain.stage_seconds.labels("sign").observe(sign * 1e-6)
        plain.stage_seconds.labels("total").observe(total * 1e-6, event_id)
    assert quick.snapshot() == plain.snapshot()
    assert quick.render(accept=OPEN_METRICS).body == plain.render(accept=OPEN_METRICS).body


def test_of_several_processes_the_latest_event_is_shown() -> None:
    """The event of an hour ago says little about a problem of now."""
    fleet, old, new, silent = (Metrics("1") for _ in range(4))
    old.signed("GetObject", 30, 60, 100, "0001")
    old.signed("GetObject", 30, 60, 400, "0002")
    new.signed("GetObject", 30, 60, 100, "0003")
    silent.answered("PutObject", "allow", "allowed", 100)
    fleet.retain(old.snapshot())
    duration = "signproxy_request_duration_seconds_bucket"
    assert (
        exemplars(fleet, new.snapshot(), silent.snapshot())
        == exemplars(fleet, silent.snapshot(), new.snapshot())
        == {
            (duration, "0.0001"): ("0003", 100e-6),
            (duration, "0.0005"): ("0002", 400e-6),
            ("signproxy_requests_total", "allowed"): ("0003", 1.0),
        }
    )


def test_an_exemplar_travels_between_processes() -> None:
    """With several workers no metric would lead to an event."""
    metrics = Metrics("1")
    metrics.signed("GetObject", 30, 60, 100, "0001")
    snapshot = metrics.snapshot()
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=tuple[Counted, ...]) == snapshot
    (requests,) = (counted for counted in snapshot if counted.name == "signproxy_requests_total")
    assert requests.samples == (Sample(("GetObject", "allow", "allowed"), (1.0,), (Exemplar("0001", 1.0),)),)


# -- over processes ----------------------------------------------------------------------------------------------------


def test_the_values_of_several_processes_add_up() -> None:
    """Whichever worker answers the scrape, it must speak for all of them."""
    workers = [Metrics("1") for _ in range(3)]
    for number, worker in enumerate(workers, 1):
        for _ in range(number):
            worker.answered("GetObject", "allow", "allowed", 10)
        worker.policy_epoch.labels().set(10 + number)
        worker.credentials_expiry.read_from(partial(dict, [(("lake",), 1000.0 * number)]))
        worker.audit_queue_depth.read_from(lambda: {(): 4})
    first, *others = workers
    seen = scraped(first.render(*(worker.snapshot() for worker in others)))
    assert seen["signproxy_requests_total", (("decision", "allow"), ("op", "GetObject"), ("reason", "allowed"))] == 6
    assert seen["signproxy_request_duration_seconds_count", (("stage", "total"),)] == 6
    assert seen["signproxy_audit_queue_depth", ()] == 12
    # Of states the worst is shown: the worker that is behind, the key that ends first.
    assert seen["signproxy_policy_epoch", ()] == 11
    assert seen["signproxy_credentials_expiry_timestamp_seconds", (("storage", "lake"),)] == 1000
    assert [value for (name, _), value in seen.items() if name == "signproxy_build_info"] == [1]


def test_a_snapshot_travels_between_processes() -> None:
    """Workers hand theirs over as bytes."""
    metrics = Metrics("1")
    metrics.answered("GetObject", "allow", "allowed", 10)
    snapshot = metrics.snapshot()
    sent = msgspec.json.encode(snapshot)
    assert msgspec.json.decode(sent, type=tuple[Counted, ...]) == snapshot


@pytest.mark.parametrize(
    ("fold", "expected"), ((Fold.SUM, 6.0), (Fold.MIN, 1.0), (Fold.MAX, 3.0), (Fold.ONCE, 3.0)), ids=str
)
def test_a_gauge_says_how_it_folds(fold: Fold, expected: float) -> None:
    """The sum of two epochs or ages is no epoch and no age."""
    registry = Registry()
    registry.gauge("a", "A.", fold=fold)
    snapshots = [(Counted("a", (Sample((), (value,)),)),) for value in (2.0, 1.0, 3.0)]
    assert add_up(registry.families(), snapshots) == (Counted("a", (Sample((), (expected,)),)),)


# -- guards ------------------------------------------------------------------------------------------------------------


def test_an_info_metric_forgets_its_former_value() -> None:
    """Two policy revisions at once would say that both are in force."""
    metrics = Metrics("")
    for rev in ("one", "two"):
        metrics.policy_revision.replace((rev,), 1)
    revisions = [labels for name, labels in scraped(metrics.render()) if name == "signproxy_policy_revision_info"]
    assert revisions == [(("rev", "two"),)]


def test_what_a_dead_worker_counted_stays() -> None:
    """A sum that falls when a worker dies is a restart to Prometheus, and a spike of all the others' requests."""
    fleet, worker = Metrics("1"), Metrics("1")
    for _ in range(5):
        worker.signed("GetObject", 30, 60, 100, "0103")
    worker.policy_epoch.labels().set(3)
    worker.audit_queue_depth.read_from(lambda: {(): 7})
    worker.audit_written.read_from(lambda: {(): 5})
    before = scraped(fleet.render(worker.snapshot()))
    fleet.retain(worker.snapshot())
    successor = Metrics("1")
    successor.signed("GetObject", 30, 60, 100, "0104")
    successor.policy_epoch.labels().set(4)
    after = scraped(fleet.render(successor.snapshot()))
    signed = ("signproxy_requests_total", (("decision", "allow"), ("op", "GetObject"), ("reason", "allowed")))
    assert (before[signed], after[signed]) == (5, 6)
    assert after["signproxy_request_duration_seconds_count", (("stage", "sign"),)] == 6
    assert after["signproxy_audit_written_total", ()] == 5
    # Its states ended with it: nothing waits in a dead worker's queue, and its old policy holds nothing up.
    assert ("signproxy_audit_queue_depth", ()) not in after
    assert after["signproxy_policy_epoch", ()] == 4
    fleet.retain(successor.snapshot())
    assert scraped(fleet.render())[signed] == 6


def test_no_counter_falls_while_workers_come_and_go() -> None:
    """Every counter is watched by its rate, and a rate over a fall is wrong by the whole count."""
    fleet = Metrics("1")
    worker = Metrics("1")
    seen: Seen = {}
    for turn in range(20):
        worker.answered("sign", "deny", "token_missing", turn)
        worker.log_suppressed.inc()
        if turn % 4 == 3:
            fleet.retain(worker.snapshot())
            worker = Metrics("1")
        now = {
            sample: value
            for sample, value in scraped(fleet.render(worker.snapshot())).items()
            if sample[0].endswith(("_total", "_bucket", "_count", "_sum"))
        }
        assert [sample for sample, value in now.items() if value < seen.get(sample, 0)] == []
        seen = now
    assert seen["signproxy_log_suppressed_total", ()] == 20


def test_a_reload_is_counted_by_its_result() -> None:
    """An increase from no sample to one is none to Prometheus, so both are there from the start."""
    metrics = Metrics("1")
    name = "signproxy_config_reload_total"
    assert [scraped(metrics.render())[name, (("result", result.value),)] for result in Result] == [0, 0]
    metrics.reloaded(Result.SUCCESS, 0.2)
    metrics.reloaded(Result.FAILURE, 70)
    seen = scraped(metrics.render())
    assert [seen[name, (("result", result.value),)] for result in Result] == [1, 1]
    assert seen["signproxy_config_reload_seconds_bucket", (("le", "60.0"),)] == 1
    assert seen["signproxy_config_reload_seconds_count", ()] == 2


def test_labels_that_a_caller_chooses_do_not_fill_the_memory() -> None:
    """A label that is no closed set is a fault in signproxy, and must show before the pod is killed for it."""
    family = Registry().counter("a_total{label}", "A.")
    for number in range(MAX_CHILDREN):
        family.labels(str(number))
    family.labels("0").inc()
    with pytest.raises(ValueError, match="no closed set"):
        family.labels("one more")


def test_a_wrong_number_of_labels_is_refused() -> None:
    """The sample could not be written."""
    with pytest.raises(ValueError, match="has the labels"):
        Registry().gauge("a{one}", "A.").labels("x", "y")


def test_a_name_is_declared_once() -> None:
    """Prometheus refuses an exposition that describes a metric twice."""
    registry = Registry()
    registry.counter("a_total", "A.")
    with pytest.raises(ValueError, match="two metrics"):
        registry.gauge("a_total", "A.")


@pytest.mark.parametrize("bounds", ((), (1.0, 1.0), (2.0, 1.0)))
def test_bounds_must_grow(bounds: tuple[float, ...]) -> None:
    """Values would be counted in the wrong bucket."""
    with pytest.raises(ValueError, match="must grow"):
        Registry().histogram("a", "A.", bounds)


def test_stage_bounds_lie_around_what_a_sign_takes() -> None:
    """Buckets that all requests fall into one of say nothing."""
    assert STAGE_BOUNDS[0] <= 50e-6 <= STAGE_BOUNDS[3]
    assert list(STAGE_BOUNDS) == sorted(set(STAGE_BOUNDS))


def test_counting_needs_no_library() -> None:
    """A sidecar that is never scraped pays for prometheus_client, and each process of a fleet again."""
    code = (
        "import sys\n"
        "from signproxy.telemetry.log import get_logger\n"
        "from signproxy.telemetry.metrics import Metrics\n"
        "log = get_logger('x').bind(request_id='r')\n"
        "metrics = Metrics('1')\n"
        "metrics.signed('GetObject', 1, 2, 3, '0001')\n"
        "metrics.retain(metrics.snapshot())\n"
        "assert not {'prometheus_client', 'structlog', 'aiohttp'} & set(sys.modules)\n"
        "metrics.render()\n"
        "assert 'prometheus_client' in sys.modules\n"
        "assert not {'structlog', 'aiohttp'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_a_scrape_shows_nothing_that_is_not_ours() -> None:
    """prometheus_client's own collectors would show the garbage collector of one process of several."""
    assert {name for name, _ in scraped(Metrics("1").render()) if not name.startswith("signproxy_")} == set()


def test_what_is_forwarded_is_counted_by_the_stores_answer() -> None:
    """A store that begins to answer 503 must show before the first user calls."""
    metrics = Metrics("")
    counts = metrics.forwarded("GetObject", "allow", "allowed")
    counts.count("", 200, 20, 10, 0, 2_000, 3_000, 7, 1_000)
    counts.count("", 206, 20, 10, 500, 0, 0, 0, 24)
    # Of one that was refused before it got so far, no phase is known.
    for status in (503, 0):
        metrics.forward.answered("GetObject", "allow", status)
    metrics.forward.payload_failed("payload_hash")
    lines = metrics.render().body.decode().splitlines()
    counted = [line for line in lines if line.startswith("signproxy_forward_requests_total{")]
    assert counted == [
        'signproxy_forward_requests_total{decision="allow",op="GetObject",status="2xx"} 2.0',
        'signproxy_forward_requests_total{decision="allow",op="GetObject",status="5xx"} 1.0',
        'signproxy_forward_requests_total{decision="allow",op="GetObject",status="none"} 1.0',
    ]
    assert 'signproxy_forward_bytes_total{direction="in"} 7.0' in lines
    assert 'signproxy_forward_bytes_total{direction="out"} 1024.0' in lines
    assert 'signproxy_forward_payload_failures_total{reason="payload_hash"} 1.0' in lines
    # What did not take place took no time, and is not an observation of none.
    for phase, count in (("authz", 2), ("connect", 1), ("first_byte", 1), ("transfer", 1)):
        assert f'signproxy_forward_duration_seconds_count{{phase="{phase}"}} {count}.0' in lines
