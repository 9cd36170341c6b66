"""The roles of a voter, each with what it has to remember while it lasts. Due times are microseconds.

Source: UnattachedState, CandidateState, FollowerState, LeaderState, ResignedState (Kafka 3.9, raft/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controller.quorum.messages import ControllerEpoch, FetchSnapshot, OffsetAndEpoch, SnapshotAnswer
from replica.ids import UNKNOWN_OFFSET, BrokerId, Offset


@dataclass(slots=True)
class Unattached:
    """Knows no leader of its epoch; may have voted in it."""

    epoch: ControllerEpoch
    voted_id: BrokerId | None
    election_due_us: int


@dataclass(slots=True)
class Candidate:
    """votes: of each voter that has answered, its own included. backoff_due_us: it lost and tries again then."""

    epoch: ControllerEpoch
    votes: dict[BrokerId, bool]
    retries: int
    election_due_us: int
    backoff_due_us: int | None = None

    def has_majority(self, voters: int) -> bool:
        return 2 * sum(self.votes.values()) > voters

    def has_lost(self, voters: int) -> bool:
        """Even with all votes that are still out there is no majority."""
        rejected = len(self.votes) - sum(self.votes.values())
        return 2 * (voters - rejected) <= voters


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot on its way, and the bytes received so far."""

    # Simplified: in memory, in Kafka in a `.part` file; nothing of it is used before it is whole.

    end: OffsetAndEpoch
    data: bytearray = field(default_factory=bytearray)

    def takes(self, request: FetchSnapshot, answer: SnapshotAnswer) -> bool:
        """A piece has come, perhaps of something else; whether the snapshot is whole with it."""
        if (request.snapshot, request.position) != (self.end, len(self.data)):
            return False
        self.data += answer.data
        return len(self.data) >= answer.size_bytes


@dataclass(slots=True)
class Follower:
    """fetch_due_us: without an answer of the leader until then, it calls for an election.

    snapshot: being fetched in place of records that the leader has cut off
    """

    epoch: ControllerEpoch
    leader_id: BrokerId
    fetch_due_us: int
    snapshot: SnapshotFetch | None = None


@dataclass(slots=True)
class Leader:
    """end_offsets: how much of the log each voter is known to have on disk, itself included; None: never heard of.

    fetched: the voters that fetched since the last time a majority had
    """

    epoch: ControllerEpoch
    epoch_start_offset: Offset
    end_offsets: dict[BrokerId, Offset | None]
    check_quorum_due_us: int
    begin_epoch_due_us: int
    fetched: dict[BrokerId, None] = field(default_factory=dict)

    @property
    def majority_offset(self) -> Offset | None:
        """The largest offset below which a majority has everything."""
        known = sorted((-1 if offset is None else offset for offset in self.end_offsets.values()), reverse=True)
        offset = known[len(known) // 2]
        return None if offset < 0 else offset

    def successors(self, others: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
        """The voters that should lead next, longest log first."""
        held = {voter: UNKNOWN_OFFSET if (end := self.end_offsets[voter]) is None else end for voter in others}
        return tuple(sorted(held, key=held.__getitem__, reverse=True))


@dataclass(slots=True)
class Resigned:
    """Led this epoch and does not any more, or has forgotten it by restarting; it never votes in it."""

    epoch: ControllerEpoch
    preferred_successors: tuple[BrokerId, ...]
    unacknowledged: list[BrokerId]
    election_due_us: int


Role = Unattached | Candidate | Follower | Leader | Resigned
