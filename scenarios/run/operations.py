"""An operator's requests other than elections: reassignments, throttles, dynamic configuration, topics and groups.

Kafka's tools send them through an admin client: kafka-configs sends one IncrementalAlterConfigs request, and
kafka-reassign-partitions sends AlterPartitionReassignments, after three IncrementalAlterConfigs with --throttle. Here
they go to the controller directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from cluster.broker.replicas.partition import KEEP_UNCOMMITTED
from cluster.operated import (
    AbortTransaction,
    BrokerInput,
    DeleteGroup,
    DeleteRecords,
    FenceProducer,
    ResetOffsets,
)
from controller.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE
from controller.inputs import (
    AlterReassignment,
    ChangeBrokerConfig,
    ChangeConfig,
    ChangeFeatureLevels,
    ChangeGroupConfig,
    ChangeVoters,
    ControllerInput,
    CreatePartitions,
    CreateTopicReply,
    DeleteTopic,
    PlainReply,
    Reply,
    UnregisterBroker,
)
from replica.errors import ErrorCode
from replica.ids import EVERY_BROKER, TRANSACTIONS_TOPIC, Offset, TopicPartition
from scenarios.language.spec import ClientQuota, TopicSpec
from scenarios.language.verbs.cluster import ResetGroupOffsets, UpgradeType
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
"""Replicas as pairs (partition, broker id)."""


class Operator:
    """An operator's tools, which send requests to the active controller and to brokers.

    Every method raises NotPossibleNow if the request is refused, or if the node that would answer is down.
    """

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._cluster = cluster
        self._calls = ControllerCalls(cluster)
        self.elect_leaders = self._calls.elect_leaders

    async def _ask(self, what: str, make_input: Callable[[int], ControllerInput | ChangeVoters]) -> None:
        _accepted(what, await self._calls.decision(make_input))

    def _ids(self, names: Iterable[str]) -> tuple[int, ...]:
        ids = self._cluster.scenario.cluster.ids
        return tuple(ids[name] for name in names)

    # ---------------------------------------------------------------------------------------------- reassignments

    async def reassign(self, name: TopicPartition, target: tuple[str, ...], bytes_per_second: int | None) -> None:
        """Start the reassignment of a partition to the brokers in `target`.

        Args:
            bytes_per_second: replication throttle, which remains afterwards, as with kafka-reassign-partitions
                --throttle; None for no throttle.
        """
        before = self._cluster.view.replicas(name)
        if bytes_per_second is not None:
            adding = [(name.partition, broker) for broker in self._ids(target) if broker not in self._ids(before)]
            await self._add_throttled(
                name.topic, LEADER_REPLICAS, [(name.partition, item) for item in self._ids(before)]
            )
            await self._add_throttled(name.topic, FOLLOWER_REPLICAS, adding)
            for broker in dict.fromkeys((*before, *target)):
                rate = str(bytes_per_second)
                await self.set_broker_config(broker, {LEADER_RATE: rate, FOLLOWER_RATE: rate})
        ids = self._ids(target)
        await self._ask(
            f"reassigning {name}",
            lambda now_us: AlterReassignment(now_us=now_us, topic=name.topic, partition=name.partition, replicas=ids),
        )

    async def cancel_reassignment(self, name: TopicPartition) -> None:
        await self._ask(
            f"cancelling the reassignment of {name}",
            lambda now_us: AlterReassignment(now_us=now_us, topic=name.topic, partition=name.partition, replicas=None),
        )

    # ----------------------------------------------------------------------------------------------------- topics

    async def create_topic(self, topic: TopicSpec) -> None:
        _accepted(f"creating the topic {topic.name}", await self._calls.topic_creation(topic))

    async def delete_topic(self, topic: str) -> None:
        await self._ask(f"deleting the topic {topic}", lambda now_us: DeleteTopic(now_us=now_us, name=topic))

    async def create_partitions(self, topic: str, count: int) -> None:
        await self._ask(
            f"increasing {topic} to {count} partitions",
            lambda now_us: CreatePartitions(now_us=now_us, topic=topic, count=count),
        )

    async def unregister(self, broker: str) -> None:
        (broker_id,) = self._ids((broker,))
        await self._ask(f"unregistering {broker}", lambda now_us: UnregisterBroker(now_us=now_us, broker_id=broker_id))

    async def change_voters(self, controller: str, *, is_addition: bool) -> None:
        (controller_id,) = self._ids((controller,))
        await self._ask(
            f"{'adding' if is_addition else 'removing'} the voter {controller}",
            lambda now_us: ChangeVoters(now_us=now_us, controller_id=controller_id, is_addition=is_addition),
        )

    # ---------------------------------------------------------------------------------------- leaders, coordinators

    async def delete_records(self, name: TopicPartition, offset: Offset | None) -> None:
        """Delete the records below `offset`, or below the high watermark if `offset` is None."""
        asked = DeleteRecords(name, KEEP_UNCOMMITTED if offset is None else offset)
        await self._ask_broker(f"deleting records of {name}", self._cluster.view.leader(name), asked)

    async def delete_group(self, group: str, topic: str | None) -> None:
        """Delete a group. If `topic` is given, delete only the group's offsets of that topic."""
        names = tuple(name for name in sorted(self._cluster.view.partitions) if name.topic == topic)
        what = f"deleting the group {group}" if topic is None else f"deleting the offsets of {group} in {topic}"
        if topic is not None and not names:
            raise NotPossibleNow(f"{what}: there is no topic {topic} yet")
        await self._ask_broker(what, self._cluster.view.coordinator(group), DeleteGroup(group, names))

    async def reset_offsets(self, group: str, names: Sequence[TopicPartition], payload: ResetGroupOffsets) -> None:
        """Reset the committed offsets of a group.

        Simplified: the start and the high watermark of a log come from the view of the run. Kafka's tool asks the
        leader (ListOffsets), which may answer OFFSET_NOT_AVAILABLE.
        Source: ConsumerGroupCommand.resetOffsets
        """
        what = f"resetting the offsets of {group} in {payload.what}"
        bounds = {}
        for name in names:
            leader = self._cluster.view.leader(name)
            log = None if leader is None else self._cluster.view.replica(name, leader)
            if log is None:
                raise NotPossibleNow(f"{what}: {name} has no leader")
            bounds[name] = (log.log_start_offset, log.high_watermark)
        if not bounds:
            raise NotPossibleNow(f"{what}: there is no topic {payload.topic} yet")
        asked = ResetOffsets(group, bounds, payload.to, payload.shift or 0)
        await self._ask_broker(what, self._cluster.view.coordinator(group), asked)

    async def abort_transaction(self, name: TopicPartition, start_offset: Offset | None) -> None:
        """Abort the open transaction that begins at `start_offset` in a partition, or the oldest one if None."""
        asked = AbortTransaction(name, start_offset)
        await self._ask_broker(f"aborting a transaction in {name}", self._cluster.view.leader(name), asked)

    async def fence_producer(self, transactional_id: str) -> None:
        coordinator = self._cluster.view.coordinator(transactional_id, TRANSACTIONS_TOPIC)
        await self._ask_broker(f"fencing {transactional_id}", coordinator, FenceProducer(transactional_id))

    async def _ask_broker(self, what: str, name: str | None, asked: BrokerInput) -> None:
        if name is None:
            raise NotPossibleNow(f"{what}: no broker is the leader or coordinator for it")
        broker = self._cluster.answering(self._cluster.nodes.brokers, name)
        if broker is None:
            raise NotPossibleNow(f"{what}: {name}, which is the leader or coordinator for it, does not answer")
        _accepted(what, await self._cluster.answer_of(name, partial(broker.operate, lambda _: asked)))

    # -------------------------------------------------------------------------------------------------- throttles

    async def throttle(
        self, brokers: tuple[str, ...], bytes_per_second: int | None, sides: tuple[str, ...], topic: str | None
    ) -> None:
        """Throttle the replication of brokers, or end their throttles.

        Args:
            bytes_per_second: rate, None to end the throttles.
            sides: `leader`, `follower`, or both.
            topic: topic whose replicas are throttled, None for all.
        """
        rates = {"leader": LEADER_RATE, "follower": FOLLOWER_RATE}
        lists = {"leader": LEADER_REPLICAS, "follower": FOLLOWER_REPLICAS}
        rate = None if bytes_per_second is None else str(bytes_per_second)
        for broker in brokers:
            await self.set_broker_config(broker, {rates[side]: rate for side in sides})
        ids = self._ids(brokers)
        for item in self._cluster.scenario.topics if topic is None else (topic,):
            replicas = [
                (name.partition, broker)
                for name in sorted(self._cluster.view.partitions)
                if name.topic == item
                for broker in self._ids(self._cluster.view.replicas(name))
                if broker in ids
            ]
            for side in sides:
                if rate is None:
                    await self._remove_throttled(item, lists[side], replicas)
                else:
                    await self._add_throttled(item, lists[side], replicas)

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
            f"setting the configuration of topic {topic}",
            lambda now_us: ChangeConfig(now_us=now_us, topic=topic, config=dict(config)),
        )

    async def update_features(self, levels: Mapping[str, int], upgrade_type: UpgradeType) -> None:
        how = UPGRADE_TYPES[upgrade_type]
        await self._ask(
            f"setting the level of {' and '.join(levels)}",
            lambda now_us: ChangeFeatureLevels(
                now_us=now_us, levels=dict(levels), upgrade_types=dict.fromkeys(levels, how)
            ),
        )

    async def set_quota(self, quota: ClientQuota) -> None:
        await self._ask(f"setting the quota of {quota.whose}", partial(alteration, quota))

    async def set_group_config(self, group: str, config: Mapping[str, str | None]) -> None:
        await self._ask(
            f"setting the configuration of group {group}",
            lambda now_us: ChangeGroupConfig(now_us=now_us, group=group, config=dict(config)),
        )

    async def set_broker_config(self, broker: str | None, config: Mapping[str, str | None]) -> None:
        """Change the dynamic configuration of a broker, or of all brokers if `broker` is None."""
        broker_id = EVERY_BROKER if broker is None else self._ids((broker,))[0]
        await self._ask(
            f"setting the configuration of {broker or 'every broker'}",
            lambda now_us: ChangeBrokerConfig(now_us=now_us, broker_id=broker_id, config=dict(config)),
        )


def _accepted(what: str, reply: Reply | None) -> None:
    """Raise NotPossibleNow if the reply is a refusal. A refusal by Kafka's tool has a message and no error code.

    Args:
        what: the request, as the subject of the error message.
    """
    if not isinstance(reply, (CreateTopicReply, PlainReply)):
        return
    if reply.error is not ErrorCode.NONE:
        raise NotPossibleNow(f"{what} was refused: {reply.error.name} {reply.message}".rstrip())
    if reply.message:
        raise NotPossibleNow(f"{what} was refused: {reply.message}")
