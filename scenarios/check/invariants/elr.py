"""Invariants of the eligible leader replicas (KIP-966); without ELR no replica becomes eligible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import Handler, TraceRow
from scenarios.check.invariants.checker import Invariant
from scenarios.observe.view import PartitionView


class ElrBesideIsr(Invariant):
    """S20: the ELR is a part of the replicas and apart from the ISR, and empty once the ISR has min.insync.replicas.

    Without ELR it is empty after any change of the partition; one from before stands until then.
    Judged once the instant is over, since one decision makes several events.
    """

    NAME = "S20"

    def handlers(self) -> Mapping[type, Handler]:
        self.wrong: dict[TopicPartition, list[str]] = {}
        return dict.fromkeys(
            (trace.LeaderElected, trace.PartitionWentOffline, trace.IsrCommitted, trace.ElrCommitted), self._decided
        )

    def _decided(
        self,
        row: TraceRow,
        event: trace.LeaderElected | trace.PartitionWentOffline | trace.IsrCommitted | trace.ElrCommitted,
    ) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self.wrong[partition] = list(self._judge(self.view.partitions[partition]))
        self.checker.unsettle(row.at_us)

    def _judge(self, state: PartitionView) -> Iterator[str]:
        where, elr = state.topic_partition, ", ".join(state.elr)
        if state.elr and not self.checker.rules.elr:
            yield f"{where} has the ELR {{{elr}}}, but the cluster has no eligible leader replicas"
        for node in state.elr:
            if node not in state.assigned:
                yield f"{node} is in the ELR of {where} and holds no replica of it"
            if node in state.isr:
                yield f"{node} is both in the ISR and in the ELR of {where}"
        if state.elr and len(state.isr) >= state.min_isr:
            yield f"{where} has the ELR {{{elr}}} beside an ISR of {len(state.isr)}; {state.min_isr} are enough"

    def settled(self) -> None:
        for partition, sentences in self.wrong.items():
            for sentence in sentences:
                self.broken(sentence, *partition)
        self.wrong.clear()


class LossyIsStruckOut(Invariant):
    """S21: a broker that went down in disorder, or got a new disk, is in no ISR and no ELR once it has registered.

    That it comes back only when it has caught up is S6. Judged once the instant is over.
    """

    NAME = "S21"

    def handlers(self) -> Mapping[type, Handler]:
        self.wrong: list[tuple[TopicPartition, str]] = []
        return {trace.BrokerRegistered: self._registered}

    def _registered(self, row: TraceRow, event: trace.BrokerRegistered) -> None:
        node = event.broker
        if node is None or not self.checker.rules.elr:
            return
        known = self.view.nodes[node]
        if known.registered_again or not known.came_in_disorder:
            return
        for partition, state in self.view.partitions.items():
            if node in state.isr or node in state.elr:
                which = "ISR" if node in state.isr else "ELR"
                sentence = f"{node} may have lost records of {partition} and is in its {which} as it registers"
                self.wrong.append((partition, sentence))
        self.checker.unsettle(row.at_us)

    def settled(self) -> None:
        for partition, sentence in self.wrong:
            self.broken(sentence, *partition)
        self.wrong.clear()


INVARIANTS: tuple[type[Invariant], ...] = (ElrBesideIsr, LossyIsStruckOut)
