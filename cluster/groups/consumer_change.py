"""What one step changes in a consumer group: records, applied as they are made, written at the end.

source: CoordinatorRuntime.java: the state runs ahead of the log, and what cannot be written is taken back. What is in
the log and was not replicated in time stays: the request alone fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster.groups.assignors.specification import Partitions
from cluster.groups.desk import WRITE_ERRORS, Desk
from cluster.groups.state.consumer_group import ConsumerGroup, GroupContents
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.groups.state.consumer_records import ConsumerRecord, encode
from cluster.groups.topic_directory import TopicDirectory
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.trace.events import GroupMemberReconciled, TraceEvent
from replica.wording import shown, shown_if_any

CHANGE_ERRORS = {
    **WRITE_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The answer to a member whose change could not be written. source: CoordinatorOperationExceptionHelper"""
IN_THE_LOG = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def reconciliation(
    node: str, group: ConsumerGroup, member: ConsumerMember, topics: TopicDirectory
) -> GroupMemberReconciled:
    """The event of a member that has come a step nearer to its target."""

    def names(partitions: Partitions) -> tuple[str, ...]:
        return tuple(f"{topics.name_of(one.topic_id) or 'a deleted topic'}-{one.partition}" for one in partitions)

    return GroupMemberReconciled(
        node=node,
        group=shown(group.group_id),
        member=shown(member.member_id),
        instance=shown_if_any(member.instance_id),
        client_id=shown(member.client_id),
        generation=member.epoch,
        state=member.state.name,
        partitions=names(member.assigned),
        revoking=names(member.pending_revocation),
    )


class Change:
    """before: records that come first, as key and value"""

    def __init__(self, group: ConsumerGroup, before: list[tuple[bytes, bytes | None]] | None = None) -> None:
        self.group = group
        self._kept = group.kept()
        self._records: list[tuple[bytes, bytes | None]] = list(before or ())
        self._events: list[TraceEvent] = []
        self._undo: Callable[[int], None] | None = None

    @property
    def kept(self) -> GroupContents:
        """What the group was before."""
        return self._kept

    def add(self, record: ConsumerRecord) -> None:
        self.group.replay(record)
        self._records.append(encode(self.group.group_id, record))

    def append(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Only to be written: the group is another one from here on. source: CoordinatorResult.replayRecords"""
        self._records += records

    def take_back_with(self, undo: Callable[[int], None]) -> None:
        """undo: what a failed write takes back beside the group's contents; it is given now_us"""
        self._undo = undo

    def say(self, event: TraceEvent) -> None:
        """Once it is true."""
        self._events.append(event)

    def write(self, desk: Desk, then: Callable[[ErrorCode, int], None], now_us: int) -> None:
        """then: called with the error for the client, when every in-sync replica has the records, or none takes them"""
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
                # Changes made since then stand on this one, and go with it.
                group.restore(kept)
                group.taken_back = group.changes
                for one in sorted((one for one in group.undo if one >= number), reverse=True):
                    group.undo.pop(one)(written_us)
            elif is_in_log:
                group.undo.pop(number, None)
                for event in self._events:
                    desk.tell(event)
            then(CHANGE_ERRORS.get(error, error), written_us)

        desk.write(group.group_id, self._records, written, now_us)
