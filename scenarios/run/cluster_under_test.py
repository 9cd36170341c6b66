"""The cluster of a run: its machines, disks and processes, and an operator's actions on them.

The code is the same in simulated and live mode. Only worlds.py depends on the mode.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import trio

from cluster.broker.broker import BrokerCore
from cluster.clocks import WallClock
from cluster.controller_node.node import ControllerCore
from cluster.network.host import Host
from cluster.network.links import Card
from cluster.network.world import SETTLE_S, Fabric
from cluster.node import Action
from cluster.operated import ClientElsewhere, OperatedNode
from replica.causes import DataLossCause
from replica.ids import TopicPartition
from replica.log.files.disk import Disk
from replica.trace.events import BatchCorrupted, DataLost, NodeStarted, NodeStopped, TraceLog
from scenarios.language.selectors import resolve
from scenarios.language.spec import Scenario
from scenarios.observe.view import ClusterView
from scenarios.run.cores import Cores, ServerNodes, new_disks
from scenarios.run.workload import client_order
from scenarios.run.worlds import link_latency

if TYPE_CHECKING:
    from cluster.client.consumer.consumer import ConsumerCore
    from cluster.client.consumer.share_consumer import ShareConsumerCore
    from cluster.client.producer.producer import ProducerCore
    from cluster.client.transform.transform import TransformCore

N = TypeVar("N", bound=OperatedNode)
A = TypeVar("A")


class NotPossibleNow(Exception):
    """Raised if a step of the scenario is impossible at this moment. The message is the reason."""


@dataclass(slots=True)
class Machine:
    """A machine, with the state that survives its processes: disks, wall clock, and the number of starts.

    Attributes:
        disks: one disk per log directory, by the directory's name in log.dirs; "" if there is only one.
        core: core of the client, None on a server. The cores of brokers and controllers are in ServerNodes.
        stopping: True if the process was asked for an orderly shutdown.
        starts_when_stopped: True if the process must start again after that shutdown.
    """

    host: Host
    role: str
    log_dir: Path | None
    clock: WallClock
    disks: dict[str, Disk] = field(default_factory=dict)
    core: ProducerCore | ConsumerCore | ShareConsumerCore | TransformCore | ClientElsewhere | None = None
    incarnations: int = 0
    stopping: bool = False
    starts_when_stopped: bool = False

    @property
    def takes_calls(self) -> bool:
        """Return True if the process runs and was not asked to shut down."""
        return self.host.running and not self.stopping


class ClusterUnderTest:
    """The cluster of a scenario, with the processes on its machines.

    Args:
        log_root: directory that gets one subdirectory per broker and controller.
        fabric: the hosts, network and time of the run's mode; it has no host yet.
    """

    def __init__(self, scenario: Scenario, trace: TraceLog, view: ClusterView, log_root: Path, fabric: Fabric) -> None:
        self.scenario = scenario
        self.trace = trace
        self.view = view
        self.fabric = fabric
        self.time = fabric.time
        self.network = fabric.network
        self.machines: dict[str, Machine] = {}
        self._nursery: trio.Nursery
        self._servers = (*scenario.cluster.controllers, *scenario.cluster.brokers)
        self.has_died_out = False
        """True if no broker or controller runs any more, and the last one crashed or was killed from outside."""
        self._cores = Cores(scenario, fabric, trace)
        self.nodes = ServerNodes(scenario, self._cores)
        self.bootstrap = self._cores.bootstrap
        for name in scenario.cluster.controllers:
            self._add_machine(name, "controller", log_root / name)
        for name in scenario.cluster.brokers:
            self._add_machine(name, "broker", log_root / name)
        for workload in scenario.workloads.values():
            self._add_machine(workload.name, workload.kind, None)
        self._shape_links()

    def _add_machine(self, name: str, role: str, log_dir: Path | None) -> None:
        clock = self.time.wall_clock()
        machine = self.machines[name] = Machine(self.fabric.add_host(name), role, log_dir, clock)
        self._set_up_disks(name, machine)

    def _set_up_disks(self, name: str, machine: Machine) -> None:
        if machine.log_dir is not None:
            machine.disks = new_disks(self.scenario, name, machine.log_dir)

    def _shape_links(self) -> None:
        network = self.scenario.network
        names = list(self.machines)
        if network.bytes_per_second is not None:
            for source in names:
                for target in names:
                    self.network.link(source, target).bytes_per_second["network"] = network.bytes_per_second
        for name in names:
            rate = network.cards.get(name, network.card_bytes_per_second)
            if rate is not None:
                self.network.cards[name] = Card(rate)
        for number, spec in enumerate(network.links):
            label = f"network.links[{number}]"
            for item in resolve(spec.side_a, self.view, {}):
                for two in resolve(spec.side_b, self.view, {}):
                    for link in (self.network.link(item, two), self.network.link(two, item)):
                        if spec.latency is not None:
                            link.base = link_latency(spec.latency)
                        if spec.bytes_per_second is not None:
                            link.bytes_per_second[label] = spec.bytes_per_second
                        if spec.loss_ppm is not None:
                            link.loss[label] = spec.loss_ppm / 1_000_000

    # ------------------------------------------------------------------------------------------------------- running

    async def run(
        self,
        *,
        until_us: int,
        begin: Callable[[], None],
        between: Callable[[], bool],
        work: Callable[[], Awaitable[None]],
        finish: Callable[[], None],
    ) -> None:
        """Start the cluster and drive time until the run ends.

        Exceptions of callbacks and nodes are raised without an exception group around them.

        Args:
            until_us: time at which the run ends.
            begin: called before the first event.
            between: called after each event. If it returns True, `work` is called before the next event.
            work: performs the steps of the timeline that are due.
            finish: called after the last event, before the processes are closed.
        """
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.fabric.open(nursery)
            try:
                for name, machine in self.machines.items():
                    if machine.role in ("controller", "broker"):
                        self.start(name)
                begin()
                await self.time.drive(until_us, between, work)
                await self.fabric.stand_still()
                for name, machine in self.machines.items():
                    if machine.host.running:
                        self._emit_unreported(name)
                finish()
            except (Exception, KeyboardInterrupt) as error:
                failure = error
            self._stop_everything()
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def _emit_unreported(self, name: str) -> None:
        """Emit the events that a node in a separate process had no time to report, as far as its disks show them."""
        machine = self.machines[name]
        if not machine.host.reports_all:
            from scenarios.observe.unreported import emit_unreported

            emit_unreported(self.trace, self.view, name, list(machine.disks.values()))

    def _stop_everything(self) -> None:
        """Close all files of the servers at the end of the run, without writing anything more to their disks."""
        for name in self._servers:
            if self.running(name):
                self._close_files(name)
        self.fabric.close()

    # ------------------------------------------------------------------------------------------------------ processes

    def running(self, name: str) -> bool:
        return self.machines[name].host.running

    def must_run(self, names: Iterable[str]) -> None:
        """Raise NotPossibleNow if any of these nodes is down."""
        for name in names:
            if not self.running(name):
                raise NotPossibleNow(f"{name} is not running")

    def must_be_down(self, names: Iterable[str]) -> None:
        """Raise NotPossibleNow if any of these nodes runs and is not shutting down."""
        for name in names:
            if self.running(name) and not self.machines[name].stopping:
                raise NotPossibleNow(f"{name} is already running")

    def start(self, name: str) -> bool:
        """Start a node, or have it started as soon as it has finished its shutdown.

        Returns:
            False if the node is still shutting down.

        Raises:
            NotPossibleNow: the node is running and not shutting down.
        """
        self.must_be_down([name])
        machine = self.machines[name]
        if machine.host.running:
            machine.starts_when_stopped = True
            return False
        machine.stopping = machine.starts_when_stopped = False
        machine.incarnations += 1
        begin = self._new_life(name, machine)
        self.trace.emit(NodeStarted(node=name, role=machine.role, incarnation=machine.incarnations))
        begin(self._nursery)
        return True

    def _new_life(self, name: str, machine: Machine) -> Callable[[trio.Nursery], None]:
        host, incarnation = machine.host, machine.incarnations
        if machine.log_dir is not None:
            return self.nodes.new_life(host, incarnation, machine.log_dir, machine.disks, machine.clock)
        workload = self.scenario.workloads[name]
        # A Java client has one topic, cannot transform records and is in no share group (kafka_limits.py).
        may_be_java = workload.kind in ("producer", "consumer") and len(workload.topics) == 1
        elsewhere = host.client_stand_in(client_order(self.scenario, workload)) if may_be_java else None
        if elsewhere is not None:
            machine.core = elsewhere
            return lambda nursery: elsewhere.launch()
        core = machine.core = self._cores.client(workload, incarnation, machine.clock)
        return partial(host.start, core=core, serves=False)

    async def kill(self, *names: str) -> None:
        """Kill nodes with SIGKILL, all at the same time. Ignore nodes that are down."""
        running = await self._seize(names)
        for name in running:
            self.machines[name].host.strike()
        for name in running:
            machine = self.machines[name]
            self._state_stop(name, "kill")
            await machine.host.kill()
            self._close_files(name)

    async def power_off(self, *names: str) -> None:
        """Power machines off, all at the same time. Bytes that were not flushed are lost."""
        running = await self._seize(names)
        for name in names:
            machine = self.machines[name]
            if name in running:
                self._state_stop(name, "power_off")
            await machine.host.power_off()
            if name in running:
                self._close_files(name)
            for disk in machine.disks.values():
                for loss in disk.lose_unflushed():
                    self._state_loss(name, loss.topic_partition, DataLossCause.NOT_FLUSHED, disk, loss.bytes)

    def stop(self, name: str) -> None:
        """Begin the controlled shutdown of a server. Its process exits by itself later.

        Raises:
            NotPossibleNow: the server is down.
        """
        self.must_run([name])
        machine = self.machines[name]
        node = self.nodes.named(name)
        assert node is not None, "a server that runs has been started"
        machine.stopping = True
        machine.host.call(node.begin_shutdown)

    async def close(self, name: str) -> None:
        """Close a client and let its process exit. Ignore a client that is down.

        Simplified: Kafka's own client is killed instead, since all Java clients share one JVM.
        """
        machine = self.machines[name]
        core = machine.core
        if core is None or isinstance(core, ClientElsewhere):
            await self.kill(name)
        elif machine.takes_calls:
            machine.stopping = True
            close = partial(machine.host.call, core.close)
            if machine.host.may_run(close):
                close()

    async def flush(self, names: Sequence[str], wanted: TopicPartition | None) -> None:
        """Flush the page caches of brokers with fsync.

        Args:
            wanted: partition to flush, None for all.

        Raises:
            NotPossibleNow: a broker is down.
        """
        brokers = []
        for name in names:
            broker = self.answering(self.nodes.brokers, name)
            if broker is None:
                raise NotPossibleNow(f"{name} is not running, so it cannot flush")
            brokers.append(broker)
        for name, broker in zip(names, brokers, strict=True):
            await self.answer_of(name, partial(broker.flush, wanted))

    async def _seize(self, names: Sequence[str]) -> list[str]:
        """Halt all processes before the first one is ended, so that none acts meanwhile.

        Returns:
            The nodes that were running.
        """
        for name in names:
            machine = self.machines[name]
            machine.stopping = machine.starts_when_stopped = False
        running = [name for name in names if self.machines[name].host.running]
        for name in running:
            self.machines[name].host.halt()
        for name in running:
            await self.machines[name].host.seize()
            self._emit_unreported(name)
        return running

    def pause(self, name: str) -> None:
        self.must_run([name])
        self.machines[name].host.pause()

    def resume(self, name: str) -> None:
        self.machines[name].host.resume()

    def wipe(self, names: Sequence[str]) -> None:
        """Give brokers new, empty disks.

        Raises:
            NotPossibleNow: a broker is running, or a node has no disk.
        """
        for name in names:
            if self.running(name):
                raise NotPossibleNow(f"{name} is running; stop, kill or power it off before its disk can be replaced")
            if self.machines[name].log_dir is None:
                raise NotPossibleNow(f"{name} has no disk")
        for name in names:
            machine = self.machines[name]
            for replica in self._replicas_on(machine):
                self._state_loss(name, replica, DataLossCause.DISK_REPLACED)
            assert machine.log_dir is not None
            shutil.rmtree(machine.log_dir, ignore_errors=True)
            self._set_up_disks(name, machine)

    def tear(self, names: Sequence[str], topic_partition: TopicPartition, size_bytes: int) -> None:
        """Cut bytes off the end of the logs of stopped brokers.

        Raises:
            NotPossibleNow: a broker is running, or has no replica of the partition.
        """
        disks = []
        for name in names:
            if self.running(name):
                raise NotPossibleNow(f"{name} is running; a log can only be torn while its broker is down")
            disk = self._disk_of(self.machines[name], topic_partition)
            if disk is None:
                raise NotPossibleNow(f"{name} has no replica of {topic_partition}")
            disks.append(disk)
        for name, disk in zip(names, disks, strict=True):
            loss = disk.tear(topic_partition, size_bytes)
            self._state_loss(name, topic_partition, DataLossCause.TORN, disk, loss.bytes)

    def flip_bit(self, names: Sequence[str], topic_partition: TopicPartition, offset: int) -> None:
        """Flip a bit in the batch at `offset` on the disks of these brokers, which may be running.

        Raises:
            NotPossibleNow: a broker does not have this offset.
        """
        disks = []
        for name in names:
            disk = self._disk_of(self.machines[name], topic_partition)
            if disk is None or not disk.holds(topic_partition, offset):
                raise NotPossibleNow(f"{name} has no record at offset {offset} of {topic_partition}")
            disks.append(disk)
        for name, disk in zip(names, disks, strict=True):
            self._flip_bit(name, disk, topic_partition, offset)

    def _flip_bit(self, name: str, disk: Disk, topic_partition: TopicPartition, offset: int) -> None:
        found = disk.flip_bit(topic_partition, offset)
        assert found is not None, "it holds the offset"
        self.trace.emit(BatchCorrupted(name, *topic_partition, offset=found.base_offset, last_offset=found.last_offset))

    def disks(self, name: str, log_dir: str | None = None) -> list[Disk]:
        """Return all disks of a broker, or the disk of one log directory.

        Raises:
            NotPossibleNow: there is no such log directory.
        """
        disks = self.machines[name].disks
        if log_dir is None:
            return list(disks.values())
        if log_dir not in disks:
            raise NotPossibleNow(f"{name} has no log directory {log_dir}")
        return [disks[log_dir]]

    def break_disk(self, name: str, disk: Disk) -> None:
        """Make a disk fail and lose its content. The broker notices when it next uses the disk."""
        machine = self.machines[name]
        for replica in self._replicas_on(machine):
            if self._disk_of(machine, replica) is disk and not disk.broken:
                self._state_loss(name, replica, DataLossCause.DISK_FAILED)
        disk.broken = True

    def _disk_of(self, machine: Machine, topic_partition: TopicPartition) -> Disk | None:
        return next((disk for disk in machine.disks.values() if (disk.root / str(topic_partition)).is_dir()), None)

    def _replicas_on(self, machine: Machine) -> list[TopicPartition]:
        return [name for name in sorted(self.view.partitions) if self._disk_of(machine, name) is not None]

    def _close_files(self, name: str) -> None:
        node = self.nodes.named(name)
        if node is not None:
            node.crash()

    def state_exits(self) -> None:
        """Emit NodeStopped for nodes that have ended by themselves, through a controlled shutdown or an error."""
        exits = self.fabric.exits
        while exits:
            name, how, why = exits.pop(0)
            if how == "stop":
                self._state_stop(name, how, why)
                if self.machines[name].starts_when_stopped:
                    self.time.at(self.time.now_us, partial(self._start_after_all, name))
                continue
            self._close_files(name)
            self._emit_unreported(name)
            self._state_stop(name, how, why)
            self.has_died_out = how in ("crash", "died") and not any(map(self.running, self._servers))

    def _start_after_all(self, name: str) -> None:
        if not self.running(name):
            self.start(name)

    def _state_stop(self, name: str, how: str, last_words: str = "") -> None:
        self.trace.emit(NodeStopped(node=name, how=how, role=self.machines[name].role, last_words=last_words or None))

    def _state_loss(
        self, name: str, replica: TopicPartition, cause: DataLossCause, left: Disk | None = None, size_bytes: int = -1
    ) -> None:
        """Emit DataLost for a replica.

        Args:
            left: disk with the rest of the log, None if the whole log is lost.
            size_bytes: number of lost bytes, -1 for the whole log.
        """
        end = 0 if left is None else left.log_end_offset(replica)
        self.trace.emit(DataLost(name, *replica, size_bytes=size_bytes, log_end_offset=end, cause=cause))

    # ------------------------------------------------------------------------------------- answers of its processes

    def answering(self, nodes: Mapping[str, N], name: str) -> N | None:
        """Return the node `name`, or None if the node cannot answer an operator's tool now."""
        node = nodes.get(name)
        return node if node is not None and self.running(name) and node.answers_operator else None

    async def answer_of(self, name: str, method: Callable[[Callable[[A], None], int], list[Action]]) -> A | None:
        """Call a method of a node and return its answer, or None if the node does not answer in time.

        A paused or dying process does not answer. In simulated mode an answer must come at once, which is impossible
        if the node has to ask other nodes first.
        """
        answered = trio.Event()
        values: list[A] = []

        def answer(value: A) -> None:
            values.append(value)
            answered.set()

        self.machines[name].host.call(partial(method, answer))
        if not values and self.fabric.is_live:
            with trio.move_on_after(SETTLE_S):
                await answered.wait()
        return values[0] if values else None

    def controllers(self) -> dict[str, ControllerCore]:
        """Return the latest incarnation of each controller of the quorum that has opened its log, by name."""
        here = self.nodes.here.items()
        return {name: core for name, core in here if isinstance(core, ControllerCore) and core.was_opened}

    def brokers(self) -> dict[str, BrokerCore]:
        """Return the brokers that run and have opened their logs, by name."""
        here = self.nodes.here.items()
        return {
            name: core for name, core in here if isinstance(core, BrokerCore) and self.running(name) and core.is_open
        }
