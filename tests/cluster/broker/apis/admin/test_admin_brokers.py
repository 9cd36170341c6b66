"""A broker is forgotten, replicas are asked to move, and features to have other levels."""

import pytest
from broker_world import B1, B2, BrokerWorld

from cluster.protocol.versions import (
    ALTER_REPLICA_LOG_DIRS,
    API_VERSIONS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
)
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
    assert [event.sentence() for event in world.events(BrokerFenced)] == ["b2 was fenced: an operator unregistered it"]
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


UPGRADE, SAFE_DOWNGRADE = 1, 2


def updated(world, version, *levels, upgrade_type=UPGRADE):
    how = {"upgrade_type": upgrade_type} if version else {"allow_downgrade": upgrade_type != UPGRADE}
    updates = [{"feature": name, "max_version_level": level, **how} for name, level in levels]
    return world.call("admin").ask(UPDATE_FEATURES, version, feature_updates=updates, timeout=1000)


def test_the_levels_that_hold_are_granted(world):
    answer = updated(world, 1, ("metadata.version", 27), ("transaction.version", 2))
    assert [(one.feature, one.error_code) for one in answer.results] == [
        ("metadata.version", ErrorCode.NONE),
        ("transaction.version", ErrorCode.NONE),
    ]
    assert updated(world, 2, ("group.version", 1)).error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    "name, level, upgrade_type, told",
    [
        ("unknown", 1, UPGRADE, "Local controller 1001 does not support this feature."),
        ("group.version", 2, UPGRADE, "Local controller 1001 only supports versions 0-1"),
        ("group.version", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("group.version", 1, 9, "The controller does not support the given upgrade type."),
        ("group.version", 0, UPGRADE, "Can't downgrade the version of this feature without setting the upgrade type"),
        ("group.version", 2, SAFE_DOWNGRADE, "Local controller 1001 only supports versions 0-1"),
        ("eligible.leader.replicas.version", 0, UPGRADE, "Can't downgrade the version of this feature without setting"),
    ],
)
def test_other_levels_are_refused_all_or_none(world, name, level, upgrade_type, told):
    answer = updated(world, 2, ("metadata.version", 27), (name, level), upgrade_type=upgrade_type)
    assert answer.error_code is ErrorCode.INVALID_UPDATE_VERSION
    if upgrade_type != 9:
        assert f"Invalid update version {level} for feature {name}. {told}" in answer.error_message
    assert told in answer.error_message


def test_metadata_that_would_be_lost_keeps_its_level(world):
    for how, told in (
        (SAFE_DOWNGRADE, "Refusing to perform the requested"),
        (3, "Unsafe metadata downgrade"),
    ):
        answer = updated(world, 2, ("metadata.version", 22), upgrade_type=how)
        assert f"Invalid metadata.version 22. {told}" in answer.error_message
    assert updated(world, 2, ("metadata.version", 23), upgrade_type=SAFE_DOWNGRADE).error_code is ErrorCode.NONE
    assert levels(world)["metadata.version"] == 23


def levels(world):
    answer = world.call("admin").ask(API_VERSIONS, 4)
    return {one.name: one.max_version_level for one in answer.finalized_features}


def test_a_level_that_is_set_counts_from_then_on(world):
    before = levels(world)
    assert (before["transaction.version"], before["group.version"]) == (2, 1)
    down = updated(world, 2, ("transaction.version", 1), ("group.version", 0), upgrade_type=SAFE_DOWNGRADE)
    assert down.error_code is ErrorCode.NONE
    assert levels(world) == {**{k: v for k, v in before.items() if k != "group.version"}, "transaction.version": 1}
    assert world.broker._coordinators.transactions.version == 1
    assert heartbeat(world) is ErrorCode.UNSUPPORTED_VERSION
    (group,) = world.call("member").ask(CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"]).groups
    assert (group.group_id, group.error_code) == ("g", ErrorCode.UNSUPPORTED_VERSION)
    assert updated(world, 2, ("transaction.version", 2), ("group.version", 1)).error_code is ErrorCode.NONE
    assert (levels(world), world.broker._coordinators.transactions.version) == (before, 2)
    assert heartbeat(world) is not ErrorCode.UNSUPPORTED_VERSION
    only_asked = {"feature": "group.version", "max_version_level": 0, "upgrade_type": SAFE_DOWNGRADE}
    admin = world.call("admin")
    assert admin.ask(UPDATE_FEATURES, 2, feature_updates=[only_asked], validate_only=True).error_code is ErrorCode.NONE
    assert levels(world) == before


def heartbeat(world):
    return world.call("member").ask(CONSUMER_GROUP_HEARTBEAT, 1, group_id="g", member_id="m").error_code


def test_levels_outlive_the_controller_and_the_broker(world):
    assert updated(world, 2, ("transaction.version", 0), upgrade_type=SAFE_DOWNGRADE).error_code is ErrorCode.NONE
    world.stop_controller()
    world.start_controller()
    world.kill()
    world.start().run(15_000)
    assert "transaction.version" not in levels(world)
    assert world.broker._coordinators.transactions.version == 0


def test_an_older_release_answers_for_each_feature(tmp_path):
    world = BrokerWorld(tmp_path, PROFILES["kafka-3.9"]).start()
    world.run(100)
    answer = updated(world, 0, ("metadata.version", 21), ("group.version", 1), upgrade_type=SAFE_DOWNGRADE)
    assert answer.error_code is ErrorCode.NONE
    assert [one.error_code for one in answer.results] == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
