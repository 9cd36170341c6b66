"""The roles of a voter, each with what it has to remember while it lasts. Due times are microseconds.

Source: UnattachedState, CandidateState, FollowerState, LeaderState, ResignedState (Kafka 3.9, raft/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from controller.quorum.messages import (
    ControllerEpoch,
    FetchLog,
    FetchSnapshot,
    OffsetAndEpoch,
    ReplicatedLog,
    SnapshotAnswer,
)
from replica.errors import ErrorCode
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


# ------------------------------------------------------------------------------------------------------------- timeouts
#
# How long a voter waits for what. Source: QuorumConfig, KafkaRaftClient.randomElectionTimeoutMs (3.9).

ELECTION_BACKOFF_BASE_MS = 100
Draw = Callable[[int], int]
"""`draw(n)`: a random integer in [0, n)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTimeouts:
    """controller.quorum.election.timeout.ms, .fetch.timeout.ms, .election.backoff.max.ms"""

    election_ms: int = 1000
    fetch_ms: int = 2000
    election_backoff_max_ms: int = 1000

    @property
    def check_quorum_us(self) -> int:
        """A leader that no majority fetched from for so long resigns (KAFKA-15489, LeaderState: 1.5 times)."""
        return self.fetch_ms * 1500

    @property
    def begin_epoch_us(self) -> int:
        """A leader announces itself to all voters so often."""
        return self.fetch_ms * 500

    def election_due_us(self, now_us: int, draw: Draw) -> int:
        """Between one and two election timeouts from now."""
        return now_us + (self.election_ms + draw(self.election_ms)) * 1000

    def fetch_due_us(self, now_us: int) -> int:
        return now_us + self.fetch_ms * 1000

    def election_backoff_us(self, retries: int, draw: Draw) -> int:
        """After a lost election. Source: binaryExponentialElectionBackoffMs"""
        backoff_ms = ELECTION_BACKOFF_BASE_MS * draw(2 << min(20, retries - 1))
        return min(backoff_ms, self.election_backoff_max_ms) * 1000

    def succession_backoff_us(self, place: int, successors: int) -> int:
        """After the leader has resigned. place: in the order of its choice, `successors` for a voter not among them;
        the first stands at once. Source: strictExponentialElectionBackoffMs"""
        if place == 0:
            return 0
        maximum = self.election_backoff_max_ms
        return min(maximum, maximum >> (successors - 1) << (place - 1)) * 1000


# ---------------------------------------------------------------------------------------------------------- connections
#
# A voter's connections to the other voters: one request at a time on each, and a wait after each failure.
#
# Source: RequestManager, KafkaRaftManager.buildNetworkClient

RETRY_BACKOFF_US = 20_000
"""controller.quorum.retry.backoff.ms"""
RECONNECT_BACKOFF_US, RECONNECT_BACKOFF_MAX_US = 50_000, 500_000
"""Of a voter that cannot be reached. Simplified: without jitter."""


@dataclass(slots=True)
class _Connection:
    busy: bool = False
    ready_us: int = 0
    failures: int = 0


class VoterConnections:
    """`others` in the order of the voters; iterating and `in` are about them."""

    def __init__(self, others: Iterable[BrokerId]) -> None:
        self._to = {voter: _Connection() for voter in others}

    def __iter__(self) -> Iterator[BrokerId]:
        return iter(self._to)

    def __len__(self) -> int:
        return len(self._to)

    def __contains__(self, voter: object) -> bool:
        return voter in self._to

    def next_send_us(self, voters: Iterable[BrokerId], never_us: int) -> int:
        """When the first of these can be sent a request; those that have one under way cannot."""
        return min((self._to[voter].ready_us for voter in voters if not self._to[voter].busy), default=never_us)

    def begin(self, voter: BrokerId, now_us: int) -> bool:
        """Whether a request can go out now; if so, one has."""
        connection = self._to[voter]
        if connection.busy or connection.ready_us > now_us:
            return False
        connection.busy = True
        return True

    def answered(self, voter: BrokerId) -> None:
        connection = self._to[voter]
        connection.busy, connection.failures = False, 0

    def refused(self, voter: BrokerId, now_us: int) -> None:
        """The answer was an error: the next request waits."""
        self._to[voter].ready_us = now_us + RETRY_BACKOFF_US

    def failed(self, voter: BrokerId, now_us: int) -> None:
        """The request could not be sent, or there was no answer in time."""
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
    """The log does not say any more what comes next, or whether the fetcher's log is ours."""
    earliest, start = log.earliest_snapshot, log.start_offset
    offset, epoch = request.fetch_offset, request.last_fetched_epoch
    if earliest is None or (start == 0 and (offset, epoch) == (0, 0)):
        return False
    return offset < start or (offset == start and epoch != earliest.epoch) or epoch < earliest.epoch


def diverging_end(log: ReplicatedLog, request: FetchLog) -> OffsetAndEpoch | None:
    """Where the fetcher's log parts from ours at the latest; None: it does not."""
    if (request.fetch_offset, request.last_fetched_epoch) == (0, 0):
        return None
    end = log.end_of_epoch(request.last_fetched_epoch)
    return end if end.epoch != request.last_fetched_epoch or end.offset < request.fetch_offset else None


def snapshot_piece(log: ReplicatedLog, request: FetchSnapshot) -> tuple[ErrorCode, int, bytes]:
    """An error, or how many bytes the snapshot has and those that are asked for, one at least."""
    data = log.read_snapshot(request.snapshot)
    if data is None:
        return ErrorCode.SNAPSHOT_NOT_FOUND, 0, b""
    if not 0 <= request.position < len(data):
        return ErrorCode.POSITION_OUT_OF_RANGE, 0, b""
    piece = data[request.position : request.position + max(request.max_bytes, 1)]
    return ErrorCode.NONE, len(data), piece


def truncation_offset(log: ReplicatedLog, diverging: OffsetAndEpoch) -> Offset:
    """Where the fetcher cuts its log, told that."""
    own = log.end_of_epoch(diverging.epoch)
    return min(own.offset, diverging.offset) if own.epoch == diverging.epoch else own.offset
