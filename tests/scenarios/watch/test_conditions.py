"""What `watch --fail-on` takes for a failure, and the lines that a pipe gets."""

from __future__ import annotations

from uuid import UUID

import pytest

from replica.ids import TopicPartition
from replica.trace.events import TraceLog
from scenarios.cli.watch.screen import HEARTBEAT_US, StateChanges
from scenarios.watch.cluster_watch import ClusterWatch
from scenarios.watch.conditions import Condition, Conditions
from scenarios.watch.questions import ClusterAnswer, ListedBroker, PartitionAnswer, ReplicaAnswer

ORDERS = TopicPartition("orders", 0)
BROKERS = tuple(ListedBroker(broker_id, "h", 9092) for broker_id in (1, 2, 3))


def described(watch: ClusterWatch, at_us: int, isr: tuple[int, ...], leader: int = 1) -> None:
    one = PartitionAnswer(ORDERS, leader, 0, (1, 2, 3), isr, (), UUID(int=1))
    watch.brokers_answered(at_us, "b1", BROKERS)
    watch.cluster_answered(at_us, ClusterAnswer(BROKERS, (one,)))
    watch.min_isrs_answered(at_us, {"orders": 2})


@pytest.fixture
def watch() -> ClusterWatch:
    return ClusterWatch(TraceLog([]))


def test_a_condition_has_to_last(watch: ClusterWatch) -> None:
    conditions = Conditions([Condition("under-min-isr", 5_000_000)])
    described(watch, 0, (1,))
    assert conditions.look(watch, 0) is None and conditions.look(watch, 4_000_000) is None
    described(watch, 4_500_000, (1, 2))
    assert conditions.look(watch, 4_500_000) is None
    described(watch, 5_000_000, (1,))
    assert conditions.look(watch, 5_000_000) is None and conditions.look(watch, 9_000_000) is None
    said = "the ISR of orders-0 was below min.insync.replicas for 5 s"
    assert conditions.look(watch, 10_000_000) == said


def test_a_high_watermark_that_stands_still_and_a_broker_that_is_silent(watch: ClusterWatch) -> None:
    described(watch, 0, (1, 2, 3))
    stalled, silent = (Conditions([Condition(kind, 1_000_000)]) for kind in ("hw-stalled", "no-answer"))
    for at_us in (0, 600_000):
        watch.replicas_answered(at_us, 1, [ReplicaAnswer(ORDERS, 5, 3)])
        assert stalled.look(watch, at_us) is None
    watch.replicas_answered(1_200_000, 1, [ReplicaAnswer(ORDERS, 6, 3)])
    assert (
        stalled.look(watch, 1_200_000)
        == "the high watermark of orders-0 did not move although records were above it for 1.2 s"
    )
    assert silent.look(watch, 1_200_000) is None
    watch.silent(2_200_000, 3, 1_000_000, "connected, but no answer")
    assert silent.look(watch, 2_200_000) == "b3 did not answer for 1.2 s"


def test_a_quiet_cluster_is_not_mistaken_for_a_watch_that_has_ended(watch: ClusterWatch) -> None:
    changes = StateChanges()
    described(watch, 0, (1, 2, 3))
    assert changes.news(watch, 0) == [] and changes.news(watch, HEARTBEAT_US - 1) == []
    (beat,) = changes.news(watch, HEARTBEAT_US)
    assert beat.text.startswith("no change; without leader 0") and beat.document["heartbeat"]["none"] == 1
    described(watch, HEARTBEAT_US, (1,))
    (change,) = changes.news(watch, HEARTBEAT_US + 1)
    assert change.document["trouble"] == "under_min_isr" and change.document["isr"] == ["b1"]
