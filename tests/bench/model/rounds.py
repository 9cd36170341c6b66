"""The rounds of the model of `model.trace`: the length of each part of a round, and its leader."""

from __future__ import annotations

import numpy as np

from tests.bench.model.columns import Ints

BROKERS = ("b1", "b2", "b3")
TOPIC = "t"
PARTITIONS = 12
RECORDS_PER_BATCH = 4
NORMAL_TICKS = 200
HELD_TICKS = 2
BATCH_BYTES = 500
MIN_ISR = 2

TICK_US = 10_000
FIRST_ROUND_US = 1_000_000
FENCED_AFTER_US = 9_000_000
GIVEN_UP_AFTER_US = 8_000_000
RESTARTED_AFTER_US = 12_000_000
JOINED_AFTER_US = RESTARTED_AFTER_US + 30_000
NEXT_ROUND_AFTER_US = 13_000_000

STORED_TICKS = 2 + NORMAL_TICKS
"""The unanswered batch, its second copy, and the normal ones."""
TICKS = STORED_TICKS + HELD_TICKS
ROUND_US = TICKS * TICK_US + NEXT_ROUND_AFTER_US
LINGER_STEPS_US = 1_000

# When a batch meets what, after its linger: microseconds since its records were sent. All of it fits into a tick.
APPENDED_US, ACKED_BY_LEADER_US, FETCHED_US, REPLICATED_US, CONFIRMED_US = 1_000, 1_500, 1_600, 2_200, 3_000
ACKED_BY_ALL_US, READ_US, LEARNED_US = 3_500, 3_600, 4_000


def leader_of(number: int) -> int:
    return number % len(BROKERS)


def acks_of(partition: Ints) -> Ints:
    return np.where(partition % 2 == 0, 1, -1)


def linger_us(tick: Ints) -> Ints:
    """Spread over 0 to 999 us, the same in every round: ack latencies get a distribution that is known."""
    return tick * 7_919 % LINGER_STEPS_US


def begin_us(number: int) -> int:
    return FIRST_ROUND_US + number * ROUND_US


def kill_us(number: int) -> int:
    return begin_us(number) + TICKS * TICK_US
