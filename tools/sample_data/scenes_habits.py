"""Plant what stands out from weeks of habit, and what is as unusual and yet a principal's habit."""

from __future__ import annotations

from tools.sample_data.clock import UTC
from tools.sample_data.stage import DAY, Stage, on_namespace, on_table
from tools.sample_data.world import AWS, Principal, Table

LEAST_DAYS = 18
"""A habit is what was seen in two weeks."""

BURST = 90
TABLES = 120


def play(stage: Stage, burst: int = BURST) -> None:
    """Play all scenes once, where the month is long enough for habits."""
    if stage.world.days < LEAST_DAYS:
        return
    bursts(stage, burst)
    enumeration(stage)
    first_seen(stage)


def bursts(stage: Stage, burst: int) -> None:
    """Refusals of a minute, against those of all other days."""
    person, table = stage.person("svc-invoice"), stage.table(AWS)
    stage.grant(person, on_namespace(table))
    _routine(stage, person, table, denials=1)
    at = _minute(stage)
    events = [stage.denied(person, table, at + 50 * number / burst) for number in range(burst)]
    what = "dozens of refusals within a minute, of a principal that has one a day"
    minute = UTC.text(at // 60 * 60)
    stage.fault("denial_burst", what, person=person, events=events, times=(at, at + 50), minute=minute, n=burst)

    person, table = stage.person("svc-broken"), stage.table(AWS)
    stage.grant(person, on_namespace(table))
    daily = []
    for day in range(stage.world.days):
        begin = stage.world.first + day * DAY + 2 * 3600 + 1800.5
        daily = [stage.denied(person, table, begin + number) for number in range(burst // 4)]
    what = "a job without a right, which fails every night in the same minute"
    stage.near("denial_burst", what, person=person, events=daily)

    person, table = stage.person("svc-slow"), stage.table(AWS)
    stage.grant(person, on_namespace(table))
    _routine(stage, person, table, denials=1)
    at = _minute(stage)
    events = [stage.denied(person, table, at + 120 * number) for number in range(burst)]
    what = "as many refusals, over three hours"
    stage.near("denial_burst", what, person=person, events=events, times=(at, at + 120 * burst))


def enumeration(stage: Stage) -> None:
    """Many tables in an hour, which one principal tries, and another tends."""
    person, table = stage.person("svc-intern"), stage.table(AWS)
    stage.grant(person, on_namespace(table))
    _routine(stage, person, table, denials=0)
    hour = int(_minute(stage) // 3600) * 3600
    tables = stage.random.sample(stage.world.tables, min(TABLES, len(stage.world.tables)))
    events = [stage.denied(person, one, hour + 60 + 27 * number) for number, one in enumerate(tables)]
    stage.fault(
        "enumeration",
        "tried tables all over the catalog within an hour, and was refused each",
        person=person,
        events=events,
        times=(hour + 60, hour + 3300),
        also=("denial_burst",),
        hour=UTC.text(hour),
        tables=len(tables),
        refused=len(tables),
    )

    person = stage.person("svc-compaction")
    own = [
        stage.world.tables[number]
        for number in stage.world.tables_of(stage.random.randrange(len(stage.world.namespaces)))
    ]
    own = own[:40]
    stage.grant(person, on_namespace(own[0]))
    for day in range(0, stage.world.days, 3):
        begin = stage.world.first + day * DAY + 4 * 3600 + 0.25
        for number, one in enumerate(own):
            event = stage.event(person, one, begin + 60 * number)
            stage.row(person, one, begin + 60 * number + 1, event)
    stage.near("enumeration", "tends every table of its team, as it is allowed to, night after night", person=person)


def first_seen(stage: Stage) -> None:
    """A table that a principal never touched before."""
    person, usual, new, seldom = stage.person("svc-forecast"), stage.table(AWS), stage.table(AWS), stage.table(AWS)
    stage.grant(person, on_table(usual), on_table(new), on_table(seldom))
    _routine(stage, person, usual, denials=0)
    early = stage.world.first + 2 * DAY + 40_000.5
    stage.row(person, seldom, early + 1, stage.event(person, seldom, early))
    at = _minute(stage)
    for table, class_told in ((new, True), (seldom, False)):
        event = stage.event(person, table, at)
        row = stage.row(person, table, at + 1, event)
        what = "touched for the first time after weeks" if class_told else "touched again after weeks"
        stage.fault(
            "first_seen",
            what,
            person=person,
            table=table,
            events=[event],
            rows=[row],
            planted=class_told,
            access="read",
        )


def _minute(stage: Stage) -> float:
    """Return the beginning of a minute late in the month, after the day's routine."""
    day = stage.random.randrange(stage.world.days * 2 // 3, stage.world.days - 1)
    return stage.world.first + day * DAY + stage.random.randrange(12 * 60, 17 * 60) * 60 + 0.5


def _routine(stage: Stage, person: Principal, table: Table, *, denials: int) -> None:
    """Two reads a day, and as many refusals as are usual."""
    for day in range(stage.world.days):
        begin = stage.world.first + day * DAY + 8 * 3600
        for number in range(2):
            at = begin + 3600 * number + stage.random.randrange(3000) + 0.5
            stage.row(person, table, at + 1, stage.event(person, table, at))
        for _ in range(denials):
            stage.denied(person, table, begin + stage.random.randrange(3 * 3600) + 0.75)
