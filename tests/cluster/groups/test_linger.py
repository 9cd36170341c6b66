"""The linger of the coordinator's appends: what becomes one batch, when it is written, and what is never written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.broker.replicas.delayed import ProduceParams
from cluster.config import BrokerConfig
from cluster.coordinators.core import Append, InTransaction
from cluster.coordinators.topic_log import AT_ONCE, TopicLog
from cluster.defaults import defaults_of
from cluster.node import Outbox
from cluster.protocol.api_00_produce import ProducePartitionResponse
from replica.errors import ErrorCode
from replica.ids import ACKS_ALL, OFFSETS_TOPIC, TopicPartition
from replica.log.batches.records import read_header, read_records
from replica.rules import PROFILES

MS = 1000


class Replicas:
    """A leader that has every batch on all replicas at once."""

    def __init__(self, max_message_bytes: int) -> None:
        config = SimpleNamespace(max_message_bytes=max_message_bytes)
        led = SimpleNamespace(log=SimpleNamespace(config=config))
        self.partitions = {TopicPartition(OFFSETS_TOPIC, number): led for number in range(2)}
        self.batches: list[tuple[int, int, list[bytes | None], ProduceParams]] = []
        """(time, partition, keys, request)"""
        self.end = 100

    def append_records(self, produce: ProduceParams, now_us: int) -> None:
        ((name, records),) = produce.entries
        keys = [record.key for record in read_records(bytes(records))]
        self.batches.append((now_us, name.partition, keys, produce))
        produce.respond({name: ProducePartitionResponse(name.partition, ErrorCode.NONE, self.end)}, None)
        self.end += len(keys)

    @property
    def written(self) -> list[tuple[int, int, list[bytes | None]]]:
        return [batch[:3] for batch in self.batches]


class World:
    def __init__(self, linger_ms: int = 5, max_message_bytes: int = 1 << 20) -> None:
        self.outbox = Outbox()
        self.replicas = Replicas(max_message_bytes)
        stub: Any = self.replicas
        self.log = TopicLog(OFFSETS_TOPIC, node="b1", outbox=self.outbox, replicas=stub, linger_ms=linger_ms)

    def append(self, at_ms: int, key: bytes, write: int | None, partition: int = 0, **fields: Any) -> None:
        self.run(at_ms - 1)
        append = Append(
            partition=partition,
            records=((key, b"v"),),
            timestamp_ms=1_000_000 + at_ms,
            timeout_ms=5000,
            write=write,
            **fields,
        )
        self.log.append(append, at_ms * MS)

    def run(self, until_ms: int) -> None:
        while (due_us := self.outbox.timers.next_deadline_us) is not None and due_us <= until_ms * MS:
            self.outbox.timers.run_due(due_us)


def test_appends_within_the_linger_are_one_batch() -> None:
    world = World()
    world.append(10, b"a", write=1)
    world.append(12, b"b", write=None)
    world.append(13, b"other", write=3, partition=1)
    world.append(14, b"c", write=4)
    assert world.replicas.written == [] and not world.log.written
    world.run(30)
    assert world.replicas.written == [(15 * MS, 0, [b"a", b"b", b"c"]), (18 * MS, 1, [b"other"])]
    none = ErrorCode.NONE
    # A later append of a batch has a later offset.
    assert list(world.log.written) == [(1, none, 100), (4, none, 102), (3, none, 103)]
    produce = world.replicas.batches[0][3]
    assert (produce.acks, produce.timeout_us) == (ACKS_ALL, 4995 * MS)
    header = read_header(bytes(produce.entries[0][1]), 0)
    assert (header.base_timestamp, header.max_timestamp) == (1_000_010, 1_000_014)


def test_an_append_at_the_end_of_the_linger_is_in_the_batch() -> None:
    world = World()
    world.append(10, b"a", write=1)
    world.append(15, b"b", write=2)
    assert world.replicas.written == [(15 * MS, 0, [b"a", b"b"])]
    world.run(60)
    assert len(world.replicas.batches) == 1


def test_a_full_batch_is_written_at_once_and_the_next_has_its_own_linger() -> None:
    world = World(max_message_bytes=61 + 2 * 34)
    for at_ms, key in ((10, b"a"), (11, b"b"), (13, b"c")):
        world.append(at_ms, key, write=at_ms)
    assert world.replicas.written == [(13 * MS, 0, [b"a", b"b"])]
    world.run(60)
    assert world.replicas.written[1:] == [(18 * MS, 0, [b"c"])]


def test_a_transaction_s_batch_is_written_at_once_behind_those_that_wait() -> None:
    world = World()
    world.append(10, b"a", write=1)
    world.append(12, b"t", write=2, transaction=InTransaction(7, 0, -1))
    world.append(13, b"b", write=3)
    world.run(60)
    assert world.replicas.written == [(12 * MS, 0, [b"a"]), (12 * MS, 0, [b"t"]), (18 * MS, 0, [b"b"])]


def test_a_leader_that_resigns_within_the_linger_writes_nothing() -> None:
    world = World()
    world.append(10, b"a", write=1)
    world.append(11, b"other", write=2, partition=1)
    world.log.not_led(0)
    world.run(60)
    assert world.replicas.written == [(16 * MS, 1, [b"other"])]
    assert world.log.written[0][:2] == (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("linger_ms", [AT_ONCE, 0])
def test_without_a_linger_each_append_is_a_batch_at_once(linger_ms: int) -> None:
    world = World(linger_ms)
    world.append(10, b"a", write=1)
    world.append(10, b"b", write=None)
    assert world.replicas.written == [(10 * MS, 0, [b"a"]), (10 * MS, 0, [b"b"])]
    assert [batch[3].acks for batch in world.replicas.batches] == [ACKS_ALL, 0]


@pytest.mark.parametrize(("era", "linger_ms"), [("kafka-4.1", 5), ("kafka-4.2", -1), ("kafka-4.4", -1)])
def test_the_linger_of_each_era(era: str, linger_ms: int) -> None:
    assert defaults_of(BrokerConfig, PROFILES[era].release)["group.coordinator.append.linger.ms"] == linger_ms
