"""Serializers and deserializers: what each takes, and what it refuses."""

from __future__ import annotations

import pytest

from cluster.client.events import record_name
from cluster.client.producer.batch import ProducerRecord
from cluster.client.serialization import Deserializers, Serializers, serializers_of
from cluster.config import ConsumerConfig, ProducerConfig
from replica.config import ConfigError
from replica.errors import NotConvertible
from replica.log.batches.records import build_batch, read_records

INTEGERS = Serializers("IntegerSerializer", "IntegerSerializer", ())
READS_INTEGERS = Deserializers("IntegerDeserializer", "IntegerDeserializer", ())


@pytest.mark.parametrize(
    ("number", "data"),
    [("0", b"\0\0\0\0"), ("12", b"\0\0\0\x0c"), ("-1", b"\xff\xff\xff\xff"), ("2147483647", b"\x7f\xff\xff\xff")],
)
def test_an_integer_is_four_bytes_the_highest_first(number: str, data: bytes) -> None:
    assert INTEGERS.key_bytes(number.encode(), "r0") == data


@pytest.mark.parametrize("key", [b"abc", b"", b"2147483648", b"-2147483649", b"1.5", b"99999999999", b"\xff"])
def test_a_key_that_is_no_integer_is_refused(key: bytes) -> None:
    with pytest.raises(NotConvertible, match=r"key\.serializer"):
        INTEGERS.key_bytes(key, "r0")


def test_what_is_null_stays_null() -> None:
    failing = Serializers("FailingSerializer", "FailingSerializer", ("r0",))
    assert failing.key_bytes(None, "r0") is failing.value_bytes(None, "r0") is None
    READS_INTEGERS.read(None, None, "r0")


def test_the_value_of_a_record_is_its_number_and_its_name_travels_apart() -> None:
    value = INTEGERS.value_bytes(b"r17 xxxx", "r17")
    assert value == b"\0\0\0\x11"
    sent = ProducerRecord("t", 0, None, value, "r17", is_named_apart=True)
    (read,) = read_records(build_batch([(None, value)], timestamp_ms=0, headers=[sent.headers]))
    assert record_name(read) == "r17"


def test_a_serializer_fails_for_the_records_that_it_is_told() -> None:
    config = ProducerConfig.from_mapping({"value.serializer": "FailingSerializer", "failing.records": "r3, r7"})
    serializers = serializers_of(config)
    assert serializers is not None
    assert serializers.value_bytes(b"r4 x", "r4") == b"r4 x"
    for name in ("r3", "r7"):
        with pytest.raises(NotConvertible, match=name):
            serializers.value_bytes(b"x", name)


@pytest.mark.parametrize(
    ("key", "value", "what"), [(b"abc", b"0123", "key has 3 bytes"), (b"0123", b"x", "value has 1 byte")]
)
def test_an_integer_is_read_from_four_bytes_the_key_first(key: bytes, value: bytes, what: str) -> None:
    READS_INTEGERS.read(b"0123", b"0123", "r0")
    with pytest.raises(NotConvertible, match=f"{what}$"):
        READS_INTEGERS.read(key, value, "r0")


@pytest.mark.parametrize(
    ("schema", "key", "value"),
    [
        (ProducerConfig, "value.serializer", "com.example.MySerializer"),
        (ConsumerConfig, "key.deserializer", "StringSerializer"),
        (ConsumerConfig, "interceptor.classes", "StampInterceptor"),
        (ProducerConfig, "interceptor.classes", "os.system"),
        (ProducerConfig, "failing.records", "r1;r2"),
    ],
)
def test_no_name_loads_code(schema: type[ProducerConfig | ConsumerConfig], key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        schema.from_mapping({key: value})
