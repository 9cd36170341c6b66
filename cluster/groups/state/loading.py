"""From the log of one partition of the offsets topic back to the groups that are kept in it.

source: GroupMetadataManager.doLoadGroupsAndOffsets
"""

from __future__ import annotations

from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_records import CONSUMER_KEYS, EPOCH_KEY, read_consumer_key, read_consumer_record
from cluster.groups.state.group import Group
from cluster.groups.state.offsets import CommittedOffset, GroupOffsets, TransactionalOffset
from cluster.groups.state.records import GroupKey, OffsetKey, UnknownKey, read_group_value, read_key, read_offset_value
from replica.errors import PeerViolation
from replica.ids import Offset, TopicPartition
from replica.log.batches.records import NO_PRODUCER_ID

Transactional = dict[int, dict[TopicPartition, TransactionalOffset]]


class Replay:
    """Takes the records in the order of the log; the last one of each key that can be read counts.

    unreadable: records that are damaged, or of a version that this broker does not know; they are passed over
    """

    def __init__(self) -> None:
        self.unreadable = 0
        self._groups: dict[str, Group] = {}
        self._consumer_groups: dict[str, ConsumerGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._transactional: dict[str, Transactional] = {}

    def record(
        self, batch_offset: Offset, key: bytes | None, value: bytes | None, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """batch_offset: where the record's batch begins     producer_id: of the transaction that it is part of"""
        try:
            self._take(batch_offset, b"" if key is None else key, value, producer_id)
        except PeerViolation:
            self.unreadable += 1

    def marker(self, producer_id: int, *, committed: bool) -> None:
        """The producer's transaction ended here."""
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
                    self._take_consumer_record(key or b"", value)
                else:
                    self.unreadable += 1

    def _take_consumer_record(self, key: bytes, value: bytes | None) -> None:
        """source: GroupMetadataManager.replay"""
        version, group_id, member_id = read_consumer_key(key)
        record = read_consumer_record(version, member_id, value)
        if version == EPOCH_KEY and value is None:
            self._consumer_groups.pop(group_id, None)
        elif value is not None or group_id in self._consumer_groups:
            self._consumer_groups.setdefault(group_id, ConsumerGroup(group_id)).replay(record)

    def consumer_groups(self) -> tuple[ConsumerGroup, ...]:
        """To be asked after `groups`."""
        return tuple(self._consumer_groups.values())

    def groups(self, now_ms: int) -> tuple[Group, ...]:
        """Groups without a record of their own have no members, only offsets."""
        found = dict(self._groups)
        for group_id in dict.fromkeys((*self._offsets, *self._transactional)):
            waiting = {one: offsets for one, offsets in self._transactional.get(group_id, {}).items() if offsets}
            offsets = GroupOffsets(self._offsets.get(group_id), waiting)
            if group_id in self._consumer_groups:
                self._consumer_groups[group_id].offsets = offsets
            elif offsets.any:
                group = found.setdefault(group_id, Group(group_id, now_ms=now_ms))
                group.offsets = offsets
        return tuple(found.values())
