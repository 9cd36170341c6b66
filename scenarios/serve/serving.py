"""Runs a live cluster that any Kafka client can use. `highwater serve` only adds the command line."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import trio
import yaml

from cluster.network.world import Fabric
from cluster.security import ListenerSecurity
from replica.rules import DEFAULT_PROFILE
from replica.trace.events import TraceLog
from replica.wording import duration
from scenarios.language.expect import Expect
from scenarios.language.parse.cluster import why_no_topic
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario, ScenarioFile
from scenarios.language.steps import At, Step
from scenarios.observe.view import ClusterView
from scenarios.observe.wording import count_of
from scenarios.process.own_python import collect_in_short_pauses
from scenarios.run.followed_trace import cut_parts_while_followed
from scenarios.run.runner import Listener, RunResult, ScenarioRun, keep_unjudged, run_scenario
from scenarios.run.worlds import live, processes
from scenarios.serve.access import AUTHORITY
from scenarios.serve.topic_news import TopicNews
from scenarios.serve.trace_watches import PAUSE_S, DeletionWatch, JudgingProgress, LineWriter, LossWatch, SayLine
from scenarios.terminal.progress import ProgressLine
from scenarios.view.live_tape import LiveTape

if TYPE_CHECKING:
    from cluster.live.fabric import TcpFabric
    from cluster.live.time import LiveTime
    from scenarios.metrics.exposition import MetricsServer
    from scenarios.metrics.live import LiveMetrics
    from scenarios.serve.page_server import Door

PARENT_S = 0.2
"""Seconds between checks that the parent process is still alive."""
FOREVER_US = 365 * 86_400 * 1_000_000

STOP_SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
STOPPING = "stopping the cluster and judging the run (Ctrl-C again skips the verdict)"
OVER = "the time of --for is over; judging the run (Ctrl-C skips the verdict)"
GIVEN_UP = "no verdict. The trace until the cluster stopped and the brokers' logs are kept in"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TopicWish:
    """A topic to create, given as NAME:PARTITIONS:REPLICATION_FACTOR."""

    name: str
    partitions: int
    replication_factor: int

    @classmethod
    def parse(cls, text: str, brokers: int) -> TopicWish:
        """Parse NAME[:PARTITIONS[:REPLICATION_FACTOR]]. Raises ValueError.

        The defaults are one partition and, with fewer than three brokers, as many replicas as brokers, otherwise three.

        Args:
            brokers: number of brokers.
        """
        name, *numbers = text.split(":")
        if not name or len(numbers) > 2:
            raise ValueError(f"`{text}` is not NAME:PARTITIONS:REPLICATION_FACTOR, for example orders:3:3")
        if why := why_no_topic(name):
            raise ValueError(f"a topic cannot be called `{name[:80]}`: {why}")
        if not all(re.fullmatch(r"[1-9]\d{0,3}", number) for number in numbers):
            raise ValueError(f"`{text}`: partitions and replication factor must be numbers from 1 to 9999")
        partitions, factor = (*map(int, numbers), *(1, min(3, brokers))[len(numbers) :])
        if factor > brokers:
            raise ValueError(
                f"`{text}` needs {factor} replicas, but there {'is' if brokers == 1 else 'are'} only {brokers} "
                f"{'broker' if brokers == 1 else 'brokers'}: start more with --brokers {factor}"
            )
        return cls(name, partitions, factor)


def cluster_of(
    brokers: int, topics: Sequence[TopicWish], profile: str | None, overrides: Sequence[str]
) -> ScenarioFile:
    """Return the scenario of a cluster without steps and workloads. Raises ScenarioInvalid.

    Args:
        brokers: number of brokers.
        profile: era of Kafka, None for the newest.
        overrides: settings of `--set`.
    """
    document: dict[str, Any] = {
        "schema": 1,
        "id": "serve",
        "title": f"A live cluster of {count_of(brokers, 'broker')}",
        "seed": 1,
        "duration": "60m",
        "profile": profile or DEFAULT_PROFILE,
        "cluster": {
            "controllers": ["c1"],
            "brokers": {f"b{number}": {} for number in range(1, brokers + 1)},
            # As in Kafka's server.properties: groups work in small clusters, and a group's first member does not wait.
            "config": {
                "offsets.topic.replication.factor": min(3, brokers),
                "transaction.state.log.replication.factor": min(3, brokers),
                "transaction.state.log.min.isr": min(2, brokers),
                "share.coordinator.state.topic.replication.factor": min(3, brokers),
                "share.coordinator.state.topic.min.isr": min(2, brokers),
                "group.initial.rebalance.delay.ms": 0,
            },
        },
        "topics": {
            wish.name: {"partitions": wish.partitions, "replication_factor": wish.replication_factor} for wish in topics
        },
        "workloads": {},
        "timeline": [],
        "expect": {},
    }
    return load_text(yaml.safe_dump(document, sort_keys=False), "the cluster to serve", overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options with which a cluster is served.

    Attributes:
        host: address on which brokers listen.
        port: port of the first broker, from which later brokers count up; 0 for any free ports.
        reads_along: True to decode clients' requests and emit events for their records.
        in_processes: True to run every broker and controller in a separate process.
        shows_page: True to serve a page about the running cluster on the loopback interface.
        lasts_s: seconds after readiness at which the cluster stops; None to run until stopped.
        security: authentication and encryption that brokers require of clients.
        parent: process id of the parent process, with which the cluster ends; None to outlive the parent.
        metrics: server of the cluster's metrics, None for no metrics.
    """

    host: str
    port: int
    reads_along: bool
    in_processes: bool
    shows_page: bool
    lasts_s: float | None
    security: ListenerSecurity
    parent: int | None = None
    metrics: MetricsServer | None = None


@dataclass(frozen=True, slots=True)
class Voice:
    """Functions that write to the user's terminal. `say_if_heard` ignores the error if the terminal is closed."""

    say: Say
    say_if_heard: Say
    say_line: SayLine


class Server:
    """A live cluster for outside clients, from its start to the verdict."""

    def __init__(self, scenario: Scenario, options: ServeOptions, voice: Voice) -> None:
        # The scenario's expectations do not apply, because outside clients take part in the run.
        self.scenario = replace(scenario, duration_us=FOREVER_US, expect=Expect())
        self._options = options
        self._voice = voice
        self._teller = LineWriter(voice.say_line)
        self._deletions = DeletionWatch()
        self._judging = JudgingProgress()
        self._progress = ExitStack()
        self._topics = TopicNews(name for topic in scenario.topics.values() for name in topic.topic_partitions)
        self._losses = LossWatch(self._teller.tell)
        self._tape = LiveTape(self._losses.gone) if options.shows_page else None
        self._metrics: LiveMetrics | None = None
        self._page_place: tuple[Door, socket.socket] | None = None
        self._time: LiveTime | None = None
        self._was_asked_to_stop = False

    def run(self, runs_dir: Path) -> RunResult:
        """Run the cluster until SIGINT, SIGTERM or SIGHUP, or until its time is over. Return the judged run.

        Raises:
            PortTaken, OSError, NotPossibleNow: the cluster cannot run.
            KeyboardInterrupt: a second signal came, or the parent process has ended.
        """
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        try:
            with self._progress:
                return self._run(runs_dir)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self, runs_dir: Path) -> RunResult:
        self._record = runs_dir
        if self._tape is not None:
            from scenarios.serve.page_server import open_door

            self._page_place = open_door()
        return run_scenario(
            self.scenario,
            runs_dir=runs_dir,
            world=self._world,
            watchers=self._watchers,
            companions=[
                self._read_along,
                self._stop_when_asked,
                self._obey,
                self._say_when_ready,
                self._tell_the_story,
                self._tell,
                self._be_followed,
                self._show_page,
                self._expose_metrics,
                self._end_with_parent,
            ],
            on_interrupt=self._keep_unjudged,
        )

    def _watchers(self, view: ClusterView) -> Sequence[Listener]:
        watchers: list[Listener] = [self._losses, self._deletions, self._topics, self._judging]
        if self._tape is not None:
            watchers.append(self._tape)
        if self._options.metrics is not None:
            from scenarios.metrics.live import LiveMetrics

            self._metrics = LiveMetrics(view, self._losses.gone)
            watchers.append(self._metrics)
        return watchers

    def _world(self, scenario: Scenario, trace_log: TraceLog, log_root: Path) -> Fabric:
        from cluster.live.fabric import ServerDoors

        options = self._options
        first = options.port
        ports = {name: first + index if first else 0 for index, name in enumerate(scenario.cluster.brokers)}
        doors = ServerDoors(bind_host=options.host, ports=ports, security=options.security)
        if options.in_processes:
            fabric: TcpFabric = processes(scenario, trace_log, log_root, doors, reads_along=options.reads_along)
        else:
            fabric = live(scenario, trace_log, log_root, doors)
        fabric.time.measures_requests = self._options.reads_along
        self._time = fabric.time
        return fabric

    # ---------------------------------------------------------------------------------------------------- companions

    async def _read_along(self, run: ScenarioRun) -> None:
        from cluster.live.client_tap import ClientTap
        from cluster.live.fabric import TcpFabric

        fabric, cluster = run.cluster.fabric, run.cluster
        assert isinstance(fabric, TcpFabric)

        def topic_name(topic: str | UUID) -> str | None:
            names = (broker.cache.topic_name(topic) for broker in cluster.brokers().values())
            return next((name for name in names if name is not None), None)

        if self._options.reads_along:
            taken = run.ledger.records
            fabric.tap = self._deletions.tap = ClientTap(
                run.trace, run.mirror.sent, run.mirror.names_in, lambda name: taken.place(name) >= 0, topic_name
            )
        else:
            run.find_places = lambda partition, base_offset, crc: None

    async def _stop_when_asked(self, run: ScenarioRun) -> None:
        """Stop the run at the first signal or when its time is over.

        The next SIGINT or SIGTERM interrupts the judging of the run. A second SIGHUP is ignored, because closing a
        terminal sends two.
        """
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        said = OVER
        with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                if self._options.lasts_s is not None:
                    nursery.start_soon(_end_in_time, run, self._options.lasts_s, nursery.cancel_scope)
                async for _ in signals:
                    said = STOPPING
                    nursery.cancel_scope.cancel()
            assert self._time is not None
            self._was_asked_to_stop = True
            self._voice.say_if_heard(f"\n  {said}")
            self._judging.begin(run.view, self._progress.enter_context(ProgressLine("judging the run")))
            run.writer.write_parts()
            # Set the end of the run to now. The last event may be long ago if the cluster is idle.
            self._time.enter()
            self._time.stop()
            run.ended_early()

    def _keep_unjudged(self, run: ScenarioRun, work_dir: Path) -> None:
        # There is nothing to keep if the cluster was not stopped in order, or if the whole run has been kept already.
        if not self._was_asked_to_stop or not work_dir.exists():
            return
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        self._progress.close()
        self._voice.say_if_heard(f"  {GIVEN_UP} {keep_unjudged(run, work_dir, self._record)}")

    async def _obey(self, run: ScenarioRun) -> None:
        """Serve the requests of `highwater fault`."""
        from scenarios.serve.control_place import announced
        from scenarios.serve.control_server import ControlServer

        assert self._time is not None
        bootstrap = ",".join(f"{host}:{port}" for host, port in run.cluster.bootstrap)
        try:
            with announced(self._record, run.writer.trace_dir, bootstrap, int(time.time())) as listener:
                await ControlServer(run, self._time, self._losses.gone).serve(listener)
        except OSError as error:
            self._voice.say(f"  `highwater fault` cannot reach this cluster: {error}")

    async def _say_when_ready(self, run: ScenarioRun) -> None:
        await run.is_ready.wait()
        await _ports_open(run)
        collect_in_short_pauses()
        address = self._page_place[0].address if self._page_place else None
        for line in ready_lines(run, address, self._options.metrics, self._options.lasts_s):
            self._voice.say(line)

    async def _tell_the_story(self, run: ScenarioRun) -> None:
        """Print the key events of the run when they happen."""
        self._losses.mirror = run.mirror
        await run.is_ready.wait()
        assert self._time is not None
        story = run.story
        line_count = len(story.lines)
        while True:
            new, line_count = story.lines[line_count:], len(story.lines)
            for line in self._topics.among(new, self._time.clock_us()):
                self._teller.tell(line)
            await trio.sleep(PAUSE_S)

    async def _tell(self, run: ScenarioRun) -> None:
        await self._teller.run()

    async def _be_followed(self, run: ScenarioRun) -> None:
        """Write the trace in parts, which `highwater report --follow` reads while the run goes on."""
        await cut_parts_while_followed(run.writer)

    async def _show_page(self, run: ScenarioRun) -> None:
        if self._tape is None or self._page_place is None:
            return
        from scenarios.serve.page_server import PageServer
        from scenarios.view.page import live_head, live_page, policy_of

        door, listener = self._page_place
        page = live_page(live_head(run.scenario))
        await run.is_ready.wait()
        listening = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        await PageServer(door, page, policy_of(page), self._tape).serve(listening)

    async def _expose_metrics(self, run: ScenarioRun) -> None:
        if self._options.metrics is not None and self._metrics is not None:
            assert self._time is not None
            self._options.metrics.expose(self._metrics, self._time.clock_us)

    async def _end_with_parent(self, run: ScenarioRun) -> None:
        """Raise KeyboardInterrupt when the parent process ends, so that the run stops and is not kept.

        The parent is polled, because a pipe may be kept open by its other children, and PR_SET_PDEATHSIG is sent when
        the thread that started this process ends.
        """
        parent = self._options.parent
        if parent is not None:
            while os.getppid() == parent:
                await trio.sleep(PARENT_S)
            raise KeyboardInterrupt


async def _end_in_time(run: ScenarioRun, lasts_s: float, waiting: trio.CancelScope) -> None:
    await run.is_ready.wait()
    await trio.sleep(lasts_s)
    waiting.cancel()


async def _ports_open(run: ScenarioRun) -> None:
    """Wait until every running broker accepts connections, shortly after it is unfenced."""
    for name, (host, port) in zip(run.scenario.cluster.brokers, run.cluster.bootstrap, strict=True):
        while run.cluster.running(name):
            try:
                await (await trio.open_tcp_stream(host, port)).aclose()
                break
            except OSError:
                await trio.sleep(PAUSE_S)


def ready_lines(
    run: ScenarioRun, page_address: str | None, metrics: MetricsServer | None, lasts_s: float | None
) -> list[str]:
    """Return the lines of text that show a ready cluster's addresses, and commands to try.

    Args:
        page_address: URL of the cluster's page, None if there is no page.
        lasts_s: see ServeOptions.
    """
    cluster, scenario = run.cluster, run.scenario
    bootstrap = _addresses(cluster.bootstrap)
    took = f"{cluster.time.now_us / 1_000_000:.2f} s"
    lines = [
        "",
        f"  {count_of(len(scenario.cluster.brokers), 'broker')} up in {took}, {scenario.profile}",
        *(
            f"    {name}  {host}:{port}"
            for name, (host, port) in zip(scenario.cluster.brokers, cluster.bootstrap, strict=True)
        ),
    ]
    for topic in scenario.topics.values():
        minimum = scenario.topic_config(topic.name).min_insync_replicas
        sizes = f"{count_of(topic.partitions, 'partition')}, RF {topic.replication_factor}"
        lines.append(f"  topic {topic.name}: {sizes}, min.insync.replicas {minimum}")
    lines += [*own_plan(scenario), "", f"  bootstrap.servers={bootstrap}"]
    first, security = cluster.bootstrap[0], cluster.fabric.security
    if security.advertised:
        lines.append(f"    brokers advertise {_addresses(security.advertised.values())}")
    for listener in security.listeners:
        others = _addresses((first[0], port) for port in listener.ports.values())
        lines.append(f"  listener {listener.name}, {listener.protocol}: bootstrap.servers={others}")
        if listener.advertised:
            lines.append(f"    brokers advertise {_addresses(listener.advertised.values())}")
    settings = client_settings(security)
    at = f"{'-F kcat.conf ' if settings else ''}-b {first[0]}:{first[1]}"
    lines.append(f"    kcat {at} -L")
    for name in list(scenario.topics)[:1]:
        lines.append(f"    seq 1 1000 | kcat {at} -P -t {name} -X acks=1")
        lines.append(f"    kcat {at} -C -t {name} -o beginning -e")
    if settings:
        lines += [
            "  settings that clients need (kcat reads them from kcat.conf):",
            *(f"    {setting}" for setting in settings),
        ]
    if (super_users := security.super_users) is not None:
        named = " and ".join(user.removeprefix("User:") for user in super_users)
        exempt = f"{named} may do everything" if named else "all users have access to resources without ACLs"
        lines.append(f"  ACLs restrict users (kafka-acls); {exempt}")
    lines += [
        "",
        f"  break it:  highwater fault kill {next(iter(scenario.cluster.brokers))}   (or: highwater fault --help)",
    ]
    if page_address is not None:
        lines.append(f"  see it:    {page_address}")
    if metrics is not None:
        lines.append(f"  metrics:   {metrics.address}")
    ends = "Ctrl-C stops the cluster and keeps the run."
    if lasts_s is not None:
        ends = f"The cluster stops after {duration(round(lasts_s * 1e6))} or on Ctrl-C, and its run is kept."
    return [*lines, "", f"  {ends}", ""]


def own_plan(scenario: Scenario) -> list[str]:
    """Return one line about the scenario's own steps and workloads, an empty list if it has none."""
    parts = []
    if steps := scenario.timeline:
        timed = [step for step in steps if isinstance(step.trigger, At)]
        parts.append(f"timeline: {count_of(len(steps), 'step')}")
        if timed:
            parts[0] += f" until {duration(max(map(_over_us, timed)))}"
        if waiting := len(steps) - len(timed):
            which = f"{waiting} of them " if timed else ""
            parts[0] += f", {which}when {'its condition is true' if waiting == 1 else 'their conditions are true'}"
    if names := list(scenario.workloads):
        noun, verb = ("workload", "runs") if len(names) == 1 else ("workloads", "run")
        parts.append(f"{noun} {', '.join(names)} {verb} alongside your clients")
    return [f"  {'; '.join(parts)}"] if parts else []


def _over_us(step: Step) -> int:
    """Return the time in microseconds at which a step with `at` is over, including its repetitions and its `for`."""
    assert isinstance(step.trigger, At)
    return step.trigger.at_us + (step.every_us or 0) * (step.times - 1) + (step.for_us or 0)


def _addresses(found: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"{host}:{port}" for host, port in found)


def client_settings(security: ListenerSecurity) -> list[str]:
    """Return the security settings that a client needs, as librdkafka's `key=value`; an empty list if none."""
    if security.protocol == "PLAINTEXT":
        return []
    settings = [f"security.protocol={security.protocol}"]
    if security.is_on:
        # The mechanisms PLAIN and SCRAM-SHA-512 work too.
        user = next(iter(security.passwords))
        settings += ["sasl.mechanism=SCRAM-SHA-256", f"sasl.username={user}", "sasl.password=..."]
    authority = None if security.tls is None else security.tls.certificate.with_name(AUTHORITY)
    if authority is not None and authority.exists():
        settings.append(f"ssl.ca.location={authority}")
    return settings
