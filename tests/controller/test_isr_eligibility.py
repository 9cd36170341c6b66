"""The switch `isr-eligibility` at the controller: who may be in a proposed ISR, in which era."""

from __future__ import annotations

from typing import Literal

import pytest
from controller_world import heartbeat, new_state, register, start_brokers

from controller.inputs import AlterPartition, AlterPartitionReply, CreateTopic, IsrProposal
from controller.state import ControllerState
from replica.errors import ErrorCode
from replica.rules import PROFILES

Case = Literal["well", "fenced", "shutting down", "another life"]


def cluster(rule: str) -> ControllerState:
    """b1 and b2 hold t-0; b2 has left its ISR."""
    state = new_state(PROFILES["kafka-3.9"].changed({"isr-eligibility": rule}))
    start_brokers(state, 1, 2, 3)
    state.step(CreateTopic(now_us=0, name="t", assignment=((1, 2),)))
    heartbeat(state, 2, want_fence=True)
    heartbeat(state, 2)
    assert state.image.topics["t"].partitions[0].in_sync_replicas == (1,)
    return state


def put(state: ControllerState, case: Case) -> None:
    if case == "fenced":
        heartbeat(state, 2, want_fence=True)
    elif case == "shutting down":
        state.step(CreateTopic(now_us=0, name="u", assignment=((2,),)))  # what it leads keeps it from leaving at once
        heartbeat(state, 2, want_shut_down=True)
        assert state.image.brokers[2].in_controlled_shutdown or state.image.brokers[2].fenced
    elif case == "another life":
        state.step(register(2, at=20_000_000, incarnation="second"))
        heartbeat(state, 2, at=20_000_000)


@pytest.mark.parametrize(
    ("rule", "case", "error"),
    [
        ("any", "fenced", ErrorCode.NONE),
        ("any", "shutting down", ErrorCode.NONE),
        ("any", "another life", ErrorCode.NONE),
        ("unfenced", "well", ErrorCode.NONE),
        ("unfenced", "fenced", ErrorCode.INELIGIBLE_REPLICA),
        ("unfenced", "shutting down", ErrorCode.INELIGIBLE_REPLICA),
        ("unfenced", "another life", ErrorCode.NONE),
        ("broker-epoch", "well", ErrorCode.NONE),
        ("broker-epoch", "fenced", ErrorCode.INELIGIBLE_REPLICA),
        ("broker-epoch", "shutting down", ErrorCode.INELIGIBLE_REPLICA),
        ("broker-epoch", "another life", ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_who_may_join(rule: str, case: Case, error: ErrorCode) -> None:
    state = cluster(rule)
    first_life = state.image.brokers[2].broker_epoch
    put(state, case)
    partition = state.image.topics["t"].partitions[0]
    proposal = IsrProposal(
        topic="t",
        partition=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        in_sync_replicas=(1, 2),
        broker_epochs=(state.image.brokers[1].broker_epoch, first_life),
        recovering=False,
    )
    actions = state.step(
        AlterPartition(
            now_us=20_000_000, broker_id=1, broker_epoch=state.image.brokers[1].broker_epoch, partitions=(proposal,)
        )
    )
    (reply,) = (action for action in actions if isinstance(action, AlterPartitionReply))
    assert [result.error for result in reply.partitions] == [error]
