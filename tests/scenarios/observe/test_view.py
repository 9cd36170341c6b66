"""What a view of the cluster believes, and whom."""

from __future__ import annotations

import pytest

from replica.causes import DataLossCause
from replica.ids import TopicPartition
from replica.trace.events import (
    BrokerFenced,
    BrokerRegistered,
    BrokerUnfenced,
    ControllerActivated,
    DataLost,
    HighWatermarkAdvanced,
    LogRecovered,
    NodeStarted,
    NodeStopped,
    PartitionCreated,
    ReplicaDeleted,
    TopicDeleted,
    TraceLog,
)
from scenarios.observe.view import ClusterView


def test_what_a_replaced_controller_says_of_brokers_does_not_count_in_the_zookeeper_era() -> None:
    """It finishes the event that it is in before it learns that another one was elected."""
    view = ClusterView(("b1", "b2", "b4"), (), registration_fences=False)
    trace = TraceLog([view])
    trace.emit(ControllerActivated(node="b1", controller_epoch=1))
    trace.emit(BrokerUnfenced(node="b1", broker="b4"))
    trace.emit(ControllerActivated(node="b2", controller_epoch=2))
    trace.emit(BrokerFenced(node="b1", broker="b4"))
    assert not view.nodes["b4"].fenced
    trace.emit(BrokerFenced(node="b2", broker="b4"))
    assert view.nodes["b4"].fenced
    trace.emit(BrokerUnfenced(node="b1", broker="b4"))
    assert view.nodes["b4"].fenced


@pytest.mark.parametrize(("cause", "left"), [(DataLossCause.NOT_FLUSHED, 3), (DataLossCause.DISK_FAILED, 5)])
def test_a_log_is_as_long_as_what_its_disk_has_kept(cause: DataLossCause, left: int) -> None:
    """Nobody says what a failed disk would still have; the broker cannot read it."""
    view = ClusterView(("b1",), ())
    trace = TraceLog([view])
    trace.emit(
        PartitionCreated(
            "c1", "t", 0, broker="b1", replicas=("b1",), isr=("b1",), leader_epoch=0, partition_epoch=0, min_isr=1
        )
    )
    trace.emit(
        LogRecovered("b1", "t", 0, clean=True, log_start_offset=0, log_end_offset=5, high_watermark=5, size_bytes=0)
    )
    trace.emit(DataLost("b1", "t", 0, size_bytes=140, log_end_offset=3, cause=cause))
    replica = view.partitions[TopicPartition("t", 0)].replicas["b1"]
    assert (replica.log_start_offset, replica.log_end_offset, replica.high_watermark) == (0, left, left)


def test_a_late_copy_of_a_registration_changes_nothing() -> None:
    """Neither fences the broker, nor makes anyone forget that this life of it has ended in disorder."""
    view = ClusterView(("b1",))
    trace = TraceLog([view])
    registered = BrokerRegistered(node="c1", broker="b1", broker_epoch=59)
    trace.emit(registered)
    trace.emit(BrokerUnfenced(node="c1", broker="b1"))
    trace.emit(registered)
    assert not view.nodes["b1"].fenced
    trace.emit(NodeStopped(node="b1", how="kill"))
    trace.emit(registered)
    trace.emit(NodeStarted(node="b1", role="broker"))
    trace.emit(BrokerRegistered(node="c1", broker="b1", broker_epoch=70))
    assert view.nodes["b1"].fenced
    assert view.nodes["b1"].came_in_disorder


@pytest.mark.parametrize("is_back", [False, True])
def test_a_registration_says_nothing_of_how_its_own_life_has_ended(is_back: bool) -> None:
    """It arrives when the broker is dead, or has begun its next life, which tells of it."""
    view = ClusterView(("b1",))
    trace = TraceLog([view])
    started = NodeStarted(node="b1", role="broker", incarnation=1)
    sent_seq = trace.emit(started)
    trace.emit(NodeStopped(node="b1", how="kill"))
    if is_back:
        trace.emit(started)
    trace.emit(BrokerRegistered(node="c1", broker="b1", broker_epoch=70), sent_seq)
    assert not view.nodes["b1"].came_in_disorder
    sent_seq = trace.emit(started)
    trace.emit(BrokerRegistered(node="c1", broker="b1", broker_epoch=80), sent_seq)
    assert view.nodes["b1"].came_in_disorder
    assert not view.nodes["b1"].in_disorder


def test_what_brokers_say_before_they_hear_that_a_topic_is_deleted_brings_no_partition_back() -> None:
    view = ClusterView(("b1",))
    trace = TraceLog([view])
    created = PartitionCreated(
        node="c1",
        broker="b1",
        replicas=("b1",),
        isr=("b1",),
        leader_epoch=0,
        partition_epoch=0,
        min_isr=1,
        topic="t",
        partition=0,
    )
    moved = HighWatermarkAdvanced(
        node="b1",
        role="leader",
        leader_epoch=0,
        high_watermark=1,
        previous_high_watermark=0,
        log_end_offset=1,
        topic="t",
        partition=0,
    )
    trace.emit(created)
    trace.emit(TopicDeleted(node="c1", topic="t"))
    trace.emit(moved)
    trace.emit(ReplicaDeleted("b1", "t", 0, previous_log_end_offset=1))
    assert not view.partitions
    trace.emit(created)
    trace.emit(moved)
    replica = view.replica(TopicPartition("t", 0), "b1")
    assert replica is not None and replica.high_watermark == 1
