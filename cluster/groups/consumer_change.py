"""The changes of one request to a consumer group: records that are applied immediately and written at the end.

The group's state is ahead of the log until the write ends. A failed write is rolled back. If the records are in the log
but were not replicated in time, the state keeps them, and only the request fails.

Source: CoordinatorRuntime.java
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cluster.coordinators.core import CHANGE_ERRORS, IN_THE_LOG
from cluster.groups.desk import GroupDesk, of_member
from cluster.groups.state.consumer_group import ConsumerGroup, GroupContents
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.groups.state.consumer_records import ConsumerRecord
from cluster.groups.state.streams_group import StreamsGroup
from cluster.groups.topic_directory import TopicDirectory
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.trace.events import GroupMemberReconciled, TraceEvent


def reconciliation(
    node: str, group: ConsumerGroup, member: ConsumerMember, topics: TopicDirectory
) -> GroupMemberReconciled:
    """Return the event that a member's partitions have moved towards its target assignment."""

    def names(partitions: tuple[Any, ...]) -> tuple[str, ...]:
        if isinstance(group, StreamsGroup):
            return tuple(map(str, group.read_by(partitions, topics.partitions_of)))
        return tuple(
            f"{topics.name_of(partition.topic_id) or 'a deleted topic'}-{partition.partition}"
            for partition in partitions
        )

    return GroupMemberReconciled(
        *of_member(node, group, member),
        generation=member.epoch,
        state=member.state.name,
        partitions=names(member.assigned),
        revoking=names(member.pending_revocation),
        group_type=group.TYPE,
    )


class Change:
    """The changes of one request to a group; `before` are encoded records to write first."""

    def __init__(self, group: ConsumerGroup, before: list[tuple[bytes, bytes | None]] | None = None) -> None:
        self.group = group
        self._kept = group.kept()
        self._records: list[tuple[bytes, bytes | None]] = list(before or ())
        self._events: list[TraceEvent] = []
        self._undo: Callable[[int], None] | None = None

    @property
    def kept(self) -> GroupContents:
        """The group's contents before the change."""
        return self._kept

    def add(self, record: ConsumerRecord) -> None:
        self.group.replay(record)
        self._records.append(self.group.encoded(record))

    def append(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Add encoded records that are written but not applied, because another group object replaces this one.

        Source: CoordinatorResult.replayRecords
        """
        self._records += records

    def abandon(self) -> None:
        """Undo the change, which is not written, because the request is refused."""
        self.group.restore(self._kept)

    def take_back_with(self, undo: Callable[[int], None]) -> None:
        """Set a function that undoes further changes; it is called with now_us if the write fails."""
        self._undo = undo

    def say(self, event: TraceEvent) -> None:
        """Emit an event once the change is written."""
        self._events.append(event)

    def write(self, desk: GroupDesk, then: Callable[[ErrorCode, int], None], now_us: int) -> None:
        """Write the records, and call `then` with (error for the client, now_us).

        It is called when all in-sync replicas have the records, or when the write has failed.
        """
        if not self._records:
            then(ErrorCode.NONE, now_us)
            return
        group, kept = self.group, self._kept
        group.changes += 1
        number = group.changes
        if self._undo is not None:
            group.undo[number] = self._undo

        def written(error: ErrorCode, offset: Offset, written_us: int) -> None:
            is_in_log = error in IN_THE_LOG
            if not is_in_log and number > group.taken_back:
                # Later changes are based on this one and are undone with it.
                group.restore(kept)
                group.taken_back = group.changes
                for item in sorted((item for item in group.undo if item >= number), reverse=True):
                    group.undo.pop(item)(written_us)
            elif is_in_log:
                group.undo.pop(number, None)
                for event in self._events:
                    desk.tell(event)
            then(CHANGE_ERRORS.get(error, error), written_us)

        desk.write(group.group_id, self._records, written, now_us)
