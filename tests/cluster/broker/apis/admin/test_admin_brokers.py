"""A broker is forgotten, and replicas are asked to move to other log directories."""

import pytest
from broker_world import B1, B2, BrokerWorld

from cluster.protocol.versions import ALTER_REPLICA_LOG_DIRS, DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS, UNREGISTER_BROKER
from controller.quorum.messages import OffsetAndEpoch
from controller.snapshot import snapshot_of
from replica.errors import ErrorCode
from replica.rules import PROFILES
from replica.trace.events import BrokerFenced


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path, PROFILES["kafka-4.1"]).start()
    world.run(100)
    world.join(B2)
    world.create(B2, B1)
    world.run(10)
    return world


def unregister(world, broker_id):
    error = world.call("admin").ask(UNREGISTER_BROKER, 0, broker_id=broker_id).error_code
    world.run(10)
    return error


def test_a_broker_that_is_forgotten_leads_nothing_and_is_in_no_isr(world):
    assert unregister(world, B2) is ErrorCode.NONE
    image = world.broker.cache.image
    partition = image.partition("t", 0)
    assert partition is not None
    assert (partition.leader, partition.in_sync_replicas, partition.replicas) == (B1, (B1,), (B2, B1))
    assert list(image.brokers) == [B1]
    assert [event.reason for event in world.events(BrokerFenced)] == ["b2 was fenced: an operator unregistered it"]
    brokers = world.call("c").ask(DESCRIBE_CLUSTER, 2, endpoint_type=1, include_fenced_brokers=True).brokers
    assert [broker.broker_id for broker in brokers] == [B1]
    assert list(snapshot_of(image, OffsetAndEpoch(epoch=1, offset=image.offset + 1), 0).image().brokers) == [B1]


def test_a_broker_is_forgotten_once_and_may_come_back(world):
    assert unregister(world, B2) is ErrorCode.NONE
    assert unregister(world, B2) is ErrorCode.BROKER_ID_NOT_REGISTERED
    world.run(20_000)
    assert len(world.events(BrokerFenced)) == 1, "it has no session that could run out"
    world.join(B2, life=1)
    world.run(10)
    assert list(world.broker.cache.image.brokers) == [B1, B2]


def test_a_replica_is_asked_to_move(world):
    admin = world.call("admin")
    (here,) = admin.ask(DESCRIBE_LOG_DIRS, 4, topics=None).results

    def moved(topic, path):
        dirs = [{"path": path, "topics": [{"name": topic, "partitions": [0]}]}]
        (result,) = admin.ask(ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs).results
        return result.topic_name, result.partitions[0].error_code

    world.create(B2, topic="there")
    world.run(10)
    assert moved("t", here.log_dir) == ("t", ErrorCode.NONE)
    assert moved("t", "/not/there") == ("t", ErrorCode.LOG_DIR_NOT_FOUND)
    assert moved("there", here.log_dir) == ("there", ErrorCode.REPLICA_NOT_AVAILABLE)
    assert moved("unknown", here.log_dir) == ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
