"""Count and measure what comes to the S3 listener."""

from __future__ import annotations

from signproxy.telemetry.families import Counter, Histogram, Registry, Type

# An object of some gigabytes takes minutes.
PHASE_BOUNDS = (
    100e-6,
    250e-6,
    500e-6,
    1e-3,
    2.5e-3,
    5e-3,
    10e-3,
    25e-3,
    50e-3,
    0.1,
    0.25,
    1.0,
    5.0,
    30.0,
    120.0,
    600.0,
)

_MICROSECOND = 1e-6
_CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")
"""Classes of an upstream's status by its first digit; 0 stands for no answer."""


class ForwardMetrics:
    """The metrics of forwarded requests, beside those that every request has."""

    def __init__(self, registry: Registry) -> None:
        self.requests = registry.counter(
            "signproxy_forward_requests_total",
            "Requests to the S3 listener by S3 operation, decision and the class of the store's status: none, 2xx, "
            "3xx, 4xx, 5xx.",
            ("op", "decision", "status"),
        )
        self.seconds = registry.histogram(
            "signproxy_forward_duration_seconds",
            "Time that forwarded requests spent in a phase: authz; connect, where a connection had to be opened; "
            "first_byte, until the head of the store's answer; transfer, the whole conversation with the store.",
            PHASE_BOUNDS,
            ("phase",),
        )
        self.bytes = registry.counter(
            "signproxy_forward_bytes_total",
            "Bytes of bodies that were forwarded, by direction as the client sees it: in (uploads), out (downloads).",
            ("direction",),
        )
        self.payload_failures = registry.counter(
            "signproxy_forward_payload_failures_total",
            "Uploads whose body was not what its head said, by reason code; no object was made of them.",
            ("reason",),
        )
        self.pool = registry.read(
            "signproxy_forward_connections",
            Type.GAUGE,
            "Connections to stores by state: open (all of them), idle (those that wait for a request).",
            ("state",),
        )
        self._authz: Histogram = self.seconds.labels("authz")
        self._connect: Histogram = self.seconds.labels("connect")
        self._first_byte: Histogram = self.seconds.labels("first_byte")
        self._transfer: Histogram = self.seconds.labels("transfer")
        self._bytes_in: Counter = self.bytes.labels("in")
        self._bytes_out: Counter = self.bytes.labels("out")
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

    def took(self, authz_us: int, connect_us: int, first_byte_us: int, upstream_us: int) -> None:
        """Measure the phases of a request whose store was asked; 0 is a phase that did not take place."""
        self._authz.observe(authz_us * _MICROSECOND)
        if connect_us:
            self._connect.observe(connect_us * _MICROSECOND)
        if first_byte_us:
            self._first_byte.observe(first_byte_us * _MICROSECOND)
        if upstream_us:
            self._transfer.observe(upstream_us * _MICROSECOND)

    def moved(self, bytes_in: int, bytes_out: int) -> None:
        """Count bytes of bodies, once they have ended."""
        self._bytes_in.value += bytes_in
        self._bytes_out.value += bytes_out

    def payload_failed(self, reason: str) -> None:
        """Count an upload whose body was not what its head said."""
        self.payload_failures.labels(reason).inc()


class Repeats:
    """Counts and measures requests that were served alike: of one operation, allowed, and answered at once."""

    __slots__ = (
        "_authz",
        "_by_class",
        "_bytes_out",
        "_first_byte",
        "_forward",
        "_op",
        "_requests",
        "_total",
        "_transfer",
    )

    def __init__(self, op: str, requests: Counter, total: Histogram, forward: ForwardMetrics) -> None:
        self._op = op
        self._requests = requests
        self._total = total
        self._forward = forward
        self._by_class: dict[int, Counter] = {}
        phases = forward.seconds
        self._authz, self._first_byte, self._transfer = map(phases.labels, ("authz", "first_byte", "transfer"))
        self._bytes_out = forward.bytes.labels("out")

    def count(
        self, event_id: str, upstream_status: int, total_us: int, authz_us: int, upstream_us: int, bytes_out: int
    ) -> None:
        """Count a request; the first byte of its answer was its last."""
        self._requests.value += 1
        self._requests.event_id = event_id
        of_class = self._by_class.get(upstream_status // 100)
        if of_class is None:
            of_class = self._by_class[upstream_status // 100] = self._forward.counter(
                self._op, "allow", upstream_status
            )
        of_class.value += 1
        self._total.observe_event(total_us * _MICROSECOND, event_id)
        self._authz.observe(authz_us * _MICROSECOND)
        if upstream_us:
            seconds = upstream_us * _MICROSECOND
            self._first_byte.observe(seconds)
            self._transfer.observe(seconds)
        self._bytes_out.value += bytes_out
