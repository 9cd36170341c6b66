"""`highwater read DIR...`: reads log directories of Kafka brokers and compares their replicas."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replica.rules import DEFAULT_PROFILE, PROFILES
from scenarios.cli.common import fail, format_option, must_hold_files, plain_option, print_json, style_for_stdout
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from scenarios.logdirs.directory import LogDirectory
    from scenarios.logdirs.reading import Reading
    from scenarios.logdirs.replica_log import OnBatch, ReplicaPlace
    from scenarios.logdirs.segment_scan import StoredBatch


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option(
    "--leader", metavar="NODE", help="Broker to take as leader; by default that of the newest epoch, then longest log."
)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Topic to read; repeatable; default: all.")
@click.option(
    "--profile",
    metavar="ERA",
    default=DEFAULT_PROFILE,
    show_default=True,
    help="Era whose rules decide what a follower truncates.",
)
@click.option(
    "--parquet",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write Parquet tables, as for Spark, to this folder.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show all partitions in full, even without problems.")
@format_option
@plain_option
def read(
    directories: tuple[Path, ...],
    leader: str | None,
    topics: tuple[str, ...],
    profile: str,
    parquet: Path | None,
    verbose: bool,
    format_: str,
    plain: bool,
) -> int:
    """Read the log directories DIR of Kafka brokers, one or more for each broker. Show offsets, leader epochs, segments
    and damage, where replicas diverge, and what a returning follower would truncate.

    The exit code is 1 if a log is damaged, or if replicas contradict each other.

    Nothing is written into the directories, and no lock is taken. It is best to stop the brokers first. Later appends
    of a running broker are ignored; if it deletes or truncates records meanwhile, the output notes that.
    """
    from scenarios.cli.read.screen import reading_text
    from scenarios.logdirs.files import LogDirectoryUnreadable
    from scenarios.logdirs.reading import open_all
    from scenarios.logdirs.tables import tables

    if profile not in PROFILES:
        raise click.UsageError(f"--profile: there is no era `{profile}`; choose one of {', '.join(PROFILES)}")
    if parquet is not None:
        _must_lie_outside(parquet, directories)
        must_hold_files(parquet, "--parquet")
    try:
        opened = open_all(directories)
        _must_be_there(opened, leader, topics)
        reading = _read(opened, leader, topics, profile, parquet)
        if format_ == "json":
            found = {"profile": profile, "sound": reading.is_sound, "notes": list(reading.notes)}
            print_json({**found, **tables(reading)})
        else:
            style = style_for_stdout(plain)
            click.echo(reading_text(reading, style, profile, verbose=verbose), nl=False)
    except LogDirectoryUnreadable as error:
        fail(str(error), ExitCode.USAGE, error.fix)
    if parquet is not None:
        click.echo(f"  The tables are in {parquet}", err=True)
    return ExitCode.HELD if reading.is_sound else ExitCode.EXPECTATION_FAILED


def _must_lie_outside(folder: Path, directories: Sequence[Path]) -> None:
    """End the command with an error if the tables would be written into a broker's log directory."""
    for directory in directories:
        if folder.resolve().is_relative_to(directory.resolve()):
            fail(
                f"{folder} is inside {directory}, where nothing may be written",
                ExitCode.USAGE,
                "choose another --parquet FOLDER",
            )


def _must_be_there(opened: Sequence[LogDirectory], leader: str | None, topics: Sequence[str]) -> None:
    nodes = sorted({directory.node for directory in opened})
    if leader is not None and leader not in nodes:
        fail(f"no directory belongs to broker {leader}", ExitCode.USAGE, f"choose --leader from {', '.join(nodes)}")
    there = sorted({name.topic for directory in opened for name in directory.partitions})
    for topic in topics:
        if topic not in there:
            fail(
                f"no directory has the topic {topic}",
                ExitCode.USAGE,
                f"choose --topic from {', '.join(there) or 'none'}",
            )


def _read(
    opened: Sequence[LogDirectory], leader: str | None, topics: Sequence[str], profile: str, parquet: Path | None
) -> Reading:
    from scenarios.logdirs import reading

    rules = PROFILES[profile]
    with ExitStack() as stack:
        line = stack.enter_context(ProgressLine("read"))
        if parquet is None:
            progress = _progress(opened, topics, line, None)
            return reading.read(opened, topics=topics, leader=leader, rules=rules, on_batch=progress)
        from scenarios.logdirs.parquet import ParquetTables

        try:
            written = stack.enter_context(ParquetTables(parquet))
            progress = _progress(opened, topics, line, written.add_batch)
            found = reading.read(opened, topics=topics, leader=leader, rules=rules, on_batch=progress)
            written.write(found)
        except OSError as error:
            fail(f"{parquet} cannot be written: {error.strerror}", ExitCode.MISSING, "choose another --parquet FOLDER")
        return found


def _progress(
    opened: Sequence[LogDirectory], topics: Sequence[str], line: ProgressLine, then: OnBatch | None
) -> OnBatch:
    total = sum(
        segment.size
        for directory in opened
        for name, files in directory.partitions.items()
        if not topics or name.topic in topics
        for segment in files.segments
    )
    done = 0

    def on_batch(replica_place: ReplicaPlace, batch: StoredBatch) -> None:
        nonlocal done
        done += batch.header.size_bytes
        line.show(min(1.0, done / max(total, 1)), f"broker {replica_place.node} {replica_place.topic_partition}")
        if then is not None:
            then(replica_place, batch)

    return on_batch
