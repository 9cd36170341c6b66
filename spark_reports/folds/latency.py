"""How often each time to an ack was measured, file by file, and exact percentiles of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.codes import begins, codes

_GROUP = ("run", "topic", "acks", "measured_at")
COUNTED = pa.schema(
    [("run", pa.string()), ("topic", pa.string()), ("acks", pa.int64()), ("measured_at", pa.string()),
     ("latency_us", pa.int64()), ("records", pa.int64())]
)  # fmt: skip
"""`records`: so many had this time; a time that is unknown is null."""


def counted(outside: str, at_broker: str, at_producer: str, facts: pa.Table) -> pa.Table:
    """Of some facts. outside: what names of clients begin with whose time their broker measures     out: COUNTED"""
    is_outside = pc.starts_with(facts["client"].cast(pa.string()), outside)
    facts = facts.append_column("measured_at", pc.if_else(is_outside, at_broker, at_producer))
    return _summed(facts.append_column("records", pa.repeat(pa.scalar(1, pa.int64()), len(facts))))


def _summed(counts: pa.Table) -> pa.Table:
    columns = pa.table({name: counts[name].cast(COUNTED.field(name).type) for name in COUNTED.names})
    found = columns.group_by([*_GROUP, "latency_us"], use_threads=False).aggregate([("records", "sum")])
    return found.rename_columns(COUNTED.names)


def percentiles(shares: Mapping[str, int], counts: pa.Table) -> list[dict[str, Any]]:
    """A row for each group: nearest ranks among the times that are known.

    shares: thousandths, by column     counts: COUNTED, of all facts
    """
    counts = _summed(counts).sort_by([(name, "ascending") for name in (*_GROUP, "latency_us")])
    bounds = [*np.flatnonzero(begins(codes(counts, *_GROUP))).tolist(), len(counts)]
    rows = []
    for first, end in pairwise(bounds):
        its = counts.slice(first, end - first)
        known = its.filter(its["latency_us"].is_valid())
        so_far, times = np.cumsum(known["records"].to_numpy()), known["latency_us"].to_numpy()
        row = its.select(_GROUP).slice(0, 1).to_pylist()[0] | {"records": pc.sum(its["records"]).as_py()}
        for name, share in {**shares, "max_us": 1000}.items():
            rank = -(-int(so_far[-1]) * share // 1000) if len(known) else 0
            row[name] = int(times[np.searchsorted(so_far, rank)]) if len(known) else None
        rows.append(row)
    return rows
