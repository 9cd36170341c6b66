"""The output of `highwater read` as text of 80 columns: directories, partitions, and differences between replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica.ids import LeaderEpoch, Offset
from replica.wording import listed
from scenarios.logdirs.comparison import LogDifference, Side, samples
from scenarios.logdirs.directory import LogDirectory
from scenarios.logdirs.files import path_text
from scenarios.logdirs.reading import FollowerReading, PartitionReading, Reading
from scenarios.logdirs.replica_log import StoredReplica
from scenarios.logdirs.returning import old_formats, starting
from scenarios.observe.wording import count_of
from scenarios.terminal.style import Style, folded, table_lines

WIDTH = 80
FOLDED_FROM = 10
"""From this number of partitions on, partitions without a problem are only listed by name."""
DAMAGES_SHOWN = DIFFERENCES_SHOWN = NOTES_SHOWN = 5
EPOCHS_SHOWN = 6
SEGMENTS_SHOWN = 8


def reading_text(reading: Reading, style: Style, profile: str, *, verbose: bool) -> str:
    """Return the whole output of `highwater read`.

    Args:
        profile: name of the era of Kafka whose rules decide what a returning follower truncates.
        verbose: describe every partition in full.
    """
    lines = [line for directory in reading.directories for line in _directory(directory, reading)]
    for note in reading.notes:
        lines += _wrapped(f"{style.sign('note')} {note}", 2)
    if not reading.partitions:
        lines += ["", "  No partitions found."]
    fold = len(reading.partitions) >= FOLDED_FROM and not verbose
    folded = [partition for partition in reading.partitions if fold and _is_sound(partition)]
    for partition in reading.partitions:
        if partition not in folded:
            lines += _partition(partition, style, profile, verbose)
    if folded:
        lines += ["", f"  No problems: equal logs on all brokers, or on one broker only (-v shows all {len(folded)}):"]
        names = ", ".join(f"{item.topic_partition} (LEO {item.leader.log_end_offset})" for item in folded)
        lines += _wrapped(names, 4)
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: int, hanging: int = 2) -> list[str]:
    first, rest = " " * indent, " " * (indent + hanging)
    return folded(text, WIDTH, first, rest)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


# ------------------------------------------------------------------------------------------------------- directories


def _directory(directory: LogDirectory, reading: Reading) -> Iterator[str]:
    yield from _wrapped(f"broker {directory.node}  {path_text(directory.path)}", 2, 4)
    facts = "not stopped cleanly (no .kafka_cleanshutdown); it will check its logs when it starts"
    if directory.was_clean:
        facts = "stopped cleanly (.kafka_cleanshutdown)"
    if directory.locked:
        facts = "running (it holds the lock); records that it appends now are not read"
    elif any(
        replica.moved for part in reading.partitions for replica in part.replicas if replica.directory is directory
    ):
        facts = "running (its files changed); records that it appends now are not read"
    if directory.cluster_id is not None:
        facts += f"; cluster {directory.cluster_id}"
    yield from _wrapped(facts, 4)
    for note in directory.notes[:NOTES_SHOWN]:
        yield from _wrapped(note, 4)
    if directory.left_out:
        shown = ", ".join(directory.left_out[:NOTES_SHOWN]) + (", ..." if len(directory.left_out) > NOTES_SHOWN else "")
        yield from _wrapped(f"ignored, because these are not partitions: {shown}", 4)


# --------------------------------------------------------------------------------------------------------- partitions


def _is_sound(partition: PartitionReading) -> bool:
    damaged = any(
        replica.damage_count or replica.moved or replica.start.cut_bytes or replica.old_formats
        for replica in partition.replicas
    )
    different = any(follower.comparison.count or follower.cut_offsets for follower in partition.followers)
    return not (damaged or different or partition.notes)


def _partition(partition: PartitionReading, style: Style, profile: str, verbose: bool) -> Iterator[str]:
    ids = sorted({replica.files.topic_id for replica in partition.replicas if replica.files.topic_id})
    yield ""
    # The length of a name is bounded, so only the topic id can make the line too long.
    yield from _wrapped(style.bold(str(partition.topic_partition)) + f"  topic id {', '.join(ids) or '-'}", 2)
    yield from _table(partition, style)
    for note in partition.notes:
        yield from _wrapped(f"{style.sign('note')} {note}", 2)
    for replica in partition.replicas:
        yield from _replica(replica, style, verbose)
    if partition.is_assumed and partition.followers:
        why = "assumed from the newest epoch, then the longest log; choose another with --leader"
        yield from _wrapped(f"leader: broker {partition.leader.node} ({why})", 2)
    for follower in partition.followers:
        yield from _follower(partition.leader, follower, style, profile)


def _table(partition: PartitionReading, style: Style) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("broker", "start", "LEO", "HW", "recovery", "segments", "batches", "records", "bytes")
    ]
    for replica in partition.replicas:
        leads = " leads" if replica is partition.leader and partition.followers else ""
        offsets = (replica.log_start_offset, replica.log_end_offset, replica.high_watermark, replica.recovery_point)
        counts = (len(replica.segments), replica.batches, replica.records, replica.size)
        rows.append((replica.node[:20] + leads, *map(_number, (*offsets, *counts))))
    numbers = range(1, len(rows[0]))
    lines = table_lines(rows, numbers, indent="    ")
    if max(map(len, lines)) > WIDTH:
        lines = table_lines(rows, numbers, indent="    ", gap=" ")
    for row, line in zip(rows, lines, strict=True):
        # Offsets of nineteen digits do not fit, so such a row takes several lines.
        yield from [line] if len(line) <= WIDTH else _wrapped(" ".join(row), 4)


def _replica(stored_replica: StoredReplica, style: Style, verbose: bool) -> Iterator[str]:
    name = f"broker {stored_replica.node}"
    yield from _wrapped(f"{name}: {_epochs(stored_replica.files.leader_epochs)}", 4)
    if stored_replica.files.snapshots:
        damaged = sum(snapshot.producers is None for snapshot in stored_replica.files.snapshots)
        offsets = ", ".join(str(snapshot.offset) for snapshot in stored_replica.files.snapshots[-SEGMENTS_SHOWN:])
        bad = f"; {damaged} damaged" if damaged else ""
        yield from _wrapped(f"{name}: producer snapshots at {offsets}{bad}", 4)
    if len(stored_replica.segments) > 1 or verbose:
        shown = stored_replica.segments if verbose else stored_replica.segments[-SEGMENTS_SHOWN:]
        words = [f"{segment.base_offset} ({count_of(segment.size, 'byte')})" for segment in shown]
        left = len(stored_replica.segments) - len(shown)
        earlier = f"; before these, {count_of(left, 'segment')} not shown" if left else ""
        yield from _wrapped(f"{name}: segments from offset {', '.join(words)}{earlier}", 4)
    for note in (*stored_replica.files.notes[:NOTES_SHOWN], *((stored_replica.moved,) if stored_replica.moved else ())):
        yield from _wrapped(f"{name}: {note}", 4)
    for damage in stored_replica.damages[:DAMAGES_SHOWN]:
        where = f"{damage.file.path.name} at byte {damage.position:,}"
        rest = f"; {count_of(damage.rest, 'byte')} not read" if damage.rest else ""
        text = f"{style.sign('bad')} {name}: damage in {where}, after offset {damage.cut_to - 1}: {damage.why}{rest}"
        yield from _wrapped(text, 4)
    more = stored_replica.damage_count - DAMAGES_SHOWN
    if more > 0:
        yield f"      {count_of(more, 'more damaged place')} (--format json shows all)"
    if (old := old_formats(stored_replica)) is not None:
        yield from _wrapped(f"{style.sign('note')} {name}: {old}", 4)
    if not stored_replica.is_live:
        yield from _wrapped(f"{name}: {'; '.join(starting(stored_replica))}", 4)


def _epochs(entries: Sequence[tuple[LeaderEpoch, Offset]] | None) -> str:
    if not entries:
        return "no leader epochs"
    shown = ", ".join(f"{epoch} from offset {start}" for epoch, start in entries[-EPOCHS_SHOWN:])
    left = len(entries) - EPOCHS_SHOWN
    return f"leader epochs: {shown}" + (f"; before these, {count_of(left, 'epoch')} not shown" if left > 0 else "")


# -------------------------------------------------------------------------------------------------------- differences


def _follower(leader: StoredReplica, follower: FollowerReading, style: Style, profile: str) -> Iterator[str]:
    item, comparison = follower.replica, follower.comparison
    me, it = f"broker {item.node}", f"broker {leader.node}"
    parts = comparison.parts_at
    if parts is not None:
        epochs = f"{_epoch_words(parts.replica)} on {me}, {_epoch_words(parts.leader)} on {it}"
        yield from _wrapped(f"{style.sign('lost')} {me} and {it} diverge at offset {parts.start}: {epochs}", 2)
    elif unread := _unread(leader, item):
        text = f"{me} and {it} are compared only where both can be read, because {unread}"
        yield from _wrapped(f"{style.sign('note')} {text}", 2)
    elif comparison.count:
        yield from _wrapped(f"{me} and {it} have the same records where both have records", 2)
    elif item.is_damaged or leader.is_damaged or follower.diverges or follower.cut_offsets:
        yield from _wrapped(f"{me} has the same records as {it}", 2)
    else:
        yield from _wrapped(f"{style.sign('good')} {me} has the same log as {it}", 2)
    if comparison.compared_from > max(item.log_start_offset, leader.log_start_offset):
        yield from _wrapped(
            f"compared only from offset {comparison.compared_from}: the log below {_below(leader, item)}", 4
        )
    for difference in comparison.differences[:DIFFERENCES_SHOWN]:
        yield from _difference(difference, me, it)
    if comparison.count > DIFFERENCES_SHOWN:
        yield f"    {count_of(comparison.count - DIFFERENCES_SHOWN, 'more difference')} (--format json shows all)"
    yield from _return(follower, me, style, profile)


def _unread(*logs: StoredReplica) -> str:
    """Return the reason why logs can be compared only in part; empty if they can be compared as a whole."""
    damaged = [f"broker {log.node}" for log in logs if log.damage_count]
    old = [f"broker {log.node}" for log in logs if log.old_formats]
    words = [f"{listed(damaged)} {'is' if len(damaged) == 1 else 'are'} damaged"] if damaged else []
    return listed([*words, *([f"{listed(old)} {'has' if len(old) == 1 else 'have'} old formats"] if old else [])])


def _below(*logs: StoredReplica) -> str:
    has_old = max(log.read_from for log in logs) >= max(log.cleaned_to for log in logs)
    return "has an old message format" if has_old else "is compacted"


def _epoch_words(side: Side) -> str:
    assert side.epochs is not None, "only a side that has something is asked"
    low, high = side.epochs
    return f"epoch {low}" if low == high else f"epochs {low} to {high}"


def _difference(log_difference: LogDifference, me: str, it: str) -> Iterator[str]:
    offsets = (
        f"offset {log_difference.start}"
        if log_difference.end == log_difference.start + 1
        else f"offsets {log_difference.start} to {log_difference.end - 1}"
    )
    sides = [(me, log_difference.replica), (it, log_difference.leader)]
    having = [(name, side) for name, side in sides if side.epochs is not None]
    words = listed([f"{count_of(side.records, 'record')} of {_epoch_words(side)} on {name}" for name, side in having])
    only = "only " if len(having) == 1 else ""
    yield from _wrapped(f"{offsets}: {only}{words}", 4)
    for name, side in having:
        for offset, key, value in samples(log_difference, side):
            shown = "null" if value is None else value
            yield from _wrapped(f"{name}  {offset}  {'' if key is None else key + ' = '}{shown}", 6)
        if side.records > len(samples(log_difference, side)) > 0:
            yield f"      {name}  ..."


def _return(follower: FollowerReading, me: str, style: Style, profile: str) -> Iterator[str]:
    returns = follower.returns
    for step in returns.steps[:NOTES_SHOWN]:
        yield from _wrapped(f"on return, by the rules of {profile}: {step}", 4)
    if returns.gives_up is not None:
        yield from _wrapped(f"{style.sign('bad')} {me} never follows: {returns.gives_up}", 4)
    elif not follower.cut_offsets:
        yield from _wrapped(f"on return, {me} truncates nothing", 4)
    else:
        below = follower.cut_below_high_watermark
        committed = f", {below:,} of them below its own HW, which it takes for committed" if below else ""
        yield from _wrapped(f"{style.sign('lost')} {me} loses {count_of(follower.cut_offsets, 'offset')}{committed}", 4)
    if follower.kept_apart is not None and returns.gives_up is None:
        kept = f"{me} keeps records from offset {follower.kept_apart} on that differ from the leader's for good"
        yield from _wrapped(f"{style.sign('lost')} {kept}", 4)
