"""UpdateRaftVoter (82) on the wire: what a voter tells its leader, and the answer."""

from __future__ import annotations

from uuid import UUID

import pytest

from cluster.messages.quorum import decode_answer, decode_request, encode_answer, encode_request
from cluster.protocol import cold
from cluster.protocol.versions import UPDATE_RAFT_VOTER, read_request_header
from controller.quorum.messages import UpdateVoter, Voter, VoterAnswer
from replica.errors import ErrorCode

TELLS = UpdateVoter(Voter(102, UUID(int=7)), epoch=5, versions=(0, 1))


@pytest.mark.parametrize("leader_id", [101, None])
def test_the_request_and_its_answer(leader_id: int | None) -> None:
    frame = bytearray(encode_request(TELLS, 1, "c2")[4:])
    header = read_request_header(frame)
    assert header.api_key == UPDATE_RAFT_VOTER and decode_request(header, frame) == TELLS
    answer = VoterAnswer(ErrorCode.FENCED_LEADER_EPOCH, leader_id, 6)
    assert decode_answer(TELLS, bytearray(encode_answer(header, answer)[4:])) == answer


def test_without_an_address_for_controllers_it_is_not_valid() -> None:
    wire = cold.request(
        UPDATE_RAFT_VOTER,
        0,
        cluster_id=None,
        current_leader_epoch=5,
        voter_id=102,
        voter_directory_id=UUID(int=7),
        listeners=[{"name": "OTHER", "host": "h", "port": 1}],
        k_raft_version_feature={"min_supported_version": 0, "max_supported_version": 1},
    )
    frame = bytearray(cold.encode_request(UPDATE_RAFT_VOTER, 0, 1, "c2", wire)[4:])
    asked = decode_request(read_request_header(frame), frame)
    assert isinstance(asked, UpdateVoter) and asked.voter.directory_id is None, "which the leader refuses"
