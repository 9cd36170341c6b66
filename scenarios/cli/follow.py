"""`highwater report --follow`: shows leader, ISR, HW and lag of a running cluster, from its growing trace."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scenarios.cli.common import fail, must_hold_files
from scenarios.cli.spark import spark_or_fail
from scenarios.observe.wording import count_of
from scenarios.run.runs import RUNS_DIR
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import WaitingLine
from scenarios.terminal.safe_output import clear_screen

if TYPE_CHECKING:
    from spark_reports.follow import ClusterNow, InternalNow, PartitionNow, ReplicaNow

_MARK_EVERY_S = 2.0
PAGE = "follow.html"


def follow_run(name: str | None, out: Path | None) -> int:
    """Follow a run with Spark until it ends or Ctrl-C is pressed.

    Args:
        name: folder of a run, of its trace, or the --record folder of a `serve`; None for the `serve` that is running.
        out: folder for a page that is rewritten during the run; None for no page.
    """
    trace_dir = _trace_dir(name)
    if out is not None:
        must_hold_files(out)
    click.echo(f"  Following {trace_dir}. Ctrl-C ends this command, not the cluster.", err=True)
    with WaitingLine("starting Spark") as waiting:  # shown before Spark is imported, which takes a second or two
        return _follow(trace_dir, out, waiting)


def _follow(trace_dir: Path, out: Path | None, waiting: WaitingLine) -> int:
    from spark_reports.follow import FollowingFailed, follow
    from spark_reports.session import spark_session
    from spark_reports.settings import SMALL_TRACE_SETTINGS

    screen = _Screen(out, waiting)
    try:
        settings = {**SMALL_TRACE_SETTINGS, "spark.driver.memory": "512m"}
        with (
            _marked(trace_dir),
            spark_or_fail(),
            tempfile.TemporaryDirectory(prefix="highwater-") as scratch,
            spark_session(settings=settings) as spark,
        ):
            waiting.wait_for("Spark is looking for the first events of the trace")
            follow(spark, trace_dir, screen.tell, lambda: True, Path(scratch))
    except KeyboardInterrupt:
        return ExitCode.HELD
    except FollowingFailed as error:
        fail(f"the trace can no longer be followed: {error}", ExitCode.MISSING)
    finally:
        screen.end()
        waiting.end()
    click.echo("  The run has ended. For a full report: highwater report last", err=True)
    return ExitCode.HELD


@contextmanager
def _marked(trace_dir: Path) -> Iterator[None]:
    """Mark the trace as followed, and renew the mark until the block ends."""
    from scenarios.run.followed_trace import mark, unmark

    over = threading.Event()

    def keep_marked() -> None:
        # Ignore errors: a trace that this user may not write to grows without a mark, and a deleted one has ended.
        with suppress(OSError):
            mark(trace_dir)
            while not over.wait(_MARK_EVERY_S):
                mark(trace_dir)

    marker = threading.Thread(target=keep_marked, daemon=True)
    marker.start()
    try:
        yield
    finally:
        over.set()
        marker.join()
        with suppress(OSError):
            unmark(trace_dir)


def _trace_dir(name: str | None) -> Path:
    from scenarios.serve.control_place import NoCluster, find_cluster

    if name is not None:
        for folder in (Path(name), Path(name) / "trace"):
            if (folder / "control").is_dir() and (folder / "log").is_dir():
                return folder.resolve()
    try:
        serving = find_cluster(None if name is None else Path(name), RUNS_DIR)
    except NoCluster as error:
        fail(f"nothing to follow: {error}", ExitCode.USAGE, "name the folder of a trace, or start `highwater serve`")
    return Path(serving.trace)


class _Screen:
    """The output of `report --follow`: a table redrawn on a terminal, or else a line for each changed partition."""

    def __init__(self, out: Path | None, waiting: WaitingLine) -> None:
        """Create the screen.

        Args:
            out: folder of the page; None for no page.
            waiting: progress line on stderr, shown until the first state of the cluster arrives.
        """
        self._out = out
        self._waiting = waiting
        self._terminal = sys.stdout.isatty()
        self._told: dict[tuple[str, int], PartitionNow] = {}
        self._lock = threading.Lock()
        self._ended = False

    def tell(self, now: ClusterNow) -> None:
        from spark_reports.follow import users_and_internal

        partitions, internal = users_and_internal(now.partitions())
        with self._lock:
            if self._ended:
                return
            self._waiting.end()
            if self._terminal:
                room = shutil.get_terminal_size().lines - 3 - len(internal)
                lines = [line_of(partition) for partition in partitions]
                left_out = f"\n  {count_of(len(lines) - room, 'more partition')}" if len(lines) > room else ""
                apart = "".join(f"\n  {topic.in_words()}" for topic in internal)
                clear_screen(sys.stdout)
                click.echo(f"  {now.at_us / 1e6:.1f} s\n" + "\n".join(lines[:room]) + left_out + apart)
            else:
                for partition in partitions:
                    if self._told.get((partition.topic, partition.partition)) != partition:
                        click.echo(f"{now.at_us / 1e6:>9.1f} s{line_of(partition)}")
            self._told = {(partition.topic, partition.partition): partition for partition in partitions}
            if self._out is not None:
                _write_page(self._out, now.at_us, partitions, internal)

    def end(self) -> None:
        with self._lock:
            self._ended = True


def line_of(partition: PartitionNow) -> str:
    """Describe a partition in one line, such as `orders-0  ♛ b1 epoch 2  ISR b1,b2  HW 120  b1 LEO 130`."""
    leader = f"♛ {partition.leader}" if partition.leader else "no leader"
    isr = ",".join(partition.isr)
    shown = "–" if partition.high_watermark is None else f"{partition.high_watermark:,}"
    replicas = "  ".join(map(_replica, partition.replicas))
    name = f"{partition.topic}-{partition.partition}"
    return f"  {name:<16}  {leader} epoch {partition.leader_epoch}  ISR {isr}  HW {shown}  {replicas}"


def _replica(replica: ReplicaNow) -> str:
    end = "–" if replica.log_end_offset is None else f"{replica.log_end_offset:,}"
    behind = ""
    if replica.lag_records:
        since = "" if replica.lag_us is None else f", {replica.lag_us / 1e6:.1f} s"
        behind = f" ({replica.lag_records:,} behind{since})"
    return f"{replica.node} LEO {end}{behind}" + ("" if replica.running else " ▼ down")


def _write_page(out: Path, at_us: int, partitions: list[PartitionNow], internal: list[InternalNow]) -> None:
    """Write the page to a temporary file and rename it, so that a browser never loads an incomplete page."""
    from spark_reports.follow import render

    out.mkdir(parents=True, exist_ok=True)
    temporary = out / f".{PAGE}.tmp"
    temporary.write_text(render(at_us, partitions, internal), encoding="utf-8")
    temporary.replace(out / PAGE)
