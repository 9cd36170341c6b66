"""Join overlapping intervals, and find the first event after another, in time proportional to the number of events.

A plain range join compares every event with every interval of its key. Its time is proportional to the number of events
times the number of failovers.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import RUN


def overlapping(intervals: DataFrame, other: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return each pair of intervals, one from each side, that have the same key and overlap in virtual time.

    An interval of length 0 overlaps with intervals that contain it. Both sides are assigned to time slots, whose width
    is the average distance between the starts of `intervals`. Each pair is found in the slot in which the later one
    starts. This is fast only if few intervals of a key overlap with each other on the same side.

    Args:
        intervals: *key, from_us, until_us and other columns; it is broadcast.
        other: *key, other_from_us, other_until_us and other columns.
        key: key columns; the first is the run.

    Returns:
        *key and the other columns of both.
    """
    average = F.expr(f"(max(from_us) - min(from_us)) * count(DISTINCT struct({', '.join(key)})) div count(*)")
    scale = F.broadcast(
        intervals.groupBy(RUN)
        .agg(F.min("from_us").alias("_first"), F.max("from_us").alias("_last"), average.alias("_width"))
        .withColumn("_width", F.greatest(F.lit(1), "_width"))
    )
    helpers = ("_first", "_last", "_width", "_slot")

    def slot(at_us: str) -> Column:
        # All times before the first start of `intervals` are in the first slot, all after the last in the last slot.
        return F.expr(f"greatest(_first, least({at_us}, _last)) div _width")

    def slotted(side: DataFrame, from_us: str, until_us: str) -> DataFrame:
        slots = F.sequence(slot(from_us), slot(until_us))
        return side.join(scale, RUN).withColumn("_slot", F.explode(slots))

    shares_time = (F.col("from_us") < F.col("other_until_us")) & (F.col("other_from_us") < F.col("until_us"))
    found_here = F.col("_slot") == slot("greatest(from_us, other_from_us)")
    broadcast = F.broadcast(slotted(intervals, "from_us", "until_us").drop(*helpers[:3]))
    return (
        slotted(other, "other_from_us", "other_until_us")
        .join(broadcast, [*key, "_slot"])
        .filter(shares_time & found_here)
        .drop(*helpers)
    )


def first_after(rows: DataFrame, facts: DataFrame, key: Sequence[str], after: str, found: str) -> DataFrame:
    """Add to each row the first later event of its key, using a union and a window instead of a join.

    Args:
        rows: *key, the column named by `after` (a seq), and other columns.
        facts: events with *key, seq and other columns.
        after: name of the column of `rows` after which the event must come.
        found: name of the new column.

    Returns:
        The columns of `rows` and the new column: a struct of the event's columns without the key, null if there is no
        later event.
    """
    row, fact = F.struct(*rows.columns), F.struct(*[name for name in facts.columns if name not in key])
    asked = rows.select(*key, F.col(after).alias("_seq"), row.alias("_row"))
    came = facts.select(*key, F.col("seq").alias("_seq"), fact.alias("_fact"))
    # At equal seq the row comes first, since an event is not later than itself.
    falling = Window.partitionBy(*key).orderBy(F.col("_seq").desc(), F.col("_row").isNull())
    so_far = falling.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        asked.unionByName(came, allowMissingColumns=True)
        .withColumn("_fact", F.last("_fact", ignorenulls=True).over(so_far))
        .filter(F.col("_row").isNotNull())
        .select("_row.*", F.col("_fact").alias(found))
    )


def joined_up(stretches: DataFrame, key: Sequence[str]) -> DataFrame:
    """Merge intervals of the same key that touch or overlap. The columns are *key, from_us and until_us."""
    in_order = Window.partitionBy(*key).orderBy("from_us", "until_us")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    begins = F.col("from_us") > F.max("until_us").over(before)
    return (
        stretches.withColumn("_begins", F.coalesce(begins.cast("int"), F.lit(1)))
        .withColumn("_stretch", F.sum("_begins").over(in_order))
        .groupBy(*key, "_stretch")
        .agg(F.min("from_us").alias("from_us"), F.max("until_us").alias("until_us"))
        .drop("_stretch")
    )
