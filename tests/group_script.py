"""Events of one consumer group, written by hand, one a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from replica.causes import JoinCause, LeaveCause, RebalanceCause, RemovalCause
from replica.trace import events as t
from replica.trace.events import TraceRow

CAUSES: dict[type[t.TraceEvent], dict[str, Any]] = {
    t.GroupMemberJoined: {"instance": None, "cause": JoinCause.NEW},
    t.GroupMemberLeft: {"instance": None, "cause": LeaveCause.LEAVE_REQUEST},
    t.GroupRebalanceBegan: {"cause": RebalanceCause.MEMBER_JOINED},
    t.GroupRemoved: {"cause": RemovalCause.EMPTY},
}
"""Of events whose cause does not matter."""


class GroupScript:
    """Emits the events of a group, one a second.

    Attributes:
        coordinator: broker that emits the next events.
        rows: all events so far. `listeners` get them, too.
    """

    def __init__(self, group: str = "g", listeners: Sequence[Callable[[TraceRow], None]] = ()) -> None:
        self.group, self.coordinator = group, "b1"
        self.rows: list[TraceRow] = []
        self.log = t.TraceLog([self.rows.append, *listeners])

    def say(self, kind: type[t.TraceEvent], **columns: Any) -> None:
        self.log.at_us += 1_000_000
        given: dict[str, Any] = {"node": self.coordinator, "group": self.group}
        self.log.emit(kind(**given | CAUSES.get(kind, {}) | columns))

    def elected(self, node: str, leader_epoch: int) -> None:
        """Let a broker begin to lead the offsets partition of the group, without a word from the former leader."""
        self.coordinator = node
        self.log.at_us += 1_000_000
        self.log.emit(
            t.LeadershipBegan(
                node=node,
                topic="__consumer_offsets",
                partition=0,
                leader_epoch=leader_epoch,
                partition_epoch=leader_epoch,
                isr=(node,),
                log_end_offset=0,
                high_watermark=0,
            )
        )

    def joined(self, member: str, **columns: Any) -> None:
        self.say(t.GroupMemberJoined, member=member, client_id=f"{member}-client", generation=0, **columns)

    def left(self, member: str) -> None:
        self.say(t.GroupMemberLeft, member=member, client_id=f"{member}-client", generation=0)

    def rebalance_began(self, generation: int = 0) -> None:
        self.say(t.GroupRebalanceBegan, generation=generation)

    def rebalanced(self, generation: int, protocol: str, **parts: tuple[str, ...]) -> None:
        """parts: of each member. The members' parts are stated in the same instant as the assignment."""
        members, first = tuple(parts), next(iter(parts), None)
        self.say(t.GroupRebalanced, generation=generation, members=members, member=first, protocol=protocol)
        if parts:
            self.say(t.GroupAssigned, generation=generation, members=members)
        for member, partitions in parts.items():
            self.log.at_us -= 1_000_000
            about = {"client_id": f"{member}-client", "generation": generation}
            self.say(t.GroupMemberAssigned, member=member, partitions=partitions, **about)

    def reconciled(self, member: str, epoch: int, *partitions: str, revoking: tuple[str, ...] = ()) -> None:
        about = {"client_id": f"{member}-client", "generation": epoch}
        self.say(t.GroupMemberReconciled, member=member, partitions=partitions, revoking=revoking, **about)
