"""Faults that the clients of random schedules bring along: how long one lasts, and what a hold holds."""

from __future__ import annotations

import random
from typing import Any

from scenarios.search.times import LASTING_MS


def lasting(rng: random.Random, verb: str, payload: Any, *, at_ms: int, label: str) -> dict[str, Any]:
    """A step of the timeline that ends by itself. label: by which later steps speak of it"""
    return {"at": f"{at_ms}ms", verb: payload, "as": label, "for": f"{rng.choice(LASTING_MS[1:])}ms"}


def hold_of(rng: random.Random, sender: str, api: str) -> dict[str, Any]:
    """Of what `sender` says to the brokers by one API: the request, its answer, or, in half of the cases, both."""
    hold = {"from": sender, "to": "brokers", "api": api}
    if rng.random() < 0.5:
        hold["part"] = rng.choice(("request", "response"))
    return hold
