"""Hold what a report says as plain values, so that a page is made of them without Spark and without a warehouse.

Text stands here as it was found: names, keys and addresses are a stranger's. What shows it neutralises it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime

import msgspec

LATENCY_BOUNDS = (1.0, 5.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds; 30 are a client's cache of signatures, 900 the longest life of one."""
SIZE_BOUNDS = tuple(float(1 << power) for power in (10, 12, 14, 16, 18, 20, 22, 24, 26, 28))
"""Bytes: from 1 KiB to 256 MiB, each four times the one before."""
SMALL = 1 << 20
"""An object below this many bytes costs more to ask for than to read."""

EXACT = ("stamp", "request_id", "session")
CLASSES = (*EXACT, "probable", "known_service", "unattributed")
"""The classes of the stores' requests, from the surest to none."""


class ClassCount(msgspec.Struct, frozen=True):
    """Requests of one class."""

    name: str
    n: int
    bytes: int = 0


class ReportedFinding(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """A row of `findings`."""

    finding_id: str
    class_: str
    severity: str
    first: datetime | None = None
    last: datetime | None = None
    n: int = 1
    principal: str = ""
    table: str = ""
    bucket: str = ""
    evidence: Mapping[str, str] = {}
    fix: str = ""
    job: str = ""


class FindingGroup(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """The findings of one class and severity, the weightiest of them one by one."""

    class_: str
    severity: str
    count: int
    n: int
    """Requests, events or grants that they are about."""
    findings: tuple[ReportedFinding, ...]


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one process's life that are missing."""

    instance: str
    boot_id: str
    missing: str
    """Their sequence numbers, as the finding says them."""
    n: int


class TrailSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The audit trail's own state, from the ledger of segments."""

    segments: int = 0
    events: int = 0
    quarantined: int = 0
    verdicts: Mapping[str, int] = {}
    """Segments by what became of them."""
    gaps: int = 0
    missing: int = 0
    """Events."""
    faults: int = 0
    """Segments that were cut, altered or contradict others."""
    worst: tuple[Gap, ...] = ()


class TimelineSlot(msgspec.Struct, frozen=True):
    """A stretch of time, and how the requests in it ended."""

    at: datetime
    allow: int = 0
    deny: int = 0
    error: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.allow + self.deny + self.error


class Timeline(msgspec.Struct, frozen=True):
    """Requests over time."""

    unit: str = "day"
    """hour, day or week."""
    slots: tuple[TimelineSlot, ...] = ()


class Cell(msgspec.Struct, frozen=True):
    """What one principal asked of one table; both by their place in the lists."""

    row: int
    column: int
    allow: int
    deny: int


class HeatMap(msgspec.Struct, frozen=True, kw_only=True):
    """The busiest principals and tables."""

    principals: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    cells: tuple[Cell, ...] = ()
    all_principals: int = 0
    all_tables: int = 0


class PrincipalReach(msgspec.Struct, frozen=True, kw_only=True):
    """How many tables a principal may reach, could at one time, and did."""

    principal: str
    mode: str = ""
    entitled: int = 0
    held: int = 0
    """By keys that were valid at one time; 0 where none were vended."""
    used: int = 0
    """In 90 days."""
    violations: int = 0
    """Tables that vended keys reached and no principal asked for."""


class GrantUse(msgspec.Struct, frozen=True, kw_only=True):
    """What was granted and what is used of it."""

    reaches: tuple[PrincipalReach, ...] = ()
    """Those who may reach the most."""
    principals: int = 0
    all_tables: int = 0
    median_entitled: float = 0.0
    median_used: float = 0.0
    states: Mapping[str, int] = {}
    """Grants by whether they are used."""
    withdrawable: int = 0


class QueryBreadth(msgspec.Struct, frozen=True):
    """How many queries touched exactly so many tables."""

    tables: int
    queries: int


class Unattributed(msgspec.Struct, frozen=True):
    """The stores' requests of a day, and those that nothing explains."""

    day: date
    total: int
    unattributed: int
    probable: int = 0


class UnexplainedRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests that nothing explains went."""

    bucket: str
    op: str
    status: int
    requester: str = ""
    """As the store's log has it."""
    n: int
    first: datetime | None = None
    last: datetime | None = None


class Distribution(msgspec.Struct, frozen=True):
    """Counts by size, for each of some series: one more than there are bounds, for what is above the last."""

    bounds: tuple[float, ...]
    series: Mapping[str, tuple[int, ...]] = {}

    def __post_init__(self) -> None:
        for counts in self.series.values():
            if len(counts) != len(self.bounds) + 1:
                raise ValueError(f"{len(counts)} counts for {len(self.bounds)} bounds")

    @property
    def total(self) -> int:
        """All that was counted."""
        return sum(sum(counts) for counts in self.series.values())


class Revoked(msgspec.Struct, frozen=True, kw_only=True):
    """A right that was withdrawn, and how long it went on to work."""

    principal: str
    resource: str
    kind: str
    revoked_at: datetime | None = None
    seconds: float
    n: int = 0


class Revocations(msgspec.Struct, frozen=True, kw_only=True):
    """How long withdrawn rights went on to work."""

    latencies: Distribution = Distribution(LATENCY_BOUNDS)
    at_once: int = 0
    """After which nothing succeeded."""
    worst: tuple[Revoked, ...] = ()


class TableCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a table cost."""

    table: str
    requests: int
    bytes: int
    cost: float = 0.0
    tax: float = 0.0
    """Of the cost, what larger files would have saved."""


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What the tables cost, dearest first."""

    tables: tuple[TableCost, ...] = ()
    all_tables: int = 0
    requests: int = 0
    bytes: int = 0
    cost: float = 0.0
    tax: float = 0.0
    sizes: Distribution = Distribution(SIZE_BOUNDS)
    """Bytes of each GET that was served."""


class InputProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an input lacked or contradicted."""

    source: str
    problem: str
    n: int
    example: str = ""
    days: int = 0


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A table that the report rests on."""

    table: str
    summary: str
    rows: int
    first_day: date | None = None
    last_day: date | None = None


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a job."""

    job: str
    began_at: datetime | None = None
    seconds: float
    exit: int
    rows_in: int = 0
    rows_bad: int = 0
    problem: str = ""


class ReportData(msgspec.Struct, frozen=True, kw_only=True):
    """All that a page says; what is empty was not there to be read."""

    title: str = "Access report"
    made_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    first_day: date | None = None
    last_day: date | None = None
    warehouse: str = ""
    classes: tuple[ClassCount, ...] = ()
    severities: Mapping[str, int] = {}
    """Findings by the word of their severity."""
    groups: tuple[FindingGroup, ...] = ()
    trail: TrailSummary = TrailSummary()
    timeline: Timeline = Timeline()
    heat: HeatMap = HeatMap()
    rights: GrantUse = GrantUse()
    breadth: tuple[QueryBreadth, ...] = ()
    unattributed: tuple[Unattributed, ...] = ()
    origins: tuple[UnexplainedRequests, ...] = ()
    revocations: Revocations = Revocations()
    costs: Costs = Costs()
    quality: tuple[InputProblem, ...] = ()
    sources: tuple[Source, ...] = ()
    runs: tuple[RunLine, ...] = ()

    @property
    def requests(self) -> int:
        """Requests in the stores' logs."""
        return sum(one.n for one in self.classes)

    def requests_of(self, names: Sequence[str]) -> int:
        """Requests of these classes."""
        return sum(one.n for one in self.classes if one.name in names)
