"""Sets of voters that change while the quorum runs (KIP-853), and the leader's checks of a change.

1. A voter is a controller and the directory of its metadata log. A controller with a new disk is another voter.
2. The latest VotersRecord in the log, committed or not, has the current set. Truncation restores an earlier set.
3. Only one change is pending at a time, and it adds or removes one voter, so that the majorities of the old and the new
   set intersect.
4. A leader changes the set only once it has committed a record of its own epoch, and so the previous change.
5. A new voter must have caught up with the leader before it is added.

With kraft.version 0, voters are configured and have no directories.

Source: VoterSet, KRaftControlRecordStateMachine, AddVoterHandler, RemoveVoterHandler, LeaderState.ReplicaState (4.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from controller.quorum.messages import AddVoter, PlainAnswer, RemoveVoter, Voter
from replica.errors import ErrorCode
from replica.ids import UNKNOWN_OFFSET, BrokerId, Offset

CATCH_UP_US = 3_600_000_000
"""A replica counts as caught up only if it has fetched within this time. Source: LeaderState.isReplicaCaughtUp"""
NEVER_SEEN = -1


class VoterSet(NamedTuple):
    """The voters at one offset of the metadata log.

    Attributes:
        offset: offset of the VotersRecord; -1 if the voters come from the configuration or from formatting the disk.
    """

    voters: tuple[Voter, ...]
    offset: Offset = -1

    @property
    def ids(self) -> tuple[BrokerId, ...]:
        return tuple(voter.voter_id for voter in self.voters)

    @property
    def is_dynamic(self) -> bool:
        """True if kraft.version is 1."""
        return any(voter.directory_id is not None for voter in self.voters)

    def find(self, replica: Voter) -> Voter | None:
        """Return the voter with a replica's id and directory, or None.

        Source: VoterSet.isVoter, ReplicaState.matchesKey
        """
        return next(
            (
                voter
                for voter in self.voters
                if voter.voter_id == replica.voter_id and voter.directory_id in (None, replica.directory_id)
            ),
            None,
        )

    def of_id(self, voter_id: BrokerId) -> Voter | None:
        return next((voter for voter in self.voters if voter.voter_id == voter_id), None)


@dataclass(slots=True)
class Progress:
    """The leader's view of one replica of the metadata log.

    Attributes:
        end_offset: end of the replica's log on disk, as far as known.
        last_caught_up_us: time at which the replica last had all records of the leader.
        leader_end_then: end of the leader's log at the replica's last fetch.
    """

    end_offset: Offset = UNKNOWN_OFFSET
    last_fetch_us: int = NEVER_SEEN
    last_caught_up_us: int = NEVER_SEEN
    leader_end_then: Offset = UNKNOWN_OFFSET

    def fetched(self, fetch_offset: Offset, leader_end: Offset, now_us: int) -> None:
        if fetch_offset >= leader_end:
            self.last_caught_up_us = now_us
        elif 0 < self.leader_end_then <= fetch_offset:
            self.last_caught_up_us = self.last_fetch_us
        self.end_offset, self.leader_end_then, self.last_fetch_us = fetch_offset, leader_end, now_us

    def has_caught_up(self, now_us: int) -> bool:
        return self.last_caught_up_us >= 0 and self.last_fetch_us > now_us - CATCH_UP_US


@dataclass(slots=True)
class VoterChange:
    """The leader's pending change of the voters.

    Attributes:
        due_us: time at which the leader gives up.
        offset: offset of the VotersRecord; None until the new voter has answered with its supported versions.
    """

    request: AddVoter | RemoveVoter
    due_us: int
    offset: Offset | None = None


def timed_out(why: str | None = None) -> PlainAnswer:
    return PlainAnswer(ErrorCode.REQUEST_TIMED_OUT, why)


def why_refused(
    request: AddVoter | RemoveVoter, voters: VoterSet, *, high_watermark: Offset | None, is_pending: bool
) -> PlainAnswer | None:
    """Return the answer with which a leader refuses a change immediately, or None if the change can begin.

    Args:
        high_watermark: None if the leader has committed no record of its epoch.
        is_pending: True if another change is pending.

    Source: handleAddVoterRequest, handleRemoveVoterRequest
    """
    is_addition = isinstance(request, AddVoter)
    if is_pending:
        return timed_out("Request timed out waiting for leader to handle previous voter change request")
    if high_watermark is None:
        return timed_out("Request timed out waiting for leader to establish HWM and fence previous voter changes")
    if not voters.is_dynamic:
        doing = "adding" if is_addition else "removing"
        message = f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
        return PlainAnswer(ErrorCode.UNSUPPORTED_VERSION, message)
    if voters.offset >= high_watermark:
        latest = f"the latest voter change at {voters.offset} with HWM {high_watermark}"
        return timed_out(f"Request timed out waiting for voters to commit {latest}")
    who, those = request.voter.key, ", ".join(voter.key for voter in voters.voters)
    if is_addition and voters.of_id(request.voter.voter_id) is not None:
        message = f"The voter id for {who} is already part of the set of voters [{those}]."
        return PlainAnswer(ErrorCode.DUPLICATE_VOTER, message)
    if not is_addition and request.voter not in voters.voters:
        message = f"Cannot remove voter {who} from the set of voters [{those}]"
        return PlainAnswer(ErrorCode.VOTER_NOT_FOUND, message)
    if not is_addition and len(voters.voters) == 1:
        # Differs from Kafka, whose leader fails, since an empty set of voters has no high watermark.
        return PlainAnswer(ErrorCode.INVALID_REQUEST, f"{who} is the only voter")
    return None


def voters_after(request: AddVoter | RemoveVoter, voters: VoterSet) -> tuple[Voter, ...]:
    """Return the voters after a change."""
    others = tuple(voter for voter in voters.voters if voter.voter_id != request.voter.voter_id)
    return (*others, request.voter) if isinstance(request, AddVoter) else others
