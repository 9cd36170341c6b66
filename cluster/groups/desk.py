"""State and settings that the parts of a group coordinator share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from cluster.broker.metadata.follower import MetadataCache
from cluster.clocks import WallClock
from cluster.config import (
    HEARTBEAT_INTERVAL,
    NUM_STANDBY_REPLICAS,
    SESSION_TIMEOUT,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
    STREAMS_HEARTBEAT_INTERVAL,
    STREAMS_SESSION_TIMEOUT,
)
from cluster.coordinators.core import Desk, InTransaction, OnWritten
from cluster.groups.inputs import OtherAction, Result
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.groups.state.group import Group, Member
from cluster.groups.state.records import NEWEST_VALUES, ValueVersions
from cluster.groups.state.share_group import SHARE
from cluster.protocol.consumer_protocol import CONSUMER
from replica.causes import LeaveCause, RebalanceCause
from replica.errors import ErrorCode, KafkaError
from replica.trace.events import GroupMemberLeft
from replica.trace.groups import STREAMS
from replica.wording import shown, shown_if_any


class Departure(NamedTuple):
    """Why a member was removed, as fields of the event GroupMemberLeft."""

    cause: LeaveCause
    timeout_ms: int | None = None
    config: str | None = None
    max_size: int | None = None
    message: str | None = None


class Trigger(NamedTuple):
    """Why members have to join again, as fields of the event GroupRebalanceBegan."""

    cause: RebalanceCause
    member: str | None = None
    instance: str | None = None
    client_id: str | None = None
    error: str | None = None
    max_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings of a group coordinator. Source: GroupConfig, OffsetConfig

    Attributes:
        versions: versions of record values in the log.
        late_commit: error for a commit that was not replicated in time.
        one_coordinator: True since 4.0, where KIP-848's coordinator also manages classic groups, by its own rules.
        revoking_raises_epoch: True before 4.2, where a member's epoch grows as soon as it has revoked its partitions.
        older_epochs_count: True to accept a commit with an older member epoch for partitions that the member has had
            since then (KIP-1251).
        first_epoch: epoch of a new consumer or share group; 1 since 4.3.
        empty_is_assigned: True since 4.4, where the first member of an emptied group gets partitions without waiting
            for the minimum interval between assignments.
        assignor_raises_epoch: True since 4.4, where a change of the preferred assignor raises the group epoch.
        has_static_streams: True since 4.4, where streams groups have static members, and a static member may return to
            a full group.
    """

    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2**31 - 1
    metadata_max_bytes: int = 4096
    commit_timeout_ms: int = 5000
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_assignment_interval_ms: int = 0
    consumer_max_size: int = 2**31 - 1
    regex_refresh_interval_ms: int = 600_000
    consumer_migration_policy: str = "bidirectional"
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5000
    share_max_size: int = 200
    share_assignment_interval_ms: int = 0
    share_initialize_retry_interval_ms: int = 30_000
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5000
    streams_max_size: int = 2**31 - 1
    streams_initial_rebalance_delay_ms: int = 3000
    streams_assignment_interval_ms: int = 0
    streams_num_standby_replicas: int = 0
    versions: ValueVersions = NEWEST_VALUES
    late_commit: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE
    one_coordinator: bool = True
    revoking_raises_epoch: bool = False
    older_epochs_count: bool = False
    first_epoch: int = 0
    empty_is_assigned: bool = False
    assignor_raises_epoch: bool = False
    has_static_streams: bool = False


WRITE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The error that a client gets, by the error of writing its records; other modules extend this map."""


class GroupDesk(Desk[OtherAction, Result]):
    """The state that the parts of a group coordinator share: answers, actions, timers and writes.

    Args:
        new_uuid: returns a new id with each call.
        partition_of: returns the partition of the offsets topic that stores a group.
    """

    def __init__(
        self,
        *,
        node: str,
        settings: GroupSettings,
        clock: WallClock,
        new_uuid: Callable[[], UUID],
        partition_of: Callable[[str], int],
    ) -> None:
        super().__init__(node, clock)
        self.settings = settings
        self.new_uuid = new_uuid
        self._partition_of = partition_of

    def write(
        self,
        group_id: str,
        records: list[tuple[bytes, bytes | None]],
        on_written: OnWritten | None,
        now_us: int,
        transaction: InTransaction | None = None,
    ) -> None:
        """Append records to the partition that stores a group; for the arguments see `append`."""
        self.append(
            self._partition_of(group_id),
            tuple(records),
            on_written,
            now_us,
            timeout_ms=self.settings.commit_timeout_ms,
            transaction=transaction,
        )


def of_member(
    node: str, group: Group | ConsumerGroup, member: Member | ConsumerMember
) -> tuple[str, str, str, str, str | None]:
    """Return (node, group, member, client id, instance id), the first fields of each event about a member."""
    instance_id = shown_if_any(member.instance_id)
    return node, shown(group.group_id), shown(member.member_id), shown(member.client_id), instance_id


def left(node: str, group: Group | ConsumerGroup, member: Member | ConsumerMember, why: Departure) -> GroupMemberLeft:
    """Return the event that a member was removed."""
    return GroupMemberLeft(
        *of_member(node, group, member),
        generation=group.generation,
        group_type=group.TYPE,
        **why._asdict(),
    )


# --------------------------------------------------------------------------------------------------- settings of groups
#
# The settings of a group, with its broker's settings as defaults. source: GroupConfigManager.java


class Setting(NamedTuple):
    """A setting: the value, and the key of the broker's or the group's configuration that it comes from."""

    key: str
    value: int


class GroupConfigs:
    """The settings of groups, from the metadata that the broker has applied."""

    def __init__(self, cache: MetadataCache, settings: GroupSettings) -> None:
        self._cache = cache
        self._standbys = settings.streams_num_standby_replicas
        self._static_may_return = settings.has_static_streams
        self._sessions = {
            CONSUMER: (SESSION_TIMEOUT, settings.consumer_session_timeout_ms),
            SHARE: (SHARE_SESSION_TIMEOUT, settings.share_session_timeout_ms),
            STREAMS: (STREAMS_SESSION_TIMEOUT, settings.streams_session_timeout_ms),
        }
        self._intervals = {
            CONSUMER: (HEARTBEAT_INTERVAL, settings.consumer_heartbeat_interval_ms),
            SHARE: (SHARE_HEARTBEAT_INTERVAL, settings.share_heartbeat_interval_ms),
            STREAMS: (STREAMS_HEARTBEAT_INTERVAL, settings.streams_heartbeat_interval_ms),
        }
        self._max_sizes = {
            CONSUMER: settings.consumer_max_size,
            SHARE: settings.share_max_size,
            STREAMS: settings.streams_max_size,
        }

    def session_timeout_ms(self, group: ConsumerGroup) -> Setting:
        """Return a group's session timeout. Source: GroupMetadataManager.*GroupSessionTimeoutMs"""
        return self._setting(group, *self._sessions[group.TYPE])

    def heartbeat_interval_ms(self, group: ConsumerGroup) -> int:
        """Return a group's heartbeat interval. Source: GroupMetadataManager.*GroupHeartbeatIntervalMs"""
        return self._setting(group, *self._intervals[group.TYPE]).value

    def check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None = None) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if a member would be new in a full group. Source: throwIfConsumerGroupIsFull"""
        limit = self._max_sizes[group.TYPE]
        returns = self._static_may_return and instance_id is not None and group.static_member(instance_id) is not None
        if len(group.members) >= limit and member_id not in group.members and not returns:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {group.TYPE} group has reached its maximum capacity of {limit} members.",
            )

    def standby_replicas(self, group: ConsumerGroup) -> int:
        """Return the number of standby tasks per stateful task. Source: streamsGroupAssignmentConfigs"""
        return self._setting(group, NUM_STANDBY_REPLICAS, self._standbys).value

    def _setting(self, group: ConsumerGroup, key: str, otherwise: int) -> Setting:
        own = self._cache.image.group_config.get(group.group_id, {}).get(key)
        return Setting(f"group.{key}", otherwise) if own is None else Setting(key, int(own))
