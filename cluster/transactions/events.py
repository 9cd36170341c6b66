"""A coordinator's trace events about transactions: names made fit to be shown, and a sentence for each event."""

from __future__ import annotations

from collections.abc import Callable

from cluster.transactions.transaction import TransactionMetadata
from cluster.transactions.transaction import TransactionState as State
from replica.errors import ErrorCode
from replica.ids import TRANSACTIONS_TOPIC, LeaderEpoch, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from replica.wording import shown


class TransactionEvents:
    """tell: takes each event"""

    def __init__(self, node: str, tell: Callable[[TraceEvent], None]) -> None:
        self._node = node
        self._tell = tell

    def loaded(self, partition: int, leader_epoch: LeaderEpoch, count: int, unreadable: int) -> None:
        name = TopicPartition(TRANSACTIONS_TOPIC, partition)
        passed_over = f"; {unreadable} records that cannot be read are passed over" if unreadable else ""
        self._tell(
            trace.TransactionsLoaded(
                node=self._node,
                topic=name.topic,
                partition=partition,
                leader_epoch=leader_epoch,
                transactions=count,
                reason=f"{self._node} leads {name} and has read it: it coordinates the transactions that are kept "
                f"there, {count}{passed_over}",
            )
        )

    def unloaded(self, partition: int, count: int) -> None:
        name = TopicPartition(TRANSACTIONS_TOPIC, partition)
        self._tell(
            trace.TransactionsUnloaded(
                node=self._node,
                topic=name.topic,
                partition=partition,
                transactions=count,
                reason=f"{self._node} does not lead {name} any more: the producers of the transactions that are kept "
                "there have to find their coordinator anew",
            )
        )

    def changed(self, transaction: TransactionMetadata, before: State, why: str, *, fences: bool = False) -> None:
        """The new state is on all in-sync replicas."""
        name = shown(transaction.transactional_id)
        self._tell(
            trace.TransactionStateChanged(
                node=self._node,
                transactional_id=name,
                previous_state=before.value,
                state=transaction.state.value,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                partitions=tuple(str(partition) for partition in transaction.partitions),
                fences=fences,
                reason=f"transactional.id {name} is {transaction.state.value} (producer id {transaction.producer_id}, "
                f"epoch {transaction.producer_epoch}): {why}",
            )
        )

    def refused(self, transactional_id: str, api: str, producer_id: int, epoch: int, error: ErrorCode) -> None:
        name = shown(transactional_id)
        self._tell(
            trace.TransactionRefused(
                node=self._node,
                transactional_id=name,
                api=api,
                producer_id=producer_id,
                producer_epoch=epoch,
                error=error.name,
                reason=f"{self._node} refuses {api} of transactional.id {name} (producer id {producer_id}, epoch "
                f"{epoch}): {error.name}",
            )
        )
