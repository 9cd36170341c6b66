"""What members of a classic group tell each other, and how the one that leads assigns: `range`, `cooperative-sticky`.

Simplified: these clients share a group with each other alone, and all members read the same topic; no racks (KIP-881).

source: ConsumerProtocol.java, RangeAssignor.java, CooperativeStickyAssignor.java, AbstractStickyAssignor.java
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cluster.protocol.consumer_protocol import read_assignment
from replica.ids import TopicPartition

RANGE, COOPERATIVE_STICKY = "range", "cooperative-sticky"
NO_GENERATION = -1


class Owner(NamedTuple):
    """A member before an assignment: what it has, and since which generation."""

    member_id: str
    generation: int = NO_GENERATION
    owned: tuple[int, ...] = ()


def by_range(members: Sequence[tuple[str, str]], partitions: int) -> dict[str, list[int]]:
    """Partition numbers by member id. members: (instance id or "", member id)     source: RangeAssignor"""
    order = [member_id for _, member_id in sorted(members, key=lambda one: one[0] or one[1])]
    least, more = divmod(partitions, len(order))
    assigned: dict[str, list[int]] = {}
    first = 0
    for place, member_id in enumerate(order):
        count = least + (place < more)
        assigned[member_id] = list(range(first, first + count))
        first += count
    return assigned


def by_cooperative_sticky(members: Sequence[Owner], partitions: int) -> dict[str, list[int]]:
    """As even as can be, and each keeps what it has; what is to move goes to nobody before its owner has given it up.

    source: CooperativeStickyAssignor.adjustAssignment
    """
    assigned, moving = _evenly(members, partitions)
    return {name: [one for one in numbers if one not in moving] for name, numbers in assigned.items()}


def _claims(members: Sequence[Owner]) -> tuple[dict[str, list[int]], dict[int, None]]:
    """What each member has, by the newest generation, and what two of one generation have.

    source: AbstractStickyAssignor.allSubscriptionsEqual
    """
    owned: dict[str, list[int]] = {}
    disputed: dict[int, None] = {}
    owners: dict[int, Owner] = {}
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
    return {name: sorted(one for one in mine if one not in disputed) for name, mine in owned.items()}, disputed


def _evenly(members: Sequence[Owner], partitions: int) -> tuple[dict[str, list[int]], dict[int, None]]:
    """Returns all shares, and the partitions that another member has still to give up.

    source: ConstrainedAssignmentBuilder
    """
    owned, disputed = _claims(members)
    least, larger = divmod(partitions, len(members))
    most = least + (larger > 0)
    below: list[str] = []
    at_least: list[str] = []
    given_up: dict[int, str] = {}
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
    moving: dict[int, None] = {}
    for number in range(partitions):
        if number in kept:
            continue
        name = receivers.pop(0)
        owned[name].append(number)
        if number in disputed or given_up.get(number, name) != name:
            moving[number] = None
    return owned, moving


def _receivers(owned: Mapping[str, Sequence[int]], below: list[str], at_least: list[str], least: int) -> list[str]:
    """Who is given the next partitions: in turn those that lack some, then each one more. source: assignRoundRobin"""
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


def subscription(topic: str) -> bytes:
    """Version 0 of ConsumerProtocolSubscription: one topic and no user data."""
    name = topic.encode()
    return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)


def owning_subscription(topic: str, owned: Sequence[int], generation: int) -> bytes:
    """Version 2 of it: what the member has (KIP-429), and since which generation (KIP-792), in the user data, too."""
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}sii", 2, 1, len(name), name, 4, generation)
    if not owned:
        return head + struct.pack(">ii", 0, generation)
    has = struct.pack(f">ih{len(name)}si{len(owned)}i", 1, len(name), name, len(owned), *owned)
    return head + has + struct.pack(">i", generation)


def owner(member_id: str, data: bytes) -> Owner:
    """Of a subscription as `owning_subscription` writes it."""
    (length,) = struct.unpack_from(">h", data, 6)
    position = 8 + length + 8
    (topics,) = struct.unpack_from(">i", data, position)
    (generation,) = struct.unpack_from(">i", data, len(data) - 4)
    if topics == 0:
        return Owner(member_id, generation)
    (count,) = struct.unpack_from(">i", data, position + 6 + length)
    return Owner(member_id, generation, struct.unpack_from(f">{count}i", data, position + 10 + length))


def assignment(topic: str, numbers: Sequence[int]) -> bytes:
    """Version 0 of ConsumerProtocolAssignment."""
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}s", 0, 1, len(name), name)
    return head + struct.pack(f">i{len(numbers)}ii", len(numbers), *numbers, -1)


def partitions_in(data: bytes) -> list[TopicPartition]:
    """Of an assignment by a member, or by the coordinator of a group that has members of KIP-848, too."""
    return list(read_assignment(data).partitions) if data else []
