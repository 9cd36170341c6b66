"""Faults aimed at a turn of a run: they begin shortly before or after it, and hit the brokers it was about."""

from __future__ import annotations

import random
from typing import Any

from scenarios.search.coverage import Turn
from scenarios.search.times import GAPS_MS, LASTING_MS

Tree = dict[str, Any]

_STRIKES_MAX = 3


def strikes(rng: random.Random, turn: Turn, tree: Tree, *, safe: bool) -> list[Tree]:
    """One to three timeline steps; none where the turn was about no broker or no partition of the topic.

    Labels are `strike-...`; a broker is killed only where `safe` does not promise that none is.
    """
    brokers = list(tree["cluster"]["brokers"])
    about = [node for node in turn.nodes if node in brokers]
    if not about or not turn.partition.startswith("t-"):
        return []
    return [_strike(rng, turn, about, brokers, number, safe) for number in range(rng.randint(1, _STRIKES_MAX))]


def _strike(rng: random.Random, turn: Turn, about: list[str], brokers: list[str], number: int, safe: bool) -> Tree:
    one = rng.choice(about)
    other = rng.choice([node for node in (about if len(about) > 1 else brokers) if node != one])
    verbs = ["hold", "hold", "latency", "cut", "slow_disk", "pause", "elect", "elect", *([] if safe else ["kill"])]
    verb = rng.choice(verbs)
    payloads: dict[str, Any] = {
        "hold": {"from": one, "to": other, "api": "Fetch", "part": rng.choice(("request", "response"))},
        "latency": {"between": [one, other], "add": rng.choice(("50ms", "400ms"))},
        "cut": {"between": [one, other], "direction": rng.choice(("both", "to", "from"))},
        "slow_disk": {"brokers": one, "append": rng.choice(("50ms", "400ms", "2s"))},
        "pause": one,
        "kill": one,
        "elect": {"partition": turn.partition, "broker": rng.choice((one, *brokers)), "unclean": False},
    }
    by_ms = rng.choice((0, *GAPS_MS[:5])) * rng.choice((-1, 1))
    step: Tree = {"at": f"{turn.at_ms + by_ms}ms", verb: payloads[verb]}
    if verb != "elect":
        step |= {"as": f"strike-{number}", "for": f"{rng.choice(LASTING_MS)}ms"}
    return step
