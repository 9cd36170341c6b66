"""Placement of a new topic's replicas on brokers: leaders evenly over brokers, replicas over racks, then over brokers.
Goals and constraints are those of Kafka's StripedReplicaPlacer: no broker has two replicas of a partition, leaders are
unfenced, racks come before everything else, and fenced brokers are used only if their rack has no others. Leaders are
striped as in Kafka. Followers are chosen by a minimum-cost flow (networkx): partition -> rack -> broker. Each further
replica in the same rack, or on the same broker, has a higher cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from controller.image import PartitionRegistration
from replica.errors import ErrorCode, KafkaError
from replica.ids import BrokerId, without

if TYPE_CHECKING:
    import networkx as nx

_PARTITIONS_PER_FLOW = 32
"""The number of partitions in a slice. Larger topics are placed slice by slice, since network simplex is superlinear.

A slice begins with the load from earlier slices. The number is rounded up so that every broker leads
equally often in a slice; otherwise the next slice would start from an uneven load.
"""

_PAIRS_MAX = 5_000
"""Limit for the (partition, broker) pairs in all flows of one topic. Flows of this size take about 0.25 s."""

_SLICES_REMEMBERED = 256
"""Number of slices in the cache. One request may create thousands of topics, most of which get the same placement."""

Followers = tuple[tuple["UsableBroker", ...], ...]
"""The followers of each partition of a slice."""


class UsableBroker(NamedTuple):
    """A registered broker that is not shutting down. Source: ClusterControlManager.usableBrokers"""

    broker_id: BrokerId
    rack: str | None
    fenced: bool


def place(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, start: int = 0
) -> list[tuple[BrokerId, ...]]:
    """Return the replicas of partition 0, 1, ... in order of preference; the first one is the leader.

    Args:
        start: index of the leader of partition 0 among the unfenced brokers, which are taken from racks in turn.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR if there are too few brokers, or all are fenced.
    """
    # Differs from Kafka: no random start and no reshuffle, so that the same cluster gets the same placement; and
    # leaders are spread evenly over brokers, not over racks (which differs only if racks differ in size).
    _check(brokers, replication_factor)
    stripe = _interleave_racks(brokers)
    leaders = [broker for broker in stripe if not broker.fenced]
    load = {broker.broker_id: 0 for broker in stripe}
    assignment: list[tuple[BrokerId, ...]] = []
    size = len(leaders) * -(-_PARTITIONS_PER_FLOW // len(leaders))
    slices = _Slices(stripe, replication_factor - 1, flows_max=max(1, _PAIRS_MAX // (size * len(stripe))))
    for first in range(0, partitions, size):
        numbers = range(first, min(first + size, partitions))
        slice_leaders = tuple(leaders[(start + number) % len(leaders)] for number in numbers)
        for leader in slice_leaders:
            load[leader.broker_id] += 1
        for leader, followers in zip(slice_leaders, slices.place(slice_leaders, load), strict=True):
            assignment.append((leader.broker_id, *(broker.broker_id for broker in followers)))
            for broker in followers:
                load[broker.broker_id] += 1
    return assignment


class _Slices:
    """The placement of one topic's followers, slice by slice. All slices begin with the same leader.

    Args:
        flows_max: number of flows to solve. A slice with the same load as an earlier slice reuses its solution. Such
            slices are rare if racks differ in size or fenced brokers are needed. After the last flow, all solutions
            are therefore reused in turn. Each partition still satisfies the constraints and the goals of racks and
            fencing, and the load stays almost even.
    """

    def __init__(self, stripe: tuple[UsableBroker, ...], followers: int, flows_max: int) -> None:
        self._stripe = stripe
        self._followers = followers
        self._flows_max = flows_max
        self._solved: dict[tuple[int, ...], Followers] = {}
        self._turn = 0

    def place(self, leaders: tuple[UsableBroker, ...], load: Mapping[BrokerId, int]) -> Followers:
        situation = (len(leaders), *_differences(self._stripe, load, len(leaders)))
        if situation not in self._solved:
            if len(self._solved) >= self._flows_max:
                again = list(self._solved.values())[self._turn % self._flows_max]
                self._turn += 1
                return again[: len(leaders)]
            loads = tuple(load[broker.broker_id] for broker in self._stripe)
            self._solved[situation] = _place_followers(self._stripe, leaders, self._followers, loads)
        return self._solved[situation]


def _check(brokers: Sequence[UsableBroker], replication_factor: int) -> None:
    if replication_factor <= 0:
        problem = f"the replication factor must be positive, not {replication_factor}"
    elif all(broker.fenced for broker in brokers):
        problem = "all brokers are currently fenced"
    elif replication_factor > len(brokers):
        problem = f"replication factor {replication_factor} exceeds the number of registered brokers, {len(brokers)}"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)


def _interleave_racks(brokers: Sequence[UsableBroker]) -> tuple[UsableBroker, ...]:
    """Return the brokers of all racks in turn: a1 b1 c1 a2 b2 c2. Racks are sorted by name, brokers by id."""
    racks: dict[str, list[UsableBroker]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.broker_id)):
        racks.setdefault(broker.rack or "", []).append(broker)
    return tuple(broker for row in zip_longest(*racks.values()) for broker in row if broker is not None)


@lru_cache(maxsize=_SLICES_REMEMBERED)
def _place_followers(
    stripe: tuple[UsableBroker, ...], leaders: tuple[UsableBroker, ...], followers: int, load: tuple[int, ...]
) -> Followers:
    """Return `followers` other brokers for each leader, in stripe order after the leader, fenced ones last.

    Args:
        load: current number of replicas of each broker in the stripe.
    """
    if followers == 0:
        return ((),) * len(leaders)
    if followers == len(stripe) - 1:
        return tuple(_behind(stripe, leader) for leader in leaders)
    import networkx as nx  # 140 ms that a topic with an explicit assignment never pays

    flow = nx.network_simplex(_graph(stripe, leaders, followers, load))[1]
    return tuple(
        tuple(broker for broker in _behind(stripe, leader) if _carries(flow, number, broker))
        for number, leader in enumerate(leaders)
    )


def _differences(stripe: Sequence[UsableBroker], load: Mapping[BrokerId, int], partitions: int) -> Iterator[int]:
    """Yield each broker's load above the lowest load, separately for fenced and for unfenced brokers.

    Differences between these groups do not affect a slice. A gap that one slice cannot close is shortened, because it
    can grow with every slice if some brokers are needed less than others.
    """
    rank: dict[tuple[bool, int], int] = {}
    for fenced in (False, True):
        loads = sorted({load[broker.broker_id] for broker in stripe if broker.fenced is fenced})
        index = 0
        for lower, upper in pairwise(loads[:1] + loads):
            index += min(upper - lower, partitions + 1)
            rank[fenced, upper] = index
    return (rank[broker.fenced, load[broker.broker_id]] for broker in stripe)


def _behind(stripe: tuple[UsableBroker, ...], leader: UsableBroker) -> tuple[UsableBroker, ...]:
    start = stripe.index(leader)
    return tuple(sorted(stripe[start + 1 :] + stripe[:start], key=lambda broker: broker.fenced))


def _carries(flow: dict[object, dict[object, dict[int, int]]], number: int, broker: UsableBroker) -> bool:
    edges = flow[("rack", number, broker.rack)].get(("broker", broker.broker_id), {})
    return any(edges.values())


def _graph(
    stripe: tuple[UsableBroker, ...], leaders: tuple[UsableBroker, ...], followers: int, load: tuple[int, ...]
) -> nx.MultiDiGraph[object]:
    """Return the flow network. Costs rank the goals: racks, then unfenced brokers, then load, then stripe order."""
    import networkx as nx

    distance = len(stripe)
    by_load = distance * followers * len(leaders) + 1
    by_fence = by_load * (max(load) + len(leaders) + 1) * followers * len(leaders)
    by_rack = by_fence * (followers * len(leaders) + 1)
    graph: nx.MultiDiGraph[object] = nx.MultiDiGraph()
    graph.add_node("sink", demand=followers * len(leaders))
    for broker, already in zip(stripe, load, strict=True):
        for further in range(len(leaders)):
            cost = by_load * (already + further)
            graph.add_edge(("broker", broker.broker_id), "sink", capacity=1, weight=cost)
    for number, leader in enumerate(leaders):
        graph.add_node(("partition", number), demand=-followers)
        for rack in dict.fromkeys(broker.rack for broker in stripe):
            taken = int(rack == leader.rack)
            for further in range(min(followers, sum(broker.rack == rack for broker in stripe) - taken)):
                cost = by_rack * (taken + further)
                graph.add_edge(("partition", number), ("rack", number, rack), capacity=1, weight=cost)
        start = stripe.index(leader)
        for position, broker in enumerate(stripe):
            if broker != leader:
                cost = (position - start) % distance + (by_fence if broker.fenced else 0)
                graph.add_edge(("rack", number, broker.rack), ("broker", broker.broker_id), capacity=1, weight=cost)
    return graph


# --------------------------------------------------------------------------------------------------------- reassignment
#
# The arithmetic of KIP-455: the replicas that a reassignment adds and removes, its completion, and its cancellation.
#
# Source: PartitionReassignmentReplicas.java, PartitionReassignmentRevert.java.

Replicas = tuple[BrokerId, ...]


class Reassignment(NamedTuple):
    """A reassignment in progress. `replicas` has the target first, then the replicas that are being removed."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def is_in_progress(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        return without(self.replicas, self.removing)


class ReassignmentOutcome(NamedTuple):
    """Replicas and ISR after a reassignment is completed or cancelled. `unclean` is True if no ISR member remains."""

    replicas: Replicas
    in_sync_replicas: Replicas
    unclean: bool = False


def begin(partition: PartitionRegistration, target: Replicas) -> Reassignment:
    """Return a new reassignment of a partition, which replaces the reassignment in progress, if any."""
    removing = tuple(sorted(without(partition.replicas, target)))
    adding = tuple(sorted(without(target, partition.replicas)))
    return Reassignment((*target, *removing), adding, removing)


def maybe_complete(reassignment: Reassignment, in_sync_replicas: Replicas, done: str) -> ReassignmentOutcome | None:
    """Return the outcome of a reassignment if the ISR has all replicas that completion requires, else None.

    The ISR must have all added replicas. It must have all target replicas if `done` (the switch `reassignment-done`) is
    `all-in-sync`, or if `done` is `added-in-sync` and fewer replicas are added than removed, so that the ISR does not
    shrink. The removed replicas leave the assignment and the ISR.
    """
    if not reassignment.is_in_progress:
        return None
    replicas, isr = reassignment.target, without(in_sync_replicas, reassignment.removing)
    gets_fewer = len(reassignment.adding) < len(reassignment.removing)
    needs_all = done == "all-in-sync" or (done == "added-in-sync" and gets_fewer)
    if not replicas or not isr or without(replicas if needs_all else reassignment.adding, isr):
        return None
    return ReassignmentOutcome(replicas, isr)


def revert(partition: PartitionRegistration) -> ReassignmentOutcome:
    """Return the outcome of a cancelled reassignment, which removes the added replicas."""
    replicas = without(partition.replicas, partition.adding_replicas)
    isr = without(partition.in_sync_replicas, partition.adding_replicas)
    return ReassignmentOutcome(replicas, isr) if isr else ReassignmentOutcome(replicas, replicas[:1], unclean=True)
