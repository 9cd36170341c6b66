"""A live cluster in a thread of the test's own process, so that the test can kill a broker at the moment it wants."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio
from kept_objects import Kept, kept_by, objects_of

from cluster.broker.replicas.fetch_sessions import FetchSessionCache
from cluster.clocks import Timer
from cluster.live.fabric import TcpFabric
from cluster.live.request_memory import RequestMemory
from cluster.live.tcp_connection import TcpConnection
from cluster.live.time import LiveTime
from replica.ids import TopicPartition
from replica.trace.events import TraceEvent
from scenarios.language.spec import Scenario
from scenarios.run.runner import RunResult, ScenarioRun, run_scenario
from scenarios.run.worlds import live
from scenarios.serve.serving import FOREVER_US, TopicWish, cluster_of

READY_S, END_S = 30, 60
SMALL_COORDINATORS = (
    "cluster.config.transaction.state.log.num.partitions=4",
    "cluster.config.offsets.topic.num.partitions=4",
    "cluster.config.group.initial.rebalance.delay.ms=200",
)
"""Few internal partitions, so that coordinators are there soon."""


class LiveCluster:
    """bootstrap: where its brokers are     result: of the run, once it is over"""

    def __init__(self, record: Path, topics: list[str], brokers: int, settings: list[str], profile: str | None) -> None:
        wishes = [TopicWish.parse(topic, brokers) for topic in topics]
        scenario = replace(cluster_of(brokers, wishes, profile, settings).scenario, duration_us=FOREVER_US)
        self.bootstrap = ""
        self.result: RunResult
        self._run: ScenarioRun
        self._token: trio.lowlevel.TrioToken
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._play, args=(scenario, record), daemon=True)
        self._thread.start()
        assert self._ready.wait(READY_S) and self._error is None, self._error

    def _play(self, scenario: Scenario, record: Path) -> None:
        try:
            self.result = run_scenario(
                scenario, runs_dir=record, world=live, keep_rows=True, companions=[self._take_hold]
            )
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _take_hold(self, run: ScenarioRun) -> None:
        self._run, self._token = run, trio.lowlevel.current_trio_token()
        await run.is_ready.wait()
        self.bootstrap = ",".join(f"{host}:{port}" for host, port in run.cluster.bootstrap)
        self._ready.set()

    def _call(self, function: Callable[..., Any], *args: object) -> Any:
        """Between two steps of the cluster."""

        async def call() -> Any:
            done = function(*args)
            return await done if hasattr(done, "__await__") else done

        return trio.from_thread.run(call, trio_token=self._token)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._call(self._run.cluster.kill, name)

    def start(self, name: str) -> None:
        self._call(self._run.cluster.start, name)

    def pause(self, name: str) -> None:
        self._call(self._run.cluster.fabric.hosts[name].pause)

    def resume(self, name: str) -> None:
        self._call(self._run.cluster.fabric.hosts[name].resume)

    @property
    def request_memory(self) -> RequestMemory:
        fabric = self._run.cluster.fabric
        assert isinstance(fabric, TcpFabric)
        return fabric.request_memory

    def leader(self, topic: str, partition: int) -> str:
        leader: str = self._call(self._run.view.leader, TopicPartition(topic, partition))
        return leader

    def address(self, name: str) -> tuple[str, int]:
        place = list(self._run.scenario.cluster.brokers).index(name)
        host, port = self.bootstrap.split(",")[place].split(":")
        return host, int(port)

    def coordinator(self, group_id: str) -> str | None:
        """Of the group, by the selector that a scenario would use."""
        coordinator: str | None = self._call(self._run.view.coordinator, group_id)
        return coordinator

    def kept(self) -> Kept:
        """Objects of its nodes, of those who observe it, and of the run, which its clock knows; without the trace,
        which `events` has, too; and without fetch sessions, of which a broker keeps 1,000 whose client is gone
        (FetchSessionCache), as Kafka's does."""
        run = self._run
        observers = [run.view, run.mirror, run.ledger, run.story, run.invariants, run.expectations, run.unread]
        elsewhere = (TcpConnection, trio.lowlevel.Task, trio.Nursery, trio.CancelScope, FetchSessionCache)

        def count() -> Kept:
            nodes = [run.cluster.brokers(), run.cluster.controllers()]
            world = [run.cluster.fabric, run.cluster, run.trace, run.writer, run.rows, *objects_of(elsewhere)]
            return kept_by([observers, nodes], world)

        found: Kept = self._call(count)
        return found

    def waiting(self) -> Counter[str]:
        """What waits for its time, cancelled deadlines of its nodes included; its connections, and trio's tasks."""

        def count() -> Counter[str]:
            time = self._run.cluster.time
            assert isinstance(time, LiveTime)
            kinds = (Timer, TcpConnection, trio.lowlevel.Task)
            return Counter(callbacks=len(time._queue)) + Counter(type(one).__name__ for one in objects_of(kinds))

        found: Counter[str] = self._call(count)
        return found

    def events(self, kind: type[TraceEvent]) -> list[Any]:
        return [row.event for row in list(self._run.rows) if type(row.event) is kind]

    def stop(self) -> None:
        def stop() -> None:
            assert isinstance(self._run.cluster.time, LiveTime)
            self._run.cluster.time.stop()
            self._run.ended_early()

        if self._thread.is_alive():
            self._call(stop)
            self._thread.join(END_S)
        assert self._error is None, self._error


@contextmanager
def live_cluster(
    record: Path, *topics: str, brokers: int = 3, settings: tuple[str, ...] = (), profile: str | None = None
) -> Iterator[LiveCluster]:
    """settings: PATH=VALUE, as `highwater serve --set` takes them"""
    cluster = LiveCluster(record, list(topics), brokers, list(settings), profile)
    try:
        yield cluster
    finally:
        cluster.stop()
