"""Events of a voter of the quorum, with their reasons in words."""

from __future__ import annotations

from collections.abc import Sequence

from controller.quorum.messages import ControllerEpoch, OffsetAndEpoch
from controller.quorum.roles import Candidate
from replica.ids import BrokerId, Names, Offset
from replica.trace import events as trace


class QuorumEvents:
    """Of the voter `local_id`."""

    def __init__(self, local_id: BrokerId, names: Names) -> None:
        self._local_id = local_id
        self._names = names

    def stands(self, epoch: ControllerEpoch, why: str) -> trace.ElectionBegan:
        who = self._names(self._local_id)
        reason = f"{who} stands for election in epoch {epoch}: {why}"
        return trace.ElectionBegan(node=who, controller_epoch=epoch, reason=reason)

    def leads(self, elected: Candidate, voters: Sequence[BrokerId], why: str) -> trace.QuorumLeaderElected:
        """why: if not by the votes of the others"""
        who, epoch = self._names(self._local_id), elected.epoch
        for_it = [self._names(voter) for voter in voters if elected.votes.get(voter)]
        why = why or f"{' and '.join(for_it)} voted for it, {len(for_it)} of {len(voters)}"
        reason = f"{who} leads the controllers in epoch {epoch}: {why}"
        return trace.QuorumLeaderElected(node=who, controller_epoch=epoch, reason=reason)

    def stops_leading(self, epoch: ControllerEpoch, why: str) -> trace.ControllerResigned:
        who = self._names(self._local_id)
        reason = f"{who} stops leading the controllers of epoch {epoch}: {why}"
        return trace.ControllerResigned(node=who, controller_epoch=epoch, reason=reason)

    def takes_snapshot(
        self, leader_id: BrokerId, had_offset: Offset, end: OffsetAndEpoch, size_bytes: int
    ) -> trace.SnapshotFetched:
        """had_offset: where its log ended"""
        who, leader = self._names(self._local_id), self._names(leader_id)
        reason = (
            f"{who} has the metadata log up to offset {had_offset}, and what follows {leader} has cut off: it takes"
            f" {leader}'s snapshot, and goes on from offset {end.offset}"
        )
        return trace.SnapshotFetched(
            node=who, peer=leader, offset=end.offset, controller_epoch=end.epoch, size_bytes=size_bytes, reason=reason
        )
