"""The mix of a swarm: which cluster, clients and faults the schedules of one batch have in common.

Schedules that draw from everything resemble each other: each has a little of every fault. A batch that lacks most of
them repeats the others, and meets combinations that all together would disturb (swarm testing, Groce et al. 2012).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from replica.rules import PROFILES

FAULTS = (
    "kill", "stop", "restart", "pause", "cut", "partition", "latency", "loss", "bandwidth", "hold", "reset_peer",
    "elect", "flush", "slow_disk", "fill_disk", "bump_clock", "reassign", "power_off", "seek", "set_config",
)  # fmt: skip
BATCH_SEEDS = 16


@dataclass(frozen=True, slots=True)
class Mix:
    """faults: verbs to draw from, as far as the schedule may have them     acks: to draw from, unless it is safe

    bursts: faults come close together, around a few instants     links: the network fails between two brokers at a time
    elections: leaders follow each other while single links hold what they say
    transactions: producers have them, in an era that knows them, and consumers read what is committed; some schedules
        have transforms, too
    operations: operators change replicas, settings, topics and quotas meanwhile
    """

    brokers: int
    replication_factor: int
    min_isr: int
    partitions: int
    producers: int
    consumers: int
    acks: tuple[str, ...]
    faults: tuple[str, ...]
    bursts: bool
    links: bool
    elections: bool
    transactions: bool
    operations: bool


def mix_of(seed: int, profile: str, *, safe: bool) -> Mix:
    """The same for all seeds of a batch."""
    rng = random.Random(f"{profile}/{'safe' if safe else 'any'}/batch {seed // BATCH_SEEDS}")
    brokers = rng.choice((3, 3, 3, 4, 4, 5, 6, 7))
    replication_factor = rng.randint(2, min(brokers, 5))
    share = rng.choice((0.25, 0.5, 0.75))
    return Mix(
        brokers=brokers,
        replication_factor=replication_factor,
        min_isr=rng.randint(2 if safe else 1, replication_factor),
        partitions=rng.randint(1, 3),
        producers=rng.randint(1, 3),
        consumers=rng.randint(0, 2),
        acks=rng.choice((("all",), ("all",), ("1",), ("1", "all"), ("0", "1", "all"))),
        faults=tuple(fault for fault in FAULTS if rng.random() < share),
        bursts=rng.random() < 0.5,
        links=rng.random() < 0.4,
        elections=rng.random() < 0.3,
        transactions=rng.random() < 0.4 and PROFILES[profile].transactions != "none",
        operations=rng.random() < 0.6,
    )
