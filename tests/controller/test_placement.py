"""The goals of StripedReplicaPlacer, checked against counting by hand (StripedReplicaPlacerTest and its javadoc)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import placement
from controller.placement import UsableBroker, place
from replica.errors import ErrorCode, KafkaError


def brokers(racks: dict[str | None, list[int]], fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [
        UsableBroker(broker_id, rack, broker_id in fenced) for rack, members in racks.items() for broker_id in members
    ]


def test_without_racks_it_is_the_classic_stripe() -> None:
    assert place(brokers({None: [1, 2, 3]}), 3, 3) == [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    assert place(brokers({None: [3, 1, 2]}), 1, 3, start=4) == [(2, 3, 1)]


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are solved; nothing is remembered of earlier tests."""
    graphs, honest = [], networkx.network_simplex
    monkeypatch.setattr(networkx, "network_simplex", lambda graph: graphs.append(graph) or honest(graph))
    placement._place_followers.cache_clear()
    return graphs


def load_of(placed: list[tuple[int, ...]]) -> Counter[int]:
    return Counter(member for replicas in placed for member in replicas)


def test_a_fenced_broker_does_not_make_every_slice_of_a_large_topic_another(flows: list[Any]) -> None:
    """It stays without load: 2,000 partitions were 66 flows, and the controller stood still for a second."""
    load = load_of(place(brokers({None: [0, 1, 2, 3]}, fenced=(0,)), 2000, 2))
    assert sorted(load) == [1, 2, 3] and max(load.values()) - min(load.values()) <= 1
    assert len(flows) == 2


def test_nor_does_one_that_is_not_needed_beside_others_that_are(flows: list[Any]) -> None:
    """Racks of their own want 4 and 5; 7 would share the leaders' rack, and lags behind further with every slice."""
    load = load_of(place(brokers({None: [1, 2, 3, 7], "a": [4], "b": [5]}, fenced=(4, 5, 7)), 6000, 2))
    assert load == {1: 2000, 2: 2000, 3: 2000, 4: 3000, 5: 3000}
    assert len(flows) < 10


@pytest.mark.soak
@pytest.mark.parametrize(
    ("racks", "fenced"),
    [
        ({"a": list(range(10)), "b": list(range(10, 20)), "c": [20]}, ()),
        ({None: [1, 2, 3], **{f"r{number}": [number] for number in range(10, 50)}}, tuple(range(10, 50))),
    ],
)
def test_a_large_topic_takes_a_few_flows_whatever_the_racks(
    flows: list[Any], racks: dict[str | None, list[int]], fenced: tuple[int, ...]
) -> None:
    """No slice finds the load of an earlier one for long: 10,000 partitions were 300 flows."""
    usable = brokers(racks, fenced)
    placed = place(usable, 10_000, 2)
    partitions = sum(sum(node[0] == "partition" for node in graph if node != "sink") for graph in flows)
    assert partitions * len(usable) <= placement._PAIRS_MAX
    rack_of = {broker.broker_id: broker.rack for broker in usable}
    assert all(rack_of[leader] != rack_of[follower] for leader, follower in placed)
    load = load_of(placed)
    for rack in (rack for rack, members in racks.items() if len(members) > 1):
        loads = [load[broker_id] for broker_id in racks[rack]]
        assert max(loads) - min(loads) <= max(loads) // 10


def test_topics_that_are_alike_share_a_flow(flows: list[Any]) -> None:
    """One request may create 5,000."""
    usable = brokers({None: [1, 2, 3]})
    placed = [place(usable, 1, 2, start) for start in range(5000)]
    assert placed[:4] == [[(1, 2)], [(2, 3)], [(3, 1)], [(1, 2)]]
    assert len(flows) == 3


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
        (brokers({None: [1, 2]}), 3, "exceeds the number of registered brokers"),
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
