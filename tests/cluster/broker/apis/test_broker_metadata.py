"""A broker's actions and events after a change of the metadata."""

from uuid import UUID

import pytest
from broker_world import B1, B2, T0, BrokerWorld, batch

from cluster.protocol.versions import DESCRIBE_TOPIC_PARTITIONS, METADATA
from controller.inputs import ChangeConfig, DeleteTopic
from replica.errors import ErrorCode
from replica.trace.events import LeaderElected


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.join(B2)
    return world


def test_a_change_of_min_isr_reaches_the_leader_at_once(world):
    world.create(B1, B2)
    world.fall_silent(B2)
    client = world.call("p1")
    client.produce(batch("r0"))
    assert client.produced().error is ErrorCode.NONE
    world.decide(ChangeConfig(now_us=world.now_us, topic="t", config={"min.insync.replicas": "2"}))
    client.produce(batch("r1"))
    assert client.produced().error is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_topic_created_again_under_the_same_name_begins_empty(world):
    world.create(B1)
    world.call("p1").produce(batch("r0"))
    world.kill()
    world.decide(DeleteTopic(now_us=world.now_us, name="t"))
    world.start()
    world.run(20_000)
    world.create(B1)
    client = world.call("p1")
    client.produce(batch("r1"))
    assert client.produced().base_offset == 0
    assert world.broker.logs.topic_id(T0) == world.topic_id("t")


def test_metadata_by_topic_id(world):
    world.create(B1)
    client = world.call("x")
    topics = [{"topic_id": world.topic_id("t"), "name": None}, {"topic_id": UUID(int=9), "name": None}]
    answer = client.ask(METADATA, 12, topics=topics, allow_auto_topic_creation=False).topics
    assert [(topic.name, int(topic.error_code)) for topic in answer] == [("t", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_a_fenced_broker_is_no_longer_named_and_its_replicas_are_offline(world):
    world.create(B1, B2)
    world.fall_silent(B2)
    topics = [{"name": "t"}]
    answer = world.call("x").ask(METADATA, 9, topics=topics, allow_auto_topic_creation=False)
    assert [int(broker.node_id) for broker in answer.brokers] == [B1]
    partition = answer.topics[0].partitions[0]
    assert (list(partition.isr_nodes), list(partition.offline_replicas)) == ([B1], [B2])


def test_version_0_names_live_replicas_only_and_says_when_some_are_missing(world):
    """Old clients do not look for offline replicas (KRaftMetadataCache.maybeFilterAliveReplicas)."""
    world.create(B1, B2)
    client = world.call("x")
    (partition,) = client.ask(METADATA, 0, topics=[{"name": "t"}]).topics[0].partitions
    assert (list(partition.replica_nodes), int(partition.error_code)) == ([B1, B2], 0)
    world.fall_silent(B2)
    (partition,) = client.ask(METADATA, 0, topics=[{"name": "t"}]).topics[0].partitions
    assert (list(partition.replica_nodes), list(partition.isr_nodes)) == ([B1], [B1])
    assert int(partition.error_code) == ErrorCode.REPLICA_NOT_AVAILABLE


@pytest.mark.parametrize("version", [0, 12])
def test_a_leader_without_an_address_is_none(world, version):
    """An UpdateMetadata of the ZooKeeper era can name the live brokers before it names the new leader."""
    world.create(B2, B1)
    del world.broker.cache.image.brokers[B2]
    client = world.call("x")
    (partition,) = client.ask(METADATA, version, topics=[{"name": "t"}]).topics[0].partitions
    assert (int(partition.leader_id), int(partition.error_code)) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    (partition,) = client.ask(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "t"}]).topics[0].partitions
    assert int(partition.leader_id) == -1


def test_what_a_controller_decides_at_once_follows_from_the_same_event(world):
    """b2 begins to shut down, which moves two partitions: neither election follows from the other."""
    world.create(B2, B1)
    world.create(B2, B1, topic="u")
    world.trace.cause = led_here = world.trace.next_seq - 1
    world.heartbeat(B2, stop=True)
    elected = [row for row in world.rows if type(row.event) is LeaderElected and row.seq > led_here]
    assert [row.event.topic for row in elected] == ["t", "u"]
    assert [row.causes for row in elected] == [(led_here,), (led_here,)]
