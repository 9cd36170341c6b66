"""Records a watch in a run folder with trace, summary and lock file, which every command can read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from cluster.kafka.observe.observed import WIRE
from replica.rules import PROFILES
from replica.trace.events import TraceLog
from replica.trace.listening import Listener
from scenarios.check.summary import Counters, build_summary
from scenarios.check.verdict import judge
from scenarios.language.expect import Expect
from scenarios.language.spec import BrokerSpec, ClusterSpec, Scenario, TopicSpec
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.trace_writer import TraceWriter, digests_of
from scenarios.process.work_folders import next_run_dir, work_folder
from scenarios.run.runner import keep_run
from scenarios.watch.cluster_watch import ClusterWatch
from scenarios.watch.statements import CONTROLLER
from scenarios.watch.watched import broker_name, names_of

RUN_NAME = "watch"


def scenario_of(watch: ClusterWatch, how: str, profile: str, duration_us: int) -> Scenario:
    """Return the watched cluster as a scenario without steps. `how` describes the watch in the field `question`."""
    brokers = {broker_name(broker_id): _broker(watch, broker_id) for broker_id in sorted(watch.brokers)}
    assigned: dict[str, dict[int, tuple[str, ...]]] = {}
    for name, known in watch.partitions.items():
        assigned.setdefault(name.topic, {})[name.partition] = names_of(known.answer.replicas)
        for replica in names_of(known.answer.replicas):
            brokers.setdefault(replica, BrokerSpec(name=replica))
    return Scenario(
        id=RUN_NAME,
        title=watch.title,
        question=how,
        seed=0,
        duration_us=duration_us,
        profile=profile,
        rules=PROFILES[profile],
        cluster=ClusterSpec(controllers=(CONTROLLER,), brokers=brokers),
        topics={topic: _topic(watch, topic, numbers) for topic, numbers in assigned.items()},
        workloads={},
        timeline=(),
        expect=Expect(),
    )


def _broker(watch: ClusterWatch, broker_id: int) -> BrokerSpec:
    address = watch.brokers[broker_id].address
    return BrokerSpec(name=broker_name(broker_id), rack=None if address is None else address.rack)


def _topic(watch: ClusterWatch, topic: str, numbers: dict[int, tuple[str, ...]]) -> TopicSpec:
    min_isr = watch.min_isr_of(topic)
    return TopicSpec(
        name=topic,
        partitions=len(numbers),
        assignment=tuple(numbers[number] for number in sorted(numbers)),
        replication_factor=max(map(len, numbers.values()), default=1),
        config={} if min_isr is None else {"min.insync.replicas": str(min_isr)},
    )


class Recording:
    """The writer of a watch's trace. Raises OSError if the folder cannot be written.

    Use it as a context manager, which removes the folder at the end unless `keep` was called.

    Args:
        listeners: further listeners of the trace.
    """

    def __init__(self, runs_dir: Path, listeners: Sequence[Listener] = ()) -> None:
        self._runs_dir = runs_dir
        self._stack = ExitStack()
        self._started = time.perf_counter()
        self._work_dir = self._stack.enter_context(work_folder(runs_dir))
        self._ledger = RecordLedger(LogMirror().deleted)
        self.writer = TraceWriter(self._work_dir / "trace", observed_by=lambda: WIRE)
        self.log = TraceLog([self._ledger, self.writer, *listeners])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def keep(self, watch: ClusterWatch, how: str, profile: str, now_us: int, outcome: dict[str, Any]) -> Path:
        """Complete the trace, write the summary, and give the folder its final name. Return the path.

        Args:
            how: see `scenario_of`.
            outcome: content of `watched` in summary.json.
        """
        self.writer.close()
        self._ledger.close()
        scenario = scenario_of(watch, how, profile, now_us)
        with next_run_dir(self._runs_dir, RUN_NAME) as run_dir:
            summary = build_summary(
                scenario,
                self._ledger,
                {},
                (),
                judge(self._ledger, ()),
                [],
                Counters(
                    events=self.log.next_seq,
                    steps=0,
                    bytes={},
                    digests=digests_of(self.writer.trace_dir),
                    run_dir=run_dir,
                    wall_s=time.perf_counter() - self._started,
                    live=True,
                ),
            )
            keep_run(scenario, self._work_dir, run_dir, {**summary, "watched": outcome}, keep_logs=True)
        return run_dir
