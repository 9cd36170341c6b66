"""The inputs that `TransactionCoordinator.step` takes, and the actions that it returns.

Inputs and actions that other coordinators share are in cluster/coordinators/core.py.
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
    """An InitProducerId request. `expected` is the producer's own id and epoch, None if it has none yet (KIP-360)."""

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
        version: transaction.version that the version of the request implies.
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
    """An EndTxn request. `version` is the transaction.version that the version of the request implies."""

    now_us: int
    request: RequestId
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdGiven:
    """The result of an `AskProducerId` action; `producer_id` is None if no id is available now."""

    now_us: int
    ticket: int
    producer_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersAnswered:
    """The results of some markers of a `SendMarkers` action, by partition; None for a deleted partition."""

    now_us: int
    transactional_id: str
    coordinator_epoch: LeaderEpoch
    errors: Mapping[TopicPartition, ErrorCode | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoaded:
    """The transactional ids in the log of a partition, in the order of their first records.

    Attributes:
        unreadable: number of records that were skipped because they are damaged or of an unknown version.
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
    """Request a new producer id; `ProducerIdGiven` with the same ticket follows."""

    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """Send a transaction's markers to the leaders of these partitions; one or more `MarkersAnswered` follow.

    Attributes:
        version: transaction.version of the transaction.
        again: True if these markers have failed before and are sent after a delay.
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
"""The actions that only transaction coordinators have."""
