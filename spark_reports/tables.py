"""Define how each result table is computed from the trace. results.py declares the meaning of the tables."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_reports.folding import settled
from spark_reports.folds.events import Folding
from spark_reports.held import collected, few_rows, has_at_most, has_no_rows, held, none_of
from spark_reports.io import Trace, brief_trace, read_trace
from spark_reports.results import RESULT_TABLES
from spark_reports.transforms.availability import availability, unavailability, write_stalls
from spark_reports.transforms.compaction import gone_records
from spark_reports.transforms.fetching import ack_latency, catch_ups, fetch_efficiency
from spark_reports.transforms.groups import group_assignments, group_unread
from spark_reports.transforms.partitions import (
    fault_intervals,
    isr_changes,
    isr_intervals,
    node_turns,
    partition_states,
    run_ends,
    stopped_intervals,
    with_the_leaders_reasons,
)
from spark_reports.transforms.reading import read_stalls
from spark_reports.transforms.records import final_entries, record_counts, record_fates
from spark_reports.transforms.terms import elections, leader_terms
from spark_reports.transforms.timelines import data_at_risk, hw_stalls, replica_timeline, replication_lag
from spark_reports.transforms.transactions import known_of_records, lso_stalls, transactions
from spark_reports.transforms.verdict import anomalies
from spark_reports.transforms.witness import key_moments, lost_records, runs

_FEW_ROWS = 10_000


class ResultTables(Mapping[str, DataFrame]):
    """All result tables of a trace by name. A table is defined on its first use, with the tables that it depends on.

    Defining a table takes PySpark longer than reading a small trace. Only one thread at a time defines tables, while
    other threads may wait for rows.
    """

    def __init__(self, trace: Trace, brief: ResultTables | None = None) -> None:
        """Create the tables of a trace.

        For a long trace, `brief` has the tables that depend on few events; its session is for short traces.
        """
        self._trace = trace
        self._brief = brief
        self._rows: dict[str, pa.Table] = {}
        self._defined: dict[str, DataFrame] = {}
        self._defining = threading.RLock()
        self._collecting = {name: threading.Lock() for name in RESULT_TABLES}

    def __getitem__(self, name: str) -> DataFrame:
        if name not in RESULT_TABLES:
            raise KeyError(name)
        with self._defining:
            if name not in self._defined:
                if self._brief is not None and name in _OF_FEW_EVENTS:
                    self._defined[name] = self._taken(name, self._brief[name])
                elif name in _OF_PARTITIONS:
                    self._defined |= self._folded(name)
                else:
                    self._defined[name] = self._empty(name) or _DEFINITIONS[name](self, self._trace)
            return self._defined[name]

    def _folded(self, name: str) -> dict[str, DataFrame]:
        """Return tables of _OF_PARTITIONS by name: only this one, or for long traces all, which costs little more."""
        names = [name] if self._trace.files.folder is None else [*_OF_PARTITIONS]
        return self._trace.files.tables({item: _OF_PARTITIONS[item](self, self._trace) for item in names})

    def rows(self, name: str) -> pa.Table:
        """Return the rows of a small table: one that grows with failovers, or any table of a short trace."""
        table = self[name]
        with self._collecting[name]:
            if name not in self._rows:
                self._rows[name] = few_rows(table)
            return self._rows[name]

    def rows_if_few(self, name: str) -> pa.Table | None:
        """Return the rows of a table if they are known or few according to its plan, otherwise None."""
        table = self[name]
        is_known = name in self._rows or has_at_most(table, _FEW_ROWS)
        return self.rows(name) if is_known else None

    def _taken(self, name: str, table: DataFrame) -> DataFrame:
        """Compute a table of the brief session now, and return its rows as a table of this trace's session."""
        self._rows[name] = collected(table)
        return held(self._trace.control.sparkSession, self._rows[name], table.schema)

    def _empty(self, name: str) -> DataFrame | None:
        """Return an empty table if the table's only source is empty, otherwise None. Defining it would be slower."""
        source = getattr(self._trace, _ONLY_FROM[name]) if name in _ONLY_FROM else None
        if source is None or not has_no_rows(source):
            return None
        return none_of(source.sparkSession, RESULT_TABLES[name].ddl)

    def __iter__(self) -> Iterator[str]:
        return iter(RESULT_TABLES)

    def __len__(self) -> int:
        return len(RESULT_TABLES)

    @property
    def control(self) -> DataFrame:
        return self._helper("control", lambda tables: settled(with_the_leaders_reasons(tables._trace.control)))

    @property
    def run_ends(self) -> DataFrame:
        return self._helper("run_ends", lambda tables: settled(run_ends(tables.control)))

    @property
    def node_turns(self) -> DataFrame:
        return self._helper("node_turns", lambda tables: settled(node_turns(tables.control)))

    def _helper(self, name: str, define: Callable[[ResultTables], DataFrame]) -> DataFrame:
        """Return a table, defined once, that result tables depend on but that is not a result table."""
        with self._defining:
            if name not in self._defined:
                if self._brief is not None:
                    self._defined[name] = self._taken(name, self._brief._helper(name, define))
                else:
                    self._defined[name] = define(self)
            return self._defined[name]

    @functools.cached_property
    def entries(self) -> DataFrame:
        return final_entries(self._trace.final_log, self._trace.transaction)

    @functools.cached_property
    def gone(self) -> DataFrame:
        return gone_records(self._trace)

    def records(self) -> DataFrame:
        known = known_of_records(self._trace, self.gone)
        return self._trace.files.kept("records", record_fates(self._trace, self.entries, known))


def tables_of_long_traces(spark: SparkSession, run_dirs: Sequence[Path], folder: Path) -> ResultTables:
    """Return the result tables of long traces. Raises RunFolderUnusable.

    Some tables are written to `folder` when they are computed.
    """
    few = brief_trace(spark, run_dirs)
    trace = read_trace(spark, run_dirs)
    trace = trace._replace(files=trace.files._replace(folder=folder))
    return ResultTables(trace, None if few is None else ResultTables(few))


_Define = Callable[[ResultTables, Trace], DataFrame]

_ONLY_FROM = {
    "transactions": "transaction",
    "lso_stalls": "transaction",
    "group_assignments": "group",
    "group_unread": "group",
}
"""Result tables that are empty if one table of the trace is empty, each with that table's name."""

_OF_FEW_EVENTS = frozenset(
    (
        "runs", "key_moments", "partition_states", "isr_changes", "isr_intervals", "stopped_intervals",
        "fault_intervals", "unavailability", "availability", "leader_terms", "group_assignments", "group_unread",
    )
)  # fmt: skip
"""Result tables that depend only on the tables of the trace in io.FEW_EVENTS."""

_OF_PARTITIONS: dict[str, Callable[[ResultTables, Trace], Folding]] = {
    "replica_timeline": lambda tables, trace: replica_timeline(),
    "replication_lag": lambda tables, trace: replication_lag(tables.rows("leader_terms")),
    "elections": lambda tables, trace: elections(),
    "read_stalls": lambda tables, trace: read_stalls(trace.group, tables.rows("leader_terms"), tables.run_ends),
    "hw_stalls": lambda tables, trace: hw_stalls(tables.rows("partition_states"), tables.rows("leader_terms")),
    "data_at_risk": lambda tables, trace: data_at_risk(tables.rows("leader_terms")),
    "catch_ups": lambda tables, trace: catch_ups(tables.rows("isr_changes")),
    "write_stalls": lambda tables, trace: write_stalls(trace.produce, tables.control, tables.run_ends),
}
"""Result tables that tasks fold from the events of each partition; for a long trace they are folded together."""

_DEFINITIONS: dict[str, _Define] = {
    "runs": lambda tables, trace: runs(tables.control),
    "records": lambda tables, trace: tables.records(),
    "record_counts": lambda tables, trace: record_counts(tables["records"]),
    "anomalies": lambda tables, trace: anomalies(tables["records"], tables.entries, tables.gone, trace),
    "lost_records": lambda tables, trace: lost_records(tables["records"], trace),
    "key_moments": lambda tables, trace: key_moments(tables.control),
    "partition_states": lambda tables, trace: settled(partition_states(tables.control)),
    "isr_changes": lambda tables, trace: isr_changes(tables["partition_states"]),
    "isr_intervals": lambda tables, trace: isr_intervals(tables["partition_states"]),
    "stopped_intervals": lambda tables, trace: stopped_intervals(tables.control),
    "fault_intervals": lambda tables, trace: fault_intervals(tables.control),
    "unavailability": lambda tables, trace: settled(
        unavailability(tables["partition_states"], tables["stopped_intervals"])
    ),
    "availability": lambda tables, trace: availability(tables["unavailability"], tables["partition_states"]),
    "ack_latency": lambda tables, trace: ack_latency(trace.produce),
    "leader_terms": lambda tables, trace: settled(leader_terms(tables.control, tables.node_turns)),
    "fetch_efficiency": lambda tables, trace: fetch_efficiency(trace.fetch, trace.request),
    "transactions": lambda tables, trace: transactions(trace.transaction),
    "lso_stalls": lambda tables, trace: lso_stalls(trace.transaction, trace.high_watermark, tables["leader_terms"]),
    "group_assignments": lambda tables, trace: group_assignments(trace.group, trace.control, tables.run_ends),
    "group_unread": lambda tables, trace: group_unread(
        tables["group_assignments"], tables["stopped_intervals"], tables["fault_intervals"]
    ),
}
