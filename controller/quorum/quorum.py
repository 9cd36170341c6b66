"""One voter in a quorum of controllers: elections by majority, and a metadata log that followers fetch (KIP-595).

`Quorum` is a pure state machine. Pass it requests, answers and the time, perform the actions that `take` returns, and
call `tick` at `next_deadline_us`. Its log (`ReplicatedLog`) and its random numbers (`draw`) are arguments.

Four rules ensure safety. A voter has one vote per epoch, which is on disk before it answers. A voter refuses candidates
whose log ends before its own. A leader counts a record as committed only if a majority has that record and also a
record of the leader's own epoch. A follower truncates its log where it diverges from the leader's.

With `asks_first`, a voter that hears nothing from its leader asks the others whether they would elect it, and raises
the epoch only if a majority would (Pre-Vote, KIP-996). So a voter that was partitioned does not depose the leader when
it returns.

The voters may change (voters.py). A controller that is no voter is an observer: it fetches the log from the leader and
is never a candidate. An observer still votes, because it may be a voter in the newer log of a candidate. With auto-join
an observer asks its leader to remove the voter with its id, if any, and then to add itself (KIP-1186).

Source: KafkaRaftClient, QuorumState (3.9, and 4.1 for Pre-Vote)
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.quorum.messages import (
    Action,
    AddVoter,
    AnyAnswer,
    AskVersions,
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
    PlainAnswer,
    RemoveVoter,
    ReplicatedLog,
    Request,
    SendTo,
    SnapshotAnswer,
    UpdateVoter,
    Vote,
    Voter,
    VoterAnswer,
    VoterChangeEnded,
    VoterRequest,
    VotersAppended,
)
from controller.quorum.roles import (
    NEVER_US,
    Candidate,
    Draw,
    Follower,
    Leader,
    Prospective,
    QuorumConfig,
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
from controller.quorum.voters import VoterChange, VoterSet, timed_out, voters_after, why_refused
from replica.causes import CandidacyCause, ResignationCause, VoterChangeCause
from replica.errors import ErrorCode
from replica.ids import BrokerId, Names, Offset
from replica.trace import events as trace
from replica.trace.events import Emit

EPOCH_MAX = 2**31 - 2**16
"""The largest epoch that a voter accepts from a request, so that enough epochs are left for elections."""

_IS_DONE_OR_LATER = (
    ErrorCode.NONE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.DUPLICATE_VOTER,
    ErrorCode.VOTER_NOT_FOUND,
)
"""Answers to an observer that would join, after which it waits. Source: handleAddVoterResponse (4.2)"""
_SNAPSHOT_IS_GONE = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)


class Quorum:
    """One controller of a quorum.

    Args:
        voters: the voters as long as the log has no VotersRecord.
        controllers: ids of all controllers, voters or not, from which an observer fetches if it knows no leader.
        draw: `draw(n)` returns a random integer in [0, n).
        asks_first: True to use Pre-Vote.

    Attributes:
        voter_set: the current voters; `voters` are their ids.
        is_voter: True if this controller, with its log directory, is a voter.
        high_watermark: records below it are committed, as far as this voter knows. It never falls while the process
            runs.
    """

    def __init__(
        self,
        *,
        local: Voter,
        voters: Sequence[Voter],
        controllers: Sequence[BrokerId],
        names: Names,
        log: ReplicatedLog,
        config: QuorumConfig,
        draw: Draw,
        asks_first: bool = False,
    ) -> None:
        self.local = local
        self.local_id = local.voter_id
        self.controllers = tuple(controllers)
        self._first_voters = VoterSet(tuple(voters))
        self._count_voters(self._first_voters)
        self.high_watermark: Offset = 0
        self.role: Role = Unattached(0, None, NEVER_US)
        self._names = names
        self._log = log
        self._config = config
        self._draw = draw
        self._pre_votes = asks_first
        self._connections = VoterConnections()
        self._others = tuple(controller for controller in controllers if controller != self.local_id)
        self._actions: list[Action] = []

    def _count_voters(self, voter_set: VoterSet) -> None:
        self.voter_set = voter_set
        self.voters = voter_set.ids
        self.is_voter = voter_set.find(self.local) is not None
        self._peers = [voter for voter in self.voters if voter != self.local_id]

    def take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    # ------------------------------------------------------------------------------------------------------- state

    @property
    def epoch(self) -> ControllerEpoch:
        return self.role.epoch

    @property
    def _seeks_leader(self) -> bool:
        """True for an observer that knows no leader or gets no answer from it (maybeSendFetchToAnyBootstrap)."""
        role = self.role
        is_lost = isinstance(role, Unattached) or (isinstance(role, Follower) and role.fetch_due_us == NEVER_US)
        return is_lost and not self.is_voter

    @property
    def _asks_first(self) -> bool:
        return self._pre_votes and bool(self._peers)

    @property
    def leader_id(self) -> BrokerId | None:
        """The leader of this epoch; None if this voter does not know the leader or has resigned."""
        match self.role:
            case Leader():
                return self.local_id
            case Follower(leader_id=leader_id) | Prospective(leader_id=leader_id):
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
        """True once the first record of this leader's epoch is committed; only then may the controller decide."""
        role = self.role
        return isinstance(role, Leader) and self.high_watermark > role.epoch_start_offset

    @property
    def next_deadline_us(self) -> int | None:
        role = self.role
        match role:
            case _ if self._seeks_leader:
                other = self._connections.next_idle(self._others)
                due_us = NEVER_US if other is None else self._connections.next_send_us([other])
            case Unattached():
                due_us = role.election_due_us
            case Candidate(backoff_due_us=None):
                due_us = min(role.election_due_us, self._connections.next_send_us(self._silent_voters(role)))
            case Candidate():
                assert role.backoff_due_us is not None
                due_us = role.backoff_due_us
            case Follower():
                due_us = min(role.fetch_due_us, self._connections.next_send_us([role.leader_id]))
            case Leader():
                change_due_us = NEVER_US if role.change is None else role.change.due_us
                due_us = min(role.check_quorum_due_us, role.begin_epoch_due_us, change_due_us)
            case Resigned():
                due_us = min(role.election_due_us, self._connections.next_send_us(role.unacknowledged))
        return None if due_us == NEVER_US else due_us

    # ------------------------------------------------------------------------------------------------ time, requests

    def start(self, now_us: int) -> None:
        """Restore the state from the quorum-state file and the log, and begin. Source: QuorumState.initialize"""
        if self._log.latest_snapshot is not None:
            self.high_watermark = self._log.latest_snapshot.offset
        self._count_voters(self._log.voters or self._first_voters)
        election = self._log.read_election()
        if election.epoch < self._log.end.epoch:
            election = ElectionState(self._log.end.epoch)
        if self.is_voter and not self._peers:
            self.role = Unattached(election.epoch, None, NEVER_US)
            self._stand(now_us, CandidacyCause.ALONE)
        elif election.leader_id == self.local_id:
            # It may have lost records that were not flushed, so it must not lead or vote in this epoch again.
            self.role = Resigned(election.epoch, (), list(self._peers), self._election_due_us(now_us))
        elif election.voted_id == self.local_id and self.is_voter:
            self.role = Candidate(election.epoch, {self.local_id: True}, 1, self._election_due_us(now_us))
        elif election.leader_id in self._peers:
            assert election.leader_id is not None
            self.role = Follower(election.epoch, election.leader_id, self._config.fetch_due_us(now_us))
        else:
            self.role = Unattached(election.epoch, election.voted_id, self._election_due_us(now_us))
        self.tick(now_us)

    def tick(self, now_us: int) -> None:
        """Act on expired timeouts, and send requests where possible. Source: KafkaRaftClient.pollCurrentState"""
        role = self.role
        match role:
            case _ if self._seeks_leader:
                other = self._connections.next_idle(self._others)
                if other is not None:
                    self._send_fetch(other, now_us)
            case Follower() if role.fetch_due_us <= now_us and not self.is_voter:
                role.fetch_due_us = NEVER_US
                self.tick(now_us)
            case Unattached() if role.election_due_us <= now_us:
                self._campaign(now_us, CandidacyCause.NO_LEADER)
            case Prospective() if role.election_due_us <= now_us:
                self._give_up_asking(role, now_us)
            case Prospective():
                for peer in self._silent_voters(role):
                    self._send_vote(peer, now_us, pre_vote=True)
            case Candidate(backoff_due_us=int() as backoff_due_us) if backoff_due_us <= now_us:
                self._stand(now_us, CandidacyCause.ELECTION_FAILED, role.retries + 1)
            case Candidate() if self._asks_first and role.election_due_us <= now_us:
                self._campaign(now_us, CandidacyCause.ELECTION_FAILED)
            case Candidate(backoff_due_us=None) if role.election_due_us <= now_us:
                role.backoff_due_us = now_us + self._config.election_backoff_us(role.retries, self._draw)
            case Candidate(backoff_due_us=None):
                for peer in self._silent_voters(role):
                    self._send_vote(peer, now_us)
            case Follower() if role.fetch_due_us <= now_us:
                self._campaign(now_us, CandidacyCause.NO_ANSWER, leader=self._names(role.leader_id))
            case Follower():
                self._ask_leader(role, now_us)
            case Leader(change=VoterChange(due_us=due_us, offset=written_at)) if due_us <= now_us:
                is_written = written_at is not None
                why = VoterChangeCause.NOT_COMMITTED if is_written else VoterChangeCause.UNREACHABLE
                self._give_up_change(role, why, timed_out())
                self.tick(now_us)
            case Leader() if role.check_quorum_due_us <= now_us:
                self._stop_leading(ResignationCause.NO_MAJORITY, silent_us=self._config.check_quorum_us)
                self._resign(role, now_us)
            case Leader() if role.begin_epoch_due_us <= now_us:
                for peer in self._peers:
                    self._send(peer, BeginQuorumEpoch(self.local_id, role.epoch), now_us)
                role.begin_epoch_due_us = now_us + self._config.begin_epoch_us
            case Resigned() if role.election_due_us <= now_us and (self._asks_first or not self.is_voter):
                self._detach(role.epoch + 1, now_us)
                self.tick(now_us)
            case Resigned() if role.election_due_us <= now_us:
                self._stand(now_us, CandidacyCause.RESIGNED)
            case Resigned():
                ending = EndQuorumEpoch(self.local_id, role.epoch, role.preferred_successors)
                for peer in role.unacknowledged:
                    self._send(peer, ending, now_us)

    def _send(self, peer_id: BrokerId, request: Request, now_us: int) -> bool:
        has_begun = self._connections.begin(peer_id, now_us)
        if has_begun:
            self._actions.append(SendTo(peer_id, request))
        return has_begun

    def _send_fetch(self, peer_id: BrokerId, now_us: int) -> None:
        end = self._log.end
        self._send(peer_id, FetchLog(self.local_id, self.epoch, end.offset, end.epoch, self.local.directory_id), now_us)

    def _send_vote(self, peer_id: BrokerId, now_us: int, *, pre_vote: bool = False) -> None:
        voter = self.voter_set.of_id(peer_id)
        directory_id = None if voter is None else voter.directory_id
        self._send(peer_id, Vote(self.local_id, self.epoch, self._log.end, pre_vote, directory_id), now_us)

    def _ask_leader(self, role: Follower, now_us: int) -> None:
        """Ask for a change of the voters if one is due, else for records or for the rest of a snapshot.

        Source: pollFollowerAsVoter, pollFollowerAsObserver (4.4)
        """
        change = self._change_to_ask(role) if role.update_due_us <= now_us else None
        if change is not None:
            if self._send(role.leader_id, change, now_us):
                role.update_due_us = self._config.fetch_due_us(now_us)
            return
        if self.is_voter and role.update_due_us <= now_us:
            role.update_due_us = self._config.fetch_due_us(now_us)
        if role.snapshot is None:
            self._send_fetch(role.leader_id, now_us)
            return
        end, position = role.snapshot.end, len(role.snapshot.data)
        request = FetchSnapshot(self.local_id, role.epoch, end, position, directory_id=self.local.directory_id)
        self._send(role.leader_id, request, now_us)

    def _change_to_ask(self, role: Follower) -> Request | None:
        """Return the change of the voters for which this controller asks its leader, or None.

        Source: shouldSendUpdateVoteRequest, shouldSendAddOrRemoveVoterRequest (4.4)
        """
        is_dynamic = self.voter_set.is_dynamic
        if self.is_voter:
            must_tell = self._config.tells_directory and not (is_dynamic or role.has_updated)
            return UpdateVoter(self.local, role.epoch) if must_tell else None
        if not (self._config.auto_join and is_dynamic):
            return None
        earlier = self.voter_set.of_id(self.local_id)
        return AddVoter(self.local, ack_when_committed=False) if earlier is None else RemoveVoter(earlier)

    def asked(self, request: VoterRequest, now_us: int) -> VoterAnswer:
        """Handle another voter's request. The state on which the answer is based is already on disk."""
        if isinstance(request, UpdateVoter):
            return VoterAnswer(self._update_voter(request, now_us), self.leader_id, self.epoch)
        granted = False
        sender = request.candidate_id if isinstance(request, Vote) else request.leader_id
        if request.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif request.epoch > EPOCH_MAX or sender not in self.controllers:
            # Differs from Kafka: Kafka accepts unknown senders, and any epoch, so that its next epoch may overflow.
            error = ErrorCode.INVALID_REQUEST
        elif isinstance(request, Vote) and request.directory_id not in (None, self.local.directory_id):
            error = ErrorCode.INVALID_VOTER_KEY
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
        """Return True if this voter votes for the candidate. Source: handleVoteRequest, EpochState.canGrantVote"""
        if request.epoch > self.epoch:
            self._stop_leading(ResignationCause.CANDIDATE, request.epoch, self._names(request.candidate_id))
            self._detach(request.epoch, now_us)
        role = self.role
        if request.pre_vote:
            has_leader = isinstance(role, Leader) or (isinstance(role, Follower) and role.has_fetched)
            return request.last >= self._log.end and not has_leader
        if not isinstance(role, Unattached | Prospective) or (
            isinstance(role, Prospective) and role.leader_id is not None
        ):
            return False
        if role.voted_id is None and request.last >= self._log.end:
            role.voted_id = request.candidate_id
            role.election_due_us = self._election_due_us(now_us)
            if isinstance(role, Prospective):
                role.votes = {self.local_id: True}
            self._log.write_election(ElectionState(role.epoch, None, role.voted_id))
        return role.voted_id == request.candidate_id

    def _hurry(self, request: EndQuorumEpoch, now_us: int) -> None:
        """Begin the next election early, since the leader resigned. The voter with the longest log begins first.

        Source: endEpochElectionBackoff
        """
        role = self.role
        if isinstance(role, Follower) and role.leader_id == request.leader_id:
            successors = request.preferred_successors
            index = successors.index(self.local_id) if self.local_id in successors else len(successors)
            role.fetch_due_us = now_us + self._config.succession_backoff_us(index, len(successors))

    def fetched(self, request: FetchLog, now_us: int) -> FetchAnswer:
        """Handle another voter's fetch, which acknowledges all records below its offset. The caller adds the records.

        Source: tryCompleteFetchRequest, ReplicatedLog.validateOffsetAndEpoch
        """
        role = self.role
        error = self.fetch_error(request.epoch)
        if error is not ErrorCode.NONE or not isinstance(role, Leader):
            return FetchAnswer(error, self.leader_id, self.epoch)
        if is_cut_off(self._log, request):
            self._note_fetch(role, request.replica, now_us)
            snapshot = self._log.latest_snapshot
            return FetchAnswer(ErrorCode.NONE, self.local_id, role.epoch, self.high_watermark, snapshot=snapshot)
        diverging = diverging_end(self._log, request)
        if diverging is None:
            self.note_progress(request.replica, request.fetch_offset, now_us)
            self._note_fetch(role, request.replica, now_us)
            self._maybe_advance_high_watermark(role, now_us)
        return FetchAnswer(ErrorCode.NONE, self.local_id, role.epoch, self.high_watermark, diverging)

    def snapshot_fetched(self, request: FetchSnapshot, now_us: int) -> SnapshotAnswer:
        """Handle the fetch of a snapshot by another voter or a broker. Source: handleFetchSnapshotRequest"""
        role = self.role
        error = self.fetch_error(request.epoch)
        if error is not ErrorCode.NONE or not isinstance(role, Leader):
            return SnapshotAnswer(error, self.leader_id, self.epoch)
        error, size_bytes, piece = snapshot_piece(self._log, request)
        if error is ErrorCode.NONE:
            self._note_fetch(role, request.replica, now_us)
        return SnapshotAnswer(error, self.local_id, role.epoch, size_bytes, piece)

    def fetch_error(self, epoch: ControllerEpoch) -> ErrorCode:
        """Return why a fetch from the leader of `epoch` is refused, or NONE. Source: validateLeaderOnlyRequest"""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def note_progress(self, replica: Voter, fetch_offset: Offset, now_us: int) -> None:
        """Record up to which offset a voter or an observer has this leader's log."""
        role = self.role
        if isinstance(role, Leader):
            key = self.voter_set.find(replica) or replica
            role.progress(key).fetched(fetch_offset, self._log.end.offset, now_us)

    def known_replica(self, voter_id: BrokerId, *, is_voter: bool) -> Voter:
        """Return the voter with this id, else the replica with this id that fetched last."""
        role = self.role
        entry = self.voter_set.of_id(voter_id) if is_voter else None
        seen = role.replicas if isinstance(role, Leader) else {}
        others = [replica for replica in seen if replica.voter_id == voter_id]
        return entry or max(others, key=lambda other: seen[other].last_fetch_us, default=Voter(voter_id))

    def _note_fetch(self, role: Leader, replica: Voter, now_us: int) -> None:
        """Record a voter's fetch. Once a majority has fetched, the leader may lead for another `check_quorum_us`.

        Source: LeaderState.updateCheckQuorumForFollowingVoter
        """
        if self.voter_set.find(replica) is None:
            return
        role.fetched[replica.voter_id] = None
        if len(role.fetched) >= len(self.voters) // 2 + (not self.is_voter):
            role.fetched.clear()
            role.check_quorum_due_us = now_us + self._config.check_quorum_us

    def appended(self, now_us: int) -> None:
        """Record that the leader has written records to its log on disk."""
        role = self.role
        assert isinstance(role, Leader), "only a leader appends of its own accord"
        if self._log.voters not in (None, self.voter_set):
            self._read_voters(now_us)
        role.progress(self.voter_set.find(self.local) or self.local).end_offset = self._log.end.offset
        self._maybe_advance_high_watermark(role, now_us)

    def _maybe_advance_high_watermark(self, role: Leader, now_us: int) -> None:
        """Advance the high watermark to the offset that a majority has.

        A record of an earlier epoch is committed only together with a record of this epoch (Raft, section 5.4.2).
        """
        offset = role.majority_offset(self.voter_set)
        if offset is not None and offset > role.epoch_start_offset and offset > self.high_watermark:
            known, self.high_watermark = self.high_watermark, offset
            self._actions.append(LogCommitted(offset))
            if known <= self.voter_set.offset < offset:
                committed = trace.VotersChanged(
                    node=self._names(self.local_id),
                    controller_epoch=self.epoch,
                    voter_set=tuple(map(self._names, self.voters)),
                )
                self._actions.append(Emit(committed))
            self._change_committed(role, now_us)

    # ------------------------------------------------------------------------------------------- changes of the voters

    def change_voters(self, request: AddVoter | RemoveVoter, now_us: int) -> PlainAnswer | None:
        """Begin to add or remove a voter.

        Returns:
            A refusal; or None if the change has begun, and `VoterChangeEnded` will have the answer.
        """
        role = self.role
        if not isinstance(role, Leader):
            return PlainAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        refused = why_refused(
            request,
            self.voter_set,
            high_watermark=self.high_watermark if self.has_committed_its_epoch else None,
            is_pending=role.change is not None,
        )
        if refused is not None:
            return refused
        change = VoterChange(request, now_us + self._config.request_ms * 1000)
        voter_id = request.voter.voter_id
        if isinstance(request, AddVoter) and not self._send(voter_id, AskVersions(), now_us):
            return timed_out(f"New voter {request.voter.key} is not ready to receive requests")
        role.change = change
        if isinstance(request, RemoveVoter):
            self._append_change(role, change, now_us)
        return None

    def _update_voter(self, request: UpdateVoter, now_us: int) -> ErrorCode:
        """Learn the directory of a voter. With kraft.version 1, write the voters again.

        Source: handleUpdateVoterRequest, UpdateVoterHandler
        """
        role, error, voters = self.role, self.fetch_error(request.epoch), self.voter_set
        if error is not ErrorCode.NONE or not isinstance(role, Leader):
            return error
        low, high = request.versions
        if request.voter.directory_id is None or not 0 <= low <= high:
            return ErrorCode.INVALID_REQUEST
        if role.change is not None or not self.has_committed_its_epoch or voters.offset >= self.high_watermark:
            return ErrorCode.REQUEST_TIMED_OUT
        if not low <= voters.is_dynamic <= high:
            return ErrorCode.INVALID_REQUEST
        if voters.find(request.voter) is None:
            return ErrorCode.VOTER_NOT_FOUND
        if voters.is_dynamic:
            self._append_voters(voters.voters, now_us)
            self.appended(now_us)
        else:
            role.directories[request.voter.voter_id] = request.voter.directory_id if high else None
        if request.voter.voter_id != self.local_id:
            self._note_fetch(role, request.voter, now_us)
        return ErrorCode.NONE

    def upgraded_voters(self) -> tuple[Voter, ...] | None:
        """Return the voters to write for the upgrade to kraft.version 1; None if a voter has not told its directory.

        Source: LeaderState.maybeAppendUpgradedKRaftVersion
        """
        directories = self.role.directories if isinstance(self.role, Leader) else {}
        voters = tuple(Voter(voter, directories.get(voter)) for voter in self.voters)
        return None if any(voter.directory_id is None for voter in voters) else voters

    def _versions_answered(self, peer_id: BrokerId, answer: PlainAnswer | None, now_us: int) -> None:
        """Add a new voter if it has answered and caught up. Source: handleApiVersionsResponse"""
        role = self.role
        change = role.change if isinstance(role, Leader) else None
        if change is None or change.offset is not None or change.request.voter.voter_id != peer_id:
            return
        assert isinstance(role, Leader)
        if answer is None or answer.error is not ErrorCode.NONE:
            error = ErrorCode.BROKER_NOT_AVAILABLE if answer is None else answer.error
            why = f"Aborted add voter operation for since API_VERSIONS returned an error {error.name}"
            self._give_up_change(role, VoterChangeCause.UNREACHABLE, timed_out(why))
        elif not role.progress(change.request.voter).has_caught_up(now_us):
            why = f"Aborted add voter operation for {change.request.voter.key} since it is lagging behind"
            self._give_up_change(role, VoterChangeCause.LAGGING, timed_out(why))
        else:
            self._append_change(role, change, now_us)

    def _append_change(self, role: Leader, change: VoterChange, now_us: int) -> None:
        change.offset = self._append_voters(voters_after(change.request, self.voter_set), now_us)
        if isinstance(change.request, AddVoter) and not change.request.ack_when_committed:
            self._actions.append(VoterChangeEnded(PlainAnswer(ErrorCode.NONE)))
        self.appended(now_us)

    def _append_voters(self, voters: tuple[Voter, ...], now_us: int) -> Offset:
        """Append a VotersRecord, which takes effect immediately. Return its offset."""
        offset = self._log.end.offset
        self._log.append_voters(self.epoch, voters, now_us)
        self._actions.append(VotersAppended(offset))
        self._read_voters(now_us)
        return offset

    def _change_committed(self, role: Leader, now_us: int) -> None:
        """If the pending change of voters is committed, answer it. A removed leader resigns (highWatermarkUpdated)."""
        change = role.change
        if change is None or change.offset is None or self.high_watermark <= change.offset:
            return
        self._end_change(role, PlainAnswer(ErrorCode.NONE))
        if isinstance(change.request, RemoveVoter) and not self.is_voter:
            self._stop_leading(ResignationCause.REMOVED)
            self._resign(role, now_us)

    def _give_up_change(self, role: Leader, why: VoterChangeCause, answer: PlainAnswer) -> None:
        change = role.change
        assert change is not None, "a change ends once"
        failed = trace.VoterChangeFailed(
            node=self._names(self.local_id),
            controller_epoch=self.epoch,
            controller=self._names(change.request.voter.voter_id),
            is_addition=isinstance(change.request, AddVoter),
            error=answer.error.name,
            cause=why,
        )
        self._actions.append(Emit(failed))
        self._end_change(role, answer)

    def _end_change(self, role: Leader, answer: PlainAnswer) -> None:
        change, role.change = role.change, None
        assert change is not None, "a change ends once"
        is_answered = isinstance(change.request, AddVoter) and not change.request.ack_when_committed
        if change.offset is None or not is_answered:
            self._actions.append(VoterChangeEnded(answer))

    def _read_voters(self, now_us: int) -> None:
        """Apply the latest voters of the log, after it has changed. Source: LeaderState.updateVoterAndObserverStates"""
        self._count_voters(self._log.voters or self._first_voters)
        role = self.role
        if not isinstance(role, Leader):
            return
        for voter in self.voter_set.voters:  # With the upgrade of kraft.version, voters get their directories.
            known = role.replicas.pop(Voter(voter.voter_id), None)
            if known is not None:
                role.replicas[voter] = known
        if not self._peers:
            role.check_quorum_due_us = role.begin_epoch_due_us = NEVER_US
        elif role.begin_epoch_due_us == NEVER_US:
            role.check_quorum_due_us = now_us + self._config.check_quorum_us
            role.begin_epoch_due_us = now_us

    # ------------------------------------------------------------------------------------------------------- answers

    def answered(self, peer_id: BrokerId, request: Request, answer: AnyAnswer | None, now_us: int) -> None:
        """Handle the answer to a request, None if the request could not be sent or was not answered in time."""
        if answer is None:
            self._connections.failed(peer_id, now_us)
        else:
            self._connections.answered(peer_id)
        if isinstance(request, AskVersions):
            assert answer is None or isinstance(answer, PlainAnswer)
            self._versions_answered(peer_id, answer, now_us)
        elif answer is not None:
            if isinstance(answer, PlainAnswer):
                if isinstance(self.role, Follower) and answer.error in _IS_DONE_OR_LATER:
                    self.role.update_due_us = self._config.fetch_due_us(now_us)
            elif not self._heard_answer(answer, now_us):
                match request, answer:
                    case Vote(), VoterAnswer():
                        self._vote_counted(peer_id, request, answer, now_us)
                    case EndQuorumEpoch(), VoterAnswer():
                        self._end_acknowledged(peer_id, request)
                    case FetchLog(), FetchAnswer():
                        self._log_fetched(request, answer, now_us)
                    case FetchSnapshot(), SnapshotAnswer():
                        self._snapshot_fetched(request, answer, now_us)
                    case UpdateVoter(), VoterAnswer() if isinstance(self.role, Follower):
                        self.role.has_updated, self.role.fetch_due_us = True, self._config.fetch_due_us(now_us)
            if answer.error is not ErrorCode.NONE:
                self._connections.refused(peer_id, now_us)
        self.tick(now_us)

    def _heard_answer(self, answer: VoterAnswer | FetchAnswer | SnapshotAnswer, now_us: int) -> bool:
        """Learn of a newer epoch or of the leader. Return True if the answer has no other effect.

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
        if isinstance(role, Prospective) is not request.pre_vote:
            return
        role.votes[peer_id] = answer.vote_granted
        if isinstance(role, Prospective):
            if role.has_majority(len(self.voters)):
                self._stand(now_us, role.why, leader=role.leader)
            elif role.has_lost(len(self.voters)):
                self._give_up_asking(role, now_us)
        elif self._asks_first and role.has_lost(len(self.voters)):
            return  # The candidate waits for the election timeout, then starts a new Pre-Vote.
        elif role.has_majority(len(self.voters)):
            self._lead(role, now_us)
        elif role.has_lost(len(self.voters)) and role.backoff_due_us is None:
            # A random wait, instead of the election timeout, keeps candidates from splitting the votes again.
            role.backoff_due_us = now_us + self._config.election_backoff_us(role.retries, self._draw)

    def _end_acknowledged(self, peer_id: BrokerId, request: EndQuorumEpoch) -> None:
        role = self.role
        if isinstance(role, Resigned) and role.epoch == request.epoch and peer_id in role.unacknowledged:
            role.unacknowledged.remove(peer_id)

    def _log_fetched(self, request: FetchLog, answer: FetchAnswer, now_us: int) -> None:
        """Append the records of an answer, truncate the log, or begin to fetch a snapshot.

        Source: handleFetchResponse
        """
        role = self.role
        if not isinstance(role, Follower) or request.epoch != role.epoch:
            return
        if answer.snapshot is not None:
            role.snapshot = SnapshotFetch(answer.snapshot)
        elif answer.diverging is not None:
            self._truncate(answer.diverging)
            self._read_voters(now_us)
        elif request.fetch_offset == self._log.end.offset:
            if answer.records:
                self._log.append_fetched(answer.records, now_us)
                self._read_voters(now_us)
            self._learn_high_watermark(answer.high_watermark)
        role.fetch_due_us = self._config.fetch_due_us(now_us)
        role.has_fetched = True

    def _snapshot_fetched(self, request: FetchSnapshot, answer: SnapshotAnswer, now_us: int) -> None:
        """Add a part of a snapshot, and replace the log by the snapshot once it is complete.

        Source: handleFetchSnapshotResponse, ReplicatedLog.truncateToLatestSnapshot
        """
        role = self.role
        if not isinstance(role, Follower) or request.epoch != role.epoch or role.snapshot is None:
            return
        role.fetch_due_us = self._config.fetch_due_us(now_us)
        end, data = role.snapshot.end, role.snapshot.data
        if not role.snapshot.takes(request, answer):
            return
        role.snapshot = None
        had_offset = self._log.end.offset
        self._log.replace_with_snapshot(end, bytes(data))
        self._read_voters(now_us)
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
        """Fetch the log again, since the leader has a newer snapshot by now."""
        role = self.role
        if isinstance(role, Follower):
            role.snapshot = None
            role.fetch_due_us = self._config.fetch_due_us(now_us)

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        offset = truncation_offset(self._log, diverging)
        assert offset >= self.high_watermark, (
            f"a leader asks for a truncation to {offset}, which would remove committed records"
        )
        self._log.truncate_to(offset)

    def _learn_high_watermark(self, high_watermark: Offset) -> None:
        offset = min(high_watermark, self._log.end.offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._actions.append(LogCommitted(offset))

    # ------------------------------------------------------------------------------------------------- changes of role

    def _heard_of(self, leader_id: BrokerId | None, epoch: ControllerEpoch, now_us: int) -> None:
        """Change the role if an answer or a request reveals a newer epoch or a leader. Source: maybeTransition"""
        if leader_id is None or leader_id == self.local_id:
            if epoch > self.epoch:
                self._stop_leading(ResignationCause.NEWER_EPOCH, epoch)
                self._detach(epoch, now_us)
        elif epoch > self.epoch or (
            epoch == self.epoch and self.leader_id is None and isinstance(self.role, Unattached | Candidate)
        ):
            self._stop_leading(ResignationCause.OTHER_LEADER, epoch, self._names(leader_id))
            self._log.write_election(ElectionState(epoch, leader_id))
            self._become(Follower(epoch, leader_id, self._config.fetch_due_us(now_us)))

    def _detach(self, epoch: ControllerEpoch, now_us: int) -> None:
        """Enter a newer epoch with no known leader.

        An election timeout that is running is kept. Source: transitionToUnattached
        """
        role = self.role
        match role:
            case Unattached() | Candidate():
                due_us = role.election_due_us
            case _:
                due_us = self._election_due_us(now_us)
        self._log.write_election(ElectionState(epoch))
        self._become(Unattached(epoch, None, due_us))

    def _campaign(self, now_us: int, why: CandidacyCause, leader: str | None = None) -> None:
        """Become a candidate; with Pre-Vote, ask first whether a majority agrees. Source: transitionToProspective"""
        if not self._asks_first:
            self._stand(now_us, why, leader=leader)
            return
        voted_id = self.role.voted_id if isinstance(self.role, Unattached) else None
        self.role = Prospective(
            self.epoch,
            {self.local_id: True},
            1,
            self._election_due_us(now_us),
            leader_id=self.leader_id,
            voted_id=self.local_id if isinstance(self.role, Candidate) else voted_id,
            why=why,
            leader=leader,
        )
        self.tick(now_us)

    def _give_up_asking(self, role: Prospective, now_us: int) -> None:
        """After a failed Pre-Vote, return to the previous role. Source: prospectiveTransitionAfterElectionLoss"""
        if role.leader_id is None:
            self.role = Unattached(role.epoch, role.voted_id, self._election_due_us(now_us))
        else:
            self.role = Follower(role.epoch, role.leader_id, self._config.fetch_due_us(now_us))
        self.tick(now_us)

    def _stand(self, now_us: int, why: CandidacyCause, retries: int = 1, leader: str | None = None) -> None:
        """Become a candidate in the next epoch, with this voter's own vote. Source: transitionToCandidate"""
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
        """Become the leader, and append the first record of the epoch.

        Args:
            why: the cause of the candidacy, if the candidate's own vote is a majority.

        Source: onBecomeLeader
        """
        epoch = candidate.epoch
        self._log.write_election(ElectionState(epoch, self.local_id))
        role = Leader(
            epoch,
            self._log.end.offset,
            now_us + self._config.check_quorum_us if self._peers else NEVER_US,
            now_us if self._peers else NEVER_US,
            directories={self.local_id: self.local.directory_id},
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
        if self.voter_set.is_dynamic and self.voter_set.offset < 0:
            self._append_voters(self.voter_set.voters, now_us)
        self.appended(now_us)
        self.tick(now_us)

    def resign_for_good(self, now_us: int) -> None:
        """Resign because the controller shuts down, and never become a candidate again."""
        assert isinstance(self.role, Leader), "only a leader resigns"
        self._stop_leading(ResignationCause.SHUTDOWN)
        self._resign(self.role, now_us, NEVER_US)

    def _resign(self, role: Leader, now_us: int, election_due_us: int | None = None) -> None:
        """Resign and name successors. Source: transitionToResigned, with nonLeaderVotersByDescendingFetchOffset"""
        if election_due_us is None:
            election_due_us = self._election_due_us(now_us)
        peers = list(self._peers)
        self._become(Resigned(role.epoch, role.successors(self.voter_set, peers), peers, election_due_us))
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
        if isinstance(self.role, Leader) and self.role.change is not None:
            self._give_up_change(self.role, VoterChangeCause.DEPOSED, PlainAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self.role = role
        self._actions.append(LeadershipChanged())

    # -------------------------------------------------------------------------------------------------------- timeouts

    def _silent_voters(self, role: Candidate) -> list[BrokerId]:
        return [peer for peer in self._peers if peer not in role.votes]

    def _election_due_us(self, now_us: int) -> int:
        return self._config.election_due_us(now_us, self._draw)
