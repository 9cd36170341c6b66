"""A machine whose process is a JVM of Apache Kafka: a kill is a SIGKILL, a stop a SIGTERM, a pause a SIGSTOP."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cluster.clocks import WallClock
from cluster.kafka.jvm import Jvm
from cluster.kafka.node import KafkaNode, settle_books
from cluster.network.host import Host, Process
from cluster.network.world import ProcessExit
from cluster.node import Action
from replica.log.files.disk import Disk

if TYPE_CHECKING:
    from cluster.kafka.fabric import KafkaFabric

START_PATIENCE_US = 60_000_000
"""The longest time for which later steps wait for a starting node. A node without its controller never starts."""


class KafkaHost(Host):
    fabric: KafkaFabric

    def __init__(self, fabric: KafkaFabric, name: str) -> None:
        super().__init__(fabric, name)
        self._jvm: Jvm | None = None
        self._node: KafkaNode | None = None
        self.died_of: str | None = None
        """Why the node's latest process ended unexpectedly; None if it did not."""

    def call(self, method: Callable[[int], list[Action]]) -> None:
        """Call a method of the Python object that controls the node."""
        method(self.time.now_us)

    def stand_in(self, incarnation: int, disks: Mapping[str, Disk], clock: WallClock) -> KafkaNode:
        self._node = KafkaNode(self, disks)
        return self._node

    @property
    def is_up(self) -> bool:
        """True if the node's process runs and has reported its start."""
        return self._jvm is not None and self.process is not None and self._jvm.has_started

    # ---------------------------------------------------------------------------------------------------------- life

    def launch(self, node: KafkaNode) -> None:
        assert self.process is None, f"{self.name} is already running"
        self.powered, self.paused = True, False
        self.died_of = None
        self.process = Process()
        jvm = self._jvm = self.fabric.launch(self.name)
        self.fabric.observer.started(self.name)
        self.fabric.nursery.start_soon(self._attend, jvm)
        self.fabric.move_on()
        if self.fabric.time.has_begun:
            self.fabric.time.agenda.wait_for(lambda: self._jvm is not jvm or jvm.has_started, START_PATIENCE_US)

    async def _attend(self, jvm: Jvm) -> None:
        """Wait until the process ends by itself, then record its exit."""
        await jvm.wait()
        if self._jvm is not jvm or jvm.is_struck:
            return
        self.fabric.time.enter()
        self.fabric.observer.stopped(self.name)
        self._jvm = None
        self._end_process()
        if jvm.asked_to_stop:
            self.fabric.exits.append(ProcessExit(self.name, "stop", ""))
        else:
            by = f"signal {-jvm.exit_code}" if jvm.exit_code < 0 else f"exit code {jvm.exit_code}"
            self.died_of = f"its JVM ended ({by}): {jvm.last_words()}"
            self.fabric.exits.append(ProcessExit(self.name, "crash", self.died_of))
        self.fabric.time.enter()

    def ask_to_stop(self) -> None:
        if self._jvm is not None:
            self._jvm.asked_to_stop = True
            self._jvm.signal(signal.SIGTERM)

    def halt(self) -> None:
        if self._jvm is not None:
            self._jvm.signal(signal.SIGSTOP)

    def strike(self) -> None:
        if self._jvm is not None:
            self._jvm.is_struck = True
            self._jvm.signal(signal.SIGKILL)

    async def seize(self) -> None:
        """Stop the process by SIGSTOP, then observe everything that it has done."""
        if self._jvm is not None:
            await self._jvm.stand_still()
            self.fabric.time.enter()
            self.fabric.observer.stopped(self.name)

    async def kill(self) -> None:
        await self._finish()
        self._end_process()

    async def power_off(self) -> None:
        """Cut the machine's power: kill the process, but do not close its connections to peers."""
        self.powered = False
        await self._finish()
        self._vanish()
        for disk in () if self._node is None else self._node.disks.values():
            settle_books(disk)

    async def _finish(self) -> None:
        jvm, self._jvm = self._jvm, None
        if jvm is not None:
            jvm.signal(signal.SIGKILL)
            await jvm.ended.wait()
            self.fabric.time.enter()

    async def stand_still(self) -> None:
        """Stop the process at the end of the run."""
        if self._jvm is not None:
            await self._jvm.stand_still()

    def end_at_once(self) -> None:
        jvm, self._jvm = self._jvm, None
        if jvm is not None:
            jvm.signal(signal.SIGKILL)
            jvm.reap()

    def pause(self) -> None:
        super().pause()
        if self._jvm is not None:
            self._jvm.signal(signal.SIGSTOP)

    def resume(self) -> None:
        super().resume()
        if self._jvm is not None:
            self._jvm.signal(signal.SIGCONT)
