"""The defaults of the configuration keys whose default changed between releases of Kafka.

A key that is missing here has the same default in all releases that have it.

Simplified: a key has an effect even in a release that lacks it. Its default there is that of the first release with the
key, or turns its feature off.

Source: the ConfigDefs in the jars of the last patch of each release; 0.8.2.2: KafkaConfig.scala
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replica.config import INT32_MAX, NEVER, Config
from replica.rules import KafkaRelease, as_of

_FIRST: Final = KafkaRelease(0, 8)
HOUR_MS: Final = 3_600_000

_BROKER: Final[Mapping[str, Mapping[KafkaRelease, object]]] = {
    "delete.topic.enable": {_FIRST: False, KafkaRelease(1, 0): True},
    "group.consumer.assignment.interval.ms": {_FIRST: 0, KafkaRelease(4, 3): 1000},
    "group.consumer.migration.policy": {_FIRST: "disabled", KafkaRelease(4, 0): "bidirectional"},
    "group.coordinator.append.linger.ms": {_FIRST: 10, KafkaRelease(4, 0): 5, KafkaRelease(4, 2): -1},
    "group.max.session.timeout.ms": {_FIRST: 300_000, KafkaRelease(2, 3): 1_800_000},
    "group.share.assignment.interval.ms": {_FIRST: 0, KafkaRelease(4, 3): 1000},
    "group.streams.assignment.interval.ms": {_FIRST: 0, KafkaRelease(4, 3): 1000},
    "log.cleaner.dedupe.buffer.size": {_FIRST: 524_288_000, KafkaRelease(0, 9): 134_217_728},
    "log.cleaner.enable": {_FIRST: False, KafkaRelease(0, 9): True},
    "log.message.timestamp.after.max.ms": {_FIRST: NEVER, KafkaRelease(4, 0): HOUR_MS},
    "message.max.bytes": {_FIRST: 1_000_012, KafkaRelease(2, 5): 1_048_588},
    "offsets.retention.minutes": {_FIRST: 1440, KafkaRelease(2, 0): 10_080},
    "replica.lag.time.max.ms": {_FIRST: 10_000, KafkaRelease(2, 5): 30_000},
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": {_FIRST: 60_000, KafkaRelease(2, 5): 10_000},
    "unclean.leader.election.enable": {_FIRST: True, KafkaRelease(0, 11): False},
    "zookeeper.session.timeout.ms": {_FIRST: 6000, KafkaRelease(2, 5): 18_000},
}
_PRODUCER: Final[Mapping[str, Mapping[KafkaRelease, object]]] = {
    "acks": {_FIRST: "1", KafkaRelease(3, 0): "all"},
    "enable.idempotence": {_FIRST: False, KafkaRelease(3, 0): True},
    "linger.ms": {_FIRST: 0, KafkaRelease(4, 0): 5},
    "retries": {_FIRST: 0, KafkaRelease(2, 1): INT32_MAX},
}
_CONSUMER: Final[Mapping[str, Mapping[KafkaRelease, object]]] = {
    "request.timeout.ms": {_FIRST: 40_000, KafkaRelease(0, 10): 305_000, KafkaRelease(2, 0): 30_000},
    "session.timeout.ms": {_FIRST: 30_000, KafkaRelease(0, 10): 10_000, KafkaRelease(3, 0): 45_000},
}
CHANGES: Final = {"broker": _BROKER, "producer": _PRODUCER, "consumer": _CONSUMER}
"""Defaults by kind of configuration, key, and the release that introduced each default, oldest first."""


def defaults_of(schema: type[Config], release: KafkaRelease) -> dict[str, object]:
    """Return the defaults in `release` of the keys whose default depends on the release."""
    changes, known = CHANGES.get(schema.WHAT, {}), schema.keys()
    return {name: as_of(values, release, None) for name, values in changes.items() if name in known}
