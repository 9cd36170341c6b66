"""Read the heading of a run: title and question of its scenario, and its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from spark_reports.report.dashboard import DashboardShown, dashboard_of
from spark_reports.report.rows import Row, Rows
from spark_reports.report.words import acks_name, joined

Tables = Mapping[str, Rows]


class Heading(NamedTuple):
    """Title and question of a run's scenario, empty if the run's folder has none.

    Attributes:
        is_watched: True if the run is a real cluster observed by `highwater watch`, without its clients.
        waits: intervals in which a client wrote or read nothing, with their causes, from summary.json.
        dashboard: what alerts on Kafka's metrics would have shown, None if summary.json has no dashboard.
    """

    title: str = ""
    question: str = ""
    is_watched: bool = False
    waits: Sequence[Mapping[str, Any]] = ()
    dashboard: DashboardShown | None = None


def heading_of(run_dir: Path) -> Heading:
    """Return a run's heading from summary.json and scenario.lock.yaml, an empty one if either cannot be read."""
    try:
        summary: Any = json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))
        scenario: Any = yaml.safe_load((run_dir / "scenario.lock.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return Heading()
    if not isinstance(summary, dict) or not isinstance(scenario, dict):
        return Heading()
    question = " ".join(str(scenario.get("question") or "").split())
    title, waits = str(summary.get("title") or ""), summary.get("waits") or ()
    return Heading(title, question, "watched" in summary, waits, dashboard_of(summary))


def settings(run: Row, tables: Tables) -> dict[str, str]:
    """Return a run's settings, such as acks and seed, as text by name.

    `run` is a row of runs; `tables` has that run's rows of record_counts and partition_states.
    """
    acks = sorted(set(tables["record_counts"].values("acks")), key=lambda level: level if level >= 0 else 2)
    states = tables["partition_states"]

    def of_topics(column: str) -> str:
        found = sorted(set(states.values(column)))
        return joined([str(value) for value in found]) or "–"

    partitions = len(set(zip(states.values("topic"), states.values("partition"), strict=True)))
    return {
        "acks": joined([acks_name(level).removeprefix("acks=") for level in acks]) or "–",
        "replication factor": of_topics("replication_factor"),
        "min.insync.replicas": of_topics("min_isr"),
        "era": run["profile"],
        "seed": str(run["seed"]),
        "partitions": str(partitions),
    }
