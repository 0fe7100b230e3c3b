"""Hold what a principal does in a short time against what it did in the two weeks before.

The measure of a day is its worst hour or minute, so that a job that fails every night at the same time is as usual as
one that never fails. What is usual is the median of the days before, quiet ones included, and how far they lie from it
(MAD): neither moves for a single bad day.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.schemas import DAY

DAYS = 14
LEAST_DAYS = 7
"""Days of trail before a day; with fewer, nothing is called unusual."""
DEVIATIONS = 6.0
"""How far from usual: one that is drawn from a normal distribution comes once in a billion."""

_OF_NORMAL = 1.4826
"""By which a MAD becomes a standard deviation, where that is what there is."""
_LEAST_SHARE = 0.1
"""Of a job that fails alike each night, a tenth more is no deviation."""


def unusual(counted: DataFrame, least: int, first_day: Column, measure: str = "n") -> DataFrame:
    """Return the rows (principal, event_date, a measure …) that are far beyond the principal's days before.

    `least` is what a measure must have to be looked at, `first_day` that of the trail. Adds `median` and `mad`.
    """
    worst = counted.groupBy("principal", DAY).agg(F.max(measure).cast("double").alias("worst"))
    suspects = counted.where(F.col(measure) >= least)
    days = suspects.select("principal", DAY).distinct()
    past = worst.select("principal", F.col(DAY).alias("_day"), "worst")
    known = F.least(F.lit(DAYS), F.date_diff(F.col(DAY), first_day))
    is_before = (F.col("_day") < F.col(DAY)) & (F.col("_day") >= F.date_sub(F.col(DAY), DAYS))
    usual = (
        days.join(past, "principal", "left")
        .groupBy("principal", DAY)
        .agg(F.collect_list(F.when(is_before, F.col("worst"))).alias("found"))
        .withColumn("known", known)
        .where(F.col("known") >= LEAST_DAYS)
        # Days on which nothing happened are days, too.
        .withColumn("found", F.concat("found", F.array_repeat(F.lit(0.0), F.col("known") - F.size("found"))))
        .withColumn("median", _median(F.col("found")))
        .withColumn("mad", _median(F.transform("found", lambda each: F.abs(each - F.col("median")))))
        .select("principal", DAY, "median", "mad")
    )
    scale = F.greatest(F.col("mad") * _OF_NORMAL, F.col("median") * _LEAST_SHARE, F.lit(1.0))
    return suspects.join(usual, ["principal", DAY]).where(F.col(measure) > F.col("median") + scale * DEVIATIONS)


def _median(values: Column) -> Column:
    """Return the median of an array that is not empty."""
    ordered = F.array_sort(values)
    size = F.size(values)
    upper = F.element_at(ordered, F.floor(size / 2).cast("int") + 1)
    lower = F.element_at(ordered, F.floor((size + 1) / 2).cast("int"))
    return (lower + upper) / 2
