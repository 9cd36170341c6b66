"""Several voters with their logs in memory, and messages that the test delivers, loses or delivers late.

Nothing here decides: it is the disk and the network of `controller.quorum.Quorum`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from controller.quorum.messages import (
    AnyAnswer,
    ElectionState,
    FetchAnswer,
    FetchLog,
    FetchSnapshot,
    LeadershipChanged,
    LogCommitted,
    OffsetAndEpoch,
    Request,
    SendTo,
)
from controller.quorum.quorum import Quorum
from controller.quorum.roles import QuorumTimeouts
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
    """One controller: `quorum` is None while it is down."""

    voter_id: int
    log: MemoryLog = field(default_factory=MemoryLog)
    quorum: Quorum | None = None
    lives: int = 0
    waiting: list[tuple[int, FetchLog, Callable[[FetchAnswer | None], None]]] = field(default_factory=list)


class QuorumWorld:
    """Virtual time, a queue of what happens, and the rules of Raft checked after every step of it.

    passes(sender, receiver): whether a message gets through now     delay_us(): how long it takes
    """

    def __init__(self, voters: int, seed: int = 0) -> None:
        self.now_us = 0
        self.ids = list(range(1, voters + 1))
        self.names = Names({voter: f"c{voter}" for voter in self.ids})
        self.voters = {voter: Voter(voter) for voter in self.ids}
        self.random = random.Random(seed)
        self.passes: Callable[[int, int], bool] = lambda sender, receiver: True
        self.delay_us: Callable[[], int] = lambda: LATENCY_US
        self.story: list[str] = []
        self.leader_of_epoch: dict[int, int] = {}
        self.committed: list[Entry] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._queued = 0

    # ---------------------------------------------------------------------------------------------- what may be done

    def start(self, voter_id: int) -> None:
        voter = self.voters[voter_id]
        voter.lives += 1
        stream = random.Random(f"{voter_id}/{voter.lives}/{self.random.random()}")
        voter.quorum = Quorum(
            local_id=voter_id,
            voters=self.ids,
            names=self.names,
            log=voter.log,
            timeouts=QuorumTimeouts(),
            draw=stream.randrange,
        )
        voter.quorum.start(self.now_us)
        self._after(voter)

    def kill(self, voter_id: int) -> None:
        voter = self.voters[voter_id]
        voter.quorum = None
        waiting, voter.waiting = voter.waiting, []
        for _, _, answer in waiting:
            answer(None)

    def append(self, voter_id: int, payload: str) -> None:
        """The leader decides something."""
        voter = self.voters[voter_id]
        assert voter.quorum is not None and voter.quorum.is_leader
        voter.log.entries.append((voter.quorum.epoch, payload))
        voter.quorum.appended()
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
                due_us, _, act = self._queue.pop(0)
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
        self._queue.append((self.now_us + delay_us, self._queued, act))
        self._queued += 1
        self._queue.sort(key=lambda item: item[:2])

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
        if isinstance(request, FetchSnapshot):
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
                    case LogCommitted() | LeadershipChanged():
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
                here = voter.log.entries[: len(self.committed)]
                assert here == self.committed, f"the leader of epoch {quorum.epoch} lacks committed records"
            known = self.leader_of_epoch.setdefault(quorum.epoch, voter.voter_id)
            assert known == voter.voter_id, f"epoch {quorum.epoch} has two leaders: {known} and {voter.voter_id}"
        here = voter.log.entries[: quorum.high_watermark]
        assert len(here) == quorum.high_watermark, "committed records are missing from the log"
        shared = min(len(here), len(self.committed))
        assert here[:shared] == self.committed[:shared], "what was committed has changed"
        self.committed += here[shared:]
