"""The roles of a voter, each with its state. Due times are in microseconds.

Source: UnattachedState, CandidateState, FollowerState, LeaderState, ResignedState (3.9), ProspectiveState (4.1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from controller.quorum.messages import (
    ControllerEpoch,
    FetchLog,
    FetchSnapshot,
    OffsetAndEpoch,
    ReplicatedLog,
    SnapshotAnswer,
    Voter,
)
from controller.quorum.voters import Progress, VoterChange, VoterSet
from replica.causes import CandidacyCause
from replica.errors import ErrorCode
from replica.ids import BrokerId, Offset

NEVER_US = 2**62


@dataclass(slots=True)
class Unattached:
    """A voter that knows no leader of its epoch. It may have voted in the epoch."""

    epoch: ControllerEpoch
    voted_id: BrokerId | None
    election_due_us: int


@dataclass(slots=True)
class Candidate:
    """A voter that has asked the other voters for their votes.

    Attributes:
        votes: the answers by voter, True for a granted vote; the vote of this voter is included.
        backoff_due_us: time of the next attempt after a lost election, else None.
    """

    epoch: ControllerEpoch
    votes: dict[BrokerId, bool]
    retries: int
    election_due_us: int
    backoff_due_us: int | None = None

    def has_majority(self, voters: int) -> bool:
        return 2 * sum(self.votes.values()) > voters

    def has_lost(self, voters: int) -> bool:
        """Return True if no majority is possible, even with all outstanding votes."""
        rejected = len(self.votes) - sum(self.votes.values())
        return 2 * (voters - rejected) <= voters


@dataclass(slots=True)
class Prospective(Candidate):
    """A voter that asks whether it would be elected, before it begins an epoch as a candidate (KIP-996, Pre-Vote).

    Attributes:
        leader_id: leader of this epoch, which the voter follows again if it would not be elected.
        voted_id: candidate for which this voter has voted in this epoch.
        why: cause of the candidacy.
        leader: name of the leader that no longer answers, else None.
    """

    leader_id: BrokerId | None = None
    voted_id: BrokerId | None = None
    why: CandidacyCause = CandidacyCause.NO_LEADER
    leader: str | None = None


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot that is being fetched, and its bytes received so far."""

    # Simplified: in memory, in Kafka in a `.part` file. No part is used before the snapshot is complete.

    end: OffsetAndEpoch
    data: bytearray = field(default_factory=bytearray)

    def takes(self, request: FetchSnapshot, answer: SnapshotAnswer) -> bool:
        """Add the data if it is the next part of this snapshot. Return True if the snapshot is complete."""
        if (request.snapshot, request.position) != (self.end, len(self.data)):
            return False
        self.data += answer.data
        return len(self.data) >= answer.size_bytes


@dataclass(slots=True)
class Follower:
    """A voter that follows a leader.

    Attributes:
        fetch_due_us: time at which this voter starts an election unless the leader answers a fetch.
        snapshot: a snapshot to fetch in place of records that the leader has removed.
        has_fetched: True if the leader has answered a fetch.
        update_due_us: time from which this controller may ask the leader for a change of the voters.
        has_updated: True if the leader knows the directory of this voter (kraft.version 0).
    """

    epoch: ControllerEpoch
    leader_id: BrokerId
    fetch_due_us: int
    snapshot: SnapshotFetch | None = None
    has_fetched: bool = False
    update_due_us: int = field(init=False)
    has_updated: bool = False

    def __post_init__(self) -> None:
        self.update_due_us = self.fetch_due_us  # Both periods are controller.quorum.fetch.timeout.ms.


@dataclass(slots=True)
class Leader:
    """The leader of an epoch.

    Attributes:
        replicas: progress of each voter, the leader included, and of each observer that has fetched.
        fetched: the voters that have fetched since the last time that a majority had fetched.
        change: the pending change of voters, if any.
        directories: directories of the voters as far as known, for the upgrade to kraft.version 1.
    """

    epoch: ControllerEpoch
    epoch_start_offset: Offset
    check_quorum_due_us: int
    begin_epoch_due_us: int
    replicas: dict[Voter, Progress] = field(default_factory=dict)
    fetched: dict[BrokerId, None] = field(default_factory=dict)
    change: VoterChange | None = None
    directories: dict[BrokerId, UUID | None] = field(default_factory=dict)

    def progress(self, replica: Voter) -> Progress:
        known = self.replicas.get(replica)
        if known is None:
            known = self.replicas[replica] = Progress()
        return known

    def majority_offset(self, voters: VoterSet) -> Offset | None:
        """Return the largest offset below which a majority has all records, None if unknown."""
        known = sorted((self.progress(voter).end_offset for voter in voters.voters), reverse=True)
        offset = known[len(known) // 2]
        return None if offset < 0 else offset

    def successors(self, voters: VoterSet, others: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
        """Return the other voters, longest log first: the order in which they should stand for election."""
        held = {voter.voter_id: self.progress(voter).end_offset for voter in voters.voters}
        return tuple(sorted(others, key=held.__getitem__, reverse=True))


@dataclass(slots=True)
class Resigned:
    """A voter that led this epoch and then resigned or restarted. It does not vote in this epoch."""

    epoch: ControllerEpoch
    preferred_successors: tuple[BrokerId, ...]
    unacknowledged: list[BrokerId]
    election_due_us: int


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned


# ------------------------------------------------------------------------------------------------------------- timeouts
#
# Timeouts of a voter. Source: QuorumConfig, KafkaRaftClient.randomElectionTimeoutMs (3.9).

ELECTION_BACKOFF_BASE_MS = 100
Draw = Callable[[int], int]
"""A source of random numbers: `draw(n)` returns an integer in [0, n)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """The settings controller.quorum.{election.timeout,fetch.timeout,election.backoff.max,request.timeout}.ms.

    Attributes:
        auto_join: controller.quorum.auto.join.enable: an observer asks to become a voter (KIP-1186).
        tells_directory: True if voters send UpdateRaftVoter while kraft.version is 0 (since 4.1).
    """

    election_ms: int = 1000
    fetch_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_ms: int = 2000
    auto_join: bool = False
    tells_directory: bool = False

    @property
    def check_quorum_us(self) -> int:
        """Time after which a leader resigns if no majority has fetched (KAFKA-15489, LeaderState: 1.5 times)."""
        return self.fetch_ms * 1500

    @property
    def begin_epoch_us(self) -> int:
        """Interval at which a leader announces itself to all voters."""
        return self.fetch_ms * 500

    def election_due_us(self, now_us: int, draw: Draw) -> int:
        """Return a time between one and two election timeouts from now."""
        return now_us + (self.election_ms + draw(self.election_ms)) * 1000

    def fetch_due_us(self, now_us: int) -> int:
        return now_us + self.fetch_ms * 1000

    def election_backoff_us(self, retries: int, draw: Draw) -> int:
        """Return the wait after a lost election. Source: binaryExponentialElectionBackoffMs"""
        backoff_ms = ELECTION_BACKOFF_BASE_MS * draw(2 << min(20, retries - 1))
        return min(backoff_ms, self.election_backoff_max_ms) * 1000

    def succession_backoff_us(self, index: int, successors: int) -> int:
        """Return the wait before an election after the leader has resigned; it is 0 for the first successor.

        Args:
            index: index in the leader's list of successors; `successors` for a voter that is not in the list.
            successors: length of that list.

        Source: strictExponentialElectionBackoffMs
        """
        if index == 0:
            return 0
        maximum = self.election_backoff_max_ms
        return min(maximum, maximum >> (successors - 1) << (index - 1)) * 1000


# ---------------------------------------------------------------------------------------------------------- connections
#
# A voter's connections to the other voters: one request at a time on each, and a wait after each failure.
#
# Source: RequestManager, KafkaRaftManager.buildNetworkClient

RETRY_BACKOFF_US = 20_000
"""The setting controller.quorum.retry.backoff.ms."""
RECONNECT_BACKOFF_US, RECONNECT_BACKOFF_MAX_US = 50_000, 500_000
"""Waits before connecting again to a voter that cannot be reached. Simplified: without jitter."""


@dataclass(slots=True)
class _Connection:
    busy: bool = False
    ready_us: int = 0
    failures: int = 0


class VoterConnections:
    """A controller's connections to the other controllers, with pending requests and waits after failures."""

    def __init__(self) -> None:
        self._to: defaultdict[BrokerId, _Connection] = defaultdict(_Connection)

    def next_send_us(self, voters: Iterable[BrokerId]) -> int:
        """Return when the next request can be sent to one of these voters, except those with a pending request."""
        return min((self._to[voter].ready_us for voter in voters if not self._to[voter].busy), default=NEVER_US)

    def next_idle(self, others: Sequence[BrokerId]) -> BrokerId | None:
        """Return the controller to which a request can be sent first; None while any request is pending."""
        # Simplified: in turn; in Kafka at random (RequestManager.findReadyBootstrapServer).
        if not others or any(self._to[other].busy for other in others):
            return None
        return min(others, key=lambda other: self._to[other].ready_us)

    def begin(self, voter: BrokerId, now_us: int) -> bool:
        """Begin a request to `voter`, if a request can be sent now. Return True if the request began."""
        connection = self._to[voter]
        if connection.busy or connection.ready_us > now_us:
            return False
        connection.busy = True
        return True

    def answered(self, voter: BrokerId) -> None:
        connection = self._to[voter]
        connection.busy, connection.failures = False, 0

    def refused(self, voter: BrokerId, now_us: int) -> None:
        """Delay the next request, since the answer was an error."""
        self._to[voter].ready_us = now_us + RETRY_BACKOFF_US

    def failed(self, voter: BrokerId, now_us: int) -> None:
        """Delay the next request, since the last could not be sent or was not answered in time."""
        connection = self._to[voter]
        wait_us = min(RECONNECT_BACKOFF_US << min(connection.failures, 10), RECONNECT_BACKOFF_MAX_US)
        connection.busy, connection.ready_us = False, now_us + wait_us
        connection.failures += 1


# -------------------------------------------------------------------------------------------------------------- fetches
#
# The answer of the leader's log to a fetch, and the effect of the answer on the fetcher's log (KIP-595, KIP-630).
#
# Source: ReplicatedLog.validateOffsetAndEpoch, truncateToEndOffset


def is_cut_off(log: ReplicatedLog, request: FetchLog) -> bool:
    """Return True if a fetcher needs a snapshot: the log lacks its next record, or the epochs to compare the logs."""
    earliest, start = log.earliest_snapshot, log.start_offset
    offset, epoch = request.fetch_offset, request.last_fetched_epoch
    if earliest is None or (start == 0 and (offset, epoch) == (0, 0)):
        return False
    return offset < start or (offset == start and epoch != earliest.epoch) or epoch < earliest.epoch


def diverging_end(log: ReplicatedLog, request: FetchLog) -> OffsetAndEpoch | None:
    """Return the last offset at which the fetcher's log can agree with this log; None if it has not diverged."""
    if (request.fetch_offset, request.last_fetched_epoch) == (0, 0):
        return None
    end = log.end_of_epoch(request.last_fetched_epoch)
    return end if end.epoch != request.last_fetched_epoch or end.offset < request.fetch_offset else None


def snapshot_piece(log: ReplicatedLog, request: FetchSnapshot) -> tuple[ErrorCode, int, bytes]:
    """Return an error, the size of the snapshot in bytes, and the requested bytes: at least one without an error."""
    data = log.read_snapshot(request.snapshot)
    if data is None:
        return ErrorCode.SNAPSHOT_NOT_FOUND, 0, b""
    if not 0 <= request.position < len(data):
        return ErrorCode.POSITION_OUT_OF_RANGE, 0, b""
    piece = data[request.position : request.position + max(request.max_bytes, 1)]
    return ErrorCode.NONE, len(data), piece


def truncation_offset(log: ReplicatedLog, diverging: OffsetAndEpoch) -> Offset:
    """Return the offset to which a fetcher truncates its log after an answer with a diverging epoch."""
    own = log.end_of_epoch(diverging.epoch)
    return min(own.offset, diverging.offset) if own.epoch == diverging.epoch else own.offset
