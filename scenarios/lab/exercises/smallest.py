"""Exercise 6: find the smallest configuration that survives the given faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scenarios.lab.exercise import Criterion, Draw, ScenarioExercise, all_told_and_kept, first_partition, waited_us
from scenarios.lab.hand_in import HandIn
from scenarios.lab.sandbox import Sandbox
from scenarios.language.spec import Scenario

if TYPE_CHECKING:
    from scenarios.run.runner import RunResult

WAIT_MAX_US = 33_000_000
"""Longest wait for an ack that an answer may have. Right answers wait up to 29 s, and wrong answers at least 35 s."""

_STORIES = {
    "one": '  - {at: 10050ms, power_off: "leader(TOPIC-0)", as: first}\n  - {at: 45s, start: "@first"}\n',
    "two": '  - {at: 10050ms, power_off: "leader(TOPIC-0)", as: first}\n'
    '  - {at: 32050ms, power_off: "leader(TOPIC-0)", as: second}\n'
    '  - {at: 75s, start: "@first"}\n  - {at: 76s, start: "@second"}\n',
    "alone": '  - {at: 10050ms, cut: {between: ["leader(TOPIC-0)", "followers(TOPIC-0)"]}, as: alone}\n'
    '  - {at: 22050ms, power_off: "leader(TOPIC-0)", as: first}\n'
    '  - {at: 23s, heal: alone}\n  - {at: 50s, start: "@first"}\n',
}
"""The timelines of faults. Each student gets one: one leader fails, two fail, or a leader is cut off and fails."""


class Smallest(ScenarioExercise):
    """The exercise to find the smallest configuration under which no record is lost.

    Configurations are compared by replicas, then by min.insync.replicas, then by acks, where 1 is smaller than all.
    """

    name = "smallest"
    place = 6
    title = "Find the smallest configuration that survives"
    minutes = 5
    may_change = (
        "topics.TOPIC.replication_factor",
        "topics.TOPIC.config.min.insync.replicas",
        "workloads.p1.config.acks",
    )

    def values(self, draw: Draw) -> Mapping[str, object]:
        return {"faults": _STORIES[draw.one_of(tuple(_STORIES), "story")].replace("TOPIC", draw.topic()).rstrip()}

    def judge_scenario(self, hand_in: HandIn, scenario: Scenario, changed: Sequence[str]) -> Iterator[Criterion]:
        sandbox, seeds = Sandbox(), self.seeds(hand_in.student)
        results = [sandbox.play(scenario, seed) for seed in seeds]
        kept = all(all_told_and_kept(result) for result in results)
        yield Criterion(
            "kept", kept, "every record is acked and kept, with every seed", "run the scenario and read its verdict"
        )
        soon = all(_waits_briefly(result) for result in results)
        yield Criterion(
            "soon",
            soon,
            f"records never wait longer than {WAIT_MAX_US // 1_000_000} s for an ack",
            "ask which broker is missing, and for how long",
        )
        if kept and soon:
            found = any(_survives(sandbox.play(smaller, seeds[0])) for smaller in smaller_ones(scenario))
            yield Criterion(
                "smallest", not found, "no smaller configuration survives", "a smaller configuration survives, too"
            )


def _waits_briefly(result: RunResult) -> bool:
    return waited_us(result, first_partition(result.scenario)) <= WAIT_MAX_US


def _survives(result: RunResult) -> bool:
    return all_told_and_kept(result) and _waits_briefly(result)


def smaller_ones(scenario: Scenario) -> Iterator[Scenario]:
    """Yield smaller configurations, beginning with those that are most likely to keep all records.

    The first has acks=1 and is otherwise the same. The others have acks=all, and fewer replicas or a lower
    min.insync.replicas.
    """
    (name,) = scenario.topics
    topic, minimum = scenario.topics[name], scenario.topic_config(name).min_insync_replicas
    producer = scenario.workloads["p1"]
    if producer.producer_config().required_acks != 1:
        yield _with(scenario, topic.replication_factor, minimum, "1")
    shapes = [(count, least) for count in range(topic.replication_factor, 0, -1) for least in range(count, 0, -1)]
    for count, least in shapes:
        if (count, least) < (topic.replication_factor, minimum):
            yield _with(scenario, count, least, "all")


def _with(scenario: Scenario, replicas: int, minimum: int, acks: str) -> Scenario:
    (name,) = scenario.topics
    topic, producer = scenario.topics[name], scenario.workloads["p1"]
    config = {**topic.config, "min.insync.replicas": str(minimum)}
    return replace(
        scenario,
        topics={name: replace(topic, replication_factor=replicas, config=config)},
        workloads={"p1": replace(producer, config={**producer.config, "acks": acks})},
    )
