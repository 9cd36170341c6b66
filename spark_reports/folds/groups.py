"""Find the group member that each partition was assigned to over time, according to the coordinator's events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

COLUMNS = (
    "what", "at_us", "node", "member", "client_id", "instance", "generation", "partitions",
    "is_empty", "is_cooperative",
)  # fmt: skip
LEADS, JOINED, LEFT, REBALANCES, REBALANCED, HAS, REMOVED, OVER = (
    "leads", "joined", "left", "rebalances", "rebalanced", "has", "removed", "over",
)  # fmt: skip

Owner = tuple[str | None, str | None, int | None]
"""Member, client.id and generation; all None if the partition is unassigned."""
NOBODY: Owner = (None, None, None)


def group_assignments(facts: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each interval in which a partition has the same owner, or no owner.

    A partition's first interval begins with its first owner; its last one ends when the group becomes empty. Members of
    an eager group lose their partitions when a rebalance begins. Members of a cooperative group keep theirs until they
    get a new assignment. A static member that returns gets its earlier partitions.

    Facts from a former coordinator are ignored: a broker that has begun to lead no partition of the offsets topic since
    the current coordinator did. If it is frozen or cut off, it does not know of its successor.
    """
    members: dict[str, tuple[str | None, str | None, tuple[str, ...], int]] = {}
    now: dict[str, tuple[Owner, int]] = {}
    is_cooperative = False
    led_since: dict[str, int] = {}
    current_since = -1
    for number, fact in enumerate(facts):
        what, at_us, node, member, client_id, instance, generation, partitions, is_empty, cooperative = fact
        if what == LEADS:
            led_since[node] = number
            continue
        if what != OVER:
            since = led_since.get(node, -1)
            if since < current_since:
                continue
            current_since = since
        if what == JOINED:
            held: tuple[str, ...] = ()
            for name, (_, item, theirs, _) in list(members.items()):
                if instance is not None and item == instance:
                    held = theirs
                    del members[name]
            members[member] = (client_id, instance, held, generation)
        elif what == LEFT:
            members.pop(member, None)
        elif what == REBALANCES and not is_cooperative:
            members = {name: (client, item, (), epoch) for name, (client, item, _, epoch) in members.items()}
        elif what == REBALANCED:
            is_cooperative = cooperative
            if is_empty:
                members.clear()
        elif what == HAS:
            known = members.get(member, (client_id, None, (), generation))
            members[member] = (known[0], known[1], tuple(partitions), generation)
        elif what == REMOVED:
            members.clear()
        owners: dict[str, Owner] = dict.fromkeys(now, NOBODY) if members else {}
        for name, (client, _, theirs, epoch) in members.items():
            owners.update(dict.fromkeys(theirs, (name, client, epoch)))
        if what == OVER:
            owners = {}
        yield from _ended(now, owners, at_us)
        for partition, owner in owners.items():
            if partition not in now:
                now[partition] = (owner, at_us)


def _ended(now: dict[str, tuple[Owner, int]], owners: dict[str, Owner], at_us: int) -> Iterator[tuple[Any, ...]]:
    """Remove the intervals whose owner changes at `at_us`, and yield those that are not empty.

    A new generation of the same member does not end an interval.
    """
    for partition, (owner, from_us) in list(now.items()):
        if partition in owners and owners[partition][0] == owner[0]:
            continue
        del now[partition]
        if at_us > from_us:
            topic, _, number = partition.rpartition("-")
            yield topic, int(number), *owner, from_us, at_us
