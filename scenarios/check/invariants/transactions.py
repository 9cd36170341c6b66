"""Invariants of transactions, which compare logs and brokers with the answers to producers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from replica.ids import INTERNAL_TOPICS, TRANSACTIONS_TOPIC, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import on
from scenarios.check.invariants.checker import Invariant, InvariantChecker, Probe
from scenarios.language.verbs.cluster import EndHangingTransaction
from scenarios.observe.availability import IsGone
from scenarios.observe.taken_records import PREPARED

NO_SEQUENCE = -1
"""Base sequence of a marker, which has none."""
_PartitionName = tuple[str, int]


@dataclass(slots=True)
class _Transaction:
    """A transaction of a producer.

    Attributes:
        place: position in the order in which transactions began.
        producer: (producer id, producer epoch).
        answered: `committed` or `aborted` according to the answer to its producer, None before the answer.
        asked: ends that its producer has requested, each `committed` or `aborted`.
        ended: end that its coordinator decided because of a request for an earlier transaction, None if it did not.
        cut_short: True if a leader has written a marker for it that its coordinator did not request.
        records: its records in sending order.
        fates: `committed` or `aborted` for each record that a marker has decided.
    """

    place: int
    client: str
    number: int
    producer: tuple[int, int] = (-1, -1)
    answered: str | None = None
    asked: list[str] = field(default_factory=list)
    ended: str | None = None
    cut_short: bool = False
    records: list[str] = field(default_factory=list)
    fates: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.client}"


class TransactionsAreWhole(Invariant):
    """S30: all records of a transaction have the same fate in all partitions, that of the answer to the producer.

    Some failures have separate names:

    * `S30 late-batch`: a record is among those of a later transaction of its producer, and shares their fate.
    * `S30 late-marker`: a marker of an earlier transaction ends a later one (KIP-1228).
    * `S30 late-end`: a late request to end a transaction ends a later one (KAFKA-17754).
    * `S30 aborted-by-operator`: an operator has aborted a transaction of the producer in one partition without asking a
      coordinator (kafka-transactions abort).
    * `S30 forgotten-decision`: the topic of transactions was re-based, or a disk has lost bytes, so a decision may be
      lost. Configuration allows that.

    If a producer got no answer, both the end that it requested and an abort by its coordinator are right. The logs of
    the last leaders are checked below their high watermarks. A record without a marker is undecided.

    Weakened: records of a partition that was re-based are not checked.
    """

    NAME = "S30"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.transactions: list[_Transaction] = []
        self.begun = 0
        self.open: dict[str, _Transaction] = {}
        self.latest: dict[str, _Transaction] = {}
        """The latest transaction by transactional.id."""
        self.asked: dict[tuple[str, str], None] = {}
        """All (transactional.id, end) that producers have ever requested."""
        # Transactions by batch. Names of records are not unique: a client that repeats aborted work uses them again.
        self.of_batch: dict[tuple[str, int, int], _Transaction] = {}
        self.aborted: dict[tuple[str, int, str], dict[int, None]] = {}
        self.leaders: dict[_PartitionName, trace.ReplicaFound] = {}
        self.states: dict[int, str] = {}
        """The last state that a coordinator reported, by producer id."""
        self.undecided: dict[int, None] = {}
        """Producer ids for which an ABORT marker was written without a coordinator's decision to abort."""
        self.operator_aborts = False
        self.ending: dict[int, None] = {}
        """Producer ids whose coordinator has decided how their transaction ends."""

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.of_batch,)

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of gone topics (see Forgetful), and ended transactions that had batches only in these."""
        super().forget(is_gone)
        known = (*self.of_batch.values(), *self.open.values(), *self.latest.values())
        places = dict.fromkeys(transaction.place for transaction in known)
        self.transactions = [transaction for transaction in self.transactions if transaction.place in places]

    @on(trace.TransactionBegan)
    def _began(self, row: TraceRow, event: trace.TransactionBegan) -> None:
        producer = event.producer_id, event.producer_epoch
        self.begun += 1
        transaction = _Transaction(self.begun, event.client, event.number, producer)
        self.open[event.client] = self.latest[event.transactional_id] = transaction
        self.transactions.append(transaction)

    @on(trace.BatchSent)
    def _sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        if not self.transactions:
            return
        batch = (event.topic, event.partition, event.crc)
        if event.attempt == 1 and event.client in self.open:
            self.open[event.client].records += event.records
            self.of_batch.setdefault(batch, self.open[event.client])
        elif batch not in self.of_batch:  # The batch was sent again with new sequences, and so with a new CRC.
            for transaction in reversed(self.transactions):
                if transaction.client == event.client and event.records[0] in transaction.records:
                    self.of_batch[batch] = transaction
                    break

    @on(trace.TransactionEndAsked)
    def _end_asked(self, row: TraceRow, event: trace.TransactionEndAsked) -> None:
        what = _end(event.committed)
        self.asked[event.transactional_id, what] = None
        if event.client in self.open:
            self.open[event.client].asked.append(what)

    @on(trace.TransactionStateChanged)
    def _changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        self.states[event.producer_id] = event.state
        transaction = self.latest.get(event.transactional_id)
        if event.state in PREPARED:
            self.ending[event.producer_id] = None
        else:
            self.ending.pop(event.producer_id, None)
        if event.state not in PREPARED or transaction is None:
            return
        producer_id, epoch = transaction.producer
        if event.producer_id != producer_id or event.producer_epoch not in (epoch, epoch + 1):
            return  # The event is about another instance of the producer.
        decision = _end(PREPARED[event.state])
        was_asked = (event.transactional_id, decision) in self.asked
        if not event.fences and decision not in transaction.asked and was_asked:
            transaction.ended = decision

    @on(trace.TransactionMarkerWritten)
    def _marked(self, row: TraceRow, event: trace.TransactionMarkerWritten) -> None:
        if not event.committed and self.states.get(event.producer_id) != "PrepareAbort":
            self.undecided[event.producer_id] = None
        if event.first_offset is None or event.producer_id in self.ending:
            return
        for transaction in self.open.values():
            transaction.cut_short |= transaction.producer == (event.producer_id, event.producer_epoch)

    @on(trace.FaultBegan)
    def _operated(self, row: TraceRow, event: trace.FaultBegan) -> None:
        self.operator_aborts |= event.verb == EndHangingTransaction.verb

    @on(trace.TransactionEnded)
    def _ended(self, row: TraceRow, event: trace.TransactionEnded) -> None:
        transaction = self.open.pop(event.client, None)
        if transaction is not None:
            transaction.answered = _end(event.committed)

    @on(trace.AbortedBatchFound)
    def _aborted(self, row: TraceRow, event: trace.AbortedBatchFound) -> None:
        self.aborted.setdefault((event.topic, event.partition, event.node), {})[event.base_offset] = None

    @on(trace.ReplicaFound)
    def _replica(self, row: TraceRow, event: trace.ReplicaFound) -> None:
        if event.is_leader:
            self.leaders[event.topic, event.partition] = event

    def ended(self) -> None:
        for (topic, number), replica in self.leaders.items():
            partition = TopicPartition(topic, number)
            if self.of_batch and topic not in INTERNAL_TOPICS and not _is_rebased(self, partition):
                self._decide(partition, replica)
        name = "S30 forgotten-decision" if _may_be_forgotten(self) else self.NAME
        for transaction in self.transactions:
            self._judge(transaction, name)

    def _decide(self, partition: TopicPartition, replica: trace.ReplicaFound) -> None:
        """Store the fate of each transactional record in a leader's log: committed or aborted.

        For a record among those of a later transaction, report a violation instead.
        """
        aborted = self.aborted.get((*partition, replica.node), {})
        for records in self._ended_in(partition, replica):
            batches = [(name, base, self.of_batch.get((*partition, crc))) for name, base, crc in records]
            known = [(name, base, transaction) for name, base, transaction in batches if transaction is not None]
            if not known:
                continue
            latest = max((transaction for _, _, transaction in known), key=lambda transaction: transaction.place)
            for name, base, transaction in known:
                if transaction is latest:
                    transaction.fates[name] = "aborted" if base in aborted else "committed"
                else:
                    sentence = f"{name} of {transaction} is among the records of {latest} in {partition}"
                    self.broken(sentence, *partition, name="S30 late-batch")

    def _ended_in(self, partition: TopicPartition, replica: trace.ReplicaFound) -> Iterator[list[tuple[str, int, int]]]:
        """Yield for each marker the records that it ends, as (name, base offset of batch, CRC of batch)."""
        undecided: dict[int, list[tuple[str, int, int]]] = {}
        log = self.mirror.log(partition, replica.node)
        for batch in log.between(replica.log_start_offset, replica.high_watermark):
            if batch.producer_id < 0:
                continue
            if batch.base_sequence == NO_SEQUENCE:
                yield undecided.pop(batch.producer_id, [])
                continue
            names = self.mirror.sent.records(partition, batch.base_offset, batch.crc)
            undecided.setdefault(batch.producer_id, []).extend(
                (name, batch.base_offset, batch.crc)
                for offset, name in enumerate(names, batch.base_offset)
                if offset not in log.compacted
            )

    def _judge(self, transaction: _Transaction, name: str) -> None:
        if transaction.ended is not None and name == self.NAME:
            name = "S30 late-end"
        if self.operator_aborts and transaction.producer[0] in self.undecided:
            name = "S30 aborted-by-operator"
        if transaction.cut_short and name == self.NAME:
            name = "S30 late-marker"
        wanted = [transaction.answered] if transaction.answered else list(transaction.asked)
        if not transaction.answered and not transaction.ended:
            wanted.append("aborted")  # The coordinator may abort it by itself.
        for record, fate in transaction.fates.items():
            if fate not in wanted:
                self.broken(f"{record} of {transaction} is {fate}, but {_said(transaction)}", name=name)
                return
        fates = list(transaction.fates.items())
        for record, fate in fates:
            if fate != fates[0][1]:
                self.broken(f"{record} of {transaction} is {fate}, but {fates[0][0]} is not", name=name)
                return


def _end(committed: bool) -> str:
    return "committed" if committed else "aborted"


def _said(transaction: _Transaction) -> str:
    """Return a clause that says what answer a transaction's producer got, or what end it requested."""
    if transaction.answered:
        said = f"its producer was told that it is {transaction.answered}"
    elif transaction.asked:
        said = f"its producer requested that it be {transaction.asked[-1]}"
    else:
        said = "its producer did not ask to end it"
    return f"{said}; a request to end an earlier transaction ended it" if transaction.ended else said


def _is_rebased(invariant: Invariant, partition: TopicPartition) -> bool:
    return invariant.truth.of(*partition).rebased_epoch >= 0


def _may_be_forgotten(invariant: Invariant) -> bool:
    """Return whether brokers may have lost a coordinator's decision on a transaction."""
    kept_in = (name for name in invariant.view.partitions if name.topic == TRANSACTIONS_TOPIC)
    return invariant.checker.circumstances.bytes_lost or any(_is_rebased(invariant, name) for name in kept_in)


class _LogState(Protocol):
    """The state of transactional producers in one log, as one invariant needs it."""

    def appended(self, producer_id: int, producer_epoch: int, base_offset: int, base_sequence: int) -> None: ...


_State = TypeVar("_State", bound=_LogState)


class _OfTransactionalProducers(Invariant, Generic[_State]):
    """Base class of invariants that keep a state for each log, built from the batches of transactional producers.

    The state is rebuilt when the log is truncated.
    """

    STATE: type[_State]

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.producer_ids: dict[int, None] = {}
        self.logs: dict[tuple[str, int, str], _State] = {}
        self.forgotten_below: dict[tuple[str, int, str], int] = {}
        """Log start offset below which the broker forgot all records when it opened or cut a log."""

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.logs, self.forgotten_below)

    @on(trace.TransactionStateChanged, trace.TransactionBegan)
    def _named(self, row: TraceRow, event: trace.TransactionStateChanged | trace.TransactionBegan) -> None:
        self.producer_ids[event.producer_id] = None

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        if event.producer_id < 0 or event.producer_id not in self.producer_ids:
            return
        key = event.topic, event.partition, event.node
        log = self.logs.get(key)
        if log is None:
            log = self.logs[key] = self.STATE()
        self.judge(log, event)
        log.appended(event.producer_id, event.producer_epoch, event.base_offset, event.base_sequence)

    def judge(self, log: _State, event: trace.BatchAppended) -> None:
        """Check a batch before it is added to the state of its log."""

    @on(trace.LogTruncated, trace.LogRecovered, trace.LeadershipBegan, trace.FollowingBegan, trace.ReplicaDeleted)
    def _cut(
        self,
        row: TraceRow,
        event: trace.LogTruncated
        | trace.LogRecovered
        | trace.LeadershipBegan
        | trace.FollowingBegan
        | trace.ReplicaDeleted,
    ) -> None:
        if self.mirror.dropped:
            self.rebuild((event.topic, event.partition, event.node))

    def rebuild(self, key: tuple[str, int, str]) -> None:
        """Build the state of a log anew from the batches that it has, except those that the broker has forgotten."""
        if key not in self.logs:
            return
        self.logs[key] = log = self.STATE()
        topic, number, node = key
        batches = self.mirror.log(TopicPartition(topic, number), node)
        first = self.forgotten_below[key] = min(self.forgotten_below.get(key, 0), batches.first)
        for batch in batches:
            if batch.producer_id in self.producer_ids and batch.last_offset >= first:
                log.appended(batch.producer_id, batch.producer_epoch, batch.base_offset, batch.base_sequence)


class _Epochs:
    """The highest epoch of each transactional producer in one log."""

    def __init__(self) -> None:
        self.latest: dict[int, int] = {}

    def appended(self, producer_id: int, producer_epoch: int, base_offset: int, base_sequence: int) -> None:
        self.latest[producer_id] = max(producer_epoch, self.latest.get(producer_id, -1))


class ZombiesWriteNothing(_OfTransactionalProducers[_Epochs]):
    """S31: in each log the epochs of a transactional producer never fall, including the epochs of its markers.

    So a fenced producer writes nothing after a later epoch has ended its open transaction. S26 compares only the epochs
    of data batches. A log that has lost a marker by truncation has also lost the marker's epoch.
    """

    NAME = "S31"
    STATE = _Epochs

    def judge(self, log: _Epochs, event: trace.BatchAppended) -> None:
        known = log.latest.get(event.producer_id, -1)
        if event.producer_epoch < known:
            sentence = (
                f"{event.node} appended a batch of epoch {event.producer_epoch} of producer {event.producer_id} "
                f"at offset {event.base_offset} of {event.topic}-{event.partition}, after a batch of epoch {known}"
            )
            self.broken(sentence, event.topic, event.partition)


class _Unstable:
    """The transactions of one log that are open, or whose marker is not replicated.

    Attributes:
        open: first offset of each open transaction, by producer id.
        marked: (first offset, offset of the marker) of each ended transaction, until its marker is replicated.
    """

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.marked: list[tuple[int, int]] = []

    def appended(self, producer_id: int, producer_epoch: int, base_offset: int, base_sequence: int) -> None:
        if base_sequence != NO_SEQUENCE:
            self.open.setdefault(producer_id, base_offset)
        elif producer_id in self.open:
            self.marked.append((self.open.pop(producer_id), base_offset))

    def replicated(self, high_watermark: int) -> None:
        self.marked = [(first, marker) for first, marker in self.marked if marker >= high_watermark]

    def first_unstable_offset(self, markers_from: int = 0) -> int | None:
        """Return the first offset of any transaction that is open or has an unreplicated marker, None if there is none.

        Args:
            markers_from: ignore markers below this offset.
        """
        marked = (first for first, marker in self.marked if marker >= markers_from)
        return min((*self.open.values(), *marked), default=None)


class StableIsDecided(_OfTransactionalProducers[_Unstable]):
    """S32: a leader's last stable offset is not above its high watermark, nor above the first unstable transaction.

    A transaction is unstable if it is open in the leader's log, or if its marker was never below the leader's high
    watermark. If its first records are deleted or expired, the start of the log counts as its first offset
    (UnifiedLog.maybeIncrementFirstUnstableOffset). Before KAFKA-7190 a leader forgets a transaction whose records were
    all deleted.

    Weakened: a broker that opens or cuts a log forgets the deleted records of a transaction, so that it begins with its
    first remaining record, or is forgotten if there is none. For it deletes the producer snapshots up to the log start,
    and reads on from there (ProducerStateManager.truncateAndReload). A stop in order writes a snapshot at the log end:
    then the transaction is forgotten only if the whole log was deleted. Snapshots at the starts of segments are unknown
    here: with one a broker may know more than is demanded (LogLoader.recoverSegment).

    * `S32 forgotten-marker`: the leader's producer state was loaded from a snapshot and does not know the marker.

    The offsets come from the probe. Internal topics are not checked: records that a coordinator writes there have no
    sequence, as if they were markers.
    """

    NAME = "S32"
    STATE = _Unstable

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.snapshots: dict[tuple[str, int, str], list[int]] = {}
        """Offsets of each log's producer snapshots, except those at the starts of segments, which are unknown here."""
        self.loaded: dict[tuple[str, int, str], int] = {}
        """Offset of the snapshot from which each log's producer state was loaded."""
        self.is_undecided = False
        """True if read_committed consumers wait for a transaction in any log."""

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (*super().kept(), self.snapshots, self.loaded)

    @on(trace.LogRecovered, trace.LogTruncated)
    def _reloaded(self, row: TraceRow, event: trace.LogRecovered | trace.LogTruncated) -> None:
        """Record which producer snapshot a log loads.

        A starting broker writes a snapshot at the end of the log and loads it. After a truncation, a broker loads the
        last remaining snapshot, reads on from there, and writes one at the new end (UnifiedLog.rebuildProducerState).
        """
        key, end = (event.topic, event.partition, event.node), event.log_end_offset
        kept = [offset for offset in self.snapshots.get(key, ()) if offset <= end]
        self.loaded[key] = end if isinstance(event, trace.LogRecovered) else max(kept, default=0)
        self.snapshots[key] = sorted({*kept, end})
        log_start = self.mirror.log(TopicPartition(event.topic, event.partition), event.node).first
        if isinstance(event, trace.LogRecovered) and event.clean and log_start < end:
            return  # The broker has loaded the snapshot that it wrote at the log end when it stopped.
        self.forgotten_below[key] = log_start
        self.rebuild(key)

    @on(trace.LogStartOffsetAdvanced, trace.RecordsExpired)
    def _begins(self, row: TraceRow, event: trace.LogStartOffsetAdvanced | trace.RecordsExpired) -> None:
        """Before KAFKA-7190, drop the transactions of producers whose records were all deleted."""
        log = self.logs.get((event.topic, event.partition, event.node))
        if log is None or self.checker.rules.unknown_producer == "accepted":
            return
        batches = self.mirror.log(TopicPartition(event.topic, event.partition), event.node)
        known = {batch.producer_id for batch in batches if batch.last_offset >= event.log_start_offset}
        log.open = {producer_id: first for producer_id, first in log.open.items() if producer_id in known}

    def probed(self, probe: Probe) -> None:
        self.is_undecided = False
        if not self.logs:
            return
        for stable_offset in probe.stable_offsets():
            self.is_undecided |= stable_offset.last_stable_offset < stable_offset.high_watermark
            topic, number = stable_offset.topic_partition
            where, end = (
                f"{stable_offset.node} lets consumers read {stable_offset.topic_partition}",
                stable_offset.last_stable_offset,
            )
            if end > stable_offset.high_watermark:
                self.broken(
                    f"{where} up to {end}, but its high watermark is {stable_offset.high_watermark}", topic, number
                )
            key = (topic, number, stable_offset.node)
            log = None if topic in INTERNAL_TOPICS else self.logs.get(key)
            if log is None:
                continue
            log.replicated(self.truth.of(topic, number).leader_peaks.get(stable_offset.node, 0))
            unstable = log.first_unstable_offset()
            replica = self.view.replica(stable_offset.topic_partition, stable_offset.node)
            if unstable is None or end <= max(unstable, 0 if replica is None else replica.log_start_offset):
                continue
            is_open = unstable in log.open.values()
            what = "is open" if is_open else "has a marker that is not replicated"
            known = log.first_unstable_offset(self.loaded.get(key, 0))
            name = "S32 forgotten-marker" if known is None or end <= known else self.NAME
            sentence = f"{where} up to {end}, but the transaction that began at {unstable} {what}"
            self.broken(sentence, topic, number, name)

    def at_rest(self, now_us: int) -> bool:
        """Return whether no transaction is undecided. Transforms may wait for the records after an undecided one."""
        return not self.is_undecided


class AbortedIsNotRead(Invariant):
    """S33: a consumer with isolation.level=read_committed reads no record of an aborted transaction.

    The logs of the last leaders are checked at the end.

    Weakened: nothing is checked if a decision may be lost (S30), nor in a partition that was re-based, because the
    transaction may have been committed when its record was read.
    """

    NAME = "S33"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.readers: dict[str, None] | None = None
        self.reads: dict[_PartitionName, dict[int, trace.RecordRead]] = {}
        self.aborted: list[trace.AbortedBatchFound] = []
        self.leaders: dict[_PartitionName, str] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.reads,)

    def probed(self, probe: Probe) -> None:
        if self.readers is None:  # The readers are fixed by the scenario, so ask only once.
            self.readers = dict.fromkeys(probe.committed_readers())

    @on(trace.RecordRead)
    def _read(self, row: TraceRow, event: trace.RecordRead) -> None:
        if self.readers and event.client in self.readers:
            self.reads.setdefault((event.topic, event.partition), {}).setdefault(event.offset, event)

    @on(trace.AbortedBatchFound)
    def _aborted(self, row: TraceRow, event: trace.AbortedBatchFound) -> None:
        self.aborted.append(event)

    @on(trace.ReplicaFound)
    def _replica(self, row: TraceRow, event: trace.ReplicaFound) -> None:
        if event.is_leader:
            self.leaders[event.topic, event.partition] = event.node

    def ended(self) -> None:
        if not self.reads or _may_be_forgotten(self):
            return
        for batch in self.aborted:
            name = batch.topic, batch.partition
            if self.leaders.get(name) != batch.node or _is_rebased(self, TopicPartition(*name)):
                continue
            for offset in range(batch.base_offset, batch.last_offset + 1):
                read = self.reads.get(name, {}).get(offset)
                if read is not None:
                    sentence = f"{read.client} read {read.record} at offset {offset}, but its transaction was aborted"
                    self.broken(sentence, *name)


INVARIANTS: tuple[type[Invariant], ...] = (
    TransactionsAreWhole,
    ZombiesWriteNothing,
    StableIsDecided,
    AbortedIsNotRead,
)
