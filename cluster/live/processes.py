"""Nodes in operating system processes of their own: a kill is a SIGKILL, a pause a SIGSTOP.

`ProcessFabric` is the world of the process that runs the cluster. Clients of a scenario live in it as they do in any
other; for each node there is a `RemoteHost`, which starts, stops and ends the real process, and a `RemoteCore`, which
passes on what an operator asks of the node.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import trio

from cluster.host import Host, Process
from cluster.links import Network
from cluster.live.control import (
    PACKET_BYTES,
    AnswerTold,
    Ask,
    BytesTold,
    DiskState,
    ExitTold,
    FactsTold,
    FileTold,
    LinkState,
    NodeState,
    ObservationTold,
    Order,
    OutsiderTold,
    Reset,
    Settle,
    SettledTold,
    ToldParts,
    control_pair,
    pack,
)
from cluster.live.fabric import Address
from cluster.live.gathering import GatheringTime, InPlace, Source
from cluster.live.neighbours import NeighbourFabric, source_of
from cluster.live.observations import ConnectionEnded, Observation
from cluster.live.time import Started
from cluster.node import Action, NodeCore
from cluster.shell import NodeShell
from cluster.wall_clock import WallClock
from replica.disk import Disk
from replica.trace import TraceLog

SETTLE_S = 5.0
"""A node that has not said within this time that a fault is in force is taken to be stuck; the fault goes on."""
STOPPED = frozenset("TtZXx")
"""States in /proc of a process that does nothing any more."""


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """All that a node's process is told at its start."""

    name: str
    incarnation: int
    started: Started
    bind_host: str
    servers: Mapping[str, Address]
    sources: Mapping[str, str]
    reads_along: bool
    measures_requests: bool
    state: NodeState


class OwnProcess(Protocol):
    """What is used of multiprocessing.Process."""

    @property
    def pid(self) -> int | None: ...

    @property
    def exitcode(self) -> int | None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def close(self) -> None:
        """Of one that has ended: gives its descriptors back. raises: ValueError if it has not"""


Observer = Callable[[Observation, int], None]
Launch = Callable[[NodeOrder, socket.socket], OwnProcess]
"""Start a process that runs this node and speaks over this socket."""


class RemoteCore:
    """Stands for the core of a node in another process: the methods of an operator, and none of its decisions."""

    def __init__(self, incarnation: int, disks: Mapping[str, Disk], clock: WallClock) -> None:
        self.incarnation = incarnation
        self.disks = disks
        self.clock = clock
        self.host: RemoteHost

    def begin_shutdown(self, now_us: int) -> list[Action]:
        return self.host.ask("begin_shutdown")

    def flush(self, wanted: object) -> None:
        self.host.ask("flush", wanted)

    def create_topic(self, *arguments: Any) -> list[Action]:
        *plain, answer, _ = arguments
        return self.host.ask("create_topic", *plain, answer=answer)

    def elect_leader(self, *arguments: Any) -> list[Action]:
        *plain, answer, _ = arguments
        return self.host.ask("elect_leader", *plain, answer=answer)

    def operate(self, event: Callable[[int], object], answer: Callable[..., None], now_us: int) -> list[Action]:
        return self.host.ask("operate", event(now_us), answer=answer)

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        """As the active controller knows it."""
        answered = trio.Event()
        values: list[Mapping[str, str]] = []

        def answer(value: Mapping[str, str]) -> None:
            values.append(value)
            answered.set()

        self.host.ask("topic_config", topic, answer=answer)
        with trio.move_on_after(SETTLE_S):
            await answered.wait()
        return values[0] if values else {}

    def crash(self) -> None:
        """Its files are closed with its process."""


class RemoteShell:
    """An application's call goes to the stand-in, which passes it on."""

    def __init__(self, host: RemoteHost) -> None:
        self._host = host

    def call(self, method: Callable[[int], list[Action]]) -> None:
        method(self._host.now_us())


@dataclass(slots=True)
class Life:
    """One process of a node, from its start to the last thing that it has told."""

    own: OwnProcess
    control: socket.socket
    core: RemoteCore
    source: Source
    finished: trio.Event = field(default_factory=trio.Event)
    exit_code: int | None = None
    state: NodeState | None = None
    asked_to_settle: int = 0
    settled: int = 0
    answers: dict[int, Callable[..., None]] = field(default_factory=dict)
    observers: dict[int, Observer] = field(default_factory=dict)
    parts: ToldParts = field(default_factory=ToldParts)
    said_why: bool = False
    seized: bool = False
    at_end: bool = False

    def end(self) -> None:
        """Its process is gone or about to be. What it had here is given back: there may be many lives in a run."""
        if self.finished.is_set():
            return
        self.own.join(SETTLE_S)
        self.exit_code = self.own.exitcode
        if self.exit_code is not None:
            self.own.close()
        self.finished.set()


class RemoteHost(Host):
    """A machine whose process is a real one."""

    fabric: ProcessFabric

    def __init__(self, fabric: ProcessFabric, name: str) -> None:
        super().__init__(fabric, name)
        self._life: Life | None = None
        self._number = 0

    # ------------------------------------------------------------------------------------------------------- talking

    @property
    def shell(self) -> NodeShell:
        return RemoteShell(self)  # type: ignore[return-value]  # has what is used of it: `call`

    def ask(self, method: str, *arguments: object, answer: Callable[..., None] | None = None) -> list[Action]:
        assert self._life is not None, f"{self.name} is not running"
        self._number += 1
        if answer is not None:
            self._life.answers[self._number] = answer
        self.order(Ask(self._number, method, arguments, answered=answer is not None))
        return []

    def stand_in(self, incarnation: int, disks: Mapping[str, Disk], clock: WallClock) -> RemoteCore:
        return RemoteCore(incarnation, disks, clock)

    def order(self, order: Order) -> None:
        """Simplified: an order that a stopped process has no room for any more is dropped."""
        if self._life is not None:
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                self._life.control.send(pack(order))

    def _read(self, life: Life) -> list[InPlace]:
        told: list[InPlace] = []
        while not life.at_end:
            try:
                size = life.control.recv_into(self.fabric.packet)
            except BlockingIOError:
                break
            except ConnectionResetError:
                size = 0
            if not size:
                life.at_end = True
                break
            message = life.parts.take(self.fabric.packet[:size])
            match message:
                case FactsTold() | AnswerTold() | ObservationTold() | ExitTold():
                    told.append(message)
                case FileTold():
                    _keep_books(life.core.disks[message.log_dir], message)
                case BytesTold():
                    for name in self.bytes.__slots__:
                        setattr(self.bytes, name, self._bytes_before[name] + getattr(message.counts, name))
                case OutsiderTold():
                    self.fabric.outsider(message.client)
                case SettledTold():
                    life.settled = message.number
                    self.fabric.settled_some()
        return told

    def _told(self, life: Life, what: AnswerTold | ObservationTold | ExitTold) -> None:
        if isinstance(what, ObservationTold):
            self._observe(life, what)
        elif isinstance(what, ExitTold):
            life.said_why = True
            self.fabric.exits.append((self.name, what.halted))
            self._leave()
        else:
            answer = life.answers.pop(what.number, None)
            if answer is not None:
                answer(what.value)

    def _observe(self, life: Life, told: ObservationTold) -> None:
        tap = self.fabric.tap
        if tap is None:
            return
        observe = life.observers.get(told.connection) or tap.open(told.client, self.name)
        life.observers[told.connection] = observe
        observe(told.observation, told.at_us)
        if isinstance(told.observation, ConnectionEnded):
            del life.observers[told.connection]

    # ---------------------------------------------------------------------------------------------------------- life

    def start(self, nursery: trio.Nursery, core: NodeCore, *, serves: bool) -> None:
        assert self.process is None, f"{self.name} runs already"
        assert isinstance(core, RemoteCore)
        core.host = self
        self.powered, self.paused = True, False
        self.fabric.lit(self.name)
        self._bytes_before = {name: getattr(self.bytes, name) for name in self.bytes.__slots__}
        self.process = Process()
        ours, theirs = control_pair()
        state = self.fabric.state_around(self.name, core)
        own = self.fabric.launch(self.fabric.order_for(self.name, core.incarnation, state), theirs)
        theirs.close()
        life = Life(own, ours, core, Source(lambda: self._read(life), lambda what: self._told(life, what)))
        life.state = state
        self._life = life
        self.fabric.time.listen_to(life.source)
        self.fabric.nursery.start_soon(self._attend, life)

    async def _attend(self, life: Life) -> None:
        """A step for whatever the process tells; then its end."""
        time = self.fabric.time
        with life.control:
            while not life.at_end:
                await trio.lowlevel.wait_readable(life.control)
                time.enter()
        time.gather_all()
        time.leave(life.source)
        for observe in life.observers.values():
            observe(ConnectionEnded(f"the process of {self.name} is gone"), time.now_us)
        life.end()
        if self._life is life:
            self._life = None
            if self.process is not None and not life.said_why:
                self._leave()
                self.fabric.exits.append((self.name, f"its process has died ({_death(life.exit_code)})"))
                time.enter()

    async def seize(self) -> None:
        """SIGSTOP first: what it has done is told and looked at before it is gone."""
        life = self._life
        if life is None:
            return
        life.seized = True
        _signal(life, signal.SIGSTOP)
        with trio.move_on_after(SETTLE_S):
            while not _is_stopped(life):
                await trio.sleep(0.001)
        self.fabric.time.gather_all()
        self.fabric.time.enter()

    async def kill(self) -> None:
        """A real SIGKILL."""
        life = self._life
        self._leave()
        if life is not None:
            life.said_why = True
            _signal(life, signal.SIGKILL)
            await life.finished.wait()
            self.fabric.time.enter()

    async def power_off(self) -> None:
        """SIGKILL after the others were told that they must not notice."""
        self.powered = False
        self.fabric.darkened(self.name)
        await self.fabric.settle()
        life = self._life
        await self.kill()
        for disk in () if life is None else life.core.disks.values():
            disk.look()

    def end_at_once(self) -> None:
        """The run is over."""
        life, self._life = self._life, None
        if life is not None:
            _signal(life, signal.SIGKILL)
            life.end()

    def pause(self) -> None:
        super().pause()
        if self._life is not None:
            _signal(self._life, signal.SIGSTOP)

    def resume(self) -> None:
        super().resume()
        if self._life is not None:
            _signal(self._life, signal.SIGCONT)

    # ---------------------------------------------------------------------------------------------------------- state

    def bring_up_to_date(self, number: int) -> None:
        """Tell the process what has changed around it."""
        life = self._life
        if life is None:
            return
        state = self.fabric.state_around(self.name, life.core)
        if state != life.state:
            life.state, life.asked_to_settle = state, number
            self.order(Settle(number, state))

    @property
    def has_settled(self) -> bool:
        life = self._life
        return life is None or self.paused or life.seized or life.at_end or life.settled >= life.asked_to_settle


class ProcessFabric(NeighbourFabric):
    """The world of the process that runs a cluster of processes.

    nodes: names of the machines whose processes are to be real ones     reads_along: they tell what clients of
    somebody else's do, for `tap`
    """

    time: GatheringTime

    def __init__(
        self,
        time: GatheringTime,
        network: Network,
        trace: TraceLog,
        api_name: Callable[[int], str],
        *,
        nodes: Sequence[str],
        launch: Launch,
        reads_along: bool = False,
        bind_host: str = "127.0.0.1",
        ports: dict[str, int] | None = None,
    ) -> None:
        self._addresses: dict[str, Address] = {}
        self._origins: dict[str, str] = {}
        super().__init__(
            time,
            network,
            trace,
            api_name,
            servers=self._addresses,
            sources=self._origins,
            bind_host=bind_host,
            ports=ports,
        )
        self.launch = launch
        self.packet = memoryview(bytearray(PACKET_BYTES))
        self._nodes = nodes
        self._reads_along = reads_along
        self._settling = 0
        self._settled = trio.Event()

    def add_host(self, name: str) -> Host:
        self._origins[name] = source_of(len(self._origins))
        if name not in self._nodes:
            return super().add_host(name)
        host = self.hosts[name] = RemoteHost(self, name)
        return host

    def address(self, name: str, port: int) -> Address:
        address = self._addresses[name] = super().address(name, port)
        return address

    def order_for(self, name: str, incarnation: int, state: NodeState) -> NodeOrder:
        return NodeOrder(
            name=name,
            incarnation=incarnation,
            started=self.time.started,
            bind_host=self._addresses[name][0],
            servers=dict(self._addresses),
            sources=dict(self._origins),
            reads_along=self._reads_along,
            measures_requests=self.time.measures_requests,
            state=state,
        )

    def close(self) -> None:
        for host in self._remote():
            host.end_at_once()
        super().close()

    def _remote(self) -> list[RemoteHost]:
        return [host for host in self.hosts.values() if isinstance(host, RemoteHost)]

    # --------------------------------------------------------------------------------------------------------- faults

    def darkened(self, name: str) -> None:
        self.dark = (*self.dark, name)

    def lit(self, name: str) -> None:
        self.dark = tuple(other for other in self.dark if other != name)

    def state_around(self, name: str, core: RemoteCore) -> NodeState:
        return NodeState(
            links=tuple(LinkState.of(link) for link in self.network.links() if name in (link.source, link.target)),
            holds=tuple(self.network.holds),
            dark=self.dark,
            disks={log_dir: DiskState.of(disk) for log_dir, disk in core.disks.items()},
            clock_offset_us=core.clock.offset_us,
        )

    async def settle(self) -> None:
        self._settling += 1
        number = self._settling
        remote = self._remote()
        for host in remote:
            host.bring_up_to_date(number)
        with trio.move_on_after(SETTLE_S):
            while not all(host.has_settled for host in remote):
                self._settled = trio.Event()
                await self._settled.wait()
        self.move_on()

    def settled_some(self) -> None:
        self._settled.set()

    async def stand_still(self) -> None:
        for host in self._remote():
            await host.seize()

    async def reset(self, one: str, two: str) -> int:
        for host in self._remote():
            if host.name in (one, two):
                host.order(Reset(two if host.name == one else one))
        return await super().reset(one, two)


def _keep_books(disk: Disk, told: FileTold) -> None:
    match told.how:
        case "opened":
            disk.opened(told.path, told.size)
        case "forgotten":
            disk.forget(told.path)
        case "truncated":
            disk.truncated(told.path, told.size)
        case "flushed":
            disk.kept(told.path, told.size)


def _signal(life: Life, number: int) -> None:
    if not life.finished.is_set() and life.own.pid is not None and life.own.exitcode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(life.own.pid, number)


def _is_stopped(life: Life) -> bool:
    """source: proc(5), field 3 of /proc/pid/stat"""
    if life.finished.is_set():
        return True
    try:
        text = Path(f"/proc/{life.own.pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] in STOPPED


def _death(exit_code: int | None) -> str:
    if exit_code is None:
        return "it closed its control pair and lives on"
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
