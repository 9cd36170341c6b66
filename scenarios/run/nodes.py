"""The brokers and controllers of a run, each in its latest life, as an operator has them in hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from cluster.network.host import Host
from cluster.operated import NodeElsewhere, OperatedBroker, OperatedController, OperatedNode, OperatedRegistry
from cluster.wall_clock import WallClock
from replica.log.files.disk import Disk
from scenarios.language.spec import Scenario
from scenarios.run.cores import Cores, kind_of

if TYPE_CHECKING:
    from scenarios.run.cores import ServerCore


class ServerNodes:
    """By name, whether they run in this process or in another. here: the cores of those that run in this one"""

    def __init__(self, scenario: Scenario, cores: Cores) -> None:
        self.brokers: dict[str, OperatedBroker] = {}
        self.controllers: dict[str, OperatedController] = {}
        self.registries: dict[str, OperatedRegistry] = {}
        self.here: dict[str, ServerCore] = {}
        self._scenario = scenario
        self._cores = cores

    def named(self, name: str) -> OperatedNode | None:
        """None: it has not been started yet, or is a client."""
        return self.brokers.get(name) or self.controllers.get(name) or self.registries.get(name)

    def new_life(
        self, host: Host, incarnation: int, log_dir: Path, disks: dict[str, Disk], clock: WallClock
    ) -> Callable[[trio.Nursery], None]:
        """returns: a function that starts it"""
        name = host.name
        elsewhere = host.stand_in(incarnation, disks, clock)
        if elsewhere is not None:
            self._is_elsewhere(name, elsewhere)
            return lambda nursery: elsewhere.launch()
        core: ServerCore
        match kind_of(self._scenario, name):
            case "broker":
                core = self.brokers[name] = self._cores.broker(name, incarnation, disks, clock)
            case "registry":
                core = self.registries[name] = self._cores.registry(name, log_dir, disks[""])
            case "controller":
                core = self.controllers[name] = self._cores.controller(name, incarnation, log_dir, disks[""], clock)
        self.here[name] = core
        return partial(host.start, core=core, serves=True)

    def _is_elsewhere(self, name: str, node: NodeElsewhere) -> None:
        match kind_of(self._scenario, name):
            case "broker":
                self.brokers[name] = node
            case "registry":
                self.registries[name] = node
            case "controller":
                self.controllers[name] = node
