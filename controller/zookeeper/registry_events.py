"""Trace events for transactions of the registry (the simulated ZooKeeper), in the order of the transactions.

The node that writes attaches the cause to its write (`note`). The event has the node's name and the time of the write.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.changes import ChangeEvents
from controller.election import Choice, Occasion
from controller.image import PartitionRegistration
from controller.zookeeper import znodes
from controller.zookeeper.registry import Registry, Transaction
from replica.causes import (
    ActivationCause,
    ConfigCause,
    ElectionCause,
    IsrCommitCause,
    OccasionKind,
    PlacementCause,
    RegistrationCause,
)
from replica.config import TopicConfig
from replica.ids import Names, TopicPartition
from replica.trace import events as trace


class RegistryTeller:
    """A translator of registry transactions into trace events. `node` is the registry's name."""

    def __init__(self, registry: Registry, node: str, names: Names) -> None:
        self._registry = registry
        self._node = node
        self._names = names

    def events(self, transaction: Transaction, writer: str) -> Iterator[trace.TraceEvent]:
        """Yield the events of a transaction that the node `writer` requested."""
        path = transaction.path
        name = znodes.partition_of(path)
        if transaction.kind == "create" and path.startswith(f"{znodes.BROKER_IDS}/"):
            yield trace.BrokerRegistered(
                node=self._node,
                broker=writer,
                broker_epoch=transaction.zxid,
                cause=RegistrationCause.ZNODE,
                path=path,
            )
        elif transaction.kind == "create" and path == znodes.CONTROLLER:
            epoch = int(self._registry.nodes[znodes.CONTROLLER_EPOCH].data)
            yield trace.ControllerActivated(node=writer, controller_epoch=epoch, cause=ActivationCause.ZNODE)
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
            writer,
            *name,
            broker=self._names(state.leader),
            replicas=named(state.replicas),
            isr=named(state.in_sync_replicas),
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            min_isr=config.min_insync_replicas,
            cause=PlacementCause(transaction.note["cause"]) if transaction.note else None,
        )

    def _configured(self, topic: str, transaction: Transaction, writer: str) -> Iterator[trace.TraceEvent]:
        before, after = znodes.config_of(transaction.before), znodes.config_of(transaction.data)
        for key in sorted({*before, *after}):
            value = after.get(key)
            if value != before.get(key):
                yield trace.ConfigAltered(
                    node=writer,
                    topic=topic,
                    key=key,
                    value=value,
                    min_isr=TopicConfig().with_own(after).min_insync_replicas,
                    cause=ConfigCause.OPERATOR,
                )

    def _changed(self, name: TopicPartition, transaction: Transaction, writer: str) -> Iterator[trace.TraceEvent]:
        """Yield the events of a changed partition.

        A ZooKeeper-era controller also raises the leader epoch when it removes a member from the ISR. Only a removal of
        the leader counts as an election.
        """
        version = self._registry.nodes[transaction.path].version
        before = self._registration(name, transaction.before, version - 1)
        after = self._registration(name, transaction.data, version)
        teller = ChangeEvents(node=writer, names=self._names)
        note = transaction.note
        occasion = Occasion(OccasionKind(note["occasion"]), tuple(note["brokers"])) if "occasion" in note else None
        if after.leader != before.leader or note.get("elects", False):
            cause = ElectionCause(note["cause"]) if note.get("cause") else None
            yield from teller.events(
                name, before, after, Choice(after.leader, note.get("clean", True), cause), occasion
            )
        elif after.in_sync_replicas != before.in_sync_replicas:
            proposed_by = note.get("proposed_by")
            why = IsrCommitCause.TAKEN_OFFLINE if proposed_by is None else IsrCommitCause(note["cause"])
            yield teller.isr_committed(name, before, after, why, occasion, proposed_by)

    def _registration(self, name: TopicPartition, data: str, version: int) -> PartitionRegistration:
        _, replicas = znodes.topic_of(self._registry.nodes[znodes.topic_path(name.topic)].data)
        return znodes.state_of(data).registration(replicas[name.partition], version)
