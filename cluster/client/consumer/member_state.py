"""The state machine of a KIP-848 group member: its state, its epoch, its target and its current partitions.

The inputs are the coordinator's responses, and the output is the next heartbeat. The coordinator sets the target
assignment; the member revokes partitions that are not in it, takes new ones, and reports this in its next heartbeat.

Simplified: the application's callbacks return immediately, so a reconciliation ends in the step that begins it.

Source: AbstractMembershipManager.java, ConsumerMembershipManager.java, MemberState.java,
ConsumerHeartbeatRequestManager.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from replica.ids import TopicPartition

JOIN_EPOCH, LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH = 0, -1, -2


class ClientMemberState(Enum):
    UNSUBSCRIBED = auto()
    JOINING = auto()
    RECONCILING = auto()
    ACKNOWLEDGING = auto()
    STABLE = auto()
    FENCED = auto()
    PREPARE_LEAVING = auto()
    LEAVING = auto()
    FATAL = auto()
    STALE = auto()


_S = ClientMemberState

_IN_GROUP = (_S.JOINING, _S.STABLE, _S.RECONCILING, _S.ACKNOWLEDGING)
PREVIOUS: Mapping[ClientMemberState, tuple[ClientMemberState, ...]] = {
    _S.STABLE: (_S.JOINING, _S.ACKNOWLEDGING, _S.RECONCILING),
    _S.RECONCILING: (_S.STABLE, _S.JOINING, _S.ACKNOWLEDGING, _S.RECONCILING),
    _S.ACKNOWLEDGING: (_S.RECONCILING,),
    _S.FATAL: (*_IN_GROUP, _S.PREPARE_LEAVING, _S.LEAVING, _S.UNSUBSCRIBED),
    _S.FENCED: (*_IN_GROUP, _S.PREPARE_LEAVING, _S.LEAVING),
    _S.JOINING: (_S.FENCED, _S.UNSUBSCRIBED, _S.STALE),
    _S.PREPARE_LEAVING: (*_IN_GROUP, _S.UNSUBSCRIBED),
    _S.LEAVING: (_S.PREPARE_LEAVING,),
    _S.UNSUBSCRIBED: (_S.PREPARE_LEAVING, _S.LEAVING, _S.FENCED),
    _S.STALE: (_S.LEAVING,),
}
"""The states from which each state can be entered (MemberState.getPreviousValidStates)."""

Partitions = tuple[tuple[UUID, int], ...]
"""(topic id, partition) pairs in ascending order."""


class LocalAssignment(NamedTuple):
    """An assignment, numbered by the member itself: `epoch` is 0 for the first one and -1 for none."""

    epoch: int
    partitions: Partitions


NO_ASSIGNMENT = LocalAssignment(-1, ())


class Reconciliation(NamedTuple):
    """The partitions that a reconciliation revokes and adds."""

    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


class MembershipManager:
    """A member's state, epoch and partitions.

    Attributes:
        owned: partitions that the application reads.
        target: newest assignment from the coordinator.
        current: last assignment that the member has moved to.
    """

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        topics: Sequence[str],
        rebalance_timeout_ms: int,
        assignor: str | None,
        *,
        pattern: str | None = None,
    ) -> None:
        """Create a member that subscribes to topics by name, or by a pattern that the coordinator evaluates."""
        self.state = ClientMemberState.UNSUBSCRIBED
        self.member_id = member_id
        self.instance_id = instance_id
        self.epoch = JOIN_EPOCH
        self.owned: tuple[TopicPartition, ...] = ()
        self.target = NO_ASSIGNMENT
        self.current = NO_ASSIGNMENT
        self._poll_expired = False
        self._subscription: dict[str, object] = {
            "rebalance_timeout": rebalance_timeout_ms,
            "subscribed_topic_names": sorted(topics),
            "subscribed_topic_regex": pattern,
            "server_assignor": assignor,
        }
        self._said: dict[str, object] = {}
        """The last sent value of each field that heartbeats repeat only if it has changed."""
        self._names: dict[UUID, str] = {}
        """Names of assigned topics by id; they are kept because newer metadata may lack them."""

    @property
    def is_in_group(self) -> bool:
        return self.state in _IN_GROUP

    @property
    def target_topic_ids(self) -> tuple[UUID, ...]:
        """The ids of the topics in the target. Source: SubscriptionState.setAssignedTopicIds"""
        return tuple(dict.fromkeys(topic_id for topic_id, _ in self.target.partitions))

    @property
    def beats_now(self) -> bool:
        """True if the next heartbeat must not wait for the interval. Source: shouldHeartbeatNow"""
        return self.state in (ClientMemberState.ACKNOWLEDGING, ClientMemberState.LEAVING, ClientMemberState.JOINING)

    @property
    def is_silent(self) -> bool:
        """True in states without heartbeats. Source: shouldSkipHeartbeat"""
        return self.state in (
            ClientMemberState.UNSUBSCRIBED,
            ClientMemberState.FATAL,
            ClientMemberState.STALE,
            ClientMemberState.FENCED,
        )

    def _enter(self, state: ClientMemberState) -> None:
        assert state is self.state or self.state in PREVIOUS[state], (
            f"a member cannot change from {self.state.name} to {state.name}"
        )
        self.state = state

    # ------------------------------------------------------------------------------------------------------ heartbeats

    def join(self) -> None:
        """Start joining the group. Source: transitionToJoining"""
        self.epoch = JOIN_EPOCH
        self._enter(ClientMemberState.JOINING)
        self.target = NO_ASSIGNMENT
        self._names.clear()

    def heartbeat(self) -> dict[str, object]:
        """Return the fields of a heartbeat that is sent now, and enter the state that follows the sending.

        Fields that have not changed since they were sent are left out.
        Source: HeartbeatState.buildRequestData, onHeartbeatRequestGenerated
        """
        fields: dict[str, object] = {"member_id": self.member_id, "member_epoch": self.epoch}
        if self.instance_id is not None:
            fields["instance_id"] = self.instance_id
        says_all = self.state is ClientMemberState.JOINING
        for name, value in self._subscription.items():
            if value is not None and (says_all or self._said.get(name) != value):
                fields[name] = self._said[name] = value
        if says_all or self._said.get("current") != self.current:
            fields["topic_partitions"] = _by_topic(self.current.partitions)
            self._said["current"] = self.current
        if self.state is ClientMemberState.ACKNOWLEDGING:
            self._enter(ClientMemberState.STABLE if self.current == self.target else ClientMemberState.RECONCILING)
        elif self.state is ClientMemberState.LEAVING:
            self._enter(ClientMemberState.STALE if self._poll_expired else ClientMemberState.UNSUBSCRIBED)
        return fields

    def answered(self, member_id: str, epoch: int, assigned: Partitions | None) -> None:
        """Apply a heartbeat response; `assigned` is None if the assignment is unchanged.

        Source: onHeartbeatSuccess, processAssignmentReceived
        """
        if not self.is_in_group:
            return
        self.member_id, self.epoch = member_id, epoch
        if assigned is None:
            return
        if self.target.epoch < 0 or assigned != self.target.partitions:
            self.target = LocalAssignment(self.target.epoch + 1, assigned)
        if self.current != self.target:
            self._enter(ClientMemberState.RECONCILING)
        elif self.state in (ClientMemberState.RECONCILING, ClientMemberState.JOINING):
            self._enter(ClientMemberState.STABLE)

    def unheard(self) -> None:
        """Make the next heartbeat send all fields, because the last one failed. Source: HeartbeatState.reset"""
        self._said.clear()

    # -------------------------------------------------------------------------------------------------- reconciliation

    def reconcile(self, name_of: Callable[[UUID], str | None]) -> Reconciliation | None:
        """Revoke partitions that are not in the target, and take its new ones; return None if no partition changes.

        Args:
            name_of: returns a topic's name by id, None if the metadata does not have it.

        Source: maybeReconcile, revokeAndAssign
        """
        if self.state is not ClientMemberState.RECONCILING or self.current == self.target:
            return None
        for topic_id, _ in self.target.partitions:
            name = name_of(topic_id)
            if name is not None:
                self._names[topic_id] = name
        known = tuple(partition for partition in self.target.partitions if partition[0] in self._names)
        resolved = LocalAssignment(self.target.epoch, known)
        if resolved == self.current:
            return None  # Differs from Kafka: reported once, not with every poll until the metadata has the topics.
        if self.current.epoch >= 0 and known == self.current.partitions:
            self.current = resolved
            self._enter(ClientMemberState.ACKNOWLEDGING)
            return None
        before = self.owned
        self.owned = tuple(sorted(TopicPartition(self._names[topic_id], number) for topic_id, number in known))
        self._names = {topic_id: self._names[topic_id] for topic_id, _ in known}
        self.current = resolved
        self._enter(ClientMemberState.ACKNOWLEDGING)
        return Reconciliation(
            revoked=tuple(item for item in before if item not in self.owned),
            added=tuple(item for item in self.owned if item not in before),
        )

    def has_unnamed(self, name_of: Callable[[UUID], str | None]) -> bool:
        """Return True if a topic in the target has no known name."""
        return any(name_of(topic_id) is None and topic_id not in self._names for topic_id, _ in self.target.partitions)

    # --------------------------------------------------------------------------------------------------------- the end

    def fence(self) -> None:
        """Apply FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID: the group has removed this member.

        Source: transitionToFenced
        """
        if self.state in (ClientMemberState.PREPARE_LEAVING, ClientMemberState.LEAVING):
            self._enter(ClientMemberState.LEAVING)
            self._enter(ClientMemberState.UNSUBSCRIBED)
        elif self.state is not ClientMemberState.UNSUBSCRIBED:
            self._enter(ClientMemberState.FENCED)
            self.epoch = JOIN_EPOCH

    def fail(self) -> tuple[TopicPartition, ...]:
        """Enter the state FATAL, release all partitions and return them. Source: transitionToFatal"""
        self._enter(ClientMemberState.FATAL)
        return self.release()

    def release(self) -> tuple[TopicPartition, ...]:
        """Release all partitions and return them. Source: onPartitionsLost, clearAssignment"""
        lost, self.owned = self.owned, ()
        self.target = self.current = NO_ASSIGNMENT
        self._names.clear()
        return lost

    def leave(self, *, poll_expired: bool = False) -> None:
        """Leave the group with the next heartbeat. Source: leaveGroup, transitionToSendingLeaveGroup

        Args:
            poll_expired: True if the application was too slow; the member joins again at the next poll.
        """
        self._poll_expired = poll_expired
        self._enter(ClientMemberState.PREPARE_LEAVING)
        self.epoch = LEAVE_EPOCH if self.instance_id is None else LEAVE_FOR_A_WHILE_EPOCH
        self.current = NO_ASSIGNMENT
        self._enter(ClientMemberState.LEAVING)


def _by_topic(partitions: Partitions) -> list[dict[str, object]]:
    found: dict[UUID, list[int]] = {}
    for topic_id, number in partitions:
        found.setdefault(topic_id, []).append(number)
    return [{"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in found.items()]
