"""Consume-transform-produce in random schedules: a group whose members write one record for each record they read.

The group's protocol is one that the era has: eager, cooperative, KIP-848's consumer protocol, or a migration between
two of them. Members may be static. A read_committed consumer reads the output, and there are faults for all of them. In
a schedule that is not safe, some groups use no transactions.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from cluster.broker.apis.offered import offered_under
from cluster.client.producer.transactions import FIRST_WITH_GROUP_METADATA
from cluster.protocol.versions import TXN_OFFSET_COMMIT
from replica.ids import OFFSETS_TOPIC
from replica.rules import Rules
from scenarios.search.troubles import CHAOS_ENDS_MS, QUORUM_STANDS_MS, REQUEST_MS, STARTS_MS, hold_of, lasting

Tree = dict[str, Any]

OUTPUT = "out"
GROUP = "transforms"
COORDINATOR = f"leader({OFFSETS_TOPIC}-0)"
RACKS = ("A", "B", "C")
DEPLOYED_MS = STARTS_MS[1] + 1500
"""Time from which the members are restarted one by one. Most brokers are running again by then."""
SESSION_MS = 6000
"""Session timeout of the members, in the classic and in the consumer protocol."""
HEARTBEAT_MS = 2000
"""Heartbeat interval of members of KIP-848's protocol."""
HELD_OF_CLASSIC = ("JoinGroup", "SyncGroup", "Heartbeat")
HELD_OF_CONSUMER = ("ConsumerGroupHeartbeat",)


def add_transforms(tree: Tree, rules: Rules, *, safe: bool) -> list[Tree]:
    """Add a group of transforms to some schedules, with its own random stream, and return steps for the timeline.

    In a safe schedule each input has its effect exactly once, whichever member dies. Before KIP-447 a group does not
    fence its members, so two of them may process the same record; a safe schedule of those eras has only one member. At
    the end the members are restarted one by one, because some have ended after a timeout fenced their producer.
    """
    rng = random.Random(f"{tree['seed']}/transforms")
    if rng.random() >= 0.4:
        return []
    tree["cluster"]["config"] |= {
        "offsets.topic.num.partitions": 1,
        "min.insync.replicas": 2 if safe else rng.choice((1, 2)),
    }
    for number, broker in enumerate(tree["cluster"]["brokers"].values()):
        broker["rack"] = RACKS[number % len(RACKS)]
    tree["topics"][OUTPUT] = copy.deepcopy(tree["topics"]["t"])
    members = rng.choice((1, 2, 2, 3)) if fences_by_group(rules) or not safe else 1
    group = _protocols(rng, rules, members)
    if any("group.protocol" in config for config in group):
        tree["cluster"]["config"] |= {
            "group.consumer.min.session.timeout.ms": SESSION_MS,
            "group.consumer.session.timeout.ms": SESSION_MS,
            "group.consumer.min.heartbeat.interval.ms": HEARTBEAT_MS,
            "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
        }
    application = _application(rng, rules, safe)
    is_static = rules.group_rebalance != "eager" and rng.random() < 0.25
    names = [f"x{number + 1}" for number in range(members)]
    for name, config in zip(names, group, strict=True):
        tree["workloads"][name] = _transform(rng, name, application, config, is_static=is_static)
    tree["workloads"]["xr"] = {
        "kind": "consumer",
        "topic": OUTPUT,
        "config": {"auto.offset.reset": "earliest", "isolation.level": "read_committed"},
    }
    may_kill = not (safe and any("power_off" in step for step in tree["timeline"]))
    held = _held(group, application)
    troubles = [_trouble(rng, names, held, number, may_kill=may_kill) for number in range(rng.randint(0, 4))]
    if not safe and rules.group_rebalance != "eager" and rng.random() < 0.4:
        troubles += _operation(rng, names)
    return troubles + [{"at": f"{DEPLOYED_MS + 1000 * number}ms", "restart": name} for number, name in enumerate(names)]


def _operation(rng: random.Random, names: list[str]) -> list[Tree]:
    """Return steps that delete the group, or delete or reset its offsets, mostly while its members are stopped."""
    at_ms = rng.randint(QUORUM_STANDS_MS, CHAOS_ENDS_MS)
    of_topic = {"group": GROUP, "topic": "t"}
    resets = (
        {"to": "earliest"},
        {"to": "latest"},
        {"to": rng.choice((0, 7, 100))},
        {"shift": rng.choice((-10, -1, 5))},
    )
    what = rng.choice((
        {"delete_group": GROUP},
        {"delete_offsets": of_topic},
        {"reset_offsets": of_topic | rng.choice(resets)},
        {"reset_offsets": of_topic | rng.choice(resets)},
    ))  # fmt: skip
    away = [lasting(rng, "stop", name, at_ms=at_ms - 500, label=f"away-{name}") for name in names]
    return [*(away if rng.random() < 0.7 else ()), {"at": f"{at_ms}ms", **what}]


def fences_by_group(rules: Rules) -> bool:
    """Return True if TxnOffsetCommit names the member, so that the group can fence an old member (KIP-447)."""
    return offered_under(rules)[TXN_OFFSET_COMMIT][1] >= FIRST_WITH_GROUP_METADATA


def _protocols(rng: random.Random, rules: Rules, members: int) -> list[dict[str, Any]]:
    """Return the group protocol's configuration for each member. In a migrating group, every other member has the old.

    Args:
        members: number of members.
    """
    eager = {"session.timeout.ms": SESSION_MS, "partition.assignment.strategy": "range"}
    cooperative = eager | {"partition.assignment.strategy": "cooperative-sticky"}
    either = eager | {"partition.assignment.strategy": ["cooperative-sticky", "range"]}
    consumer = {"group.protocol": "consumer"}
    if rng.random() < 0.5:
        consumer["group.remote.assignor"] = rng.choice(("uniform", "range"))
    kinds: list[tuple[dict[str, Any], ...]] = [(eager,)]
    if rules.group_rebalance != "eager":
        kinds += [(cooperative,), (cooperative,), (eager, either)]
    if rules.group_rebalance == "consumer":
        kinds += [(consumer,), (consumer,), (consumer,), (eager, consumer), (cooperative, consumer)]
    kind = rng.choice(kinds)
    return [dict(kind[number % len(kind)]) for number in range(members)]


def _application(rng: random.Random, rules: Rules, safe: bool) -> Tree:
    """Return the workload that all members have in common, as a tree."""
    config: Tree = {
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "request.timeout.ms": rng.choice(REQUEST_MS[1:]),
    }
    found: Tree = {"kind": "transform", "topic": "t", "to": OUTPUT, "batch": rng.choice((1, 3, 5)), "config": config}
    if not safe and rng.random() < 0.25:
        found["offsets"] = rng.choice(("after", "before", "auto"))
        if found["offsets"] == "auto":
            del found["offsets"]
            config |= {"enable.auto.commit": True, "auto.commit.interval.ms": rng.choice((500, 2000))}
        return found
    found["offsets"] = "in-transaction" if safe else rng.choice(("in-transaction",) * 6 + ("before", "after"))
    if not fences_by_group(rules):
        found["group-metadata"] = "id"
    config["transaction.timeout.ms"] = rng.choice((4000, 15_000))
    return found


def _transform(rng: random.Random, name: str, application: Tree, protocol: dict[str, Any], *, is_static: bool) -> Tree:
    """Return the workload of one member. Some members start late."""
    latest_ms = CHAOS_ENDS_MS if rng.random() < 0.3 else 3000
    found = copy.deepcopy(application) | {"start": f"{rng.randint(500, latest_ms)}ms"}
    found["config"] |= protocol
    if "transaction.timeout.ms" in found["config"]:
        found["config"]["transactional.id"] = f"{GROUP}-{name}"
    if is_static:
        found["config"]["group.instance.id"] = name
    return found


def _held(protocols: list[dict[str, Any]], application: Tree) -> tuple[str, ...]:
    """Return the APIs that the group's members use, whose requests a hold can delay."""
    held = ["OffsetFetch"]
    is_transactional = "transaction.timeout.ms" in application["config"]
    held += ["TxnOffsetCommit", "AddOffsetsToTxn"] if is_transactional else ["OffsetCommit"]
    if any("group.protocol" in protocol for protocol in protocols):
        held += HELD_OF_CONSUMER
    if not all("group.protocol" in protocol for protocol in protocols):
        held += HELD_OF_CLASSIC
    return tuple(held)


def _trouble(rng: random.Random, names: list[str], held: tuple[str, ...], number: int, *, may_kill: bool) -> Tree:
    """Return a step with a fault of a member, the coordinator, a rack, or their messages.

    Args:
        names: the members.
        held: APIs that a hold may delay.
        may_kill: False if brokers may only be stopped or paused.
    """
    at_ms = rng.randint(QUORUM_STANDS_MS, CHAOS_ENDS_MS)
    who = rng.choice((*names, *names, COORDINATOR, f"rack({rng.choice(RACKS)})"))
    is_member = who in names
    verb = rng.choice(("kill", "kill", "stop", "pause", "hold", "cut") if is_member or may_kill else ("stop", "pause"))
    payload: Any = who
    if verb == "hold":
        payload = hold_of(rng, who if is_member else "clients", rng.choice(held))
    elif verb == "cut":
        payload = {"between": [who, rng.choice((COORDINATOR, "brokers") if is_member else (names, "clients"))]}
    return lasting(rng, verb, payload, at_ms=at_ms, label=f"transform-{verb}-{number}")
