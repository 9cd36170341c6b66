"""Find out which producers brokers may have forgotten, and which ISR proposals leaders may have forgotten.

A broker forgets a producer if the timestamp of its last batch is older than producer.id.expiration.ms, or if the log is
opened or cut after all records of the producer were deleted. From then on it accepts any sequence of that producer,
even a batch that it already has. Invariants check the broker's state, so here the answer is computed from times and
offsets alone.

Source: ProducerStateManager.isProducerExpired, .truncateAndReload; ProducerAppendInfo.checkSequence (no current
producer epoch)
"""

from __future__ import annotations

from typing import NamedTuple

from replica.ids import TopicPartition
from replica.log.producers.producer_state import PRODUCER_ID_EXPIRATION_MS
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Handler, Listener, on
from scenarios.check.invariants.checker import InvariantChecker

EXPIRATION_KEY = "producer.id.expiration.ms"
_BY_DEFAULT_US = PRODUCER_ID_EXPIRATION_MS * 1000


class ForgottenProducers(Listener):
    """Listener that estimates how long each producer was silent.

    A broker compares its wall clock, which may have jumped, with the producer's timestamp of the last record. Send
    times are kept only if some broker's expiration is shorter at the start than Kafka's default of a day. With the
    default, append times are used instead. A producer whose records are unknown counts as silent since the start.
    """

    def __init__(self, checker: InvariantChecker) -> None:
        self._checker = checker
        known_us = checker.producer_expiration_us
        self._expiration_us = _BY_DEFAULT_US if known_us is None else known_us
        self._takes_sent = self._expiration_us < _BY_DEFAULT_US
        self._sent_us: dict[str, int] = {}
        """Time at which each record was first sent, by name."""

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        return () if kind is trace.RecordSent and not self._takes_sent else super().handlers_of(kind)

    @on(trace.RecordSent)
    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        self._sent_us.setdefault(event.record, row.at_us)

    @on(trace.ConfigAltered)
    def _altered(self, row: TraceRow, event: trace.ConfigAltered) -> None:
        if event.key == EXPIRATION_KEY and event.value is not None:
            self._expiration_us = min(self._expiration_us, int(event.value) * 1000)

    def may_include(self, row: TraceRow, event: trace.BatchAppended, appended_us: int) -> bool:
        """Return whether the broker may have forgotten the producer before it appended this latest batch.

        Args:
            appended_us: append time of the producer's previous batch.
        """
        cores = self._checker.cores
        apart_us = 0 if cores is None else cores.clocks_apart_us()
        since_us = appended_us if self._expiration_us >= _BY_DEFAULT_US else self._last_sent_us(event)
        return row.at_us - since_us + apart_us >= self._expiration_us

    def _last_sent_us(self, event: trace.BatchAppended) -> int:
        """Return when the last record of the producer's previous batch was first sent, 0 if unknown.

        The record's timestamp is this time or later.
        """
        mirror = self._checker.mirror
        partition = TopicPartition(event.topic, event.partition)
        before = [
            batch
            for batch in mirror.log(partition, event.node).between(0, event.base_offset)
            if batch.producer_id == event.producer_id
        ]
        names = mirror.sent.records(partition, before[-1].base_offset, before[-1].crc) if before else ()
        return self._sent_us.get(names[-1], 0) if names else 0


class DeletedProducers(Listener):
    """Listener that finds out which producers a log may have forgotten because their records were deleted.

    A running broker remembers a producer whose records were all deleted (KAFKA-7190). A log that is opened or cut loads
    the latest snapshot between its start and its end, and reads what follows; a snapshot at the start is removed, too.
    Without one, only records from the start of the log on make a producer known.

    Snapshots at the starts of segments are not in the trace. A log that has such a snapshot may know more producers.
    """

    def __init__(self, checker: InvariantChecker) -> None:
        self._mirror = checker.mirror
        self._known_from: dict[tuple[str, int, str], int] = {}
        self._snapshots: dict[tuple[str, int, str], list[int]] = {}
        """Offsets of the snapshots that each log wrote when it was opened or cut."""
        self.kept = (self._known_from, self._snapshots)

    def includes(self, event: trace.BatchAppended, last_offset: int) -> bool:
        """Return whether the log may have forgotten the producer whose latest record is at `last_offset`."""
        return last_offset < self._known_from.get((event.topic, event.partition, event.node), 0)

    @on(trace.LogRecovered)
    def _opened(self, row: TraceRow, event: trace.LogRecovered) -> None:
        """Apply a recovery. A broker that was shut down in order left a snapshot at the end of the log.

        Of the others, a recovery removes those that are not at the start of a segment.
        """
        is_sound = event.clean and not event.size_bytes
        self._reload(event, event.log_start_offset, [event.log_end_offset] if is_sound else [])

    @on(trace.LogTruncated)
    def _truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        if self._mirror.dropped:
            start = self._mirror.log(TopicPartition(event.topic, event.partition), event.node).first
            self._reload(event, start, self._snapshots.get((event.topic, event.partition, event.node), []))

    @on(trace.LeadershipBegan, trace.FollowingBegan, trace.ReplicaDeleted)
    def _began_anew(
        self, row: TraceRow, event: trace.LeadershipBegan | trace.FollowingBegan | trace.ReplicaDeleted
    ) -> None:
        """Drop the state of a log that was deleted, or that turns out to be on an empty disk."""
        if self._mirror.dropped:
            key = event.topic, event.partition, event.node
            self._known_from.pop(key, None)
            self._snapshots.pop(key, None)

    def _reload(self, event: trace.LogRecovered | trace.LogTruncated, start: int, snapshots: list[int]) -> None:
        key, end = (event.topic, event.partition, event.node), event.log_end_offset
        kept = [offset for offset in snapshots if start < offset <= end]
        if not kept:
            self._known_from[key] = start
        self._snapshots[key] = sorted({*kept, end})


# -------------------------------------------------------------------------------------------------- forgotten proposals
#
# Proposals that a leader has forgotten and that the controller still accepts.
#
# A leader that has the answer to its proposal A may propose B before the metadata of A arrives. That metadata has the
# partition epoch that the leader knows from the answer, so the leader applies it and drops the pending proposal B.
# The controller accepts B, since its epochs are right. Until the metadata of B arrives, the ISR has a member for which
# the leader does not wait. This breaks invariants in every release of Kafka (promises.py).
# Source: Partition.makeLeader (refuses only smaller partition epochs), updateAssignmentAndIsr; KAFKA-13790


class _Join(NamedTuple):
    """An accepted proposal that added a replica to the ISR, and that its leader may have forgotten."""

    leader: str
    leader_epoch: int
    partition_epoch: int
    proposed_seq: int


class IsrHistory(Listener):
    """Listener that keeps all committed ISRs, and the members whose proposal their leader may have forgotten.

    A leader may forget a proposal if the controller accepts two of its proposals one after the other. The trace does
    not say which metadata a leader has applied. This is read from the leader's state machine if it is in this process,
    and otherwise inferred from the leader's next proposal.
    """

    def __init__(self, checker: InvariantChecker) -> None:
        self._checker = checker
        self._isrs: dict[tuple[str, int, int], dict[tuple[str, ...], None]] = {}
        self._proposed: dict[tuple[str, int], list[tuple[int, trace.IsrProposed]]] = {}
        """The proposals with the newest partition epoch, as (trace sequence number, event), by partition."""
        self._last_commit: dict[tuple[str, int], trace.IsrCommitted] = {}
        self._joins: dict[tuple[str, int], dict[str, _Join]] = {}
        self.kept = (self._isrs, self._proposed, self._last_commit, self._joins)

    @on(trace.PartitionCreated, trace.LeaderElected, trace.IsrCommitted)
    def decided(self, row: TraceRow, event: trace.PartitionCreated | trace.LeaderElected | trace.IsrCommitted) -> None:
        self._isrs.setdefault((event.topic, event.partition, event.leader_epoch), {})[event.isr] = None

    def of(self, topic: str, number: int, leader_epoch: int) -> list[tuple[str, ...]]:
        """Return the committed ISRs of a leader epoch, the latest first."""
        return list(reversed(self._isrs.get((topic, number, leader_epoch), {})))

    @on(trace.IsrProposed)
    def proposed(self, row: TraceRow, event: trace.IsrProposed) -> None:
        partition = event.topic, event.partition
        proposals = self._proposed.setdefault(partition, [])
        if proposals and proposals[-1][1].partition_epoch != event.partition_epoch:
            proposals.clear()
        proposals.append((row.seq, event))
        joins = self._joins.get(partition, {})
        for node in [node for node, join in joins.items() if join.partition_epoch <= event.partition_epoch]:
            del joins[node]

    @on(trace.IsrCommitted)
    def committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        partition = event.topic, event.partition
        before = self._last_commit.get(partition)
        self._last_commit[partition] = event
        joins = self._joins.setdefault(partition, {})
        for node in [node for node in joins if node not in event.isr]:
            del joins[node]
        for node in event.isr:
            if node not in event.previous_isr:
                joins.pop(node, None)
                seq = self._forgettable(event, node, before)
                if seq is not None:
                    leader = str(event.proposed_by)
                    joins[node] = _Join(leader, event.leader_epoch, event.partition_epoch, seq)

    def _forgettable(self, event: trace.IsrCommitted, node: str, before: trace.IsrCommitted | None) -> int | None:
        """Return the sequence number of the first proposal that adds `node`, or None if its leader cannot forget it.

        The leader may forget it if another of its proposals was accepted just before.
        """
        leader, base_epoch = event.proposed_by, event.partition_epoch - 1
        if leader is None or before is None or (before.proposed_by, before.partition_epoch) != (leader, base_epoch):
            return None
        for seq, proposal in self._proposed.get((event.topic, event.partition), ()):
            if proposal.node == leader and proposal.partition_epoch == base_epoch and node in proposal.isr:
                return seq
        return None

    def since(self, event: trace.IsrCommitted, node: str) -> int | None:
        """Return the sequence number of the proposal that added `node`, or None if its leader has not forgotten it."""
        join = self._joins.get((event.topic, event.partition), {}).get(node)
        return None if join is None else join.proposed_seq

    def is_unknown(self, event: trace.HighWatermarkAdvanced, node: str) -> bool:
        """Return whether this leader may not know yet that `node` has joined the ISR."""
        join = self._joins.get((event.topic, event.partition), {}).get(node)
        if join is None or (join.leader, join.leader_epoch) != (event.node, event.leader_epoch):
            return False
        known = self._checker.known_partition_epoch(event.node, TopicPartition(event.topic, event.partition))
        return known is None or known < join.partition_epoch
