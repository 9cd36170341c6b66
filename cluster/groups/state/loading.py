"""Loading of groups from the log of one partition of the offsets topic.

Source: GroupMetadataManager.doLoadGroupsAndOffsets
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_records import (
    CONSUMER_KEYS,
    ConsumerRecord,
    GroupEpochRecord,
    read_consumer_key,
    read_consumer_record,
)
from cluster.groups.state.group import Group
from cluster.groups.state.offsets import CommittedOffset, GroupOffsets, TransactionalOffset
from cluster.groups.state.records import GroupKey, OffsetKey, UnknownKey, read_group_value, read_key, read_offset_value
from cluster.groups.state.share_group import SHARE_KEYS, ShareGroup, read_share_record
from cluster.groups.state.streams_group import STREAMS_KEYS, StreamsGroup, read_streams_record
from replica.errors import PeerViolation
from replica.ids import Offset, TopicPartition
from replica.log.batches.records import NO_PRODUCER_ID

G = TypeVar("G", bound=ConsumerGroup)
Transactional = dict[int, dict[TopicPartition, TransactionalOffset]]


class Replay:
    """Builds groups and their offsets from records in the order of the log; unreadable records are skipped.

    Attributes:
        unreadable: number of records that were skipped because they are damaged or of an unknown version.
    """

    def __init__(self) -> None:
        self.unreadable = 0
        self._groups: dict[str, Group] = {}
        self._consumer_groups: dict[str, ConsumerGroup] = {}
        self.share_groups: dict[str, ShareGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._transactional: dict[str, Transactional] = {}

    def record(
        self, batch_offset: Offset, key: bytes | None, value: bytes | None, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Apply a record.

        Args:
            batch_offset: offset of the record's batch.
            producer_id: producer of the record's transaction, NO_PRODUCER_ID outside of transactions.
        """
        try:
            self._take(batch_offset, b"" if key is None else key, value, producer_id)
        except PeerViolation:
            self.unreadable += 1

    def marker(self, producer_id: int, *, committed: bool) -> None:
        """Apply the marker that ends a producer's transaction."""
        for group_id, of_group in self._transactional.items():
            ended = GroupOffsets(self._offsets.get(group_id), of_group)
            ended.transaction_ended(producer_id, committed=committed)
            of_group.pop(producer_id, None)
            self._offsets[group_id] = ended.committed

    def _take(self, batch_offset: Offset, key: bytes, value: bytes | None, producer_id: int) -> None:
        match read_key(key):
            case OffsetKey(group_id, name):
                if value is None:
                    self._offsets.get(group_id, {}).pop(name, None)
                    for offsets in self._transactional.get(group_id, {}).values():
                        offsets.pop(name, None)
                elif producer_id != NO_PRODUCER_ID:
                    of_group = self._transactional.setdefault(group_id, {})
                    waiting = TransactionalOffset(read_offset_value(value), batch_offset)
                    of_group.setdefault(producer_id, {})[name] = waiting
                else:
                    committed = CommittedOffset(read_offset_value(value), batch_offset)
                    self._offsets.setdefault(group_id, {})[name] = committed
            case GroupKey(group_id):
                if value is None:
                    self._groups.pop(group_id, None)
                else:
                    self._groups[group_id] = read_group_value(group_id, value)
            case UnknownKey(version):
                if version in CONSUMER_KEYS:
                    _replay(self._consumer_groups, ConsumerGroup, read_consumer_record, key, value)
                elif version in STREAMS_KEYS:
                    _replay(self._consumer_groups, StreamsGroup, read_streams_record, key, value)
                elif version in SHARE_KEYS:
                    _replay(self.share_groups, ShareGroup, read_share_record, key, value)
                else:
                    self.unreadable += 1

    def consumer_groups(self) -> tuple[ConsumerGroup, ...]:
        """Return the consumer and streams groups; call `groups` first, which adds their offsets."""
        return tuple(self._consumer_groups.values())

    def groups(self, now_ms: int) -> tuple[Group, ...]:
        """Add the offsets to the groups, and return the classic groups.

        A group id that has offsets but no group record becomes an empty classic group.
        """
        found = dict(self._groups)
        for group_id in dict.fromkeys((*self._offsets, *self._transactional)):
            waiting = {item: offsets for item, offsets in self._transactional.get(group_id, {}).items() if offsets}
            offsets = GroupOffsets(self._offsets.get(group_id), waiting)
            if group_id in self._consumer_groups:
                self._consumer_groups[group_id].offsets = offsets
            elif offsets.any:
                group = found.setdefault(group_id, Group(group_id, now_ms=now_ms))
                group.offsets = offsets
        return tuple(found.values())


def _replay(
    groups: dict[str, G],
    make: Callable[[str], G],
    read: Callable[[int, str, bytes | None], ConsumerRecord],
    key: bytes,
    value: bytes | None,
) -> None:
    """Apply a record to its consumer, share or streams group. Source: GroupMetadataManager.replay"""
    version, group_id, whose = read_consumer_key(key)
    record = read(version, whose, value)
    if record == GroupEpochRecord(None):
        groups.pop(group_id, None)
    elif value is not None or group_id in groups:
        groups.setdefault(group_id, make(group_id)).replay(record)
