"""Proposals that their leader has forgotten, and that the controller accepts all the same.

A leader that hears the answer to its proposal A may propose B before the metadata of A reaches it. That metadata has
the partition epoch that the leader knows from the answer, so the leader takes it, and what is pending, B, is dropped.
The controller accepts B, for its epochs are right: until the metadata of B comes, there is a member of the ISR for
which the leader does not wait. No release of Kafka keeps the invariants that this breaks (promises.py).
source: Partition.makeLeader (refuses smaller partition epochs only), updateAssignmentAndIsr; KAFKA-13790
"""

from __future__ import annotations

from typing import NamedTuple

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.check.invariants.checker import InvariantChecker


class _Join(NamedTuple):
    leader: str
    leader_epoch: int
    partition_epoch: int
    proposed_seq: int


class ForgottenProposals:
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

    def proposed(self, row: TraceRow, event: trace.IsrProposed) -> None:
        partition = event.topic, event.partition
        proposals = self._proposed.setdefault(partition, [])
        if proposals and proposals[-1][1].partition_epoch != event.partition_epoch:
            proposals.clear()
        proposals.append((row.seq, event))
        joins = self._joins.get(partition, {})
        for node in [node for node, join in joins.items() if join.partition_epoch <= event.partition_epoch]:
            del joins[node]

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
