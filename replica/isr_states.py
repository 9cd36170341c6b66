"""The states of a partition's ISR at its leader, and which input leads from which to which: a table that LeaderState
obeys in every step.

    COMMITTED   the ISR is what the controller has decided
    EXPANDING   a larger one is proposed (AlterPartition), and not answered: all of the larger one count already
    SHRINKING   a smaller one is proposed, and not answered: all of the larger one count still

So a record is committed only when every broker that could be a member by now has it, however the controller answers
(KIP-497). One proposal at a time. Where the table has no entry an input changes no state: a refusal, for instance,
that leaves open what the controller has decided. source: Partition.scala (PartitionState and its subclasses)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from replica.leader_inputs import (
    FetchReceived,
    IsrAccepted,
    IsrRefused,
    LagCheckDue,
    LeaderAssigned,
    LeaderInput,
    PartitionUpdated,
)


class IsrState(Enum):
    COMMITTED = "committed"
    EXPANDING = "expanding"
    SHRINKING = "shrinking"


COMMITTED, EXPANDING, SHRINKING = IsrState

_END = {IsrAccepted: COMMITTED, IsrRefused: COMMITTED, PartitionUpdated: COMMITTED, LeaderAssigned: COMMITTED}

NEXT_STATES: Mapping[IsrState, Mapping[type[LeaderInput], IsrState]] = {
    COMMITTED: {FetchReceived: EXPANDING, LagCheckDue: SHRINKING},
    EXPANDING: _END,
    SHRINKING: _END,
}
"""State -> input -> the state it may lead to."""


def check_step(before: IsrState, given: LeaderInput, after: IsrState) -> None:
    """A step that the table does not have is a bug."""
    assert after is before or after is NEXT_STATES[before].get(type(given)), (
        f"{type(given).__name__} leads from {before.name} to {after.name}"
    )
