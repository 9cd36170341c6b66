"""One classic group: its members, its state, and the allowed transitions. Source: GroupMetadata.scala"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from cluster.clocks import Timer
from cluster.coordinators.core import RequestId
from cluster.groups.state.offsets import GroupOffsets
from cluster.protocol.consumer_protocol import CONSUMER, subscribed_topics

CLASSIC = "classic"


class State(Enum):
    """The state of a group, with Kafka's names as in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_COMES_FROM: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    State.PREPARING_REBALANCE: frozenset({State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY}),
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    State.DEAD: frozenset(State),
}


class Group:
    """A classic group.

    Members are in the order in which they joined. Where Kafka takes any member from a hash table, this class takes the
    first member.

    Attributes:
        static_members: member id by group.instance.id (KIP-345).
        pending_members: timers by member id, for ids that were assigned and have not joined yet (KIP-394).
        pending_sync: ids of members that know the generation and have not requested their assignment.
        join: deadline of the first phase of a rebalance.
        sync: deadline of the second phase of a rebalance.
    """

    TYPE = CLASSIC
    """Kafka's GroupType."""

    def __init__(self, group_id: str, state: State = State.EMPTY, *, now_ms: int | None = None) -> None:
        self.group_id = group_id
        self.state = state
        self.since_ms = now_ms
        """The wall-clock time at which the group entered its state, None if the log does not have it."""
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, Timer] = {}
        self.pending_sync: dict[str, None] = {}
        self.subscribed: frozenset[str] | None = None
        self.offsets = GroupOffsets()
        self.member_came = False
        """True if a member joined during the delay of the first generation (group.initial.rebalance.delay.ms)."""
        self.join: Timer | None = None
        self.is_first_join = False
        self.sync: Timer | None = None

    # --------------------------------------------------------------------------------------------------------- state

    def enter(self, state: State, now_ms: int) -> None:
        assert self.state in _COMES_FROM[state], (
            f"group {self.group_id} cannot change from {self.state.value} to {state.value}"
        )
        self.state = state
        self.since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in _COMES_FROM[State.PREPARING_REBALANCE]

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation with the members that have joined. Source: initNextGeneration"""
        # The generation wraps around as a Java int.
        self.generation = (self.generation + 1 + 2**31) % 2**32 - 2**31
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed = self._subscribed()
        self.pending_sync.clear()
        self.enter(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)

    def stop_join(self) -> None:
        if self.join is not None:
            self.join.cancel()
            self.join = None

    def stop_sync(self) -> None:
        self.pending_sync.clear()
        if self.sync is not None:
            self.sync.cancel()
            self.sync = None

    # ------------------------------------------------------------------------------------------------------- members

    def add(self, member: Member) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        self.protocol_type = member.protocol_type  # All have the same.
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.forget_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, or an assigned member id that has not joined yet."""
        member = self.members.pop(member_id, None)
        if member is not None:
            member.stop_session()
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.forget_pending(member_id)
        self.pending_sync.pop(member_id, None)

    def forget_pending(self, member_id: str) -> None:
        timer = self.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def replace(self, member: Member, new_id: str) -> None:
        """Change the id of a static member that has returned; keep the order of members. Source: replaceStaticMember"""
        assert member.instance_id is not None
        old_id = member.member_id
        member.member_id = new_id
        self.members = {item.member_id: item for item in self.members.values()}
        self.static_members[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    @property
    def awaiting_join(self) -> int:
        """The number of members whose JoinGroup waits for the next generation."""
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_members and self.awaiting_join == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has rejoined; return False if no member has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((member.member_id for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    # ----------------------------------------------------------------------------------------------------- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return True if a client with these protocols can be a member of this group."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        common = self._common_protocols(self.members.values())
        return self.protocol_type == protocol_type and (
            any(name in common for name, _ in protocols) if self.members else bool(protocols)
        )

    @staticmethod
    def _common_protocols(members: Iterable[Member]) -> list[str]:
        """Return the protocols that all members support, in the first member's order."""
        names = [[name for name, _ in member.protocols] for member in members]
        return [name for name in names[0] if all(name in known for known in names[1:])] if names else []

    def select_protocol(self) -> str:
        """Return the common protocol that most members prefer; a tie goes to the protocol that got a vote first."""
        candidates = self._common_protocols(self.members.values())
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda choice: votes[choice])

    def _subscribed(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to, None if they are unknown. Source: computeSubscribedTopics"""
        if not self.is_consumer_group:
            return None
        topics: list[str] = []
        for member in self.members.values():
            assert self.protocol is not None
            found = subscribed_topics(member.metadata(self.protocol))
            if found is None:
                return None
            topics += found
        return frozenset(topics)

    def restore_subscribed(self) -> None:
        """Compute the topics that members subscribe to, after the group was loaded or converted."""
        self.subscribed = self._subscribed()

    def reads(self, topic: str) -> bool:
        return self.subscribed is None or topic in self.subscribed


# --------------------------------------------------------------------------------------------------------------- member
#
# One member of a classic group. source: MemberMetadata.scala


Protocols = tuple[tuple[str, bytes], ...]
"""The assignment protocols that a member supports, preferred first, each as (name, metadata)."""


@dataclass(slots=True, eq=False, kw_only=True)
class Member:
    """One member of a group.

    Attributes:
        awaiting_join: waiting JoinGroup, answered with the next generation.
        awaiting_sync: waiting SyncGroup, answered with the assignment.
        is_new: True until the member's first JoinGroup is answered; until then it sends no heartbeats.
        session: timer of the session timeout, None while it does not run.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: RequestId | None = None
    awaiting_sync: RequestId | None = None
    is_new: bool = False
    session: Timer | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_awaiting(self) -> bool:
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def metadata(self, protocol: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Collection[str]) -> str:
        """Return the first of the member's protocols that is a candidate."""
        return next(name for name, _ in self.protocols if name in candidates)

    def stop_session(self) -> None:
        if self.session is not None:
            self.session.cancel()
            self.session = None
