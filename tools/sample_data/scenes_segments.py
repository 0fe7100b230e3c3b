"""Plant lives of processes whose segments lack something, were altered, or hold lines that are no events.

They record calls of the catalog alone, which reach no store: what is lost with them leaves nothing unexplained there.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from signproxy.audit.event import SCHEMA, AuditEvent, Kind, Verdict
from signproxy.audit.segment import parse_name
from tools.sample_data.recorder import Seen
from tools.sample_data.stage import Stage
from tools.sample_data.trail import Life
from tools.sample_data.world import CATALOG, ISSUER

EACH = 12
"""Events of a segment."""
INSTANCE = "signproxy-edge"
_GZIP = 31
_MAGIC = b"\x1f\x8b\x08"


class Segments:
    """Writes such lives below a directory."""

    def __init__(self, stage: Stage, directory: Path, seen: Seen) -> None:
        self._stage = stage
        self._directory = directory
        self._work = directory / ".work-scenes"
        self._work.mkdir()
        self._seen = seen
        self._count = 0
        self.lost = 0
        self.written = 0
        self.bad_lines = 0
        self.segments = 0

    def play(self) -> None:
        """Write one life of each kind."""
        self._hole_inside()
        self._missing_segment(1, "a segment in the middle of a life is gone")
        self._missing_segment(0, "the first segment of a life is gone")
        self._killed()
        self._bad_lines()
        self._empty_line()
        self._spoiled("truncated", "cut in its middle", _cut)
        self._spoiled("altered", "a name in it was exchanged after it was sealed", _alter)
        self._spoiled("misnamed", "renamed", _rename)
        self._twice()
        shutil.rmtree(self._work)

    def _life(self, at: float) -> Life:
        self._count += 1
        return Life(self._directory, self._work, INSTANCE, self._stage.unknown_id(at))

    def _events(self, life: Life, at: float, *, lost: bool = False, hostile: bool = False) -> None:
        """Write a segment's worth of events."""
        for number in range(EACH):
            event = AuditEvent(
                event_id=self._stage.unknown_id(at + number),
                kind=Kind.CATALOG,
                principal=f"{ISSUER}/svc-crawler",
                issuer=ISSUER,
                remote_ip="10.78.0.2",
                user_agent='\u202e"}\n{"schema":"\x1b[2J\u2028 =cmd|x' if hostile else "PyIceberg/0.12.0",
                catalog=CATALOG,
                call="list_tables",
                method="GET",
                decision=Verdict.ALLOW,
                reason="allowed",
                policy_rev="c0ffee01",
                policy_epoch=1,
                http_status=200,
                total_us=800,
            )
            life.take(at + number, event)
            if not lost:
                self._seen.note(at + number, event)
        self.written += EACH
        self.lost += EACH * lost

    def _three(self, at: float, *, spoiled: int) -> tuple[Life, list[Path]]:
        """Write a life of three segments, one of which will not be taken."""
        life = self._life(at)
        for number in range(3):
            self._events(life, at + 60 * number, lost=number == spoiled)
            if number < 2:
                life.rotate()
        paths = sorted(life.end(), key=_first_of)
        self.segments += len(paths)
        return life, paths

    def _gap(self, what: str, life: Life, first: int, last: int, at: float) -> None:
        told: dict[str, Any] = {"boot_id": life.boot_id, "first_seq": first, "last_seq": last}
        self._stage.fault("audit_gap", what, times=(at, at), **told)

    def _hole_inside(self) -> None:
        at = self._stage.moment()
        life = self._life(at)
        self._events(life, at)
        first, last = life.skip(7)
        self._events(life, at + 60)
        self.segments += len(life.end())
        self._gap("events were dropped before they were written", life, first, last, at)

    def _missing_segment(self, which: int, what: str) -> None:
        at = self._stage.moment()
        life, paths = self._three(at, spoiled=which)
        paths[which].unlink()
        self.segments -= 1
        self._gap(what, life, EACH * which + 1, EACH * (which + 1), at)

    def _killed(self) -> None:
        at = self._stage.moment()
        life = self._life(at)
        self._events(life, at)
        sealed = life.end(crash=True)
        self.segments += len(sealed)
        what = "sealed for a process that was killed: whole, as far as it was written"
        self._stage.near("bad_segment", what, times=(at, at), segment=sealed[0].name, verdict="whole")
        after = self._life(at + 5)
        self._events(after, at + 5)
        self.segments += len(after.end())
        what = "a process was killed and the next one sealed what it left; its numbers begin anew"
        self._stage.near("audit_gap", what, times=(at, at), boot_id=life.boot_id, first_seq=1, last_seq=EACH)

    def _bad_lines(self) -> None:
        at = self._stage.moment()
        life = self._life(at)
        self._events(life, at)
        rest = (
            f'"boot_id":"{life.boot_id}","ts":"2026-10-05T04:03:02.000001Z","kind":"catalog",'
            '"decision":"allow","reason":"allowed","policy_rev":"x","http_status":200}'
        )
        bad = {
            "no_json": f'{{"schema":"{SCHEMA}","event_id":"0',
            "wrong_type": f'{{"schema":"{SCHEMA}","event_id":"{life.boot_id}","seq":"one",{rest}',
            "unknown_schema": f'{{"schema":"signproxy.audit/2","event_id":"{life.boot_id}","seq":{EACH},{rest}',
            "no_event_id": f'{{"schema":"{SCHEMA}","seq":{EACH},{rest}',
        }
        for line in bad.values():
            life.put(f"{line}\n".encode())
        self._events(life, at + 60, hostile=True)
        paths = life.end()
        self.segments += len(paths)
        what = "line ends, quotes and acting characters in its texts, all of them escaped"
        self._stage.near("bad_line", what, times=(at, at), segment=paths[0].name, reason="")
        self.bad_lines += len(bad)
        for reason in bad:
            what = "a line between the events that is none of them"
            self._stage.fault("bad_line", what, times=(at, at), segment=paths[0].name, reason=reason)

    def _empty_line(self) -> None:
        at = self._stage.moment()
        life = self._life(at)
        self._events(life, at)
        life.put(b"\n")
        self._events(life, at + 60)
        paths = life.end()
        self.segments += len(paths)
        self.bad_lines += 1
        what = "a line that is empty, which readers pass over without a word"
        self._stage.fault("bad_line", what, times=(at, at), segment=paths[0].name, reason="empty")

    def _spoiled(self, verdict: str, what: str, spoil: Callable[[Path], Path]) -> None:
        at = self._stage.moment()
        life, paths = self._three(at, spoiled=1)
        path = spoil(paths[1])
        self._stage.fault("bad_segment", what, times=(at, at), segment=path.name, verdict=verdict)
        self._gap(f"its segment was {what}", life, EACH + 1, 2 * EACH, at)

    def _twice(self) -> None:
        at = self._stage.moment()
        life, paths = self._three(at, spoiled=-1)
        # A day late, and shipped to where its day of arrival is.
        other = paths[1].parent.with_name("dt=2026-12-24") / paths[1].name
        other.parent.mkdir(exist_ok=True)
        shutil.copy(paths[1], other)
        self.segments += 1
        what = "the same segment arrived twice"
        self._stage.fault("bad_segment", what, times=(at, at), segment=other.name, verdict="duplicate")
        self._stage.near("audit_gap", what, times=(at, at), boot_id=life.boot_id, first_seq=1, last_seq=3 * EACH)


def _first_of(path: Path) -> int:
    name = parse_name(path.name)
    assert name is not None  # noqa: S101 - the writer names its files
    return name.first_seq


def _cut(path: Path) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def _alter(path: Path) -> Path:
    """Exchange a name in the lines, and leave the last line as it was."""
    content = path.read_bytes()
    end = content.rindex(_MAGIC)
    lines = b""
    rest = content[:end]
    while rest:
        unpacker = zlib.decompressobj(_GZIP)
        lines += unpacker.decompress(rest)
        rest = unpacker.unused_data
    altered = lines.replace(b"svc-crawler", b"svc-innocent", 1)
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    path.write_bytes(packer.compress(altered) + packer.flush() + content[end:])
    return path


def _rename(path: Path) -> Path:
    name = parse_name(path.name)
    assert name is not None  # noqa: S101 - the writer names its files
    return path.rename(path.with_name(path.name.replace(f"-{name.first_seq:012d}", f"-{name.first_seq + 5000:012d}")))
