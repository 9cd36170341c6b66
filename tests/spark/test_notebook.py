"""The notebook's code runs as it stands, and its answers are what its words say."""

from __future__ import annotations

import runpy
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]


def rows(answer: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """With the run's name without its number."""
    return sorted((row["run"][5:], *(row[name] for name in columns)) for row in answer.collect())


def test_five_questions_are_answered(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = str(files("spark_reports.notebook").joinpath("five_questions.py"))
    said = runpy.run_path(notebook, init_globals={"spark": spark})
    assert rows(said["unreadable"], "acks", "unreadable") == [("acks1-leader-kill", 1, "r10, r11, r12, r13, r14")]
    pinned = {row["run"][5:]: row["pinned_by"] for row in said["held"].filter("stood_s > 30").collect()}
    assert pinned == {"follower-cut-hw-stall": ["b3"]}
    assert {run for run, waited_s in rows(said["waited"], "waited_s") if float(str(waited_s)) > 30} == set(pinned)
    changes = dict(rows(said["flapping"], "isr_changes"))
    assert changes["flapping-isr-default"] == 0 < changes["flapping-isr"]
    assert rows(said["zombies"], "acked_by", "leader", "acks") == [("zombie-leader-acks1", "b1", "b2", 1)]
    assert rows(said["lost"], "record") == [("kip101-hw-truncation-loss", "r1")]
    # From a shell each table stands under its question.
    printed = capfd.readouterr().out
    asked = [line for line in printed.splitlines() if line[:2] in ("1.", "2.", "3.", "4.", "5.", "  ")]
    assert [line[:2] for line in asked] == ["1.", "2.", "  ", "3.", "4.", "5.", "  "]
    assert printed.count("only showing") == 0 and all(f"{line}\n\n+-" in printed for line in asked)
