"""Changes of the registry as events of the cluster: the registry decides the order.

A writer puts the reason beside its write (`note`); the event bears the writer's name and the time of the write.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.changes import ChangeEvents
from controller.election import Choice
from controller.image import PartitionRegistration
from controller.zookeeper import znodes
from controller.zookeeper.registry import Registry, Transaction
from replica.config import TopicConfig
from replica.ids import Names, TopicPartition
from replica.trace import events as trace


class RegistryTeller:
    """node: the registry's own name"""

    def __init__(self, registry: Registry, node: str, names: Names) -> None:
        self._registry = registry
        self._node = node
        self._names = names

    def events(self, transaction: Transaction, writer: str) -> Iterator[trace.TraceEvent]:
        """writer: the node whose request it was"""
        path = transaction.path
        name = znodes.partition_of(path)
        if transaction.kind == "create" and path.startswith(f"{znodes.BROKER_IDS}/"):
            yield trace.BrokerRegistered(
                node=self._node,
                broker=writer,
                broker_epoch=transaction.zxid,
                reason=f"{writer} made {path}, which lives as long as its session",
            )
        elif transaction.kind == "create" and path == znodes.CONTROLLER:
            epoch = int(self._registry.nodes[znodes.CONTROLLER_EPOCH].data)
            yield trace.ControllerActivated(
                node=writer,
                controller_epoch=epoch,
                reason=f"{writer} was the first to make {path} and is the controller of epoch {epoch}",
            )
        elif transaction.kind == "create" and name is not None:
            yield self._created(name, transaction, writer)
        elif transaction.kind == "set" and name is not None:
            yield from self._changed(name, transaction, writer)
        elif transaction.kind == "set" and path.startswith(f"{znodes.CONFIGS}/"):
            yield from self._configured(path.removeprefix(f"{znodes.CONFIGS}/"), transaction, writer)

    def _created(self, name: TopicPartition, transaction: Transaction, writer: str) -> trace.TraceEvent:
        state = self._registration(name, transaction.data, 0)
        config = TopicConfig().with_own(znodes.config_of(self._registry.nodes[znodes.config_path(name.topic)].data))
        named = ChangeEvents(node=writer, names=self._names).named
        return trace.PartitionCreated(
            node=writer,
            topic=name.topic,
            partition=name.partition,
            broker=self._names(state.leader),
            replicas=named(state.replicas),
            isr=named(state.in_sync_replicas),
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            min_isr=config.min_insync_replicas,
            reason=str(transaction.note.get("why", "")),
        )

    def _configured(self, topic: str, transaction: Transaction, writer: str) -> Iterator[trace.TraceEvent]:
        before, after = znodes.config_of(transaction.before), znodes.config_of(transaction.data)
        for key in sorted({*before, *after}):
            value = after.get(key)
            if value != before.get(key):
                what = "back to its default" if value is None else f"to {value}"
                yield trace.ConfigAltered(
                    node=writer,
                    topic=topic,
                    key=key,
                    value=value,
                    min_isr=TopicConfig().with_own(after).min_insync_replicas,
                    reason=f"an operator sets {key} of topic {topic} {what}",
                )

    def _changed(self, name: TopicPartition, transaction: Transaction, writer: str) -> Iterator[trace.TraceEvent]:
        """Kafka's ZooKeeper controller also raises the leader epoch when it takes a member out of the ISR: that is no
        election, unless it takes the leader."""
        version = self._registry.nodes[transaction.path].version
        before = self._registration(name, transaction.before, version - 1)
        after = self._registration(name, transaction.data, version)
        teller = ChangeEvents(node=writer, names=self._names)
        why, occasion = str(transaction.note.get("why", "")), str(transaction.note.get("occasion", ""))
        if after.leader != before.leader or transaction.note.get("elects", False):
            choice = Choice(after.leader, bool(transaction.note.get("clean", True)), why)
            yield from teller.events(name, before, after, choice, occasion)
        elif after.in_sync_replicas != before.in_sync_replicas:
            reason = f"{teller.membership(before, after)}: {why}{occasion}"
            yield teller.isr_committed(name, before, after, reason, transaction.note.get("proposed_by"))

    def _registration(self, name: TopicPartition, data: str, version: int) -> PartitionRegistration:
        _, replicas = znodes.topic_of(self._registry.nodes[znodes.topic_path(name.topic)].data)
        return znodes.state_of(data).registration(replicas[name.partition], version)
