"""The report on traces of a million events and more: time, processor time and memory, whole and table by table.

The traces come from `model.trace`, so every result is held against what is true of them.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scenarios.bench.process_watch import ProcessWatch
from tests.bench.model.rounds import PARTITIONS
from tests.bench.model.trace import ExpectedFigures, ModelTrace

Progress = Callable[[float, str], None]


class Comparison(NamedTuple):
    """One thing that is known of a trace, and what the report says."""

    what: str
    truth: Any
    report: Any


def measure_report(
    sizes: Sequence[int], per_table: bool, progress: Progress, heap_mb: int | None = None, master: str = "local[2]"
) -> list[dict[str, Any]]:
    """For each of `sizes` (events), smallest first: the trace, the report, and its tables one by one.

    heap_mb: limit of the JVM's heap, without it the one that every report has
    raises: JavaMissing, SparkFailed, OSError
    """
    rows = []
    for place, size in enumerate(sorted(sizes)):

        def show(share: float, detail: str, place: int = place, size: int = size) -> None:
            progress((place + share) / len(sizes), f"{size / 1e6:g} M: {detail}")

        with tempfile.TemporaryDirectory(prefix="highwater-bench-") as scratch:
            rows.append(_measure(size, Path(scratch) / "0001-model-failovers", per_table, show, heap_mb, master))
    return rows


def _measure(
    size: int, run_dir: Path, per_table: bool, progress: Progress, heap_mb: int | None, master: str
) -> dict[str, Any]:
    from spark_reports.report.build import write_report
    from spark_reports.session import spark_session
    from spark_reports.settings import driver_memory_mb, report_settings_for

    model = ModelTrace.of_about(size)
    began = time.perf_counter()
    model.write(run_dir / "trace", lambda share: progress(0.1 * share, "writing the trace"))
    written_s = time.perf_counter() - began
    trace_bytes = sum(part.stat().st_size for part in run_dir.glob("trace/*/part-*.parquet"))
    heap_mb = heap_mb or driver_memory_mb()
    settings = {**report_settings_for([run_dir]), "spark.driver.memory": f"{heap_mb}m"}
    began = time.perf_counter()
    with ProcessWatch() as watch, spark_session(master, settings) as spark:
        result = write_report(
            [run_dir], run_dir / "report", lambda step, share: progress(0.1 + share / 2, step), spark=spark
        )
    report_s = time.perf_counter() - began
    usage = watch.usage()
    compared = compare(model.truth(), run_dir / "report" / "tables")
    return {
        "events": model.truth().events,
        "trace_mb": round(trace_bytes / 1e6, 1),
        "written_s": round(written_s, 1),
        "report_s": round(report_s, 1),
        "report_cpu_s": None if usage.cpu_s is None else round(usage.cpu_s, 1),
        "heap_limit_mb": heap_mb,
        "jvm_peak_mb": usage.jvm_peak_mb,
        "python_peak_mb": usage.python_peak_mb,
        "html_mb": round(result.path.stat().st_size / 1e6, 2),
        "compared": len(compared),
        "differs": [entry._asdict() for entry in compared if entry.truth != entry.report],
        "tables": _measure_tables(run_dir, progress, settings, master) if per_table else [],
    }


def _measure_tables(
    run_dir: Path, progress: Progress, settings: Mapping[str, str], master: str
) -> list[dict[str, Any]]:
    """Computes every table once, each in a new session, and discards the rows; writes tables that others are
    computed from."""
    from spark_reports.session import spark_session
    from spark_reports.tables import tables_of_long_traces

    measured = []

    def take(name: str, compute: Callable[[], None]) -> None:
        began = time.perf_counter()
        with ProcessWatch() as watch:
            compute()
        cpu_s = watch.usage().cpu_s
        wall_s = round(time.perf_counter() - began, 2)
        measured.append({"table": name, "s": wall_s, "cpu_s": None if cpu_s is None else round(cpu_s, 2)})

    with spark_session(master, settings) as spark:
        kept = run_dir / "kept"
        tables = tables_of_long_traces(spark, [run_dir], kept)

        def compute(name: str) -> None:
            table = tables[name]
            if not (kept / name).exists():
                table.write.format("noop").mode("overwrite").save()

        for place, name in enumerate(tables):
            progress(0.6 + 0.4 * place / len(tables), name)
            take(name, functools.partial(compute, name))
    return measured


# ------------------------------------------------------------------------------------------------------------ the truth


def compare(truth: ExpectedFigures, tables: Path) -> list[Comparison]:
    """Compares the known outcome of the trace with the report's tables, read without Spark."""
    return [
        Comparison("events", truth.events, _only(tables, "runs", "events")),
        *_records(truth, tables),
        *_control(truth, tables),
        *_timelines(truth, tables),
    ]


def _records(truth: ExpectedFigures, tables: Path) -> list[Comparison]:
    counts = {row["acks"]: row for row in _read(tables, "record_counts").to_pylist()}
    latency = {row["acks"]: row for row in _read(tables, "ack_latency").to_pylist()}
    found = []
    for acks in (1, -1):
        for what in ("sent", "acked", "lost", "missing", "duplicated"):
            found.append(Comparison(f"{what}, acks={acks}", getattr(truth, what)[acks], counts[acks][what]))
        for what in ("unseen", "dirty", "reordered"):
            found.append(Comparison(f"{what}, acks={acks}", 0, counts[acks][what]))
        told = tuple(latency[acks][name] for name in ("p50_us", "p99_us", "max_us"))
        found.append(Comparison(f"latency (median, 99 %, largest), acks={acks}", truth.ack_latency[acks], told))
    lost = _read(tables, "lost_records", ["held_by", "elected_clean", "erased_on"]).to_pylist()
    alone = sum(
        len(row["held_by"]) == 1 and row["elected_clean"] and row["held_by"][0] in row["erased_on"] for row in lost
    )
    anomalies = pc.value_counts(_read(tables, "anomalies", ["anomaly"])["anomaly"]).to_pylist()
    witnessed = {entry["values"]: entry["counts"] for entry in anomalies}
    every_lost, every_copy = sum(truth.lost.values()), sum(truth.duplicated.values())
    return [
        *found,
        Comparison("lost: held by the old leader alone, elected clean, cut off by it", every_lost, alone),
        Comparison("anomalies", {"lost": every_lost, "duplicated": every_copy}, witnessed),
    ]  # fmt: skip


def _control(truth: ExpectedFigures, tables: Path) -> list[Comparison]:
    availability = _read(tables, "availability")
    elections = _read(tables, "elections", ["elect_us"])["elect_us"]
    troubles = ("offline_us", "under_replicated_us", "under_min_isr_us")
    expected = {name: [getattr(truth, name)] * PARTITIONS for name in troubles}
    return [
        *(Comparison(f"{name} by partition", expected[name], availability[name].to_pylist()) for name in troubles),
        Comparison("elections", truth.elections, len(elections)),
        Comparison("elect_us of every election", (truth.elect_us, truth.elect_us), _least_and_largest(elections)),
        Comparison("changes of an ISR", truth.isr_changes, _rows(tables, "isr_changes")),
        Comparison("producers left waiting", truth.write_stalls, _rows(tables, "write_stalls")),
    ]  # fmt: skip


def _timelines(truth: ExpectedFigures, tables: Path) -> list[Comparison]:
    def largest(table: str, column: str) -> Any:
        return pc.max(_read(tables, table, [column])[column]).as_py()

    return [
        Comparison("largest lag in records", truth.largest_lag_records, largest("replication_lag", "lag_records")),
        Comparison("largest lag in time", truth.largest_lag_us, largest("replication_lag", "lag_us")),
        Comparison("last high watermark", truth.final_high_watermark, largest("replica_timeline", "high_watermark")),
    ]


def _read(tables: Path, table: str, columns: list[str] | None = None) -> pa.Table:
    return pq.read_table(tables / table, columns=columns)


def _rows(tables: Path, table: str) -> int:
    return sum(pq.read_metadata(part).num_rows for part in (tables / table).glob("*.parquet"))


def _only(tables: Path, table: str, column: str) -> Any:
    return _read(tables, table, [column])[column].to_pylist()[0]


def _least_and_largest(values: pa.ChunkedArray) -> tuple[Any, Any]:
    found = pc.min_max(values).as_py()
    return found["min"], found["max"]
