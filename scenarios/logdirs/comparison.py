"""Compares two replicas of a partition by their batches' offsets, leader epochs and CRCs.

Followers copy a leader's batches byte for byte, so equal batches have equal CRCs. Batches that the log cleaner has
rewritten are left out, because each broker compacts its own log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from replica.errors import KafkaError
from replica.ids import LeaderEpoch, Offset
from replica.log.batches.records import read_records
from replica.wording import spelt_out
from scenarios.logdirs.files import LogDirectoryUnreadable, open_to_read, readable
from scenarios.logdirs.replica_log import StoredReplica
from scenarios.logdirs.segment_scan import StoredBatch, scan

DIFFERENCES_MAX = 1000
"""Largest number of differences that are kept per pair of replicas. Further differences are only counted."""
BATCHES_SHOWN_MAX = 8
"""Largest number of batches that are kept for each side of a difference, to show the side's first records."""


@dataclass(slots=True)
class Side:
    """The batches of one replica in a range of offsets in which two logs differ.

    Attributes:
        records: number of records in the batches.
        epochs: lowest and highest leader epoch, None if there are no batches.
        batches: the first BATCHES_SHOWN_MAX batches.
    """

    records: int = 0
    epochs: tuple[LeaderEpoch, LeaderEpoch] | None = None
    batches: list[StoredBatch] = field(default_factory=list)
    counted: Offset = -1
    """Base offset of the last counted batch. It prevents that a batch counts twice if it is added in two pieces."""

    def add(self, batch: StoredBatch) -> None:
        epoch = batch.header.leader_epoch
        low, high = self.epochs or (epoch, epoch)
        self.epochs = (min(low, epoch), max(high, epoch))
        if batch.header.base_offset > self.counted:
            self.counted = batch.header.base_offset
            self.records += batch.header.record_count
            if len(self.batches) < BATCHES_SHOWN_MAX:
                self.batches.append(batch)


@dataclass(slots=True)
class LogDifference:
    """A range of offsets [start, end) in which the two logs differ."""

    start: Offset
    end: Offset
    leader: Side
    replica: Side

    @property
    def kind(self) -> str:
        if self.leader.epochs is None:
            return "only-on-replica"
        return "only-on-leader" if self.replica.epochs is None else "different"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogComparison:
    """The result of comparing two logs.

    Attributes:
        compared_from: first compared offset. Both logs have started, are not compacted, and have no old message
            formats from there on.
        differences: the first DIFFERENCES_MAX differences, in order.
        count: number of all differences.
    """

    compared_from: Offset
    differences: tuple[LogDifference, ...]
    count: int

    @property
    def parts_at(self) -> LogDifference | None:
        """The first offsets at which both logs have batches and these differ, None if there are none."""
        return next((difference for difference in self.differences if difference.kind == "different"), None)


def compare(leader: StoredReplica, replica: StoredReplica) -> LogComparison:
    """Compare the logs of two replicas of a partition. Raises LogDirectoryUnreadable."""
    start = max(
        leader.log_start_offset,
        replica.log_start_offset,
        leader.cleaned_to,
        replica.cleaned_to,
        leader.read_from,
        replica.read_from,
    )
    found = _Differences()
    for low, high, of_leader, of_replica in _pieces(_batches(leader, start), _batches(replica, start), start):
        found.add(low, high, of_leader, of_replica)
    return LogComparison(compared_from=start, differences=tuple(found.kept), count=found.count)


def _batches(log: StoredReplica, start: Offset) -> Iterator[StoredBatch]:
    """Yield the batches with offsets from `start` on, in order, including damaged batches with readable offsets."""
    files = log.files.segments
    reached = start
    for index, file in enumerate(files):
        if index + 1 < len(files) and files[index + 1].base_offset <= start:
            continue
        try:
            for batch, _, _ in scan(file, check=False):
                if batch is not None and batch.header.last_offset >= reached:
                    reached = batch.header.last_offset + 1
                    yield batch
        except FileNotFoundError:
            continue  # A running broker has deleted the file. `read_replica` has already noted this.


_Piece = tuple[Offset, Offset, StoredBatch | None, StoredBatch | None]


def _pieces(left: Iterator[StoredBatch], right: Iterator[StoredBatch], start: Offset) -> Iterator[_Piece]:
    """Yield (start, end, left batch, right batch) for each range of offsets in which the logs differ, in order.

    A batch is None if its log has no records in the range.
    """
    item, two, at = next(left, None), next(right, None), start
    while item is not None or two is not None:
        if item is not None and two is not None and _same(item, two):
            at, item, two = item.header.last_offset + 1, next(left, None), next(right, None)
            continue
        first = min(batch.header.base_offset for batch in (item, two) if batch is not None)
        at = max(at, first)
        here_one = item if item is not None and item.header.base_offset <= at else None
        here_two = two if two is not None and two.header.base_offset <= at else None
        ends = [batch.header.last_offset + 1 for batch in (here_one, here_two) if batch is not None]
        begins = [b.header.base_offset for b in (item, two) if b is not None and b.header.base_offset > at]
        end = min(ends + begins)
        yield at, end, here_one, here_two
        at = end
        if item is not None and item.header.last_offset < at:
            item = next(left, None)
        if two is not None and two.header.last_offset < at:
            two = next(right, None)


def _same(stored_batch: StoredBatch, two: StoredBatch) -> bool:
    a, b = stored_batch.header, two.header
    return (a.base_offset, a.last_offset, a.leader_epoch, a.crc) == (
        b.base_offset,
        b.last_offset,
        b.leader_epoch,
        b.crc,
    )


class _Differences:
    """Collects differences, and merges adjacent ranges if the same sides have batches in them."""

    def __init__(self) -> None:
        self.kept: list[LogDifference] = []
        self.count = 0
        self._last: LogDifference | None = None

    def add(self, start: Offset, end: Offset, leader: StoredBatch | None, replica: StoredBatch | None) -> None:
        last = self._last
        if last is None or last.end != start or _kind(last) != (leader is None, replica is None):
            last = self._last = LogDifference(start, end, Side(), Side())
            self.count += 1
            if len(self.kept) < DIFFERENCES_MAX:
                self.kept.append(last)
        last.end = end
        if leader is not None:
            last.leader.add(leader)
        if replica is not None:
            last.replica.add(replica)


def _kind(difference: LogDifference) -> tuple[bool, bool]:
    return difference.leader.epochs is None, difference.replica.epochs is None


# -------------------------------------------------------------------------------------------------------------- samples
#
# The first records of a difference as short printable texts.

RECORDS_MAX = 3
TEXT_MAX = 40
BATCH_BYTES_MAX = 4 << 20
INSIDE_BYTES_MAX = 16 << 20
"""Largest decompressed size of a batch that is read, since its records are held in memory."""


class Sample(NamedTuple):
    """A record as printable text. `key` and `value` are None if the record has none."""

    offset: Offset
    key: str | None
    value: str | None


def samples(difference: LogDifference, side: Side) -> list[Sample]:
    """Return the first RECORDS_MAX records of one side of a difference."""
    found: list[Sample] = []
    for batch in side.batches:
        found += [sample for sample in _records(batch) if difference.start <= sample.offset < difference.end]
        if len(found) >= RECORDS_MAX:
            break
    return found[:RECORDS_MAX]


def _records(batch: StoredBatch) -> list[Sample]:
    """Return the records of a batch, or [] if they cannot be read or the batch is too large."""
    if batch.header.size_bytes > BATCH_BYTES_MAX or batch.header.is_control:
        return []
    try:
        fd = open_to_read(batch.file.path)
        try:
            with readable(batch.file.path):
                content = os.pread(fd, batch.header.size_bytes, batch.position)
        finally:
            os.close(fd)
        records = read_records(content, INSIDE_BYTES_MAX)
    except (KafkaError, FileNotFoundError, LogDirectoryUnreadable):
        return []
    return [Sample(record.offset, _text(record.key), _text(record.value)) for record in records]


def _text(content: bytes | None) -> str | None:
    """Return a key or value as short printable text. Bytes that are not UTF-8 become escapes such as \\xff."""
    if content is None:
        return None
    text = spelt_out(content[: 4 * TEXT_MAX].decode(errors="backslashreplace"))
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 3] + "..."
