"""A consumer's part in a group, by the classic protocol: it joins, gets partitions, says that it is alive, commits.

One request at a time goes to the group's coordinator. The member that leads a generation assigns by ranges, and all
give up what they have before they join again (eager).

Simplified: a member has no session timeout of its own; it learns from the coordinator that it was given up.

source: ConsumerCoordinator.java, AbstractCoordinator.java, RangeAssignor.java, ConsumerProtocol.java
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from cluster.client.connections import ClientConnections
from cluster.client.coordinators import GROUP, LOOK_AGAIN, Coordinator, CoordinatorRequests
from cluster.config import GroupConsumerConfig
from cluster.protocol.versions import (
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from replica.config import NEVER
from replica.errors import ErrorCode
from replica.ids import UNKNOWN_OFFSET, TopicPartition

JOIN_GROUP_VERSION, SYNC_GROUP_VERSION, HEARTBEAT_VERSION = 7, 5, 4
OFFSET_COMMIT_VERSION, OFFSET_FETCH_VERSION = 8, 7
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
NO_GENERATION, NO_MEMBER_ID = -1, ""
JOIN_ROOM_US = 5_000_000
"""How much longer than the rebalance a member waits for it (JOIN_GROUP_TIMEOUT_LAPSE)."""

Committed = Callable[[ErrorCode], None]


class JoinState(Enum):
    """source: AbstractCoordinator.MemberState"""

    UNJOINED = auto()
    JOINED = auto()
    STABLE = auto()


class GroupMembership:
    """generation, member_id: as the coordinator knows this member     assigned: the partitions that it may read

    may_join: the application polls; a rebalance waits for it, as in Java, where `poll` joins
    on_assigned: takes the committed offset of each partition, -1 for none     on_revoked: called before it joins anew
    """

    def __init__(
        self,
        config: GroupConsumerConfig,
        topic: str,
        connections: ClientConnections,
        on_assigned: Callable[[Mapping[TopicPartition, int]], None],
        on_revoked: Callable[[], None],
    ) -> None:
        self.state = JoinState.UNJOINED
        self.generation = NO_GENERATION
        self.member_id = NO_MEMBER_ID
        self.assigned: tuple[TopicPartition, ...] = ()
        self.may_join = True
        self._config = config
        self._topic = topic
        self._metadata = connections.metadata
        self._coordinator = Coordinator(config.group_id, GROUP)
        self._requests = CoordinatorRequests(connections, config.retry_backoff_ms)
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self.is_fenced = False
        """Another process with its group.instance.id has replaced it: its application can only end."""
        self._rejoins = False
        """The others join already. Until this member does, too, what it has is still its own."""
        self._heartbeat_due_us = 0
        self._assignments: dict[str, bytes] = {}
        """Of the leader: what it has assigned, until the coordinator has it."""
        self._wants_offsets = False
        self._commit: tuple[Mapping[TopicPartition, int], Committed] | None = None

    @property
    def next_deadline_us(self) -> int:
        """When `run_once` has something to do by the passing of time alone."""
        return self._requests.next_deadline_us

    @property
    def instance_id(self) -> str | None:
        return self._config.group_instance_id or None

    def commit(self, offsets: Mapping[TopicPartition, int], committed: Committed) -> None:
        """commitSync. committed: called once with the outcome"""
        self._commit = offsets, committed

    def fetch_committed(self) -> None:
        """Ask again where the group stands; `on_assigned` follows."""
        self._wants_offsets = self.state is JoinState.STABLE

    # ----------------------------------------------------------------------------------------------------- requests

    def run_once(self, now_us: int) -> bool:
        """Send the next request, if one is due. returns: whether it was sent"""
        self._requests.next_deadline_us = NEVER
        if self._requests.in_flight or self.is_fenced:
            return False
        if self._commit is not None and self.state is not JoinState.STABLE:
            (_, committed), self._commit = self._commit, None
            committed(
                ErrorCode.UNKNOWN_MEMBER_ID
            )  # It is known already, so no request is sent (CommitFailedException).
            return True
        ask = self._next(now_us)
        return ask is not None and self._requests.run_once(self._coordinator, ask, now_us)

    def _next(self, now_us: int) -> Callable[[int, int], None] | None:
        if self._commit is not None:
            return self._ask_commit
        if self.may_join and (self.state is JoinState.UNJOINED or self._rejoins):
            if self._metadata.partitions(self._topic):
                return self._join
            self._metadata.request_update()
        if self.state is JoinState.UNJOINED:
            return None
        if self.state is JoinState.JOINED:
            return self._sync
        if self._wants_offsets:
            return self._fetch_offsets
        if now_us >= self._heartbeat_due_us:
            return self._heartbeat
        self._requests.wake_at(self._heartbeat_due_us)
        return None

    def _join(self, node_id: int, now_us: int) -> None:
        """source: sendJoinGroupRequest"""
        self.state, self._rejoins = JoinState.UNJOINED, False
        if self.assigned:
            self.assigned = ()
            self._on_revoked()
        values = {
            "group_id": self._config.group_id,
            "session_timeout": self._config.session_timeout_ms,
            "rebalance_timeout": self._config.max_poll_interval_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": PROTOCOL, "metadata": subscription(self._topic)}],
        }
        timeout_us = self._config.max_poll_interval_ms * 1000 + JOIN_ROOM_US
        self._requests.ask(node_id, JOIN_GROUP, JOIN_GROUP_VERSION, values, self._joined, now_us, timeout_us=timeout_us)

    def _joined(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = str(answer.member_id)
        elif error is ErrorCode.NONE:
            self.state = JoinState.JOINED
            self.member_id, self.generation = str(answer.member_id), int(answer.generation_id)
            self._assignments = {}
            if str(answer.leader) == self.member_id:
                members = [(str(one.group_instance_id or ""), str(one.member_id)) for one in answer.members]
                partitions = self._metadata.partitions(self._topic)
                self._assignments = {
                    member_id: assignment(self._topic, numbers)
                    for member_id, numbers in by_range(members, len(partitions)).items()
                }
        else:
            self._failed(error, now_us)

    def _sync(self, node_id: int, now_us: int) -> None:
        values = {
            **self._me(),
            "generation_id": self.generation,
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": PROTOCOL,
            "assignments": [{"member_id": name, "assignment": data} for name, data in self._assignments.items()],
        }
        self._requests.ask(node_id, SYNC_GROUP, SYNC_GROUP_VERSION, values, self._synced, now_us)

    def _synced(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        if error is not ErrorCode.NONE:
            self._failed(error, now_us)
            return
        self.state = JoinState.STABLE
        self.assigned = tuple(partitions_in(bytes(answer.assignment)))
        self._wants_offsets = bool(self.assigned)
        self._beat_later(now_us)

    def _heartbeat(self, node_id: int, now_us: int) -> None:
        values = {**self._me(), "generation_id": self.generation}
        self._requests.ask(node_id, HEARTBEAT, HEARTBEAT_VERSION, values, self._heartbeat_answered, now_us)

    def _heartbeat_answered(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        self._beat_later(now_us)
        if error is not ErrorCode.NONE:
            self._failed(error, now_us)

    def _beat_later(self, now_us: int) -> None:
        self._heartbeat_due_us = now_us + self._config.heartbeat_interval_ms * 1000

    def _fetch_offsets(self, node_id: int, now_us: int) -> None:
        """Offsets that a transaction may still change are waited for (KIP-447)."""
        topics = [{"name": self._topic, "partition_indexes": [name.partition for name in self.assigned]}]
        values = {"group_id": self._config.group_id, "topics": topics, "require_stable": True}
        self._requests.ask(node_id, OFFSET_FETCH, OFFSET_FETCH_VERSION, values, self._offsets_fetched, now_us)

    def _offsets_fetched(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        found: dict[TopicPartition, int] = {}
        if error is ErrorCode.NONE:
            for topic in answer.topics:
                for part in topic.partitions:
                    error = part.error_code if part.error_code is not ErrorCode.NONE else error
                    found[TopicPartition(str(topic.name), int(part.partition_index))] = int(part.committed_offset)
        if error is ErrorCode.NONE:
            self._wants_offsets = False
            self._on_assigned({name: found.get(name, UNKNOWN_OFFSET) for name in self.assigned})
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
        self._requests.ask(node_id, OFFSET_COMMIT, OFFSET_COMMIT_VERSION, values, self._commit_answered, now_us)

    def _commit_answered(self, answer: Any, error: ErrorCode, now_us: int) -> None:
        """source: OffsetCommitResponseHandler"""
        assert self._commit is not None
        if error is ErrorCode.NONE:
            found = (part.error_code for topic in answer.topics for part in topic.partitions)
            error = next((one for one in found if one is not ErrorCode.NONE), error)
        if error in LOOK_AGAIN or error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._failed(error, now_us)
            return
        (_, committed), self._commit = self._commit, None
        if error is not ErrorCode.NONE:
            self._failed(error, now_us)
        committed(error)

    # ------------------------------------------------------------------------------------------------------ answers

    def _failed(self, error: ErrorCode, now_us: int) -> None:
        """source: JoinGroupResponseHandler, SyncGroupResponseHandler, HeartbeatResponseHandler"""
        if error in LOOK_AGAIN:
            self._coordinator.node_id = None
            self._requests.again(now_us)
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is JoinState.STABLE:
                self._rejoins = True
            else:
                self.state = JoinState.UNJOINED
        elif error is ErrorCode.ILLEGAL_GENERATION:
            self.state, self.generation = JoinState.UNJOINED, NO_GENERATION
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.state, self.generation, self.member_id = JoinState.UNJOINED, NO_GENERATION, NO_MEMBER_ID
        else:
            self._requests.again(now_us)

    def _me(self) -> dict[str, object]:
        return {
            "group_id": self._config.group_id,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }


def by_range(members: Sequence[tuple[str, str]], partitions: int) -> dict[str, list[int]]:
    """Partition numbers by member id. members: (instance id or "", member id)     source: RangeAssignor"""
    order = [member_id for _, member_id in sorted(members, key=lambda one: one[0] or one[1])]
    least, more = divmod(partitions, len(order))
    assigned: dict[str, list[int]] = {}
    first = 0
    for place, member_id in enumerate(order):
        count = least + (place < more)
        assigned[member_id] = list(range(first, first + count))
        first += count
    return assigned


def subscription(topic: str) -> bytes:
    """Version 0 of ConsumerProtocolSubscription: one topic and no user data."""
    name = topic.encode()
    return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)


def assignment(topic: str, numbers: Sequence[int]) -> bytes:
    """Version 0 of ConsumerProtocolAssignment."""
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}s", 0, 1, len(name), name)
    return head + struct.pack(f">i{len(numbers)}ii", len(numbers), *numbers, -1)


def partitions_in(data: bytes) -> list[TopicPartition]:
    """Of an assignment as `assignment` writes it: these clients share a group with each other alone."""
    if not data:
        return []
    _, _, length = struct.unpack_from(">hih", data)
    topic = data[8 : 8 + length].decode()
    (count,) = struct.unpack_from(">i", data, 8 + length)
    return [TopicPartition(topic, number) for number in struct.unpack_from(f">{count}i", data, 12 + length)]
