"""Overlaps, and the first event after another: the work grows with the events.

A join on ranges alone compares every event with every interval of its key: the work grows as events times failovers.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import RUN


def overlapping(one: DataFrame, other: DataFrame, key: Sequence[str]) -> DataFrame:
    """Each interval of `one` with each of `other` that has its key and shares time with it, by virtual time.

    An interval without length overlaps what it lies inside of. Both meet in slots of the run's time, each as wide as
    the beginnings of `one` are apart on average; a pair is found in the slot in which the later of the two begins.
    in:  one (it is broadcast) with *key, from_us, until_us; other with *key, other_from_us, other_until_us; few
         intervals of one key overlap others of their side; the key begins with the run
    out: *key, the other columns of both
    """
    average = F.expr(f"(max(from_us) - min(from_us)) * count(DISTINCT struct({', '.join(key)})) div count(*)")
    scale = F.broadcast(
        one.groupBy(RUN)
        .agg(F.min("from_us").alias("_first"), F.max("from_us").alias("_last"), average.alias("_width"))
        .withColumn("_width", F.greatest(F.lit(1), "_width"))
    )
    helpers = ("_first", "_last", "_width", "_slot")

    def slot(at_us: str) -> Column:
        # All before the first of `one` begins is part of the first slot, and all after the last one of the last.
        return F.expr(f"greatest(_first, least({at_us}, _last)) div _width")

    def slotted(intervals: DataFrame, from_us: str, until_us: str) -> DataFrame:
        slots = F.sequence(slot(from_us), slot(until_us))
        return intervals.join(scale, RUN).withColumn("_slot", F.explode(slots))

    shares_time = (F.col("from_us") < F.col("other_until_us")) & (F.col("other_from_us") < F.col("until_us"))
    found_here = F.col("_slot") == slot("greatest(from_us, other_from_us)")
    ones = F.broadcast(slotted(one, "from_us", "until_us").drop(*helpers[:3]))
    return (
        slotted(other, "other_from_us", "other_until_us")
        .join(ones, [*key, "_slot"])
        .filter(shares_time & found_here)
        .drop(*helpers)
    )


def first_after(rows: DataFrame, facts: DataFrame, key: Sequence[str], after: str, found: str) -> DataFrame:
    """Rows, each with the first event of its key that came after it: union and window, in falling order.

    in:    rows with *key and the column `after` (a seq); events with *key and seq
    out:   the columns of rows, and `found`: a struct of the event's columns without the key, null if there is none
    """
    row, fact = F.struct(*rows.columns), F.struct(*[name for name in facts.columns if name not in key])
    asked = rows.select(*key, F.col(after).alias("_seq"), row.alias("_row"))
    came = facts.select(*key, F.col("seq").alias("_seq"), fact.alias("_fact"))
    # At one seq the row comes first: the event itself is not after it.
    falling = Window.partitionBy(*key).orderBy(F.col("_seq").desc(), F.col("_row").isNull())
    so_far = falling.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        asked.unionByName(came, allowMissingColumns=True)
        .withColumn("_fact", F.last("_fact", ignorenulls=True).over(so_far))
        .filter(F.col("_row").isNotNull())
        .select("_row.*", F.col("_fact").alias(found))
    )


def joined_up(stretches: DataFrame, key: Sequence[str], begin: str = "from_us", end: str = "until_us") -> DataFrame:
    """Stretches of one key that touch or overlap are one. in, out: *key, and the columns `begin` and `end`"""
    in_order = Window.partitionBy(*key).orderBy(begin, end)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    begins = F.col(begin) > F.max(end).over(before)
    return (
        stretches.withColumn("_begins", F.coalesce(begins.cast("int"), F.lit(1)))
        .withColumn("_stretch", F.sum("_begins").over(in_order))
        .groupBy(*key, "_stretch")
        .agg(F.min(begin).alias(begin), F.max(end).alias(end))
        .drop("_stretch")
    )
