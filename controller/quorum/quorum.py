"""One voter of a quorum of controllers: elections by majority, and a metadata log that followers fetch (KIP-595).

A pure state machine: give it requests, answers and the time, perform the actions that `take` hands out, and call `tick`
when `next_deadline_us` has come. Its log is handed in (`ReplicatedLog`), and so is chance (`draw`, for timeouts).

Four rules make it safe: one vote per voter and epoch, on disk before it is answered; no voter votes for a log that ends
before its own; a leader counts a record as committed only when a majority has it and one of its own epoch with it;
a follower cuts its log back to where it parts from the leader's.
Source: KafkaRaftClient, QuorumState (3.9, static voters).

Simplified: no Pre-Vote (KIP-996, 4.0) and no change of the voter set (KIP-853).
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.quorum.messages import (
    Action,
    AnyAnswer,
    BeginQuorumEpoch,
    ControllerEpoch,
    ElectionState,
    EndQuorumEpoch,
    FetchAnswer,
    FetchLog,
    FetchSnapshot,
    LeadershipChanged,
    LogCommitted,
    OffsetAndEpoch,
    ReplicatedLog,
    Request,
    SendTo,
    SnapshotAnswer,
    Vote,
    VoterAnswer,
)
from controller.quorum.roles import (
    Candidate,
    Draw,
    Follower,
    Leader,
    QuorumTimeouts,
    Resigned,
    Role,
    SnapshotFetch,
    Unattached,
    VoterConnections,
    diverging_end,
    is_cut_off,
    snapshot_piece,
    truncation_offset,
)
from replica.causes import CandidacyCause, ResignationCause
from replica.errors import ErrorCode
from replica.ids import BrokerId, Names, Offset
from replica.trace import events as trace
from replica.trace.events import Emit

_NEVER = 2**62
_SNAPSHOT_IS_GONE = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)


class Quorum:
    """voters: ids of all controllers, `local_id` among them. `draw(n)`: a random integer in [0, n).

    high_watermark: every record below it is committed, as far as this voter knows; it never falls in a process's life
    """

    def __init__(
        self,
        *,
        local_id: BrokerId,
        voters: Sequence[BrokerId],
        names: Names,
        log: ReplicatedLog,
        timeouts: QuorumTimeouts,
        draw: Draw,
    ) -> None:
        assert local_id in voters, "a controller is a voter of its quorum"
        self.local_id = local_id
        self.voters = tuple(voters)
        self.high_watermark: Offset = 0
        self.role: Role = Unattached(0, None, _NEVER)
        self._names = names
        self._log = log
        self._timeouts = timeouts
        self._draw = draw
        self._peers = VoterConnections(voter for voter in self.voters if voter != local_id)
        self._actions: list[Action] = []

    def take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    # --------------------------------------------------------------------------------------------------- what is so

    @property
    def epoch(self) -> ControllerEpoch:
        return self.role.epoch

    @property
    def leader_id(self) -> BrokerId | None:
        """The leader of this epoch as far as this voter knows; None: it knows none, or it has resigned."""
        match self.role:
            case Leader():
                return self.local_id
            case Follower(leader_id=leader_id):
                return leader_id
        return None

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def is_resigned(self) -> bool:
        return isinstance(self.role, Resigned)

    @property
    def has_committed_its_epoch(self) -> bool:
        """True once this leader's first record is committed, and with it every record before: it may act then."""
        role = self.role
        return isinstance(role, Leader) and self.high_watermark > role.epoch_start_offset

    @property
    def next_deadline_us(self) -> int | None:
        role = self.role
        match role:
            case Unattached():
                due_us = role.election_due_us
            case Candidate(backoff_due_us=None):
                due_us = min(role.election_due_us, self._peers.next_send_us(self._silent_voters(role), _NEVER))
            case Candidate():
                assert role.backoff_due_us is not None
                due_us = role.backoff_due_us
            case Follower():
                due_us = min(role.fetch_due_us, self._peers.next_send_us([role.leader_id], _NEVER))
            case Leader():
                due_us = min(role.check_quorum_due_us, role.begin_epoch_due_us)
            case Resigned():
                due_us = min(role.election_due_us, self._peers.next_send_us(role.unacknowledged, _NEVER))
        return None if due_us == _NEVER else due_us

    # ------------------------------------------------------------------------------------------------ time, requests

    def start(self, now_us: int) -> None:
        """Take up where the quorum-state file and the log end. Source: QuorumState.initialize"""
        if self._log.latest_snapshot is not None:
            self.high_watermark = self._log.latest_snapshot.offset
        election = self._log.read_election()
        if election.epoch < self._log.end.epoch:
            election = ElectionState(self._log.end.epoch)
        if self.voters == (self.local_id,):
            self.role = Unattached(election.epoch, None, _NEVER)
            self._stand(now_us, CandidacyCause.ALONE)
        elif election.leader_id == self.local_id:
            # It may have lost what it had not flushed, so it must not lead or vote in this epoch again.
            self.role = Resigned(election.epoch, (), list(self._peers), self._election_due_us(now_us))
        elif election.voted_id == self.local_id:
            self.role = Candidate(election.epoch, {self.local_id: True}, 1, self._election_due_us(now_us))
        elif election.leader_id in self._peers:
            assert election.leader_id is not None
            self.role = Follower(election.epoch, election.leader_id, self._timeouts.fetch_due_us(now_us))
        else:
            self.role = Unattached(election.epoch, election.voted_id, self._election_due_us(now_us))
        self.tick(now_us)

    def tick(self, now_us: int) -> None:
        """Do what is due, and send what may be sent. Source: KafkaRaftClient.pollCurrentState"""
        role = self.role
        match role:
            case Unattached() if role.election_due_us <= now_us:
                self._stand(now_us, CandidacyCause.NO_LEADER)
            case Candidate(backoff_due_us=int() as backoff_due_us) if backoff_due_us <= now_us:
                self._stand(now_us, CandidacyCause.ELECTION_FAILED, role.retries + 1)
            case Candidate(backoff_due_us=None) if role.election_due_us <= now_us:
                role.backoff_due_us = now_us + self._timeouts.election_backoff_us(role.retries, self._draw)
            case Candidate(backoff_due_us=None):
                for peer in self._silent_voters(role):
                    self._send(peer, Vote(self.local_id, role.epoch, self._log.end), now_us)
            case Follower() if role.fetch_due_us <= now_us:
                self._stand(now_us, CandidacyCause.NO_ANSWER, leader=self._names(role.leader_id))
            case Follower(snapshot=SnapshotFetch(end=end, data=data)):
                self._send(role.leader_id, FetchSnapshot(self.local_id, role.epoch, end, len(data)), now_us)
            case Follower():
                end = self._log.end
                self._send(role.leader_id, FetchLog(self.local_id, role.epoch, end.offset, end.epoch), now_us)
            case Leader() if role.check_quorum_due_us <= now_us:
                self._stop_leading(ResignationCause.NO_MAJORITY, silent_us=self._timeouts.check_quorum_us)
                self._resign(role, now_us)
            case Leader() if role.begin_epoch_due_us <= now_us:
                for peer in self._peers:
                    self._send(peer, BeginQuorumEpoch(self.local_id, role.epoch), now_us)
                role.begin_epoch_due_us = now_us + self._timeouts.begin_epoch_us
            case Resigned() if role.election_due_us <= now_us:
                self._stand(now_us, CandidacyCause.RESIGNED)
            case Resigned():
                request = EndQuorumEpoch(self.local_id, role.epoch, role.preferred_successors)
                for peer in role.unacknowledged:
                    self._send(peer, request, now_us)

    def _send(self, peer_id: BrokerId, request: Request, now_us: int) -> None:
        if self._peers.begin(peer_id, now_us):
            self._actions.append(SendTo(peer_id, request))

    def asked(self, request: Vote | BeginQuorumEpoch | EndQuorumEpoch, now_us: int) -> VoterAnswer:
        """A request of another voter. Everything the answer promises is on disk."""
        sender = request.candidate_id if isinstance(request, Vote) else request.leader_id
        granted = False
        if request.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif sender not in self._peers:
            error = ErrorCode.INCONSISTENT_VOTER_SET
        else:
            error = ErrorCode.NONE
            match request:
                case Vote():
                    granted = self._judge_candidate(request, now_us)
                case BeginQuorumEpoch():
                    self._heard_of(request.leader_id, request.epoch, now_us)
                case EndQuorumEpoch():
                    self._heard_of(request.leader_id, request.epoch, now_us)
                    self._hurry(request, now_us)
        answer = VoterAnswer(error, self.leader_id, self.epoch, granted)
        self.tick(now_us)
        return answer

    def _judge_candidate(self, request: Vote, now_us: int) -> bool:
        """Source: handleVoteRequest, EpochState.canGrantVote"""
        if request.epoch > self.epoch:
            self._stop_leading(ResignationCause.CANDIDATE, request.epoch, self._names(request.candidate_id))
            self._detach(request.epoch, now_us)
        role = self.role
        if not isinstance(role, Unattached):
            return False
        if role.voted_id is None and request.last >= self._log.end:
            role.voted_id = request.candidate_id
            role.election_due_us = self._election_due_us(now_us)
            self._log.write_election(ElectionState(role.epoch, None, role.voted_id))
        return role.voted_id == request.candidate_id

    def _hurry(self, request: EndQuorumEpoch, now_us: int) -> None:
        """The leader has resigned: the voter with the longest log stands first. Source: endEpochElectionBackoff"""
        role = self.role
        if isinstance(role, Follower) and role.leader_id == request.leader_id:
            successors = request.preferred_successors
            place = successors.index(self.local_id) if self.local_id in successors else len(successors)
            role.fetch_due_us = now_us + self._timeouts.succession_backoff_us(place, len(successors))

    def fetched(self, request: FetchLog, now_us: int) -> FetchAnswer:
        """Another voter fetches; the answer lacks its records. A fetch of a voter is also its acknowledgement.

        Source: tryCompleteFetchRequest, ReplicatedLog.validateOffsetAndEpoch
        """
        role = self.role
        error = self.fetch_error(request.epoch)
        if error is not ErrorCode.NONE or not isinstance(role, Leader):
            return FetchAnswer(error, self.leader_id, self.epoch)
        if is_cut_off(self._log, request):
            self._note_fetch(role, request.replica_id, now_us)
            snapshot = self._log.latest_snapshot
            return FetchAnswer(ErrorCode.NONE, self.local_id, role.epoch, self.high_watermark, snapshot=snapshot)
        diverging = diverging_end(self._log, request)
        if diverging is None and request.replica_id in self._peers:
            role.end_offsets[request.replica_id] = request.fetch_offset
            self._note_fetch(role, request.replica_id, now_us)
            self._maybe_advance_high_watermark(role)
        return FetchAnswer(ErrorCode.NONE, self.local_id, role.epoch, self.high_watermark, diverging)

    def snapshot_fetched(self, request: FetchSnapshot, now_us: int) -> SnapshotAnswer:
        """Another voter or a broker fetches a piece of a snapshot. Source: handleFetchSnapshotRequest"""
        role = self.role
        error = self.fetch_error(request.epoch)
        if error is not ErrorCode.NONE or not isinstance(role, Leader):
            return SnapshotAnswer(error, self.leader_id, self.epoch)
        error, size_bytes, piece = snapshot_piece(self._log, request)
        if error is ErrorCode.NONE and request.replica_id in self._peers:
            self._note_fetch(role, request.replica_id, now_us)
        return SnapshotAnswer(error, self.local_id, role.epoch, size_bytes, piece)

    def fetch_error(self, epoch: ControllerEpoch) -> ErrorCode:
        """Why a fetch that takes us for the leader of `epoch` is refused (validateLeaderOnlyRequest)."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _note_fetch(self, role: Leader, voter: BrokerId, now_us: int) -> None:
        """Source: LeaderState.updateCheckQuorumForFollowingVoter; the leader itself is one of the majority."""
        role.fetched[voter] = None
        if len(role.fetched) >= len(self.voters) // 2:
            role.fetched.clear()
            role.check_quorum_due_us = now_us + self._timeouts.check_quorum_us

    def appended(self) -> None:
        """The leader has written to its log, and it is on disk."""
        role = self.role
        assert isinstance(role, Leader), "only a leader appends of its own accord"
        role.end_offsets[self.local_id] = self._log.end.offset
        self._maybe_advance_high_watermark(role)

    def _maybe_advance_high_watermark(self, role: Leader) -> None:
        """A record of an earlier epoch is committed only together with one of this epoch (Raft 5.4.2)."""
        offset = role.majority_offset
        if offset is not None and offset > role.epoch_start_offset and offset > self.high_watermark:
            self.high_watermark = offset
            self._actions.append(LogCommitted(offset))

    # ------------------------------------------------------------------------------------------------------- answers

    def answered(self, peer_id: BrokerId, request: Request, answer: AnyAnswer | None, now_us: int) -> None:
        """The answer to a request that was sent; None: it could not be sent, or there was none in time."""
        if answer is None:
            self._peers.failed(peer_id, now_us)
        else:
            self._peers.answered(peer_id)
            if not self._heard_answer(answer, now_us):
                match request, answer:
                    case Vote(), VoterAnswer():
                        self._vote_counted(peer_id, request, answer, now_us)
                    case EndQuorumEpoch(), VoterAnswer():
                        self._end_acknowledged(peer_id, request)
                    case FetchLog(), FetchAnswer():
                        self._log_fetched(request, answer, now_us)
                    case FetchSnapshot(), SnapshotAnswer():
                        self._snapshot_fetched(request, answer, now_us)
            if answer.error is not ErrorCode.NONE:
                self._peers.refused(peer_id, now_us)
        self.tick(now_us)

    def _heard_answer(self, answer: AnyAnswer, now_us: int) -> bool:
        """Learn of a newer epoch or of the leader; true if the answer says nothing else to us any more.

        Source: maybeHandleCommonResponse
        """
        if answer.epoch < self.epoch or answer.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            return True
        if isinstance(answer, SnapshotAnswer) and answer.error in _SNAPSHOT_IS_GONE:
            self._fetch_log_again(now_us)
        moved_on = answer.epoch > self.epoch or answer.error is not ErrorCode.NONE
        self._heard_of(answer.leader_id, answer.epoch, now_us)
        return moved_on

    def _vote_counted(self, peer_id: BrokerId, request: Vote, answer: VoterAnswer, now_us: int) -> None:
        role = self.role
        if not isinstance(role, Candidate) or role.epoch != request.epoch:
            return
        role.votes[peer_id] = answer.vote_granted
        if role.has_majority(len(self.voters)):
            self._lead(role, now_us)
        elif role.has_lost(len(self.voters)) and role.backoff_due_us is None:
            # Do not wait for the election timeout: a gridlock has to be broken at random.
            role.backoff_due_us = now_us + self._timeouts.election_backoff_us(role.retries, self._draw)

    def _end_acknowledged(self, peer_id: BrokerId, request: EndQuorumEpoch) -> None:
        role = self.role
        if isinstance(role, Resigned) and role.epoch == request.epoch and peer_id in role.unacknowledged:
            role.unacknowledged.remove(peer_id)

    def _log_fetched(self, request: FetchLog, answer: FetchAnswer, now_us: int) -> None:
        """Source: handleFetchResponse"""
        role = self.role
        if not isinstance(role, Follower) or request.epoch != role.epoch:
            return
        if answer.snapshot is not None:
            role.snapshot = SnapshotFetch(answer.snapshot)
        elif answer.diverging is not None:
            self._truncate(answer.diverging)
        elif request.fetch_offset == self._log.end.offset:
            if answer.records:
                self._log.append_fetched(answer.records, now_us)
            self._learn_high_watermark(answer.high_watermark)
        role.fetch_due_us = self._timeouts.fetch_due_us(now_us)

    def _snapshot_fetched(self, request: FetchSnapshot, answer: SnapshotAnswer, now_us: int) -> None:
        """Source: handleFetchSnapshotResponse, ReplicatedLog.truncateToLatestSnapshot"""
        role = self.role
        if not isinstance(role, Follower) or request.epoch != role.epoch or role.snapshot is None:
            return
        role.fetch_due_us = self._timeouts.fetch_due_us(now_us)
        end, data = role.snapshot.end, role.snapshot.data
        if not role.snapshot.takes(request, answer):
            return
        role.snapshot = None
        had_offset = self._log.end.offset
        self._log.replace_with_snapshot(end, bytes(data))
        self._learn_high_watermark(end.offset)
        fetched = trace.SnapshotFetched(
            node=self._names(self.local_id),
            peer=self._names(role.leader_id),
            offset=end.offset,
            controller_epoch=end.epoch,
            size_bytes=len(data),
            had_offset=had_offset,
        )
        self._actions.append(Emit(fetched))

    def _fetch_log_again(self, now_us: int) -> None:
        """The leader has a newer snapshot by now: start over."""
        role = self.role
        if isinstance(role, Follower):
            role.snapshot = None
            role.fetch_due_us = self._timeouts.fetch_due_us(now_us)

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        offset = truncation_offset(self._log, diverging)
        assert offset >= self.high_watermark, f"a leader asks to cut committed records: {offset}"
        self._log.truncate_to(offset)

    def _learn_high_watermark(self, high_watermark: Offset) -> None:
        offset = min(high_watermark, self._log.end.offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._actions.append(LogCommitted(offset))

    # ------------------------------------------------------------------------------------------------- changes of role

    def _heard_of(self, leader_id: BrokerId | None, epoch: ControllerEpoch, now_us: int) -> None:
        """Source: maybeTransition"""
        if leader_id is None or leader_id == self.local_id:
            if epoch > self.epoch:
                self._stop_leading(ResignationCause.NEWER_EPOCH, epoch)
                self._detach(epoch, now_us)
        elif epoch > self.epoch or (epoch == self.epoch and isinstance(self.role, Unattached | Candidate)):
            self._stop_leading(ResignationCause.OTHER_LEADER, epoch, self._names(leader_id))
            self._log.write_election(ElectionState(epoch, leader_id))
            self._become(Follower(epoch, leader_id, self._timeouts.fetch_due_us(now_us)))

    def _detach(self, epoch: ControllerEpoch, now_us: int) -> None:
        """A newer epoch, whose leader is not known. An election that is due stays due (transitionToUnattached)."""
        role = self.role
        match role:
            case Unattached() | Candidate():
                due_us = role.election_due_us
            case _:
                due_us = self._election_due_us(now_us)
        self._log.write_election(ElectionState(epoch))
        self._become(Unattached(epoch, None, due_us))

    def _stand(self, now_us: int, why: CandidacyCause, retries: int = 1, leader: str | None = None) -> None:
        """Become a candidate of the next epoch, with one's own vote. Source: transitionToCandidate"""
        epoch = self.epoch + 1
        self._log.write_election(ElectionState(epoch, None, self.local_id))
        role = Candidate(epoch, {self.local_id: True}, retries, self._election_due_us(now_us))
        self._become(role)
        if role.has_majority(len(self.voters)):
            self._lead(role, now_us, why)
            return
        me = self._names(self.local_id)
        began = trace.ElectionBegan(node=me, controller_epoch=epoch, cause=why, previous_leader=leader)
        self._actions.append(Emit(began))
        self.tick(now_us)

    def _lead(self, candidate: Candidate, now_us: int, why: CandidacyCause | None = None) -> None:
        """Elected: the epoch begins with a record of its own. why: if its own vote is a majority

        Source: onBecomeLeader
        """
        epoch = candidate.epoch
        self._log.write_election(ElectionState(epoch, self.local_id))
        role = Leader(
            epoch,
            self._log.end.offset,
            dict.fromkeys(self.voters),
            now_us + self._timeouts.check_quorum_us if self._peers else _NEVER,
            now_us if self._peers else _NEVER,
        )
        elected = trace.QuorumLeaderElected(
            node=self._names(self.local_id),
            controller_epoch=epoch,
            cause=why,
            voted_by=tuple(self._names(voter) for voter in self.voters if candidate.votes.get(voter)),
            voters=len(self.voters),
        )
        self._actions.append(Emit(elected))
        self._become(role)
        self._log.append_leader_change(epoch, self.local_id, now_us)
        self.appended()
        self.tick(now_us)

    def resign_for_good(self, now_us: int) -> None:
        """Stop leading and say so, as a controller that shuts down does; it stands for no election any more."""
        assert isinstance(self.role, Leader), "only a leader resigns"
        self._stop_leading(ResignationCause.SHUTDOWN)
        self._resign(self.role, now_us, _NEVER)

    def _resign(self, role: Leader, now_us: int, election_due_us: int | None = None) -> None:
        """Source: transitionToResigned, with nonLeaderVotersByDescendingFetchOffset"""
        if election_due_us is None:
            election_due_us = self._election_due_us(now_us)
        peers = list(self._peers)
        self._become(Resigned(role.epoch, role.successors(peers), peers, election_due_us))
        self.tick(now_us)

    def _stop_leading(
        self,
        why: ResignationCause,
        newer_epoch: ControllerEpoch | None = None,
        other: str | None = None,
        silent_us: int | None = None,
    ) -> None:
        if isinstance(self.role, Leader):
            resigned = trace.ControllerResigned(
                node=self._names(self.local_id),
                controller_epoch=self.epoch,
                cause=why,
                newer_epoch=newer_epoch,
                other=other,
                silent_us=silent_us,
            )
            self._actions.append(Emit(resigned))

    def _become(self, role: Role) -> None:
        self.role = role
        self._actions.append(LeadershipChanged())

    # -------------------------------------------------------------------------------------------------------- timeouts

    def _silent_voters(self, role: Candidate) -> list[BrokerId]:
        return [peer for peer in self._peers if peer not in role.votes]

    def _election_due_us(self, now_us: int) -> int:
        return self._timeouts.election_due_us(now_us, self._draw)
