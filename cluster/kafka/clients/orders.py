"""Builds the commands to the clients' JVM: lines of JSON, with Kafka's own configuration keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.client.producer.batch import ProducerRecord, varint_bytes
from cluster.config import PIPELINE_KEYS, ConsumerConfig, ProducerConfig
from replica.config import INT32_MAX, Config
from replica.log.batches.records import BATCH_HEADER_BYTES

Order = Mapping[str, Any]
KeyAndValue = tuple[bytes | None, bytes]


def settings(config: Config) -> dict[str, str]:
    """Return the values of all configuration keys, so that no default of a Kafka version applies.

    Numbers are limited to Java's int. Omitted are empty values, which stand for Kafka's null (as in
    `transactional.id`), and the serializers and interceptors, because the JVM's clients send and read bytes.
    """
    found = {}
    for key, field in config.keys().items():
        if key in PIPELINE_KEYS:
            continue
        value = getattr(config, field.name)
        if isinstance(value, bool):
            found[key] = str(value).lower()
        elif value != "":
            found[key] = str(min(value, INT32_MAX) if isinstance(value, int) else value)
    return found


def producer_settings(
    name: str, bootstrap: str, config: ProducerConfig, largest_batch: Sequence[KeyAndValue]
) -> dict[str, str]:
    """Return a producer's settings, chosen so that the application decides which records share a batch.

    If `largest_batch` has one record, each record is a batch of its own. Otherwise the records of one call fill a
    batch, which is then flushed.
    """
    own = settings(config)
    if len(largest_batch) > 1:
        # The longest time that Kafka allows: a batch that is not full waits for the flush.
        linger_ms = config.delivery_timeout_ms - config.request_timeout_ms
        own |= {"batch.size": str(batch_bytes(largest_batch)), "linger.ms": str(min(linger_ms, INT32_MAX))}
    else:
        own |= {"batch.size": "0", "linger.ms": "0"}
    return {**own, "client.id": name, "bootstrap.servers": bootstrap}


def consumer_settings(name: str, bootstrap: str, config: ConsumerConfig) -> dict[str, str]:
    return {
        **settings(config),
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
        "client.id": name,
        "bootstrap.servers": bootstrap,
    }


def batch_bytes(records: Sequence[KeyAndValue]) -> int:
    """Return the size in bytes of one uncompressed batch of records with equal timestamps.

    Source: DefaultRecord.sizeInBytes
    """
    return BATCH_HEADER_BYTES + sum(_record_bytes(record, index) for index, record in enumerate(records))


def _record_bytes(record: KeyAndValue, index: int) -> int:
    fields = sum(1 if data is None else varint_bytes(len(data)) + len(data) for data in record)
    body = 1 + varint_bytes(0) + varint_bytes(index) + fields + varint_bytes(0)
    return varint_bytes(body) + body


def record_order(record: ProducerRecord) -> Order:
    return {
        "name": record.name,
        "key": None if record.key is None else record.key.decode(),
        "value": None if record.value is None else record.value.decode(),
        "partition": record.partition,
    }
