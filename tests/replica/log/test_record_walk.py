"""The walk over a batch's records, held against kafka-python's builder and parser."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import decode_varint

from replica.errors import ErrorCode, KafkaError
from replica.log.batches.codecs import CODECS
from replica.log.batches.record_walk import HEADERS_MAX, MalformedRecords, walk
from replica.log.batches.records import BATCH_HEADER_BYTES, CRC_START, build_batch, read_header, read_records
from replica.log.batches.validation import InsideLimits, look_inside

LIMITS = InsideLimits(1 << 20, 10_000)
contents = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=100), contents), max_size=3)
rows = st.lists(st.tuples(st.integers(0, 2**42), contents, contents, headers), min_size=1, max_size=100)


def built(rows, codec=0):
    """As kafka-python's producer would send them."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=10**7,
    )  # fmt: skip
    for offset, (at, key, value, heads) in enumerate(rows):
        builder.append(offset, at, key, value, heads)
    return bytearray(builder.build())


def has_high_attributes(body):
    place = 0
    while place < len(body):
        size, start = decode_varint(body, place)
        if body[start] > 127:
            return True
        place = start + size
    return False


@given(rows, st.sampled_from(range(len(CODECS))))
def test_what_a_client_builds_is_walked_to_its_end(rows, codec):
    batch = built(rows, codec)
    header = read_header(batch)
    walked = look_inside(batch, header, LIMITS)
    assert [header.base_timestamp + delta for delta in walked.timestamp_deltas] == [at for at, *_ in rows]
    assert walked.keyless == [place for place, (_, key, *_) in enumerate(rows) if key is None]


@given(rows, st.data())
def test_what_is_let_through_is_read_by_a_client_record_by_record(rows, data):
    """A byte changed, put in or left out somewhere among the records, under a CRC that is right again."""
    batch = built(rows)
    place = data.draw(st.integers(BATCH_HEADER_BYTES, len(batch) - 1))
    what = data.draw(st.integers(0, 2))
    batch[place : place + (what < 2)] = bytes([data.draw(st.integers(0, 255))]) if what else b""
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    batch[17:21] = crc32c(bytes(batch[CRC_START:])).to_bytes(4)
    try:
        walked = walk(bytes(batch[BATCH_HEADER_BYTES:]), len(rows))
    except MalformedRecords:
        return
    assert len(walked.timestamp_deltas) == len(rows)
    try:
        read = list(MemoryRecords(bytes(batch)).next_batch())
    except CorruptRecordError as error:
        # Kafka replaces what is no UTF-8 in a header's name, and takes the attributes for a byte.
        assert "UnicodeDecodeError" in str(error) or has_high_attributes(bytes(batch[BATCH_HEADER_BYTES:]))
        return
    assert [record.offset for record in read] == list(range(len(rows)))
    assert [place for place, record in enumerate(read) if record.key is None] == walked.keyless


@given(st.binary(max_size=100), st.integers(1, 2**31 - 1))
def test_any_bytes_end_the_walk_in_one_way(garbage, count):
    try:
        walked = walk(garbage, count)
    except MalformedRecords:
        return
    assert len(walked.timestamp_deltas) == count <= len(garbage) // 7


def test_the_work_is_bounded_by_the_bytes_and_not_by_the_count():
    class Counting(bytes):
        looked_at = 0

        def __getitem__(self, place):
            Counting.looked_at += 1
            return super().__getitem__(place)

    with pytest.raises(MalformedRecords):
        walk(Counting(b"\x0c\0\0\0\1\1\0" * 100), 2**31 - 1)
    assert Counting.looked_at <= 700


@pytest.mark.soak
@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("records", [1, 3])
def test_headers_are_counted_over_all_records(codec, records):
    """15 kB of gzip hold five million."""
    for more in (0, 1):
        heads = [("", None)] * (HEADERS_MAX // records)
        of_each = [heads] * (records - 1) + [heads + [("", None)] * (HEADERS_MAX % records + more)]
        pairs = [(None, None)] * records
        batch = build_batch(pairs, timestamp_ms=0, compression=codec, headers=[tuple(one) for one in of_each])
        header = read_header(batch)
        if not more:
            assert len(look_inside(batch, header, LIMITS).timestamp_deltas) == records
            continue
        with pytest.raises(KafkaError) as refusal:
            look_inside(batch, header, LIMITS)
        assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(KafkaError):
            read_records(batch)
