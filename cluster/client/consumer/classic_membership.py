"""A member of a group by the classic protocol: it joins, gets partitions, says that it is alive.

The member that leads a generation assigns, by a strategy that all members support. Where `range` is among those that a
member supports, it gives up what it has before it joins again (eager). One that knows `cooperative-sticky` alone keeps
it, gives up only what the assignment does not have, and joins once more so that it can be given to another member
(cooperative).

Simplified: a member has no session timeout of its own; it learns from the coordinator that it was given up.
Simplified: what a cooperative member commits in a rebalance waits for its end. In Java it fails
(RebalanceInProgressException), and the application polls and commits again.

source: ConsumerCoordinator.java, AbstractCoordinator.java
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
"""KIP-345. source: JoinGroupRequest.Builder.build"""
WITH_REASON = Allowed(SPOKEN[LEAVE_GROUP].oldest, 5)
"""KIP-800"""
PROTOCOL_TYPE = "consumer"
NO_MEMBER_ID = ""
JOIN_ROOM_US = 5_000_000
"""How much longer than the rebalance a member waits for it (JOIN_GROUP_TIMEOUT_LAPSE)."""
POLL_EXPIRED = "consumer poll timeout has expired."
"""source: AbstractCoordinator.handlePollTimeoutExpiry"""
_OUT_OF_STEP = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
"""The member joins again."""


class JoinState(Enum):
    """source: AbstractCoordinator.ClientMemberState"""

    UNJOINED = auto()
    JOINED = auto()
    STABLE = auto()


class _ToAssign(NamedTuple):
    """members: of JoinGroup's answer     version: of the metadata that the leader waits for"""

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
        """rules: of its era; before KIP-429 there is no cooperative assignor, and a member assigns by ranges"""
        super().__init__(config, topics, connections, on_assigned, on_revoked)
        self._metadata.wants_all = self._pattern is not None
        self.state = JoinState.UNJOINED
        self._assignors = (RANGE,) if rules.group_rebalance == "eager" else config.assignors
        self._assignor = self._assignors[0]
        """By which its generation is assigned: the coordinator chooses among those that all members support."""
        self._rejoins = False
        """The others join already. Until this member does, too, what it has is still its own."""
        self._heartbeat_due_us = 0
        self._to_assign: _ToAssign | None = None
        """Of the leader."""
        self._assigned_of: dict[str, int] | None = None
        """Of the leader: how many partitions each topic had when it assigned them."""
        self._joined_with: tuple[str, ...] = ()
        """What it has subscribed to, and what it was given of its pattern beyond that."""
        self._joined_version = 0
        """Of the metadata that this is compared with newer ones of."""
        self._joins_from: int | None = None
        """The version of the metadata that a pattern is compared with before it joins."""

    @property
    def _is_cooperative(self) -> bool:
        """What all its assignors can do. source: ConsumerCoordinator.ConsumerCoordinator"""
        return self._assignors == (COOPERATIVE_STICKY,)

    @property
    def _has_place(self) -> bool:
        return self.generation != NO_GENERATION and self.member_id != NO_MEMBER_ID

    @property
    def _may_commit(self) -> bool:
        return self.state is JoinState.STABLE

    @property
    def _is_out(self) -> bool:
        """A cooperative member keeps its partitions in a rebalance."""
        return not self._may_commit and not (self._is_cooperative and self._has_place)

    @property
    def _gives_up_next(self) -> bool:
        return self._rejoins or self._is_outdated

    @property
    def _is_outdated(self) -> bool:
        """It has assigned other partitions than there are by now, or its pattern describes other topics.

        source: ConsumerCoordinator.rejoinNeededOrPending
        """
        if self.state is not JoinState.STABLE:
            return False
        has_other = self._assigned_of is not None and self._assigned_of != self._partition_counts()
        is_newer = self._metadata.version > self._joined_version
        return has_other or (is_newer and self._joined_with != self._topics)

    def _partition_counts(self) -> dict[str, int]:
        """By topic; one without metadata is not there. source: ConsumerCoordinator.MetadataSnapshot"""
        counts = {topic: len(self._metadata.partitions(topic)) for topic in self._topics}
        return {topic: count for topic, count in counts.items() if count}

    @property
    def _is_member(self) -> bool:
        return self.state is not JoinState.UNJOINED

    def _poll_expired(self, now_us: int) -> None:
        """A static member only falls silent (KIP-345). source: AbstractCoordinator.handlePollTimeoutExpiry"""
        if self.instance_id is not None:
            self._forget_place()
        else:
            self._commits.run_once(self._coordinator, partial(self._leave_group, POLL_EXPIRED), now_us)

    @property
    def _departure(self) -> tuple[CoordinatorRequests, Ask] | None:
        """A static member stays one until its session ends (KIP-345). A join that is under way is not waited for."""
        is_known = self.state is not JoinState.UNJOINED or self._requests.in_flight
        leaves = is_known and self.instance_id is None and self.member_id != NO_MEMBER_ID
        return (self._commits, partial(self._leave_group, None)) if leaves else None

    def _leave_group(self, why: str | None, node_id: int, now_us: int) -> None:
        # Before version 3 a member leaves for itself alone. source: LeaveGroupRequest.Builder.build
        values = {
            "group_id": self._config.group_id,
            "member_id": self.member_id,
            "members": [{"member_id": self.member_id, "reason": why}],
        }
        self._forget_place()
        allowed = None if why is None else WITH_REASON
        self._commits.ask(node_id, LEAVE_GROUP, values, _whatever, now_us, allowed=allowed)

    def _forget_place(self) -> None:
        """source: resetGenerationOnLeaveGroup, resetStateOnResponseError"""
        self.state, self.generation, self.member_id = JoinState.UNJOINED, NO_GENERATION, NO_MEMBER_ID

    def _next(self, now_us: int) -> Ask | None:
        polls = self.may_join or (self._commit is not None and not self._may_commit)
        if polls and (self.state is JoinState.UNJOINED or self._gives_up_next) and not self._commits_first:
            # Simplified: Java looks for the coordinator while the first metadata are still on their way.
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
        """A pattern is compared with fresh ones before it joins, so that one new topic causes one rebalance.

        source: ConsumerCoordinator.poll
        """
        if self._joins_from is None:
            metadata = self._metadata
            is_old = metadata.may_update(now_us) or metadata.is_stale(now_us)
            self._joins_from = max(1, metadata.version + (self._pattern is not None and is_old))
        if self._metadata.version < self._joins_from:
            self._metadata.request_update()
        return self._metadata.version < self._joins_from

    def _join(self, node_id: int, now_us: int) -> None:
        """source: sendJoinGroupRequest, ConsumerCoordinator.onJoinPrepare"""
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
        partitions = [one for topic in self._topics for one in self._metadata.partitions(topic)]
        if self._assignor == COOPERATIVE_STICKY:
            owners = [owner(str(one.member_id), bytes(one.metadata)) for one in members]
            assigned = by_cooperative_sticky(owners, partitions)
        else:
            names = [(str(getattr(one, "group_instance_id", None) or ""), str(one.member_id)) for one in members]
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
        """source: ConsumerCoordinator.onJoinComplete"""
        if error is not ErrorCode.NONE:
            self._failed(error, now_us)
            return
        self.state = JoinState.STABLE
        assigned = tuple(partitions_in(bytes(answer.assignment)))
        self._obey(assigned)
        revoked = self._reads_now(assigned)
        # So that they can be given to another member.
        self._rejoins = bool(revoked)
        self._has_assignment(now_us)
        self._beat_later(now_us)

    def _obey(self, assigned: Sequence[TopicPartition]) -> None:
        """The leader's metadata are newer: it knows more topics that the pattern describes.

        source: ConsumerCoordinator.maybeUpdateJoinedSubscription
        """
        topics = {one.topic for one in assigned}
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
            self._told(error, now_us)

    def _commit_refused(self, error: ErrorCode, now_us: int) -> None:
        self._told(error, now_us)

    def _told(self, error: ErrorCode, now_us: int) -> None:
        """By the answer to a heartbeat or a commit, of which most errors end nothing."""
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
        """What is neither for the coordinator to mend nor for the member ends the application: poll throws it.

        source: JoinGroupResponseHandler, SyncGroupResponseHandler, HeartbeatResponseHandler, joinGroupIfNeeded
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
    """A farewell is not repeated."""
