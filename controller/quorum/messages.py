"""Messages between the controllers of one quorum, the state of a voter, and the interface of its log.

Source: KIP-595; VoteRequest.json, BeginQuorumEpochRequest.json, EndQuorumEpochRequest.json, QuorumStateData.json,
ReplicatedLog.java. Ids are broker ids of controllers; epochs are those of the quorum, from 1 up (0: none yet).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import NO_BROKER, UNKNOWN_OFFSET, BrokerId, Offset
from replica.trace.events import Emit

ControllerEpoch = int


class OffsetAndEpoch(NamedTuple):
    """Where an epoch ends; logs compare by epoch first, then by offset."""

    epoch: ControllerEpoch
    offset: Offset


class ElectionState(NamedTuple):
    """The state a voter must never lose: the quorum-state file. At most one of leader and vote is known per epoch."""

    epoch: ControllerEpoch = 0
    leader_id: BrokerId | None = None
    voted_id: BrokerId | None = None


# ----------------------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class Vote:
    """`last`: epoch and end of the candidate's log; a voter with a longer log does not vote for it."""

    candidate_id: BrokerId
    epoch: ControllerEpoch
    last: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class BeginQuorumEpoch:
    leader_id: BrokerId
    epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class EndQuorumEpoch:
    """preferred_successors: the other voters, longest log first."""

    leader_id: BrokerId
    epoch: ControllerEpoch
    preferred_successors: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class FetchLog:
    """A voter holds every record below `fetch_offset`, the last of them from `last_fetched_epoch` (0: none)."""

    replica_id: BrokerId
    epoch: ControllerEpoch
    fetch_offset: Offset
    last_fetched_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """The bytes of a snapshot from `position` on; `replica_id` is a voter or a broker (KIP-630)."""

    replica_id: BrokerId
    epoch: ControllerEpoch
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int = 8 << 20


Request = Vote | BeginQuorumEpoch | EndQuorumEpoch | FetchLog | FetchSnapshot


@dataclass(frozen=True, slots=True)
class VoterAnswer:
    """The answer to any request but a fetch: the leader that the voter knows (None: no leader known), and the epoch."""

    error: ErrorCode
    leader_id: BrokerId | None
    epoch: ControllerEpoch
    vote_granted: bool = False


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """To a fetch. `diverging`: where the logs part; `snapshot`: to be fetched first. With either there are no records.

    records: whole batches as on disk, from the fetch offset on; filled in by the caller, which can read the log
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
    """A piece of a snapshot, as it lies on disk; the whole is `size_bytes` long."""

    error: ErrorCode
    leader_id: BrokerId | None
    epoch: ControllerEpoch
    size_bytes: int = 0
    data: bytes = b""


AnyAnswer = VoterAnswer | FetchAnswer | SnapshotAnswer


# ------------------------------------------------------------------------------------------------------------ actions


@dataclass(frozen=True, slots=True)
class SendTo:
    """`Quorum.answered` follows, with an answer or without."""

    peer_id: BrokerId
    request: Request


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    """The leader has changed, or has become known or unknown: look at the quorum."""


@dataclass(frozen=True, slots=True)
class LogCommitted:
    """The high watermark of the metadata log has moved to this offset."""

    high_watermark: Offset


Action = SendTo | Emit | LeadershipChanged | LogCommitted


class ReplicatedLog(Protocol):
    """A voter's metadata log and its quorum-state file; everything a method writes is on disk when it returns."""

    @property
    def start_offset(self) -> Offset:
        """Records before it are in a snapshot only."""
        ...

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """Ends where the log begins, unless nothing has been cut off yet."""
        ...

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None: ...

    def read_snapshot(self, end: OffsetAndEpoch) -> bytes | None:
        """None: there is no such snapshot (any more)."""
        ...

    def replace_with_snapshot(self, end: OffsetAndEpoch, data: bytes) -> None:
        """Keep nothing but this; the next record gets `end.offset`."""
        ...

    @property
    def end(self) -> OffsetAndEpoch:
        """End of the log and epoch of its last record; (0, 0) of an empty one."""
        ...

    def end_of_epoch(self, epoch: ControllerEpoch) -> OffsetAndEpoch:
        """The largest epoch up to `epoch` that the log knows, and where it ends; the log's own end if it knows none."""
        ...

    def append_leader_change(self, epoch: ControllerEpoch, leader_id: BrokerId, now_us: int) -> None: ...

    def append_fetched(self, records: bytes | memoryview, now_us: int) -> None: ...

    def truncate_to(self, offset: Offset) -> None: ...

    def read_election(self) -> ElectionState: ...

    def write_election(self, election: ElectionState) -> None: ...


def leader_or_none(leader_id: int) -> BrokerId | None:
    """-1 on the wire and in the file means that no leader is known."""
    return None if leader_id == NO_BROKER else leader_id
