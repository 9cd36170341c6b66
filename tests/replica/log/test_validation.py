"""Batches that a leader refuses to append (R2), one row per rule."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from replica_logs import batch_of

from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.log.batches.records import CRC_START, build_batch
from replica.log.batches.validation import single_batch, validate_produced

NOW_US = 5_000_000
PRODUCE = 9


def admit(records, config):
    """As a broker does with what a request holds for a partition."""
    return validate_produced(single_batch(memoryview(records), PRODUCE), config, NOW_US)


def forged(change, *values):
    """A batch changed after the event, with a CRC that is right again."""
    batch = batch_of(*(values or (b"r1", b"r2")))
    change(batch)
    batch[17:21] = crc32c(bytes(batch[CRC_START:])).to_bytes(4)
    return batch


def put(position, content):
    def change(batch):
        batch[position : position + len(content)] = content

    return change


def flip_last_bit():
    batch = batch_of(b"r1")
    batch[-1] ^= 1
    return batch


@pytest.mark.parametrize(
    ("batch", "config", "code"),
    [
        pytest.param(bytearray(60), {}, ErrorCode.CORRUPT_MESSAGE, id="shorter than a header"),
        pytest.param(batch_of(b"r1")[:-1], {}, ErrorCode.INVALID_RECORD, id="cut short"),
        pytest.param(flip_last_bit(), {}, ErrorCode.CORRUPT_MESSAGE, id="bad CRC"),
        pytest.param(batch_of(b"r1", base_offset=1), {}, ErrorCode.INVALID_RECORD, id="base offset"),
        pytest.param(batch_of(b"r1") + batch_of(b"r2"), {}, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(forged(put(16, b"\1")), {}, ErrorCode.INVALID_RECORD, id="magic 1"),
        pytest.param(forged(put(57, b"\0\0\0\3")), {}, ErrorCode.INVALID_RECORD, id="count and delta disagree"),
        pytest.param(forged(put(23, b"\xff" * 4)), {}, ErrorCode.INVALID_RECORD, id="negative delta"),
        pytest.param(
            forged(lambda b: (put(57, bytes(4))(b), put(23, b"\xff" * 4)(b))), {}, ErrorCode.INVALID_RECORD, id="empty"
        ),
        pytest.param(batch_of(b"r1", control=True), {}, ErrorCode.INVALID_RECORD, id="control batch"),
        pytest.param(batch_of(b"r1", producer_id=5, producer_epoch=0), {}, ErrorCode.INVALID_RECORD, id="no sequence"),
        pytest.param(batch_of(b"x" * 100), {"max_message_bytes": 168}, ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
        pytest.param(batch_of(b"x" * 1000), {"segment_bytes": 1024}, ErrorCode.RECORD_LIST_TOO_LARGE, id="segment"),
        pytest.param(forged(put(22, b"\x08")), {}, ErrorCode.INVALID_TIMESTAMP, id="log-append time"),
        pytest.param(
            batch_of(b"r", timestamp_ms=5101),
            {"message_timestamp_after_max_ms": 100},
            ErrorCode.INVALID_TIMESTAMP,
            id="from the future",
        ),
        pytest.param(
            batch_of(b"r", timestamp_ms=4899),
            {"message_timestamp_before_max_ms": 100},
            ErrorCode.INVALID_TIMESTAMP,
            id="too old",
        ),
    ],
)
def test_refused(batch, config, code):
    with pytest.raises(KafkaError) as refusal:
        admit(batch, TopicConfig(**config))
    assert refusal.value.code is code


@pytest.mark.parametrize(
    ("batch", "config"),
    [
        pytest.param(batch_of(b"r1", b"r2"), {}, id="plain"),
        pytest.param(batch_of(b"x" * 100), {"max_message_bytes": 170}, id="just small enough"),
        pytest.param(batch_of(b"r", timestamp_ms=5100), {"message_timestamp_after_max_ms": 100}, id="just in time"),
        pytest.param(batch_of(b"r", timestamp_ms=4900), {"message_timestamp_before_max_ms": 100}, id="just old enough"),
        pytest.param(batch_of(b"r", producer_id=5, producer_epoch=0, base_sequence=0), {}, id="idempotent"),
    ],
)
def test_accepted(batch, config):
    assert admit(batch, TopicConfig(**config)).size_bytes == len(batch)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_answered_with_a_protocol_error(garbage, keep):
    batch = build_batch([(None, b"r1")], timestamp_ms=1)[:keep] + garbage
    try:
        admit(batch, TopicConfig())
    except KafkaError as error:
        assert error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)
    else:
        assert batch.startswith(build_batch([(None, b"r1")], timestamp_ms=1))
