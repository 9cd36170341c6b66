"""Several voters with their logs in memory, and messages that the test delivers, loses or delivers late.

Nothing here decides: it is the disk and the network of `controller.quorum.Quorum`.
"""

from __future__ import annotations

import bisect
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from controller.quorum.messages import (
    AddVoter,
    AnyAnswer,
    AskVersions,
    ElectionState,
    FetchAnswer,
    FetchLog,
    FetchSnapshot,
    LeadershipChanged,
    LogCommitted,
    OffsetAndEpoch,
    PlainAnswer,
    RemoveVoter,
    Request,
    SendTo,
    VoterChangeEnded,
    VotersAppended,
)
from controller.quorum.messages import Voter as Replica
from controller.quorum.quorum import Quorum
from controller.quorum.roles import QuorumConfig
from controller.quorum.voters import VoterSet
from replica.errors import ErrorCode
from replica.ids import Names
from replica.trace.events import Emit

MS = 1000
LATENCY_US = 1 * MS
FETCH_WAIT_US = 500 * MS
REQUEST_TIMEOUT_US = 2000 * MS
SNAPSHOT_PIECE_BYTES = 10
Entry = tuple[int, str]
"""(epoch, payload)"""


@dataclass
class MemoryLog:
    """The state that survives a restart: entries, snapshots and the last election. Implements ReplicatedLog.

    A snapshot is all entries below its end; entries cut off are kept in `entries`, so that it can be judged.
    """

    entries: list[Entry] = field(default_factory=list)
    election: ElectionState = field(default_factory=ElectionState)
    start_offset: int = 0
    snapshots: list[OffsetAndEpoch] = field(default_factory=list)

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.entries[-1][0] if self.entries else 0, len(self.entries))

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        if epoch > self.end.epoch or not self.entries:
            return self.end
        known = [place for place, (entry_epoch, _) in enumerate(self.entries) if entry_epoch <= epoch]
        if not known:
            return OffsetAndEpoch(epoch, 0)
        return OffsetAndEpoch(self.entries[known[-1]][0], known[-1] + 1)

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[0] if self.snapshots else None

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[-1] if self.snapshots else None

    def read_snapshot(self, end: OffsetAndEpoch) -> bytes | None:
        return self.encoded(self.entries[: end.offset]) if end in self.snapshots else None

    def replace_with_snapshot(self, end: OffsetAndEpoch, data: bytes) -> None:
        self.entries = []
        self.append_fetched(data, 0)
        assert self.end == end
        self.snapshots = [end]
        self.start_offset = end.offset

    def take_snapshot(self, offset: int) -> None:
        """Of all below `offset`; the log is cut up to there."""
        if offset > self.start_offset:
            self.snapshots = [OffsetAndEpoch(self.entries[offset - 1][0], offset)]
            self.start_offset = offset

    @property
    def voters(self) -> VoterSet | None:
        for offset in range(len(self.entries) - 1, -1, -1):
            kind, _, those = self.entries[offset][1].partition(" ")
            if kind == "voters":
                pairs = [voter.split("/") for voter in those.split(",")]
                return VoterSet(tuple(Replica(int(one), UUID(int=int(disk))) for one, disk in pairs), offset)
        return None

    def append_voters(self, epoch: int, voters: tuple[Replica, ...], now_us: int) -> None:
        assert all(voter.directory_id is not None for voter in voters)
        those = ",".join(f"{voter.voter_id}/{voter.directory_id.int}" for voter in voters if voter.directory_id)
        self.entries.append((epoch, f"voters {those}"))

    def append_leader_change(self, epoch: int, leader_id: int, now_us: int) -> None:
        self.entries.append((epoch, f"leader {leader_id}"))

    def append_fetched(self, records: bytes | memoryview, now_us: int) -> None:
        for line in bytes(records).decode().splitlines():
            epoch, _, payload = line.partition(" ")
            self.entries.append((int(epoch), payload))

    def truncate_to(self, offset: int) -> None:
        assert offset >= self.start_offset, "a snapshot is of committed records"
        del self.entries[offset:]

    def read_election(self) -> ElectionState:
        return self.election

    def write_election(self, election: ElectionState) -> None:
        self.election = election

    def encoded_from(self, offset: int) -> bytes:
        assert offset >= self.start_offset, "what was cut off is read"
        return self.encoded(self.entries[offset:])

    @staticmethod
    def encoded(entries: list[Entry]) -> bytes:
        return "".join(f"{epoch} {payload}\n" for epoch, payload in entries).encode()


@dataclass
class Voter:
    """One controller: `quorum` is None while it is down. `disk` counts its disks, which are its directory ids."""

    voter_id: int
    disk: int = 1
    log: MemoryLog = field(default_factory=MemoryLog)
    quorum: Quorum | None = None
    lives: int = 0
    end_change: Callable[[PlainAnswer], None] | None = None
    waiting: list[tuple[int, FetchLog, Callable[[FetchAnswer | None], None]]] = field(default_factory=list)


class QuorumWorld:
    """Virtual time, a queue of what happens, and the rules of Raft checked after every step of it.

    observers: so many more controllers, which are no voters yet; the voters have directory ids then (kraft.version 1)
    passes(sender, receiver): whether a message gets through now     delay_us(): how long it takes
    asks_first: see Quorum     config: of all controllers
    """

    def __init__(
        self,
        voters: int,
        seed: int = 0,
        *,
        asks_first: bool = False,
        observers: int | None = None,
        config: QuorumConfig | None = None,
    ) -> None:
        self.now_us = 0
        self.config = config or QuorumConfig()
        self.asks_first = asks_first
        directory_id = None if observers is None else UUID(int=1)
        self.first_voters = tuple(Replica(voter, directory_id) for voter in range(1, voters + 1))
        self.ids = list(range(1, voters + (observers or 0) + 1))
        self.names = Names({voter: f"c{voter}" for voter in self.ids})
        self.voters = {voter: Voter(voter) for voter in self.ids}
        self.random = random.Random(seed)
        self.passes: Callable[[int, int], bool] = lambda sender, receiver: True
        self.delay_us: Callable[[], int] = lambda: LATENCY_US
        self.story: list[str] = []
        self.leader_of_epoch: dict[int, int] = {}
        self.committed: list[Entry] = []
        self.committed_in: list[int] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._queued = 0

    # ---------------------------------------------------------------------------------------------- what may be done

    def start(self, voter_id: int) -> None:
        voter = self.voters[voter_id]
        voter.lives += 1
        stream = random.Random(f"{voter_id}/{voter.lives}/{self.random.random()}")
        voter.quorum = Quorum(
            local=self.replica(voter_id),
            voters=self.first_voters if VoterSet(self.first_voters).find(self.replica(voter_id)) else (),
            controllers=self.ids,
            names=self.names,
            log=voter.log,
            config=self.config,
            draw=stream.randrange,
            asks_first=self.asks_first,
        )
        voter.quorum.start(self.now_us)
        self._after(voter)

    def kill(self, voter_id: int) -> None:
        voter = self.voters[voter_id]
        voter.quorum = None
        waiting, voter.waiting = voter.waiting, []
        for _, _, answer in waiting:
            answer(None)

    def replica(self, voter_id: int) -> Replica:
        return Replica(voter_id, UUID(int=self.voters[voter_id].disk))

    def new_disk(self, voter_id: int) -> None:
        """Kill a controller, and format a new disk for it with --no-initial-controllers."""
        self.kill(voter_id)
        voter = self.voters[voter_id]
        voter.log, voter.disk = MemoryLog(), voter.disk + 1

    def is_electable(self, voter_id: int) -> bool:
        """Return True if a majority of the voters that a controller knows has its disks and would vote for it.

        With lost disks there may be none for ever. So it is, as in Kafka, with a leader that was cut off when it had
        removed itself: it does not stand, since it is no voter by its own log, and votes for no shorter one.
        """
        here = self.voters[voter_id].log
        voters = (here.voters or VoterSet(self.first_voters)).voters
        whole = [voter for voter in voters if self.replica(voter.voter_id) == voter]
        votes = sum(self.voters[voter.voter_id].log.end <= here.end for voter in whole)
        return self.replica(voter_id) in whole and 2 * votes > len(voters)

    def change(self, leader_id: int, request: AddVoter | RemoveVoter) -> None:
        leader = self.voters[leader_id]
        self._begin_change(leader, request, lambda answer: self._tell_answer(leader, answer))
        self._after(leader)

    def _begin_change(self, leader: Voter, request: AddVoter | RemoveVoter, end: Callable[[PlainAnswer], None]) -> None:
        assert leader.quorum is not None
        answer = leader.quorum.change_voters(request, self.now_us)
        if answer is None:
            leader.end_change = end
        else:
            end(answer)

    def upgrade(self, leader_id: int) -> None:
        """Upgrade kraft.version to 1, if the leader can."""
        leader = self.voters[leader_id]
        assert leader.quorum is not None
        voters = leader.quorum.upgraded_voters()
        if voters is None:
            self.story.append(f"{self.now_us // MS:>6} ms  c{leader_id} does not know all directories")
            return
        leader.log.append_voters(leader.quorum.epoch, voters, self.now_us)
        leader.quorum.appended(self.now_us)
        self._after(leader)

    def _tell_answer(self, leader: Voter, answer: PlainAnswer) -> None:
        said = f": {answer.message}" if answer.message else ""
        self.story.append(f"{self.now_us // MS:>6} ms  c{leader.voter_id} answers {answer.error.name}{said}")

    def append(self, voter_id: int, payload: str) -> None:
        """The leader decides something."""
        voter = self.voters[voter_id]
        assert voter.quorum is not None and voter.quorum.is_leader
        voter.log.entries.append((voter.quorum.epoch, payload))
        voter.quorum.appended(self.now_us)
        self._after(voter)

    def take_snapshot(self, voter_id: int) -> None:
        """Of what this voter knows to be committed."""
        voter = self.voters[voter_id]
        if voter.quorum is not None:
            voter.log.take_snapshot(voter.quorum.high_watermark)

    def run_until(self, at_us: int) -> None:
        while True:
            deadlines = [
                (due_us, voter_id)
                for voter_id, voter in self.voters.items()
                if voter.quorum is not None and (due_us := voter.quorum.next_deadline_us) is not None
            ]
            next_us, ticked = min(deadlines, default=(at_us + 1, 0))
            if self._queue and self._queue[0][0] <= next_us:
                if self._queue[0][0] > at_us:
                    break
                due_us, _, act = heapq.heappop(self._queue)
                self.now_us = max(self.now_us, due_us)
                act()
            elif next_us <= at_us:
                self.now_us = max(self.now_us, next_us)
                voter = self.voters[ticked]
                assert voter.quorum is not None
                voter.quorum.tick(self.now_us)
                self._after(voter)
            else:
                break
        self.now_us = at_us

    @property
    def leaders(self) -> list[int]:
        return [voter_id for voter_id, voter in self.voters.items() if voter.quorum and voter.quorum.is_leader]

    # ------------------------------------------------------------------------------------------------------ messages

    def _later(self, delay_us: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_us + delay_us, self._queued, act))
        self._queued += 1

    def _send(self, sender: Voter, action: SendTo) -> None:
        """Over one connection: an answer, or after a while the knowledge that there is none."""
        life, receiver = sender.lives, self.voters[action.peer_id]
        answered: list[None] = []

        def end(answer: AnyAnswer | None) -> None:
            if not answered and sender.lives == life and sender.quorum is not None:
                answered.append(None)
                sender.quorum.answered(action.peer_id, action.request, answer, self.now_us)
                self._after(sender)

        def answer_travels(answer: AnyAnswer | None) -> None:
            if answer is None or self.passes(receiver.voter_id, sender.voter_id):
                self._later(self.delay_us(), lambda: end(answer))

        def arrive() -> None:
            if receiver.quorum is None:
                answer_travels(None)
            else:
                self._asked(receiver, action.request, answer_travels)

        if self.passes(sender.voter_id, receiver.voter_id):
            self._later(self.delay_us(), arrive)
        self._later(REQUEST_TIMEOUT_US, lambda: end(None))

    def _asked(self, receiver: Voter, request: Request, answer: Callable[[AnyAnswer | None], None]) -> None:
        quorum = receiver.quorum
        assert quorum is not None
        if isinstance(request, AskVersions):
            answer(PlainAnswer(ErrorCode.NONE))
        elif isinstance(request, AddVoter | RemoveVoter):

            def end(ended: PlainAnswer) -> None:
                self._tell_answer(receiver, ended)
                answer(ended)

            self._begin_change(receiver, request, end)
        elif isinstance(request, FetchSnapshot):
            answer(quorum.snapshot_fetched(replace(request, max_bytes=SNAPSHOT_PIECE_BYTES), self.now_us))
        elif isinstance(request, FetchLog):
            receiver.waiting.append((self.now_us + FETCH_WAIT_US, request, answer))
            self._later(FETCH_WAIT_US, lambda: self._serve(receiver))
            self._serve(receiver)
        else:
            found = quorum.asked(request, self.now_us)
            if found.vote_granted:
                assert receiver.log.election.epoch == found.epoch, "a vote that is not on disk"
            answer(found)
        self._after(receiver)

    def _serve(self, voter: Voter) -> None:
        """Answer the fetches that have something to hear, or have waited long enough."""
        waiting, voter.waiting = voter.waiting, []
        for due_us, request, answer in waiting:
            quorum = voter.quorum
            if quorum is None:
                return
            found = quorum.fetched(request, self.now_us)
            news = found.error is not ErrorCode.NONE or found.diverging is not None or found.snapshot is not None
            if news or request.fetch_offset < voter.log.end.offset or due_us <= self.now_us:
                records = b"" if news else voter.log.encoded_from(request.fetch_offset)
                answer(replace(found, records=records))
            else:
                voter.waiting.append((due_us, request, answer))

    def _after(self, voter: Voter) -> None:
        """Do what the voter wants done, then judge."""
        quorum = voter.quorum
        while quorum is not None and (actions := quorum.take()):
            for action in actions:
                match action:
                    case SendTo():
                        self._send(voter, action)
                    case Emit():
                        self.story.append(f"{self.now_us // MS:>6} ms  {action.event.sentence()}")
                    case VoterChangeEnded():
                        assert voter.end_change is not None
                        voter.end_change(action.answer)
                    case LogCommitted() | LeadershipChanged() | VotersAppended():
                        pass
            self._serve(voter)
        self._judge(voter)

    # ------------------------------------------------------------------------------------------------------ the rules

    def _judge(self, voter: Voter) -> None:
        quorum = voter.quorum
        if quorum is None:
            return
        if quorum.is_leader:
            if quorum.epoch not in self.leader_of_epoch:
                # A candidate that hears of its votes late finds what leaders of later epochs have committed meanwhile.
                owed = self.committed[: bisect.bisect_left(self.committed_in, quorum.epoch)]
                here = voter.log.entries[: len(owed)]
                assert here == owed, f"the leader of epoch {quorum.epoch} lacks committed records"
            known = self.leader_of_epoch.setdefault(quorum.epoch, voter.voter_id)
            assert known == voter.voter_id, f"epoch {quorum.epoch} has two leaders: {known} and {voter.voter_id}"
        here = voter.log.entries[: quorum.high_watermark]
        assert len(here) == quorum.high_watermark, "committed records are missing from the log"
        shared = min(len(here), len(self.committed))
        assert here[:shared] == self.committed[:shared], "what was committed has changed"
        # The leader that commits an entry is the first to know of it, so this is the epoch of that leader.
        self.committed_in += [quorum.epoch] * (len(here) - shared)
        self.committed += here[shared:]
