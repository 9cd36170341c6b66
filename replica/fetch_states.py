"""The states of a replica that follows, and which input leads from which state to which: a table that FollowerState
obeys in every step.

    FETCHING    asks for records, from its log end on
    COMPARING   asks first where its latest epoch ends in the leader's log (`truncation` of 0.11 to 2.6)
    APPENDING   has records to append      } ordered from its log, and reported
    TRUNCATING  has its log to cut         } by it in the same moment
    ASKING      was out of range: asks where the leader's log ends, and then perhaps where it starts
    FAILED      does nothing until there is a new leader, or a new leader epoch

FETCHING and COMPARING last also while a fetch is delayed. Where the table has no entry an input changes no state: an
answer that comes too late, for instance. source: AbstractFetcherThread.scala (ReplicaState, PartitionFetchState)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from replica.inputs import (
    AppendFailed,
    EpochEndAnswered,
    FetchAnswered,
    FetchBroke,
    FollowerAssigned,
    FollowerInput,
    LeaderOffsetsKnown,
    RecordsAppended,
    Truncated,
)


class FetchState(Enum):
    """The values are read in sentences."""

    FETCHING = "fetching"
    COMPARING = "comparing epochs with the leader"
    APPENDING = "appending"
    TRUNCATING = "truncating"
    ASKING = "asking the leader"
    FAILED = "failed"


FETCHING, COMPARING, APPENDING, TRUNCATING, ASKING, FAILED = FetchState

NextStates = Mapping[type[FollowerInput], tuple[FetchState, ...]]

_BEGIN: NextStates = {FollowerAssigned: (FETCHING, COMPARING, TRUNCATING)}

NEXT_STATES: Mapping[FetchState, NextStates] = {
    FETCHING: {**_BEGIN, FetchAnswered: (APPENDING, TRUNCATING, ASKING, FAILED)},
    COMPARING: {**_BEGIN, EpochEndAnswered: (TRUNCATING, FAILED)},
    APPENDING: {**_BEGIN, RecordsAppended: (FETCHING,), AppendFailed: (FETCHING, FAILED)},
    TRUNCATING: {**_BEGIN, Truncated: (FETCHING, COMPARING)},
    ASKING: {**_BEGIN, LeaderOffsetsKnown: (FETCHING, TRUNCATING, FAILED), FetchBroke: (FETCHING,)},
    FAILED: {**_BEGIN},
}
"""State -> input -> the states it may lead to."""

REPORTS = (RecordsAppended, AppendFailed, Truncated)
"""They answer an order, so they come in its state and end it; anywhere else they are a bug."""


def check_step(before: FetchState, given: FollowerInput, after: FetchState) -> None:
    """A step that the table does not have is a bug."""
    next_states = NEXT_STATES[before].get(type(given), ())
    stays = after is before and not isinstance(given, REPORTS)
    assert stays or after in next_states, f"{type(given).__name__} leads from {before.name} to {after.name}"
