"""Producers that a broker may have forgotten, by the time alone: what its state says of them is what is to be checked.

A broker forgets a producer that was silent for producer.id.expiration.ms, by the timestamp of its last batch; from then
on it takes any sequence of it, an older one and a batch that it has included.
source: ProducerStateManager.isProducerExpired, ProducerAppendInfo.checkSequence (no current producer epoch)
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
    """How long a producer was silent, a broker says by its wall clock, which jumps move away from that of the producer.

    Its last timestamp is that of a record, from when that was sent. Kept is this only where some broker has a shorter
    expiration than Kafka's default from the start on. With the default of a day, the time of the append stands for it;
    else, and of records without a name, it is known that no producer was silent for longer than the run so far.
    """

    def __init__(self, checker: InvariantChecker) -> None:
        self._checker = checker
        known_us = checker.producer_expiration_us
        self._expiration_us = _BY_DEFAULT_US if known_us is None else known_us
        self._takes_sent = self._expiration_us < _BY_DEFAULT_US
        self._sent_us: dict[str, int] = {}
        """When each record was sent first."""

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
        """The producer of a batch that is the latest of its log, before it came.

        appended_us: when the one before it came
        """
        cores = self._checker.cores
        apart_us = 0 if cores is None else cores.clocks_apart_us()
        since_us = appended_us if self._expiration_us >= _BY_DEFAULT_US else self._last_sent_us(event)
        return row.at_us - since_us + apart_us >= self._expiration_us

    def _last_sent_us(self, event: trace.BatchAppended) -> int:
        """When the last record in the producer's last batch but this one was sent: what its timestamp says, or less."""
        mirror = self._checker.mirror
        partition = TopicPartition(event.topic, event.partition)
        before = [
            batch
            for batch in mirror.log(partition, event.node).between(0, event.base_offset)
            if batch.producer_id == event.producer_id
        ]
        names = mirror.sent.records(partition, before[-1].base_offset, before[-1].crc) if before else ()
        return self._sent_us.get(names[-1], 0) if names else 0


# -------------------------------------------------------------------------------------------------- forgotten proposals
#
# Proposals that their leader has forgotten, and that the controller accepts all the same.
#
# A leader that hears the answer to its proposal A may propose B before the metadata of A reaches it. That metadata has
# the partition epoch that the leader knows from the answer, so the leader takes it, and what is pending, B, is
# dropped.
# The controller accepts B, for its epochs are right: until the metadata of B comes, there is a member of the ISR for
# which the leader does not wait. No release of Kafka keeps the invariants that this breaks (promises.py).
# source: Partition.makeLeader (refuses smaller partition epochs only), updateAssignmentAndIsr; KAFKA-13790


class _Join(NamedTuple):
    leader: str
    leader_epoch: int
    partition_epoch: int
    proposed_seq: int


class ForgottenProposals(Listener):
    """Who joined an ISR by a proposal that its leader may have forgotten, and does not know of yet.

    Two proposals of one leader are accepted one after the other. The trace does not say which metadata a leader has
    applied, so the leader's core does, where it is in this process; elsewhere its next proposal does.
    """

    def __init__(self, checker: InvariantChecker) -> None:
        self._checker = checker
        self._proposed: dict[tuple[str, int], list[tuple[int, trace.IsrProposed]]] = {}
        """The proposals of each partition's newest partition epoch, with their numbers in the trace."""
        self._last_commit: dict[tuple[str, int], trace.IsrCommitted] = {}
        self._joins: dict[tuple[str, int], dict[str, _Join]] = {}
        self.kept = (self._proposed, self._last_commit, self._joins)

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
        """The number of the first proposal of `node`, made by a leader that had another one accepted just before."""
        leader, base_epoch = event.proposed_by, event.partition_epoch - 1
        if leader is None or before is None or (before.proposed_by, before.partition_epoch) != (leader, base_epoch):
            return None
        for seq, proposal in self._proposed.get((event.topic, event.partition), ()):
            if proposal.node == leader and proposal.partition_epoch == base_epoch and node in proposal.isr:
                return seq
        return None

    def since(self, event: trace.IsrCommitted, node: str) -> int | None:
        """When it was proposed (number in the trace), if its leader may have forgotten that; None: it has not."""
        join = self._joins.get((event.topic, event.partition), {}).get(node)
        return None if join is None else join.proposed_seq

    def is_unknown(self, event: trace.HighWatermarkAdvanced, node: str) -> bool:
        """Whether this leader may not know yet that `node` has joined the ISR."""
        join = self._joins.get((event.topic, event.partition), {}).get(node)
        if join is None or (join.leader, join.leader_epoch) != (event.node, event.leader_epoch):
            return False
        known = self._checker.known_partition_epoch(event.node, TopicPartition(event.topic, event.partition))
        return known is None or known < join.partition_epoch
