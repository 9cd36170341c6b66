"""The idempotent producer: its id and epoch, and the sequence numbers by which brokers recognize retries (KIP-98).

A batch gets its sequence when it is first drained and keeps it over all retries. When the producer cannot know whether
a sequence was used, it raises its own epoch and numbers the remaining batches of that partition from 0 (KIP-360).

Source: TransactionManager.java, TxnPartitionEntry.java; transactions.py has the other parts of TransactionManager.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum, auto
from typing import NamedTuple

from cluster.client.producer.batch import ProducerBatch
from replica.errors import ErrorCode
from replica.ids import UNKNOWN_OFFSET, TopicPartition
from replica.log.batches.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, increment_sequence

MAX_PRODUCER_EPOCH = 32_767


class GroupMetadata(NamedTuple):
    """The group, and the member that commits offsets. The default generation and ids name no member (before KIP-447).

    Source: ConsumerGroupMetadata
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


NO_GROUP = GroupMetadata("")


class ProducerState(Enum):
    """The state of a transactional producer. Source: TransactionManager.State"""

    INITIALIZING = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


class PartitionSequences:
    """The sequences of one partition: the next, the last acknowledged, and the batches in flight, lowest first."""

    __slots__ = (
        "in_flight",
        "last_acked_offset",
        "last_acked_sequence",
        "next_sequence",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.last_acked_offset = UNKNOWN_OFFSET
        self.in_flight: list[ProducerBatch] = []

    def track(self, batch: ProducerBatch) -> None:
        self.in_flight.append(batch)
        self.in_flight.sort(key=lambda item: (item.producer_id, item.producer_epoch, item.base_sequence))

    def start_at_beginning(self, producer_id: int, producer_epoch: int) -> None:
        """Number all batches in flight from 0 under a new epoch."""
        sequence = 0
        for batch in self.in_flight:
            batch.reset_producer_state(producer_id, producer_epoch, sequence)
            sequence = increment_sequence(sequence, batch.record_count)
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next_sequence = sequence
        self.last_acked_sequence = NO_SEQUENCE

    def close_up(self, failed: ProducerBatch) -> None:
        """Close the gap that a never written batch leaves: lower the sequences of all later batches.

        Source: TxnPartitionEntry.adjustSequencesDueToFailedBatch
        """
        if (failed.producer_id, failed.producer_epoch) != (self.producer_id, self.producer_epoch):
            return
        self.next_sequence -= failed.record_count
        for batch in self.in_flight:
            if batch.base_sequence > failed.base_sequence:
                sequence = batch.base_sequence - failed.record_count
                batch.reset_producer_state(batch.producer_id, batch.producer_epoch, sequence)


class IdempotenceState:
    """The producer's id and epoch, and the sequences of all its partitions.

    Args:
        transactional: True for a transactional producer. It cannot raise its own epoch, and a lost sequence fails its
            transaction.
    """

    def __init__(self, *, transactional: bool = False) -> None:
        self.transactional = transactional
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self._sequences: defaultdict[TopicPartition, PartitionSequences] = defaultdict(PartitionSequences)
        self._unresolved: dict[TopicPartition, int] = {}
        self._to_renumber: dict[TopicPartition, bool] = {}

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def producer_id_given(self, producer_id: int, producer_epoch: int) -> None:
        """Set the id and epoch from an InitProducerId response."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    # ----------------------------------------------------------------------------------------------------- draining

    def must_wait(self, first: ProducerBatch) -> bool:
        """Return True if the first batch of a queue cannot be drained yet.

        Source: shouldStopDrainBatchesForPartition
        """
        if not self.has_producer_id:
            return True
        tp = first.topic_partition
        sequences = self._sequences[tp]
        if not first.has_sequence:
            # A new epoch starts at 0 only when no batch of the old epoch can arrive after it.
            return (bool(sequences.in_flight) and self._is_stale(sequences)) or tp in self._unresolved
        lowest = sequences.in_flight[0].base_sequence if sequences.in_flight else NO_SEQUENCE
        # A retry waits until it has the lowest sequence in flight: batches are retried one at a time.
        return lowest not in (NO_SEQUENCE, first.base_sequence)

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Assign a sequence to a batch that is drained for the first time; a retry keeps its own."""
        if batch.has_sequence:
            return
        sequences = self._sequences[batch.topic_partition]
        if self._is_stale(sequences) and not sequences.in_flight:
            sequences.start_at_beginning(self.producer_id, self.producer_epoch)
        batch.set_producer_state(self.producer_id, self.producer_epoch, sequences.next_sequence)
        batch.transactional = self.transactional
        sequences.next_sequence = increment_sequence(sequences.next_sequence, batch.record_count)
        sequences.track(batch)

    def track(self, batch: ProducerBatch) -> None:
        """Add a part of a split batch, which has its sequence already, to the batches in flight."""
        self._sequences[batch.topic_partition].track(batch)

    def remove(self, batch: ProducerBatch) -> None:
        sequences = self._sequences[batch.topic_partition]
        if batch in sequences.in_flight:
            sequences.in_flight.remove(batch)

    def _is_stale(self, sequences: PartitionSequences) -> bool:
        return (sequences.producer_id, sequences.producer_epoch) != (self.producer_id, self.producer_epoch)

    # ------------------------------------------------------------------------------------------------------ answers

    def batch_completed(self, batch: ProducerBatch, base_offset: int) -> None:
        sequences = self._sequences[batch.topic_partition]
        if base_offset != UNKNOWN_OFFSET:
            sequences.last_acked_offset = max(sequences.last_acked_offset, base_offset + batch.record_count - 1)
        sequences.last_acked_sequence = max(sequences.last_acked_sequence, batch.last_sequence)
        self.remove(batch)

    def batch_failed(self, batch: ProducerBatch, error: ErrorCode, *, adjust_sequences: bool) -> None:
        """Handle a failed batch.

        Args:
            adjust_sequences: True if its sequences were not used; the batches after it are then renumbered.
        """
        self.remove(batch)
        tp = batch.topic_partition
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._to_renumber[tp] = True
        elif error is ErrorCode.UNKNOWN_PRODUCER_ID:
            self._sequences.pop(tp, None)
            self._unresolved.pop(tp, None)
        elif adjust_sequences and self.transactional:
            self._sequences[tp].close_up(batch)
        elif adjust_sequences:
            self._to_renumber[tp] = True

    def can_retry(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool | None:
        """Decide by the sequences whether a refused batch is retried; renumber its partition's batches if necessary.

        Return None if only the error decides, as it does for errors other than those about sequences.
        Source: canRetry
        """
        if error is ErrorCode.UNKNOWN_PRODUCER_ID:
            # -1: the broker did not know its own log start.
            if log_start_offset == UNKNOWN_OFFSET or batch.sequence_was_reset:
                return True
            sequences = self._sequences[batch.topic_partition]
            if sequences.last_acked_offset < log_start_offset:
                # The broker has deleted all its records, and so its state: it restarts at 0 in the same epoch.
                sequences.start_at_beginning(self.producer_id, self.producer_epoch)
                return True
            if self.transactional:
                return None
            self._to_renumber[batch.topic_partition] = True
            return True
        if self.transactional and error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            tp = batch.topic_partition
            is_next = batch.base_sequence - self._sequences[tp].last_acked_sequence == 1
            return tp not in self._unresolved and (batch.sequence_was_reset or not is_next)
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._judge_gap(batch)
            return True
        return None

    def _judge_gap(self, batch: ProducerBatch) -> None:
        """Request a new epoch after OUT_OF_ORDER_SEQUENCE_NUMBER if no batch in flight can fill the gap.

        This is so if the batch directly follows the last acknowledged batch, or a failed batch that may have been
        written.
        """
        tp = batch.topic_partition
        unresolved = self._unresolved.get(tp)
        is_next = batch.base_sequence - self._sequences[tp].last_acked_sequence == 1
        if unresolved is None:
            if is_next and not batch.sequence_was_reset:
                self._to_renumber[tp] = True
        elif unresolved == batch.base_sequence:
            self._to_renumber[tp] = True

    # ------------------------------------------------------------------------------------------------------ resolving

    def mark_unresolved(self, batch: ProducerBatch) -> None:
        """Note that a failed batch had been sent, so its sequences may have been used."""
        after = batch.last_sequence + 1
        self._unresolved[batch.topic_partition] = max(self._unresolved.get(batch.topic_partition, after), after)

    def resolve(self) -> bool:
        """Raise the epoch if sequences may be lost; return True if some of an expired batch are.

        A partition with an expired batch is decided once it has no batches in flight: if sequences are then missing,
        they are lost.
        """
        has_lost = False
        for tp in list(self._unresolved):
            sequences = self._sequences[tp]
            if sequences.in_flight:
                continue
            if sequences.next_sequence - sequences.last_acked_sequence != 1:
                self._to_renumber[tp] = has_lost = True
            del self._unresolved[tp]
        if self.transactional:
            self._to_renumber.clear()  # The coordinator assigns the next epoch once the transaction is aborted.
        elif self._to_renumber:
            self._bump_epoch()
        return has_lost

    def _bump_epoch(self) -> None:
        if self.producer_epoch == MAX_PRODUCER_EPOCH:
            self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        else:
            self.producer_epoch += 1
        for tp in self._to_renumber:
            self._sequences[tp].start_at_beginning(self.producer_id, self.producer_epoch)
            self._unresolved.pop(tp, None)
        self._to_renumber.clear()
