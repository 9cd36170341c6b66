"""Every batch of `hostile_batches` is answered as real Kafka has answered it, but for what we state to be different."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hostile_batches import COMPACTED, HOUR, NOW_MS, Hostile, all_of_them, batch, record

from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.log.batches.codecs import CODECS, compress
from replica.log.batches.validation import (
    INSIDE_BYTES_MAX,
    INSIDE_RECORDS_MAX,
    inspect,
    limits_inside,
    single_batch,
    takes_long,
    validate_produced,
)


def answer(records: bytes, config: Mapping[str, Any], *, ahead: bool = False) -> tuple[ErrorCode, dict[str, Any]]:
    """Its code and events. ahead: its records are inspected before, as live"""
    topic = TopicConfig(**config)
    try:
        found = inspect(memoryview(records), limits_inside(topic)) if ahead else None
        validate_produced(single_batch(memoryview(bytearray(records)), 9), topic, NOW_MS * 1000, found)
    except KafkaError as refusal:
        return refusal.code, refusal.details
    return ErrorCode.NONE, {}


@pytest.mark.soak
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("case", all_of_them(), ids=lambda case: case.name)
def test_the_answer_is_that_of_kafka(case: Hostile, ahead: bool) -> None:
    code, _ = answer(case.records, case.config, ahead=ahead)
    assert code is (case.kafka if case.ours is None else case.ours)


def test_the_answer_names_the_records() -> None:
    body = b"".join(
        record(place, key=None if place in (1, 3) else b"k", at=9_000_000 * (place > 2)) for place in range(5)
    )
    code, events = answer(batch(body, 5), {**COMPACTED, **HOUR})
    errors = dict(events["record_errors"])
    assert code is ErrorCode.INVALID_TIMESTAMP and list(errors) == [1, 3, 4]
    assert "key" in errors[1] and "key" in errors[3] and "Timestamp" in errors[4]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_more_may_be_inside_than_a_batch_may_have_but_not_much_more(codec: str) -> None:
    attributes = CODECS.index(codec)
    small = record(0, value=bytes(INSIDE_BYTES_MAX - 100))
    assert (
        answer(batch(compress(codec, small), 1, attributes=attributes), {"max_message_bytes": 2 << 20})[0]
        is ErrorCode.NONE
    )
    large = record(0, value=bytes(INSIDE_BYTES_MAX))
    code, _ = answer(batch(compress(codec, large), 1, attributes=attributes), {"max_message_bytes": 2 << 20})
    assert code is ErrorCode.MESSAGE_TOO_LARGE


def test_as_many_records_may_be_inside_as_a_batch_without_a_codec_could_hold() -> None:
    body = b"".join(record(place, key=None, value=None) for place in range(INSIDE_RECORDS_MAX + 1))
    squeezed = batch(compress("zstd", body), INSIDE_RECORDS_MAX + 1, attributes=4)
    assert answer(squeezed, {})[0] is ErrorCode.MESSAGE_TOO_LARGE
    assert answer(squeezed, {"max_message_bytes": 7 * (INSIDE_RECORDS_MAX + 1)})[0] is ErrorCode.NONE


def test_zstd_needs_produce_7() -> None:
    records = memoryview(batch(compress("zstd", record(0)), 1, attributes=4))
    with pytest.raises(KafkaError) as refusal:
        single_batch(records, 6)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert single_batch(records, 7) is records


def test_what_takes_long_is_known_without_a_look_at_it() -> None:
    few, many = batch(record(0), 1), batch(record(0), 2**31 - 1)
    squeezed = batch(compress("gzip", record(0)), 1, attributes=1)
    assert not takes_long([memoryview(few), None, memoryview(squeezed)])
    assert takes_long([memoryview(few), memoryview(many)])
    assert takes_long([memoryview(squeezed)] * 200), "small ones add up"
    assert takes_long([memoryview(batch(bytes(100_000), 1))]), "it may be all headers"
