"""Transaction verification: before a transaction's first batch, leaders ask the coordinator if the partition is in it.

Since 3.6 (KIP-890), a batch that arrives after its transaction ended is refused. Before, it began a transaction that
hung (KAFKA-14402). With transaction.version 2, the request also adds the partition to the transaction. Since 4.1, a
producer epoch older than that in the log is refused without a request (KAFKA-18042).

Source: ReplicaManager.handleProduceAppend, maybeSendPartitionsToTransactionCoordinator; for offsets in a transaction
GroupCoordinator.handleTxnCommitOffsets, CoordinatorPartitionWriter.maybeStartTransactionVerification
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cluster.dynamic_settings import RunningConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import LeaderEpoch, Offset, TopicPartition
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import CONTROL, NO_SEQUENCE, Bytes, read_header
from replica.log.batches.validation import is_transactional
from replica.log.log import AppendInfo, Log
from replica.log.producers.transaction_index import NOT_ASKED_FOR, NOT_VERIFIED
from replica.rules import Rules
from replica.trace.events import LastStableOffsetMoved, Recorder, TransactionMarkerWritten

if TYPE_CHECKING:
    from cluster.broker.replicas.partition import Partition

FIRST_VERSION_THAT_ADDS, FIRST_VERSION_THAT_ABORTS = 12, 11
"""First versions of Produce in which the leader adds partitions, and with TRANSACTION_ABORTABLE."""
FIRST_COMMIT_THAT_ADDS, FIRST_COMMIT_THAT_ABORTS = 5, 4
"""The same versions of TxnOffsetCommit."""
UNAVAILABLE = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

Errors = Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionQuestion:
    """A request to the transaction coordinator: to check that partitions are in a transaction, or to add them.

    Attributes:
        adds: True to add the partitions to the transaction.
        aborts: True if the client supports TRANSACTION_ABORTABLE.
        answered: called with (error of each partition, now_us).
        again: asks again with new guards, since a marker may have removed the current ones; None not to retry.
        backoff_us: delay before a retry.
        until_us: time after which there is no retry.
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
"""Sends a question: (question, now_us)."""


class TransactionChecks:
    """Verifies transactions for the partitions that a broker leads.

    Attributes:
        ask: sends a question to the coordinator; None until it is set.
        guard: guard of a client's batch that was not verified.
    """

    def __init__(self, rules: Rules, config: RunningConfig) -> None:
        self.ask: AskCoordinator | None = None
        self._knows_questions = rules.transactions in ("verified", "v2")
        self._adds = rules.transactions == "v2"
        self._config = config

    @property
    def _verifies(self) -> bool:
        """True if the release verifies transactions, and transaction.partition.verification.enable is true."""
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
        """Verify the transaction of a Produce request's batches at the coordinator if necessary, then call `go_on`.

        Args:
            led: returns a partition, or raises KafkaError if this broker does not lead it.
            go_on: called with (guards by partition, errors by partition, now_us).
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
                # It stays refused even if this broker leads it when the answer comes, since the question omits it.
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
        """Verify the transaction of an offset commit if necessary, then call `go_on(guard, error, now_us)`."""
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
        """Return the guard of a verification that begins, None if none is necessary.

        From 4.1 on, check the producer epoch first.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH.
        """
        if self._adds:
            partition.log.producers.check_epoch(producer_id, producer_epoch)
        return partition.begin_verification(producer_id, producer_epoch, sequence, now_us, supports_epoch_bump=adds)


def _as_produce_errors(errors: Errors, adds: bool) -> Errors:
    """Translate errors of the coordinator to those of Produce. Source: ReplicaManager.handleProduceAppend"""
    unavailable = UNAVAILABLE if adds else (*UNAVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS)
    return {name: ErrorCode.NOT_ENOUGH_REPLICAS if error in unavailable else error for name, error in errors.items()}


# -------------------------------------------------------------------------------------------------------- stable offset
#
# Events about transactions in a partition: the markers that its leader appends, and its last stable offset.
#
# The last stable offset is reported while it differs from the high watermark, and once when they are equal again.


class TransactionsInSight:
    """Emits trace events about the transactions in one partition, at its leader."""

    __slots__ = ("_log", "_place", "_recorder", "_stands_at")

    def __init__(self, log: Log, identity: tuple[str, str, int], recorder: Recorder) -> None:
        self._log = log
        self._place = identity
        self._recorder = recorder
        self._stands_at: Offset | None = None
        """The last stable offset last reported, None if it equalled the high watermark."""

    def leadership_began(self) -> None:
        self._stands_at = None

    def appended(self, batch: Bytes, info: AppendInfo) -> None:
        """Report the batch if it is a transaction marker."""
        header = info.batches[0]
        if not header.attributes & CONTROL:
            return
        marker = read_end_transaction_marker(batch)
        if marker is not None:
            ended = self._log.producers.transactions.unreplicated
            first = next((first for first, last in ended.items() if last == header.base_offset), None)
            self._recorder.emit(
                TransactionMarkerWritten(
                    *self._place,
                    leader_epoch=header.leader_epoch,
                    offset=header.base_offset,
                    first_offset=first,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    coordinator_epoch=marker.coordinator_epoch,
                    committed=marker.control_type is ControlRecordType.COMMIT,
                )
            )

    def high_watermark_moved(self, leader_epoch: LeaderEpoch, high_watermark: Offset) -> None:
        """Report the last stable offset if it has changed, after the high watermark or log start offset moved."""
        stable = self._log.last_stable_offset(high_watermark)
        before = self._stands_at
        if stable == before or (before is None and stable == high_watermark):
            return
        self._stands_at = stable if stable < high_watermark else None
        self._recorder.emit(
            LastStableOffsetMoved(
                *self._place,
                leader_epoch=leader_epoch,
                last_stable_offset=stable,
                high_watermark=high_watermark,
                producer_id=self._log.producers.transactions.ongoing.get(stable),
            )
        )
