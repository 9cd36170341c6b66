"""Messages between the controllers of a quorum, the state of a voter, and the interface of its log.
Ids are the node ids of controllers. Epochs are those of the quorum; the first is 1, and 0 means that there was none.
Source: KIP-595; VoteRequest.json, BeginQuorumEpochRequest.json, EndQuorumEpochRequest.json, QuorumStateData.json,
ReplicatedLog.java
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import NO_BROKER, UNKNOWN_OFFSET, BrokerId, Offset
from replica.log.files.checkpoints import as_kafka_spells
from replica.trace.events import Emit

if TYPE_CHECKING:
    from controller.quorum.voters import VoterSet

ControllerEpoch = int


class Voter(NamedTuple):
    """A controller and the id of its metadata log directory (ReplicaKey); None is any directory (kraft.version 0)."""

    voter_id: BrokerId
    directory_id: UUID | None = None

    @property
    def key(self) -> str:
        """Return the voter as Kafka's messages name it. Source: ReplicaKey.toString"""
        directory_id = "<undefined>" if self.directory_id is None else as_kafka_spells(self.directory_id)
        return f"ReplicaKey(id={self.voter_id}, directoryId={directory_id})"


class OffsetAndEpoch(NamedTuple):
    """The end of an epoch in a log. Logs are compared by epoch first, then by offset."""

    epoch: ControllerEpoch
    offset: Offset


class ElectionState(NamedTuple):
    """The state of a voter in its quorum-state file, which must never be lost.

    Either `leader_id` or `voted_id` is set in an epoch, not both.
    """

    epoch: ControllerEpoch = 0
    leader_id: BrokerId | None = None
    voted_id: BrokerId | None = None


# ----------------------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class Vote:
    """A candidate's request for a vote.

    Attributes:
        last: epoch and end offset of the candidate's log; voters with a longer log refuse.
        pre_vote: True to ask in the current epoch whether the voter would vote for this node (KIP-996).
        directory_id: directory id of the requested voter; a node with another directory is not that voter.
    """

    candidate_id: BrokerId
    epoch: ControllerEpoch
    last: OffsetAndEpoch
    pre_vote: bool = False
    directory_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class BeginQuorumEpoch:
    leader_id: BrokerId
    epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class EndQuorumEpoch:
    """The resignation of a leader. `preferred_successors` are the other voters, longest log first."""

    leader_id: BrokerId
    epoch: ControllerEpoch
    preferred_successors: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class FetchLog:
    """The fetch of a voter that has every record below `fetch_offset`.

    `last_fetched_epoch` is the epoch of the voter's last record, 0 if it has no records.
    """

    replica_id: BrokerId
    epoch: ControllerEpoch
    fetch_offset: Offset
    last_fetched_epoch: ControllerEpoch
    directory_id: UUID | None = None

    @property
    def replica(self) -> Voter:
        return Voter(self.replica_id, self.directory_id)


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """A fetch of the bytes of a snapshot from `position` on, by a voter or a broker (KIP-630)."""

    replica_id: BrokerId
    epoch: ControllerEpoch
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int = 8 << 20
    directory_id: UUID | None = None

    @property
    def replica(self) -> Voter:
        return Voter(self.replica_id, self.directory_id)


@dataclass(frozen=True, slots=True)
class AddVoter:
    """AddRaftVoter. If not `ack_when_committed`, the leader answers once the change is in its log (KIP-1186)."""

    voter: Voter
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    """RemoveRaftVoter. The leader answers once the change is committed."""

    voter: Voter


@dataclass(frozen=True, slots=True)
class UpdateVoter:
    """UpdateRaftVoter: a voter's directory and its supported range of kraft.version, for the leader of `epoch`.

    Until kraft.version is 1, each voter sends it once to each leader, which may then upgrade it.
    """

    # Simplified: without addresses, which do not change.

    voter: Voter
    epoch: ControllerEpoch
    versions: tuple[int, int] = (0, 1)


@dataclass(frozen=True, slots=True)
class AskVersions:
    """The leader's ApiVersions request to a new voter."""

    # Simplified: all controllers have the same release and support kraft.version 1, so versions are not compared.


VoterRequest = Vote | BeginQuorumEpoch | EndQuorumEpoch | UpdateVoter
Request = VoterRequest | FetchLog | FetchSnapshot | AddVoter | RemoveVoter | AskVersions


@dataclass(frozen=True, slots=True)
class VoterAnswer:
    """The answer to a VoterRequest. `leader_id` is None if the voter knows no leader."""

    error: ErrorCode
    leader_id: BrokerId | None
    epoch: ControllerEpoch
    vote_granted: bool = False


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """The answer to FetchLog.

    Attributes:
        diverging: epoch and end offset at which the logs diverge; there are then no records.
        records: whole batches from the fetch offset on, as on disk. The caller of `Quorum.fetched` adds them.
        snapshot: a snapshot to fetch first; there are then no records.
    """

    error: ErrorCode
    leader_id: BrokerId | None
    epoch: ControllerEpoch
    high_watermark: Offset = UNKNOWN_OFFSET
    diverging: OffsetAndEpoch | None = None
    records: bytes | memoryview = b""
    snapshot: OffsetAndEpoch | None = None


@dataclass(frozen=True, slots=True)
class SnapshotAnswer:
    """The answer to FetchSnapshot: a part of the snapshot, whose total size is `size_bytes`."""

    error: ErrorCode
    leader_id: BrokerId | None
    epoch: ControllerEpoch
    size_bytes: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """The answer to AddVoter, RemoveVoter and AskVersions."""

    error: ErrorCode
    message: str | None = None


AnyAnswer = VoterAnswer | FetchAnswer | SnapshotAnswer | PlainAnswer


# ------------------------------------------------------------------------------------------------------------ actions


@dataclass(frozen=True, slots=True)
class SendTo:
    """The action to send a request to a voter. `Quorum.answered` must be called later, even without an answer."""

    peer_id: BrokerId
    request: Request


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    """The notification that the leader has changed, has become known, or is no longer known."""


@dataclass(frozen=True, slots=True)
class LogCommitted:
    """The notification that the high watermark of the metadata log has moved to `high_watermark`."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class VoterChangeEnded:
    """The final answer to a request for which `Quorum.change_voters` has returned None."""

    answer: PlainAnswer


@dataclass(frozen=True, slots=True)
class VotersAppended:
    """The notification that the leader has appended a VotersRecord to the metadata log, at `offset`."""

    offset: Offset


Action = SendTo | Emit | LeadershipChanged | LogCommitted | VoterChangeEnded | VotersAppended


class ReplicatedLog(Protocol):
    """A voter's metadata log and its quorum-state file. Methods return after their changes are on disk."""

    @property
    def start_offset(self) -> Offset:
        """First offset in the log. Earlier records exist only in a snapshot."""

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The earliest snapshot, or None. The log begins where the snapshot ends, or it has all records."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None: ...

    def read_snapshot(self, end: OffsetAndEpoch) -> bytes | None:
        """Return the bytes of a snapshot, or None if it does not exist or was deleted."""

    def replace_with_snapshot(self, end: OffsetAndEpoch, data: bytes) -> None:
        """Replace the whole log by a snapshot. The next record gets `end.offset`."""

    @property
    def end(self) -> OffsetAndEpoch:
        """End of the log and epoch of its last record; (0, 0) if the log is empty."""

    def end_of_epoch(self, epoch: ControllerEpoch) -> OffsetAndEpoch:
        """Return the largest epoch <= `epoch` in the log, and its end offset; the end of the log if this is unknown."""

    @property
    def voters(self) -> VoterSet | None:
        """The voters of the last VotersRecord in snapshot and log; None if there is none."""

    def append_voters(self, epoch: ControllerEpoch, voters: tuple[Voter, ...], now_us: int) -> None: ...

    def append_leader_change(self, epoch: ControllerEpoch, leader_id: BrokerId, now_us: int) -> None: ...

    def append_fetched(self, records: bytes | memoryview, now_us: int) -> None: ...

    def truncate_to(self, offset: Offset) -> None: ...

    def read_election(self) -> ElectionState: ...

    def write_election(self, election: ElectionState) -> None: ...


def leader_or_none(leader_id: int) -> BrokerId | None:
    """Return a leader's id, or None for -1, which messages and files contain if no leader is known."""
    return None if leader_id == NO_BROKER else leader_id
