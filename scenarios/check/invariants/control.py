"""Invariants of the controller's decisions, and of what brokers know about these decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Handler, on
from scenarios.check.invariants.checker import Invariant, InvariantChecker, LeaderSnapshot, MetadataLogSnapshot, Probe
from scenarios.observe.view import PartitionView

_DECISIONS = (
    trace.PartitionCreated,
    trace.LeaderElected,
    trace.PartitionWentOffline,
    trace.IsrCommitted,
    trace.ElrCommitted,
)


class LeaderInIsr(Invariant):
    """S1: the ISR is a subset of the replicas without duplicates, and the leader, if there is one, is in it.

    This also checks a part of S19: without ELR the ISR is never empty. An ISR that was empty when ELR was switched off
    may stay empty. A violation is reported only when time has moved on, because one decision can cause two events.
    """

    NAME = "S1"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.wrong: dict[TopicPartition, list[tuple[str, str]]] = {}
        self.empty_with_elr: dict[TopicPartition, None] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.empty_with_elr,)

    @on(*_DECISIONS)
    def _decided(self, row: TraceRow, event: Any) -> None:
        partition = TopicPartition(event.topic, event.partition)
        state = self.view.partitions[partition]
        if state.isr:
            self.empty_with_elr.pop(partition, None)
        elif self.checker.rules.elr:
            self.empty_with_elr[partition] = None
        self.wrong[partition] = list(self._judge(state))
        self.checker.unsettle(row.at_us)

    def _judge(self, state: PartitionView) -> Iterator[tuple[str, str]]:
        """Yield (invariant, sentence) for each violation. A later event of the same time may remove it."""
        partition, isr = state.topic_partition, ", ".join(state.isr)
        if not state.isr and not self.checker.rules.elr and partition not in self.empty_with_elr:
            yield "S19", f"the ISR of {partition} is empty"
        if len(set(state.isr)) < len(state.isr):
            yield "S1", f"the ISR of {partition} names a broker twice: {isr}"
        strangers = [node for node in state.isr if node not in state.assigned]
        if strangers:
            yield "S1", f"the ISR of {partition} has {strangers[0]}, which is not a replica"
        if state.leader is not None and state.leader not in state.isr:
            yield "S1", f"{state.leader} leads {partition}, but the ISR is {{{isr}}}"

    def settled(self) -> None:
        for partition, findings in self.wrong.items():
            for name, sentence in findings:
                self.broken(sentence, *partition, name=name)
        self.wrong.clear()


class FencedOutOfIsr(Invariant):
    """S19: a fenced broker leads nothing and is in no ISR, except as the only member without ELR.

    * `S19 reverted-isr`: the cancellation of a reassignment that had added all members of the ISR puts a fenced broker
      into the ISR.
    * A broker that was the only member when ELR was switched on stays in the ISR until the partition changes.
    * Controlled shutdown is not checked, since the trace does not report it.
    * A violation is reported only when time has moved on, because the controller fences a broker and removes it from
      ISRs in one step.
    * The ZooKeeper era is not checked. It has no fencing: a session ends in the registry, and the controller learns of
      it later.
    """

    NAME = "S19"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.wrong: dict[TopicPartition, list[str]] = {}
        self.alone_without_elr: dict[TopicPartition, tuple[str, ...]] = {}
        self.reverted: dict[TopicPartition, tuple[str, ...] | None] = {}
        """ISR of each partition after its latest cancelled reassignment; None until time has moved on."""

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        return () if self.checker.rules.membership == "zk-session" else super().handlers_of(kind)

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.wrong, self.alone_without_elr, self.reverted)

    @on(trace.ReassignmentCancelled)
    def _cancelled(self, row: TraceRow, event: trace.ReassignmentCancelled) -> None:
        self.reverted[TopicPartition(event.topic, event.partition)] = None
        self.checker.unsettle(row.at_us)

    @on(*_DECISIONS)
    def _decided(self, row: TraceRow, event: Any) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self._look_at(partition, self.view.partitions[partition])
        self.checker.unsettle(row.at_us)

    @on(trace.BrokerFenced, trace.BrokerUnfenced, trace.BrokerRegistered)
    def _broker_changed(self, row: TraceRow, event: Any) -> None:
        node = event.broker or event.node
        for partition, state in self.view.partitions.items():
            if node in state.isr or node == state.leader:
                self._look_at(partition, state)
        self.checker.unsettle(row.at_us)

    def _look_at(self, partition: TopicPartition, state: PartitionView) -> None:
        """Update the violations of a partition. A later event of the same time may remove them."""
        self.wrong.pop(partition, None)
        if not self.checker.rules.elr:
            self.alone_without_elr[partition] = state.isr
        elif self.alone_without_elr.get(partition) != state.isr:
            self.alone_without_elr.pop(partition, None)
        if found := list(self._judge(partition, state)):
            self.wrong[partition] = found

    def _judge(self, partition: TopicPartition, state: PartitionView) -> Iterator[str]:
        for node in state.isr:
            if self._fenced(node) and len(state.isr) > 1:
                yield f"{node} is fenced, but still in the ISR of {partition} with other brokers"
            elif self._fenced(node) and self.checker.rules.elr and partition not in self.alone_without_elr:
                yield f"{node} is fenced, but still alone in the ISR of {partition}"
        if state.leader is not None and self._fenced(state.leader):
            yield f"{state.leader} is fenced, but still leads {partition}"

    def settled(self) -> None:
        wrong, self.wrong = self.wrong, {}
        for partition, isr in self.reverted.items():
            if isr is None and partition in self.view.partitions:
                self.reverted[partition] = self.view.partitions[partition].isr
        for partition in self.view.partitions if wrong else ():
            state = self.view.partitions[partition]
            is_reverted = len(state.isr) == 1 and state.leader is None and self.reverted.get(partition) == state.isr
            for sentence in wrong.get(partition, ()):
                self.broken(sentence, *partition, name="S19 reverted-isr" if is_reverted else "")

    def _fenced(self, node: str) -> bool:
        known = self.view.nodes.get(node)
        return known is None or known.fenced


class OneLeaderPerEpoch(Invariant):
    """S12: in a leader epoch at most one broker is elected leader of a partition or believes that it leads."""

    NAME = "S12"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.leader_of: dict[tuple[str, int, int], str] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.leader_of,)

    @on(trace.PartitionCreated, trace.LeaderElected)
    def _named(self, row: TraceRow, event: Any) -> None:
        if event.broker is not None:
            self._leads(event, event.broker)

    @on(trace.LeadershipBegan)
    def _began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        self._leads(event, event.node)

    def _leads(self, event: Any, node: str) -> None:
        known = self.leader_of.setdefault((event.topic, event.partition, event.leader_epoch), node)
        if known != node:
            where = f"{event.topic}-{event.partition} in epoch {event.leader_epoch}"
            self.broken(f"{known} and {node} both led {where}", event.topic, event.partition)


class OneControllerPerEpoch(Invariant):
    """S12 for the quorum: in an epoch only one controller leads the metadata log, and only this one becomes active."""

    NAME = "S12"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.controller_of: dict[int, str] = {}

    @on(trace.QuorumLeaderElected, trace.ControllerActivated)
    def _leads(self, row: TraceRow, event: trace.QuorumLeaderElected | trace.ControllerActivated) -> None:
        known = self.controller_of.setdefault(event.controller_epoch, event.node)
        if known != event.node:
            self.broken(f"{known} and {event.node} were both controllers in epoch {event.controller_epoch}")


class EpochsNeverFall(Invariant):
    """S13: leader and partition epochs never fall at the controller, nor at a broker until it restarts.

    Every change raises the partition epoch. A restarted broker learns all epochs again.

    Source: Partition.makeLeader, PartitionChangeBuilder
    """

    NAME = "S13"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.decided: dict[tuple[str, int], tuple[int, int, int]] = {}
        self.known: dict[tuple[str, int, str], tuple[int, int]] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.decided, self.known)

    @on(*_DECISIONS)
    def _decided(self, row: TraceRow, event: Any) -> None:
        key = (event.topic, event.partition)
        leader_epoch, partition_epoch, at_us = self.decided.get(key, (-1, -1, -1))
        if event.leader_epoch < leader_epoch or event.partition_epoch < partition_epoch:
            self.broken(
                f"leader/partition epoch of {event.topic}-{event.partition} on the controller fell from {leader_epoch}/"
                f"{partition_epoch} to {event.leader_epoch}/{event.partition_epoch}",
                *key,
            )
        elif event.partition_epoch == partition_epoch and row.at_us > at_us:
            self.broken(
                f"the controller changed {event.topic}-{event.partition} without raising its partition epoch "
                f"{partition_epoch}",
                *key,
            )
        self.decided[key] = (event.leader_epoch, event.partition_epoch, row.at_us)

    @on(trace.LeadershipBegan, trace.FollowingBegan)
    def _learned(self, row: TraceRow, event: Any) -> None:
        key = (event.topic, event.partition, event.node)
        leader_epoch, partition_epoch = self.known.get(key, (-1, -1))
        if event.leader_epoch < leader_epoch or event.partition_epoch < partition_epoch:
            self.broken(
                f"{event.node} went back from leader/partition epoch {leader_epoch}/{partition_epoch} of {event.topic}-"
                f"{event.partition} to {event.leader_epoch}/{event.partition_epoch}",
                event.topic,
                event.partition,
            )
        self.known[key] = (event.leader_epoch, event.partition_epoch)

    @on(trace.NodeStarted)
    def _started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        for key in [key for key in self.known if key[2] == event.node]:
            del self.known[key]


class AcceptedProposalsAreCurrent(Invariant):
    """S18: within a leader epoch an ISR grows only by a proposal of the leader (R39).

    The proposal must have the controller's leader epoch and latest partition epoch. The controller itself may shrink an
    ISR because of fencing or shutdown. The ISR of an election has a new leader epoch and is not a proposal.
    """

    NAME = "S18"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.current: dict[tuple[str, int], tuple[int, int, str | None]] = {}
        self.proposed: dict[tuple[str, int], dict[tuple[str, tuple[str, ...], int, int], None]] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.current, self.proposed)

    @on(trace.IsrProposed)
    def _proposed(self, row: TraceRow, event: trace.IsrProposed) -> None:
        proposals = self.proposed.setdefault((event.topic, event.partition), {})
        proposals[event.node, tuple(sorted(event.isr)), event.leader_epoch, event.partition_epoch] = None

    @on(trace.IsrCommitted)
    def _committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        key = (event.topic, event.partition)
        leader_epoch, partition_epoch, leader = self.current.get(key, (-1, -1, None))
        grown = [node for node in event.isr if node not in event.previous_isr]
        part_of_election = event.partition_epoch == partition_epoch
        if grown and leader is not None and not part_of_election and event.leader_epoch == leader_epoch:
            wanted = (leader, tuple(sorted(event.isr)), leader_epoch, partition_epoch)
            if wanted not in self.proposed.get(key, {}):
                self.broken(
                    f"{grown[0]} joined the ISR of {event.topic}-{event.partition} without a proposal of {leader} in "
                    f"leader epoch {leader_epoch} at partition epoch {partition_epoch}",
                    *key,
                )
        self._decided(row, event)

    @on(
        trace.PartitionCreated,
        trace.LeaderElected,
        trace.PartitionWentOffline,
        trace.ElrCommitted,
        trace.ReassignmentBegan,
        trace.ReassignmentCompleted,
        trace.ReassignmentCancelled,
    )
    def _decided(self, row: TraceRow, event: Any) -> None:
        key = (event.topic, event.partition)
        state = self.view.partitions[TopicPartition(*key)]
        self.current[key] = (event.leader_epoch, event.partition_epoch, state.leader)
        if not isinstance(event, trace.IsrCommitted | trace.ElrCommitted):
            self.proposed.pop(key, None)  # Proposals of an older epoch can no longer be accepted.


class MaximalIsrCoversIsr(Invariant):
    """S7: a leader waits for every member of the controller's ISR before it moves the high watermark.

    Only leaders of the controller's epoch are checked. A leader whose ISR has min.insync.replicas members also waits
    for every eligible leader replica (KIP-966). A leader without a pending AlterPartition waits for exactly its
    committed ISR.

    Weakened: the leader need not wait for a member that the controller has added if the metadata has not arrived yet.
    Metadata that repeats an earlier AlterPartition response makes Kafka's leader drop its next proposal
    (Partition.makeLeader) and ignore the response to it (handleAlterPartitionUpdate), even while it makes another.
    """

    NAME = "S7"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.proposed: dict[TopicPartition, tuple[str, ...]] = {}
        self.accepted: dict[TopicPartition, tuple[str, ...]] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.proposed, self.accepted)

    @on(trace.IsrProposed)
    def _proposed(self, row: TraceRow, event: trace.IsrProposed) -> None:
        self.proposed[TopicPartition(event.topic, event.partition)] = tuple(sorted(event.isr))

    @on(trace.IsrCommitted)
    def _committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        if event.proposed_by is not None:
            self.accepted[TopicPartition(event.topic, event.partition)] = tuple(sorted(event.isr))

    def probed(self, probe: Probe) -> None:
        for leader in probe.leader_states():
            partition = leader.topic_partition
            state = self.view.partitions.get(partition)
            if state is None or leader.leader_epoch != state.leader_epoch:
                continue
            may_advance = len(leader.isr) >= state.min_isr
            counted = (*state.isr, *state.eligible) if may_advance else state.isr
            left_out = [node for node in counted if node not in leader.maximal_isr]
            if left_out and not self._has_forgotten(leader, state.partition_epoch):
                self.broken(
                    f"{leader.node} leads {partition}, but does not wait for {left_out[0]} of the ISR or ELR",
                    *partition,
                )
            if not leader.pending and sorted(leader.maximal_isr) != sorted(leader.isr):
                self.broken(
                    f"{leader.node} has proposed no ISR for {partition}, but waits for a different ISR", *partition
                )

    def _has_forgotten(self, leader: LeaderSnapshot, partition_epoch: int) -> bool:
        """Return whether the leader lacks metadata and may have dropped the proposal that the controller accepted."""
        partition = leader.topic_partition
        is_another = self.proposed.get(partition) != self.accepted.get(partition)
        return leader.partition_epoch < partition_epoch and (not leader.pending or is_another)


class MetadataIsPrefix(Invariant):
    """S22: no broker has applied more of the metadata log than the controller has written, or less than before.

    The log has one writer and brokers read it in order, so comparing offsets is enough. A restarted broker applies the
    log from its beginning.
    """

    NAME = "S22"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.applied: dict[str, int] = {}

    @on(trace.NodeStarted)
    def _started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        self.applied.pop(event.node, None)

    def probed(self, probe: Probe) -> None:
        end, applied = probe.metadata_offsets()
        for node, offset in applied.items():
            before = self.applied.get(node, 0)
            if not before <= offset <= end:
                self.broken(f"{node} applied metadata up to {offset} after {before}; the log ends at {end}")
            self.applied[node] = offset


class MetadataLogsMatch(Invariant):
    """S22 for the quorum: below their high watermarks the controllers' logs are equal and do not change.

    Each epoch is written in order by one controller. So two logs with the same epochs up to an offset are equal up to
    that offset.
    """

    NAME = "S22"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.committed: tuple[tuple[int, int], ...] = ()
        self.start_offset = 0
        self.high_watermark = 0

    def probed(self, probe: Probe) -> None:
        for log in sorted(probe.metadata_logs(), key=lambda log: log.log_start_offset):
            shared = min(log.high_watermark, self.high_watermark)
            start = max(log.log_start_offset, self.start_offset)
            here, there = _between(log.entries, start, shared), _between(self.committed, start, shared)
            if here != there or log.end_offset < log.high_watermark:
                self.broken(f"the metadata log of {log.node} differs from the committed log below offset {shared}")
            if log.high_watermark > self.high_watermark:
                self._learn(log)

    def _learn(self, log: MetadataLogSnapshot) -> None:
        if log.log_start_offset > self.high_watermark:  # The records in between exist only in snapshots.
            self.start_offset, self.committed = log.log_start_offset, ()
        latest_epoch = self.committed[-1][0] if self.committed else 0
        self.committed += tuple(
            (epoch, offset)
            for epoch, offset in log.entries
            if epoch > latest_epoch and self.high_watermark <= offset < log.high_watermark
        )
        self.high_watermark = log.high_watermark


def _between(entries: tuple[tuple[int, int], ...], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the (epoch, start offset) entries in [start, end). An epoch that began before `start` gets `start`."""
    later = [offset for _, offset in entries[1:]]
    return tuple(
        (epoch, max(offset, start))
        for (epoch, offset), ends in zip(entries, [*later, end], strict=False)
        if offset < end and ends > start
    )


class OneFetcherAimedAtLeader(Invariant):
    """S23: each fetcher of a broker fetches from the leader that the broker has last learned of.

    A leader does not fetch its own partition, and no broker has two fetchers for a partition. A follower may be without
    a fetcher for a short time. Before 2.1 a follower may go on fetching from the old leader if there is no new one.
    """

    NAME = "S23"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.leaders: dict[tuple[str, int, str], str | None] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.leaders,)

    @on(trace.FollowingBegan)
    def _following(self, row: TraceRow, event: trace.FollowingBegan) -> None:
        self.leaders[event.topic, event.partition, event.node] = event.broker

    @on(trace.LeadershipBegan)
    def _leading(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        self.leaders[event.topic, event.partition, event.node] = event.node

    def probed(self, probe: Probe) -> None:
        seen: dict[tuple[str, TopicPartition], str] = {}
        for node, partition, leader in probe.fetchers():
            if (node, partition) in seen:
                self.broken(f"{node} has two fetchers for {partition}", *partition)
            seen[node, partition] = leader
            known = self.leaders.get((*partition, node))
            if known == node:
                self.broken(f"{node} leads {partition}, but fetches it from {leader}", *partition)
            elif known != leader and not (known is None and self.checker.rules.fetch_fencing == "none"):
                self.broken(
                    f"{node} fetches {partition} from {leader}, but the last leader it learned of is {known}",
                    *partition,
                )


INVARIANTS: tuple[type[Invariant], ...] = (
    LeaderInIsr,
    FencedOutOfIsr,
    OneLeaderPerEpoch,
    OneControllerPerEpoch,
    EpochsNeverFall,
    AcceptedProposalsAreCurrent,
    MaximalIsrCoversIsr,
    MetadataIsPrefix,
    MetadataLogsMatch,
    OneFetcherAimedAtLeader,
)
