"""What a run is about: the title and the question of its scenario, and the settings that its trace shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from spark_reports.report.rows import Row, Rows
from spark_reports.report.words import acks_name, joined

Tables = Mapping[str, Rows]


class Heading(NamedTuple):
    """Of the scenario; both empty where the run's folder has neither.

    is_watched: it is a cluster that was only watched, without its clients
    """

    title: str = ""
    question: str = ""
    is_watched: bool = False


def heading_of(run_dir: Path) -> Heading:
    """From summary.json and scenario.lock.yaml, if they are there and can be read."""
    try:
        summary: Any = json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))
        scenario: Any = yaml.safe_load((run_dir / "scenario.lock.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return Heading()
    if not isinstance(summary, dict) or not isinstance(scenario, dict):
        return Heading()
    question = " ".join(str(scenario.get("question") or "").split())
    return Heading(str(summary.get("title") or ""), question, "watched" in summary)


def settings(run: Row, tables: Tables) -> dict[str, str]:
    """Name and value of each. in: a row of runs, and that run's rows of record_counts and partition_states"""
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
