"""The clock of a run on real Kafka: it begins when the cluster is up."""

from __future__ import annotations

import trio

from cluster.kafka.time import KafkaTime
from replica.trace.events import TraceLog


def test_clocks_of_machines_are_right_before_the_run_and_in_it() -> None:
    """A record that is stamped in the run must not look as old as the warm-up is long: retention would take it."""
    asked: list[int] = []
    right: list[bool] = []

    def may_begin() -> bool:
        asked.append(kafka_time.now_us)
        right.append(clock.at(kafka_time.now_us) == kafka_time.epoch_us + kafka_time.now_us)
        return len(asked) > 3

    async def work() -> None:
        raise AssertionError("nothing asks for work")

    kafka_time = KafkaTime(TraceLog(), may_begin)
    clock = kafka_time.wall_clock()
    before_us = kafka_time.epoch_us
    trio.run(kafka_time.drive, 0, lambda: False, work)
    assert kafka_time.has_begun and kafka_time.epoch_us != before_us
    assert clock.at(kafka_time.now_us) == kafka_time.epoch_us + kafka_time.now_us
    assert len(right) > 3 and all(right)
