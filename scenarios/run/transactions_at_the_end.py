"""What became of the transactions in a log: readers of committed records leave out the records of aborted ones, and do
not get those of open ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from replica.errors import KafkaError
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import BatchHeader


class TransactionalBatch(NamedTuple):
    """Both offsets are of records of the batch."""

    producer_id: int
    base_offset: int
    last_offset: int


class Uncommitted(NamedTuple):
    """aborted: in the order of their markers     open: without a marker, in the order of their offsets"""

    aborted: list[TransactionalBatch]
    open: list[TransactionalBatch]


def uncommitted_batches(batches: Iterable[tuple[BatchHeader, bytes]]) -> Uncommitted:
    """batches: of the whole log, in the order of their offsets

    One that is decided, and whose marker is not in this log yet, is open here.
    """
    undecided: dict[int, list[TransactionalBatch]] = {}
    aborted: list[TransactionalBatch] = []
    for header, batch in batches:
        if not header.is_transactional:
            continue
        if not header.is_control:
            found = TransactionalBatch(header.producer_id, header.base_offset, header.last_offset)
            undecided.setdefault(header.producer_id, []).append(found)
            continue
        try:
            marker = read_end_transaction_marker(batch)
        except KafkaError:  # It is damaged.
            continue
        ended = undecided.pop(header.producer_id, [])
        if marker is not None and marker.control_type is ControlRecordType.ABORT:
            aborted += ended
    remaining = [batch for batches_of_one in undecided.values() for batch in batches_of_one]
    return Uncommitted(aborted, sorted(remaining, key=lambda batch: batch.base_offset))
