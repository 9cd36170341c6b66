"""The mix of a batch of seeds: the cluster, clients and kinds of faults that its schedules share.

Schedules that choose among all faults resemble each other, because each has a little of everything. A batch with few
kinds of faults has more of each, and reaches states that other faults would prevent (swarm testing, Groce et al. 2012).
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
    """The choices that all schedules of a batch share.

    Attributes:
        acks: values of `acks` to choose from. A safe schedule has acks=all.
        faults: verbs to choose from. A schedule may exclude some of them.
        bursts: True if faults are close together, around a few instants.
        links: True if network faults affect two brokers at a time.
        elections: True if leaders are elected in quick succession while single links hold messages.
        transactions: True if producers use transactions, and consumers may read committed records only. Some schedules
            then have transforms, too.
        operations: True if operators change replicas, settings, topics and quotas during the run.
        errors: True if brokers answer some requests with an error or late.
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
    """Return the mix of the batch of BATCH_SEEDS seeds to which a seed belongs."""
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
