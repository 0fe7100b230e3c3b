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


FULL = Effort(rounds=30, seconds=1, starts=30, warm_up_requests=100_000, inventory=1_000_000)
"""Many short rounds: on a machine that is shared, medians of five rounds of one build lay between 0.76 and 0.91 of the
floor. Five rounds cannot tell a goal of 0.85 from a must of 0.70, and repeating them lets one take the best."""

SMOKE = Effort(rounds=1, seconds=1, starts=2, warm_up_requests=2_000, inventory=20_000)
"""Shows that everything runs; its figures say nothing and are never recorded."""
