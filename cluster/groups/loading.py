"""From the log of one partition of the offsets topic back to the groups that are kept in it.

source: GroupMetadataManager.doLoadGroupsAndOffsets
"""

from __future__ import annotations

from cluster.groups.group import Group
from cluster.groups.offsets import CommittedOffset, GroupOffsets
from cluster.groups.records import GroupKey, OffsetKey, UnknownKey, read_group_value, read_key, read_offset_value
from replica.errors import PeerViolation
from replica.ids import Offset, TopicPartition


class Replay:
    """Takes the records in the order of the log; the last one of each key that can be read counts.

    unreadable: records that are damaged, or of a version that this broker does not know; they are passed over
    """

    def __init__(self) -> None:
        self.unreadable = 0
        self._groups: dict[str, Group] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def record(self, batch_offset: Offset, key: bytes | None, value: bytes | None) -> None:
        """batch_offset: where the record's batch begins"""
        try:
            self._take(batch_offset, b"" if key is None else key, value)
        except PeerViolation:
            self.unreadable += 1

    def _take(self, batch_offset: Offset, key: bytes, value: bytes | None) -> None:
        match read_key(key):
            case OffsetKey(group_id, name):
                if value is None:
                    self._offsets.get(group_id, {}).pop(name, None)
                else:
                    committed = CommittedOffset(read_offset_value(value), batch_offset)
                    self._offsets.setdefault(group_id, {})[name] = committed
            case GroupKey(group_id):
                if value is None:
                    self._groups.pop(group_id, None)
                else:
                    self._groups[group_id] = read_group_value(group_id, value)
            case UnknownKey():
                self.unreadable += 1

    def groups(self, now_ms: int) -> tuple[Group, ...]:
        """Groups without a record of their own have no members, only offsets."""
        found = dict(self._groups)
        for group_id, offsets in self._offsets.items():
            if offsets:
                group = found.setdefault(group_id, Group(group_id, now_ms=now_ms))
                group.offsets = GroupOffsets(offsets)
        return tuple(found.values())
