"""The client-side assignors of classic groups, `range` and `cooperative-sticky`, and their messages.

Simplified: groups have only members of this project, which all read the same topics; there are no racks (KIP-881).
Source: ConsumerProtocol.java, RangeAssignor.java, CooperativeStickyAssignor.java, AbstractStickyAssignor.java
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from cluster.protocol.consumer_protocol import (
    partitions_by_topic,
    read_assignment,
    read_generation,
    read_subscription,
    write_assignment,
)
from cluster.protocol.primitives import INT16, INT32, string
from replica.ids import TopicPartition

RANGE, COOPERATIVE_STICKY = "range", "cooperative-sticky"
NO_GENERATION = -1


class Owner(NamedTuple):
    """A member before an assignment: its current partitions, and the generation in which it got them."""

    member_id: str
    generation: int = NO_GENERATION
    owned: tuple[TopicPartition, ...] = ()


def by_range(
    members: Sequence[tuple[str, str]], partitions: Sequence[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """Assign each member adjacent partitions of each topic; the first members may get one more. Source: RangeAssignor

    Args:
        members: (instance id or "", member id).
        partitions: partitions of all topics, in order.

    Returns:
        Partitions by member id.
    """
    order = [member_id for _, member_id in sorted(members, key=lambda member: member[0] or member[1])]
    assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in order}
    for _, found in groupby(partitions, lambda item: item.topic):
        of_topic = list(found)
        least, more = divmod(len(of_topic), len(order))
        first = 0
        for index, member_id in enumerate(order):
            end = first + least + (index < more)
            assigned[member_id] += of_topic[first:end]
            first = end
    return assigned


def by_cooperative_sticky(
    members: Sequence[Owner], partitions: Sequence[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """Assign partitions as evenly as possible; members keep as many of their partitions as that allows.

    A partition that has to move is left out until its current member has revoked it.

    Args:
        partitions: partitions of all topics, in order.

    Returns:
        Partitions by member id.

    Source: CooperativeStickyAssignor.adjustAssignment
    """
    assigned, moving = _evenly(members, partitions)
    return {name: [number for number in numbers if number not in moving] for name, numbers in assigned.items()}


def _claims(members: Sequence[Owner]) -> tuple[dict[str, list[TopicPartition]], dict[TopicPartition, None]]:
    """Return the partitions that each member owns, and the disputed ones.

    A partition belongs to the member that claims it with the newest generation. If two members claim it with the same
    generation, it is disputed and belongs to neither.

    Source: AbstractStickyAssignor.allSubscriptionsEqual
    """
    owned: dict[str, list[TopicPartition]] = {}
    disputed: dict[TopicPartition, None] = {}
    owners: dict[TopicPartition, Owner] = {}
    for member in members:
        owned[member.member_id] = []
        for number in member.owned:
            other = owners.get(number)
            if other is not None and member.generation < other.generation:
                continue
            if other is not None:
                owned[other.member_id].remove(number)
            if other is not None and member.generation == other.generation:
                disputed[number] = None
            owned[member.member_id].append(number)
            owners[number] = member
    return {name: sorted(item for item in mine if item not in disputed) for name, mine in owned.items()}, disputed


def _evenly(
    members: Sequence[Owner], partitions: Sequence[TopicPartition]
) -> tuple[dict[str, list[TopicPartition]], dict[TopicPartition, None]]:
    """Return the complete assignment, and those of its partitions that another member has to revoke first.

    Source: ConstrainedAssignmentBuilder
    """
    owned, disputed = _claims(members)
    least, larger = divmod(len(partitions), len(members))
    most = least + (larger > 0)
    below: list[str] = []
    at_least: list[str] = []
    given_up: dict[TopicPartition, str] = {}
    for name, numbers in owned.items():
        quota = len(numbers)
        if quota < least:
            below.append(name)
        elif quota >= most and larger > 0:
            larger -= 1
            quota = most
        else:
            quota = least
            at_least.append(name)
        given_up.update(dict.fromkeys(numbers[quota:], name))
        del numbers[quota:]
    kept = {number for numbers in owned.values() for number in numbers}
    receivers = _receivers(owned, sorted(below), sorted(at_least), least)
    moving: dict[TopicPartition, None] = {}
    for number in partitions:
        if number in kept:
            continue
        name = receivers.pop(0)
        owned[name].append(number)
        if number in disputed or given_up.get(number, name) != name:
            moving[number] = None
    return owned, moving


def _receivers(
    owned: Mapping[str, Sequence[TopicPartition]], below: list[str], at_least: list[str], least: int
) -> list[str]:
    """Return the members in the order in which they get the next partitions.

    Members in `below` come first, in turn, until each has `least` partitions. Then every member comes once.

    Source: assignRoundRobin
    """
    turns: list[str] = []
    lacking = {name: least - len(owned[name]) for name in below}
    filled = list(at_least)
    while lacking:
        for name in list(lacking):
            turns.append(name)
            lacking[name] -= 1
            if lacking[name] == 0:
                del lacking[name]
                filled.append(name)
    return turns + filled


# ------------------------------------------------------------------------------------------------- what they write


def subscription(topics: Sequence[str]) -> bytes:
    """Encode a ConsumerProtocolSubscription of version 0, without user data; `topics` are in ascending order."""
    return INT16.pack(0) + _names(topics) + INT32.pack(-1)


def owning_subscription(topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
    """Encode a ConsumerProtocolSubscription of version 2, with a member's partitions and generation (KIP-429, KIP-792).

    Args:
        topics, owned: in ascending order.

    Source: ConsumerProtocol.serializeSubscription
    """
    user_data = INT32.pack(4) + INT32.pack(generation)
    return INT16.pack(2) + _names(topics) + user_data + partitions_by_topic(owned) + INT32.pack(generation)


def owner(member_id: str, data: bytes) -> Owner:
    """Decode a subscription that `owning_subscription` has encoded."""
    return Owner(member_id, read_generation(data), read_subscription(data).owned)


def _names(topics: Sequence[str]) -> bytes:
    return INT32.pack(len(topics)) + b"".join(string(topic, False) for topic in topics)


def assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """Encode a ConsumerProtocolAssignment of version 0; `partitions` are in ascending order."""
    return write_assignment(partitions, 0)


def partitions_in(data: bytes) -> list[TopicPartition]:
    """Decode the partitions of an assignment; empty data means none."""
    return list(read_assignment(data).partitions) if data else []
