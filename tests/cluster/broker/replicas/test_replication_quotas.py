"""Replication throttles: the rate is Kafka's SimpleRate, and only what lags behind waits for it."""

from __future__ import annotations

from uuid import UUID

from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.replicas.replication_quotas import ReplicationQuotas, SimpleRate
from controller.image import MetadataImage
from controller.metadata import BrokerConfigRecord, ConfigRecord, MetadataRecord, TopicRecord
from replica.ids import EVERY_BROKER, TopicPartition

S = 1_000_000


def test_a_rate_counts_from_its_oldest_sample_but_at_least_one_window() -> None:
    rate = SimpleRate()
    assert rate.per_second(0) == 0
    rate.record(1000, 0)
    assert rate.per_second(1) == 1000
    assert rate.per_second(4 * S) == 250


def test_a_sample_is_forgotten_eleven_windows_after_its_last_event() -> None:
    rate = SimpleRate()
    rate.record(1000, 0)
    rate.record(100, 5 * S)
    assert rate.per_second(11 * S - 1) == 1100 * S / (11 * S - 1)
    # Kafka starts the purged sample anew at this very moment, so the one from 5 s is now the oldest.
    assert rate.per_second(11 * S) == 100 / 6


def test_a_steady_rate_is_measured_as_it_is() -> None:
    rate = SimpleRate()
    for tick in range(400):
        rate.record(100, tick * S // 10)
    assert 950 <= rate.per_second(40 * S) <= 1050


def _image(*records: MetadataRecord) -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(records):
        image.apply(record, offset)
    return image


def test_the_metadata_says_which_replicas_are_throttled_and_how_much() -> None:
    lists = {"follower.replication.throttled.replicas": "0:1,1:2", "leader.replication.throttled.replicas": "*"}
    image = _image(
        TopicRecord(name="t", topic_id=UUID(int=1), config=lists),
        BrokerConfigRecord(broker_id=1, key="follower.replication.throttled.rate", value="1000"),
    )
    quotas = ReplicationQuotas(1, MetadataCache(image))
    assert quotas.follower.is_throttled(TopicPartition("t", 0))
    assert not quotas.follower.is_throttled(TopicPartition("t", 1))  # the other broker's replica
    assert not quotas.follower.is_throttled(TopicPartition("u", 0))
    assert quotas.leader.is_throttled(TopicPartition("t", 7))
    quotas.follower.record(1001, 0)
    quotas.leader.record(10**9, 0)
    assert quotas.follower.is_exceeded(1)
    assert not quotas.leader.is_exceeded(1)  # no rate is set


def test_a_change_of_the_metadata_is_followed_and_what_was_measured_stays() -> None:
    image = _image(TopicRecord(name="t", topic_id=UUID(int=1), config={}))
    quotas = ReplicationQuotas(1, MetadataCache(image))
    quotas.leader.record(500, 0)
    image.apply(BrokerConfigRecord(broker_id=1, key="leader.replication.throttled.rate", value="400"), 1)
    image.apply(ConfigRecord(topic="t", key="leader.replication.throttled.replicas", value="0:1"), 2)
    assert quotas.leader.is_throttled(TopicPartition("t", 0))
    assert quotas.leader.is_exceeded(1)
    image.apply(BrokerConfigRecord(broker_id=1, key="leader.replication.throttled.rate", value=None), 3)
    assert not quotas.leader.is_exceeded(1)


def test_a_rate_of_every_broker_counts_where_a_broker_has_none_of_its_own() -> None:
    rate = "leader.replication.throttled.rate"
    image = _image(
        TopicRecord(name="t", topic_id=UUID(int=1), config={"leader.replication.throttled.replicas": "*"}),
        BrokerConfigRecord(broker_id=EVERY_BROKER, key=rate, value="400"),
        BrokerConfigRecord(broker_id=2, key=rate, value="1000000"),
    )
    ours, theirs = ReplicationQuotas(1, MetadataCache(image)), ReplicationQuotas(2, MetadataCache(image))
    for quotas in (ours, theirs):
        quotas.leader.record(500, 0)
    assert ours.leader.is_exceeded(1) and not theirs.leader.is_exceeded(1)
