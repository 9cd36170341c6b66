"""Consume-transform-produce in random schedules: members of a group that write one record for each they read, with the
offsets in the transaction, a reader of what is committed, and faults of their own.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from replica.ids import OFFSETS_TOPIC
from replica.rules import Rules
from scenarios.search.times import CHAOS_ENDS_MS, LASTING_MS, QUORUM_STANDS_MS

OUTPUT = "out"
GROUP = "transforms"
COORDINATOR = f"leader({OFFSETS_TOPIC}-0)"
HELD = ("TxnOffsetCommit", "AddOffsetsToTxn", "Heartbeat", "OffsetFetch")
_SINCE_KIP_447 = ("verified", "v2")
"""Before, a member is not fenced by its group, so two of them may do the same work once each (KIP-447)."""


def add_transforms(tree: dict[str, Any], rules: Rules, *, safe: bool) -> list[dict[str, Any]]:
    """To some schedules, from a stream of its own. returns: steps for the timeline

    A safe one promises that each input has its effect once, whichever member dies.
    """
    rng = random.Random(f"{tree['seed']}/transforms")
    if rng.random() >= 0.4:
        return []
    config = tree["cluster"]["config"]
    config["offsets.topic.num.partitions"] = 1
    config["min.insync.replicas"] = 2 if safe else rng.choice((1, 2))
    tree["topics"][OUTPUT] = copy.deepcopy(tree["topics"]["t"])
    names = ["x1", "x2"] if rules.transactions in _SINCE_KIP_447 and rng.random() < 0.4 else ["x1"]
    order = "in-transaction" if safe else rng.choice(("in-transaction",) * 6 + ("before", "after"))
    for name in names:
        tree["workloads"][name] = _transform(rng, name, order)
    tree["workloads"]["xr"] = {
        "kind": "consumer",
        "topic": OUTPUT,
        "config": {"auto.offset.reset": "earliest", "isolation.level": "read_committed"},
    }
    return [_trouble(rng, names, number) for number in range(rng.randint(0, 3))]


def _transform(rng: random.Random, name: str, order: str) -> dict[str, Any]:
    return {
        "kind": "transform",
        "topic": "t",
        "to": OUTPUT,
        "batch": rng.choice((1, 3, 5)),
        "offsets": order,
        "start": f"{rng.randint(500, 3000)}ms",
        "config": {
            "group.id": GROUP,
            "transactional.id": f"{GROUP}-{name}",
            "transaction.timeout.ms": rng.choice((4000, 15_000)),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
        },
    }


def _trouble(rng: random.Random, names: list[str], number: int) -> dict[str, Any]:
    verb = rng.choice(("kill", "kill", "stop", "pause", "hold", "cut"))
    payload: Any = rng.choice(names)
    if verb == "hold":
        payload = {"from": "clients", "to": "brokers", "api": rng.choice(HELD)}
        if rng.random() < 0.5:
            payload["part"] = rng.choice(("request", "response"))
    elif verb == "cut":
        payload = {"between": [payload, rng.choice((COORDINATOR, "brokers"))]}
    return {
        "at": f"{rng.randint(QUORUM_STANDS_MS, CHAOS_ENDS_MS)}ms",
        verb: payload,
        "as": f"transform-{verb}-{number}",
        "for": f"{rng.choice(LASTING_MS[1:])}ms",
    }
