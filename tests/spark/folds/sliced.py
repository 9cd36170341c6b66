"""A table folded from slices of a run's events, cut anywhere, and from all of them at once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from spark_reports import folding as files
from spark_reports import tables as reported
from spark_reports.folds.events import BEGIN, END, Folding, Slice, TableFold, columns_read, slices
from spark_reports.folds.facts import Share
from spark_reports.held import columns_of
from spark_reports.results import RESULT_TABLES
from spark_reports.transforms import verdict

if TYPE_CHECKING:
    from spark_reports.tables import ResultTables

Rows = Counter[str]
RunOf = Callable[[int], Path]


def foldings(tables: ResultTables) -> dict[str, tuple[Folding, pa.Schema]]:
    """All tables that are folded slice by slice, with their columns."""
    trace = tables._trace
    found = {name: folding(tables, trace) for name, folding in reported._OF_PARTITIONS.items()}
    ddl = {name: RESULT_TABLES[name].ddl for name in found}
    found |= {"regressions": verdict.REGRESSIONS, "jumps": verdict.JUMPS}
    ddl |= {"regressions": RESULT_TABLES["anomalies"].ddl, "jumps": verdict.JUMPS_DDL}
    return {name: (folding, to_arrow_schema(columns_of(ddl[name]))) for name, folding in found.items()}


def folded(folding: Folding, out: pa.Schema, run_dir: Path, bounds: Sequence[int]) -> Rows:
    """The rows.  bounds: places at which the events are cut into slices"""
    schemas, share = files.trace_schemas(), Share(str(run_dir), 0, 1)
    (whole,) = slices(share, columns_read([folding], schemas), lambda: 1 << 62)
    fold = TableFold(folding, out, schemas, share)
    rows: list[dict[str, Any]] = []
    since = BEGIN
    for until in (*bounds, END):
        its = {}
        for table, events in whole.rows.items():
            seq = events["seq"].to_numpy()
            its[table] = events.filter(pa.array((seq >= since) & (seq < until)))
        for batch in fold.rows(Slice(its, since, until)):
            rows += batch.to_pylist()
        since = until
    return Counter(map(str, rows))


def agree(tables: ResultTables, run_dir: Path, draw: random.Random, counts: Sequence[int]) -> None:
    """Each table folded from so many slices more than one, cut at random, has the rows that it has from one."""
    for name, (folding, out) in foldings(tables).items():
        whole = folded(folding, out, run_dir, ())
        last = _last_seq(run_dir)
        for count in counts:
            bounds = sorted({draw.randrange(last) for _ in range(count)})
            assert folded(folding, out, run_dir, bounds) == whole, f"{run_dir.name} {name} {bounds}"


def _last_seq(run_dir: Path) -> int:
    parts = run_dir.glob("trace/*/part-*.parquet")
    return max(pq.read_table(part, columns=["seq"])["seq"].to_numpy().max(initial=1) for part in parts)
