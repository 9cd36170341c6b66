"""Spark against plain Python on the same traces: the definitions of the report mean what they say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_reports.io import read_trace
from spark_reports.tables import result_tables
from tests.spark import slow_truth as slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPARED = {
    "isr_intervals": ("topic", "partition", "node", "from_us", "until_us", "standing"),
    "unavailability": ("topic", "partition", "kind", "from_us", "until_us"),
    "replication_lag": (
        "topic", "partition", "leader", "follower", "at_us", "seq", "lag_records", "lag_us", "behind_us",
    ),
    "hw_stalls": ("topic", "partition", "leader", "from_us", "until_us", "high_watermark"),
    "data_at_risk": ("topic", "partition", "leader", "leader_epoch", "acks", "at_us", "at_risk_records"),
    "write_stalls": ("topic", "partition", "client", "from_us", "until_us", "recovered"),
    "read_stalls": ("topic", "partition", "client", "from_us", "until_us", "recovered"),
}  # fmt: skip


def told_slowly(run_dir: Path) -> dict[str, slow.Found]:
    rows = slow.rows_of(run_dir)
    leaders = slow.Leaders(rows)
    return {
        "isr_intervals": slow.isr_intervals(rows),
        "unavailability": slow.unavailability(rows),
        "replication_lag": leaders.lag,
        "hw_stalls": leaders.stalls,
        "data_at_risk": {(*key, number) for key, number in leaders.risk.items()},
        "write_stalls": slow.write_stalls(rows),
        "read_stalls": slow.read_stalls(rows),
    }


def differences(spark: SparkSession, run_dirs: Sequence[Path]) -> list[str]:
    """What Spark, asked once for all runs, finds and plain Python does not (+), and the reverse (-)."""
    tables = result_tables(read_trace(spark, run_dirs))
    found: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for name, columns in COMPARED.items():
        for row in tables[name].select("run", *columns).toArrow().to_pylist():
            found[row.pop("run"), name].add(tuple(row.values()))
    said = []
    for run_dir in run_dirs:
        for name, truth in told_slowly(run_dir).items():
            spark_says = found[run_dir.name, name]
            said += [f"{run_dir.name} {name} + {row}" for row in sorted(spark_says - truth, key=str)]
            said += [f"{run_dir.name} {name} - {row}" for row in sorted(truth - spark_says, key=str)]
    return said
