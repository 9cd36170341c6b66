"""The controller: registration, sessions, elections and the ISR, as one event loop over a totally ordered log.

Every event appends its records as one batch, applies them at once to the controller's own image, and answers last.
Source: QuorumController.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import NAMESPACE_OID, UUID, uuid5

from controller import topics
from controller.brokers import Brokers
from controller.events import (
    Action,
    AlterPartition,
    AssignReplicas,
    ChangeBrokerConfig,
    ChangeConfig,
    CreateTopic,
    CreateTopicReply,
    DeleteTopic,
    ElectLeader,
    Event,
    Heartbeat,
    Reassign,
    RebalanceDue,
    RegisterBroker,
    SessionCheckDue,
    TopicReply,
    UncleanSweepDue,
)
from controller.image import MetadataImage
from controller.journal import Journal
from controller.metadata import (
    BrokerConfigChanged,
    ConfigChanged,
    MetadataRecord,
    PartitionCreated,
    TopicCreated,
    TopicDeleted,
)
from controller.partitions import Partitions
from controller.placement import place
from controller.snapshot import Snapshot
from replica import trace
from replica.config import ConfigError, DynamicBrokerConfig, TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import BrokerId, Names, Offset
from replica.rules import Rules

UNCLEAN_ELECTION_INTERVAL_US = 300_000_000
"""unclean.leader.election.interval.ms, an internal key of Kafka: 5 minutes."""

_RESUME_SWEEP_US = 10_000
"""A sweep that stopped at its limit goes on after 10 ms."""


class Sweep:
    """A check that is planned one interval after there is something for it to do, and again while there is.

    interval_us: None switches it off     source: QuorumController.ImbalanceSchedule
    """

    __slots__ = ("due_us", "interval_us")

    def __init__(self, interval_us: int | None) -> None:
        self.interval_us = interval_us
        self.due_us: int | None = None

    def plan(self, now_us: int) -> None:
        if self.due_us is None and self.interval_us is not None:
            self.due_us = now_us + self.interval_us

    def ran(self, now_us: int, stopped_at_limit: bool) -> None:
        self.due_us = now_us + _RESUME_SWEEP_US if stopped_at_limit else None


class ControllerState:
    """Give it events, perform its actions in order; call `tick` when `next_deadline_us` has come.

    rebalance_interval_us: leader.imbalance.check.interval.seconds, None without auto.leader.rebalance.enable
    default_config: what a topic gets that does not say otherwise (the brokers' `log.*` keys)
    """

    def __init__(
        self,
        *,
        names: Names,
        controller_id: BrokerId,
        rules: Rules,
        default_config: TopicConfig | None = None,
        session_timeout_us: int = 9_000_000,
        rebalance_interval_us: int | None = 300_000_000,
        unclean_election_interval_us: int = UNCLEAN_ELECTION_INTERVAL_US,
        num_partitions: int = 1,
        default_replication_factor: int = 1,
    ) -> None:
        self._journal = Journal(names, controller_id)
        self._names = names
        self._rules = rules
        self._partitions = Partitions(self._journal, rules)
        self._brokers = Brokers(self._journal, self._partitions, session_timeout_us)
        self._rebalance = Sweep(rebalance_interval_us)
        self._unclean_sweep = Sweep(unclean_election_interval_us)
        self._swept_offset: Offset = -1
        self._default_config = default_config or TopicConfig()
        self._num_partitions = num_partitions
        self._default_replication_factor = default_replication_factor

    @property
    def image(self) -> MetadataImage:
        return self._journal.image

    @property
    def next_offset(self) -> Offset:
        """Offset of the next record of the metadata log; the broker epoch of a broker that registers now."""
        return self._journal.next_offset

    @property
    def next_deadline_us(self) -> int | None:
        """Earliest session end, preferred rebalance or unclean sweep; None: nothing is due, ever."""
        dues = (self._brokers.sessions.next_expiry_us, self._rebalance.due_us, self._unclean_sweep.due_us)
        return min((due for due in dues if due is not None), default=None)

    def load(self, records: Iterable[MetadataRecord], now_us: int, snapshot: Snapshot | None = None) -> None:
        """Take over a snapshot and the metadata log from its end on (all of it without one), as a controller that
        becomes active; every unfenced broker gets a fresh session."""
        if snapshot is not None:
            self.image.load_snapshot(snapshot.records, snapshot.end.offset)
        for record in records:
            self.image.apply(record, self.next_offset)
        self._brokers.open_sessions(now_us)
        self._plan_sweeps(now_us)

    def tick(self, now_us: int) -> list[Action]:
        """Everything that is due at `now_us`, one event after the other."""
        actions: list[Action] = []
        while (due_us := self.next_deadline_us) is not None and due_us <= now_us:
            if due_us == self._brokers.sessions.next_expiry_us:
                actions += self.step(SessionCheckDue(now_us=now_us))
            elif due_us == self._rebalance.due_us:
                actions += self.step(RebalanceDue(now_us=now_us))
            else:
                actions += self.step(UncleanSweepDue(now_us=now_us))
        return actions

    def step(self, event: Event) -> list[Action]:
        match event:
            case RegisterBroker():
                self._brokers.register(event)
            case Heartbeat():
                self._brokers.heartbeat(event)
            case AssignReplicas():
                self._brokers.assign_replicas(event)
            case AlterPartition():
                self._partitions.alter(event)
            case ElectLeader():
                self._partitions.elect(event)
            case CreateTopic():
                self._create_topic(event)
            case DeleteTopic():
                self._delete_topic(event)
            case ChangeConfig():
                self._change_config(event)
            case ChangeBrokerConfig():
                self._change_broker_config(event)
            case Reassign():
                self._partitions.reassign(event)
            case SessionCheckDue():
                self._brokers.fence_one_stale(event.now_us)
            case RebalanceDue():
                self._rebalance.ran(event.now_us, stopped_at_limit=self._partitions.rebalance())
                self._plan_sweeps(event.now_us)
            case UncleanSweepDue():
                self._unclean_sweep.ran(event.now_us, stopped_at_limit=self._partitions.elect_unclean())
                self._plan_sweeps(event.now_us)
        if self.image.offset != self._swept_offset:
            self._plan_sweeps(event.now_us)
        return self._journal.take()

    def _plan_sweeps(self, now_us: int) -> None:
        self._swept_offset = self.image.offset
        if self._partitions.are_leaders_imbalanced:
            self._rebalance.plan(now_us)
        if self._partitions.are_some_leaderless:
            self._unclean_sweep.plan(now_us)

    # ------------------------------------------------------------------------------------------------------ topics

    def _create_topic(self, event: CreateTopic) -> None:
        try:
            topics.check_name(self.image, event.name)
            config = topics.stored_config(topics.complete_config(event.config, self._default_config))
            assignment, how = self._assignment(event)
        except KafkaError as error:
            self._journal.reply(CreateTopicReply(error=error.code, message=error.message))
            return
        # The offset makes the id of a topic that is created again a new one.
        topic_id = uuid5(NAMESPACE_OID, f"{event.name}/{self.next_offset}")
        self._journal.append(TopicCreated(name=event.name, topic_id=topic_id, config=config))
        for number, replicas in enumerate(assignment):
            self._create_partition(event.name, number, replicas, how)
        self._journal.reply(CreateTopicReply(error=ErrorCode.NONE, topic_id=topic_id))

    def _assignment(self, event: CreateTopic) -> tuple[topics.Assignment, str]:
        """Replicas of every partition, and how they came about.     raises: KafkaError"""
        if event.assignment:
            topics.check_assignment(self.image, event.assignment, self._names)
            return event.assignment, "as assigned"
        number = self._num_partitions if event.partitions is None else event.partitions
        if number <= 0:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"a topic needs at least one partition, not {number}")
        replication_factor = event.replication_factor
        if replication_factor is None:
            replication_factor = self._default_replication_factor
        existing = sum(len(topic.partitions) for topic in self.image.topics.values())
        usable = topics.usable_brokers(self.image)
        return tuple(place(usable, number, replication_factor, start=existing)), "placed evenly over racks and brokers"

    def _create_partition(self, topic: str, number: int, replicas: tuple[BrokerId, ...], how: str) -> None:
        """The ISR is whoever is active now, and its first member leads; the others join by catching up."""
        in_sync_replicas = tuple(broker_id for broker_id in replicas if self.image.is_active(broker_id))
        self._journal.append(
            PartitionCreated(
                topic=topic,
                partition=number,
                replicas=replicas,
                in_sync_replicas=in_sync_replicas,
                leader=in_sync_replicas[0],
            )
        )
        teller = self._journal.teller
        leader = self._names(in_sync_replicas[0])
        self._journal.tell(
            trace.PartitionCreated(
                node=self._journal.node,
                topic=topic,
                partition=number,
                broker=leader,
                replicas=teller.named(replicas),
                isr=teller.named(in_sync_replicas),
                leader_epoch=0,
                partition_epoch=0,
                min_isr=self.image.topics[topic].effective_min_isr,
                reason=f"replicas {how}; {leader} leads, the first that is live",
            )
        )

    def _delete_topic(self, event: DeleteTopic) -> None:
        topic_id = self._topic_id(event.name)
        if topic_id is not None:
            self._journal.append(TopicDeleted(name=event.name, topic_id=topic_id))
            self._journal.reply(TopicReply(error=ErrorCode.NONE))

    def _change_config(self, event: ChangeConfig) -> None:
        if self._topic_id(event.topic) is None:
            return
        try:
            complete = topics.complete_config(event.config, self._default_config)
        except KafkaError as error:
            self._journal.reply(TopicReply(error=error.code, message=error.message))
            return
        for key, value in event.config.items():
            self._journal.append(ConfigChanged(topic=event.topic, key=key, value=topics.as_stored(key, complete[key])))
            self._journal.tell(
                trace.ConfigAltered(
                    node=self._journal.node,
                    topic=event.topic,
                    key=key,
                    value=None if value is None else str(value),
                    min_isr=self.image.topics[event.topic].effective_min_isr,
                    reason=f"an operator sets {key} of topic {event.topic} {_to(value)}",
                )
            )
        if "min.insync.replicas" in event.config:
            self._partitions.min_isr_changed(event.topic)
        self._journal.reply(TopicReply(error=ErrorCode.NONE))

    def _change_broker_config(self, event: ChangeBrokerConfig) -> None:
        """A broker need not be there to be configured (ConfigurationControlManager)."""
        try:
            for key, value in event.config.items():
                DynamicBrokerConfig.require(key)
                if value is not None:
                    DynamicBrokerConfig.check(key, value)
        except ConfigError as error:
            self._journal.reply(TopicReply(error=ErrorCode.INVALID_CONFIG, message=str(error)))
            return
        who = self._names(event.broker_id)
        for key, value in event.config.items():
            text = None if value is None else str(value)
            self._journal.append(BrokerConfigChanged(broker_id=event.broker_id, key=key, value=text))
            self._journal.tell(
                trace.ConfigAltered(
                    node=self._journal.node,
                    broker=who,
                    key=key,
                    value=text,
                    reason=f"an operator sets {key} of {who} {_to(value)}",
                )
            )
        self._journal.reply(TopicReply(error=ErrorCode.NONE))

    def _topic_id(self, name: str) -> UUID | None:
        """Answers UNKNOWN_TOPIC_OR_PARTITION if there is none."""
        if name in self.image.topics:
            return self.image.topics[name].topic_id
        self._journal.reply(TopicReply(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=f"there is no topic {name}"))
        return None


def _to(value: object) -> str:
    return "back to its default" if value is None else f"to {value}"
