"""The inputs and actions of `TransactionCoordinator.step`.

Those shared with other coordinators are in cluster/coordinators/core.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cluster.coordinators.core import RequestId
from cluster.transactions.transaction import TransactionMetadata
from replica.errors import ErrorCode
from replica.ids import LeaderEpoch, TopicPartition
from replica.log.batches.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int


# ------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """An InitProducerId request. `expected` is the producer's current id and epoch, if it has any (KIP-360)."""

    now_us: int
    request: RequestId
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """An AddPartitionsToTxn request.

    Attributes:
        verify_only: True to only check that the partitions are in the transaction (KIP-890).
        version: transaction.version that belongs to the version of the request.
    """

    now_us: int
    request: RequestId
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verify_only: bool
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxn:
    """An EndTxn request. `version` is the transaction.version that belongs to the version of the request."""

    now_us: int
    request: RequestId
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdGiven:
    """The answer to `AskProducerId`; the id is None if none is available now."""

    now_us: int
    ticket: int
    producer_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersAnswered:
    """The leaders' answers to some markers of `SendMarkers`; None for a deleted partition."""

    now_us: int
    transactional_id: str
    coordinator_epoch: LeaderEpoch
    errors: Mapping[TopicPartition, ErrorCode | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoaded:
    """The contents of a partition's log, with transactional ids in the order of their first records.

    Attributes:
        unreadable: number of records that were skipped.
    """

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch
    transactions: tuple[TransactionMetadata, ...]
    unreadable: int = 0


TransactionInput = InitProducerId | AddPartitions | EndTxn | ProducerIdGiven | MarkersAnswered | PartitionLoaded

# ------------------------------------------------------------------------------------------------------------ results


class InitResult(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class AddResult(NamedTuple):
    errors: dict[TopicPartition, ErrorCode]


class EndResult(NamedTuple):
    """The result of EndTxn, with the producer's id and epoch for its next transaction."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


TransactionResult = InitResult | AddResult | EndResult

# ------------------------------------------------------------------------------------------------------------ actions


@dataclass(frozen=True, slots=True)
class AskProducerId:
    """Request a producer id; `ProducerIdGiven` follows."""

    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """Send markers to the leaders of these partitions; `MarkersAnswered` follows, once or in parts.

    Attributes:
        version: transaction.version of the transaction.
        again: True if a leader has refused the markers before.
    """

    transactional_id: str
    coordinator_epoch: LeaderEpoch
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    version: int = 0
    again: bool = False


TransactionAction = AskProducerId | SendMarkers
"""Actions of transaction coordinators only."""
