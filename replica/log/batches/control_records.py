"""Control batches: the markers that end a transaction in a partition (KIP-98).

The coordinator has one written for each partition of a transaction. A marker has an offset of its own, but no
application ever gets it.

Source: ControlRecordType, EndTransactionMarker, MemoryRecords.withEndTransactionMarker.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from replica.ids import UNDEFINED_EPOCH, LeaderEpoch
from replica.log.batches.records import BatchHeader, Bytes, build_batch, corrupt, read_records

CONTROL_VERSION = 0
UNKNOWN_CONTROL_TYPE = -1

_KEY = struct.Struct(">hh")  # version, type
_MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch


class ControlRecordType(IntEnum):
    """The two that end a transaction; the others belong to the metadata log."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """coordinator_epoch: leader epoch of the coordinator's partition, which fences its predecessors"""

    control_type: ControlRecordType
    coordinator_epoch: LeaderEpoch
    timestamp_ms: int


def end_transaction_marker(
    producer_id: int,
    producer_epoch: int,
    control_type: ControlRecordType,
    coordinator_epoch: LeaderEpoch,
    timestamp_ms: int,
) -> bytearray:
    """A control batch with one marker, as a leader appends it: without base offset, leader epoch and sequence."""
    record = (_KEY.pack(CONTROL_VERSION, control_type), _MARKER_VALUE.pack(CONTROL_VERSION, coordinator_epoch))
    return build_batch(
        [record],
        timestamp_ms=timestamp_ms,
        leader_epoch=UNDEFINED_EPOCH,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_end_transaction_marker(batch: Bytes) -> EndTransactionMarker | None:
    """The marker in a control batch; None: another control record, or none that compaction has left.

    raises: KafkaError CORRUPT_MESSAGE
    """
    records = read_records(batch)
    if not records:
        return None
    record = records[0]
    number = control_type_of(record.key)
    if number not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise corrupt(f"the marker at offset {record.offset} has no coordinator epoch")
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
    return EndTransactionMarker(ControlRecordType(number), coordinator_epoch, record.timestamp_ms)


def marker_in(header: BatchHeader, data: Bytes, headers: Sequence[BatchHeader]) -> EndTransactionMarker | None:
    """The marker of a control batch; `headers` are those of all batches in `data`, in order."""
    position = 0
    for before in headers:
        if before is header:
            break
        position += before.size_bytes
    return read_end_transaction_marker(memoryview(data)[position : position + header.size_bytes])


def control_type_of(key: bytes | None) -> int:
    """The type that a control record's key names, known or not. raises: KafkaError CORRUPT_MESSAGE"""
    if key is None or len(key) < _KEY.size:
        raise corrupt("a control record has no type")
    number: int = _KEY.unpack_from(key)[1]
    return number
