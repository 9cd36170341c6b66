"""Record batches: round trips, damage, and kafka-python as a second opinion in both directions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from replica.errors import ErrorCode, KafkaError
from replica.log.batches.codecs import CODECS
from replica.log.batches.records import (
    BATCH_HEADER_BYTES,
    CRC_START,
    BatchHeader,
    batches,
    build_batch,
    check_crc,
    increment_sequence,
    read_header,
    read_records,
    stamp,
)

contents = st.none() | st.binary(max_size=200)
pairs = st.lists(st.tuples(contents, contents), min_size=1, max_size=12)
timestamps = st.integers(min_value=0, max_value=2**42)
codecs = st.sampled_from(CODECS)


@given(pairs, st.lists(timestamps, min_size=12, max_size=12), codecs, st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_what_is_built_reads_back(records, times, codec, base_offset, sequence):
    times = times[: len(records)]
    batch = build_batch(
        records,
        base_offset=base_offset,
        timestamp_ms=times,
        leader_epoch=7,
        producer_id=99,
        producer_epoch=3,
        base_sequence=sequence,
        compression=codec,
    )
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header == BatchHeader(
        base_offset=base_offset,
        size_bytes=len(batch),
        leader_epoch=7,
        magic=2,
        crc=header.crc,
        attributes=CODECS.index(codec),
        last_offset_delta=len(records) - 1,
        base_timestamp=times[0],
        max_timestamp=max(times),
        producer_id=99,
        producer_epoch=3,
        base_sequence=sequence,
        record_count=len(records),
    )
    found = [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in read_records(batch)]
    assert found == [(base_offset + i, times[i], key, value, ()) for i, (key, value) in enumerate(records)]


@given(pairs, st.lists(timestamps, min_size=12, max_size=12), codecs)
def test_kafka_python_reads_our_batches(records, times, codec):
    batch = build_batch(records, base_offset=40, timestamp_ms=times[: len(records)], leader_epoch=5, compression=codec)
    found = MemoryRecords(bytes(batch)).next_batch()
    assert found.validate_crc()
    assert (found.base_offset, found.leader_epoch, found.records_count) == (40, 5, len(records))
    assert [(r.offset, r.timestamp, r.key, r.value) for r in found] == [
        (40 + i, times[i], key, value) for i, (key, value) in enumerate(records)
    ]


header_lists = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3)


@given(st.lists(st.tuples(timestamps, contents, contents, header_lists), min_size=1, max_size=10), codecs)
def test_we_read_kafka_pythons_batches(rows, codec):
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=1 if codec == "gzip" else 0,
        is_transactional=False,
        producer_id=1,
        producer_epoch=2,
        base_sequence=3,
        batch_size=1 << 20,
    )
    for offset, (timestamp, key, value, headers) in enumerate(rows):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    batch = bytearray(builder.build())
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 2, 3)
    assert [(r.offset, r.timestamp_ms, r.key, r.value, list(r.headers)) for r in read_records(batch)] == [
        (offset, *row) for offset, row in enumerate(rows)
    ]


def test_stamping_changes_offset_and_epoch_and_nothing_else():
    batch = build_batch([(None, b"r1"), (b"k", None)], timestamp_ms=5)
    before = read_header(batch)
    original = bytes(batch)
    stamp(batch, 0, 1234, 8)
    after = read_header(batch)
    assert after == replace(before, base_offset=1234, leader_epoch=8)
    assert check_crc(batch, 0, after)
    assert bytes(batch[8:12]) == original[8:12]
    assert bytes(batch[16:]) == original[16:]


@given(st.data())
def test_every_flipped_bit_under_the_crc_is_found(data):
    batch = build_batch([(b"key", b"value")], timestamp_ms=1)
    bit = data.draw(st.integers(CRC_START * 8, len(batch) * 8 - 1))
    batch[bit // 8] ^= 1 << bit % 8
    assert not check_crc(batch, 0, read_header(batch))


def test_batches_stop_at_a_partial_tail():
    first, second = build_batch([(None, b"a")], timestamp_ms=1), build_batch([(None, b"bb")] * 2, timestamp_ms=1)
    whole = bytes(first + second)
    assert [position for position, _ in batches(whole)] == [0, len(first)]
    for cut in range(1, len(second) + 1):
        assert [position for position, _ in batches(whole[:-cut])] == [0]


@pytest.mark.parametrize("length", [0, -1, 48])
def test_an_impossible_length_field_is_corrupt(length):
    batch = build_batch([(None, b"a")], timestamp_ms=1)
    batch[8:12] = length.to_bytes(4, signed=True)
    with pytest.raises(KafkaError) as refusal:
        list(batches(batch))
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_short_header_is_corrupt():
    with pytest.raises(KafkaError) as refusal:
        read_header(bytes(BATCH_HEADER_BYTES - 1))
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=60), st.integers(0, 5), codecs)
def test_garbage_instead_of_records_is_corrupt_or_reads_as_records(garbage, count, codec):
    """Any bytes under a valid header give records or CORRUPT_MESSAGE, never another exception."""
    batch = build_batch([(None, b"")], timestamp_ms=1, compression=codec)[:BATCH_HEADER_BYTES] + garbage
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    batch[57:61] = count.to_bytes(4)
    try:
        assert len(read_records(batch)) == count
    except KafkaError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_there_are_not_are_refused_by_number(codec):
    batch = build_batch([(None, b"a")], timestamp_ms=1)
    batch[22] = codec
    with pytest.raises(KafkaError, match=f"codec {codec}") as refusal:
        read_records(batch)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_log_append_time_comes_from_the_header():
    batch = build_batch([(None, b"a"), (None, b"b")], timestamp_ms=[10, 20])
    batch[22] |= 0x08
    assert [record.timestamp_ms for record in read_records(batch)] == [20, 20]


def test_sequences_wrap_to_zero():
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 2, 3) == 1
    assert increment_sequence(-1, 5) == -1
