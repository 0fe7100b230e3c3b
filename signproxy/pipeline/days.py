"""Say which days a job looks at."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple


class Days(NamedTuple):
    """The days that a job looks at, both included; None where it does not end."""

    first: date | None = None
    last: date | None = None


ALL_DAYS = Days()
