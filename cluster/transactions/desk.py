"""State that the parts of a transaction coordinator share: settings, deadlines, what it keeps, and the actions they
want done. source: TransactionStateManager.scala"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.clocks import Timers, WallClock
from cluster.coordinators.waiting import RequestId
from cluster.protocol.versions import api_name
from cluster.transactions.inputs import AnswerProducer, TransactionAction, TransactionResult, WriteId, WriteRecord
from cluster.transactions.records import FLEXIBLE_VALUE, transaction_key, transaction_value
from cluster.transactions.transaction import BUMPS_EPOCH, TransactionMetadata, TransactionState, Transit
from replica.causes import TransactionCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import LeaderEpoch
from replica.trace.events import Emit, TraceEvent, TransactionRefused, TransactionStateChanged
from replica.wording import shown

OnWritten = Callable[[ErrorCode, int], None]
"""(error, now_us)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """source: TransactionStateManagerConfig. version: transaction.version of the cluster

    knows_v2: the brokers are of Kafka 4.0 or later, whatever the level of transaction.version
    """

    max_timeout_ms: int = 900_000
    expiration_ms: int = 7 * 24 * 3600 * 1000
    abort_check_interval_ms: int = 10_000
    expiration_check_interval_ms: int = 3_600_000
    request_timeout_ms: int = 30_000
    version: int = 0
    knows_v2: bool = False

    @property
    def value_version(self) -> int:
        """Of the records."""
        return FLEXIBLE_VALUE if self.version >= 1 else 0


WRITE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The answer to a producer whose request could not be written. source: appendTransactionToLog"""


class TransactionDesk:
    """owned: by partition of the topic that this broker leads and has read, in order: its leader epoch, which is the
    coordinator epoch of what is kept there     kept: the transactional ids of all of them     loading: as owned

    partition_of: where a transactional id is kept
    """

    def __init__(
        self, *, node: str, settings: TransactionSettings, clock: WallClock, partition_of: Callable[[str], int]
    ) -> None:
        self.settings = settings
        self.partition_of = partition_of
        self.timers: Timers[TransactionAction] = Timers()
        self.owned: dict[int, LeaderEpoch] = {}
        self.loading: dict[int, LeaderEpoch] = {}
        self.kept: dict[str, TransactionMetadata] = {}
        self.node = node
        self._clock = clock
        self._actions: list[TransactionAction] = []
        self._writes: dict[WriteId, OnWritten] = {}
        self._last_write = 0

    def wall_ms(self, now_us: int) -> int:
        return self._clock.at(now_us) // 1000

    def answer(self, request: RequestId, result: TransactionResult) -> None:
        self._actions.append(AnswerProducer(request, result))

    def tell(self, event: TraceEvent) -> None:
        self._actions.append(Emit(event))

    def want(self, action: TransactionAction) -> None:
        self._actions.append(action)

    def take(self) -> list[TransactionAction]:
        actions, self._actions = self._actions, []
        return actions

    # ---------------------------------------------------------------------------------------------------------- lookup

    def status(self, transactional_id: str) -> ErrorCode:
        """Whether this broker can speak for it."""
        partition = self.partition_of(transactional_id)
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self.owned else ErrorCode.NOT_COORDINATOR

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """raises: KafkaError, where another broker coordinates it. source: getTransactionState"""
        error = self.status(transactional_id)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        return self.kept.get(transactional_id)

    def epoch_of(self, transactional_id: str) -> LeaderEpoch:
        """Coordinator epoch of an id that is kept here; -1 once it is not."""
        return self.owned.get(self.partition_of(transactional_id), -1)

    # --------------------------------------------------------------------------------------------------------- writing

    def write(
        self,
        transaction: TransactionMetadata,
        transit: Transit,
        why: TransactionCause,
        done: OnWritten,
        now_us: int,
        *,
        keeps_pending: tuple[ErrorCode, ...] = (),
        fences: bool = False,
    ) -> None:
        """Append what it is to become; once all in-sync replicas have it, it is that. source: appendTransactionToLog

        keeps_pending: at these errors the caller writes it once more, so nothing else may begin
        """
        transactional_id = transaction.transactional_id
        if transit.version and self.settings.value_version < FLEXIBLE_VALUE:
            # A request of transaction.version 2 where the cluster has 0, for which the record has no field: Kafka fails
            # here with the change pending, and the id is of no use until another broker coordinates it.
            done(ErrorCode.UNSUPPORTED_VERSION, now_us)
            return

        def written(error: ErrorCode, written_us: int) -> None:
            found = WRITE_ERRORS.get(error, error)
            is_kept = self.kept.get(transactional_id) is transaction  # Each election reads others.
            if found is ErrorCode.NONE and not is_kept:
                status = self.status(transactional_id)
                found = ErrorCode.NOT_COORDINATOR if status is ErrorCode.NONE else status
            elif found is ErrorCode.NONE:
                before, known = transaction.state, transaction.partitions
                added = tuple(str(partition) for partition in transit.partitions if partition not in known)
                transaction.complete(transit)
                self._tell_changed(transaction, before, why, added, fences=fences)
            elif found not in keeps_pending:
                transaction.pending = None
            done(found, written_us)

        value = transaction_value(transit, self.settings.value_version)
        self._append(transactional_id, value, transit.timeout_ms, written, now_us)

    def bury(self, transaction: TransactionMetadata, transit: Transit, now_us: int) -> None:
        """A tombstone for an id that was not used for long; then it is forgotten."""
        transactional_id = transaction.transactional_id

        def written(error: ErrorCode, written_us: int) -> None:
            if self.kept.get(transactional_id) is not transaction:
                return
            if error is ErrorCode.NONE:
                before, transaction.state, transaction.pending = transaction.state, transit.state, None
                del self.kept[transactional_id]
                self._tell_changed(transaction, before, TransactionCause.EXPIRED)
            else:
                transaction.pending = None

        self._append(transactional_id, None, self.settings.request_timeout_ms, written, now_us)

    def _tell_changed(
        self,
        transaction: TransactionMetadata,
        before: TransactionState,
        why: TransactionCause,
        added: tuple[str, ...] = (),
        *,
        fences: bool = False,
    ) -> None:
        """The new state is on all in-sync replicas."""
        self.tell(
            TransactionStateChanged(
                node=self.node,
                transactional_id=shown(transaction.transactional_id),
                previous_state=before.value,
                state=transaction.state.value,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                partitions=tuple(str(partition) for partition in transaction.partitions),
                fences=fences,
                cause=why,
                added=added,
                timeout_ms=transaction.timeout_ms,
            )
        )

    def tell_refused(self, transactional_id: str, api: int, producer_id: int, epoch: int, error: ErrorCode) -> None:
        self.tell(
            TransactionRefused(
                node=self.node,
                transactional_id=shown(transactional_id),
                api=api_name(api),
                producer_id=producer_id,
                producer_epoch=epoch,
                error=error.name,
            )
        )

    def _append(
        self, transactional_id: str, value: bytes | None, timeout_ms: int, written: OnWritten, now_us: int
    ) -> None:
        self._last_write += 1
        self._writes[self._last_write] = written
        self._actions.append(
            WriteRecord(
                partition=self.partition_of(transactional_id),
                key=transaction_key(transactional_id),
                value=value,
                timestamp_ms=self.wall_ms(now_us),
                timeout_ms=timeout_ms,
                write=self._last_write,
            )
        )

    def written(self, write: WriteId, error: ErrorCode, now_us: int) -> None:
        self._writes.pop(write)(error, now_us)

    @property
    def bumps_epochs(self) -> bool:
        """Whether the end itself raises the epoch where the coordinator ends a transaction."""
        return self.settings.version >= BUMPS_EPOCH
