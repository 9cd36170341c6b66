"""The records of aborted transactions in a log, which readers of committed records leave out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from replica.errors import KafkaError
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import BatchHeader


class AbortedBatch(NamedTuple):
    """Both offsets are of records of the batch."""

    producer_id: int
    base_offset: int
    last_offset: int


def aborted_batches(batches: Iterable[tuple[BatchHeader, bytes]]) -> list[AbortedBatch]:
    """batches: of the whole log, in the order of their offsets"""
    undecided: dict[int, list[AbortedBatch]] = {}
    aborted: list[AbortedBatch] = []
    for header, batch in batches:
        if not header.is_transactional:
            continue
        if not header.is_control:
            found = AbortedBatch(header.producer_id, header.base_offset, header.last_offset)
            undecided.setdefault(header.producer_id, []).append(found)
            continue
        try:
            marker = read_end_transaction_marker(batch)
        except KafkaError:  # It is damaged.
            continue
        ended = undecided.pop(header.producer_id, [])
        if marker is not None and marker.control_type is ControlRecordType.ABORT:
            aborted += ended
    return aborted
