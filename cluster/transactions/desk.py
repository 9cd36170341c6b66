"""The state that the parts of a transaction coordinator share, with its settings and transactional ids.

Source: TransactionStateManager.scala
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.clocks import WallClock
from cluster.coordinators.core import CHANGE_ERRORS, Desk, LedPartitions, OnWritten
from cluster.protocol.versions import api_name
from cluster.transactions.inputs import AskProducerId, ProducerIdGiven, TransactionAction, TransactionResult
from cluster.transactions.records import FLEXIBLE_VALUE, transaction_key, transaction_value
from cluster.transactions.transaction import BUMPS_EPOCH, TransactionMetadata, TransactionState, Transit
from replica.causes import TransactionCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import LeaderEpoch, Offset
from replica.trace.events import TransactionRefused, TransactionStateChanged
from replica.wording import shown

OnChanged = Callable[[ErrorCode, int], None]
"""A callback with (error, now_us)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Settings of a transaction coordinator. Source: TransactionStateManagerConfig

    Attributes:
        version: transaction.version of the cluster.
        knows_v2: True for brokers of Kafka 4.0 or later, which support transaction.version 2, even if it is lower.
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
        """The version of record values."""
        return FLEXIBLE_VALUE if self.version >= 1 else 0


class TransactionDesk(Desk[TransactionAction, TransactionResult], LedPartitions):
    """The shared state of a transaction coordinator.

    The leader epoch of a partition is the coordinator epoch of its transactional ids.

    Attributes:
        kept: state by transactional id, for the partitions that this broker leads.
    """

    def __init__(
        self, *, node: str, settings: TransactionSettings, clock: WallClock, partition_of: Callable[[str], int]
    ) -> None:
        Desk.__init__(self, node, clock)
        LedPartitions.__init__(self, partition_of)
        self.settings = settings
        self.kept: dict[str, TransactionMetadata] = {}

    # ---------------------------------------------------------------------------------------------------------- lookup

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the state of a transactional id, None if the id is unknown. Source: getTransactionState

        Raises:
            KafkaError: if another broker coordinates the id.
        """
        error = self.status(transactional_id)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        return self.kept.get(transactional_id)

    def epoch_of(self, transactional_id: str) -> LeaderEpoch:
        """Return the coordinator epoch of a transactional id; -1 if this broker does not coordinate it."""
        return self.owned.get(self.partition_of(transactional_id), -1)

    # --------------------------------------------------------------------------------------------------------- writing

    def write(
        self,
        transaction: TransactionMetadata,
        transit: Transit,
        why: TransactionCause,
        done: OnChanged,
        now_us: int,
        *,
        keeps_pending: tuple[ErrorCode, ...] = (),
        fences: bool = False,
    ) -> None:
        """Append a transition, and apply it once all in-sync replicas have it. Source: appendTransactionToLog

        Args:
            done: called when the transition is applied or has failed.
            keeps_pending: errors after which the transition stays pending, because the caller retries.
            fences: True if the coordinator itself ends the transaction; only for the event.
        """
        transactional_id = transaction.transactional_id
        if transit.version and self.settings.value_version < FLEXIBLE_VALUE:
            # The request has transaction.version 2, for which value version 0 has no field. Kafka fails here and leaves
            # the transition pending, so the id cannot be used until another broker coordinates it.
            done(ErrorCode.UNSUPPORTED_VERSION, now_us)
            return

        def written(error: ErrorCode, offset: Offset, written_us: int) -> None:
            found = CHANGE_ERRORS.get(error, error)
            is_kept = self.kept.get(transactional_id) is transaction  # Each election loads new objects.
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
        self._write_value(transactional_id, value, transit.timeout_ms, written, now_us)

    def bury(self, transaction: TransactionMetadata, transit: Transit, now_us: int) -> None:
        """Delete an unused transactional id: write a tombstone, then drop the state."""
        transactional_id = transaction.transactional_id

        def written(error: ErrorCode, offset: Offset, written_us: int) -> None:
            if self.kept.get(transactional_id) is not transaction:
                return
            if error is ErrorCode.NONE:
                before, transaction.state, transaction.pending = transaction.state, transit.state, None
                del self.kept[transactional_id]
                self._tell_changed(transaction, before, TransactionCause.EXPIRED)
            else:
                transaction.pending = None

        self._write_value(transactional_id, None, self.settings.request_timeout_ms, written, now_us)

    def _tell_changed(
        self,
        transaction: TransactionMetadata,
        before: TransactionState,
        why: TransactionCause,
        added: tuple[str, ...] = (),
        *,
        fences: bool = False,
    ) -> None:
        """Emit the event of a new state, which all in-sync replicas now have."""
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

    def _write_value(
        self, transactional_id: str, value: bytes | None, timeout_ms: int, written: OnWritten, now_us: int
    ) -> None:
        records = ((transaction_key(transactional_id), value),)
        self.append(self.partition_of(transactional_id), records, written, now_us, timeout_ms=timeout_ms)

    @property
    def bumps_epochs(self) -> bool:
        """True if the end of a transaction raises the epoch when the coordinator itself ends it."""
        return self.settings.version >= BUMPS_EPOCH


# --------------------------------------------------------------------------------------------------------- producer ids
#
# New producer ids for transactional ids. The broker provides them; it gets blocks of ids from the controller.


Taken = Callable[[int | None, int], None]
"""A callback with (producer id or None if none is available, now_us)."""


class NewProducerIds:
    def __init__(self, desk: TransactionDesk) -> None:
        self._desk = desk
        self._waiting: dict[int, Taken] = {}
        self._last_ticket = 0

    def ask(self, taken: Taken, now_us: int) -> None:
        self._last_ticket += 1
        self._waiting[self._last_ticket] = taken
        self._desk.want(AskProducerId(self._last_ticket))

    def given(self, event: ProducerIdGiven) -> None:
        self._waiting.pop(event.ticket)(event.producer_id, event.now_us)
