"""Compare how each step of a client ended at a store with how it ended through signproxy.

The comparison has no favourite: what the store refuses and signproxy lets through is a difference like its opposite.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tests.e2e.forward.session import Stored, contents
from tests.e2e.stores.direct import Owner

DONE = "done"
STORED = "stored"
ABSENT = "absent"

_SHOWN = 600


class Step(NamedTuple):
    """How one step ended, or what the store keeps of one object."""

    name: str
    outcome: str
    """`done`, or the refusal as the client has it: the code and the status."""
    detail: str = ""
    """What else has to be equal: the values that the client was given, or the bytes and headers of an object."""
    note: str = ""
    """What is shown with a difference, and is not compared: words that are the store's own."""

    def __str__(self) -> str:
        return " ".join(part[:_SHOWN] for part in (self.outcome, self.detail, self.note) if part)


@dataclass(frozen=True, slots=True)
class Allowed:
    """A step that ends otherwise through signproxy for a good reason, and how it ends both ways."""

    store: str
    step: str
    direct: str
    through: str
    reason: str

    def __post_init__(self) -> None:
        """Refuse an entry that would let every value pass, or that gives no reason."""
        if self.direct == self.through:
            raise ValueError(f"{self.step}: the entry allows no difference between outcomes")
        if not self.reason:
            raise ValueError(f"{self.step}: the entry gives no reason")


def differences(
    store: str, direct: Iterable[Step], through: Iterable[Step], allowed: Iterable[Allowed] = ()
) -> list[str]:
    """Return what differs, in either direction, and each entry that this run did not need."""
    left, right = _by_name(direct), _by_name(through)
    here = [entry for entry in allowed if entry.store == store]
    entries = {entry.step: entry for entry in here}
    found = [f"{name}: the entry names no step of this run" for name in entries if name not in left | right]
    found += [f"{entry.step}: there is another entry for it" for entry in here if entries[entry.step] is not entry]
    for name in left | right:
        one, other = left.get(name, Step(name, ABSENT)), right.get(name, Step(name, ABSENT))
        entry = entries.get(name)
        if (one.outcome, one.detail) == (other.outcome, other.detail):
            if entry is not None:
                found.append(f"{name}: the entry is not needed, both ways: {one}")
        elif entry is None or (entry.direct, entry.through) != (one.outcome, other.outcome):
            found.append(f"{name}\n  direct:  {one}\n  through: {other}")
    return found


def _by_name(steps: Iterable[Step]) -> dict[str, Step]:
    seen: Counter[str] = Counter()
    named = {}
    for step in steps:
        seen[step.name] += 1
        # A client may repeat a step; the second one is compared with the second one.
        name = step.name if seen[step.name] == 1 else f"{step.name} ({seen[step.name]})"
        named[name] = step
    return named


def stored(when: str, owner: Owner, bucket: str, plain: Callable[[str], str] = str) -> list[Step]:
    """Return what the store keeps in a bucket, as its owner finds it."""
    objects, uploads = contents(owner, bucket)
    return stored_steps(when, objects, uploads, plain)


def stored_steps(
    when: str,
    objects: Iterable[Stored],
    uploads: Iterable[tuple[str, int]] = (),
    plain: Callable[[str], str] = str,
) -> list[Step]:
    """Return the bytes and headers of each object, and how many parts each unfinished upload has, as steps.

    `plain` takes out of a header what is another value each time.
    """
    kept = [
        Step(
            f"{when}: {each.key}",
            STORED,
            f"{len(each.body)} bytes, SHA-256 {hashlib.sha256(each.body).hexdigest()}, "
            f"{ {name: plain(value) for name, value in each.headers} }",
        )
        for each in objects
    ]
    return kept + [Step(f"{when}: upload of {key}", STORED, f"{parts} parts") for key, parts in uploads]
