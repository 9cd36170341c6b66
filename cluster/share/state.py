"""The state of share partitions in the share coordinator, and its records in `__share_group_state`.

A record with key version 0 is a snapshot of one share partition, or with the value null a tombstone. A record with key
version 1 is an update since the last snapshot. Offsets that no batch covers were never acknowledged, released or
archived.

Source: ShareSnapshotKey.json, ShareSnapshotValue.json, ShareUpdateKey.json, ShareUpdateValue.json,
ShareCoordinatorRecordHelpers.java, PersisterStateBatchCombiner.java
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from struct import Struct
from typing import Any, NamedTuple, Protocol, Self, TypeVar
from uuid import UUID

from cluster.protocol.primitives import (
    INT16,
    INT32,
    decodes,
    length,
    read_count,
    read_tagged,
    read_text,
    read_uuid,
    skip_tagged,
    string,
    tagged,
)
from replica.errors import PeerViolation
from replica.ids import LeaderEpoch, Offset
from replica.log.files.checkpoints import as_kafka_spells

UNINITIALIZED = -1
"""Start offset before the leader has set one; it uses the group's reset policy (share.auto.offset.reset)."""
UNCHANGED = -1
"""Start offset in an update that does not change it."""
NO_COUNT = -1
NO_LEADER_EPOCH = -1
SNAPSHOT_KEY, UPDATE_KEY = 0, 1
VALUE_VERSION = 0
COUNT_TAG = 0
NO_TAGS = b"\0"
_SNAPSHOT = Struct(">hiiiqqq")  # version, snapshot epoch, state epoch, leader epoch, start, created, written
_UPDATE = Struct(">hiiq")  # version, snapshot epoch, leader epoch, start offset
_BATCH = Struct(">qqbh")


class RecordState(IntEnum):
    """The delivery state of a record in a share group. An ARCHIVED record is no longer delivered, but not accepted.

    An ARCHIVING record is ARCHIVED once the attempt to write it to the group's dead letter queue is over (4.4).
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class StateBatch(NamedTuple):
    """The delivery state and count of the records [first, last], which are equal for all of them."""

    first: Offset
    last: Offset
    state: RecordState
    delivery_count: int


class ShareKey(NamedTuple):
    """Identifies a share partition: a topic partition as one share group reads it."""

    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """Return the key in FindCoordinator, by which its share coordinator is found. Source: SharePartitionKey"""
        return f"{self.group_id}:{as_kafka_spells(self.topic_id)}:{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """The state of one share partition.

    Attributes:
        snapshot_epoch: number of the last snapshot.
        state_epoch: raised when the group's offsets are altered.
        leader_epoch: epoch of the leader that last read the state; requests of older leaders are fenced.
        delivery_complete: number of records at or above the start offset that are acknowledged or archived.
        updates: number of update records since the last snapshot.
    """

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: LeaderEpoch = 0
    start_offset: Offset = UNINITIALIZED
    delivery_complete: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0
    updates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    """A change of a share partition's state, written as an update record."""

    snapshot_epoch: int
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete: int
    batches: tuple[StateBatch, ...]

    def applied_to(self, state: ShareState) -> ShareState:
        """Return `state` after this update. Source: ShareCoordinatorShard.merge"""
        start = state.start_offset if self.start_offset == UNCHANGED else self.start_offset
        return replace(
            state,
            leader_epoch=state.leader_epoch if self.leader_epoch == NO_LEADER_EPOCH else self.leader_epoch,
            start_offset=start,
            delivery_complete=self.delivery_complete,
            batches=combined(state.batches, self.batches, start),
            updates=state.updates + 1,
        )


def combined(known: Sequence[StateBatch], new: Sequence[StateBatch], start: Offset) -> tuple[StateBatch, ...]:
    """Merge batches, without offsets below `start`.

    Where batches overlap, the highest (delivery count, state) counts.

    Source: PersisterStateBatchCombiner
    """
    pieces = sorted(item._replace(first=max(item.first, start)) for item in (*known, *new) if item.last >= start)
    cuts = sorted({piece.first for piece in pieces} | {piece.last + 1 for piece in pieces})
    merged: list[StateBatch] = []
    covering: list[StateBatch] = []
    begun = 0
    for low, high in pairwise(cuts):
        while begun < len(pieces) and pieces[begun].first == low:
            covering.append(pieces[begun])
            begun += 1
        covering = [item for item in covering if item.last >= low]
        if covering:
            best = max(covering, key=lambda item: (item.delivery_count, item.state))
            merged.append(best._replace(first=low, last=high - 1))
    return joined(merged)


class Records(Protocol):
    """A named tuple whose first fields are `first` and `last`, the offsets of a range of records."""

    @property
    def first(self) -> Offset: ...

    @property
    def last(self) -> Offset: ...

    def __getitem__(self, fields: slice, /) -> tuple[object, ...]: ...

    def _replace(self, *, last: Offset) -> Self: ...


R = TypeVar("R", bound=Records)


def joined(ranges: Iterable[R]) -> tuple[R, ...]:
    """Join adjacent ranges whose other fields are equal; `ranges` must be in offset order."""
    found: list[R] = []
    for item in ranges:
        if found and found[-1].last + 1 == item.first and found[-1][2:] == item[2:]:
            found[-1] = found[-1]._replace(last=item.last)
        else:
            found.append(item)
    return tuple(found)


# ------------------------------------------------------------------------------------------------------------- records


def encode(key: ShareKey, change: ShareState | ShareUpdate | None) -> tuple[bytes, bytes | None]:
    """Return (key, value) of the record of a snapshot (ShareState), an update, or a tombstone (None)."""
    version = UPDATE_KEY if isinstance(change, ShareUpdate) else SNAPSHOT_KEY
    written = INT16.pack(version) + string(key.group_id, False) + key.topic_id.bytes + INT32.pack(key.partition)
    if change is None:
        return written, None
    if isinstance(change, ShareUpdate):
        head = _UPDATE.pack(VALUE_VERSION, change.snapshot_epoch, change.leader_epoch, change.start_offset)
    else:
        head = _SNAPSHOT.pack(
            VALUE_VERSION,
            change.snapshot_epoch,
            change.state_epoch,
            change.leader_epoch,
            change.start_offset,
            change.created_ms,
            change.written_ms,
        )
    batches = b"".join(_BATCH.pack(*batch) + NO_TAGS for batch in change.batches)
    count = change.delivery_complete
    tags = NO_TAGS if count == NO_COUNT else tagged({COUNT_TAG: INT32.pack(count)})
    return written, head + length(len(change.batches), True) + batches + tags


class ShareReplay:
    """Rebuilds the states of share partitions from the records of a log, in offset order.

    Attributes:
        unreadable: number of skipped records, which are damaged or have an unknown version.
    """

    def __init__(self) -> None:
        self.states: dict[ShareKey, ShareState] = {}
        self.unreadable = 0

    def record(self, key: bytes | None, value: bytes | None) -> None:
        try:
            self._take(key or b"", value)
        except PeerViolation:
            self.unreadable += 1

    def _take(self, key: bytes, value: bytes | None) -> None:
        version, whose = _read_key(key)
        if value is None:
            self.states.pop(whose, None)
        elif version == SNAPSHOT_KEY:
            self.states[whose] = _read_snapshot(value)
        elif whose in self.states:
            self.states[whose] = _read_update(value).applied_to(self.states[whose])


@decodes("the key of a share partition's record")
def _read_key(key: bytes) -> tuple[int, ShareKey]:
    (version,) = INT16.unpack_from(key, 0)
    if version not in (SNAPSHOT_KEY, UPDATE_KEY):
        raise PeerViolation(f"version {version} of a share partition's key is not supported")
    group_id, position = read_text(key, 2, False)
    topic_id, position = read_uuid(key, position)
    return version, ShareKey(group_id, topic_id, INT32.unpack_from(key, position)[0])


@decodes("the snapshot of a share partition")
def _read_snapshot(value: bytes) -> ShareState:
    version, snapshot_epoch, state_epoch, leader_epoch, start, created_ms, written_ms = _SNAPSHOT.unpack_from(value, 0)
    _check_version(version)
    batches, count = _read_batches(value, _SNAPSHOT.size)
    return ShareState(
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        delivery_complete=count,
        batches=batches,
        created_ms=created_ms,
        written_ms=written_ms,
    )


@decodes("the update of a share partition")
def _read_update(value: bytes) -> ShareUpdate:
    version, snapshot_epoch, leader_epoch, start = _UPDATE.unpack_from(value, 0)
    _check_version(version)
    batches, count = _read_batches(value, _UPDATE.size)
    return ShareUpdate(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        delivery_complete=count,
        batches=batches,
    )


def _check_version(version: int) -> None:
    if version != VALUE_VERSION:
        raise PeerViolation(f"version {version} of a share partition's record is not supported")


def _read_batches(value: bytes, position: int) -> tuple[tuple[StateBatch, ...], int]:
    count, position = read_count(value, position, True, _BATCH.size + 1)
    batches = []
    for _ in range(count):
        first, last, state, delivery_count = _BATCH.unpack_from(value, position)
        batches.append(StateBatch(first, last, state_of(state), delivery_count))
        position = skip_tagged(value, position + _BATCH.size)
    tags, _ = read_tagged(value, position)
    said = tags.get(COUNT_TAG)
    return tuple(batches), NO_COUNT if said is None else INT32.unpack_from(said, 0)[0]


def batches_from(sent: Iterable[Any]) -> tuple[StateBatch, ...]:
    """Return the batches in the field `state_batches` of a message.

    Raises:
        PeerViolation: if a state is unknown.
    """
    return tuple(
        StateBatch(item.first_offset, item.last_offset, state_of(item.delivery_state), item.delivery_count)
        for item in sent
    )


def batches_to_send(batches: Iterable[StateBatch]) -> list[dict[str, int]]:
    """Return the field `state_batches` of a message with these batches."""
    return [
        {
            "first_offset": batch.first,
            "last_offset": batch.last,
            "delivery_state": int(batch.state),
            "delivery_count": batch.delivery_count,
        }
        for batch in batches
    ]


def state_of(number: int) -> RecordState:
    """Return the delivery state with this number.

    Raises:
        PeerViolation: if no state has this number.
    """
    try:
        return RecordState(number)
    except ValueError:
        raise PeerViolation(f"a share partition has the unknown record state {number}") from None
