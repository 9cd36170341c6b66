"""What is wrong with a watched partition, worst first."""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import NamedTuple

from replica.wording import duration, listed
from scenarios.watch.cluster_watch import ClusterWatch
from scenarios.watch.holds import HELD_FROM_US
from scenarios.watch.watched import WatchedPartition, names_of


class Trouble(IntEnum):
    """From the worst on; a partition has the first that fits."""

    OFFLINE = 0
    UNDER_MIN_ISR = 1
    HELD = 2
    UNDER_REPLICATED = 3
    LAGGING = 4
    NONE = 5


TITLES = {
    Trouble.OFFLINE: "without leader",
    Trouble.UNDER_MIN_ISR: "under min ISR",
    Trouble.HELD: "HW held",
    Trouble.UNDER_REPLICATED: "under-replicated",
}


class TroubleOf(NamedTuple):
    """known: the partition. weight: the larger, the worse of its kind. words: the trouble in a few"""

    trouble: Trouble
    weight: int
    words: str
    known: WatchedPartition


def standing_of(watch: ClusterWatch, known: WatchedPartition, now_us: int) -> TroubleOf:
    answer = known.answer
    hold = watch.holds.now.get(known.name)
    held_us = 0 if hold is None else hold.length_us
    if answer.leader < 0:
        return TroubleOf(Trouble.OFFLINE, 0, "no leader", known)
    if known.under_min_isr:
        return TroubleOf(Trouble.UNDER_MIN_ISR, held_us, f"ISR below min {known.min_isr}", known)
    if hold is not None and held_us >= HELD_FROM_US:
        who = listed(names_of(hold.holders)) or "no one seen"
        return TroubleOf(Trouble.HELD, held_us, f"{who} holds HW {duration(held_us)}", known)
    missing = [broker_id for broker_id in answer.replicas if broker_id not in answer.isr]
    if missing:
        words = f"{listed(names_of(missing))} not in ISR"
        return TroubleOf(Trouble.UNDER_REPLICATED, len(missing), words, known)
    lag = max((known.lag_records(broker_id) or 0 for broker_id in answer.replicas), default=0)
    return TroubleOf(Trouble.LAGGING if lag else Trouble.NONE, lag, f"{lag:,} behind" if lag else "", known)


def standings(watch: ClusterWatch, now_us: int, most: int) -> tuple[list[TroubleOf], dict[Trouble, int]]:
    """The worst of all partitions, and how many have which trouble."""
    counts = dict.fromkeys(Trouble, 0)

    def counted() -> list[TroubleOf]:
        found = [standing_of(watch, known, now_us) for known in watch.partitions.values()]
        for one in found:
            counts[one.trouble] += 1
        return found

    worst = heapq.nsmallest(most, counted(), key=lambda one: (one.trouble, -one.weight, one.known.name))
    return worst, counts
