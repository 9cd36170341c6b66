"""A group member that uses the classic protocol: it joins, gets partitions, and sends heartbeats.

The leader of a generation assigns partitions with an assignor that all members support. A member that supports `range`
revokes all partitions before it joins again (eager). A member that supports only `cooperative-sticky` keeps its
partitions, revokes those that are missing from the new assignment, and joins once more; the leader can then assign the
revoked partitions to other members (cooperative).

Simplified: a member has no session timeout of its own; it learns from the coordinator that it was removed.
Simplified: if a cooperative member commits during a rebalance, the commit waits for the end of the rebalance. In Java
the commit fails (RebalanceInProgressException), and the application polls and commits again.
Source: ConsumerCoordinator.java, AbstractCoordinator.java
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple

from cluster.client.api_versions import SPOKEN, Allowed
from cluster.client.connections import ClientConnections
from cluster.client.consumer.assignors import (
    COOPERATIVE_STICKY,
    NO_GENERATION,
    RANGE,
    assignment,
    by_cooperative_sticky,
    by_range,
    owner,
    owning_subscription,
    partitions_in,
    subscription,
)
from cluster.client.consumer.membership import Ask, GroupMembership, OnAssigned, OnRevoked
from cluster.client.coordinators import LOOK_AGAIN, CoordinatorRequests
from cluster.config import GroupConsumerConfig
from cluster.protocol.versions import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from cluster.topic_pattern import TopicPattern
from replica.errors import RETRIABLE, ErrorCode
from replica.ids import TopicPartition
from replica.rules import Rules

WITH_INSTANCE_ID = Allowed(5, SPOKEN[JOIN_GROUP].latest)
"""Versions of JoinGroup with an instance id (KIP-345). Source: JoinGroupRequest.Builder.build"""
WITH_REASON = Allowed(SPOKEN[LEAVE_GROUP].oldest, 5)
"""Versions of LeaveGroup for a request with a reason; version 5 is the first that sends it (KIP-800)."""
PROTOCOL_TYPE = "consumer"
NO_MEMBER_ID = ""
JOIN_ROOM_US = 5_000_000
"""How long after the rebalance timeout a member still waits for the JoinGroup response (JOIN_GROUP_TIMEOUT_LAPSE)."""
POLL_EXPIRED = "consumer poll timeout has expired."
"""The reason in LeaveGroup after max.poll.interval.ms without a poll (AbstractCoordinator.handlePollTimeoutExpiry)."""
_OUT_OF_STEP = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
"""Errors after which the member joins again."""


class JoinState(Enum):
    """The state of a member. Source: AbstractCoordinator.ClientMemberState"""

    UNJOINED = auto()
    JOINED = auto()
    STABLE = auto()


class _ToAssign(NamedTuple):
    """The members in the leader's JoinGroup response, and the metadata version that the assignment waits for."""

    members: Sequence[Any]
    version: int


class ClassicMembership(GroupMembership):
    def __init__(
        self,
        config: GroupConsumerConfig,
        topics: Sequence[str] | TopicPattern,
        connections: ClientConnections,
        on_assigned: OnAssigned,
        on_revoked: OnRevoked,
        rules: Rules,
    ) -> None:
        """Create a member.

        Args:
            rules: rules of the client's Kafka release; before KIP-429 members support only `range`.
        """
        super().__init__(config, topics, connections, on_assigned, on_revoked)
        self._metadata.wants_all = self._pattern is not None
        self.state = JoinState.UNJOINED
        self._assignors = (RANGE,) if rules.group_rebalance == "eager" else config.assignors
        self._assignor = self._assignors[0]
        """The assignor that the coordinator has chosen for the current generation."""
        self._rejoins = False
        """True if a rebalance is in progress; the member keeps its partitions until it joins."""
        self._heartbeat_due_us = 0
        self._to_assign: _ToAssign | None = None
        """The members to assign partitions to, if this member leads the generation; otherwise None."""
        self._assigned_of: dict[str, int] | None = None
        """The partition counts, by topic, of the assignment that this member made as leader; None if it made none."""
        self._joined_with: tuple[str, ...] = ()
        """The subscribed topics at the last join, and further topics of the pattern that the leader has assigned."""
        self._joined_version = 0
        """The version of the metadata at the last join."""
        self._joins_from: int | None = None
        """The metadata version that a join waits for, None if it is not determined yet."""

    @property
    def _is_cooperative(self) -> bool:
        """True if all assignors of the member are cooperative. Source: ConsumerCoordinator.ConsumerCoordinator"""
        return self._assignors == (COOPERATIVE_STICKY,)

    @property
    def _has_place(self) -> bool:
        return self.generation != NO_GENERATION and self.member_id != NO_MEMBER_ID

    @property
    def _may_commit(self) -> bool:
        return self.state is JoinState.STABLE

    @property
    def _is_out(self) -> bool:
        """True if the member has no partitions to commit for; a cooperative member keeps them during a rebalance."""
        return not self._may_commit and not (self._is_cooperative and self._has_place)

    @property
    def _gives_up_next(self) -> bool:
        return self._rejoins or self._is_outdated

    @property
    def _is_outdated(self) -> bool:
        """True if the metadata shows other topics or partitions for the subscription than at the last join.

        Source: ConsumerCoordinator.rejoinNeededOrPending
        """
        if self.state is not JoinState.STABLE:
            return False
        has_other = self._assigned_of is not None and self._assigned_of != self._partition_counts()
        is_newer = self._metadata.version > self._joined_version
        return has_other or (is_newer and self._joined_with != self._topics)

    def _partition_counts(self) -> dict[str, int]:
        """Return the number of partitions per known topic. Source: ConsumerCoordinator.MetadataSnapshot"""
        counts = {topic: len(self._metadata.partitions(topic)) for topic in self._topics}
        return {topic: count for topic, count in counts.items() if count}

    @property
    def _is_member(self) -> bool:
        return self.state is not JoinState.UNJOINED

    def _poll_expired(self, now_us: int) -> None:
        """Leave the group; a static member only clears its generation and member id (KIP-345).

        Source: AbstractCoordinator.handlePollTimeoutExpiry
        """
        if self.instance_id is not None:
            self._forget_place()
        else:
            self._commits.run_once(self._coordinator, partial(self._leave_group, POLL_EXPIRED), now_us)

    @property
    def _departure(self) -> tuple[CoordinatorRequests, Ask] | None:
        """The LeaveGroup request, which does not wait for a JoinGroup in flight; None for a static member (KIP-345)."""
        is_known = self.state is not JoinState.UNJOINED or self._requests.in_flight
        leaves = is_known and self.instance_id is None and self.member_id != NO_MEMBER_ID
        return (self._commits, partial(self._leave_group, None)) if leaves else None

    def _leave_group(self, why: str | None, node_id: int, now_us: int) -> None:
        # Before version 3 the request has a single member. source: LeaveGroupRequest.Builder.build
        values = {
            "group_id": self._config.group_id,
            "member_id": self.member_id,
            "members": [{"member_id": self.member_id, "reason": why}],
        }
        self._forget_place()
        allowed = None if why is None else WITH_REASON
        self._commits.ask(node_id, LEAVE_GROUP, values, _whatever, now_us, allowed=allowed)

    def _forget_place(self) -> None:
        """Clear the generation and the member id. Source: resetGenerationOnLeaveGroup, resetStateOnResponseError"""
        self.state, self.generation, self.member_id = JoinState.UNJOINED, NO_GENERATION, NO_MEMBER_ID

    def _next(self, now_us: int) -> Ask | None:
        polls = self.may_join or (self._commit is not None and not self._may_commit)
        if polls and (self.state is JoinState.UNJOINED or self._gives_up_next) and not self._commits_first:
            # Simplified: Java looks for the coordinator while it still waits for the first metadata.
            return None if self._awaits_metadata(now_us) else self._join
        if self.state is JoinState.UNJOINED:
            return None
        if self.state is JoinState.JOINED:
            waits = self._to_assign is not None and self._metadata.version < self._to_assign.version
            return None if waits else self._sync
        if self._unread:
            return self._fetch_offsets
        if now_us >= self._heartbeat_due_us:
            return self._heartbeat
        self._requests.wake_at(self._heartbeat_due_us)
        return None

    def _awaits_metadata(self, now_us: int) -> bool:
        """Return True while a join waits for newer metadata. Without this, a new topic could cause two rebalances.

        Source: ConsumerCoordinator.poll
        """
        if self._joins_from is None:
            metadata = self._metadata
            is_old = metadata.may_update(now_us) or metadata.is_stale(now_us)
            self._joins_from = max(1, metadata.version + (self._pattern is not None and is_old))
        if self._metadata.version < self._joins_from:
            self._metadata.request_update()
        return self._metadata.version < self._joins_from

    def _join(self, node_id: int, now_us: int) -> None:
        """Send JoinGroup. Source: sendJoinGroupRequest, ConsumerCoordinator.onJoinPrepare"""
        self.state, self._rejoins = JoinState.UNJOINED, False
        self._joined_with, self._joined_version = self._topics, self._metadata.version
        if not (self._is_cooperative and self._has_place):
            self._reads_now(())
        values = {
            "group_id": self._config.group_id,
            "session_timeout": self._config.session_timeout_ms,
            "rebalance_timeout": self._config.max_poll_interval_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": name, "metadata": self._subscription(name)} for name in self._assignors],
        }
        timeout_us = self._config.max_poll_interval_ms * 1000 + JOIN_ROOM_US
        allowed = None if self.instance_id is None else WITH_INSTANCE_ID
        self._requests.ask(node_id, JOIN_GROUP, values, self._joined, now_us, timeout_us=timeout_us, allowed=allowed)

    def _joined(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = str(answer.member_id)
        elif error is ErrorCode.NONE:
            self.state = JoinState.JOINED
            self.member_id, self.generation = str(answer.member_id), int(answer.generation_id)
            self._assignor = str(answer.protocol_name)
            leads = str(answer.leader) == self.member_id
            version = self._metadata.version + self._metadata.is_stale(now_us)
            self._to_assign = _ToAssign(answer.members, version) if leads else None
            self._assigned_of = self._joins_from = None
        else:
            self._failed(error, now_us)

    def _subscription(self, assignor: str) -> bytes:
        if assignor != COOPERATIVE_STICKY:
            return subscription(self._topics)
        return owning_subscription(self._topics, sorted(self.assigned), self.generation)

    def _assign(self, members: Sequence[Any]) -> dict[str, bytes]:
        partitions = [partition for topic in self._topics for partition in self._metadata.partitions(topic)]
        if self._assignor == COOPERATIVE_STICKY:
            owners = [owner(str(member.member_id), bytes(member.metadata)) for member in members]
            assigned = by_cooperative_sticky(owners, partitions)
        else:
            names = [
                (str(getattr(member, "group_instance_id", None) or ""), str(member.member_id)) for member in members
            ]
            assigned = by_range(names, partitions)
        return {member_id: assignment(sorted(partitions)) for member_id, partitions in assigned.items()}

    def _sync(self, node_id: int, now_us: int) -> None:
        assignments: dict[str, bytes] = {}
        if self._to_assign is not None:
            assignments, self._assigned_of = self._assign(self._to_assign.members), self._partition_counts()
        values = {
            **self._me(),
            "generation_id": self.generation,
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": self._assignor,
            "assignments": [{"member_id": name, "assignment": data} for name, data in assignments.items()],
        }
        self._requests.ask(node_id, SYNC_GROUP, values, self._synced, now_us)

    def _synced(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        """Apply the assignment in the SyncGroup response. Source: ConsumerCoordinator.onJoinComplete"""
        if error is not ErrorCode.NONE:
            self._failed(error, now_us)
            return
        self.state = JoinState.STABLE
        assigned = tuple(partitions_in(bytes(answer.assignment)))
        self._obey(assigned)
        revoked = self._reads_now(assigned)
        # The next join lets the leader assign them to another member.
        self._rejoins = bool(revoked)
        self._has_assignment(now_us)
        self._beat_later(now_us)

    def _obey(self, assigned: Sequence[TopicPartition]) -> None:
        """Note assigned topics of the pattern that only the leader's newer metadata has, and request new metadata.

        Source: ConsumerCoordinator.maybeUpdateJoinedSubscription
        """
        topics = {item.topic for item in assigned}
        if self._pattern is not None and not topics <= set(self._joined_with):
            self._joined_with = tuple(sorted(topics | set(self._joined_with)))
            self._joined_version = self._metadata.version
            self._metadata.request_update()

    def _heartbeat(self, node_id: int, now_us: int) -> None:
        values = {**self._me(), "generation_id": self.generation}
        self._requests.ask(node_id, HEARTBEAT, values, self._heartbeat_answered, now_us)

    def _heartbeat_answered(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        self._beat_later(now_us)
        if error is not ErrorCode.NONE:
            self._handle_error(error, now_us)

    def _commit_refused(self, error: ErrorCode, now_us: int) -> None:
        self._handle_error(error, now_us)

    def _handle_error(self, error: ErrorCode, now_us: int) -> None:
        """Handle the error of a heartbeat or a commit; most errors only delay the next request."""
        if error in (*LOOK_AGAIN, *_OUT_OF_STEP, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNSUPPORTED_VERSION):
            self._failed(error, now_us)
        else:
            self._requests.again(now_us)

    def _beat_later(self, now_us: int) -> None:
        self._heartbeat_due_us = now_us + self._config.heartbeat_interval_ms * 1000

    def _offsets_asked(self, topics: Sequence[Mapping[str, object]]) -> dict[str, object]:
        return {"group_id": self._config.group_id, "topics": topics}

    def _offsets_of(self, answer: Any) -> Any:
        return answer

    def _failed(self, error: ErrorCode, now_us: int) -> None:
        """Handle an error: find the coordinator again, join again, or make the application's poll raise the error.

        Source: JoinGroupResponseHandler, SyncGroupResponseHandler, HeartbeatResponseHandler, joinGroupIfNeeded
        """
        if error in LOOK_AGAIN:
            self._look_again(now_us)
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is JoinState.STABLE:
                self._rejoins = True
            else:
                self.state = JoinState.UNJOINED
        elif error is ErrorCode.ILLEGAL_GENERATION:
            self.state, self.generation = JoinState.UNJOINED, NO_GENERATION
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_place()
        elif error in RETRIABLE:
            self._requests.again(now_us)
        else:
            self._refused_with(error)


def _whatever(answer: Any, error: ErrorCode, now_us: int) -> None:
    """Ignore the response to LeaveGroup, which is not repeated."""
