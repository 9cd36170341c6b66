"""A trace read while it grows."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from scenarios.cli.follow import _Screen
from scenarios.terminal.progress import WaitingLine
from scenarios.terminal.safe_output import SafeOutput
from spark_reports.follow import (
    ClusterNow,
    InternalNow,
    PartitionNow,
    ReplicaNow,
    follow,
    render,
    users_and_internal,
)

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


@pytest.mark.soak
def test_a_followed_trace_tells_how_it_stands_and_ends_with_its_folder(
    spark: SparkSession, leader_kill_dir: Path, tmp_path: Path
) -> None:
    """The run is played to its end; when its folder is taken away, as at the end of a live run, following ends too."""
    trace_dir = tmp_path / "run" / "trace"
    shutil.copytree(leader_kill_dir / "trace", trace_dir)
    (trace_dir / "log" / ".part-00009.parquet.tmp").write_bytes(b"half a file")
    told: list[list[Any]] = []

    def tell(now: ClusterNow) -> None:
        told.append(now.partitions())

    def keep_on() -> bool:
        if told:
            shutil.move(trace_dir, tmp_path / "kept")
        return True

    follow(spark, trace_dir, tell, keep_on, tmp_path / "scratch")
    (partition,) = told[0]
    assert (partition.topic, partition.partition, partition.leader) == ("t", 0, "b2")
    assert sorted(partition.isr) == ["b1", "b2", "b3"]
    ends = {replica.node: replica.log_end_offset for replica in partition.replicas}
    assert set(ends.values()) == {partition.high_watermark}
    assert {replica.lag_records for replica in partition.replicas if replica.node != "b2"} == {0}


@pytest.mark.soak
def test_a_trace_that_grows_is_told_as_it_stands_each_time(
    spark: SparkSession, leader_kill_dir: Path, tmp_path: Path
) -> None:
    """b1 dies and b2 is elected at 14 s: first the events until then are there, then the others as well."""
    trace_dir, later = tmp_path / "trace", tmp_path / "later"
    _split(leader_kill_dir / "trace", trace_dir, later, at_us=14_000_000)
    told: list[tuple[int, PartitionNow]] = []

    def tell(now: ClusterNow) -> None:
        told.append((now.at_us, now.partitions()[0]))
        # Whole tables appear by renaming, as the trace's writer has it.
        for part in later.glob("*/*.parquet"):
            part.rename(trace_dir / part.parent.name / part.name)

    def keep_on() -> bool:
        return not told or told[-1][0] < 20_000_000

    follow(spark, trace_dir, tell, keep_on, tmp_path / "scratch")
    first, last = told[0], told[-1]
    assert first[0] < 14_000_000 and [part.leader for _, part in (first, last)] == ["b1", "b2"]
    assert [replica.running for replica in first[1].replicas] == [False, True, True]
    assert first[1].isr == ("b1", "b2", "b3") and sorted(last[1].isr) == ["b1", "b2", "b3"]
    assert [replica.running for replica in last[1].replicas] == [True, True, True]
    assert (first[1].leader_epoch, last[1].leader_epoch) == (0, 1)


def _split(trace_dir: Path, earlier: Path, later: Path, at_us: int) -> None:
    for part in sorted(trace_dir.glob("*/part-*.parquet")):
        table = pq.read_table(part)
        is_early = pc.less(table["at_us"], at_us)
        for number, (folder, wanted) in enumerate([(earlier, is_early), (later, pc.invert(is_early))]):
            (folder / part.parent.name).mkdir(parents=True, exist_ok=True)
            pq.write_table(table.filter(wanted), folder / part.parent.name / f"{part.stem}{number}.parquet")


def test_what_is_older_does_not_undo_what_is_newer() -> None:
    """Tables arrive apart: an append may be read after the truncation that followed it."""

    def row(node: str, **values: tuple[int, Any]) -> dict[str, Any]:
        names = (
            "leader", "leader_epoch", "isr", "log_end_offset", "high_watermark", "fetch_offset", "caught_up_us",
            "stopped",
        )  # fmt: skip
        filled = {name: {"seq": value[0], "value": value[1]} for name, value in values.items()}
        where = {"topic": "t", "partition": 0, "node": node, "at_us": 9, "deleted": None}
        return where | dict.fromkeys(names) | filled

    now = ClusterNow()
    now.take([row("", leader=(1, "b1"), leader_epoch=(1, 0), isr=(1, ["b1", "b2"])), row("b1", log_end_offset=(8, 10))])
    now.take([row("b1", log_end_offset=(5, 15)), row("b2", fetch_offset=(7, 7), caught_up_us=(3, 4))])
    (partition,) = now.partitions()
    assert [replica.log_end_offset for replica in partition.replicas] == [10, None]
    assert (partition.replicas[1].lag_records, partition.replicas[1].lag_us) == (3, 5)


def test_internal_topics_are_counted_and_the_page_says_in_words_who_is_behind() -> None:
    def replica(node: str, end: int, lag: int | None = None, *, running: bool = True) -> ReplicaNow:
        return ReplicaNow(node, end, 3, lag, None if lag is None else lag * 100_000, running)

    def partition(topic: str, number: int, leader: str | None, *replicas: ReplicaNow) -> PartitionNow:
        return PartitionNow(topic, number, leader, 4, ("b1", "b2"), 3, replicas)

    mine = partition("<t>", 0, "b1", replica("b1", 1234), replica("b2", 1234, 0), replica("b3", 5, 12, running=False))
    offsets = [
        partition("__consumer_offsets", 0, "b1", replica("b1", 1)),
        partition("__consumer_offsets", 1, "b3", replica("b3", 1, running=False)),
        partition("__consumer_offsets", 2, None, replica("b1", 1)),
    ]
    users, internal = users_and_internal([*offsets, mine])
    assert (users, internal) == ([mine], [InternalNow("__consumer_offsets", 3, 2)])
    page = render(4_200_000, users, internal)
    assert "After 4.2 s" in page and "&lt;t&gt;-0" in page and "<t>" not in page
    assert "♛ leader" in page and "✕ out of sync, ▼ down" in page and "12 records, 1.2 s" in page
    assert "__consumer_offsets: 3 partitions, 2 without a running leader" in page


def test_a_terminal_is_cleared_for_each_screen_although_the_output_spells_control_characters_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", SafeOutput(terminal))
    screen = _Screen(None, WaitingLine("Spark starts"))
    for at_us in (100_000, 2_000_000):
        now = ClusterNow()
        now.at_us = at_us
        screen.tell(now)
    assert terminal.getvalue() == "\x1b[H\x1b[J  0.1 s\n\n\x1b[H\x1b[J  2.0 s\n\n"
