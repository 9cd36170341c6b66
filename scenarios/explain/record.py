"""Explain the outcome of one record from the trace.

The story covers the append, the acknowledgement and its reason, the brokers that had the record when the leader died,
the election and its reason, and the truncation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from replica.causes import DataLossCause, ElectionCause, InjectionCause, OccasionKind
from replica.ids import ACKS_ALL, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.wording import listed, set_of
from scenarios.explain.explanation import Explanation, Holding, Moment
from scenarios.explain.record_fate import (
    TransactionOfRecord,
    UnreadablePositions,
    copies_of,
    ending_of,
    fate_of,
    offsets_of,
)
from scenarios.explain.remedies import IN_THE_TRANSACTION, Remedies, remedies_for
from scenarios.language.verbs.every import TOLD_BY_THEIR_NODE
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.taken_records import after_its_end
from scenarios.observe.view import ClusterView

WAITS = "waits"
"""What the producer believes while its record is neither answered nor failed."""
DOES_NOT_KNOW = "does not know"
"""What the producer believes after it has given the record up without an answer."""


class RecordUnknown(ValueError):
    """No producer of the run has sent a record of that name."""


def explain_record(rows: Iterable[TraceRow], record: str) -> Explanation:
    """Return the story of a record from the rows of a complete trace. Raises RecordUnknown."""
    teller = _Teller(record)
    for row in rows:
        teller(row)
    return teller.finish()


class _Teller(Listener):
    """Listener that writes the story of one record, helped by listeners that keep the state of the cluster."""

    def __init__(self, record: str) -> None:
        self.record = record
        self.view = ClusterView((), ())
        self.mirror = LogMirror()
        self.ledger = RecordLedger(self.mirror.deleted, self.mirror.sent.names)
        self.moments: list[Moment] = []
        self.holdings: list[Holding] = []
        self.on_the_wire: list[int] = []
        """Sequence numbers of the events about messages with the record."""
        self.holders: dict[str, int] = {}
        """First offset of the record on each node that has it."""
        self.was_held = False
        self.was_carried_out = False
        """True if a fault altered the answer to a request that had stored the record."""
        self.delivered: dict[tuple[str, int], None] = {}
        """(partition, offset) of each delivery of the record to a member of a share group."""
        self.lasts_gone: list[tuple[Moment, str]] = []
        """Moment and event sentence of each removal of the last copy."""
        self.words: dict[str, str] = {}
        """Texts that replace the states of brokers in the next row of the table."""
        self.partition: TopicPartition | None = None
        self.producer = ""
        self.acks: int | None = None
        """None for an output that its application owes and never sent."""
        self.scenario, self.seed = "", 0
        self.believes = WAITS
        self.remedies = Remedies()
        self.isr_at_ack: tuple[str, ...] = ()
        self.lacking_at_ack: tuple[str, ...] = ()
        self.min_isr_at_ack = 1
        self.stops: dict[str, list[Moment]] = {}
        """The stops of each node. A transform may owe the record because it was stopped before it sent it."""
        self.lasting: dict[str, Moment] = {}
        self.lost_on_disk: dict[str, int] = {}
        self.never_flushed: dict[str, int] = {}
        self.elected_uncleanly = False
        self.elected_uncleanly_later = False
        self.passed_over: dict[str, str] = {}
        self.committed_us: int | None = None
        self.transaction = TransactionOfRecord()
        self.unreadable = UnreadablePositions()
        self.parts = (self.view, self.mirror, self.ledger, self.unreadable)
        self.stable_offsets: dict[TopicPartition, int] = {}
        """Last stable offset of each partition where this is below the high watermark."""
        self.is_held_up = False
        """True if the record is below the high watermark, but not below the last stable offset."""

    def _is_over(self) -> bool:
        """Return True if no copy is left and the producer will not send the record again."""
        return self.was_held and not self.holders and self.believes != WAITS

    def finish(self) -> Explanation:
        if self.partition is None:
            names = [entry.name for entry in islice(self.ledger, 3)]
            known = f"its records have names such as {', '.join(names)}" if names else "it sent no records"
            raise RecordUnknown(f"no record of this run is named {self.record}; {known}")
        self.ledger.close()
        fate = fate_of(self.record, self.ledger) or self.transaction.fate or "kept"
        if fate not in ("lost", "missing", "unseen"):
            for moment in self.moments:
                moment.decisive = False
            for moment, what in self.lasts_gone:
                moment.sentence = f"{what} {self.record} was no longer in any log."
        return Explanation(
            self.record,
            self.partition,
            self.producer,
            self.acks,
            self.scenario,
            self.seed,
            fate,
            self.moments,
            self.holdings,
            self._ending(fate),
            self._remedies(fate),
        )

    # ---------------------------------------------------------------------------------------------------- telling

    def _say(self, row: TraceRow, sentence: str, *, decisive: bool = False, table: bool = True) -> Moment:
        moment = Moment(row.at_us, row.seq, sentence, decisive)
        self.moments.append(moment)
        if table:
            self._show(row.at_us)
        return moment

    def _show(self, at_us: int) -> None:
        assert self.partition is not None
        state = self.view.partitions.get(self.partition)
        brokers = {}
        for node in state.assigned if state else ():
            view = self.view.nodes[node]
            held = self.record if node in self.holders else "-"
            if node in self.words:
                brokers[node] = self.words[node]
            elif not view.running:
                brokers[node] = f"down, {held}" if node in self.holders else "down"
            elif view.paused:
                brokers[node] = f"frozen, {held}" if node in self.holders else "frozen"
            elif state is not None and state.acting_leader == node:
                brokers[node] = f"leads, {held}" if node in self.holders else f"leads, no {self.record}"
            else:
                brokers[node] = held
        self.words.clear()
        if self.holdings and self.holdings[-1].at_us == at_us:
            self.holdings.pop()
        self.holdings.append(Holding(at_us, brokers, self.believes))

    def _is_of_partition(self, event: Any) -> bool:
        return self.partition is not None and (event.topic, event.partition) == self.partition

    def _only(self) -> str:
        """Return a sentence about the brokers that have the record, such as `Only b1 has it.`"""
        holders = sorted(self.holders)
        if len(holders) == 1:
            return f"Only {holders[0]} had it."
        return f"{listed(holders)} had it." if holders else "No broker had it."

    # ------------------------------------------------------------------------------------------- the record itself

    @on(trace.RunStarted)
    def _run_started(self, row: TraceRow, event: trace.RunStarted) -> None:
        self.scenario = event.scenario if event.variant is None else f"{event.scenario}, {event.variant}"
        self.seed = event.seed

    @on(trace.RecordSent)
    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        if event.record != self.record:
            return
        self.partition = TopicPartition(event.topic, event.partition)
        self.producer, self.acks = event.client, event.acks
        for moment in self.lasting.values():
            self.moments.append(moment)
        self._say(row, event.full_sentence(), table=False)

    @on(trace.OutputPromised)
    def _promised(self, row: TraceRow, event: trace.OutputPromised) -> None:
        """Tell of an output that its application owes and never sent."""
        if event.record != self.record or self.partition is not None:
            return
        self.partition, self.producer = TopicPartition(event.topic, event.partition), event.client
        self.moments += self.stops.get(event.client, [])
        self._say(row, event.full_sentence(), table=False)

    @on(trace.BatchSent)
    def _batch_sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        if self.record not in event.records:
            return
        self.partition = TopicPartition(event.topic, event.partition)
        self.on_the_wire.append(row.seq)
        if event.attempt == 1:
            self.transaction.sent(event)
        else:
            self._say(row, event.full_sentence(), table=False)

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        partition = TopicPartition(event.topic, event.partition)
        records = self.mirror.sent.records(partition, event.base_offset, event.crc)
        if self.record not in records:
            return
        offset = event.base_offset + records.index(self.record)
        again = event.node in self.holders
        self.holders.setdefault(event.node, offset)
        self.was_held = True
        self.words[event.node] = "appends it"
        if event.role == "leader":
            marker = self.transaction.appended(event)
            sentence = f"{event.node}, the leader, appended {self.record} at offset {offset}"
            late = "" if marker is None else f" too late: {after_its_end(marker)}"
            self._say(row, f"{sentence}{late} a second time." if again else f"{sentence}{late}. {self._only()}")
        else:
            self._say(row, f"{event.node} copied {self.record} from the leader. {self._only()}")

    @on(trace.HighWatermarkAdvanced)
    def _high_watermark(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        offset = self.holders.get(event.node)
        if not self._is_of_partition(event) or event.role != "leader" or offset is None:
            return
        if event.previous_high_watermark <= offset < event.high_watermark:
            self.committed_us = row.at_us
            self._say(row, f"{event.full_sentence()} {self.record} is committed.", table=False)
            stands = self.stable_offsets.get(TopicPartition(event.topic, event.partition), offset + 1)
            if stands <= offset and not self.is_held_up:
                self.is_held_up = True
                before = f"Consumers with read_committed waited before {self.record}"
                where = f"the last stable offset of {self.partition} was still {stands}"
                self._say(row, f"{before}: {where}.", table=False)

    @on(trace.TransactionStateChanged)
    def _transaction_changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        if self.transaction.decided(event):
            self._say(row, f"{event.node}, the coordinator, decided: {event.full_sentence()}", table=False)

    @on(trace.TransactionMarkerWritten)
    def _marker_written(self, row: TraceRow, event: trace.TransactionMarkerWritten) -> None:
        if self._is_of_partition(event) and self.transaction.marked(event, self.holders.get(event.node)):
            self._say(row, event.full_sentence(), table=False)

    @on(trace.LastStableOffsetMoved)
    def _stable_offset_moved(self, row: TraceRow, event: trace.LastStableOffsetMoved) -> None:
        self.stable_offsets.pop(name := TopicPartition(event.topic, event.partition), None)
        if event.last_stable_offset < event.high_watermark:
            self.stable_offsets[name] = event.last_stable_offset
        offset = self.holders.get(event.node)
        if not self._is_of_partition(event) or offset is None:
            return
        is_held_up = event.last_stable_offset <= offset < event.high_watermark
        if is_held_up and not self.is_held_up:
            waits = f"Consumers with read_committed waited before {self.record}"
            self._say(row, f"{waits}: {event.full_sentence()}", table=False)
        elif self.is_held_up and not is_held_up:
            self._say(row, f"They continued past {self.record}: {event.full_sentence()}", table=False)
        self.is_held_up = is_held_up

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        """Drop the last stable offset. A new leader reports its own if that is below the high watermark."""
        self.stable_offsets.pop(TopicPartition(event.topic, event.partition), None)

    @on(trace.RecordAcked)
    def _acked(self, row: TraceRow, event: trace.RecordAcked) -> None:
        if event.record != self.record:
            return
        assert self.partition is not None
        state = self.view.partitions.get(self.partition)
        self.isr_at_ack = state.isr if state else ()
        self.min_isr_at_ack = state.configured_min_isr if state else 1
        self.lacking_at_ack = tuple(
            node for node in self.isr_at_ack if self.view.running(node) and node not in self.holders
        )
        if event.acks == ACKS_ALL:
            why = f"{event.peer} answered once every in-sync replica {set_of(self.isr_at_ack)} had it"
        else:
            why = f"{event.peer} answered at once, because acks=1 does not wait for followers"
        self.believes = f"believes {self.record} is safe"
        is_decisive = bool(self.lacking_at_ack) or len(self.isr_at_ack) == 1
        self._say(row, f"{event.sentence()}: {why}.", decisive=is_decisive)

    @on(trace.RecordHandedOver)
    def _handed_over(self, row: TraceRow, event: trace.RecordHandedOver) -> None:
        if event.record == self.record:
            self.on_the_wire.append(row.seq)
            self.believes = "does not ask"
            self._say(row, event.full_sentence(), decisive=True)

    @on(trace.ProduceRefused)
    def _produce_refused(self, row: TraceRow, event: trace.ProduceRefused) -> None:
        """Handle a refusal that the producer does not learn of, with acks=0 or after it has given the record up.

        Otherwise the trace has an event in which the producer reports the refusal.
        """
        if not any(cause in self.on_the_wire for cause in row.causes):
            return
        if self.acks == 0:
            closed = f"With acks=0 no response could report this, so {event.node} closed the connection."
            self._say(row, f"{event.full_sentence()} {closed}", decisive=True)
        elif self.believes == DOES_NOT_KNOW:
            self._say(row, f"{event.full_sentence()} {event.peer} no longer waited for a response.")

    @on(trace.TransactionRefused)
    def _transaction_refused(self, row: TraceRow, event: trace.TransactionRefused) -> None:
        """Handle a coordinator's refusal when a leader verifies a batch with the record (KIP-890)."""
        if any(cause in self.on_the_wire for cause in row.causes):
            self.on_the_wire.append(row.seq)
            self._say(row, event.full_sentence(), table=False)

    @on(trace.MessageHeld, trace.MessageReleased)
    def _on_its_way(self, row: TraceRow, event: trace.MessageHeld | trace.MessageReleased) -> None:
        """Note that a fault holds or releases a message with the record, to recognize events that this causes."""
        if any(cause in self.on_the_wire for cause in row.causes):
            self.on_the_wire.append(row.seq)

    @on(trace.ResponseInjected)
    def _response_injected(self, row: TraceRow, event: trace.ResponseInjected) -> None:
        if any(cause in self.on_the_wire for cause in row.causes):
            self.on_the_wire.append(row.seq)
            self.was_carried_out |= event.cause is InjectionCause.APPLIED
            self._say(row, event.full_sentence(), decisive=True, table=False)

    @on(trace.BatchRefused)
    def _refused(self, row: TraceRow, event: trace.BatchRefused) -> None:
        if self.record in event.records:
            self._say(row, event.full_sentence(), table=False)

    @on(trace.RecordFailed)
    def _failed(self, row: TraceRow, event: trace.RecordFailed) -> None:
        if event.record == self.record:
            is_definite = event.definite and not self.was_carried_out
            self.believes = "knows that it failed" if event.definite else DOES_NOT_KNOW
            surely = "It was never written." if is_definite else "It may be in the log nevertheless."
            self._say(row, f"{event.full_sentence()} {surely}")

    @on(trace.RecordRead)
    def _read(self, row: TraceRow, event: trace.RecordRead) -> None:
        entry = self.ledger.records.get(self.record)
        if event.record == self.record and entry is not None and entry.first_read_seq == row.seq:
            self._say(row, event.full_sentence(), table=False)

    @on(trace.ShareRecordRead)
    def _delivered(self, row: TraceRow, event: trace.ShareRecordRead) -> None:
        """Add each delivery to a member of a share group to the story."""
        if event.record == self.record:
            self.delivered[event.name, event.offset] = None
            self._say(row, event.full_sentence(), table=False)

    @on(trace.ShareRecordsSettled, trace.ShareDeadLettersSent, trace.ShareAcknowledgementFailed)
    def _settled(
        self,
        row: TraceRow,
        event: trace.ShareRecordsSettled | trace.ShareDeadLettersSent | trace.ShareAcknowledgementFailed,
    ) -> None:
        if any(name == event.name and event.first <= offset <= event.last for name, offset in self.delivered):
            self._say(row, event.full_sentence(), table=False)

    @on(trace.DeserializationFailed)
    def _not_deserialized(self, row: TraceRow, event: trace.DeserializationFailed) -> None:
        if event.record == self.record:
            self._say(row, event.full_sentence(), decisive=True)

    # ----------------------------------------------------------------------------------------- the world around it

    @on(trace.FaultBegan)
    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        if event.verb in TOLD_BY_THEIR_NODE or self._is_over():
            return
        if event.verb in ("heal", "release", "resume"):
            self.lasting.clear()
        if self.partition is None:
            if event.verb in ("cut", "partition", "hold", "pause", "latency", "loss", "bandwidth"):
                self.lasting[event.fault] = Moment(row.at_us, row.seq, event.full_sentence())
        elif event.verb != "flush" or any(node in self.holders for node in event.targets):
            self._say(row, event.full_sentence(), table=False)

    @on(trace.FaultEnded)
    def _fault_ended(self, row: TraceRow, event: trace.FaultEnded) -> None:
        if self._is_over():
            return
        self.lasting.pop(event.fault, None)
        if self.partition is not None and event.ended_by is None:
            self._say(row, event.full_sentence(), table=False)

    @on(trace.NodeStopped)
    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self.stops.setdefault(event.node, []).append(Moment(row.at_us, row.seq, event.full_sentence()))
        if self._is_over():
            return
        if self.partition is None or event.node not in self.view.replicas(self.partition):
            return
        copy = ""
        if list(self.holders) == [event.node]:
            unseen = "" if self.committed_us else ", above the high watermark, so no consumer had read it"
            only = f"The only copy of {self.record} was on its disk"
            copy = f" {f'No other broker has {self.record}' if event.how == 'power_off' else only}{unseen}."
        self._say(row, event.full_sentence() + copy)

    @on(trace.NodeStarted)
    def _node_started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        if self.partition is not None and event.node in self.view.replicas(self.partition) and not self._is_over():
            if event.node in self.passed_over and event.node in self.holders:
                self.passed_over[event.node] = "came back"
            self._say(row, event.full_sentence(), table=False)

    @on(trace.LeaderElected)
    def _elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        if not self._is_of_partition(event) or event.broker is None:
            return
        if self._is_over():
            self.elected_uncleanly_later |= not event.clean
            return
        sentence = self._not_elected(event)
        if event.broker in self.holders:
            self._say(row, f"{event.full_sentence()} {event.broker} had {self.record}.{sentence}")
            return
        if self.holders:
            sentence = f" But {event.broker} did not have {self.record}, and from then on its log counted.{sentence}"
            # Of the replicas that lacked the record at its ack, the first to lead without it is the one that mattered.
            if event.broker in self.lacking_at_ack:
                self.lacking_at_ack = (event.broker,)
        self._say(row, event.full_sentence() + sentence, decisive=bool(self.holders))
        self.elected_uncleanly |= not event.clean
        electable = {*event.previous_isr, *event.electable}
        if not event.clean and event.occasion is not OccasionKind.UNCLEAN_ASKED and electable <= self.holders.keys():
            self.passed_over = {node: "ran on" if self.view.running(node) else "" for node in sorted(electable)}

    def _not_elected(self, event: trace.LeaderElected) -> str:
        """Return sentences that say why other running members of the ISR were not elected; "" if there are none."""
        members = [name for name in event.previous_isr if name != event.broker and self.view.running(name)]
        fenced = [name for name in members if self.view.nodes[name].fenced]
        live = [name for name in members if name not in fenced and name in event.candidates]
        sentence = ""
        if live and event.cause is ElectionCause.FIRST_LIVE:
            later = "came later in the order of the replicas"
            sentence += f" {listed(live)}, also live and in the ISR, {later}: {', '.join(event.candidates)}."
        if fenced:
            sentence += (
                f" {listed(fenced)} {_is_or_are(fenced)} running, but fenced; the controller elects no fenced broker."
            )
        return sentence

    @on(trace.PartitionWentOffline)
    def _went_offline(self, row: TraceRow, event: trace.PartitionWentOffline) -> None:
        if self._is_of_partition(event) and not self._is_over():
            self._say(row, event.full_sentence())

    @on(trace.IsrCommitted)
    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        if self._is_of_partition(event) and not self._is_over():
            self._say(row, event.full_sentence(), table=False)

    @on(trace.LogTruncated)
    def _truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        if self._is_of_partition(event) and self._dropped(event.node, event.log_end_offset):
            self.words[event.node] = "truncates it"
            self._say_gone(row, event)

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        """Handle the deletion of a replica. If it is created again, its offsets belong to other records."""
        if self._is_of_partition(event) and self.holders.pop(event.node, None) is not None:
            self.words[event.node] = "deletes it"
            self._say_gone(row, event)

    @on(trace.RecordsExpired)
    def _expired(self, row: TraceRow, event: trace.RecordsExpired) -> None:
        if (
            self._is_of_partition(event)
            and self.holders.get(event.node, event.log_start_offset) < event.log_start_offset
        ):
            del self.holders[event.node]
            self.words[event.node] = "lets it expire"
            self._say_gone(row, event)

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        if self._is_of_partition(event) and self._dropped(event.node, event.log_end_offset):
            self._lost_on_disk(row, event)

    def _lost_on_disk(self, row: TraceRow, event: trace.LogRecovered | trace.DataLost) -> None:
        self.lost_on_disk[event.node] = row.at_us
        self.words[event.node] = "lost it"
        self._say_gone(row, event, decisive=not self.holders)

    @on(trace.DataLost)
    def _data_lost(self, row: TraceRow, event: trace.DataLost) -> None:
        if not self._is_of_partition(event) or event.node not in self.holders:
            return
        if not self._dropped(event.node, event.log_end_offset):
            self._say(row, event.full_sentence(), table=False)
            return
        if event.cause is DataLossCause.NOT_FLUSHED:
            self.never_flushed[event.node] = row.at_us
        self._lost_on_disk(row, event)

    @on(trace.InvariantBroken)
    def _invariant_broken(self, row: TraceRow, event: trace.InvariantBroken) -> None:
        if self.partition is not None:
            self._say(row, f"Invariant {event.invariant} was broken: {event.full_sentence()}", table=False)

    @on(trace.BatchCorrupted)
    def _corrupted(self, row: TraceRow, event: trace.BatchCorrupted) -> None:
        """Handle a damaged batch: the broker no longer counts as having the record."""
        if self._is_of_partition(event) and event.offset <= self.holders.get(event.node, -1) <= event.last_offset:
            del self.holders[event.node]
            self.words[event.node] = "damages it"
            self._say_gone(row, event, decisive=True)

    def _dropped(self, node: str, end: int) -> bool:
        offset = self.holders.get(node)
        if offset is None or offset < end:
            return False
        del self.holders[node]
        return True

    def _say_gone(self, row: TraceRow, event: Any, *, decisive: bool = False) -> None:
        """Add a sentence to the story about an event that has removed the record from a node."""
        what = event.full_sentence()
        if self.holders:
            self._say(row, f"{what} {self.record} was gone from {event.node}. {self._only()}", decisive=decisive)
        else:
            last = self._say(row, f"{what} {self.record} was gone everywhere.", decisive=decisive)
            self.lasts_gone.append((last, what))

    # ------------------------------------------------------------------------------------------------------ the end

    def _ending(self, fate: str) -> str:
        copies = copies_of(self.record, self.ledger)
        where = offsets_of(copies)
        if (gone := ending_of(fate, self.record, where, self.ledger)) is not None:
            return gone
        kept = (
            self.transaction.ending(self.record, where) or f"{self.record} is at offset {where} and {self._read_by()}."
        )
        stands = self.unreadable.behind(*copies[0], self.record) if copies else ""
        return f"{kept} {stands}" if stands else kept

    def _read_by(self) -> str:
        stands = self.stable_offsets.get(self.partition) if self.partition is not None and self.is_held_up else None
        if stands is None:
            return "can be read"
        return f"can be read with read_uncommitted; read_committed consumers wait at offset {stands}, before it"

    def _remedies(self, fate: str) -> Remedies:
        if fate != "lost":
            return Remedies()
        if self.ledger.is_undone(self.record):
            return Remedies((IN_THE_TRANSACTION,))
        return remedies_for(self)


def _is_or_are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
