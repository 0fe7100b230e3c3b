"""Generate the month: ordinary traffic of every instance, and the scenes beside it."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, date, datetime, time
from pathlib import Path

import msgspec

from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.errors import Finding, Invalid
from tools.sample_data import scenes_habits, scenes_requests, scenes_rights
from tools.sample_data.ids import EventIds, drawn
from tools.sample_data.judge import grants_of, principals_of, write_first_seen
from tools.sample_data.logs import StoreLogs
from tools.sample_data.policy import write_policy, write_prices
from tools.sample_data.recorder import Seen
from tools.sample_data.scenes_lines import Lines
from tools.sample_data.scenes_segments import Segments
from tools.sample_data.stage import Stage
from tools.sample_data.traffic import Traffic
from tools.sample_data.trail import Instance
from tools.sample_data.truth import Summary, write_lines
from tools.sample_data.world import BUCKETS, KNOWN_SERVICES, VENDING_ROLE, World, draw_world

LEAST_EVENTS = 5_000
"""The scenes alone are some three thousand."""
_IN_SCENES = 80
"""Principals of the scenes, of those that there are."""
_RELOAD_EVERY = 2 * 86_400
_MANY_EVENTS = 1_000_000
"""From here on each scene is played more than once."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """What is generated."""

    seed: int
    events: int = 100_000
    tables: int = 10_000
    principals: int = 200
    first_day: str = "2026-10-01"
    days: int = 30
    instances: int = 4
    processes: int = 1

    @property
    def first(self) -> int:
        """Unix time of the first midnight."""
        return int(datetime.combine(date.fromisoformat(self.first_day), time(), UTC).timestamp())


class _Plan(msgspec.Struct, frozen=True):
    """What a process needs to generate the traffic of an instance: the same whichever process it is."""

    directory: Path
    size: Size
    events: int
    """Of all instances."""
    epochs: tuple[float, ...]
    """When each policy came into force; the first one before the month."""

    def world(self) -> World:
        size = self.size
        people = max(20, size.principals - _IN_SCENES)
        return draw_world(size.seed, tables=size.tables, principals=people, first=size.first, days=size.days)

    def share(self, number: int) -> int:
        """Return how many events are an instance's."""
        each, more = divmod(self.events, self.size.instances)
        return each + (number < more)


class _Part(msgspec.Struct):
    """What an instance left."""

    seen: Seen
    requests: dict[str, int]
    classes: dict[str, int]
    segments: int


def generate(directory: Path, size: Size, advance: Callable[[int], None] = lambda _count: None) -> Summary:
    """Write everything below a directory that does not exist yet; `advance` is told of events as they are written."""
    if size.events < LEAST_EVENTS:
        raise Invalid([Finding("", "--events", f"is at least {LEAST_EVENTS}: the planted faults alone are thousands")])
    if directory.exists():
        raise Invalid([Finding(str(directory), "", "exists already: remove it, or name another directory")])
    (directory / "truth").mkdir(parents=True)
    try:
        return _generate(directory, size, advance)
    finally:
        for work in directory.glob(".work-*"):
            shutil.rmtree(work)


def _generate(directory: Path, size: Size, advance: Callable[[int], None]) -> Summary:
    plan = _Plan(directory, size, 0, ())
    world = plan.world()
    stage = Stage(world, str(size.seed), size.instances)
    logs = StoreLogs(directory, size.instances)
    seen = Seen()
    segments = Segments(stage, directory, seen)
    lines = Lines(stage, logs)
    for _ in range(1 if size.events < _MANY_EVENTS else 3):
        scenes_requests.play(stage, BUCKETS)
        scenes_rights.play(stage)
        scenes_habits.play(stage, max(scenes_habits.BURST, size.events // 50_000))
    lines.play()
    segments.play()
    stage.settle()
    epochs = _epochs(stage)
    reloads = (size.instances + 1) * (len(epochs) - 1)
    ordinary = size.events - segments.written - len(stage.events) - reloads
    plan = msgspec.structs.replace(plan, events=ordinary, epochs=epochs)

    part = _scenes(plan, stage, lines, logs, seen)
    advance(len(stage.events) + segments.written)
    for other in _instances(plan):
        advance(plan.events // size.instances)
        part.seen.merge(other.seen)
        part.segments += other.segments
        for mine, theirs in ((part.requests, other.requests), (part.classes, other.classes)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count

    grants = (*world.grants, *stage.grants)
    write_policy(directory, world, grants, stage.revoked, (*world.principals, *stage.people))
    write_prices(directory)
    truth = directory / "truth"
    write_lines(truth / "faults.ndjson", stage.faults)
    write_lines(truth / "revocations.ndjson", stage.revocations)
    write_lines(truth / "quality.ndjson", lines.traps)
    write_lines(truth / "grants.ndjson", grants_of(world, grants, part.seen))
    write_lines(truth / "principals.ndjson", principals_of(world, grants, part.seen))
    write_first_seen(truth / "first_seen.ndjson", part.seen)
    summary = Summary(
        seed=size.seed,
        events=size.events - segments.lost,
        written=size.events,
        bad_lines=segments.bad_lines,
        first_day=size.first_day,
        days=size.days,
        tables=len(world.tables),
        principals=len(world.principals) + len(stage.people),
        instances=size.instances + 2,
        segments=part.segments + segments.segments,
        kinds=dict(sorted(part.seen.kinds.items())),
        requests=dict(sorted(part.requests.items())),
        classes=dict(sorted(part.classes.items())),
        proxy={bucket.name: bucket.requester for bucket in BUCKETS},
        vending_role=VENDING_ROLE,
        known_services=KNOWN_SERVICES,
        stamped_buckets=tuple(bucket.name for bucket in BUCKETS if bucket.stamped),
    )
    (truth / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary)))
    return summary


def _epochs(stage: Stage) -> tuple[float, ...]:
    """Return when each policy came into force: every other day, and whenever a right was withdrawn or given back."""
    world = stage.world
    changed = {each.at for each in stage.revoked} | set(stage.given_back)
    regular = range(world.first + _RELOAD_EVERY, world.end, _RELOAD_EVERY)
    moments = {float(at) for at in regular} | {float(at + scenes_rights.RELOAD_SECONDS) for at in changed}
    return (0.0, *sorted(moments))


def _scenes(plan: _Plan, stage: Stage, lines: Lines, logs: StoreLogs, seen: Seen) -> _Part:
    """Write what the scenes are made of."""
    size = plan.size
    instance = Instance(plan.directory, f"signproxy-{size.instances}", str(size.seed), size.first, size.days)
    reloads = _Reloads(plan, size.instances)
    for at, _, event in sorted(stage.events, key=lambda one: one[:2]):
        for moment, reload in reloads.before(at):
            instance.take(moment, reload)
            seen.note(moment, reload)
        reloads.judge(event)
        instance.take(at, event)
        seen.note(at, event)
    for moment, reload in reloads.before(float("inf")):
        instance.take(moment, reload)
        seen.note(moment, reload)
    instance.close()
    for row in sorted(stage.rows, key=lambda one: (one.at, one.request_id)):
        logs.add(row)
        if row.bucket.source == "aws":
            lines.several(row)
    logs.close()
    return _Part(seen, logs.counts, logs.requests.classes, instance.segments)


def _instances(plan: _Plan) -> Iterator[_Part]:
    """Generate the traffic of each instance, several at a time if that is asked for."""
    numbers = range(plan.size.instances)
    if plan.size.processes <= 1:
        for number in numbers:
            yield _instance(plan, number)
        return
    # Not forked: the caller may have threads, and Spark has.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(plan.size.processes, len(numbers)), context) as pool:
        yield from pool.map(_instance, [plan] * len(numbers), numbers)


def _instance(plan: _Plan, number: int) -> _Part:
    size = plan.size
    world = plan.world()
    people = world.principals[number :: size.instances]
    instance = Instance(plan.directory, f"signproxy-{number}", str(size.seed), size.first, size.days)
    logs = StoreLogs(plan.directory, number)
    seen = Seen()
    reloads = _Reloads(plan, number)
    take, note, add = instance.take, seen.note, logs.add
    for at, _, event, rows in Traffic(world, str(size.seed), number, people, plan.share(number)).items():
        if at >= reloads.next:
            for moment, reload in reloads.before(at):
                take(moment, reload)
                note(moment, reload)
        reloads.judge(event)
        take(at, event)
        note(at, event)
        for row in rows:
            add(row)
    for moment, reload in reloads.before(float("inf")):
        take(moment, reload)
        note(moment, reload)
    instance.close()
    logs.close()
    return _Part(seen, logs.counts, logs.requests.classes, instance.segments)


class _Reloads:
    """The policy in force at an instance, and the events that say when it changed."""

    def __init__(self, plan: _Plan, number: int) -> None:
        self._moments: Sequence[float] = plan.epochs
        self._ids = EventIds(drawn(plan.size.seed, "reloads", number))
        self._epoch = 1
        self._rev = _rev(1)

    @property
    def next(self) -> float:
        """When the next policy comes into force."""
        return self._moments[self._epoch] if self._epoch < len(self._moments) else float("inf")

    def before(self, at: float) -> Iterator[tuple[float, AuditEvent]]:
        """Yield the reloads up to a time, each when its policy begins to count."""
        while self.next <= at and self.next != float("inf"):
            moment = self.next
            self._epoch += 1
            self._rev = _rev(self._epoch)
            event = AuditEvent(
                event_id=self._ids.at(moment),
                kind=Kind.RELOAD,
                decision=Verdict.ALLOW,
                reason="allowed",
                policy_rev=self._rev,
                policy_epoch=self._epoch,
                http_status=0,
            )
            yield moment, event

    def judge(self, event: AuditEvent) -> None:
        """Let an event say by which policy it was judged, unless it was by another."""
        if not event.policy_epoch:
            event.policy_epoch = self._epoch
            event.policy_rev = self._rev


def _rev(epoch: int) -> str:
    return f"{epoch * 0x9E3779B1 & 0xFFFFFFFF:08x}"
