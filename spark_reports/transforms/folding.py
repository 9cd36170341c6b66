"""Events of several tables, in the order of the run, through a fold: one stage, spread by partition, sorted on disk.

Of a short trace the driver folds them itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_reports import folds
from spark_reports.folds.rows import Fold, fold_batches
from spark_reports.held import collected, columns_of, held, is_for_short_traces
from spark_reports.schema import PARTITION_KEY

# Workers, also of a cluster, get the folds themselves instead of a name that they would have to find.
cloudpickle.register_pickle_by_value(folds)  # type: ignore[no-untyped-call]


def folded(
    facts: Mapping[str, DataFrame], columns: Sequence[str], fold: Fold, schema: str, key: Sequence[str] = PARTITION_KEY
) -> DataFrame:
    """The rows that `fold` makes of each partition's events.

    facts:   events by the fold's names for them; each with *key, seq and the columns that it fills. Events
             of one seq come in the order of this mapping.
    columns: in the order in which the fold gets them; `what` among them is the name in `facts`
    schema:  of the rows, *key in front
    key:     what is folded apart: partitions, or something else of a run
    """
    named = [
        rows.withColumns({"what": F.lit(what), "_place": F.lit(place)})
        for place, (what, rows) in enumerate(facts.items())
    ]
    together = functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), named)
    is_short = is_for_short_traces(together.sparkSession)
    apart = together.coalesce(1) if is_short else together.repartition(*key)
    ordered = apart.sortWithinPartitions(*key, "seq", "_place").select(*key, *columns)
    out = columns_of(schema)
    fold_all = functools.partial(fold_batches, fold, to_arrow_schema(out), len(key))
    return _folded_here(ordered, fold_all, out) if is_short else ordered.mapInArrow(fold_all, out)


def _folded_here(
    ordered: DataFrame, fold_all: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], out: StructType
) -> DataFrame:
    """Starting Python workers, with all that they import, costs more than all folds of a short trace."""
    rows = pa.Table.from_batches(fold_all(iter(collected(ordered).to_batches())), to_arrow_schema(out))
    return held(ordered.sparkSession, rows, out)
