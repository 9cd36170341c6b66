"""Play a student's scenario within bounds, with seeds chosen by the checker and without the file's expectations.

The bounds are numbers of records, steps and events, not times, so that the result is the same on every machine.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scenarios.language.expect import Expect
from scenarios.language.spec import Scenario
from scenarios.language.steps import Step
from scenarios.language.verbs.checks import Check
from scenarios.language.verbs.clients import Produce

if TYPE_CHECKING:
    from scenarios.run.runner import RunResult

BROKERS_MAX = 7
CLIENTS_MAX = 4
PARTITIONS_MAX = 4
RECORDS_MAX = 500
RECORD_BYTES_MAX = 10_000
STEPS_MAX = 20
FIRINGS_MAX = 40
DURATION_MAX_US = 120_000_000
EVENTS_MAX = 60_000
"""Largest number of events in all runs of one check together, to limit the processor time."""
MEMORY_MAX_BYTES = 1 << 30


class TooMuch(Exception):
    """Raised if a scenario exceeds a bound. The message says which."""


class CannotBePlayed(Exception):
    """Raised if a step of a scenario cannot be carried out at its time. The message says why."""


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Let this process grow by at most MEMORY_MAX_BYTES in the block.

    This is the last resort, for a scenario within all other bounds. Without /proc there is no limit.

    Raises:
        MemoryError: if the block needs more memory.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        yield
        return
    wanted = pages * resource.getpagesize() + MEMORY_MAX_BYTES
    within = min(limit for limit in (soft, hard, wanted) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (within, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@dataclass(slots=True)
class Sandbox:
    """A player for the runs of one check, with a limit on the events of all runs together.

    Attributes:
        spent: events of all runs so far.
    """

    spent: int = 0

    def play(self, scenario: Scenario, seed: int) -> RunResult:
        """Play a scenario with a seed, without its expectations and `check` steps.

        Raises:
            TooMuch: if the scenario or its runs exceed the bounds.
            CannotBePlayed: if a step cannot be carried out.
        """
        # Imported here, because handing out exercises does not need the runner.
        from scenarios.run.cluster_under_test import NotPossibleNow
        from scenarios.run.runner import EVENTS_PER_PROGRESS, run_scenario

        judged = replace(
            scenario,
            seed=seed,
            expect=Expect(),
            timeline=tuple(step for step in scenario.timeline if not isinstance(step.payload, Check)),
        )
        refuse_too_much(judged)
        before = self.spent

        def count(now_us: int, until_us: int, events: int) -> None:
            self.spent += EVENTS_PER_PROGRESS
            if self.spent > EVENTS_MAX:
                raise TooMuch(f"the scenario's runs have more than {EVENTS_MAX:,} events")

        try:
            result = run_scenario(judged, runs_dir=None, keep_rows=True, traced=False, progress=count)
        except NotPossibleNow as error:
            raise CannotBePlayed(str(error)) from error
        self.spent = before + int(result.summary["steps"])
        return result


def refuse_too_much(scenario: Scenario) -> None:
    """Refuse a scenario that is too large, before it is played.

    Raises:
        TooMuch: if the scenario exceeds a bound, or sets directories such as `log.dirs`.
    """
    partitions = sum(topic.partitions for topic in scenario.topics.values())
    largest = max((workload.size_bytes for workload in scenario.workloads.values()), default=0)
    counted = (
        (len(scenario.cluster.brokers), BROKERS_MAX, "brokers"),
        (len(scenario.workloads), CLIENTS_MAX, "clients"),
        (partitions, PARTITIONS_MAX, "partitions"),
        (len(scenario.timeline), STEPS_MAX, "steps"),
        (sum(step.times for step in scenario.timeline), FIRINGS_MAX, "firings of steps"),
        (_records(scenario), RECORDS_MAX, "records"),
        (max(largest, _largest_produced(scenario.timeline)), RECORD_BYTES_MAX, "bytes in a record"),
        (scenario.duration_us // 1_000_000, DURATION_MAX_US // 1_000_000, "seconds of duration"),
    )
    for count, most, what in counted:
        if count > most:
            raise TooMuch(f"the scenario has {count:,} {what}; at most {most:,} are allowed")
    configs = [scenario.cluster.config, *(broker.config for broker in scenario.cluster.brokers.values())]
    if any(key in config for config in configs for key in ("log.dirs", "log.dir", "metadata.log.dir")):
        raise TooMuch("the scenario sets log.dirs, log.dir or metadata.log.dir, which exercises do not allow")


def _records(scenario: Scenario) -> int:
    count = sum(step.payload.count * step.times for step in scenario.timeline if isinstance(step.payload, Produce))
    for workload in scenario.producers:
        if workload.arrival is not None:
            until_us = min(scenario.duration_us, workload.stop_us or scenario.duration_us)
            count += max(0, until_us - workload.start_us) * workload.arrival.count // workload.arrival.period_us
    return count


def _largest_produced(timeline: Sequence[Step]) -> int:
    sizes = (step.payload.size_bytes for step in timeline if isinstance(step.payload, Produce))
    return max((size for size in sizes if size is not None), default=0)
