"""A member of a group by KIP-848's protocol: heartbeats alone, by which the coordinator gives and takes partitions.

A pattern goes to the coordinator (SubscribedTopicRegex), which finds the topics; the member learns their names from
metadata that it asks for by their ids.

source: ConsumerHeartbeatRequestManager.java, AbstractHeartbeatRequestManager.java, AsyncKafkaConsumer.subscribeToRegex
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
from cluster.protocol.versions import CONSUMER_GROUP_HEARTBEAT
from cluster.topic_pattern import TopicPattern
from replica.errors import RETRIABLE, ErrorCode
from replica.rules import WITH_CONSUMER_GROUPS, Rules

WITH_PATTERN = Allowed(1, SPOKEN[CONSUMER_GROUP_HEARTBEAT].latest)
"""source: ConsumerGroupHeartbeatRequest.Builder.build, REGEX_RESOLUTION_NOT_SUPPORTED_MSG"""
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
OF_MEMBERS = (*FENCED, ErrorCode.STALE_MEMBER_EPOCH)
"""In the answer to an OffsetFetch they end nothing: a heartbeat will tell."""
NO_EPOCH = -1


class HeartbeatMembership(GroupMembership):
    """member: its state, which is apart from all requests"""

    OFFSET_FETCH_ALLOWED: ClassVar[Allowed | None] = Allowed(9, 9)
    """The oldest that names the member."""

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
        """rules: of its era     member_id: made by the client, and the same as long as its process lives (KIP-1082);
        in a preview (3.9) the coordinator makes it
        """
        super().__init__(config, topics, connections, on_assigned, on_revoked)
        if rules.release in WITH_CONSUMER_GROUPS[:-1]:
            member_id = ""
        self.member_id = member_id
        if rules.group_rebalance != "consumer":  # Kafka: UnsupportedVersionException, in the same words.
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
        """Out of the group because its application was slow, it commits without an epoch: that is taken from a group
        that has no members. source: CommitRequestManager.onMemberEpochUpdated
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
        """What the application's poll does: it joins, releases what is lost, and takes what is new."""
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
        values = {"group_id": self._config.group_id, **self.member.heartbeat()}
        answered = self._left if leaves else self._answered
        allowed = None if self._pattern is None else WITH_PATTERN
        self._requests.ask(node_id, CONSUMER_GROUP_HEARTBEAT, values, answered, now_us, allowed=allowed)

    def _left(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        """Whatever it says: the next one joins."""
        self.member.unheard()
        self._beat_us = now_us

    def _answered(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        """source: AbstractHeartbeatRequestManager.onErrorResponse"""
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
        """Only heartbeats say that it is fenced. source: CommitRequestManager.java"""
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
        """It stays what it is, also where its epoch is stale: a heartbeat will tell."""

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


def _partitions(assignment: Any) -> Partitions | None:
    if assignment is None:
        return None
    return tuple(
        sorted((topic.topic_id, int(number)) for topic in assignment.topic_partitions for number in topic.partitions)
    )
