"""A consumer's part in a group, whichever protocol it speaks: where the group stands, what it commits, its coordinator.

Commits go to the group's coordinator beside its other requests, one at a time of each.

source: AbstractCoordinator.java, ConsumerCoordinator.java, CommitRequestManager.java
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from cluster.client.api_versions import Allowed
from cluster.client.connections import ClientConnections
from cluster.client.consumer.auto_commit import AutoCommit, ignore
from cluster.client.coordinators import GROUP, LOOK_AGAIN, Coordinator, CoordinatorRequests
from cluster.config import GroupConsumerConfig
from cluster.protocol.versions import OFFSET_COMMIT, OFFSET_FETCH
from cluster.topic_pattern import TopicPattern
from replica.config import NEVER
from replica.errors import ErrorCode
from replica.ids import UNKNOWN_OFFSET, TopicPartition
from replica.wording import shown

Committed = Callable[[ErrorCode], None]
OnAssigned = Callable[[Mapping[TopicPartition, int]], None]
OnRevoked = Callable[[Sequence[TopicPartition]], None]
Ask = Callable[[int, int], None]
"""Sends a request to the coordinator: (node id, now_us)"""


class GroupMembership(ABC):
    """generation, member_id: as the coordinator knows this member     assigned: the partitions that it may read

    topics: those that it subscribes to, or a pattern of their names
    may_join: the application polls; a rebalance waits for it, as in Java, where `poll` joins. If it does not poll for
        max.poll.interval.ms, the member leaves its group until it does
    on_assigned: takes the committed offset of each new partition, -1 for none
    on_revoked: the partitions are no longer this member's
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
        """Beside the others: in Java a thread of its own sends the heartbeats, and a commit waits for none."""
        self.refused = ""
        """Why its application can only end, as where another process has its group.instance.id; empty: it goes on"""
        self.has_left = False
        """Its coordinator has answered, or cannot be asked: nothing more is sent."""
        self._is_leaving = self._has_asked_to_leave = False
        self._unread: dict[TopicPartition, None] = {}
        """Partitions of which it has still to ask where the group stands."""
        self._commit: tuple[Mapping[TopicPartition, int], Committed] | None = None
        self.auto_commit: AutoCommit | None = None
        self.on_committed: Callable[[Mapping[TopicPartition, int]], None] = _no_interceptor
        """The coordinator has taken these offsets."""
        self._is_closing = False
        self._polled_us = 0
        """When the application last was in `poll`."""
        self.on_commit_failed: Callable[[], None] = _unstated
        """It is out of its group, so that no request is sent."""

    # ------------------------------------------------------------------------------------------------ of each protocol

    @property
    @abstractmethod
    def _may_commit(self) -> bool:
        """The coordinator takes a commit now."""

    @property
    @abstractmethod
    def _is_out(self) -> bool:
        """What it reads is no longer its own: no commit can succeed."""

    @property
    @abstractmethod
    def _gives_up_next(self) -> bool:
        """A rebalance waits for it, and may take partitions away from it."""

    @property
    @abstractmethod
    def _is_member(self) -> bool:
        """It is part of the group, so far as it knows."""

    @abstractmethod
    def _poll_expired(self, now_us: int) -> None:
        """The application has not polled for max.poll.interval.ms: it leaves the group."""

    @abstractmethod
    def _next(self, now_us: int) -> Ask | None:
        """The request that is due, if no commit is."""

    @property
    @abstractmethod
    def _departure(self) -> tuple[CoordinatorRequests, Ask] | None:
        """The request by which it leaves; None: it is in no group, or leaves it without a word."""

    @abstractmethod
    def _failed(self, error: ErrorCode, now_us: int) -> None:
        """A request was refused, or not answered."""

    @abstractmethod
    def _offsets_asked(self, topics: Sequence[Mapping[str, object]]) -> dict[str, object]:
        """The fields of an OffsetFetch."""

    @abstractmethod
    def _offsets_of(self, answer: Any) -> Any:
        """The group's part of the answer to it."""

    @property
    def _topics(self) -> tuple[str, ...]:
        """Those it subscribes to now, in ascending order. source: ConsumerCoordinator.updatePatternSubscription"""
        if self._pattern is None:
            return self._named
        names = self._metadata.topic_names(internal=not self._config.exclude_internal_topics)
        return tuple(name for name in names if self._pattern.matches(name))

    # ---------------------------------------------------------------------------------------------------- application

    @property
    def next_deadline_us(self) -> int:
        """When `run_once` has something to do by the passing of time alone."""
        return min(self._requests.next_deadline_us, self._commits.next_deadline_us)

    @property
    def instance_id(self) -> str | None:
        return self._config.group_instance_id or None

    def commit(self, offsets: Mapping[TopicPartition, int], committed: Committed) -> None:
        """commitSync. committed: called once with the outcome"""
        self._commit = offsets, committed

    def fetch_committed(self) -> None:
        """Ask again where the group stands; `on_assigned` follows."""
        self._unread = dict.fromkeys(self.assigned)

    def leave(self) -> None:
        """It reads nothing any more, and asks its coordinator once to take it out of the group, if it knows it.

        With enable.auto.commit it first commits how far it has come.

        source: AbstractCoordinator.maybeLeaveGroup, AbstractMembershipManager.leaveGroup, ConsumerCoordinator.close
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
        self.refused = f"the coordinator of group {shown(self._config.group_id)} answers {error.name}"

    def run_once(self, now_us: int) -> bool:
        """Send the next request, if one is due. returns: whether it was sent"""
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
            # It is known already, so no request is sent (CommitFailedException).
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
        """source: AbstractCoordinator.HeartbeatThread, AbstractHeartbeatRequestManager.poll"""
        if self.may_join:
            self._polled_us = now_us
        elif self._is_member:
            due_us = self._polled_us + self._config.max_poll_interval_ms * 1000
            if now_us >= due_us:
                self._poll_expired(now_us)
            else:
                self._commits.wake_at(due_us)

    def _commit_by_itself(self, auto: AutoCommit, now_us: int) -> None:
        """With the interval, for a rebalance, or at the end; one commit at a time."""
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
        """A rebalance waits until it is committed how far the member has come. source: onJoinPrepare"""
        return self.auto_commit is not None and self._commit is not None and self._may_commit

    def _has_assignment(self, now_us: int) -> None:
        if self.auto_commit is not None:
            self.auto_commit.restart(now_us)

    def _depart(self, now_us: int) -> bool:
        departure = self._departure
        if self._has_asked_to_leave or departure is None or self._coordinator.node_id is None:
            self._has_asked_to_leave = True  # There is nothing to ask for, or it is not known where.
            self.has_left = not (self._requests.in_flight or self._commits.in_flight)
            return False
        requests, ask = departure
        self._has_asked_to_leave = requests.run_once(self._coordinator, ask, now_us)
        return self._has_asked_to_leave or self._coordinator.node_id is None

    def _fetch_offsets(self, node_id: int, now_us: int) -> None:
        """Offsets that a transaction may still change are waited for (KIP-447), where the version knows of them.

        source: OffsetFetchRequest.Builder.build
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
            one = {"partition_index": name.partition, "committed_offset": offset, "committed_metadata": ""}
            topics.setdefault(name.topic, []).append(one)
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
        """source: OffsetCommitResponseHandler"""
        assert self._commit is not None
        if error is ErrorCode.NONE:
            found = (part.error_code for topic in answer.topics for part in topic.partitions)
            error = next((one for one in found if one is not ErrorCode.NONE), error)
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
        """It has these partitions and no others. returns: those that it has had to give up"""
        before, self.assigned = self.assigned, assigned
        revoked = tuple(one for one in before if one not in assigned)
        self._unread = {one: None for one in assigned if one in self._unread or one not in before}
        if revoked:
            self._on_revoked(revoked)
        return revoked

    def _look_again(self, now_us: int) -> None:
        """The coordinator may be another one by now."""
        self._coordinator.node_id = None
        self._requests.again(now_us)

    def _me(self) -> dict[str, object]:
        return {
            "group_id": self._config.group_id,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }


def _no_interceptor(offsets: Mapping[TopicPartition, int]) -> None:
    """No interceptor is there."""


def _unstated() -> None:
    """No listener is there."""
