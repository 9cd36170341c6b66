"""The small parts of a client: partitioner, configuration rules, memory, backoff, metadata."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as third_party_murmur2

from cluster.client.metadata_cache import ClientMetadata, LeaderAndEpoch
from cluster.client.node import ExponentialBackoff
from cluster.client.producer.accumulator import BufferPool, StickyPartitioner, murmur2, partition_for_key
from cluster.client.producer.batch import PendingRecord, ProducerBatch, record_bytes_upper_bound
from cluster.client.producer.idempotence import IdempotenceState
from cluster.client.producer.producer import ProducerRecord, producer_config_from
from cluster.protocol.cold import response
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from cluster.protocol.versions import METADATA
from replica.config import ConfigError
from replica.errors import ErrorCode
from replica.ids import NO_BROKER, UNKNOWN_OFFSET, TopicPartition

TP = TopicPartition("t", 0)

# ----------------------------------------------------------------------------------------------------- partitioner


@given(st.binary(max_size=40))
def test_murmur2_agrees_with_another_client(key: bytes) -> None:
    assert murmur2(key) == third_party_murmur2(key)


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_murmur2_of_javas_own_test(key: bytes, expected: int) -> None:
    """UtilsTest.testMurmur2"""
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_a_key_keeps_its_partition() -> None:
    assert [partition_for_key(b"k%d" % n, 6) for n in range(6)] == [partition_for_key(b"k%d" % n, 6) for n in range(6)]
    assert {partition_for_key(b"k%d" % n, 6) for n in range(100)} == set(range(6))


def test_without_a_key_a_partition_sticks_for_a_batch() -> None:
    sticky = StickyPartitioner(1000, random.Random(1))
    available = list(range(50))
    first = sticky.current(available, 50)
    for _ in range(9):
        sticky.produced(first, 100, True, available, 50)
        assert sticky.current(available, 50) == first
    sticky.produced(first, 100, False, available, 50)  # enough, but the batch is not full yet
    assert sticky.current(available, 50) == first
    sticky.produced(first, 100, True, available, 50)
    assert sticky.current(available, 50) != first


def test_a_sticky_partition_is_left_after_twice_the_bytes_at_latest() -> None:
    sticky = StickyPartitioner(1000, random.Random(1))
    first = sticky.current(range(50), 50)
    sticky.produced(first, 2000, False, range(50), 50)
    assert sticky.current(range(50), 50) != first


def test_partitions_without_a_leader_are_avoided_while_others_have_one() -> None:
    rng = random.Random(1)
    assert {StickyPartitioner(1, rng).current([2, 5], 8) for _ in range(50)} == {2, 5}
    assert {StickyPartitioner(1, rng).current([], 3) for _ in range(50)} == {0, 1, 2}


def test_long_queues_are_drawn_less_often() -> None:
    rng = random.Random(1)
    drawn = [0, 0, 0]
    for _ in range(3000):
        sticky = StickyPartitioner(1, rng)
        sticky.queues([(0, 0), (1, 3), (2, 1)])  # weights 4, 1, 3 (BuiltInPartitioner.updatePartitionLoadStats)
        drawn[sticky.current([0, 1, 2], 3)] += 1
    assert [round(count / 375) for count in drawn] == [4, 1, 3]


# ---------------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("values", "idempotent"),
    [
        ({}, True),
        ({"acks": "all"}, True),
        ({"acks": "-1"}, True),
        ({"acks": "1"}, False),
        ({"acks": "0"}, False),
        ({"retries": "0"}, False),
        ({"max.in.flight.requests.per.connection": "6"}, False),
        ({"enable.idempotence": "false"}, False),
        ({"enable.idempotence": "true", "max.in.flight.requests.per.connection": "5"}, True),
    ],
)
def test_idempotence_is_on_unless_something_rules_it_out(values: dict[str, str], idempotent: bool) -> None:
    assert producer_config_from(values).enable_idempotence is idempotent


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"enable.idempotence": True, "acks": "1"}, "acks"),
        ({"enable.idempotence": True, "retries": 0}, "retries"),
        (
            {"enable.idempotence": True, "max.in.flight.requests.per.connection": 6},
            "max.in.flight.requests.per.connection",
        ),
        ({"delivery.timeout.ms": 20_000}, "delivery.timeout.ms"),
        ({"delivery.timeout.ms": 30_000, "linger.ms": 1}, "delivery.timeout.ms"),
        ({"compression.type": "brotli"}, "compression.type"),
        ({"aks": 1}, "aks"),
    ],
)
def test_contradictions_name_their_key(values: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        producer_config_from(values)
    assert caught.value.key == key


def test_a_default_delivery_timeout_gives_way_to_a_long_request_timeout() -> None:
    assert producer_config_from({"request.timeout.ms": 200_000, "linger.ms": 5}).delivery_timeout_ms == 200_005


# ---------------------------------------------------------------------------------------------------------- memory


@given(st.lists(st.binary(max_size=300) | st.none(), min_size=1, max_size=20), st.lists(st.binary(max_size=40)))
def test_a_batch_knows_its_size_before_it_is_built(values: list[bytes | None], keys: list[bytes]) -> None:
    batch = ProducerBatch(TP, 1 << 20, 0, 0)
    bound = 0
    for index, value in enumerate(values):
        record = ProducerRecord("t", 0, keys[index] if index < len(keys) else None, value, f"r{index}")
        bound += record_bytes_upper_bound(record)
        assert batch.try_append(PendingRecord(record, index * 777_000, 0))
    assert len(batch.encode("none")) == batch.size_bytes <= bound


def test_memory_is_taken_and_given_back() -> None:
    pool = BufferPool(100)
    assert pool.allocate(60) and not pool.allocate(60) and pool.allocate(40)
    pool.deallocate(60)
    assert pool.available_bytes == 60


def test_backoff_doubles_within_its_jitter_up_to_the_maximum() -> None:
    backoff = ExponentialBackoff(100, 1000, random.Random(1))
    for attempts in range(200):
        wait = backoff.after_us(attempts % 8)
        low, high = (min(1000, 100 * 2 ** (attempts % 8) * factor) * 1000 for factor in (0.8, 1.2))
        assert int(low) <= wait <= high


# -------------------------------------------------------------------------------------------------------- metadata


def answer(leader: int, epoch: int, brokers: tuple[int, ...] = (1, 2)) -> Any:
    """A Metadata response about partition 0 of topic t."""
    partition = {"error_code": 0, "partition_index": 0, "leader_id": leader, "leader_epoch": epoch}
    return response(
        METADATA,
        9,
        brokers=[{"node_id": node_id, "host": f"b{node_id}", "port": 9092} for node_id in brokers],
        topics=[{"error_code": 0, "name": "t", "partitions": [partition]}],
    )


def cache() -> ClientMetadata:
    metadata = ClientMetadata(
        [("b1", 9092)], max_age_ms=300_000, retry_backoff_ms=100, retry_backoff_max_ms=1000, rng=random.Random(1)
    )
    metadata.add_topic("t")
    return metadata


def test_a_lagging_broker_cannot_send_a_client_back_in_time() -> None:
    metadata = cache()
    metadata.update(answer(leader=2, epoch=5), 0)
    metadata.update(answer(leader=1, epoch=4), 0)
    assert metadata.leader(TP) == LeaderAndEpoch(2, 5)
    assert not metadata.update_leader(TP, LeaderIdAndEpoch(1, 5), ())
    assert metadata.update_leader(TP, LeaderIdAndEpoch(3, 6), (NodeEndpoint(3, "b3", 9092),))
    assert metadata.leader(TP) == LeaderAndEpoch(3, 6)
    metadata.update(answer(leader=2, epoch=5), 0)
    assert metadata.leader(TP) == LeaderAndEpoch(NO_BROKER, 6)  # b3 is in no answer yet


def test_a_leader_without_an_address_is_no_leader() -> None:
    metadata = cache()
    metadata.update(answer(leader=2, epoch=5, brokers=(1,)), 0)
    assert metadata.leader(TP) == LeaderAndEpoch(NO_BROKER, 5)
    assert metadata.available("t") == [] and metadata.partitions("t") == [TP]


def test_an_epoch_seen_elsewhere_makes_the_known_leader_doubtful() -> None:
    metadata = cache()
    metadata.update(answer(leader=2, epoch=5), 0)
    assert metadata.update_due_us == 300_000_000
    metadata.epoch_seen(TP, 5)
    assert metadata.leader(TP).leader == 2
    metadata.epoch_seen(TP, 6)
    assert metadata.leader(TP).leader == NO_BROKER
    assert 80_000 <= metadata.update_due_us <= 120_000


def test_an_empty_answer_counts_as_none() -> None:
    metadata = cache()
    metadata.update(answer(leader=2, epoch=5, brokers=()), 0)
    assert metadata.partitions("t") == []
    assert 80_000 <= metadata.update_due_us <= 120_000


def test_a_coordinator_is_asked_where_its_answer_says_even_if_the_metadata_lacks_it() -> None:
    """It was fenced when the metadata was asked for; without its address a client would look for it for ever."""
    metadata = ClientMetadata(
        [("b1", 9092)], max_age_ms=1, retry_backoff_ms=1, retry_backoff_max_ms=1, rng=random.Random(1)
    )
    metadata.coordinator_is(7, "b7", 9092)
    assert (metadata.nodes[7].host, metadata.nodes[7].port) == ("b7", 9092)


# ------------------------------------------------------------------------------------------------------- sequences


def batch_of_one(state: IdempotenceState) -> ProducerBatch:
    batch = ProducerBatch(TP, 1000, 1000, 0)
    assert batch.try_append(PendingRecord(ProducerRecord("t", 0, None, b"r0 x", "r0"), 0, 0, 0))
    state.assign_sequence(batch)
    return batch


def test_a_transactional_producer_gives_the_sequence_of_a_refused_batch_to_the_next() -> None:
    """No coordinator gives it another epoch before the transaction has ended."""
    state = IdempotenceState(transactional=True)
    state.producer_id_given(7, 0)
    first, second, third = (batch_of_one(state) for _ in range(3))
    state.batch_failed(first, ErrorCode.INVALID_TXN_STATE, adjust_sequences=True)
    assert (second.base_sequence, third.base_sequence) == (0, 1)
    assert state.can_retry(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_OFFSET)
    assert batch_of_one(state).base_sequence == 2
    state.resolve()
    assert (second.producer_epoch, second.base_sequence) == (0, 0)


def test_a_batch_that_may_be_written_keeps_its_sequence() -> None:
    state = IdempotenceState(transactional=True)
    state.producer_id_given(7, 0)
    first, second = batch_of_one(state), batch_of_one(state)
    state.batch_failed(first, ErrorCode.REQUEST_TIMED_OUT, adjust_sequences=False)
    assert second.base_sequence == 1
