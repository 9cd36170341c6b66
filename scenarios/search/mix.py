"""The mix of a batch: the cluster, clients and faults that the schedules of the batch have in common.

Schedules that choose from everything resemble each other: each has a little of every fault. A batch that lacks most
faults has more of the others, and reaches combinations that other faults would prevent (swarm testing, Groce et al.
2012).
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
    """The common choices of a batch.

    Attributes:
        acks: values to choose from, unless the schedule is safe.
        faults: verbs to choose from, as far as the schedule may have them.
        bursts: whether faults are close together, around a few instants.
        links: whether the network fails between two brokers at a time.
        elections: whether leaders follow each other while single links hold their messages.
        transactions: whether producers use transactions, if the era has them, and consumers read committed records.
            Some schedules then have transforms, too.
        operations: whether operators change replicas, settings, topics and quotas during the run.
        errors: whether brokers answer some requests with an error or late.
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
    errors: bool


def mix_of(seed: int, profile: str, *, safe: bool) -> Mix:
    """Return the mix of a seed, which is the same for all seeds of a batch."""
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
        errors=rng.random() < 0.3,
    )
