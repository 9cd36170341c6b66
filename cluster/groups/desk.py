"""State that the parts of a group coordinator share: settings, deadlines, and the actions they want done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from cluster.clocks import Timer, Timers, WallClock
from cluster.coordinators.waiting import RequestId
from cluster.groups.inputs import Action, AnswerRequest, Append, InTransaction, Result, WriteId
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.groups.state.group import Group
from cluster.groups.state.member import Member
from cluster.groups.state.records import VALUE_VERSIONS, ValueVersions
from replica.causes import LeaveCause, RebalanceCause
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.trace.events import Emit, GroupMemberLeft, TraceEvent
from replica.wording import shown, shown_if_any


class Departure(NamedTuple):
    """Why a member is out, as GroupMemberLeft has it."""

    cause: LeaveCause
    timeout_ms: int | None = None
    config: str | None = None
    max_size: int | None = None
    message: str | None = None


class Trigger(NamedTuple):
    """Why members are to join again, as GroupRebalanceBegan has it."""

    cause: RebalanceCause
    member: str | None = None
    instance: str | None = None
    client_id: str | None = None
    error: str | None = None
    max_size: int | None = None


OnWritten = Callable[[ErrorCode, Offset, int], None]
"""(error, offset of the batch, now_us)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """versions: of the values in the log of the groups     late_commit: answers one that was not replicated in time
    one_coordinator: since 4.0 the coordinator of KIP-848's groups keeps classic ones, too, by its own rules

    source: GroupConfig, OffsetConfig
    """

    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2**31 - 1
    metadata_max_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_max_size: int = 2**31 - 1
    regex_refresh_interval_ms: int = 600_000
    consumer_migration_policy: str = "bidirectional"
    versions: ValueVersions = VALUE_VERSIONS["4.1"]
    late_commit: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE
    one_coordinator: bool = True


WRITE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The answers to any write that failed for want of replicas or of the leader; each kind of write adds to them."""


class Desk:
    """new_uuid: a different one with each call     partition_of: where a group is kept"""

    def __init__(
        self,
        *,
        node: str,
        settings: GroupSettings,
        clock: WallClock,
        new_uuid: Callable[[], UUID],
        partition_of: Callable[[str], int],
    ) -> None:
        self.node = node
        self.settings = settings
        self.clock = clock
        self.new_uuid = new_uuid
        self.partition_of = partition_of
        self.timers: Timers[Action] = Timers()
        self._actions: list[Action] = []
        self._writes: dict[WriteId, OnWritten] = {}
        self._last_write = 0

    def wall_ms(self, now_us: int) -> int:
        return self.clock.at(now_us) // 1000

    def after(self, delay_ms: int, callback: Callable[[int], None], now_us: int) -> Timer:
        return self.timers.at(now_us + delay_ms * 1000, callback)

    def answer(self, request: RequestId, result: Result) -> None:
        self._actions.append(AnswerRequest(request, result))

    def tell(self, event: TraceEvent) -> None:
        self._actions.append(Emit(event))

    def want(self, action: Action) -> None:
        self._actions.append(action)

    def write(
        self,
        group_id: str,
        records: list[tuple[bytes, bytes | None]],
        on_written: OnWritten | None,
        now_us: int,
        transaction: InTransaction | None = None,
    ) -> None:
        """on_written: called once every in-sync replica has the records, or they were refused; None: nothing waits"""
        write: WriteId | None = None
        if on_written is not None:
            self._last_write += 1
            write = self._last_write
            self._writes[write] = on_written
        self._actions.append(
            Append(
                partition=self.partition_of(group_id),
                records=tuple(records),
                timestamp_ms=self.wall_ms(now_us),
                write=write,
                transaction=transaction,
            )
        )

    def written(self, write: WriteId, error: ErrorCode, offset: Offset, now_us: int) -> None:
        self._writes.pop(write)(error, offset, now_us)

    def take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions


def left(node: str, group: Group | ConsumerGroup, member: Member | ConsumerMember, why: Departure) -> GroupMemberLeft:
    """The event of a member that is out."""
    return GroupMemberLeft(
        node=node,
        group=shown(group.group_id),
        member=shown(member.member_id),
        instance=shown_if_any(member.instance_id),
        client_id=shown(member.client_id),
        generation=group.generation,
        group_type=group.TYPE,
        **why._asdict(),
    )
