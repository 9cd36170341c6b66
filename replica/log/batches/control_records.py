"""Control batches: the markers that end a transaction in a partition (KIP-98).

The transaction coordinator lets leaders append a marker to each partition of a transaction. A marker has an offset, but
consumers never return it to the application.

Source: ControlRecordType, EndTransactionMarker, MemoryRecords.withEndTransactionMarker
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from replica.ids import UNDEFINED_EPOCH, LeaderEpoch
from replica.log.batches.records import BatchHeader, Bytes, build_batch, corrupt, read_records

CONTROL_VERSION = 0

_KEY = struct.Struct(">hh")  # version, type
_MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch


class ControlRecordType(IntEnum):
    """The types of control records that end a transaction. Other types occur only in the metadata log."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """The content of a marker: commit or abort.

    `coordinator_epoch` is the leader epoch of the coordinator's partition, by which old coordinators are fenced.
    """

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
    """Return a control batch with one marker, still without base offset and leader epoch."""
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
    """Return the marker of a control batch, None for another control record or if compaction has removed the marker.

    Raises:
        KafkaError: CORRUPT_MESSAGE if the control record is malformed.
    """
    records = read_records(batch)
    if not records:
        return None
    record = records[0]
    number = control_type_of(record.key)
    if number not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise corrupt(f"the transaction marker at offset {record.offset} has no coordinator epoch")
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
    return EndTransactionMarker(ControlRecordType(number), coordinator_epoch, record.timestamp_ms)


def marker_in(header: BatchHeader, data: Bytes, headers: Sequence[BatchHeader]) -> EndTransactionMarker | None:
    """Return the marker of the control batch with `header`. `headers` are those of all batches in `data`, in order."""
    position = 0
    for before in headers:
        if before is header:
            break
        position += before.size_bytes
    return read_end_transaction_marker(memoryview(data)[position : position + header.size_bytes])


def control_type_of(key: bytes | None) -> int:
    """Return the number of a control record's type, which may be unknown, from the record's key.

    Raises:
        KafkaError: CORRUPT_MESSAGE if the key has no type.
    """
    if key is None or len(key) < _KEY.size:
        raise corrupt("a control record has no type")
    number: int = _KEY.unpack_from(key)[1]
    return number
