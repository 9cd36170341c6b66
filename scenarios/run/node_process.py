"""Runs one node in its own process. The option `--processes` starts one process per broker and controller.

The node runs the same core as in other modes. It sends its events over an inherited socket pair (the control pair) to
the main process, which runs the cluster, and ends when the main process ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from cluster.broker.broker import BrokerCore
from cluster.child_process import die_with_parent
from cluster.clocks import WallClock
from cluster.live.control import (
    PACKET_BYTES,
    AnswerTold,
    Ask,
    BytesTold,
    EventsTold,
    ExitTold,
    FileTold,
    NodeState,
    NumberedEvent,
    ObservationTold,
    OutsiderTold,
    Reset,
    Settle,
    SettledTold,
    Told,
    packets,
    unpack_order,
)
from cluster.live.fabric import ServerDoors
from cluster.live.neighbours import NeighbourFabric
from cluster.live.node_life import OwnProcess
from cluster.live.observations import Observation, Topic
from cluster.live.peers import Address
from cluster.live.processes import NodeOrder
from cluster.live.time import LiveTime
from cluster.network.host import Host
from cluster.network.links import Network
from cluster.network.passage import ByteCounts
from cluster.protocol.versions import api_name
from replica.log.files.disk import Disk
from replica.trace.events import TraceEvent, TraceLog, TraceRow
from replica.trace.listening import Listener, on
from scenarios.language.spec import Scenario
from scenarios.process.failures import first_leaf
from scenarios.process.forks import Forks
from scenarios.run.cores import Cores, new_disks
from scenarios.run.worlds import live_latency

if TYPE_CHECKING:
    from scenarios.run.cores import ServerCore

FOREVER_US = 1 << 62
BYTES_TOLD_EVERY_S = 0.05
OPERATED = frozenset({"begin_shutdown", "flush", "operate", "topic_config"})
"""Methods of a node that the main process may call. See cluster/operated.py."""
DIED_OF = "what-{name}-died-of.txt"


def launcher(scenario: Scenario, log_root: Path) -> Callable[[NodeOrder, socket.socket], OwnProcess]:
    """Return a function that starts this scenario's nodes as forks of an idle process with all imports done.

    A new interpreter per node would spend as much time on imports as a cluster needs to elect its leaders.
    """
    # A controller needs networkx to assign the replicas of its first topic. A child imports the main module, which may
    # be scenarios.cli.main.
    forks = Forks(__name__, "networkx", "scenarios.cli.main")

    def launch(order: NodeOrder, control: socket.socket) -> OwnProcess:
        return forks.start(f"highwater {order.name}", run_node, pickle.dumps((scenario, log_root, order)), control)

    return launch


def run_node(start: bytes, control: socket.socket) -> None:
    """Run a node until it ends. Report an unexpected exception to the main process and in a file of the run folder.

    Args:
        start: pickled tuple of the scenario, the log folder and the node's order.
    """
    _stand_alone()
    scenario: Scenario
    log_root: Path
    order: NodeOrder
    scenario, log_root, order = pickle.loads(start)  # noqa: S301  # from the process that forked this one
    node = NodeProcess(scenario, log_root, order, control)
    try:
        trio.run(node.run)
    except BaseException as failure:
        file = log_root.parent / DIED_OF.format(name=order.name)
        file.write_text(traceback.format_exc(), encoding="utf-8")
        node.tell_bug(f"a bug in Highwater, {first_leaf(failure)!r}; see {file.name} in the run folder")
        raise


def _stand_alone() -> None:
    """Ignore SIGINT and SIGTERM, which the main process handles, and have this process end together with that one."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        die_with_parent()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


class ToldDisk(Disk):
    """A disk that reports its operations to the main process, which needs them after this process was killed."""

    def __init__(self, root: Path, log_dir: str, tell: Callable[[Told], None]) -> None:
        super().__init__(root, sync=False)
        self._log_dir = log_dir
        self._tell = tell

    def _tell_of(self, how: str, path: str, size: int) -> None:
        self._tell(FileTold(self._log_dir, how, path, size))

    def opened(self, path: str, size: int) -> None:
        super().opened(path, size)
        self._tell_of("opened", path, size)

    def truncated(self, path: str, size: int) -> None:
        super().truncated(path, size)
        self._tell_of("truncated", path, size)

    def flush(self, path: str, fd: int) -> None:
        super().flush(path, fd)
        self._tell_of("flushed", path, self._flushed[path])

    def forget(self, path: str) -> None:
        super().forget(path)
        self._tell_of("forgotten", path, 0)


class ToldTap:
    """A tap that sends its observations of client requests to the main process."""

    def __init__(self, tell: Callable[[Told], None], topic_name: Callable[[Topic], str | None]) -> None:
        self.topic_name = topic_name
        self._tell = tell
        self._connections = 0

    def open(self, client: str, node: str) -> Callable[[Observation, int], None]:
        self._connections += 1
        connection = self._connections

        def tell(observation: Observation, now_us: int) -> None:
            self._tell(ObservationTold(now_us, connection, client, observation))

        return tell


class StepEvents(Listener):
    """Collects the events of one step and sends them together, before the step's actions are carried out."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._at_us = 0
        self._events: list[NumberedEvent] = []

    @on(TraceEvent)
    def _take(self, row: TraceRow, event: TraceEvent) -> None:
        if row.at_us != self._at_us:
            self.tell()
            self._at_us = row.at_us
        self._events.append(NumberedEvent(row.seq, row.causes, event))

    def tell(self) -> None:
        events, self._events = self._events, []
        if events:
            _send(self._control, EventsTold(self._at_us, tuple(events)))


def _end_alone(why: str) -> NoReturn:
    """End this process because the main process has closed the control pair. Write `why` to standard error."""
    with contextlib.suppress(OSError):
        os.write(2, f"the control pair is closed at its other end: {why}\n".encode())
    os._exit(1)


def _send(control: socket.socket, message: Told) -> None:
    try:
        for packet in packets(message):
            control.send(packet)
    except (BrokenPipeError, ConnectionResetError) as error:
        _end_alone(error.strerror or "")


class NodeHost(Host):
    """The host of the node in this process. It sends a step's events before it carries out the step's actions."""

    fabric: NodeFabric

    def __init__(self, fabric: NodeFabric, name: str) -> None:
        super().__init__(fabric, name)
        self.tell_of_step = fabric.events_of_step.tell


class NodeFabric(NeighbourFabric):
    """The hosts, network and time of one node process.

    Simplified: a process reports an acknowledgement before it sends it. If the process is killed in between, the
        acknowledgement counts although the client has not received it.
    """

    tells_acks_first = True

    def __init__(
        self,
        time: LiveTime,
        network: Network,
        trace: TraceLog,
        order: NodeOrder,
        events_of_step: StepEvents,
        tell: Callable[[Told], None],
    ) -> None:
        super().__init__(
            time,
            network,
            trace,
            api_name,
            ServerDoors(
                bind_host=order.bind_host,
                ports={order.name: order.servers[order.name][1]},
                security=order.security,
                secret=order.secret,
            ),
            servers=order.servers,
            sources=order.sources,
        )
        self.events_of_step = events_of_step
        self._tell = tell

    def outsider(self, name: str) -> str:
        is_new = name not in self.outsiders
        known_as = super().outsider(name)
        if is_new:
            self._tell(OutsiderTold(known_as))
        return known_as

    def add_host(self, name: str) -> Host:
        host = self.hosts[name] = NodeHost(self, name)
        return host

    def address(self, name: str, port: int) -> Address:
        if name in self.hosts and name not in self._ports:
            super().address(name, port)
        return self._servers[name]


class NodeProcess:
    """One incarnation of a node in its own process. It takes orders from the main process."""

    def __init__(self, scenario: Scenario, log_root: Path, order: NodeOrder, control: socket.socket) -> None:
        self._order = order
        self._control = control
        self._events = StepEvents(control)
        trace = TraceLog([self._events])
        self._time = LiveTime(trace, order.started)
        self._time.measures_requests = order.measures_requests
        self._network = Network(scenario.seed, live_latency(scenario), {})
        self._fabric = NodeFabric(self._time, self._network, trace, order, self._events, self._tell)
        self._host = self._fabric.add_host(order.name)
        self._clock = WallClock(order.started.epoch_us)
        log_dir = log_root / order.name
        self._disks = new_disks(scenario, order.name, log_dir, lambda root, name: ToldDisk(root, name, self._tell))
        if order.reads_along:
            self._fabric.tap = ToldTap(self._tell, self._topic_name)
        self._bring_about(order.state)
        self._core: ServerCore = Cores(scenario, self._fabric, trace).server(
            order.name, order.incarnation, log_dir, self._disks, self._clock
        )

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self._fabric.open(nursery)
            nursery.start_soon(self._take_orders)
            nursery.start_soon(self._tell_bytes)
            self._time.enter()
            self._host.start(nursery, self._core, serves=True)
            await self._time.drive(FOREVER_US, self._has_ended, self._end)
            self._fabric.close()
            nursery.cancel_scope.cancel()

    def tell_bug(self, why: str) -> None:
        self._time.enter()
        self._tell(ExitTold(self._time.now_us, "crash", why))

    def _has_ended(self) -> bool:
        """Send the events of the last step. Return True if the node has ended."""
        self._events.tell()
        return bool(self._fabric.exits)

    async def _end(self) -> None:
        _, how, why = self._fabric.exits.pop()
        if how == "halt":
            self._core.crash()
        self._tell(BytesTold(self._host.bytes))
        self._tell(ExitTold(self._time.now_us, how, why))
        self._time.stop()

    def _topic_name(self, topic: Topic) -> str | None:
        return self._core.cache.topic_name(topic) if isinstance(self._core, BrokerCore) else None

    # ---------------------------------------------------------------------------------------------------------- telling

    def _tell(self, message: Told) -> None:
        self._events.tell()
        _send(self._control, message)

    async def _tell_bytes(self) -> None:
        message = ByteCounts()
        while True:
            await trio.sleep(BYTES_TOLD_EVERY_S)
            if message != self._host.bytes:
                message = replace(self._host.bytes)
                self._tell(BytesTold(message))

    # ----------------------------------------------------------------------------------------------------------- orders

    async def _take_orders(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._control)
            packet = self._control.recv(PACKET_BYTES)
            if not packet:
                _end_alone("no more orders")
            self._time.enter()
            match order := unpack_order(packet):
                case Settle():
                    self._bring_about(order.state)
                    self._fabric.move_on()
                    self._fabric.finish_reading()
                    self._tell(SettledTold(order.number))
                case Ask():
                    self._ask(order)
                case Reset():
                    await self._fabric.reset(self._order.name, order.peer)

    def _ask(self, order: Ask) -> None:
        if not self._host.running:
            return
        assert order.method in OPERATED, order.method
        arguments: list[Any] = list(order.arguments)
        if order.method == "operate":
            event = arguments[0]
            arguments = [lambda _: event]
        if order.answered:
            arguments.append(partial(self._answer, order.number))
        self._host.call(partial(getattr(self._core, order.method), *arguments))

    def _answer(self, number: int, value: object) -> None:
        self._tell(AnswerTold(self._time.now_us, number, value))

    def _bring_about(self, state: NodeState) -> None:
        for link in state.links:
            link.bring_about(self._network)
        self._network.holds[:] = state.holds
        self._network.request_faults.rules[:] = state.request_faults
        self._fabric.dark = state.dark
        for name, disk in state.disks.items():
            disk.bring_about(self._disks[name])
        self._clock.offset_us = state.clock_offset_us
