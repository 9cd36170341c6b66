"""The inputs of a transaction coordinator and its actions: the vocabulary of `TransactionCoordinator.step`.

Inputs carry the time in integer microseconds. A request waits under its `request` number until an `AnswerProducer`
names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cluster.coordinators.waiting import RequestId
from cluster.transactions.transaction import TransactionMetadata
from replica.errors import ErrorCode
from replica.ids import LeaderEpoch, TopicPartition
from replica.log.batches.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from replica.trace.events import Emit

WriteId = int


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int


# ------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """expected: what the producer has already, if it has any (KIP-360)"""

    now_us: int
    request: RequestId
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """verify_only: whether they are in the transaction is all that is asked (KIP-890)

    version: transaction.version that the version of the request stands for
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
    """version: transaction.version that the version of the request stands for, by which it is judged"""

    now_us: int
    request: RequestId
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdGiven:
    """The answer to `AskProducerId`; None: there is none at the moment."""

    now_us: int
    ticket: int
    producer_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersAnswered:
    """The leaders' answers about some of the markers of `SendMarkers`; None: the partition is gone"""

    now_us: int
    transactional_id: str
    coordinator_epoch: LeaderEpoch
    errors: Mapping[TopicPartition, ErrorCode | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorElected:
    """This broker leads a partition of the topic of transactions, and so coordinates what is kept there."""

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoaded:
    """The contents of the partition's log, in the order in which it first names them.

    unreadable: records that were passed over
    """

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch
    transactions: tuple[TransactionMetadata, ...]
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorResigned:
    """leader_epoch: of the current leader; None: the partition is gone"""

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWritten:
    """An `WriteRecord` came to its end."""

    now_us: int
    write: WriteId
    error: ErrorCode


TransactionInput = (
    InitProducerId
    | AddPartitions
    | EndTxn
    | ProducerIdGiven
    | MarkersAnswered
    | CoordinatorElected
    | PartitionLoaded
    | CoordinatorResigned
    | RecordWritten
)

# ------------------------------------------------------------------------------------------------------------ results


class InitResult(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class AddResult(NamedTuple):
    errors: dict[TopicPartition, ErrorCode]


class EndResult(NamedTuple):
    """The producer's id and epoch for its next transaction."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


TransactionResult = InitResult | AddResult | EndResult

# ------------------------------------------------------------------------------------------------------------ actions


@dataclass(frozen=True, slots=True)
class AnswerProducer:
    request: RequestId
    result: TransactionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRecord:
    """Append one record to a partition of the topic of transactions; a value None is a tombstone. `RecordWritten` is to
    follow when every in-sync replica has it, or the time is over."""

    partition: int
    key: bytes
    value: bytes | None
    timestamp_ms: int
    timeout_ms: int
    write: WriteId


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPartition:
    """Read a partition of the topic of transactions; `PartitionLoaded` is to follow."""

    partition: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class AskProducerId:
    """`ProducerIdGiven` is to follow."""

    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """To the leader of each of these partitions; `MarkersAnswered` is to follow, once or in parts.

    again: a leader has refused them before
    """

    transactional_id: str
    coordinator_epoch: LeaderEpoch
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    again: bool = False


TransactionAction = AnswerProducer | WriteRecord | LoadPartition | AskProducerId | SendMarkers | Emit
