"""Derives the events of a cluster with ZooKeeper from ZooKeeper's transaction log and the consoles.

A transaction states what was written and by which session, but not why. ZooKeeper's console shows expired sessions; the
controller's console shows which brokers it considers live. This era has no fencing, so `broker_fenced` means that the
controller has taken a broker offline, as in the simulator.

Source: ZkData.scala, ZooKeeperServer.expire, KafkaController (onBrokerStartup, onBrokerFailure,
initializeControllerContext), ZkReplicaStateMachine.doRemoveReplicasFromIsr
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from cluster.kafka.observe.console_lines import SaidLive
from cluster.kafka.observe.metadata_events import election_between
from cluster.kafka.observe.observed import CONSOLE, REGISTRY_LOG, Key, Seen, leader_key
from cluster.kafka.observe.registry_log import RegistryTransaction, Write
from controller.changes import ChangeEvents
from controller.election import Occasion
from controller.image import PartitionRegistration
from controller.zookeeper import znodes
from replica.causes import (
    ActivationCause,
    FencingCause,
    IsrCommitCause,
    OccasionKind,
    RegistrationCause,
    UnfencingCause,
)
from replica.config import TopicConfig
from replica.ids import BrokerId, Names, TopicPartition
from replica.trace import events as trace


class RegistryEvents:
    """Translates ZooKeeper's transactions into trace events.

    Args:
        registry: name of ZooKeeper's node.
        topic_defaults: defaults for topics in the brokers' configuration files.
    """

    def __init__(self, registry: str, names: Names, topic_defaults: Mapping[str, str]) -> None:
        self.controller = ""
        self.partitions: dict[TopicPartition, PartitionRegistration] = {}
        self._registry = registry
        self._names = names
        self._topic_defaults = dict(topic_defaults)
        self._owners: dict[str, int] = {}
        """The session that created each ephemeral node, by path."""
        self._writers: dict[int, str] = {}
        """The broker of each session, by session id."""
        self._expired: dict[int, None] = {}
        """The ids of expired sessions that have not been closed yet; a set."""
        self._replicas: dict[str, dict[int, tuple[BrokerId, ...]]] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self._online: dict[BrokerId, None] = {}
        """Brokers that the controller considers live; a set."""
        self._activations: list[tuple[int, str]] = []
        """The changes of the controller as (wall_ms, node), in order."""

    def expiry_said(self, session: int) -> None:
        self._expired[session] = None

    # ------------------------------------------------------------------------------------------------ transactions

    def decided(self, transaction: RegistryTransaction) -> Iterator[Seen]:
        for write in transaction.writes:
            yield from self._written(transaction, write)
        if transaction.closes:
            yield from self._closed(transaction)

    @staticmethod
    def _seen(
        transaction: RegistryTransaction, event: trace.TraceEvent, *, key: Key | None = None, after: Key | None = None
    ) -> Seen:
        return Seen(event, REGISTRY_LOG, transaction.wall_ms, key, after)

    def _closed(self, transaction: RegistryTransaction) -> Iterator[Seen]:
        session = transaction.session
        who, has_expired = self._writers.pop(session, None), session in self._expired
        self._expired.pop(session, None)
        self._owners = {path: owner for path, owner in self._owners.items() if owner != session}
        if who is not None and has_expired:
            event = trace.SessionExpired(node=self._registry, broker=who)
            yield self._seen(transaction, event, key=("gone", who))

    def _written(self, transaction: RegistryTransaction, write: Write) -> Iterator[Seen]:
        path = write.path
        if write.ephemeral:
            self._owners[path] = transaction.session
        elif write.data is None:
            self._owners.pop(path, None)
        name = znodes.partition_of(path)
        if write.data is None:
            yield from self._deleted(transaction, path)
        elif path.startswith(f"{znodes.BROKER_IDS}/") and write.is_new:
            yield self._registered(transaction, path)
        elif path == znodes.CONTROLLER:
            yield self._activated(transaction, write.data)
        elif path.startswith(f"{znodes.CONFIGS}/"):
            yield from self._configured(transaction, path.rpartition("/")[2], write)
        elif name is not None:
            yield from self._state(transaction, name, write.data)
        elif path.startswith(f"{znodes.TOPICS}/") and path.count("/") == 3:
            partitions: dict[str, list[int]] = json.loads(write.data)["partitions"]
            self._replicas[path.rpartition("/")[2]] = {int(number): tuple(ids) for number, ids in partitions.items()}

    def _registered(self, transaction: RegistryTransaction, path: str) -> Seen:
        who = self._writers[transaction.session] = self._names(int(path.rpartition("/")[2]))
        event = trace.BrokerRegistered(
            node=self._registry,
            broker=who,
            broker_epoch=transaction.zxid,
            cause=RegistrationCause.ZNODE,
            path=path,
        )
        return self._seen(transaction, event)

    def _activated(self, transaction: RegistryTransaction, data: bytes) -> Seen:
        """Return the event of a controller's activation. The same transaction writes the controller's epoch."""
        who = self.controller = self._names(znodes.controller_id(data.decode()))
        self._activations.append((transaction.wall_ms, who))
        epoch = next(int(write.data or b"0") for write in transaction.writes if write.path == znodes.CONTROLLER_EPOCH)
        event = trace.ControllerActivated(node=who, controller_epoch=epoch, cause=ActivationCause.ZNODE)
        return self._seen(transaction, event, key=("controller", epoch))

    def _deleted(self, transaction: RegistryTransaction, path: str) -> Iterator[Seen]:
        topic = path.removeprefix(f"{znodes.TOPICS}/")
        if topic in self._replicas:
            del self._replicas[topic]
            self.partitions = {name: state for name, state in self.partitions.items() if name.topic != topic}
            yield self._seen(transaction, trace.TopicDeleted(node=self.controller, topic=topic))

    # ---------------------------------------------------------------------------------------------------- settings

    def _configured(self, transaction: RegistryTransaction, topic: str, write: Write) -> Iterator[Seen]:
        """Yield the events of a topic's changed settings. The first settings of a new topic are no change.

        One znode holds all settings of a topic.
        """
        before = self._configs.get(topic, {})
        after = self._configs[topic] = znodes.config_of((write.data or b"").decode())
        for key in sorted({*before, *after}) if topic in self._replicas else ():
            value = after.get(key)
            if value == before.get(key):
                continue
            event = trace.ConfigAltered(
                node=self._writers.get(transaction.session, self.controller),
                topic=topic,
                key=key,
                value=value,
                min_isr=self._min_isr(topic),
            )
            yield self._seen(transaction, event)

    def _min_isr(self, topic: str) -> int:
        return TopicConfig().with_own({**self._topic_defaults, **self._configs.get(topic, {})}).min_insync_replicas

    # -------------------------------------------------------------------------------------------------- partitions

    def _state(self, transaction: RegistryTransaction, name: TopicPartition, data: bytes) -> Iterator[Seen]:
        before = self.partitions.get(name)
        version = 0 if before is None else before.partition_epoch + 1
        replicas = self._replicas[name.topic][name.partition]
        after = self.partitions[name] = znodes.state_of(data.decode()).registration(replicas, version)
        node = self._writers.get(transaction.session, self.controller)
        teller = ChangeEvents(node=node, names=self._names)
        leads = leader_key(name.topic, name.partition, after.leader_epoch)
        if before is None:
            yield self._seen(transaction, self._created(teller, name, after), key=leads)
            return
        gone, occasion = self._occasion(before, after)
        for event in self._change_events(teller, name, before, after, occasion):
            begins = isinstance(event, (trace.LeaderElected, trace.PartitionWentOffline))
            yield self._seen(transaction, event, key=leads if begins else None, after=gone)

    def _created(self, teller: ChangeEvents, name: TopicPartition, after: PartitionRegistration) -> trace.TraceEvent:
        return trace.PartitionCreated(
            teller.node,
            *name,
            broker=self._names(after.leader),
            replicas=teller.named(after.replicas),
            isr=teller.named(after.in_sync_replicas),
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            min_isr=self._min_isr(name.topic),
        )

    def _change_events(
        self,
        teller: ChangeEvents,
        name: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        occasion: Occasion | None,
    ) -> Iterator[trace.TraceEvent]:
        """Yield the events of a changed partition.

        A new leader epoch without a new leader is no election, only a shrunk ISR.
        """
        if after.leader != before.leader:
            yield from teller.events(name, before, after, election_between(before, after), occasion)
        elif after.in_sync_replicas == before.in_sync_replicas:
            return  # The same leader in a new epoch: a partition that was offline only in the controller's own memory.
        elif after.leader_epoch != before.leader_epoch:
            yield teller.isr_committed(name, before, after, IsrCommitCause.TAKEN_OFFLINE, occasion)
        else:
            leader = self._names(after.leader)
            yield teller.isr_committed(name, before, after, IsrCommitCause.PROPOSED, proposed_by=leader)

    def _occasion(
        self, before: PartitionRegistration, after: PartitionRegistration
    ) -> tuple[Key | None, Occasion | None]:
        """Return the broker whose departure from ZooKeeper caused a change, as the key of its event and as an occasion.

        Both are None if no leader or in-sync replica has left ZooKeeper.
        """
        for who in (before.leader, *before.in_sync_replicas):
            leaves = who != after.leader if who == before.leader else who not in after.in_sync_replicas
            if leaves and who >= 0 and znodes.broker_path(who) not in self._owners:
                return ("gone", self._names(who)), Occasion(OccasionKind.LEFT_REGISTRY, (who,))
        return None, None

    # -------------------------------------------------------------------------------------------------------- consoles

    def live_said(self, node: str, said: SaidLive, wall_ms: int) -> Iterator[Seen]:
        """Handle a controller's report of brokers that started, that failed, or of all live brokers when it takes over.

        A paused controller may report a failure (KafkaController.onBrokerFailure) before it learns that another
        controller was elected. Such a report no longer decides which brokers are online.
        """
        decides = self._controller_at(wall_ms) == node
        if said.kind == "takeover":
            gone = [who for who in self._online if who not in said.brokers]
            came = [who for who in said.brokers if who not in self._online]
        else:
            gone = list(said.brokers) if said.kind == "failure" else []
            came = list(said.brokers) if said.kind == "startup" else []
        if decides:
            self._online = {who: None for who in (*self._online, *came) if who not in gone}
        for who in gone:
            name = self._names(who)
            fenced = trace.BrokerFenced(node=node, broker=name, cause=FencingCause.NOT_IN_REGISTRY)
            yield Seen(fenced, CONSOLE, wall_ms, after=("gone", name))
        for who in came:
            unfenced = trace.BrokerUnfenced(node=node, broker=self._names(who), cause=UnfencingCause.IN_REGISTRY)
            yield Seen(unfenced, CONSOLE, wall_ms)

    def _controller_at(self, wall_ms: int) -> str | None:
        """Return the controller at a time; None before the first election."""
        return next((who for since_ms, who in reversed(self._activations) if since_ms <= wall_ms), None)
