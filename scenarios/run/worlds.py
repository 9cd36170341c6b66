"""The world that a scenario is played in: virtual time between simulated machines, or TCP and the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.network.links import Latency, Network
from cluster.network.world import Fabric
from cluster.protocol.versions import api_name
from cluster.security import OPEN, ListenerSecurity
from replica.trace.events import TraceLog
from scenarios.language.spec import DEFAULT_LATENCY, Scenario
from scenarios.language.steps import Delay

if TYPE_CHECKING:
    from cluster.live.fabric import TcpFabric
    from cluster.live.processes import ProcessFabric

NewWorld = Callable[[Scenario, TraceLog, Path], Fabric]
"""Makes a world without machines for one run, whose nodes have their logs below the given directory."""


def simulated(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
    return _simulated(scenario, trace, measures_requests=False)


def measured(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
    """The simulated world, with an event more for every request: the same run, apart from the numbers of its events.

    Live, every request is measured; here a run is played again for that, which takes less time than every run would.
    """
    return _simulated(scenario, trace, measures_requests=True)


def _simulated(scenario: Scenario, trace: TraceLog, *, measures_requests: bool) -> Fabric:
    from cluster.network.fabric import SimulatedFabric
    from cluster.network.virtual_time import VirtualTime

    network = Network(scenario.seed, link_latency(scenario.network.latency), {})
    return SimulatedFabric(VirtualTime(trace, measures_requests=measures_requests), network, trace, api_name)


def live(
    scenario: Scenario,
    trace: TraceLog,
    log_root: Path,
    *,
    bind_host: str = "127.0.0.1",
    ports: Mapping[str, int] | None = None,
    security: ListenerSecurity = OPEN,
) -> TcpFabric:
    """Brokers on free ports of the loopback, unless others are asked for. ports, security: as of TcpFabric"""
    # Imports that would be made when they are first needed: the clock is about to start.
    import networkx  # noqa: F401

    from cluster.live.fabric import ServerDoors, TcpFabric
    from cluster.live.time import LiveTime

    return TcpFabric(
        LiveTime(trace),
        Network(scenario.seed, live_latency(scenario), {}),
        trace,
        api_name,
        ServerDoors(bind_host=bind_host, ports=ports or {}, security=security),
    )


def processes(
    scenario: Scenario,
    trace: TraceLog,
    log_root: Path,
    *,
    bind_host: str = "127.0.0.1",
    ports: Mapping[str, int] | None = None,
    security: ListenerSecurity = OPEN,
    reads_along: bool = False,
) -> ProcessFabric:
    """As `live`, and every broker and controller is a separate process. reads_along: as of ProcessFabric"""
    from cluster.live.fabric import ServerDoors
    from cluster.live.gathering import GatheringTime
    from cluster.live.processes import ProcessFabric
    from scenarios.run.node_process import launcher

    launch = launcher(scenario, log_root)
    return ProcessFabric(
        GatheringTime(trace),
        Network(scenario.seed, live_latency(scenario), {}),
        trace,
        api_name,
        ServerDoors(bind_host=bind_host, ports=ports or {}, security=security),
        nodes=(*scenario.cluster.controllers, *scenario.cluster.brokers),
        launch=launch,
        reads_along=reads_along,
    )


def live_latency(scenario: Scenario) -> Latency:
    """Only latency that the file asks for is added: TCP has its own latency, which replaces the default."""
    asked = scenario.network.latency
    return Latency("constant", 0) if asked == DEFAULT_LATENCY else link_latency(asked)


def link_latency(delay: Delay) -> Latency:
    if delay.kind == "uniform":
        return Latency("uniform", delay.least_us, delay.least_us + delay.spread_us)
    return Latency(delay.kind, delay.least_us, delay.spread_us)
