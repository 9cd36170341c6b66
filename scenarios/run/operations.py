"""An operator's requests beside elections: reassignments, throttles, dynamic configuration, topics, groups.

The tools of Kafka are requests of an admin client: kafka-reassign-partitions is an AlterPartitionReassignments and,
with --throttle, three IncrementalAlterConfigs; kafka-configs is one. Here they reach the controller directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from cluster.broker.replicas.partition import KEEP_UNCOMMITTED
from cluster.operated import BrokerInput, DeleteGroup, DeleteRecords
from controller.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE
from controller.inputs import (
    AlterReassignment,
    ChangeBrokerConfig,
    ChangeConfig,
    ChangeFeatureLevels,
    ChangeGroupConfig,
    ControllerInput,
    CreatePartitions,
    CreateTopicReply,
    DeleteTopic,
    Reply,
    TopicReply,
    UnregisterBroker,
)
from replica.errors import ErrorCode
from replica.ids import EVERY_BROKER, Offset, TopicPartition
from scenarios.language.spec import ClientQuota, TopicSpec
from scenarios.language.verbs.cluster import UpgradeType
from scenarios.run.cluster_under_test import ClusterUnderTest, NotPossibleNow
from scenarios.run.controller_calls import ControllerCalls, alteration

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
UPGRADE_TYPES: Mapping[UpgradeType, int] = {
    "upgrade": UPGRADE,
    "safe_downgrade": SAFE_DOWNGRADE,
    "unsafe_downgrade": UNSAFE_DOWNGRADE,
}
Pairs = Iterable[tuple[int, int]]
"""(partition, broker id)"""


class Operator:
    """Asks the active controller; every method raises NotPossibleNow when it is down or refuses."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._cluster = cluster
        self._calls = ControllerCalls(cluster)
        self.elect_leader = self._calls.elect_leader

    async def _ask(self, what: str, make_input: Callable[[int], ControllerInput]) -> None:
        _accepted(what, await self._calls.decision(make_input))

    def _ids(self, names: Iterable[str]) -> tuple[int, ...]:
        ids = self._cluster.scenario.cluster.ids
        return tuple(ids[name] for name in names)

    # ---------------------------------------------------------------------------------------------- reassignments

    async def reassign(self, name: TopicPartition, target: tuple[str, ...], bytes_per_second: int | None) -> None:
        """With a rate the quotas are set first, as kafka-reassign-partitions --throttle does; they stay afterwards."""
        before = self._cluster.view.replicas(name)
        if bytes_per_second is not None:
            adding = [(name.partition, broker) for broker in self._ids(target) if broker not in self._ids(before)]
            await self._add_throttled(name.topic, LEADER_REPLICAS, [(name.partition, one) for one in self._ids(before)])
            await self._add_throttled(name.topic, FOLLOWER_REPLICAS, adding)
            for broker in dict.fromkeys((*before, *target)):
                rate = str(bytes_per_second)
                await self.set_broker_config(broker, {LEADER_RATE: rate, FOLLOWER_RATE: rate})
        ids = self._ids(target)
        await self._ask(
            f"the reassignment of {name}",
            lambda now_us: AlterReassignment(now_us=now_us, topic=name.topic, partition=name.partition, replicas=ids),
        )

    async def cancel_reassignment(self, name: TopicPartition) -> None:
        await self._ask(
            f"cancelling the reassignment of {name}",
            lambda now_us: AlterReassignment(now_us=now_us, topic=name.topic, partition=name.partition, replicas=None),
        )

    # ----------------------------------------------------------------------------------------------------- topics

    async def create_topic(self, topic: TopicSpec) -> None:
        _accepted(f"the topic {topic.name}", await self._calls.topic_creation(topic))

    async def delete_topic(self, topic: str) -> None:
        await self._ask(f"deleting the topic {topic}", lambda now_us: DeleteTopic(now_us=now_us, name=topic))

    async def create_partitions(self, topic: str, count: int) -> None:
        await self._ask(
            f"{count} partitions of {topic}", lambda now_us: CreatePartitions(now_us=now_us, topic=topic, count=count)
        )

    async def unregister(self, broker: str) -> None:
        (broker_id,) = self._ids((broker,))
        await self._ask(f"unregistering {broker}", lambda now_us: UnregisterBroker(now_us=now_us, broker_id=broker_id))

    # ---------------------------------------------------------------------------------------- leaders, coordinators

    async def delete_records(self, name: TopicPartition, offset: Offset | None) -> None:
        """offset: the first to be kept; None: the high watermark"""
        asked = DeleteRecords(name, KEEP_UNCOMMITTED if offset is None else offset)
        await self._ask_broker(f"deleting records of {name}", self._cluster.view.leader(name), asked)

    async def delete_group(self, group: str, topic: str | None) -> None:
        """topic: of which it forgets its offsets, and no more than that"""
        names = tuple(name for name in sorted(self._cluster.view.partitions) if name.topic == topic)
        what = f"deleting the group {group}" if topic is None else f"deleting the offsets of {group} in {topic}"
        if topic is not None and not names:
            raise NotPossibleNow(f"{what}: there is no topic {topic} yet")
        await self._ask_broker(what, self._cluster.view.coordinator(group), DeleteGroup(group, names))

    async def _ask_broker(self, what: str, name: str | None, asked: BrokerInput) -> None:
        if name is None:
            raise NotPossibleNow(f"{what}: there is no broker that decides about it")
        broker = self._cluster.answering(self._cluster.nodes.brokers, name)
        if broker is None:
            raise NotPossibleNow(f"{what}: {name}, which decides about it, does not answer")
        _accepted(what, await self._cluster.answer_of(name, partial(broker.operate, lambda _: asked)))

    # -------------------------------------------------------------------------------------------------- throttles

    async def throttle(
        self, brokers: tuple[str, ...], bytes_per_second: int | None, sides: tuple[str, ...], topic: str | None
    ) -> None:
        """sides: leader, follower, or both"""
        rates = {"leader": LEADER_RATE, "follower": FOLLOWER_RATE}
        lists = {"leader": LEADER_REPLICAS, "follower": FOLLOWER_REPLICAS}
        rate = None if bytes_per_second is None else str(bytes_per_second)
        for broker in brokers:
            await self.set_broker_config(broker, {rates[side]: rate for side in sides})
        ids = self._ids(brokers)
        for one in self._cluster.scenario.topics if topic is None else (topic,):
            replicas = [
                (name.partition, broker)
                for name in sorted(self._cluster.view.partitions)
                if name.topic == one
                for broker in self._ids(self._cluster.view.replicas(name))
                if broker in ids
            ]
            for side in sides:
                if rate is None:
                    await self._remove_throttled(one, lists[side], replicas)
                else:
                    await self._add_throttled(one, lists[side], replicas)

    async def _throttled(self, topic: str, key: str) -> list[str]:
        text = (await self._calls.topic_config(topic)).get(key, "")
        return [pair for pair in text.split(",") if pair]

    async def _add_throttled(self, topic: str, key: str, replicas: Pairs) -> None:
        known = await self._throttled(topic, key)
        added = [*known, *(f"{partition}:{broker}" for partition, broker in replicas)]
        if known != ["*"] and added != known:
            await self.set_topic_config(topic, {key: ",".join(dict.fromkeys(added))})

    async def _remove_throttled(self, topic: str, key: str, replicas: Pairs) -> None:
        known = await self._throttled(topic, key)
        gone = [f"{partition}:{broker}" for partition, broker in replicas]
        left = [pair for pair in known if pair not in gone]
        if left != known:
            await self.set_topic_config(topic, {key: ",".join(left) or None})

    # ----------------------------------------------------------------------------------------------------- config

    async def set_topic_config(self, topic: str, config: Mapping[str, str | None]) -> None:
        await self._ask(
            f"the configuration of topic {topic}",
            lambda now_us: ChangeConfig(now_us=now_us, topic=topic, config=dict(config)),
        )

    async def update_features(self, levels: Mapping[str, int], upgrade_type: UpgradeType) -> None:
        how = UPGRADE_TYPES[upgrade_type]
        await self._ask(
            f"the level of {' and '.join(levels)}",
            lambda now_us: ChangeFeatureLevels(
                now_us=now_us, levels=dict(levels), upgrade_types=dict.fromkeys(levels, how)
            ),
        )

    async def set_quota(self, quota: ClientQuota) -> None:
        await self._ask(f"the quota of {quota.whose}", partial(alteration, quota))

    async def set_group_config(self, group: str, config: Mapping[str, str | None]) -> None:
        await self._ask(
            f"the configuration of group {group}",
            lambda now_us: ChangeGroupConfig(now_us=now_us, group=group, config=dict(config)),
        )

    async def set_broker_config(self, broker: str | None, config: Mapping[str, str | None]) -> None:
        """broker: None for all at once"""
        broker_id = EVERY_BROKER if broker is None else self._ids((broker,))[0]
        await self._ask(
            f"the configuration of {broker or 'every broker'}",
            lambda now_us: ChangeBrokerConfig(now_us=now_us, broker_id=broker_id, config=dict(config)),
        )


def _accepted(what: str, reply: Reply | None) -> None:
    """raises: NotPossibleNow for a refusal"""
    if isinstance(reply, (CreateTopicReply, TopicReply)) and reply.error is not ErrorCode.NONE:
        raise NotPossibleNow(f"{what} is refused: {reply.error.name} {reply.message}".rstrip())
