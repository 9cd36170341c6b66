"""Topics come and go, and nothing is kept of them, by nodes or by those who observe a run. Objects are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
from kept_objects import Kept, kept_by, objects_of

from cluster.broker.replicas.fetch_sessions import FetchSessionCache
from cluster.network.fabric import SimulatedConnection
from controller.inputs import ControllerInput, CreateTopic, DeleteTopic
from scenarios.observe.availability import REPLICAS_MIN
from scenarios.run.controller_calls import ControllerCalls
from scenarios.run.runner import ScenarioRun
from scenarios.run.worlds import simulated
from scenarios.serve.serving import TopicWish, cluster_of

ROUND_US, LIFE_US, DELAY_MS = 1_000_000, 500_000, 1000
PARTITIONS, REPLICAS = 2, 3
WARM, ROUNDS = 30, 150
DROPPED_EVERY = REPLICAS_MIN // (PARTITIONS * REPLICAS) + 1
"""Rounds after which observers drop what they keep."""
KEPT_FOR_EACH = 7
"""Objects: its name, and the line that says that it was deleted, with its time, its words and its partitions."""


class ComingAndGoing(ScenarioRun):
    """A topic is made each second, and deleted half a second later."""

    def begin(self) -> None:
        super().begin()
        self.counted: list[Kept] = []
        self.cluster.time.at(10_000_000, partial(self._create, 0))

    def _create(self, number: int) -> None:
        if number in (WARM, ROUNDS):
            self.counted.append(self._kept())
        if number < ROUNDS:
            self._ask(
                lambda now_us: CreateTopic(
                    now_us=now_us, name=f"topic-{number}", assignment=None, partitions=PARTITIONS,
                    replication_factor=REPLICAS, config={},
                )
            )  # fmt: skip
            self._later(LIFE_US, partial(self._delete, number))

    def _delete(self, number: int) -> None:
        self._ask(lambda now_us: DeleteTopic(now_us=now_us, name=f"topic-{number}"))
        self._later(ROUND_US - LIFE_US, partial(self._create, number + 1))

    def _ask(self, given: Callable[[int], ControllerInput]) -> None:
        ControllerCalls(self.cluster).operate(given, lambda reply: None)

    def _later(self, after_us: int, then: Callable[[], None]) -> None:
        self.cluster.time.at(self.cluster.time.now_us + after_us, then)

    def _kept(self) -> Kept:
        """Without fetch sessions: a broker keeps 1,000 whose fetcher is gone (FetchSessionCache), as Kafka's does."""
        brokers, controllers = self.cluster.brokers(), self.cluster.controllers()
        observers = [self.view, self.mirror, self.ledger, self.story, self.invariants, self.expectations, self.unread]
        elsewhere = (SimulatedConnection, trio.lowlevel.Task, trio.Nursery, trio.CancelScope, FetchSessionCache)
        world = [self.cluster.fabric, self.cluster, self.trace]
        return kept_by([observers, brokers, controllers], [*world, *objects_of(elsewhere)])


@pytest.mark.soak
def test_nothing_is_kept_of_topics_that_are_gone(tmp_path: Path) -> None:
    scenario = cluster_of(
        3, [TopicWish("stays", 1, 3)], None, [f"cluster.config.log.segment.delete.delay.ms={DELAY_MS}"]
    ).scenario
    run = ComingAndGoing(replace(scenario, duration_us=15_000_000 + ROUNDS * ROUND_US), simulated, tmp_path)
    run.execute()
    assert len(run.view.deleted_topics) == ROUNDS
    assert run.invariants.violations == []
    early, late = run.counted
    grown = late - early
    of_one_round = PARTITIONS * REPLICAS * 20
    assert grown.total() < (ROUNDS - WARM) * KEPT_FOR_EACH + DROPPED_EVERY * of_one_round, grown.most_common(20)
