"""A machine whose node is a real process: SIGKILL kills it, SIGSTOP pauses it."""

from __future__ import annotations

import contextlib
import pickle
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import trio

from cluster.clocks import WallClock
from cluster.live.control import (
    AnswerTold,
    Ask,
    BytesTold,
    EventsTold,
    ExitTold,
    FileTold,
    ObservationTold,
    Order,
    OutsiderTold,
    Settle,
    SettledTold,
    control_pair,
)
from cluster.live.gathering import EventSource, InPlace
from cluster.live.node_life import Life
from cluster.live.observations import ConnectionEnded
from cluster.live.remote_core import RemoteCore
from cluster.network.host import Host, Process
from cluster.network.world import SETTLE_S, ProcessExit
from cluster.node import Action
from replica.log.files.disk import Disk

if TYPE_CHECKING:
    from cluster.live.processes import ProcessFabric


class RemoteHost(Host):
    """A machine whose node is a real process."""

    fabric: ProcessFabric
    reports_all = False

    def __init__(self, fabric: ProcessFabric, name: str) -> None:
        super().__init__(fabric, name)
        self._life: Life | None = None
        self._number = 0

    # ------------------------------------------------------------------------------------------------------- talking

    def call(self, method: Callable[[int], list[Action]]) -> None:
        """Call a method of the RemoteCore, which forwards it to the process."""
        method(self.time.now_us)

    def ask(self, method: str, *arguments: object, answer: Callable[..., None] | None = None) -> list[Action]:
        assert self._life is not None, f"{self.name} is not running"
        self._number += 1
        if answer is not None:
            self._life.answers[self._number] = answer
        self.order(Ask(self._number, method, arguments, answered=answer is not None))
        return []

    def stand_in(self, incarnation: int, disks: Mapping[str, Disk], clock: WallClock) -> RemoteCore:
        return RemoteCore(self, incarnation, disks, clock)

    def order(self, order: Order) -> None:
        """Send an order to the process.

        Simplified: an order is dropped if the socket of a stopped process is full.
        """
        if self._life is not None:
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                self._life.control.send(pickle.dumps(order, pickle.HIGHEST_PROTOCOL))

    def _read(self, life: Life) -> list[InPlace]:
        change: list[InPlace] = []
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
                case EventsTold() | AnswerTold() | ObservationTold() | ExitTold():
                    change.append(message)
                    if isinstance(message, EventsTold):
                        for _, _, event in message.events:
                            life.note_held(event)
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
        return change

    def _handle_report(self, life: Life, what: AnswerTold | ObservationTold | ExitTold) -> None:
        if isinstance(what, ObservationTold):
            self._observe(life, what)
        elif isinstance(what, ExitTold):
            life.said_why = True
            self.fabric.exits.append(ProcessExit(self.name, what.how, what.why))
            self._leave()
        else:
            answer = life.answers.pop(what.number, None)
            if answer is not None:
                answer(what.value)

    def _observe(self, life: Life, change: ObservationTold) -> None:
        tap = self.fabric.tap
        if tap is None:
            return
        observe = life.observers.get(change.connection) or tap.open(change.client, self.name)
        life.observers[change.connection] = observe
        observe(change.observation, change.at_us)
        if isinstance(change.observation, ConnectionEnded):
            del life.observers[change.connection]

    # ---------------------------------------------------------------------------------------------------------- life

    def launch(self, core: RemoteCore) -> None:
        assert self.process is None, f"{self.name} is already running"
        self.powered, self.paused = True, False
        self.fabric.lit(self.name)
        self._bytes_before = {name: getattr(self.bytes, name) for name in self.bytes.__slots__}
        self.process = Process()
        ours, theirs = control_pair()
        state = self.fabric.state_around(self.name, core)
        own = self.fabric.launch(self.fabric.order_for(self.name, core.incarnation, state), theirs)
        theirs.close()
        life = Life(
            own, ours, core, EventSource(lambda: self._read(life), lambda what: self._handle_report(life, what))
        )
        life.state = state
        self._life = life
        self.fabric.time.listen_to(life.source)
        self.fabric.nursery.start_soon(self._attend, life)

    async def _attend(self, life: Life) -> None:
        """Take a step for each message from the process until the last one, then end `life`."""
        time = self.fabric.time
        with life.control:
            while not life.at_end:
                await trio.lowlevel.wait_readable(life.control)
                time.enter()
        time.gather_all()
        time.leave(life.source)
        for observe in life.observers.values():
            observe(ConnectionEnded(f"the process of {self.name} has ended"), time.now_us)
        life.end()
        if self._life is life:
            self._life = None
            if self.process is not None and not life.said_why:
                self._leave()
                self.fabric.exits.append(ProcessExit(self.name, *life.death))
                time.enter()

    def halt(self) -> None:
        if self._life is not None:
            self._life.seized = True
            self._life.signal(signal.SIGSTOP)

    async def seize(self) -> None:
        """Stop the process by SIGSTOP, and read all events that it has sent."""
        life = self._life
        if life is None:
            return
        self.halt()
        with trio.move_on_after(SETTLE_S):
            while not life.is_stopped:
                await trio.sleep(0.001)
        self.fabric.time.gather_all()
        self.fabric.time.enter()

    async def kill(self) -> None:
        """Kill the process by SIGKILL.

        Simplified: a message that a fault holds waits in the memory of its sender's process and is lost with it. In
        other runs it is delivered when the fault ends, as a kernel would do.
        """
        life = self._life
        self._leave()
        if life is not None:
            life.said_why = True
            life.signal(signal.SIGKILL)
            await life.finished.wait()
            self.fabric.time.enter()
            for held in life.held:
                self.fabric.events.lost_with_its_process(held)

    async def power_off(self) -> None:
        """Kill the process after all other nodes have been instructed not to notice its end."""
        self.powered = False
        self.fabric.darkened(self.name)
        await self.fabric.settle()
        life = self._life
        await self.kill()
        for disk in () if life is None else life.core.disks.values():
            disk.look()

    def end_at_once(self) -> None:
        """Kill the process at the end of the run."""
        life, self._life = self._life, None
        if life is not None:
            life.signal(signal.SIGKILL)
            life.end()

    def pause(self) -> None:
        super().pause()
        if self._life is not None:
            self._life.signal(signal.SIGSTOP)

    def resume(self) -> None:
        super().resume()
        if self._life is not None:
            self._life.signal(signal.SIGCONT)

    # ---------------------------------------------------------------------------------------------------------- state

    def bring_up_to_date(self, number: int) -> None:
        """Send the node's environment to the process if it has changed.

        Args:
            number: number of this round of changes, which the process confirms.
        """
        if self._life is not None and self.fabric.state_around(self.name, self._life.core) != self._life.state:
            self.ask_to_settle(number)

    def ask_to_settle(self, number: int) -> None:
        life = self._life
        if life is not None:
            life.state, life.asked_to_settle = self.fabric.state_around(self.name, life.core), number
            self.order(Settle(number, life.state))

    @property
    def has_settled(self) -> bool:
        life = self._life
        return life is None or self.paused or life.seized or life.at_end or life.settled >= life.asked_to_settle


def _keep_books(disk: Disk, change: FileTold) -> None:
    match change.how:
        case "opened":
            disk.opened(change.path, change.size)
        case "forgotten":
            disk.forget(change.path)
        case "truncated":
            disk.truncated(change.path, change.size)
        case "flushed":
            disk.kept(change.path, change.size)
