"""Read an audit trail of millions of events as it grows, and keep of it only what proves that it is whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from tests.e2e.soak.client import digest_of

_FAULTS_SHOWN = 20


class _Event(msgspec.Struct, frozen=True, gc=False):
    boot_id: str
    seq: int
    event_id: str
    kind: str
    decision: str
    count: int = 1


class Trail:
    """What was read so far."""

    def __init__(self) -> None:
        self.events = 0
        self.allowed = 0
        self.denied = 0
        self.digest = 0
        """The sum of the ids of what was allowed."""
        self.others: Counter[str] = Counter()
        """Events that are about no request, by kind."""
        self.faults: list[str] = []
        self._last: Counter[str] = Counter()
        self._decode = msgspec.json.Decoder(_Event).decode

    @property
    def boots(self) -> int:
        """How many processes wrote."""
        return len(self._last)

    def read(self, file: Path) -> None:
        """Take in a file that is no longer written to, and remove it."""
        # An id begins with its time, so that two of one kind would stand close together.
        ids: set[str] = set()
        with file.open("rb") as lines:
            for line in lines:
                self._take(self._decode(line), ids)
        file.unlink()

    def _take(self, event: _Event, ids: set[str]) -> None:
        last = self._last[event.boot_id]
        if event.seq != last + 1:
            self._fault(f"boot {event.boot_id}: {event.seq} follows {last}")
        if event.event_id in ids:
            self._fault(f"boot {event.boot_id}: id {event.event_id} comes twice")
        ids.add(event.event_id)
        self._last[event.boot_id] = event.seq
        self.events += 1
        if event.kind != "sign":
            self.others[event.kind] += 1
        elif event.decision == "allow":
            self.allowed += 1
            self.digest += digest_of(event.event_id.encode())
        else:
            self.denied += event.count

    def _fault(self, what: str) -> None:
        if len(self.faults) < _FAULTS_SHOWN:
            self.faults.append(what)
