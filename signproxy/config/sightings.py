"""Declare where it is kept which table of an upstream was first seen at which place."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta


class OnSightingsFault(Enum):
    """What a start does with a file that cannot be read."""

    REFUSE = "refuse"
    ANEW = "anew"


class SightingsSettings(msgspec.Struct, frozen=True):
    """What is known of the places of an upstream's tables, for longer than a process lives."""

    file: Annotated[
        str,
        Meta(
            description="Where it is kept, sealed with the first of `context.secret_files`; nowhere if it is empty. "
            "All workers share it. Its directory must be writable, and to signproxy alone.",
            extra={"path": True},
        ),
    ] = ""
    on_fault: Annotated[
        OnSightingsFault,
        Meta(
            description="What a start does with a file that is damaged, foreign, or sealed with another secret: "
            "`refuse` to start, or put it aside as `<file>.unreadable` and begin `anew`."
        ),
    ] = OnSightingsFault.REFUSE
    max_mib: Annotated[int, Meta(ge=1, le=4_096, description="The largest that the file becomes.")] = 256
    max_tables: Annotated[
        int,
        Meta(
            ge=1_000,
            le=5_000_000,
            description="Tables whose places are remembered, of all catalogs, in each worker; some 1 KiB each. An "
            "inventory with more is not complete.",
        ),
    ] = 100_000
