"""A broker that has lost a log directory leads nothing that lies in it, and everything else (KIP-858)."""

from __future__ import annotations

import pytest
from controller_world import heartbeat, new_state, register

from controller.inputs import AssignReplicas, CreateTopic, DeleteTopic, ElectLeader, PlainReply
from controller.metadata import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    ReplicaDirectoryRecord,
    decode_record,
    encode_record,
)
from replica.errors import ErrorCode
from replica.ids import NO_BROKER
from replica.rules import PROFILES

DIRS = ("dir-1", "dir-2")


@pytest.fixture
def state():
    state = new_state()
    state.step(register(1, log_dirs=DIRS))
    state.step(register(2))
    for broker_id in (1, 2):
        heartbeat(state, broker_id)
    state.step(CreateTopic(now_us=0, name="t", assignment=((1, 2), (1, 2))))
    state.step(CreateTopic(now_us=0, name="solo", assignment=((1,),)))
    assign(state, ("t", 0, "dir-1"), ("t", 1, "dir-2"), ("solo", 0, "dir-2"))
    return state


def assign(state, *places, epoch=None):
    broker_epoch = state.image.brokers[1].broker_epoch if epoch is None else epoch
    actions = state.step(AssignReplicas(now_us=0, broker_id=1, broker_epoch=broker_epoch, places=places))
    (reply,) = [action for action in actions if isinstance(action, PlainReply)]
    return reply.error


def leaders(state):
    return {str(name): partition.leader for name, partition in state.image.partitions()}


def test_only_what_lay_in_the_failed_directory_moves(state):
    assert leaders(state) == {"t-0": 1, "t-1": 1, "solo-0": 1}
    heartbeat(state, 1, offline_log_dirs=("dir-2",))
    assert leaders(state) == {"t-0": 1, "t-1": 2, "solo-0": NO_BROKER}
    assert state.image.topics["t"].partitions[1].in_sync_replicas == (2,)
    assert state.image.topics["solo"].partitions[0].in_sync_replicas == (1,)  # the last member stays
    assert state.image.brokers[1].log_dirs == ("dir-1",)
    assert not state.image.brokers[1].fenced


def test_told_twice_it_is_done_once(state):
    heartbeat(state, 1, offline_log_dirs=("dir-2",))
    before = state.next_offset
    heartbeat(state, 1, offline_log_dirs=("dir-2",))
    assert state.next_offset == before


def test_a_replica_in_a_failed_directory_is_not_elected(state):
    heartbeat(state, 1, offline_log_dirs=("dir-2",))
    state.step(ElectLeader(now_us=1, topic="t", partition=1, kind="unclean", desired=1))
    state.step(ElectLeader(now_us=1, topic="solo", partition=0, kind="unclean"))
    assert leaders(state) == {"t-0": 1, "t-1": 2, "solo-0": NO_BROKER}


def test_a_replica_nobody_has_placed_counts_as_online(state):
    state.step(CreateTopic(now_us=0, name="u", assignment=((1, 2),)))
    heartbeat(state, 1, offline_log_dirs=("dir-2",))
    assert state.image.topics["u"].partitions[0].leader == 1


def test_what_there_is_not_cannot_be_placed(state):
    before = state.next_offset
    assert assign(state, ("t", 7, "dir-1"), ("gone", 0, "dir-1")) is ErrorCode.NONE
    assert state.next_offset == before


def test_an_earlier_life_cannot_place_replicas(state):
    assert assign(state, ("t", 0, "dir-2"), epoch=-1) is ErrorCode.STALE_BROKER_EPOCH


def test_a_topic_that_is_created_again_begins_without_places(state):
    state.step(DeleteTopic(now_us=1, name="t"))
    assert [str(name) for _, name in state.image.directories] == ["solo-0"]


@pytest.mark.parametrize(
    ("era", "elr"), [("kafka-4.1", ()), ("kafka-4.2", ()), ("kafka-4.3", (2,)), ("kafka-4.4", (2,))]
)
def test_before_4_3_a_report_voids_the_elr(era, elr):
    """ReplicationControlManager.handleAssignReplicasToDirs, also where the directory is the one it knows."""
    state = new_state(rules=PROFILES[era])
    for broker_id in (1, 2):
        state.step(register(broker_id, log_dirs=DIRS))
        heartbeat(state, broker_id)
    state.step(CreateTopic(now_us=0, name="t", assignment=((1, 2),), config={"min.insync.replicas": "2"}))
    heartbeat(state, 2, want_fence=True)
    partition = state.image.topics["t"].partitions[0]
    assert (partition.in_sync_replicas, partition.elr) == ((1,), (2,))
    before = partition.partition_epoch
    for _ in range(2):
        assert assign(state, ("t", 0, "dir-1")) is ErrorCode.NONE
    partition = state.image.topics["t"].partitions[0]
    assert (partition.elr, partition.leader, partition.partition_epoch - before) == (elr, 1, 0 if elr else 1)


def test_who_is_no_replica_reports_nothing(state):
    state.step(CreateTopic(now_us=0, name="u", assignment=((2,),)))
    before = state.next_offset
    assert assign(state, ("u", 0, "dir-1")) is ErrorCode.NONE
    assert state.next_offset == before


@pytest.mark.parametrize(
    "record",
    [
        RegisterBrokerRecord(broker_id=1, incarnation_id="i", broker_epoch=0, host="b1", port=9092, log_dirs=DIRS),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, log_dirs=("dir-1",)),
        ReplicaDirectoryRecord(broker_id=1, topic="t", partition=0, log_dir="dir-1"),
    ],
)
def test_records_of_directories_survive_the_metadata_log(record):
    assert decode_record(encode_record(record)) == record
