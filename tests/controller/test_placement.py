"""The goals of StripedReplicaPlacer, checked against counting by hand (StripedReplicaPlacerTest and its javadoc)."""

from __future__ import annotations

from collections import Counter

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.placement import UsableBroker, place
from replica.errors import ErrorCode, KafkaError


def brokers(racks: dict[str | None, list[int]], fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [
        UsableBroker(broker_id, rack, broker_id in fenced) for rack, members in racks.items() for broker_id in members
    ]


def test_without_racks_it_is_the_classic_stripe() -> None:
    assert place(brokers({None: [1, 2, 3]}), 3, 3) == [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    assert place(brokers({None: [3, 1, 2]}), 1, 3, start=4) == [(2, 3, 1)]


def test_a_fenced_broker_does_not_make_every_slice_of_a_large_topic_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays without load: 2,000 partitions were 66 flows, and the controller stood still for a second."""
    flows, honest = [], networkx.network_simplex
    monkeypatch.setattr(networkx, "network_simplex", lambda graph: flows.append(graph) or honest(graph))
    placed = place(brokers({None: [0, 1, 2, 3]}, fenced=(0,)), 2000, 2)
    load = Counter(member for replicas in placed for member in replicas)
    assert sorted(load) == [1, 2, 3] and max(load.values()) - min(load.values()) <= 1
    assert len(flows) < 10


def test_each_partition_has_a_replica_in_every_rack() -> None:
    """The javadoc's cluster: three racks of three."""
    racks: dict[str | None, list[int]] = {"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]}
    rack_of = {broker.broker_id: broker.rack for broker in brokers(racks)}
    placed = place(brokers(racks), 9, 3)
    assert [sorted(str(rack_of[member]) for member in replicas) for replicas in placed] == [["a", "b", "c"]] * 9
    assert sorted(replicas[0] for replicas in placed) == list(range(1, 10)), "every broker leads once"
    assert sorted(member for replicas in placed for member in replicas) == sorted(list(range(1, 10)) * 3)


def test_a_small_rack_gets_a_replica_of_everything() -> None:
    """Racks come before an even load: "you will end up with a lot of partitions on that one broker in rack C"."""
    placed = place(brokers({"a": [1, 2], "b": [3, 4], "c": [5]}), 10, 3)
    assert all(5 in replicas for replicas in placed)


def test_fenced_brokers_come_last_but_a_rack_comes_before_that() -> None:
    """testMultiPartitionTopicPlacementOnSingleUnfencedBroker, testPlacementOnFencedReplicaOnTheSameRack."""
    assert place(brokers({None: [0, 1]}, fenced=(1,)), 3, 1) == [(0,), (0,), (0,)]
    assert place(brokers({None: [1, 2, 3]}, fenced=(2,)), 1, 2) == [(1, 3)]
    assert place(brokers({None: [1, 2, 3]}, fenced=(2,)), 1, 3) == [(1, 3, 2)]
    assert place(brokers({"a": [1, 2], "b": [3]}, fenced=(3,)), 1, 2) == [(1, 3)]


@pytest.mark.parametrize(
    ("usable", "replication_factor", "problem"),
    [
        (brokers({None: [1, 2]}), 3, "needs as many brokers"),
        (brokers({None: [1, 2]}), 0, "must be positive"),
        (brokers({None: [1, 2]}, fenced=(1, 2)), 1, "currently fenced"),
        ([], 1, "currently fenced"),
    ],
)
def test_impossible(usable: list[UsableBroker], replication_factor: int, problem: str) -> None:
    with pytest.raises(KafkaError, match=problem) as refused:
        place(usable, 1, replication_factor)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[UsableBroker], int, int, int]:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    broker_ids = draw(st.permutations(range(1, sum(sizes) + 1)))
    usable, position = [], 0
    for rack, size in enumerate(sizes):
        for broker_id in broker_ids[position : position + size]:
            usable.append(UsableBroker(broker_id, f"r{rack}", draw(st.booleans())))
        position += size
    if all(broker.fenced for broker in usable):
        usable[0] = usable[0]._replace(fenced=False)
    return usable, draw(st.integers(1, 40)), draw(st.integers(1, len(usable))), draw(st.integers(0, 5))


@settings(max_examples=40, deadline=None)
@given(clusters())
def test_goals_and_constraints(cluster: tuple[list[UsableBroker], int, int, int]) -> None:
    usable, partitions, replication_factor, start = cluster
    placed = place(usable, partitions, replication_factor, start)
    by_id = {broker.broker_id: broker for broker in usable}
    assert [len(dict.fromkeys(replicas)) for replicas in placed] == [replication_factor] * partitions
    assert placed == place(list(reversed(usable)), partitions, replication_factor, start), "the order told is no matter"

    leaders = [replicas[0] for replicas in placed]
    unfenced = [broker.broker_id for broker in usable if not broker.fenced]
    led = [leaders.count(broker_id) for broker_id in unfenced]
    assert sum(led) == partitions
    assert max(led) - min(led) <= 1

    rack_size = {broker.rack: sum(other.rack == broker.rack for other in usable) for broker in usable}
    for replicas in placed:
        used = {rack: sum(by_id[member].rack == rack for member in replicas) for rack in rack_size}
        for rack, number in used.items():
            # As even as it gets: a rack with two more than another means that the other has no broker left.
            assert all(number - used[other] <= 1 or used[other] == rack_size[other] for other in used), (rack, used)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 80), st.integers(1, 4))
def test_equal_racks_get_an_even_load(racks: int, per_rack: int, partitions: int, replication_factor: int) -> None:
    usable = [
        UsableBroker(rack * 10 + number, f"r{rack}", False) for rack in range(racks) for number in range(per_rack)
    ]
    placed = place(usable, partitions, min(replication_factor, len(usable)))
    load = [sum(broker.broker_id in replicas for replicas in placed) for broker in usable]
    assert max(load) - min(load) <= 1
