"""The causal story of one record: its append, its ack and the reason for its time, the holders when the leader died,
the election and its reason, the truncation. Everything is read from the trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from replica.ids import ACKS_ALL, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.wording import duration, listed
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
from scenarios.observe.wording import with_error

WAITS = "waits"
"""A producer's activity while a record has no answer and is not given up."""
DOES_NOT_KNOW = "does not know"
"""Once it is given up without an answer."""
GONE_EVERYWHERE, NO_LOG_HAS_IT = "is gone everywhere.", "is in no log any more."
"""The first is said of records that were lost."""


class RecordUnknown(ValueError):
    """No producer of the run ever sent a record of that name."""


def explain_record(rows: Iterable[TraceRow], record: str) -> Explanation:
    """The story of `record` from a whole trace in order. raises: RecordUnknown"""
    teller = _Teller(record)
    for row in rows:
        teller(row)
    return teller.finish()


class _Teller(Listener):
    """Follows one record through the trace. Its own listeners keep the state around it."""

    def __init__(self, record: str) -> None:
        self.record = record
        self.view = ClusterView((), ())
        self.mirror = LogMirror()
        self.ledger = RecordLedger(self.mirror.deleted, self.mirror.sent.names)
        self.moments: list[Moment] = []
        self.holdings: list[Holding] = []
        self.on_the_wire: list[int] = []  # events that are reported in the messages with the record
        """batches the record was sent in -> its place in them"""
        self.holders: dict[str, int] = {}
        """nodes that hold it -> its first offset there"""
        self.was_held = False
        self.words: dict[str, str] = {}
        """what the next line of the table says of a broker instead of whether it holds the record"""
        self.partition: TopicPartition | None = None
        self.producer, self.acks = "", 0
        self.scenario, self.seed = "", 0
        self.believes = WAITS
        self.remedies = Remedies()
        self.isr_at_ack: tuple[str, ...] = ()
        self.lacking_at_ack: tuple[str, ...] = ()
        self.min_isr_at_ack = 1
        self.lasting: dict[str, Moment] = {}
        self.lost_on_disk: dict[str, int] = {}
        self.never_flushed: dict[str, int] = {}
        self.power_failed_us: dict[str, int] = {}
        self.unflushed: dict[str, None] = {}
        self.elected_uncleanly = False
        self.elected_uncleanly_later = False
        self.came_back: dict[str, int] = {}
        self.committed_us: int | None = None
        self.transaction = TransactionOfRecord()
        self.unreadable = UnreadablePositions()
        self.parts = (self.view, self.mirror, self.ledger, self.unreadable)
        self.stable_offsets: dict[TopicPartition, int] = {}
        """where a leader's stands, while that is below its high watermark"""
        self.is_held_up = False
        """The last stable offset stands before the record, which is committed."""

    def _is_over(self) -> bool:
        """Gone everywhere, and its producer will not send it again: later events concern other records."""
        return self.was_held and not self.holders and self.believes != WAITS

    def finish(self) -> Explanation:
        if self.partition is None:
            names = [entry.name for entry in islice(self.ledger, 3)]
            known = f": they are named {', '.join(names)} and so on" if names else ": it sent none"
            raise RecordUnknown(f"no producer of this run sent a record named {self.record}{known}")
        self.ledger.close()
        fate = fate_of(self.record, self.ledger) or self.transaction.fate or "kept"
        if fate not in ("lost", "missing", "unseen"):
            for moment in self.moments:
                moment.decisive = False
                moment.sentence = moment.sentence.replace(GONE_EVERYWHERE, NO_LOG_HAS_IT)
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
            elif state is not None and state.leader == node:
                brokers[node] = f"leads, {held}" if node in self.holders else f"leads, no {self.record}"
            else:
                brokers[node] = held
        self.words.clear()
        if self.holdings and self.holdings[-1].at_us == at_us:
            self.holdings.pop()
        self.holdings.append(Holding(at_us, brokers, self.believes))

    def _here(self, event: Any) -> bool:
        return self.partition is not None and (event.topic, event.partition) == self.partition

    def _only(self) -> str:
        """`Only b1 has it.`, `b1 and b2 have it.`"""
        holders = sorted(self.holders)
        if len(holders) == 1:
            return f"Only {holders[0]} has it."
        return f"{listed(holders)} have it." if holders else "No broker has it."

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
        acks = "all" if event.acks == ACKS_ALL else event.acks
        self._say(
            row, f"The application hands {self.record} to {event.client}, which asks for acks={acks}.", table=False
        )

    @on(trace.BatchSent)
    def _batch_sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        if self.record not in event.records:
            return
        self.partition = TopicPartition(event.topic, event.partition)
        self.on_the_wire.append(row.seq)
        if event.attempt == 1:
            self.transaction.sent(event)
        else:
            again = f"{event.client} sends {self.record} again, to {event.peer} (attempt {event.attempt})."
            self._say(row, again, table=False)

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
            sentence = f"{event.node}, the leader, appends {self.record} at offset {offset}"
            late = "" if marker is None else f" too late: {after_its_end(marker)}"
            self._say(row, f"{sentence}{late} a second time." if again else f"{sentence}{late}. {self._only()}")
        else:
            self._say(row, f"{event.node} copies {self.record} from the leader. {self._only()}")

    @on(trace.HighWatermarkAdvanced)
    def _high_watermark(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        offset = self.holders.get(event.node)
        if not self._here(event) or event.role != "leader" or offset is None:
            return
        if event.previous_high_watermark <= offset < event.high_watermark:
            self.committed_us = row.at_us
            self._say(row, f"{self.record} is committed: {_sentence(event.sentence())}", table=False)
            stands = self.stable_offsets.get(TopicPartition(event.topic, event.partition), offset + 1)
            if stands <= offset and not self.is_held_up:
                self.is_held_up = True
                before = f"Readers of committed records wait before {self.record}"
                where = f"the last stable offset of {self.partition} still stands at {stands}"
                self._say(row, f"{before}: {where}.", table=False)

    @on(trace.TransactionStateChanged)
    def _transaction_changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        if self.transaction.decided(event):
            self._say(row, f"{event.node}, the coordinator, decides: {_sentence(event.sentence())}", table=False)

    @on(trace.TransactionMarkerWritten)
    def _marker_written(self, row: TraceRow, event: trace.TransactionMarkerWritten) -> None:
        if self._here(event) and self.transaction.marked(event, self.holders.get(event.node)):
            self._say(row, _sentence(event.sentence()), table=False)

    @on(trace.LastStableOffsetMoved)
    def _stable_offset_moved(self, row: TraceRow, event: trace.LastStableOffsetMoved) -> None:
        self.stable_offsets.pop(name := TopicPartition(event.topic, event.partition), None)
        if event.last_stable_offset < event.high_watermark:
            self.stable_offsets[name] = event.last_stable_offset
        offset = self.holders.get(event.node)
        if not self._here(event) or offset is None:
            return
        is_held_up = event.last_stable_offset <= offset < event.high_watermark
        if is_held_up and not self.is_held_up:
            waits = f"Readers of committed records wait before {self.record}"
            self._say(row, f"{waits}: {_sentence(event.sentence())}", table=False)
        elif self.is_held_up and not is_held_up:
            self._say(row, f"They go on past {self.record}: {_sentence(event.sentence())}", table=False)
        self.is_held_up = is_held_up

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        """A leader states its last stable offset just afterwards, if that is below its high watermark."""
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
            why = f"{event.peer} answers once every in-sync replica {{{', '.join(self.isr_at_ack)}}} has it"
        else:
            why = f"{event.peer} answers at once, because acks=1 does not wait for followers"
        self.believes = f"believes {self.record} is safe"
        self._say(
            row,
            f"{why}; after {duration(event.latency_us)} {event.client} believes that {self.record} is safe.",
            decisive=bool(self.lacking_at_ack) or len(self.isr_at_ack) == 1,
        )

    @on(trace.RecordHandedOver)
    def _handed_over(self, row: TraceRow, event: trace.RecordHandedOver) -> None:
        if event.record == self.record:
            self.on_the_wire.append(row.seq)
            self.believes = "does not ask"
            self._say(
                row,
                f"{event.client} puts {self.record} into its socket to {event.peer}; acks=0 waits for no answer.",
                decisive=True,
            )

    @on(trace.ProduceRefused)
    def _produce_refused(self, row: TraceRow, event: trace.ProduceRefused) -> None:
        """Where no client hears the broker's refusal: with acks=0, and once the producer has given the record up.
        Otherwise the producer's own event states it."""
        if not any(cause in self.on_the_wire for cause in row.causes):
            return
        if self.acks == 0:
            closed = f"With acks=0 there is no answer that could say so: {event.node} closes the connection."
            self._say(row, f"{_sentence(event.sentence())} {closed}", decisive=True)
        elif self.believes == DOES_NOT_KNOW:
            said = _sentence(with_error(event.error, event.sentence()))
            self._say(row, f"{said} {event.peer} no longer waits for an answer.")

    @on(trace.TransactionRefused)
    def _transaction_refused(self, row: TraceRow, event: trace.TransactionRefused) -> None:
        """The coordinator's answer to a leader that asks for a batch with the record (KIP-890)."""
        if any(cause in self.on_the_wire for cause in row.causes):
            self.on_the_wire.append(row.seq)
            self._say(row, _sentence(event.sentence()), table=False)

    @on(trace.MessageHeld, trace.MessageReleased)
    def _on_its_way(self, row: TraceRow, event: trace.MessageHeld | trace.MessageReleased) -> None:
        """A message with the record, which a fault keeps back: what it causes when it goes on concerns the record."""
        if any(cause in self.on_the_wire for cause in row.causes):
            self.on_the_wire.append(row.seq)

    @on(trace.BatchRefused)
    def _refused(self, row: TraceRow, event: trace.BatchRefused) -> None:
        if self.record in event.records:
            more = f"{event.client} will try again" if event.will_retry else f"{event.client} gives up"
            self._say(row, f"{event.error} from {event.peer}: {event.sentence()}; {more}.", table=False)

    @on(trace.RecordFailed)
    def _failed(self, row: TraceRow, event: trace.RecordFailed) -> None:
        if event.record == self.record:
            self.believes = "knows that it failed" if event.definite else DOES_NOT_KNOW
            surely = "It was never written." if event.definite else "It may be in the log all the same."
            self._say(row, f"{event.client} gives {self.record} up: {event.error}, {event.sentence()}. {surely}")

    @on(trace.RecordRead)
    def _read(self, row: TraceRow, event: trace.RecordRead) -> None:
        entry = self.ledger.records.get(self.record)
        if event.record == self.record and entry is not None and entry.first_read_seq == row.seq:
            self._say(
                row, f"{event.client} reads {self.record} at offset {event.offset} from {event.peer}.", table=False
            )

    @on(trace.DeserializationFailed)
    def _not_deserialized(self, row: TraceRow, event: trace.DeserializationFailed) -> None:
        if event.record == self.record:
            self._say(row, f"{event.client} cannot read {self.record}: {_sentence(event.sentence())}", decisive=True)

    # ----------------------------------------------------------------------------------------- the world around it

    @on(trace.FaultBegan)
    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        if event.verb in TOLD_BY_THEIR_NODE or self._is_over():
            return
        if event.verb in ("heal", "release", "resume"):
            self.lasting.clear()
        if self.partition is None:
            if event.verb in ("cut", "partition", "hold", "pause", "latency", "loss", "bandwidth"):
                self.lasting[event.fault] = Moment(row.at_us, row.seq, _sentence(event.sentence()))
        elif event.verb != "flush" or any(node in self.holders for node in event.targets):
            self._say(row, _sentence(event.sentence()), table=False)

    @on(trace.FaultEnded)
    def _fault_ended(self, row: TraceRow, event: trace.FaultEnded) -> None:
        if self._is_over():
            return
        self.lasting.pop(event.fault, None)
        if self.partition is not None and event.ended_by is None:
            self._say(row, _sentence(event.sentence()), table=False)

    @on(trace.NodeStopped)
    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        if self._is_over():
            return
        if event.how == "power_off":
            self.power_failed_us[event.node] = row.at_us
        if self.partition is None or event.node not in self.view.replicas(self.partition):
            return
        copy = ""
        if list(self.holders) == [event.node]:
            unseen = "" if self.committed_us else ", above the high watermark: no consumer has seen it"
            copy = f" The only copy of {self.record} is on its disk{unseen}."
        self._say(row, _sentence(event.sentence()) + copy)

    @on(trace.NodeStarted)
    def _node_started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        if self.partition is not None and event.node in self.view.replicas(self.partition) and not self._is_over():
            if event.node in self.holders:
                self.came_back[event.node] = row.at_us
            self._say(row, _sentence(event.sentence()), table=False)

    @on(trace.LeaderElected)
    def _elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        if not self._here(event) or event.broker is None:
            return
        if self._is_over():
            self.elected_uncleanly_later |= not event.clean
            return
        if event.broker in self.holders:
            self._say(row, f"{_sentence(event.sentence())} {event.broker} has {self.record}.")
            return
        told = ""
        if self.holders:
            told = f" But {event.broker} does not have {self.record}, and its log is now the truth."
        self._say(row, _sentence(event.sentence()) + told, decisive=bool(self.holders))
        self.elected_uncleanly |= not event.clean

    @on(trace.PartitionWentOffline)
    def _went_offline(self, row: TraceRow, event: trace.PartitionWentOffline) -> None:
        if self._here(event) and not self._is_over():
            self._say(row, _sentence(event.sentence()))

    @on(trace.IsrCommitted)
    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        if self._here(event) and not self._is_over():
            self._say(row, _sentence(event.sentence()), table=False)

    @on(trace.LogTruncated)
    def _truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        if self._here(event) and self._dropped(event.node, event.log_end_offset):
            self.words[event.node] = "truncates it"
            self._say(row, f"{_sentence(event.sentence())} {self._left(event.node)}")

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        """With its topic, or because it is reassigned. One that is made again has other records at its offsets."""
        if self._here(event) and self.holders.pop(event.node, None) is not None:
            self.words[event.node] = "deletes it"
            self._say(row, f"{_sentence(event.sentence())} {self._left(event.node)}")

    @on(trace.RecordsExpired)
    def _expired(self, row: TraceRow, event: trace.RecordsExpired) -> None:
        if self._here(event) and self.holders.get(event.node, event.log_start_offset) < event.log_start_offset:
            del self.holders[event.node]
            self.words[event.node] = "lets it expire"
            self._say(row, f"{_sentence(event.sentence())} {self._left(event.node)}")

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        if self._here(event) and self._dropped(event.node, event.log_end_offset):
            self.lost_on_disk[event.node] = row.at_us
            if event.node in self.unflushed:
                self.never_flushed[event.node] = row.at_us
            self.words[event.node] = "lost it"
            self._say(row, f"{_sentence(event.sentence())} {self._left(event.node)}", decisive=not self.holders)

    @on(trace.DataLost)
    def _data_lost(self, row: TraceRow, event: trace.DataLost) -> None:
        if self._here(event) and event.node in self.holders:
            if event.size_bytes >= 0 and self.power_failed_us.get(event.node) == row.at_us:
                self.unflushed[event.node] = None
            else:
                self.unflushed.pop(event.node, None)
            self._say(row, _sentence(event.sentence()), table=False)

    @on(trace.InvariantBroken)
    def _invariant_broken(self, row: TraceRow, event: trace.InvariantBroken) -> None:
        if self.partition is not None:
            self._say(row, f"Invariant {event.invariant} is broken: {_sentence(event.sentence())}", table=False)

    @on(trace.BatchCorrupted)
    def _corrupted(self, row: TraceRow, event: trace.BatchCorrupted) -> None:
        """A batch that fails its CRC is unreadable, so it counts as gone there."""
        if self._here(event) and event.offset <= self.holders.get(event.node, -1) <= event.last_offset:
            del self.holders[event.node]
            self.words[event.node] = "damages it"
            self._say(row, f"{_sentence(event.sentence())} {self._left(event.node)}", decisive=True)

    def _dropped(self, node: str, end: int) -> bool:
        offset = self.holders.get(node)
        if offset is None or offset < end:
            return False
        del self.holders[node]
        return True

    def _left(self, node: str) -> str:
        if self.holders:
            return f"{self.record} is gone from {node}. {self._only()}"
        return f"{self.record} {GONE_EVERYWHERE}"

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
        return f"a reader of everything gets it: readers of committed records wait at {stands}, before it"

    def _remedies(self, fate: str) -> Remedies:
        if fate != "lost":
            return Remedies()
        if self.ledger.is_undone(self.record):
            return Remedies((IN_THE_TRANSACTION,))
        return remedies_for(self)


def _sentence(reason: str) -> str:
    """A reason as a separate sentence: a full stop at the end, the first letter as it is (`b1 ...`)."""
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."
