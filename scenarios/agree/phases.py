"""Where in their period a run's brokers looked for followers that lag, so that a simulated twin looks then, too.

Kafka's ReplicaManager checks the ISR every half of `replica.lag.time.max.ms`, from its own start on: a JVM that took
4 s to start looks at 4, 19, 34 s, where a simulated broker looks at 15, 30, 45 s. Which of two things comes first can
hang on that, and no rule decides it.

source: ReplicaManager.startup, scheduler.schedule("isr-expiration", ..., replicaLagTimeMaxMs / 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.language.spec import Scenario

ON_ITS_WAY_US = 20_000
"""From a check to the moment at which its shrink is seen to be committed, about."""


def phases_of(rows: Iterable[TraceRow], scenario: Scenario) -> dict[str, int]:
    """Of each broker whose first life has shrunk an ISR by itself: what its first shrink says."""
    found: dict[str, int] = {}
    lives: dict[str, int] = {}
    for row in rows:
        event = row.event
        if isinstance(event, trace.NodeStarted):
            lives[event.node] = lives.get(event.node, 0) + 1
        elif isinstance(event, trace.IsrCommitted) and len(event.isr) < len(event.previous_isr):
            leader = event.proposed_by or ""
            if leader in scenario.cluster.brokers and leader not in found and lives.get(leader, 1) == 1:
                period_us = scenario.cluster.broker_config(leader).replica_lag_time_max_ms * 1000 // 2
                found[leader] = max(0, row.at_us - ON_ITS_WAY_US) % period_us
    return found


def in_phase(scenario: Scenario, phases: dict[str, int]) -> Scenario:
    """The same scenario, whose brokers' first lives look when these did; brokers of unknown phase as the file says."""
    known = scenario.cluster.phases if isinstance(scenario.cluster.phases, dict) else {}
    return replace(scenario, cluster=replace(scenario.cluster, phases={**known, **phases})) if phases else scenario
