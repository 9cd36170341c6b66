"""A consumer's membership in a group: the part that both group protocols share, and the commits of offsets.

At most one commit and one other request are in flight at the same time.
Source: AbstractCoordinator.java, ConsumerCoordinator.java, CommitRequestManager.java
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from cluster.client.api_versions import Allowed
from cluster.client.connections import ClientConnections
from cluster.client.coordinators import GROUP, LOOK_AGAIN, Coordinator, CoordinatorRequests
from cluster.config import GroupConsumerConfig
from cluster.protocol.versions import OFFSET_COMMIT, OFFSET_FETCH
from cluster.topic_pattern import TopicPattern
from replica.config import NEVER
from replica.errors import ErrorCode
from replica.ids import UNKNOWN_OFFSET, Offset, TopicPartition
from replica.wording import shown

Committed = Callable[[ErrorCode], None]
OnAssigned = Callable[[Mapping[TopicPartition, int]], None]
OnRevoked = Callable[[Sequence[TopicPartition]], None]
Ask = Callable[[int, int], None]
"""A function of (node id, now_us) that sends a request to the coordinator."""


class GroupMembership(ABC):
    """The part of a group member that both protocols share.

    Args:
        topics: topics of the subscription, or a pattern of their names.
        on_assigned: called with the committed offset of each new partition, -1 if there is none.
        on_revoked: called with partitions that this member has lost.

    Attributes:
        generation: generation or member epoch from the coordinator.
        member_id: the member's id, "" if it has none.
        assigned: partitions that the member may read.
        may_join: True while the application polls; the member joins a rebalance only then, as in Java's `poll`. After
            max.poll.interval.ms without a poll, the member leaves its group until the next poll.
    """

    OFFSET_FETCH_ALLOWED: ClassVar[Allowed | None] = None

    def __init__(
        self,
        config: GroupConsumerConfig,
        topics: Sequence[str] | TopicPattern,
        connections: ClientConnections,
        on_assigned: OnAssigned,
        on_revoked: OnRevoked,
    ) -> None:
        self.generation = -1
        self.member_id = ""
        self.assigned: tuple[TopicPartition, ...] = ()
        self.may_join = True
        self._config = config
        self._pattern = topics if isinstance(topics, TopicPattern) else None
        self._named = () if isinstance(topics, TopicPattern) else tuple(sorted(topics))
        self._metadata = connections.metadata
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._coordinator = Coordinator(config.group_id, GROUP, is_apart=True)
        self._requests = CoordinatorRequests(connections, config.retry_backoff_ms)
        self._commits = CoordinatorRequests(connections, config.retry_backoff_ms)
        """Commits, which do not wait for other requests, as in Java, where heartbeats have a separate thread."""
        self.refused = ""
        """The error that ends the application, for example a fenced group.instance.id; empty if there is none."""
        self.has_left = False
        """True if the member has left and no request is in flight."""
        self._is_leaving = self._has_asked_to_leave = False
        self._unread: dict[TopicPartition, None] = {}
        """Partitions whose committed offset has not been fetched yet."""
        self._commit: tuple[Mapping[TopicPartition, int], Committed] | None = None
        self.auto_commit: AutoCommit | None = None
        self.on_committed: Callable[[Mapping[TopicPartition, int]], None] = _no_interceptor
        """Called with committed offsets after the coordinator has stored them."""
        self._is_closing = False
        self._polled_us = 0
        """The time at which the application was last in `poll`."""
        self.on_commit_failed: Callable[[], None] = _unstated
        """Called when a commit fails because the group has removed the member."""

    # ------------------------------------------------------------------------------------------------ of each protocol

    @property
    @abstractmethod
    def _may_commit(self) -> bool:
        """True if the coordinator accepts a commit now."""

    @property
    @abstractmethod
    def _is_out(self) -> bool:
        """True if the member has lost its partitions and so cannot commit."""

    @property
    @abstractmethod
    def _gives_up_next(self) -> bool:
        """True if a rebalance waits for this member and may revoke its partitions."""

    @property
    @abstractmethod
    def _is_member(self) -> bool:
        """True if the member believes that it is in the group."""

    @abstractmethod
    def _poll_expired(self, now_us: int) -> None:
        """Leave the group because the application has not polled for max.poll.interval.ms."""

    @abstractmethod
    def _next(self, now_us: int) -> Ask | None:
        """Return the next request that is due, other than a commit; None if none is due."""

    @property
    @abstractmethod
    def _departure(self) -> tuple[CoordinatorRequests, Ask] | None:
        """The request to leave the group and its channel; None if the member need not send one."""

    @abstractmethod
    def _failed(self, error: ErrorCode, now_us: int) -> None:
        """Handle an error response to a request, or the error of a request without a response."""

    @abstractmethod
    def _offsets_asked(self, topics: Sequence[Mapping[str, object]]) -> dict[str, object]:
        """Return the fields of an OffsetFetch request."""

    @abstractmethod
    def _offsets_of(self, answer: Any) -> Any:
        """Return the group's part of an OffsetFetch response."""

    @property
    def _topics(self) -> tuple[str, ...]:
        """The current topics of the subscription in ascending order (ConsumerCoordinator.updatePatternSubscription)."""
        if self._pattern is None:
            return self._named
        names = self._metadata.topic_names(internal=not self._config.exclude_internal_topics)
        return tuple(name for name in names if self._pattern.matches(name))

    # ---------------------------------------------------------------------------------------------------- application

    @property
    def next_deadline_us(self) -> int:
        """The time at which to call `run_once` if no other event comes first."""
        return min(self._requests.next_deadline_us, self._commits.next_deadline_us)

    @property
    def instance_id(self) -> str | None:
        return self._config.group_instance_id or None

    def commit(self, offsets: Mapping[TopicPartition, int], committed: Committed) -> None:
        """Commit offsets (commitSync), and call `committed` once with the error or NONE."""
        self._commit = offsets, committed

    def fetch_committed(self) -> None:
        """Fetch the committed offsets again, and call `on_assigned` with them."""
        self._unread = dict.fromkeys(self.assigned)

    def leave(self) -> None:
        """Stop reading and leave the group, with a single attempt; with enable.auto.commit, commit first.

        Source: AbstractCoordinator.maybeLeaveGroup, AbstractMembershipManager.leaveGroup, ConsumerCoordinator.close
        """
        if self.auto_commit is not None and not self.refused:
            self._is_closing = True
        else:
            self._leave_now()

    def _leave_now(self) -> None:
        self._is_leaving = True
        self._reads_now(())

    # ------------------------------------------------------------------------------------------------------- requests

    def _refused_with(self, error: ErrorCode) -> None:
        self.refused = f"the coordinator of group {shown(self._config.group_id)} answered {error.name}"

    def run_once(self, now_us: int) -> bool:
        """Send the next request if one is due, and return True if it was sent."""
        self._requests.next_deadline_us = self._commits.next_deadline_us = NEVER
        if self.auto_commit is not None:
            self._commit_by_itself(self.auto_commit, now_us)
        if self._is_leaving:
            return self._depart(now_us)
        if self.refused:
            return False
        self._look_at_polls(now_us)
        if self._commit is not None and self._is_out and not self._commits.in_flight:
            (_, committed), self._commit = self._commit, None
            # The failure is certain, so no request is sent (CommitFailedException).
            self.on_commit_failed()
            committed(ErrorCode.UNKNOWN_MEMBER_ID)
            return True
        commits = self._commit is not None and self._may_commit
        if commits and self._commits.run_once(self._coordinator, self._ask_commit, now_us):
            return True
        if self._is_closing:
            return False
        ask = None if self._requests.in_flight else self._next(now_us)
        return ask is not None and self._requests.run_once(self._coordinator, ask, now_us)

    def _look_at_polls(self, now_us: int) -> None:
        """Leave the group if the application has not polled in time.

        Source: AbstractCoordinator.HeartbeatThread, AbstractHeartbeatRequestManager.poll
        """
        if self.may_join:
            self._polled_us = now_us
        elif self._is_member:
            due_us = self._polled_us + self._config.max_poll_interval_ms * 1000
            if now_us >= due_us:
                self._poll_expired(now_us)
            else:
                self._commits.wake_at(due_us)

    def _commit_by_itself(self, auto: AutoCommit, now_us: int) -> None:
        """Begin an automatic commit if one is due: after each interval, before a rebalance, or on closing.

        Nothing is begun while another commit has not ended.
        """
        if self._commit is not None or self._is_leaving:
            return
        if not self._gives_up_next:
            auto.has_prepared = False
        if self._is_closing:
            if auto.has_closed or not self._may_commit:
                self._leave_now()
                return
            auto.has_closed = True
        elif not (self._may_commit and self.may_join):
            return
        elif self._gives_up_next and not auto.has_prepared:
            auto.has_prepared = True
        elif now_us < auto.due_us:
            self._commits.wake_at(auto.due_us)
            return
        auto.restart(now_us)
        self._commits.wake_at(auto.due_us)
        offsets = auto.consumed()
        if offsets:
            self._commit = offsets, ignore
        elif self._is_closing:
            self._leave_now()

    @property
    def _commits_first(self) -> bool:
        """True if a rebalance has to wait for the end of an automatic commit. Source: onJoinPrepare"""
        return self.auto_commit is not None and self._commit is not None and self._may_commit

    def _has_assignment(self, now_us: int) -> None:
        if self.auto_commit is not None:
            self.auto_commit.restart(now_us)

    def _depart(self, now_us: int) -> bool:
        departure = self._departure
        if self._has_asked_to_leave or departure is None or self._coordinator.node_id is None:
            self._has_asked_to_leave = True  # There is no request to send, or the coordinator is unknown.
            self.has_left = not (self._requests.in_flight or self._commits.in_flight)
            return False
        requests, ask = departure
        self._has_asked_to_leave = requests.run_once(self._coordinator, ask, now_us)
        return self._has_asked_to_leave or self._coordinator.node_id is None

    def _fetch_offsets(self, node_id: int, now_us: int) -> None:
        """Fetch committed offsets, waiting for open transactions if the version supports that (KIP-447).

        Source: OffsetFetchRequest.Builder.build
        """
        asked = tuple(self._unread)
        numbers: dict[str, list[int]] = {}
        for name in asked:
            numbers.setdefault(name.topic, []).append(name.partition)
        topics = [{"name": topic, "partition_indexes": of_topic} for topic, of_topic in numbers.items()]
        values = {**self._offsets_asked(topics), "require_stable": True}

        def answered(answer: Any, error: ErrorCode, answered_us: int) -> None:
            self._offsets_fetched(asked, answer, error, answered_us)

        self._requests.ask(node_id, OFFSET_FETCH, values, answered, now_us, allowed=self.OFFSET_FETCH_ALLOWED)

    def _offsets_fetched(self, asked: Sequence[TopicPartition], answer: Any, error: ErrorCode, now_us: int) -> None:
        found: dict[TopicPartition, int] = {}
        if error is ErrorCode.NONE:
            of_group = self._offsets_of(answer)
            error = getattr(of_group, "error_code", error)
            for topic in of_group.topics:
                for part in topic.partitions:
                    error = part.error_code if part.error_code is not ErrorCode.NONE else error
                    found[TopicPartition(str(topic.name), int(part.partition_index))] = int(part.committed_offset)
        if error is ErrorCode.NONE:
            known = {name: found.get(name, UNKNOWN_OFFSET) for name in asked if name in self._unread}
            self._unread = {name: None for name in self._unread if name not in known}
            self._on_assigned(known)
        elif error is ErrorCode.UNSTABLE_OFFSET_COMMIT:
            self._requests.again(now_us)
        else:
            self._failed(error, now_us)

    def _ask_commit(self, node_id: int, now_us: int) -> None:
        assert self._commit is not None
        topics: dict[str, list[dict[str, object]]] = {}
        for name, offset in self._commit[0].items():
            item = {"partition_index": name.partition, "committed_offset": offset, "committed_metadata": ""}
            topics.setdefault(name.topic, []).append(item)
        values = {
            **self._me(),
            "generation_id_or_member_epoch": self.generation,
            "topics": [{"name": topic, "partitions": parts} for topic, parts in topics.items()],
        }
        asked = self.member_id, self.generation

        def answered(answer: Any, error: ErrorCode, answered_us: int) -> None:
            self._commit_answered(asked, answer, error, answered_us)

        self._commits.ask(node_id, OFFSET_COMMIT, values, answered, now_us)

    def _commit_answered(self, asked: tuple[str, int], answer: Any, error: ErrorCode, now_us: int) -> None:
        """Handle the response to a commit that was sent with (member id, generation) `asked`.

        Source: OffsetCommitResponseHandler
        """
        assert self._commit is not None
        if error is ErrorCode.NONE:
            found = (part.error_code for topic in answer.topics for part in topic.partitions)
            error = next((item for item in found if item is not ErrorCode.NONE), error)
        if error in LOOK_AGAIN or error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._failed(error, now_us)
            self._commits.again(now_us)
            return
        (offsets, committed), self._commit = self._commit, None
        if error is ErrorCode.NONE:
            self.on_committed(offsets)
        if error is not ErrorCode.NONE and asked == (self.member_id, self.generation):
            self._commit_refused(error, now_us)
        committed(error)

    def _commit_refused(self, error: ErrorCode, now_us: int) -> None:
        self._failed(error, now_us)

    def _reads_now(self, assigned: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        """Set the member's partitions, and return those that were revoked."""
        before, self.assigned = self.assigned, assigned
        revoked = tuple(item for item in before if item not in assigned)
        self._unread = {item: None for item in assigned if item in self._unread or item not in before}
        if revoked:
            self._on_revoked(revoked)
        return revoked

    def _look_again(self, now_us: int) -> None:
        self._coordinator.node_id = None
        self._requests.again(now_us)

    def _me(self) -> dict[str, object]:
        return {
            "group_id": self._config.group_id,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }


def _no_interceptor(offsets: Mapping[TopicPartition, int]) -> None:
    """Do nothing: the default without interceptors."""


def _unstated() -> None:
    """Do nothing: the default without a listener."""


# ---------------------------------------------------------------------------------------------------------- auto commit
#
# With enable.auto.commit, a member commits in `poll` after each auto.commit.interval.ms, before a rebalance revokes
# partitions, and when it closes. It commits the offsets where the next poll begins: records that earlier polls returned
# count as processed, even if the application has not processed them. Between polls, nothing is committed.
#
# Simplified: a failed commit is repeated with the same offsets; Java makes a new commit after retry.backoff.ms.
#
# Source: ConsumerCoordinator.maybeAutoCommitOffsetsAsync, onJoinPrepare, close; CommitRequestManager.AutoCommitState.


Consumed = Callable[[], Mapping[TopicPartition, Offset]]


class AutoCommit:
    """The state of enable.auto.commit.

    Args:
        consumed: returns the application's position in each partition that the member reads (allConsumed).
    """

    def __init__(self, interval_ms: int, consumed: Consumed) -> None:
        self.consumed = consumed
        self.due_us = 0
        self.has_prepared = False
        """True if the member has committed for the current rebalance."""
        self.has_closed = False
        """True if the member has begun its last commit, on closing."""
        self._interval_us = interval_ms * 1000

    def restart(self, now_us: int) -> None:
        """Restart the interval; called at each commit and each assignment."""
        self.due_us = now_us + self._interval_us


def ignore(error: ErrorCode) -> None:
    """Ignore the error of an automatic commit, which Kafka only logs."""
