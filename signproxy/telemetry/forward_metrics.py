"""Count and measure what comes to the S3 listener."""

from __future__ import annotations

from bisect import bisect_left

from signproxy.telemetry.families import Counter, Histogram, Registry

# An object of some gigabytes takes minutes.
PHASE_BOUNDS = (
    100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0,
)  # fmt: skip

PHASES = ("authz", "connect", "first_byte", "transfer")

_MICROSECOND = 1e-6
_CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")
"""Classes of an upstream's status by its first digit; 0 stands for no answer."""


class ForwardMetrics:
    """The metrics of forwarded requests, beside those that every request has."""

    def __init__(self, registry: Registry) -> None:
        self.requests = registry.counter(
            "signproxy_forward_requests_total{op,decision,status}",
            "Requests to the S3 listener by S3 operation, decision and the class of the store's status: none, 2xx, "
            "3xx, 4xx, 5xx.",
        )
        self.seconds = registry.histogram(
            "signproxy_forward_duration_seconds{phase}",
            "Time that forwarded requests spent in a phase: authz; connect, where a connection had to be opened; "
            "first_byte, until the head of the store's answer; transfer, the whole conversation with the store.",
            PHASE_BOUNDS,
        )
        self.bytes = registry.counter(
            "signproxy_forward_bytes_total{direction}",
            "Bytes of bodies that were forwarded, by direction as the client sees it: in (uploads), out (downloads).",
        )
        self.payload_failures = registry.counter(
            "signproxy_forward_payload_failures_total{reason}",
            "Uploads whose body was not what its head said, by reason code; no object was made of them.",
        )
        self.pool = registry.read(
            "signproxy_forward_connections{state}",
            "Connections to stores by state: open (all of them), idle (those that wait for a request).",
        )
        # All of them are there from the start: a phase that never took place is one of none.
        self.phases: tuple[Histogram, ...] = tuple(map(self.seconds.labels, PHASES))
        self.bytes_in: Counter = self.bytes.labels("in")
        self.bytes_out: Counter = self.bytes.labels("out")
        self._counted: dict[tuple[str, str, int], Counter] = {}

    def answered(self, op: str, decision: str, upstream_status: int) -> None:
        """Count a request to the S3 listener; 0 as status is that of a store that was not asked, or did not answer."""
        self.counter(op, decision, upstream_status).value += 1

    def counter(self, op: str, decision: str, upstream_status: int) -> Counter:
        """Return what counts these."""
        key = (op, decision, upstream_status // 100)
        counter = self._counted.get(key)
        if counter is None:
            counter = self._counted[key] = self.requests.labels(op, decision, _CLASSES[key[2]])
        return counter

    def payload_failed(self, reason: str) -> None:
        """Count an upload whose body was not what its head said."""
        self.payload_failures.labels(reason).inc()


class ForwardedCounts:
    """Counts and measures requests of one operation whose store was asked, and that ended alike."""

    __slots__ = ("_by_class", "_decision", "_forward", "_op", "_phases", "_requests", "_total")

    def __init__(self, op: str, decision: str, requests: Counter, total: Histogram, forward: ForwardMetrics) -> None:
        self._op = op
        self._decision = decision
        self._requests = requests
        self._total = total
        self._forward = forward
        self._by_class: dict[int, Counter] = {}
        self._phases = forward.phases

    def count(  # noqa: PLR0913, PLR0917 - one call, because it is made for each of them
        self,
        event_id: str,
        upstream_status: int,
        total_us: int,
        authz_us: int,
        connect_us: int,
        first_byte_us: int,
        upstream_us: int,
        bytes_in: int,
        bytes_out: int,
    ) -> None:
        """Count a request, once both its bodies have ended. `event_id` is empty where the trail may not hold the event.

        A phase of 0 did not take place, but for the first: each request is judged.
        """
        self._requests.value += 1
        if event_id:
            self._requests.event_id = event_id
        of_class = self._by_class.get(upstream_status // 100)
        if of_class is None:
            counter = self._forward.counter(self._op, self._decision, upstream_status)
            of_class = self._by_class[upstream_status // 100] = counter
        of_class.value += 1
        # What `Histogram.observe` does, without a call for each.
        total, seconds = self._total, total_us * _MICROSECOND
        bucket = bisect_left(total.bounds, seconds)
        total.counts[bucket] += 1
        total.total += seconds
        if event_id:
            total.latest[bucket] = event_id, seconds
        authz, connect, first_byte, transfer = self._phases
        seconds = authz_us * _MICROSECOND
        authz.counts[bisect_left(PHASE_BOUNDS, seconds)] += 1
        authz.total += seconds
        if connect_us:
            connect.observe(connect_us * _MICROSECOND)
        if first_byte_us:
            seconds = first_byte_us * _MICROSECOND
            first_byte.counts[bisect_left(PHASE_BOUNDS, seconds)] += 1
            first_byte.total += seconds
        if upstream_us:
            seconds = upstream_us * _MICROSECOND
            transfer.counts[bisect_left(PHASE_BOUNDS, seconds)] += 1
            transfer.total += seconds
        self._forward.bytes_in.value += bytes_in
        self._forward.bytes_out.value += bytes_out
