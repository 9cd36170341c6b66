"""Where the replicas of a new topic go: leaders even over brokers, replicas over racks, then evenly over brokers.

Goals and constraints are those of Kafka's StripedReplicaPlacer: never two replicas of a partition on one broker, the
leader unfenced, racks before everything else, fenced brokers only when their rack has no other. The leaders are striped
as there. All others are a flow of least cost (networkx): partition -> rack -> broker, where every further replica
in the same rack, and every further replica on the same broker, costs more than the one before.
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
"""Larger topics are placed in slices, each continuing the load of those before: network simplex grows faster than n.
Rounded up so that every broker leads equally often in a slice, else the next one would start from an uneven load."""

_PAIRS_MAX = 5_000
"""Pairs of a partition and a broker in all the flows of one topic, a quarter of a second's work."""

_SLICES_REMEMBERED = 256
"""One request may create thousands of topics, and most of them are placed alike."""

Followers = tuple[tuple["UsableBroker", ...], ...]
"""Of each partition of a slice."""


class UsableBroker(NamedTuple):
    """A registered broker that is not shutting down. Source: ClusterControlManager.usableBrokers"""

    broker_id: BrokerId
    rack: str | None
    fenced: bool


def place(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, start: int = 0
) -> list[tuple[BrokerId, ...]]:
    """Replicas of partition 0, 1, ... in preference order; the first is the leader.

    start: where the stripe of leaders begins     raises: KafkaError INVALID_REPLICATION_FACTOR
    """
    # Differs from Kafka: no random start and no reshuffle, the same cluster gets the same placement; and leaders are
    # even over brokers where Kafka's are even over racks (the same thing unless racks differ in size).
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
    """Followers of one slice of a topic after the other; all slices begin with the same leader.

    flows_max: so many are solved. Where racks differ in size, or fenced brokers are needed, many slices may go by until
    one finds the load of an earlier one again: after the last flow the slices that are solved come in turn. Of every
    partition they keep the constraints and the goals of racks and fencing, and the load stays almost even.
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
        problem = f"replication factor {replication_factor} needs as many brokers, only {len(brokers)} are registered"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)


def _interleave_racks(brokers: Sequence[UsableBroker]) -> tuple[UsableBroker, ...]:
    """Racks in turn, by name, and the brokers of each by id: a1 b1 c1 a2 b2 c2."""
    racks: dict[str, list[UsableBroker]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.broker_id)):
        racks.setdefault(broker.rack or "", []).append(broker)
    return tuple(broker for row in zip_longest(*racks.values()) for broker in row if broker is not None)


@lru_cache(maxsize=_SLICES_REMEMBERED)
def _place_followers(
    stripe: tuple[UsableBroker, ...], leaders: tuple[UsableBroker, ...], followers: int, load: tuple[int, ...]
) -> Followers:
    """For each leader `followers` other brokers, in stripe order behind it, fenced ones last. load: of the stripe"""
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
    """The part of the load that matters in a slice of so many partitions: differences among the fenced brokers, and
    among the others; between the two groups the load decides nothing. A gap that no slice can close is as good as any
    larger one: it grows with every slice where some brokers are needed less than others, or not at all.
    """
    rank: dict[tuple[bool, int], int] = {}
    for fenced in (False, True):
        loads = sorted({load[broker.broker_id] for broker in stripe if broker.fenced is fenced})
        place = 0
        for lower, upper in pairwise(loads[:1] + loads):
            place += min(upper - lower, partitions + 1)
            rank[fenced, upper] = place
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
    """The costs rank the goals: any rack goal outweighs all fenced brokers, these all load, that all stripe order."""
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
# The arithmetic of KIP-455: the replicas that a reassignment adds and removes, its completion, and its cancel.
#
# Source: PartitionReassignmentReplicas.java, PartitionReassignmentRevert.java.

Replicas = tuple[BrokerId, ...]


class Reassignment(NamedTuple):
    """A partition on its way: `replicas` are the target, then what is being removed."""

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
    """Replicas and ISR after a reassignment was completed or cancelled; `unclean`: no replica in sync would remain."""

    replicas: Replicas
    in_sync_replicas: Replicas
    unclean: bool = False


def begin(partition: PartitionRegistration, target: Replicas) -> Reassignment:
    """From what the partition has now, an earlier reassignment's half-way state included."""
    removing = tuple(sorted(without(partition.replicas, target)))
    adding = tuple(sorted(without(target, partition.replicas)))
    return Reassignment((*target, *removing), adding, removing)


def maybe_complete(reassignment: Reassignment, in_sync_replicas: Replicas) -> ReassignmentOutcome | None:
    """Complete as soon as every replica of the target is in the ISR; the removed ones leave both."""
    if not reassignment.is_in_progress:
        return None
    replicas, isr = reassignment.target, without(in_sync_replicas, reassignment.removing)
    if not replicas or not isr or without(replicas, isr):
        return None
    return ReassignmentOutcome(replicas, isr)


def revert(partition: PartitionRegistration) -> ReassignmentOutcome:
    """The replicas after a cancel: all but the added ones."""
    replicas = without(partition.replicas, partition.adding_replicas)
    isr = without(partition.in_sync_replicas, partition.adding_replicas)
    return ReassignmentOutcome(replicas, isr) if isr else ReassignmentOutcome(replicas, replicas[:1], unclean=True)
