"""Faults that the clients of random schedules bring along, and when in a schedule what happens."""

from __future__ import annotations

import random
from typing import Any


def lasting(rng: random.Random, verb: str, payload: Any, *, at_ms: int, label: str) -> dict[str, Any]:
    """A step of the timeline that ends by itself. label: by which later steps speak of it"""
    return {"at": f"{at_ms}ms", verb: payload, "as": label, "for": f"{rng.choice(LASTING_MS[1:])}ms"}


def hold_of(rng: random.Random, sender: str, api: str) -> dict[str, Any]:
    """Of what `sender` says to the brokers by one API: the request, its answer, or, in half of the cases, both."""
    hold = {"from": sender, "to": "brokers", "api": api}
    if rng.random() < 0.5:
        hold["part"] = rng.choice(("request", "response"))
    return hold


# ---------------------------------------------------------------------------------------------------------------- times
#
# When the phases of a random schedule begin, and how long what is in it lasts.
#
# A schedule is short: what one tests is how faults meet, and a cluster that runs undisturbed costs as much to simulate
# as one that does not. Sessions, lag times and faults are three times shorter than in Kafka's defaults, all of them, so
# that they stand to each other as there.

CHAOS_BEGINS_MS = 1_000
QUORUM_STANDS_MS = 6_000
CHAOS_ENDS_MS = 14_000
SENDING_ENDS_MS = 16_000
HEALED_MS = 18_000
TROUBLES_MS = (QUORUM_STANDS_MS + 500, CHAOS_ENDS_MS - 3000)
"""When a trouble of era_troubles.py, or a row of elections, may begin."""
STARTS_MS = (HEALED_MS, HEALED_MS + 3000, HEALED_MS + 12_000)
"""A node that is still shutting down refuses to start; a controlled shutdown may take two retries of 5 s."""
DURATION_MS = 108_000
"""The minute that liveness.py waits, and the longest session and lag time, fit in twice after the last start."""

GAPS_MS = (1, 15, 60, 200, 700, 2500)
"""From an instant, or a step, to the steps around it."""
LASTING_MS = (50, 300, 1000, 2500, 5000)
SESSIONS_MS = ((3000, 1000), (1500, 500))
"""broker.session.timeout.ms and broker.heartbeat.interval.ms"""
LAG_MS = (1500, 2500, 4000)
"""replica.lag.time.max.ms"""
FETCH_WAITS_MS = (500, 1000)
"""replica.fetch.wait.max.ms; shorter than any lag time. Followers of an idle leader ask so often."""
REQUEST_MS = (1000, 2500, 10_000)
"""request.timeout.ms of producers"""
DELIVERY_MS = (1500, 7000)
"""delivery.timeout.ms of a producer that may give up"""
