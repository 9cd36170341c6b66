"""A member of a KIP-848 group, as it knows itself: its state, its epoch, what it is to read and what it reads.

A pure state machine: what the coordinator answers goes in, and the next heartbeat comes out. The coordinator says what
the member is to read; the member gives up what is not in it, takes what is new, and says so with its next heartbeat.

Simplified: the application's callbacks return at once, so that a reconciliation ends in the step that begins it.

source: AbstractMembershipManager.java, ConsumerMembershipManager.java, MemberState.java,
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
"""The states from which each one is entered (MemberState.getPreviousValidStates)."""

Partitions = tuple[tuple[UUID, int], ...]
"""In ascending order."""


class LocalAssignment(NamedTuple):
    """epoch: counts the assignments of this member, on this side alone; -1: it has had none"""

    epoch: int
    partitions: Partitions


NO_ASSIGNMENT = LocalAssignment(-1, ())


class Reconciliation(NamedTuple):
    """What a reconciliation takes from the application, and what it gives it."""

    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


class MembershipManager:
    """owned: what the application reads     target: what it is to read     current: what was last reconciled"""

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
        """topics, pattern: what it subscribes to, by names, or by an expression that the coordinator evaluates"""
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
        """Of the subscription and the assignment: what the coordinator has heard."""
        self._names: dict[UUID, str] = {}
        """Of topics that it reads, where the metadata does not have them any more."""

    @property
    def is_in_group(self) -> bool:
        return self.state in _IN_GROUP

    @property
    def target_topic_ids(self) -> tuple[UUID, ...]:
        """source: SubscriptionState.setAssignedTopicIds"""
        return tuple(dict.fromkeys(topic_id for topic_id, _ in self.target.partitions))

    @property
    def beats_now(self) -> bool:
        """Without waiting for the interval. source: shouldHeartbeatNow"""
        return self.state in (ClientMemberState.ACKNOWLEDGING, ClientMemberState.LEAVING, ClientMemberState.JOINING)

    @property
    def is_silent(self) -> bool:
        """source: shouldSkipHeartbeat"""
        return self.state in (
            ClientMemberState.UNSUBSCRIBED,
            ClientMemberState.FATAL,
            ClientMemberState.STALE,
            ClientMemberState.FENCED,
        )

    def _enter(self, state: ClientMemberState) -> None:
        assert state is self.state or self.state in PREVIOUS[state], f"from {self.state.name} to {state.name}"
        self.state = state

    # ------------------------------------------------------------------------------------------------------ heartbeats

    def join(self) -> None:
        """source: transitionToJoining"""
        self.epoch = JOIN_EPOCH
        self._enter(ClientMemberState.JOINING)
        self.target = NO_ASSIGNMENT
        self._names.clear()

    def heartbeat(self) -> dict[str, object]:
        """The fields of the request; those that the coordinator knows are left out. It is sent with this call.

        source: HeartbeatState.buildRequestData, onHeartbeatRequestGenerated
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
        """assigned: None: what it was. source: onHeartbeatSuccess, processAssignmentReceived"""
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
        """A heartbeat has failed: the next one says everything again. source: HeartbeatState.reset"""
        self._said.clear()

    # -------------------------------------------------------------------------------------------------- reconciliation

    def reconcile(self, name_of: Callable[[UUID], str | None]) -> Reconciliation | None:
        """Give up what is not in the target, take what is new. None: there is nothing to do, or the answer is pending.

        name_of: of a topic, None while the metadata does not have it     source: maybeReconcile, revokeAndAssign
        """
        if self.state is not ClientMemberState.RECONCILING or self.current == self.target:
            return None
        for topic_id, _ in self.target.partitions:
            name = name_of(topic_id)
            if name is not None:
                self._names[topic_id] = name
        known = tuple(one for one in self.target.partitions if one[0] in self._names)
        resolved = LocalAssignment(self.target.epoch, known)
        if resolved == self.current:
            return None  # Differs from Kafka: said once, not with every poll until the metadata has come.
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
            revoked=tuple(one for one in before if one not in self.owned),
            added=tuple(one for one in self.owned if one not in before),
        )

    def has_unnamed(self, name_of: Callable[[UUID], str | None]) -> bool:
        """Whether the metadata lacks a topic that it is to read."""
        return any(name_of(topic_id) is None and topic_id not in self._names for topic_id, _ in self.target.partitions)

    # --------------------------------------------------------------------------------------------------------- the end

    def fence(self) -> None:
        """The coordinator does not know it, or not with this epoch. source: transitionToFenced"""
        if self.state in (ClientMemberState.PREPARE_LEAVING, ClientMemberState.LEAVING):
            self._enter(ClientMemberState.LEAVING)
            self._enter(ClientMemberState.UNSUBSCRIBED)
        elif self.state is not ClientMemberState.UNSUBSCRIBED:
            self._enter(ClientMemberState.FENCED)
            self.epoch = JOIN_EPOCH

    def fail(self) -> tuple[TopicPartition, ...]:
        """For good. returns: what it has read     source: transitionToFatal"""
        self._enter(ClientMemberState.FATAL)
        return self.release()

    def release(self) -> tuple[TopicPartition, ...]:
        """It reads nothing any more. returns: what it has read     source: onPartitionsLost, clearAssignment"""
        lost, self.owned = self.owned, ()
        self.target = self.current = NO_ASSIGNMENT
        self._names.clear()
        return lost

    def leave(self, *, poll_expired: bool = False) -> None:
        """With the next heartbeat. poll_expired: it joins again with the next poll

        source: leaveGroup, transitionToSendingLeaveGroup
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
