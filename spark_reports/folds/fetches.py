"""What fetches carried, in sums by broker and peer: of each file, then of all."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.codes import of_kind

SENT, ASKED, ANSWERED = "sent", "asked", "answered"

_PAIR = ("run", "node", "peer")
_OF_FACTS = {"reads": SENT, "asked": ASKED, "requests": ANSWERED}
_ADDED = ("size_bytes", "response_bytes", "sendfile_bytes", "sendfile_calls")
SUMS = pa.schema([*((name, pa.string()) for name in _PAIR), *((name, pa.int64()) for name in (*_OF_FACTS, *_ADDED))])


def summed(facts: pa.Table) -> pa.Table:
    """out: SUMS, one row for each pair; in: facts of one kind, or SUMS of some"""
    columns = {name: facts[name].cast(pa.string()) for name in _PAIR}
    for name, what in _OF_FACTS.items():
        columns[name] = facts[name] if name in facts.column_names else pa.array(of_kind(facts, what)).cast(pa.int64())
    for name in _ADDED:
        columns[name] = facts[name] if name in facts.column_names else pa.nulls(len(facts), pa.int64())
    sums = [(name, "sum", pc.ScalarAggregateOptions(min_count=0)) for name in SUMS.names[len(_PAIR) :]]
    return pa.table(columns).group_by(list(_PAIR), use_threads=False).aggregate(sums).rename_columns(SUMS.names)
