"""The records of the transactions topic, in Kafka's formats.

The key is a transactional.id. The value has version 0, or from transaction.version 1 on the flexible version 1. A null
value is a tombstone.

Source: TransactionLog.scala, TransactionLogKey.json, TransactionLogValue.json
"""

from __future__ import annotations

from cluster.protocol.primitives import (
    INT8,
    INT16,
    INT32,
    INT64,
    decodes,
    length,
    read_count,
    read_tagged,
    read_text,
    string,
    tagged,
)
from cluster.transactions.transaction import TransactionMetadata, Transit
from cluster.transactions.transaction import TransactionState as State
from replica.errors import PeerViolation
from replica.ids import TopicPartition

KEY_VERSION = 0
FLEXIBLE_VALUE = 1
_STATES = list(State)
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_VERSION = 0, 1, 2
"""Tags of the tagged fields in value version 1."""

# ------------------------------------------------------------------------------------------------------------- writing


def transaction_key(transactional_id: str) -> bytes:
    return INT16.pack(KEY_VERSION) + string(transactional_id, False)


def transaction_value(transit: Transit, version: int) -> bytes:
    """Encode a transition as a value of this version.

    The previous and next producer ids are not written; Kafka writes them only after 4.1 (KAFKA-20310).
    """
    flexible = version >= FLEXIBLE_VALUE
    parts = [
        INT16.pack(version),
        INT64.pack(transit.producer_id),
        INT16.pack(transit.producer_epoch),
        INT32.pack(transit.timeout_ms),
        INT8.pack(_STATES.index(transit.state)),
        _partitions(transit, flexible),
        INT64.pack(transit.updated_ms),
        INT64.pack(transit.started_ms),
    ]
    if flexible:
        parts.append(tagged({_CLIENT_VERSION: INT16.pack(transit.version)} if transit.version else {}))
    return b"".join(parts)


def _partitions(transit: Transit, flexible: bool) -> bytes:
    if transit.state is State.EMPTY:
        return length(-1, flexible)
    topics: dict[str, list[int]] = {}
    for name in transit.partitions:
        topics.setdefault(name.topic, []).append(name.partition)
    parts = [length(len(topics), flexible)]
    for topic, numbers in topics.items():
        parts += [string(topic, flexible), length(len(numbers), flexible), *map(INT32.pack, numbers)]
        if flexible:
            parts.append(tagged({}))
    return b"".join(parts)


# ------------------------------------------------------------------------------------------------------------- reading


@decodes("the key of a transaction's record")
def read_transaction_key(key: bytes) -> str | None:
    """Decode a key to a transactional id; return None for an unknown version.

    Raises:
        PeerViolation: if the key is malformed.
    """
    (version,) = INT16.unpack_from(key, 0)
    return read_text(key, 2, False)[0] if version == KEY_VERSION else None


@decodes("a transaction's record")
def read_transaction_value(transactional_id: str, value: bytes) -> TransactionMetadata:
    """Decode the state of a transactional id.

    Raises:
        PeerViolation: if the record is malformed.
    """
    (version,) = INT16.unpack_from(value, 0)
    if not 0 <= version <= FLEXIBLE_VALUE:
        raise PeerViolation(f"version {version} of a transaction record is not supported")
    flexible = version >= FLEXIBLE_VALUE
    (producer_id,) = INT64.unpack_from(value, 2)
    (producer_epoch,) = INT16.unpack_from(value, 10)
    (timeout_ms,) = INT32.unpack_from(value, 12)
    (state,) = INT8.unpack_from(value, 16)
    if not 0 <= state < len(_STATES):
        raise PeerViolation(f"a transaction record has the unknown state {state}")
    partitions, position = _read_partitions(value, 17, flexible)
    (updated_ms,) = INT64.unpack_from(value, position)
    (started_ms,) = INT64.unpack_from(value, position + 8)
    transaction = TransactionMetadata(transactional_id, producer_id, timeout_ms, updated_ms)
    transaction.producer_epoch, transaction.state = producer_epoch, _STATES[state]
    transaction.started_ms = started_ms
    transaction.partitions = dict.fromkeys(partitions)
    if flexible:
        tags = read_tagged(value, position + 16)[0]
        if _PREVIOUS_PRODUCER_ID in tags:
            (transaction.previous_producer_id,) = INT64.unpack(tags[_PREVIOUS_PRODUCER_ID])
        if _NEXT_PRODUCER_ID in tags:
            (transaction.next_producer_id,) = INT64.unpack(tags[_NEXT_PRODUCER_ID])
        if _CLIENT_VERSION in tags:
            (transaction.version,) = INT16.unpack(tags[_CLIENT_VERSION])
    return transaction


def _read_partitions(value: bytes, position: int, flexible: bool) -> tuple[list[TopicPartition], int]:
    partitions: list[TopicPartition] = []
    topics, position = read_count(value, position, flexible, 2, nullable=True)
    for _ in range(max(topics, 0)):
        topic, position = read_text(value, position, flexible)
        numbers, position = read_count(value, position, flexible, 4)
        for _ in range(numbers):
            partitions.append(TopicPartition(topic, INT32.unpack_from(value, position)[0]))
            position += 4
        if flexible:
            position = read_tagged(value, position)[1]
    return partitions, position


# -------------------------------------------------------------------------------------------------------------- loading
#
# Loading of transactional ids from the log of one partition of the transactions topic.
#
# source: TransactionStateManager.loadTransactionMetadata


class TransactionReplay:
    """Builds the states of transactional ids from records in the order of the log; unreadable records are skipped.

    Attributes:
        unreadable: number of records that were skipped because they are damaged or of an unknown version.
    """

    def __init__(self) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        self.unreadable = 0

    def record(self, key: bytes | None, value: bytes | None) -> None:
        try:
            transactional_id = read_transaction_key(b"" if key is None else key)
            if transactional_id is None:
                self.unreadable += 1
            elif value is None:
                self.transactions.pop(transactional_id, None)
            else:
                self.transactions[transactional_id] = read_transaction_value(transactional_id, value)
        except PeerViolation:
            self.unreadable += 1
