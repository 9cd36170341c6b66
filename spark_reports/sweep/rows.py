"""Declare the rows of a sweep, one per run, for workers, Parquet files, Spark and documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from replica.trace.events import Column
from spark_reports.schema import spark_schema

FINISHED = "finished"
CRASHED = "crashed"
TIMEOUT = "timeout"
RAISED = "raised"
STATUSES: dict[str, str] = {
    FINISHED: "played to the end; only these rows count for probabilities",
    "invalid": "the scenario is not valid with these settings",
    "stopped": "a step of the timeline could not be executed",
    TIMEOUT: "took longer than the time limit of the sweep",
    CRASHED: "the process that played it died",
    RAISED: "an error of the simulator itself, which is a bug",
}
PASSING = (TIMEOUT, CRASHED)
"""Statuses that may depend on the machine. Runs with them are played again when a sweep is resumed."""

COLUMNS: tuple[Column, ...] = (
    Column("settings", "list<string>", False, "the varied settings of the run, each as path=value"),
    Column("seed", "int64", False, "seed of the run"),
    Column("status", "string", False, "; ".join(f"{name}: {doc}" for name, doc in STATUSES.items())),
    Column("error", "string", True, "what went wrong, in one sentence"),
    Column("our_bug", "bool", True, "an invariant was broken that the rules of the run promise"),
    Column("held", "bool", True, "the scenario's own expectations held"),
    Column("verdict", "list<string>", True, "names of the anomalies, empty when ok"),
    Column("sent", "int64", True, "records sent"),
    Column("acked", "int64", True, "records whose producer got an ack"),
    Column("failed", "int64", True, "records that were certainly not written, as the producer's error proves"),
    Column("unknown", "int64", True, "records that were neither acked nor certainly failed (with acks=0: all records)"),
    Column("lost", "int64", True, "acked records that are not in the final log"),
    Column("unseen", "int64", True, "acked records that are in the final log, but that no consumer can read"),
    Column("missing", "int64", True, "unknown records that are missing; no promise was broken"),
    Column("duplicated", "int64", True, "records that are in the log more than once"),
    Column("reordered", "int64", True, "records that are in the log after a record that was sent later"),
    Column("dirty", "int64", True, "records that a consumer read, but that the log no longer has"),
    Column(
        "unavailable_us",
        "int64",
        True,
        "total of the intervals of 1 s or more in which records of some partition waited in vain for an ack",
    ),
    Column("longest_unavailable_us", "int64", True, "the longest of these intervals, in virtual microseconds"),
    Column(
        "ack_latency_us", "list<int64>", True, "distinct times from send to ack, rounded to three significant digits"
    ),
    Column("ack_latency_acks", "list<int64>", True, "number of acks for each of these times"),
    Column("retries", "int64", True, "batches sent again"),
    Column("events", "int64", True, "events in the trace"),
    Column("trace_sha256", "string", True, "digest of the trace, the same as `highwater run` prints for this run"),
)
FATES = ("acked", "failed", "unknown", "lost", "unseen", "missing", "duplicated", "reordered", "dirty")


class Run(NamedTuple):
    """A run of a sweep. `settings` are the varied settings, each as path=value."""

    settings: tuple[str, ...]
    seed: int


Columns = Sequence[Column]
"""The columns of rows: the fields that identify a run, `status`, `error`, and the figures of the run."""


def rows_schema(columns: Columns = COLUMNS) -> StructType:
    return spark_schema(columns)


def arrow_rows_schema(columns: Columns = COLUMNS) -> Any:
    """Return the columns as a pyarrow schema, for Parquet files."""
    return to_arrow_schema(rows_schema(columns))


def row_of(run: Any, figures: Mapping[str, Any], columns: Columns = COLUMNS) -> dict[str, Any]:
    """Return the row of a run, with null in columns that `figures` lacks.

    `run` is a NamedTuple of strings, numbers and tuples of strings. Each of its fields is a column.
    """
    row: dict[str, Any] = dict.fromkeys(column.name for column in columns)
    unknown = [name for name in figures if name not in row]
    assert not unknown, f"undeclared columns: {unknown}"
    own = {name: list(value) if isinstance(value, tuple) else value for name, value in run._asdict().items()}
    return {**row, **figures, **own}


def key_of(row: Mapping[str, Any], fields: Sequence[str]) -> tuple[Any, ...]:
    """Return the tuple of a row's `fields`, which equals the NamedTuple of its run."""
    return tuple(tuple(row[name]) if isinstance(row[name], list) else row[name] for name in fields)
