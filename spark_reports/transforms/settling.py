"""Tables that others follow from, without how they came about: else each of those plans all of it again."""

from __future__ import annotations

from pyspark.sql import DataFrame


def settled(table: DataFrame) -> DataFrame:
    """The same rows, computed on their first use. A cache would keep their plan as part of every other."""
    return table.localCheckpoint(eager=False)
