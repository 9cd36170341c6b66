"""Performs the steps that act on disks and clocks of simulated machines, and undoes them after `for`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from replica.log.files.disk import Disk
from replica.wording import listed
from scenarios.language.selectors import Selector
from scenarios.language.steps import Payload
from scenarios.language.values.links import service_time_text
from scenarios.language.values.trees import time_text
from scenarios.language.verbs.clock import BumpClock, StrobeClock
from scenarios.language.verbs.disk import Bitflip, FailDisk, FillDisk, SlowDisk
from scenarios.run.cluster_under_test import ClusterUnderTest

# ---------------------------------------------------------------------------------------------------------- fault words
#
# The result of a step, and the decorator that finds the method for a verb.

Nodes = tuple[str, ...]
LOOK_US = 100_000
"""Microseconds between two calls of Course.go_on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a Course. `complete` is True if all of the action was done."""

    sentence: str
    complete: bool


class Course(Protocol):
    """An action that continues after its step. `go_on` is called every LOOK_US until it returns an Outcome."""

    @property
    def progress(self) -> str:
        """Return what has been done so far, and what the action waits for."""

    def go_on(self) -> Outcome | None: ...


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a step.

    Attributes:
        targets: nodes that the step selected; the step's `as` gives them a label.
        sentence: description in the trace.
        undo: function that ends the fault and returns a sentence for the trace; None if nothing can be undone.
        ended: names of the faults that the step ended.
        answer: text for an operator, None for `sentence`.
        refused: True if the controller has refused every request of the step.
        course: action that continues after the step until it ends by itself, None if there is none.
        requests: number of requests after which the fault ends by itself; None if it does not.
    """

    targets: Nodes
    sentence: str
    undo: Callable[[], Awaitable[str]] | None = None
    ended: Sequence[str] = ()
    answer: str | None = None
    refused: bool = False
    course: Course | None = None
    requests: int | None = None


Perform = Callable[..., Awaitable[Done]]


def performs(verb: type[Payload]) -> Callable[[Perform], Perform]:
    """Decorate a method that performs the steps of a verb. The method gets the step's name and its payload."""

    def declare(method: Perform) -> Perform:
        method.performs = verb  # type: ignore[attr-defined]
        return method

    return declare


def performers_of(owner: object) -> dict[type[Payload], Perform]:
    """Return the methods of an object that `performs` decorates, by the payload type of their verb."""
    methods = vars(type(owner)).items()
    return {method.performs: getattr(owner, name) for name, method in methods if hasattr(method, "performs")}


def by_number(nodes: Sequence[str], singular: str, plural: str) -> str:
    return singular if len(nodes) == 1 else plural


class DiskFaults:
    """Performs the steps that inject faults of disks and clocks. `resolve` selects a step's nodes when it fires."""

    def __init__(self, cluster: ClusterUnderTest, resolve: Callable[[Selector], Nodes]) -> None:
        self._cluster = cluster
        self._resolve = resolve

    # --------------------------------------------------------------------------------------------------------- disk

    @performs(Bitflip)
    async def _bitflip(self, name: str, payload: Bitflip) -> Done:
        nodes = self._resolve(payload.broker)
        self._cluster.flip_bit(nodes, payload.partition, payload.offset)
        where = f"the batch at offset {payload.offset} of {payload.partition}"
        return Done(nodes, f"a bit was flipped in {where} on {listed(nodes)}")

    @performs(SlowDisk)
    async def _slow_disk(self, name: str, payload: SlowDisk) -> Done:
        nodes = self._resolve(payload.brokers)
        disks = self._disks_of(nodes, payload.log_dir)
        for disk in disks:
            disk.speed.in_force[name] = payload.service_time

        async def undo() -> str:
            for disk in disks:
                disk.speed.in_force.pop(name, None)
            return f"{_disks(nodes, payload.log_dir)} {by_number(nodes, 'was', 'were')} as fast as before again"

        what = service_time_text(payload.service_time)
        were = by_number(nodes, "was", "were")
        return Done(nodes, f"{_disks(nodes, payload.log_dir)} {were} slowed down: {what}", undo)

    @performs(FillDisk)
    async def _fill_disk(self, name: str, payload: FillDisk) -> Done:
        nodes = self._resolve(payload.brokers)
        disks = self._disks_of(nodes, payload.log_dir)
        for disk in disks:
            disk.full = True

        async def undo() -> str:
            for disk in disks:
                disk.full = False
            return f"{_disks(nodes, payload.log_dir)} had space again"

        return Done(nodes, f"{_disks(nodes, payload.log_dir)} became full", undo)

    @performs(FailDisk)
    async def _fail_disk(self, name: str, payload: FailDisk) -> Done:
        nodes = self._resolve(payload.brokers)
        for node in nodes:
            for disk in self._cluster.disks(node, payload.log_dir):
                self._cluster.break_disk(node, disk)
        return Done(nodes, f"{_disks(nodes, payload.log_dir)} failed")

    def _disks_of(self, nodes: Nodes, log_dir: str | None) -> list[Disk]:
        return [disk for node in nodes for disk in self._cluster.disks(node, log_dir)]

    # -------------------------------------------------------------------------------------------------------- clock

    @performs(BumpClock)
    async def _bump_clock(self, name: str, payload: BumpClock) -> Done:
        nodes = self._resolve(payload.brokers)
        self._set_clocks(nodes, payload.by_us)

        async def undo() -> str:
            self._set_clocks(nodes, -payload.by_us)
            return f"{_clocks(nodes)} jumped {_distance(-payload.by_us)}"

        return Done(nodes, f"{_clocks(nodes)} jumped {_distance(payload.by_us)}", undo)

    def _set_clocks(self, nodes: Nodes, by_us: int) -> None:
        for node in nodes:
            self._cluster.machines[node].clock.jump(by_us)

    @performs(StrobeClock)
    async def _strobe_clock(self, name: str, payload: StrobeClock) -> Done:
        nodes = self._resolve(payload.brokers)
        strobe = _Strobe(self._cluster, nodes, payload)
        strobe.jump()

        async def undo() -> str:
            strobe.stop()
            return f"{_clocks(nodes)} stopped jumping"

        period = time_text(payload.period_us)
        sentence = f"{_clocks(nodes)} jumped {_distance(payload.by_us)} and back every {period}"
        return Done(nodes, sentence, undo)


class _Strobe:
    """A repeated action that moves clocks forward and back until it is stopped."""

    def __init__(self, cluster: ClusterUnderTest, nodes: Nodes, payload: StrobeClock) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._payload = payload
        self._away = False
        self._stopped = False

    def jump(self) -> None:
        if self._stopped:
            return
        self._move()
        self._cluster.time.at(self._cluster.time.now_us + self._payload.period_us, self.jump)

    def stop(self) -> None:
        self._stopped = True
        if self._away:
            self._move()

    def _move(self) -> None:
        by_us = -self._payload.by_us if self._away else self._payload.by_us
        self._away = not self._away
        for node in self._nodes:
            self._cluster.machines[node].clock.jump(by_us)


def _clocks(nodes: Nodes) -> str:
    return f"the wall {by_number(nodes, 'clock', 'clocks')} of {listed(nodes)}"


def _distance(by_us: int) -> str:
    return f"{time_text(abs(by_us))} {'ahead' if by_us > 0 else 'back'}"


def _disks(nodes: Nodes, log_dir: str | None) -> str:
    which = f" {log_dir}" if log_dir else ""
    return f"the {by_number(nodes, 'disk', 'disks')}{which} of {listed(nodes)}"
