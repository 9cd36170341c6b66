"""A leader's question to the coordinator before a transaction's first batch: is the partition in it? (KIP-890)

Since 3.6 a late batch that comes after its transaction's end is refused so, where it began a transaction before that
nothing would ever end (KAFKA-14402). With transaction.version 2 the question adds the partition, too. Since 4.1 nothing
is asked about an older epoch than the log has (KAFKA-18042).

source: ReplicaManager.handleProduceAppend, maybeSendPartitionsToTransactionCoordinator; of offsets in a transaction
GroupCoordinator.handleTxnCommitOffsets, CoordinatorPartitionWriter.maybeStartTransactionVerification
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cluster.broker.replicas.partition_events import PartitionEvents
from cluster.dynamic_settings import RunningConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import LeaderEpoch, Offset, TopicPartition
from replica.log.batches.control_records import read_end_transaction_marker
from replica.log.batches.records import CONTROL, NO_SEQUENCE, Bytes, read_header
from replica.log.batches.validation import is_transactional
from replica.log.log import AppendInfo, Log
from replica.log.producers.transaction_index import NOT_ASKED_FOR, NOT_VERIFIED
from replica.rules import Rules

if TYPE_CHECKING:
    from cluster.broker.replicas.partition import Partition

FIRST_VERSION_THAT_ADDS, FIRST_VERSION_THAT_ABORTS = 12, 11
"""Of Produce: the client leaves it to the leader to add partitions; it knows TRANSACTION_ABORTABLE."""
FIRST_COMMIT_THAT_ADDS, FIRST_COMMIT_THAT_ABORTS = 5, 4
"""Of TxnOffsetCommit."""
UNAVAILABLE = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

Errors = Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionQuestion:
    """adds: the partitions are to be in the transaction from now on

    aborts: its client knows TRANSACTION_ABORTABLE
    answered: takes what the coordinator said of each partition
    again: asks anew, with guards of that time, for a marker may have taken the present ones away;
        None: it is not to be asked again     backoff_us: after that time     until_us: from then on it is not
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool
    aborts: bool
    answered: Callable[[Errors, int], None]
    again: Callable[[int], None] | None = None
    backoff_us: int = 0
    until_us: int = 0


AskCoordinator = Callable[[TransactionQuestion, int], None]
"""(question, now_us)"""


class TransactionChecks:
    """ask: set once the broker knows coordinators     guard: of a client's batch about which nothing was asked"""

    def __init__(self, rules: Rules, config: RunningConfig) -> None:
        self.ask: AskCoordinator | None = None
        self._knows_questions = rules.transactions in ("verified", "v2")
        self._adds = rules.transactions == "v2"
        self._config = config

    @property
    def _verifies(self) -> bool:
        """transaction.partition.verification.enable"""
        return self._knows_questions and self._config.current.transaction_partition_verification_enable

    @property
    def guard(self) -> int:
        return NOT_VERIFIED if self._verifies else NOT_ASKED_FOR

    def begin(
        self,
        transactional_id: str,
        entries: Sequence[tuple[TopicPartition, memoryview | None]],
        led: Callable[[TopicPartition], Partition],
        api_version: int,
        go_on: Callable[[Mapping[TopicPartition, int], Errors, int], None],
        now_us: int,
    ) -> None:
        """Ask, if something is to be asked.

        led: the partition of that name; raises KafkaError where this broker does not lead it
        go_on: (guard of each partition, refused ones, now_us)
        """
        if self._verifies or (self._adds and api_version >= FIRST_VERSION_THAT_ADDS):
            config = self._config.current
            limit_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
            until_us = now_us + limit_ms * 1000
            self._ask(transactional_id, entries, led, api_version, until_us, go_on, now_us)
        else:
            go_on({}, {}, now_us)

    def _ask(
        self,
        transactional_id: str,
        entries: Sequence[tuple[TopicPartition, memoryview | None]],
        led: Callable[[TopicPartition], Partition],
        api_version: int,
        until_us: int,
        go_on: Callable[[Mapping[TopicPartition, int], Errors, int], None],
        now_us: int,
    ) -> None:
        adds = self._adds and api_version >= FIRST_VERSION_THAT_ADDS
        guards: dict[TopicPartition, int] = {}
        refused: dict[TopicPartition, ErrorCode] = {}
        producer_id = producer_epoch = -1
        for name, records in entries:
            if records is None or not is_transactional(records):
                continue
            try:
                header = read_header(records)
            except KafkaError:
                continue
            producer_id, producer_epoch = header.producer_id, header.producer_epoch
            if not header.has_producer_id:
                continue
            try:
                sequence = header.base_sequence
                guard = self._begin(led(name), producer_id, producer_epoch, sequence, now_us, adds=adds)
            except KafkaError as error:
                # Also where it comes to lead until the answer is there: nothing was asked about this partition.
                refused[name] = error.code
                continue
            if guard is not None:
                guards[name] = guard
        if not guards:
            go_on({}, refused, now_us)
        elif self.ask is None:
            go_on({}, {**refused, **dict.fromkeys(guards, ErrorCode.NOT_ENOUGH_REPLICAS)}, now_us)
        else:
            question = TransactionQuestion(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                partitions=tuple(guards),
                adds=adds,
                aborts=api_version >= FIRST_VERSION_THAT_ABORTS,
                answered=lambda errors, at_us: go_on(guards, {**refused, **_as_produce_errors(errors, adds)}, at_us),
                again=partial(self._ask, transactional_id, entries, led, api_version, until_us, go_on)
                if adds
                else None,
                backoff_us=self._config.current.add_partitions_to_txn_retry_backoff_ms * 1000,
                until_us=until_us,
            )
            self.ask(question, now_us)

    def begin_commit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: Partition,
        api_version: int,
        go_on: Callable[[int, ErrorCode, int], None],
        now_us: int,
    ) -> None:
        """The same before offsets are written to a partition of the offsets topic. go_on: (guard, error, now_us)"""
        adds = self._adds and api_version >= FIRST_COMMIT_THAT_ADDS
        if not adds and not self._verifies:
            go_on(NOT_ASKED_FOR, ErrorCode.NONE, now_us)
            return
        try:
            guard = self._begin(partition, producer_id, producer_epoch, NO_SEQUENCE, now_us, adds=adds)
        except KafkaError as error:
            go_on(NOT_VERIFIED, error.code, now_us)
            return
        if guard is None:
            go_on(self.guard, ErrorCode.NONE, now_us)
        elif self.ask is None:
            go_on(NOT_VERIFIED, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_us)
        else:
            name = partition.topic_partition
            question = TransactionQuestion(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                partitions=(name,),
                adds=adds,
                aborts=api_version >= FIRST_COMMIT_THAT_ABORTS,
                answered=lambda errors, at_us: go_on(guard, errors[name], at_us),
            )
            self.ask(question, now_us)

    def _begin(
        self, partition: Partition, producer_id: int, producer_epoch: int, sequence: int, now_us: int, *, adds: bool
    ) -> int | None:
        """See ProducerStateManager.begin_verification. raises: KafkaError INVALID_PRODUCER_EPOCH"""
        if self._adds:
            partition.log.producers.check_epoch(producer_id, producer_epoch)
        return partition.begin_verification(producer_id, producer_epoch, sequence, now_us, supports_epoch_bump=adds)


def _as_produce_errors(errors: Errors, adds: bool) -> Errors:
    """As a producer understands them. source: ReplicaManager.handleProduceAppend"""
    unavailable = UNAVAILABLE if adds else (*UNAVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS)
    return {name: ErrorCode.NOT_ENOUGH_REPLICAS if error in unavailable else error for name, error in errors.items()}


# -------------------------------------------------------------------------------------------------------- stable offset
#
# What the trace says of transactions in a partition: the markers its leader appends, and its last stable offset.
#
# The last stable offset is stated only where it differs from the high watermark, and when it no longer does.


class TransactionsInSight:
    """Of one partition, while its broker leads it."""

    __slots__ = ("_events", "_log", "_stands_at")

    def __init__(self, log: Log, events: PartitionEvents) -> None:
        self._log = log
        self._events = events
        self._stands_at: Offset | None = None
        """the last stable offset that was stated, while it is below the high watermark"""

    def leadership_began(self) -> None:
        self._stands_at = None

    def appended(self, batch: Bytes, info: AppendInfo) -> None:
        """A coordinator has had a batch appended."""
        header = info.batches[0]
        if not header.attributes & CONTROL:
            return
        marker = read_end_transaction_marker(batch)
        if marker is not None:
            ended = self._log.producers.transactions.unreplicated
            first = next((first for first, last in ended.items() if last == header.base_offset), None)
            self._events.marker_written(header, marker, first)

    def high_watermark_moved(self, leader_epoch: LeaderEpoch, high_watermark: Offset) -> None:
        """Also: the leader's log starts at another offset."""
        stable = self._log.last_stable_offset(high_watermark)
        before = self._stands_at
        if stable == before or (before is None and stable == high_watermark):
            return
        self._stands_at = stable if stable < high_watermark else None
        ongoing = self._log.producers.transactions.ongoing
        self._events.last_stable_offset_moved(leader_epoch, stable, high_watermark, ongoing.get(stable))
