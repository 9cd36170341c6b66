"""A table folded from slices of a run's events, cut anywhere, and from all of them at once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_reports import from_files
from spark_reports import tables as reported
from spark_reports.folds import exchange
from spark_reports.folds.events import FoldedShare, Folding
from spark_reports.folds.exchange import Steps
from spark_reports.folds.files import Share, chunks_here, kinds_of
from spark_reports.folds.parcels import apart, parcels
from spark_reports.folds.slices import END, UNKNOWN, Slice, slices
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
    found |= {"diverged": verdict.DIVERGED, "regressions": verdict.REGRESSIONS, "jumps": verdict.JUMPS}
    ddl |= dict.fromkeys(("diverged", "regressions"), RESULT_TABLES["anomalies"].ddl) | {"jumps": verdict.JUMPS_DDL}
    return {name: (folding, to_arrow_schema(columns_of(ddl[name]))) for name, folding in found.items()}


def cut_apart(whole: Slice, folding: Folding, bounds: Sequence[int]) -> Iterator[Slice]:
    """What belongs before each of these places, and all that is left."""
    ahead = {one.kind for one in folding.facts.values() if one.ahead}
    since = UNKNOWN
    for until in (*bounds, END):
        its = {}
        for kind, rows in whole.its.items():
            if kind in ahead:
                its[kind] = rows if since == UNKNOWN else rows.slice(0, 0)
                continue
            places = rows[folding.along].to_numpy()
            its[kind] = rows.filter(pa.array((places >= since) & (places < until)))
        yield Slice(its, until)
        since = until


def folded(folding: Folding, out: pa.Schema, run_dir: Path, bounds: Sequence[int]) -> Rows:
    """The rows. bounds: of slices"""
    schemas = from_files._schemas()
    share = Share(str(run_dir), 0, 1)
    chunks = chunks_here(share, kinds_of([folding.facts], folding.along), schemas, folding.along)
    (whole,) = slices(chunks, folding.along, lambda: 1 << 62)
    one = FoldedShare(folding, out, schemas, share)
    rows: list[dict[str, Any]] = []
    for piece in cut_apart(whole, folding, bounds):
        for batch in one.rows(piece):
            rows += batch.to_pylist()
    return Counter(map(str, rows))


def agree(tables: ResultTables, run_dir: Path, draw: random.Random, counts: Sequence[int]) -> None:
    """Each table folded from so many slices more than one, cut at random, has the rows that it has from one."""
    for name, (folding, out) in foldings(tables).items():
        whole = folded(folding, out, run_dir, ())
        last = 60 if folding.along == "offset" else _last_seq(run_dir)
        for count in counts:
            bounds = sorted(draw.randrange(last) for _ in range(count))
            assert folded(folding, out, run_dir, bounds) == whole, f"{run_dir.name} {name} {bounds}"


def exchanged(steps: Steps, schema: pa.Schema, facts: pa.Table, shares: int, slice_records: int) -> pa.Table:
    """The rows of a table as tasks make them that send each other what they find, and look at so many events at a time.
    The facts are those of one task."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "SLICE_RECORDS", slice_records)
        sent = pa.Table.from_batches(parcels(apart(facts, exchange.record_numbers, shares)))
        by_record = [exchange.send_on(steps.of_records, steps.along, shares, None, one) for one in _by_share(sent)]
        ends = _by_share(pa.concat_tables(by_record))
        return pa.concat_tables(exchange.end(steps.of_partitions, steps.along, schema, None, one) for one in ends)


def _by_share(sent: pa.Table) -> list[pa.Table]:
    return [sent.filter(pc.equal(sent["share"], share)) for share in pc.unique(sent["share"]).to_pylist()]


@contextmanager
def all_exchanged(draw: random.Random) -> Iterator[None]:
    """What the block makes of records' facts all at once comes out the same from tasks and slices."""
    at_once = exchange.at_once

    def both(steps: Steps, facts: pa.Table) -> pa.Table:
        whole = at_once(steps, facts)
        its = exchanged(steps, whole.schema, facts, draw.choice((1, 2, 5)), draw.choice((1, 4, 30)))
        assert rows_in(its) == rows_in(whole)
        return whole

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "at_once", both)
        yield


def rows_in(table: pa.Table) -> Rows:
    return Counter(map(str, table.to_pylist()))


def _last_seq(run_dir: Path) -> int:
    parts = run_dir.glob("trace/*/part-*.parquet")
    return max(pq.read_table(part, columns=["seq"])["seq"].to_numpy().max(initial=1) for part in parts)
