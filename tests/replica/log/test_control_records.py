"""Markers of transactions have Kafka's bytes."""

from __future__ import annotations

import pytest

from replica.errors import ErrorCode, KafkaError
from replica.log.batches.control_records import (
    ControlRecordType,
    end_transaction_marker,
    read_end_transaction_marker,
)
from replica.log.batches.records import build_batch, read_header, read_records


@pytest.mark.parametrize("control_type", ControlRecordType)
def test_a_marker_is_what_kafka_writes(control_type: ControlRecordType) -> None:
    batch = end_transaction_marker(7, 3, control_type, coordinator_epoch=12, timestamp_ms=1000)
    header, (record,) = read_header(batch), read_records(batch)
    assert (header.is_control, header.is_transactional, header.producer_id, header.producer_epoch) == (True, True, 7, 3)
    assert header.base_sequence == -1
    assert record.key == bytes([0, 0, 0, control_type])
    assert record.value == bytes([0, 0, 0, 0, 0, 12])
    # DefaultRecordBatch.RECORD_BATCH_OVERHEAD, and EndTransactionMarker.CURRENT_END_TXN_SCHEMA_RECORD_SIZE
    assert len(batch) == 61 + 17
    assert read_end_transaction_marker(batch) == (control_type, 12, 1000)


def test_another_control_record_is_no_marker() -> None:
    leader_change = build_batch([(b"\0\0\0\2", b"")], timestamp_ms=0, control=True)
    assert read_end_transaction_marker(leader_change) is None


@pytest.mark.parametrize("record", [(None, b"\0\0\0\0\0\0"), (b"\0", b""), (b"\0\0\0\1", b"\0")])
def test_a_damaged_marker_is_refused(record: tuple[bytes | None, bytes]) -> None:
    with pytest.raises(KafkaError) as refused:
        read_end_transaction_marker(build_batch([record], timestamp_ms=0, control=True))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
