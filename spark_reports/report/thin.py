"""Reduce the points of charts with DuckDB, without losing a peak or a rare event.

First the columns that decide which points are chosen are read, then the chosen rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from replica.trace.names import BATCH_APPENDED, HIGH_WATERMARK_ADVANCED, HIGH_WATERMARK_LEARNED
from spark_reports.report.rows import Rows
from spark_reports.schema import PARTITION_KEY, REPLICA_KEY

BINS = 700
WHOLE_UP_TO = 4_000
"""A partition with at most this many points keeps all of them."""

PICTURED: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "replica_timeline": (
        REPLICA_KEY, "uncommitted_records", (BATCH_APPENDED, HIGH_WATERMARK_ADVANCED, HIGH_WATERMARK_LEARNED)
    ),
    "replication_lag": ((*PARTITION_KEY, "leader", "follower"), "peak_lag_us", ()),
    "data_at_risk": ((*PARTITION_KEY, "leader", "leader_epoch", "acks"), "at_risk_records", ()),
}  # fmt: skip
"""Timelines to reduce: columns that identify a line, column whose peaks are kept, and events that are not rare."""

_CHOSEN = """
WITH short AS (
    SELECT run, topic, partition FROM points GROUP BY ALL HAVING count(*) <= {whole_up_to}
), best AS (
    SELECT
        arg_max(place, seq) AS latest,
        arg_max(place, (peak, -seq)) FILTER (peak IS NOT NULL) AS highest,
        arg_min(place, (peak, seq)) FILTER (peak IS NOT NULL) AS lowest,
    FROM points LEFT JOIN widths USING (run)
    GROUP BY {lines}, at_us // coalesce(width, 1)
)
SELECT unnest([latest, highest, lowest]) AS place FROM best
UNION SELECT place FROM points SEMI JOIN short USING (run, topic, partition)
UNION SELECT place FROM points WHERE {is_rare}
"""


def picture(name: str, table: Rows, end_us: Mapping[str, int]) -> Rows:
    """Return the rows of a timeline that a chart draws.

    A run is divided into BINS intervals. Each line keeps three points of each interval (the last one, and those with
    the largest and the smallest value), and all rare events. Partitions with few points keep all of them.

    Args:
        name: a key of PICTURED.
        table: rows of that result table.
        end_us: end of each run, by the run's name.
    """
    if len(table) <= WHOLE_UP_TO:
        return table
    import duckdb  # A short report does not need this slow import.

    lines, peak, moves = PICTURED[name]
    columns = [*dict.fromkeys([*lines, "at_us", "seq", *(["event"] if moves else [])])]
    widths = {"run": pa.array(list(end_us), pa.string()), "width": [max(1, end // BINS) for end in end_us.values()]}
    asked = _CHOSEN.format(
        whole_up_to=WHOLE_UP_TO, lines=", ".join(lines), is_rare=f"event NOT IN {moves}" if moves else "false"
    )
    with duckdb.connect(":memory:", config={"threads": 2}) as database:
        database.register("points", _Points(table, columns, peak))
        database.register("widths", pa.table(widths))
        indexes = database.execute(asked).fetchnumpy()["place"]
    return table.at(np.unique(indexes[~np.ma.getmaskarray(indexes)]))


class _Points:
    """The points of a table as a stream of Arrow batches, which DuckDB reads each time a query uses the table."""

    def __init__(self, table: Rows, columns: Sequence[str], peak: str) -> None:
        self._table, self._columns, self._peak = table, columns, peak
        batch = next(self._batches())
        self._schema = batch.schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of the needed columns, and each row's index in the table as `place`."""
        begin = 0
        for batch in self._table.coded_batches([*self._columns, self._peak]):
            index = pa.array(np.arange(begin, begin + len(batch)))
            begin += len(batch)
            yield pa.RecordBatch.from_arrays([*batch.columns, index], [*self._columns, "peak", "place"])
