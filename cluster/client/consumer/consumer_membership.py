"""A group member that uses the consumer protocol (KIP-848), in which heartbeats assign and revoke partitions.

If the member subscribes to a pattern, the coordinator finds the topics (SubscribedTopicRegex), and the member learns
their names by requesting metadata by topic id.

Source: ConsumerHeartbeatRequestManager.java, AbstractHeartbeatRequestManager.java, AsyncKafkaConsumer.subscribeToRegex
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from cluster.client.api_versions import SPOKEN, Allowed
from cluster.client.connections import ClientConnections
from cluster.client.consumer.member_state import ClientMemberState, MembershipManager, Partitions
from cluster.client.consumer.membership import Ask, GroupMembership, OnAssigned, OnRevoked
from cluster.client.coordinators import LOOK_AGAIN, CoordinatorRequests
from cluster.config import GroupConsumerConfig
from cluster.protocol.cold import milliseconds
from cluster.protocol.versions import CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT
from cluster.topic_pattern import TopicPattern
from replica.errors import RETRIABLE, ErrorCode
from replica.ids import TopicPartition
from replica.rules import CONSUMER_GROUPS_SINCE, NEXT_COORDINATOR_SINCE, Rules

WITH_PATTERN = Allowed(1, SPOKEN[CONSUMER_GROUP_HEARTBEAT].latest)
"""Versions of the heartbeat that can carry a pattern.

Source: ConsumerGroupHeartbeatRequest.Builder.build, REGEX_RESOLUTION_NOT_SUPPORTED_MSG
"""
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
OF_MEMBERS = (*FENCED, ErrorCode.STALE_MEMBER_EPOCH)
"""Errors of OffsetFetch after which it is repeated; the next heartbeat renews the member's epoch."""
NO_EPOCH = -1
SHARE_FIELDS = ("member_id", "member_epoch", "rack_id", "subscribed_topic_names")
"""The fields of ShareGroupHeartbeat that a member sets, besides the group id."""


class HeartbeatMembership(GroupMembership):
    """A member that joins, reports its partitions and leaves by heartbeats; `member` is its state machine."""

    HEARTBEAT_API: ClassVar[int] = CONSUMER_GROUP_HEARTBEAT
    OFFSET_FETCH_ALLOWED: ClassVar[Allowed | None] = Allowed(9, 9)
    """The version of OffsetFetch that has the member's id and epoch."""

    def __init__(
        self,
        config: GroupConsumerConfig,
        topics: Sequence[str] | TopicPattern,
        connections: ClientConnections,
        on_assigned: OnAssigned,
        on_revoked: OnRevoked,
        rules: Rules,
        member_id: str,
    ) -> None:
        """Create a member.

        Args:
            rules: rules of the client's Kafka release.
            member_id: id that the client makes and keeps until its process ends (KIP-1082). Ignored in the preview of
                KIP-848 (up to 3.9), where the coordinator makes the id.
        """
        super().__init__(config, topics, connections, on_assigned, on_revoked)
        if CONSUMER_GROUPS_SINCE <= rules.release < NEXT_COORDINATOR_SINCE:
            member_id = ""
        self.member_id = member_id
        if rules.group_rebalance != "consumer":  # The message is that of Kafka's UnsupportedVersionException.
            self.refused = "UNSUPPORTED_VERSION: the cluster does not support group.protocol=consumer"
        self.member = MembershipManager(
            member_id,
            self.instance_id,
            self._named,
            config.max_poll_interval_ms,
            config.group_remote_assignor or None,
            pattern=None if self._pattern is None else self._pattern.text,
        )
        self._beat_us = 0
        self._interval_us = 0

    @property
    def _may_commit(self) -> bool:
        """True if the coordinator accepts a commit now.

        A member that has left because its application was slow may send a commit without an epoch. The coordinator
        accepts this only if the group has no members.
        Source: CommitRequestManager.onMemberEpochUpdated
        """
        return (self.member.is_in_group and self.member.epoch > 0) or self.member.state is ClientMemberState.STALE

    @property
    def _is_member(self) -> bool:
        return self.member.is_in_group

    def _poll_expired(self, now_us: int) -> None:
        self.member.leave(poll_expired=True)
        self.generation = NO_EPOCH

    @property
    def _is_out(self) -> bool:
        return not self._may_commit

    @property
    def _departure(self) -> tuple[CoordinatorRequests, Ask] | None:
        return (self._requests, self._heartbeat) if self.member.state is ClientMemberState.LEAVING else None

    @property
    def _gives_up_next(self) -> bool:
        return self.member.state is ClientMemberState.RECONCILING and self.member.current != self.member.target

    def _leave_now(self) -> None:
        super()._leave_now()
        if self.member.is_in_group:
            self.member.leave()
            self.member.release()

    # ------------------------------------------------------------------------------------------------------- requests

    def _next(self, now_us: int) -> Ask | None:
        if self.may_join:
            self._poll(now_us)
        if self.member.is_silent:
            return None
        if self.member.beats_now:
            return self._heartbeat
        if self._unread:
            return self._fetch_offsets
        if now_us >= self._beat_us:
            return self._heartbeat
        self._requests.wake_at(self._beat_us)
        return None

    def _poll(self, now_us: int) -> None:
        """Do the work of the application's poll: release lost partitions, join, and move to the target assignment."""
        member = self.member
        if member.state in (ClientMemberState.FENCED, ClientMemberState.STALE):
            member.release()
            self._reads_now(())
        if member.state in (ClientMemberState.UNSUBSCRIBED, ClientMemberState.FENCED, ClientMemberState.STALE):
            member.join()
        if not self._commits_first and member.reconcile(self._metadata.topic_name) is not None:
            self._reads_now(member.owned)
            self._has_assignment(now_us)
        if member.has_unnamed(self._metadata.topic_name):
            self._metadata.request_update()

    def _heartbeat(self, node_id: int, now_us: int) -> None:
        self._beat_us = now_us + self._interval_us
        leaves = self.member.state is ClientMemberState.LEAVING
        values = {"group_id": self._config.group_id, **self._said()}
        answered = self._leave_answered if leaves else self._answered
        allowed = None if self._pattern is None else WITH_PATTERN
        self._requests.ask(node_id, self.HEARTBEAT_API, values, answered, now_us, allowed=allowed)

    def _said(self) -> dict[str, object]:
        return self.member.heartbeat()

    def _leave_answered(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        """Make the next heartbeat complete and immediate, whatever the response to the leaving heartbeat is."""
        self.member.unheard()
        self._beat_us = now_us

    def _answered(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        """Handle the response to a heartbeat. Source: AbstractHeartbeatRequestManager.onErrorResponse"""
        if error is ErrorCode.NONE:
            self._interval_us = milliseconds(answer.heartbeat_interval) * 1000
            self.member.answered(str(answer.member_id), int(answer.member_epoch), _partitions(answer.assignment))
            if self.member.is_in_group:
                self.member_id, self.generation = self.member.member_id, self.member.epoch
            if self._pattern is not None:
                self._metadata.topic_ids = self.member.target_topic_ids
            return
        self.member.unheard()
        self._beat_us = now_us
        if error in FENCED:
            self.member.fence()
        else:
            self._failed(error, now_us)

    def _failed(self, error: ErrorCode, now_us: int) -> None:
        """Handle an error: find the coordinator again, retry, or fail permanently. Source: CommitRequestManager.java

        An error about the member's epoch only delays the request; only such an error of a heartbeat fences the member.
        """
        if error in LOOK_AGAIN:
            self._look_again(now_us)
        elif error in RETRIABLE or error in OF_MEMBERS:
            self._requests.again(now_us)
        else:
            self._refused_with(error)
            if self.member.is_in_group:
                self.member.fail()
                self._reads_now(())

    def _commit_refused(self, error: ErrorCode, now_us: int) -> None:
        """Ignore the error: if the epoch was stale, the next heartbeat returns the current one."""

    def _offsets_asked(self, topics: Sequence[Mapping[str, object]]) -> dict[str, object]:
        group = {
            "group_id": self._config.group_id,
            "member_id": self.member_id,
            "member_epoch": self.member.epoch,
            "topics": topics,
        }
        return {"groups": [group]}

    def _offsets_of(self, answer: Any) -> Any:
        return answer.groups[0]


class ShareHeartbeatMembership(HeartbeatMembership):
    """A member of a share group (KIP-932), which has no committed offsets. Source: ShareMembershipManager.java"""

    HEARTBEAT_API = SHARE_GROUP_HEARTBEAT

    def _said(self) -> dict[str, object]:
        found = super()._said()
        if "subscribed_topic_names" in found:
            found["rack_id"] = self._config.client_rack or None
        return {name: value for name, value in found.items() if name in SHARE_FIELDS}

    def _reads_now(self, assigned: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        revoked = super()._reads_now(assigned)
        self._unread = {}
        return revoked


def _partitions(assignment: Any) -> Partitions | None:
    if assignment is None:
        return None
    return tuple(
        sorted((topic.topic_id, int(number)) for topic in assignment.topic_partitions for number in topic.partitions)
    )
