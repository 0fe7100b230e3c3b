"""Take what is there of an input, batch by batch, each exactly once however often it is begun anew."""

from __future__ import annotations

import hashlib
from typing import Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

FOREVER = "36500d"
"""Spark passes over files that are a week older than the newest it saw; what is late may be as late as it likes."""

_LOOK_SECONDS = 2


class BatchSink(Protocol):
    """What batches are given to."""

    problem: Exception | None
    """Why a batch was not taken: Spark wraps it in words of its own."""

    def take(self, files: DataFrame, batch_id: int) -> None:
        """Take a batch; the same number may come again after a crash."""
        ...


def take_what_is_there(stream: DataFrame, intake: BatchSink, checkpoint: str) -> None:
    """Give every batch that is there to the intake, and end."""
    query = (
        stream.writeStream.foreachBatch(intake.take)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        while not query.awaitTermination(_LOOK_SECONDS):
            # Spark asks in turn; an interrupt is heard between two waits.
            pass
    except StreamingQueryException:
        if intake.problem is None:
            raise
        raise intake.problem from None
    finally:
        query.stop()


def label_of(path: str) -> str:
    """Return a name for an input, so that each has a list of its own of what was read."""
    readable = "".join(character if character.isalnum() else "-" for character in path).strip("-")[-60:]
    return f"{readable}-{hashlib.sha256(path.rstrip('/').encode()).hexdigest()[:8]}"
