"""Say how long a run measures: long enough to be recorded, or just long enough to see that everything works."""

from __future__ import annotations

import msgspec


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long each figure is measured."""

    rounds: int
    seconds: int
    starts: int
    warm_up_requests: int
    inventory: int
    """Tables, and as many grants, of the large inventory."""


FULL = Effort(rounds=5, seconds=3, starts=25, warm_up_requests=100_000, inventory=1_000_000)
"""Five rounds of three seconds give a spread below 5 % on a quiet machine of two cores."""

SMOKE = Effort(rounds=1, seconds=1, starts=2, warm_up_requests=2_000, inventory=20_000)
"""Shows that everything runs; its figures say nothing and are never recorded."""
