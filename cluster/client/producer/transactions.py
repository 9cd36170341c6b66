"""Transactions of a producer: its requests to the coordinators, one at a time, and its state after each response.

Records of a transaction wait until the coordinator knows their partition. To commit a group's offsets, the producer
first adds the group to the transaction (not with transaction.version 2), then sends the offsets to the group's
coordinator. An error is abortable (the transaction can only be aborted) or fatal (the producer can only be closed).

Source: TransactionManager.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from cluster.client.api_versions import NO_FEATURES_EPOCH, SPOKEN, Allowed, ApiVersions
from cluster.client.connection_states import Failure
from cluster.client.connections import ClientConnections
from cluster.client.coordinators import GROUP, LOOK_AGAIN, TRANSACTION, Coordinator, CoordinatorRequests
from cluster.client.events import ClientEvents
from cluster.client.producer.idempotence import GroupMetadata, IdempotenceState, ProducerState
from cluster.config import ProducerConfig
from cluster.protocol.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    api_name,
)
from controller.features import TRANSACTION_VERSION, TRANSACTIONS_V2
from replica.causes import FailureCause
from replica.config import NEVER
from replica.errors import RETRIABLE, ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from replica.trace.columns import TransactionEvent
from replica.trace.events import TransactionBegan, TransactionEndAsked, TransactionEnded, TransactionFailed

ASK_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
ABORTABLE = (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OPERATION_NOT_ATTEMPTED)
ABORTABLE_WITH_EPOCH = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID)
"""Abortable errors after which the producer needs another epoch."""
FATAL = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
)
"""Errors of a batch that are fatal; any other error of a batch is abortable."""


COMMIT_ABORTABLE = (
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
)
"""Abortable errors of TxnOffsetCommit. Another member may have the partitions.

Source: TxnOffsetCommitHandler
"""
ABORTED = Failure(FailureCause.ABORTED)


class _Offsets(NamedTuple):
    offsets: Mapping[TopicPartition, int]
    group: GroupMetadata


class TransactionManager:
    """The transactions of one producer.

    Attributes:
        state: state of the producer.
        error: error that led to an error state.
        failure: cause of that error.
    """

    def __init__(
        self,
        config: ProducerConfig,
        connections: ClientConnections,
        events: ClientEvents,
        idempotence: IdempotenceState,
    ) -> None:
        self.state = ProducerState.INITIALIZING
        self.error = ErrorCode.NONE
        self.failure = ABORTED
        self.transactional_id = config.transactional_id
        self._timeout_ms = config.transaction_timeout_ms
        self._requests = CoordinatorRequests(connections, config.retry_backoff_ms, self._not_found)
        self._coordinator = Coordinator(config.transactional_id, TRANSACTION)
        self._group_coordinator = Coordinator("", GROUP)
        self._events = events
        self._idempotence = idempotence
        self.level = TransactionLevel(connections.versions)
        self._needs_epoch = False
        """True if the producer must request its next epoch before the next transaction (KIP-360)."""
        self._new_partitions: dict[TopicPartition, None] = {}
        self._partitions: dict[TopicPartition, None] = {}
        self._offsets: _Offsets | None = None
        self._group_is_added = False
        self._group_is_part = False
        """True if the group may be part of the transaction at its coordinator."""
        self._count = 0
        self.has_committed = False
        """True if the last ended transaction was committed."""

    # ---------------------------------------------------------------------------------------------------- application

    def begin(self) -> None:
        assert self.state is ProducerState.READY
        self.state = ProducerState.IN_TRANSACTION
        self.error, self.failure = ErrorCode.NONE, ABORTED
        self._count += 1
        self._new_partitions.clear()
        self._partitions.clear()
        self._tell(TransactionBegan, **self._producer)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """Commit a group's offsets (the next one to read of each partition) with the transaction.

        Source: sendOffsetsToTransaction
        """
        assert self.state is ProducerState.IN_TRANSACTION and self._offsets is None
        self._offsets, self._group_is_added = _Offsets(offsets, group), self.level.is_v2
        if self._group_coordinator.key != group.group_id:
            self._group_coordinator = Coordinator(group.group_id, GROUP)

    @property
    def sends_offsets(self) -> bool:
        """True from `send_offsets` until the group's coordinator has stored the offsets or the transaction fails."""
        return self._offsets is not None and not self.has_failed

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction as soon as its records are acknowledged or failed.

        Source: beginCompletingTransaction
        """
        self.state = ProducerState.COMMITTING if commit else ProducerState.ABORTING
        self._tell(TransactionEndAsked, **self._producer, committed=commit)
        # The first transaction with transaction.version 2 begins with a new epoch.
        self._needs_epoch = self.level.end() or self._needs_epoch

    @property
    def has_failed(self) -> bool:
        return self.state in (ProducerState.ABORTABLE_ERROR, ProducerState.FATAL_ERROR)

    @property
    def is_ending(self) -> bool:
        return self.state in (ProducerState.COMMITTING, ProducerState.ABORTING)

    @property
    def is_ongoing(self) -> bool:
        """True if a transaction has begun and has neither ended nor failed fatally. Source: hasOngoingTransaction"""
        return self.is_ending or self.state in (ProducerState.IN_TRANSACTION, ProducerState.ABORTABLE_ERROR)

    @property
    def gives_up_unsent(self) -> bool:
        """True if unsent records fail without being sent, because they would be aborted."""
        return self.has_failed or self.state is ProducerState.ABORTING

    def sends_to(self, name: TopicPartition) -> None:
        """Add a partition to the transaction, because a record for it was queued."""
        if name not in self._partitions and name not in self._new_partitions:
            (self._partitions if self.level.is_v2 else self._new_partitions)[name] = None

    # -------------------------------------------------------------------------------------------------------- sender

    def may_send_to(self, name: TopicPartition) -> bool:
        return name in self._partitions and self.state is not ProducerState.FATAL_ERROR

    @property
    def is_asking(self) -> bool:
        """True while a request is in flight; nothing else is sent then."""
        return self._requests.in_flight

    @property
    def next_deadline_us(self) -> int:
        """The time at which to call `run_once` if no other event comes first."""
        return self._requests.next_deadline_us

    def run_once(self, now_us: int, *, has_incomplete: bool) -> bool:
        """Send the next request if one is due, and return True if it was sent.

        Args:
            has_incomplete: True if some records are neither acknowledged nor failed; a transaction ends after them.
        """
        self._requests.next_deadline_us = NEVER
        ask = self._next(has_incomplete)
        if ask is None:
            return False
        of_group = ask == self._commit_offsets
        return self._requests.run_once(self._group_coordinator if of_group else self._coordinator, ask, now_us)

    def _next(self, has_incomplete: bool) -> Callable[[int, int], None] | None:
        """Return the next request to send, None if there is none. Source: nextRequest"""
        if self.state is ProducerState.INITIALIZING:
            return self._ask_producer_id
        if self.has_failed:
            return None
        if self._new_partitions and self.state is not ProducerState.ABORTING:
            return self._add_partitions
        if self._offsets is not None and self.state is not ProducerState.ABORTING:
            return self._commit_offsets if self._group_is_added else self._add_offsets
        if self.is_ending and not has_incomplete:
            return self._end
        return None

    def batch_failed(self, error: ErrorCode, failure: Failure) -> None:
        """Enter an error state because a batch failed. Source: handleFailedBatch, maybeTransitionToErrorState"""
        if error in FATAL:
            self._fail_fatally(error, failure)
        elif self.state is not ProducerState.ABORTING:
            self._needs_epoch = self._needs_epoch or (self.level.asks_for_epochs and not self.is_ending)
            self._fail_abortably(error, failure)

    def sequences_lost(self) -> None:
        """Handle lost sequences: a failed batch may have been written. Source: maybeResolveSequences"""
        if self.state is ProducerState.ABORTING and self.level.survives_gaps:
            self._needs_epoch = self._needs_epoch or self.level.asks_for_epochs
        else:
            self._fail_abortably_or_fatally(ErrorCode.REQUEST_TIMED_OUT, Failure(FailureCause.SEQUENCES_LOST))

    # ------------------------------------------------------------------------------------------------------ requests

    def _not_found(self, coordinator: Coordinator, error: ErrorCode) -> None:
        """Fail after an error of FindCoordinator, unless it is retriable: then the request is repeated.

        Source: FindCoordinatorHandler.handleResponse
        """
        failure = Failure(FailureCause.NO_COORDINATOR, answered=error.name, coordinator_key=coordinator.key)
        if error is ErrorCode.NONE or error in RETRIABLE:
            return
        if error in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTION_ABORTABLE):
            self._fail_abortably(error, failure)
        else:
            self._fail_fatally(error, failure)

    def _ask_producer_id(self, node_id: int, now_us: int) -> None:
        self.level.coordinator_is(node_id)
        known = self._idempotence.producer_id, self._idempotence.producer_epoch
        producer_id, epoch = known if self._needs_epoch else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        values = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": self._timeout_ms,
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }
        self._requests.ask(node_id, INIT_PRODUCER_ID, values, self._producer_id_given, now_us)

    def _producer_id_given(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        if error is ErrorCode.NONE:
            self._idempotence.producer_id_given(int(answer.producer_id), int(answer.producer_epoch))
            if not self._needs_epoch:
                self.level.learn()
            self._needs_epoch = False
            self.state = ProducerState.READY
        else:
            self._refused("InitProducerId", error, now_us)

    def _add_partitions(self, node_id: int, now_us: int) -> None:
        asked = dict(self._new_partitions)
        topics: dict[str, list[int]] = {}
        for name in asked:
            topics.setdefault(name.topic, []).append(name.partition)
        values = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self._idempotence.producer_id,
            "v3_and_below_producer_epoch": self._idempotence.producer_epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()],
        }

        def added(answer: Any, error: ErrorCode, answered_us: int) -> None:
            if error is ErrorCode.NONE:
                error = next((found for found in _errors_in(answer) if found is not ErrorCode.NONE), error)
            if error is ErrorCode.NONE:
                self._partitions.update(asked)
                for name in asked:
                    self._new_partitions.pop(name, None)
            else:
                self._refused("AddPartitionsToTxn", error, answered_us)

        self._requests.ask(node_id, ADD_PARTITIONS_TO_TXN, values, added, now_us)

    def _add_offsets(self, node_id: int, now_us: int) -> None:
        assert self._offsets is not None
        values = {
            "transactional_id": self.transactional_id,
            "producer_id": self._idempotence.producer_id,
            "producer_epoch": self._idempotence.producer_epoch,
            "group_id": self._offsets.group.group_id,
        }

        def added(answer: Any, error: ErrorCode, answered_us: int) -> None:
            if error is ErrorCode.NONE:
                self._group_is_added = self._group_is_part = True
            else:
                self._refused("AddOffsetsToTxn", error, answered_us)

        self._requests.ask(node_id, ADD_OFFSETS_TO_TXN, values, added, now_us)

    def _commit_offsets(self, node_id: int, now_us: int) -> None:
        assert self._offsets is not None
        offsets, group = self._offsets
        topics: dict[str, list[dict[str, object]]] = {}
        for name, offset in offsets.items():
            item = {"partition_index": name.partition, "committed_offset": offset, "committed_metadata": ""}
            topics.setdefault(name.topic, []).append(item)
        values = {
            "transactional_id": self.transactional_id,
            "group_id": group.group_id,
            "producer_id": self._idempotence.producer_id,
            "producer_epoch": self._idempotence.producer_epoch,
            "generation_id": group.generation,
            "member_id": group.member_id,
            "group_instance_id": group.instance_id,
            "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
        }
        self._group_is_part = True
        allowed = self.level.commits_offsets(names_member=group != GroupMetadata(group.group_id))
        self._requests.ask(node_id, TXN_OFFSET_COMMIT, values, self._offsets_answered, now_us, allowed=allowed)

    def _offsets_answered(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        """Handle the response to TxnOffsetCommit. Source: TxnOffsetCommitHandler"""
        if error is ErrorCode.NONE:
            found = (part.error_code for topic in answer.topics for part in topic.partitions)
            error = next((item for item in found if item is not ErrorCode.NONE), error)
        failure = Failure(FailureCause.ERROR, api=api_name(TXN_OFFSET_COMMIT), answered=error.name)
        if error is ErrorCode.NONE:
            self._offsets = None
        elif error in LOOK_AGAIN:
            self._group_coordinator.node_id = None
            self._requests.again(now_us)
        elif error in ASK_AGAIN:
            self._requests.again(now_us)
        elif error in COMMIT_ABORTABLE:
            self._fail_abortably(error, failure)
        else:
            fenced = error is ErrorCode.INVALID_PRODUCER_EPOCH
            self._fail_fatally(ErrorCode.PRODUCER_FENCED if fenced else error, failure)

    def _end(self, node_id: int, now_us: int) -> None:
        if self.error is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            # The coordinator no longer has the id and would refuse EndTxn. source: beginCompletingTransaction
            self._needs_epoch = True
            self._ended()
            return
        if not self._partitions and not self._group_is_part:  # The coordinator has no such transaction.
            self._ended()
            return
        values = {
            "transactional_id": self.transactional_id,
            "producer_id": self._idempotence.producer_id,
            "producer_epoch": self._idempotence.producer_epoch,
            "committed": self.state is ProducerState.COMMITTING,
        }
        self._requests.ask(node_id, END_TXN, values, self._end_answered, now_us, allowed=self.level.ends())

    def _end_answered(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        if error is not ErrorCode.NONE:
            self._refused("EndTxn", error, now_us)
            return
        self._ended()
        if self.level.ends_as_v2:
            self._idempotence.producer_id_given(int(answer.producer_id), int(answer.producer_epoch))
            self._needs_epoch = False
            self.state = ProducerState.READY

    def _ended(self) -> None:
        self.has_committed = self.state is ProducerState.COMMITTING
        self._tell(TransactionEnded, **self._producer, committed=self.has_committed)
        self.state = ProducerState.INITIALIZING if self._needs_epoch else ProducerState.READY
        self._partitions.clear()
        self._new_partitions.clear()
        self._offsets, self._group_is_part = None, False

    @property
    def _producer(self) -> dict[str, int]:
        return {
            "producer_id": self._idempotence.producer_id,
            "producer_epoch": self._idempotence.producer_epoch,
        }

    def _tell(self, event: Callable[..., TransactionEvent], **columns: Any) -> None:
        about = {"client": self._events.client, "transactional_id": self.transactional_id, "number": self._count}
        self._events.emit(event(**about, **columns))

    # -------------------------------------------------------------------------------------------------------- answers

    def _refused(self, api: str, error: ErrorCode, now_us: int) -> None:
        failure = Failure(FailureCause.ERROR, api=api, answered=error.name)
        if error in LOOK_AGAIN:
            self._coordinator.node_id = None
            self._requests.again(now_us)
        elif error in ASK_AGAIN:
            self._requests.again(now_us)
        elif error is ErrorCode.INVALID_PRODUCER_EPOCH:
            self._fail_fatally(ErrorCode.PRODUCER_FENCED, failure)  # Versions before KIP-588 lack PRODUCER_FENCED.
        elif error in ABORTABLE and self.state is not ProducerState.INITIALIZING:
            self._fail_abortably(error, failure)
        elif error in ABORTABLE_WITH_EPOCH and self.state is not ProducerState.INITIALIZING:
            self._fail_abortably_or_fatally(error, failure)
        else:
            self._fail_fatally(error, failure)

    def _fail_abortably(self, error: ErrorCode, failure: Failure) -> None:
        if not self.has_failed:
            self._fail(ProducerState.ABORTABLE_ERROR, error, failure)

    def _fail_abortably_or_fatally(self, error: ErrorCode, failure: Failure) -> None:
        """Fail the transaction, or the producer if it cannot get a new epoch.

        Source: transitionToAbortableErrorOrFatalError
        """
        if not self.level.survives_gaps:
            self._fail_fatally(error, failure)
            return
        self._needs_epoch = self._needs_epoch or self.level.asks_for_epochs
        self._fail_abortably(error, failure)

    def _fail_fatally(self, error: ErrorCode, failure: Failure) -> None:
        if self.state is not ProducerState.FATAL_ERROR:
            self._fail(ProducerState.FATAL_ERROR, error, failure)

    def _fail(self, state: ProducerState, error: ErrorCode, failure: Failure) -> None:
        self.state, self.error, self.failure = state, error, failure
        fatal = state is ProducerState.FATAL_ERROR
        self._tell(TransactionFailed, error=error.name, fatal=fatal, **failure._asdict())


def _errors_in(answer: Any) -> list[ErrorCode]:
    return [
        part.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    ]


# ---------------------------------------------------------------------------------------------------- transaction level
#
# The transaction.version of the cluster decides how a producer makes transactions: as in KIP-98, or (version 2) as in
# the second part of KIP-890.
#
# With version 2, Produce adds a partition to the transaction, EndTxn returns the next epoch, and three requests have
# newer versions. Brokers report the level (api_versions.py); a producer checks it at its start and at each end of a
# transaction.
#
# source: TransactionManager.java (maybeUpdateTransactionV2Enabled, handleCoordinatorReady)


LAST_BEFORE_V2: Final = {PRODUCE: 11, END_TXN: 4, TXN_OFFSET_COMMIT: 4}
"""The last version of each request before transaction.version 2 (LAST_STABLE_VERSION_BEFORE_TRANSACTION_V2)."""
FIRST_WITH_GROUP_METADATA: Final = 3
"""The first version of TxnOffsetCommit with the group member (KIP-447).

Source: TxnOffsetCommitRequest.Builder.build
"""
FIRST_THAT_GIVES_EPOCHS: Final = 3
"""The first version of InitProducerId in which a producer can ask for the next epoch (KIP-360)."""


class TransactionLevel:
    """The transaction.version that a producer uses.

    Attributes:
        is_v2: True if the current transaction, or else the next one, uses transaction.version 2.
        ends_as_v2: True if the transaction that ends, or was the last to end, uses transaction.version 2.
    """

    def __init__(self, versions: ApiVersions) -> None:
        self.is_v2 = self.ends_as_v2 = False
        self._versions = versions
        self._features_epoch = NO_FEATURES_EPOCH
        self._coordinator_gives_epochs = False

    def learn(self) -> None:
        """Apply the cluster's level if a broker has reported a newer one."""
        if self._features_epoch < self._versions.features_epoch:
            self._features_epoch = self._versions.features_epoch
            self.is_v2 = self._versions.features.get(TRANSACTION_VERSION, 0) >= TRANSACTIONS_V2

    def end(self) -> bool:
        """Apply the latest level to the transaction after the one that ends.

        Return True if only the next one uses version 2.

        Source: beginCompletingTransaction
        """
        self.ends_as_v2 = self.is_v2
        self.learn()
        return self.is_v2 and not self.ends_as_v2

    def coordinator_is(self, node_id: int) -> None:
        """Note whether the connected coordinator lets producers ask for the next epoch (KIP-360)."""
        highest = self._versions.of(node_id).highest(INIT_PRODUCER_ID)
        self._coordinator_gives_epochs = highest >= FIRST_THAT_GIVES_EPOCHS

    @property
    def survives_gaps(self) -> bool:
        """True if the producer can get a new epoch after an error and continue. Source: canHandleAbortableError"""
        return self._coordinator_gives_epochs or self.is_v2

    @property
    def asks_for_epochs(self) -> bool:
        """True if the producer must ask for a new epoch by InitProducerId; EndTxn returns one with version 2.

        Source: needToTriggerEpochBumpFromClient
        """
        return self._coordinator_gives_epochs and not self.is_v2

    def produces(self) -> Allowed:
        return self._allowed(PRODUCE, is_v2=self.is_v2)

    def ends(self) -> Allowed:
        return self._allowed(END_TXN, is_v2=self.ends_as_v2)

    def commits_offsets(self, *, names_member: bool) -> Allowed:
        allowed = self._allowed(TXN_OFFSET_COMMIT, is_v2=self.is_v2)
        return allowed._replace(oldest=FIRST_WITH_GROUP_METADATA) if names_member else allowed

    def _allowed(self, api_key: int, *, is_v2: bool) -> Allowed:
        oldest, latest = SPOKEN[api_key]
        return Allowed(oldest, latest if is_v2 else LAST_BEFORE_V2[api_key])
