"""The verdict of many runs at once, in the runner's vocabulary, for comparison with the runner's own verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_reports.io import read_trace
from spark_reports.schema import RUN
from spark_reports.transforms.compaction import gone_records
from spark_reports.transforms.records import ACKED, FAILED, UNKNOWN, final_entries, record_fates
from spark_reports.transforms.transactions import known_of_records
from spark_reports.transforms.verdict import VERDICT_ORDER, anomalies


class RunVerdict(NamedTuple):
    """`verdict`: anomaly names in the vocabulary's order. `records`: names by fate, in the order of sending."""

    verdict: tuple[str, ...]
    records: dict[str, list[str]]


FATES = (ACKED, FAILED, UNKNOWN, "lost", "unseen", "missing", "duplicated", "dirty", "reordered", "aborted")


def judge_runs(spark: SparkSession, run_dirs: Sequence[Path]) -> dict[str, RunVerdict]:
    """Verdict and records by fate for each run folder, from the traces alone.

    raises: RunFolderUnusable
    """
    trace = read_trace(spark, run_dirs)
    entries = final_entries(trace.final_log, trace.transaction)
    gone = gone_records(trace)
    fates = record_fates(trace, entries, known_of_records(trace, gone))
    found = anomalies(fates, entries, gone, trace)
    names_of_run = {row[RUN]: set(row["names"]) for row in _anomaly_names(found).collect()}
    told = [F.when((F.col("told") == fate) & F.col("sent_seq").isNotNull(), F.lit(fate)) for fate in FATES[:3]]
    flags = [F.when(F.col(fate), F.lit(fate)) for fate in FATES[3:]]
    rows = (
        fates.select(RUN, "record", "sent_seq", F.explode(F.array_compact(F.array(*told, *flags))).alias("fate"))
        .orderBy(RUN, "sent_seq", "record")
        .collect()
    )
    runs = [run_dir.resolve().name for run_dir in run_dirs]
    records: dict[str, dict[str, list[str]]] = {run: {fate: [] for fate in FATES} for run in runs}
    for row in rows:
        records[row[RUN]][row["fate"]].append(row["record"])
    return {
        run: RunVerdict(tuple(name for name in VERDICT_ORDER if name in names_of_run.get(run, ())), records[run])
        for run in runs
    }


def _anomaly_names(found: DataFrame) -> DataFrame:
    return found.groupBy(RUN).agg(F.collect_set("anomaly").alias("names"))
