"""Creates the fabric of a run (hosts, network, time): simulated in virtual time, or live on TCP and the wall clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.network.links import Latency, Network
from cluster.network.world import Fabric
from cluster.protocol.versions import api_name
from replica.trace.events import TraceLog
from scenarios.language.spec import DEFAULT_LATENCY, Scenario
from scenarios.language.steps import Delay

if TYPE_CHECKING:
    from cluster.live.fabric import ServerDoors, TcpFabric
    from cluster.live.processes import ProcessFabric

NewWorld = Callable[[Scenario, TraceLog, Path], Fabric]
"""A function that creates the fabric of one run, without hosts. The path is the directory of the nodes' logs."""


def simulated(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
    return _simulated(scenario, trace, measures_requests=False)


def measured(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
    """Return a simulated fabric that also emits an event per request. All other events are as in `simulated`.

    Live runs always measure requests. A simulated run is repeated with this fabric only if its request times are
    needed, because measuring costs time.
    """
    return _simulated(scenario, trace, measures_requests=True)


def _simulated(scenario: Scenario, trace: TraceLog, *, measures_requests: bool) -> Fabric:
    from cluster.network.fabric import SimulatedFabric
    from cluster.network.virtual_time import VirtualTime

    network = Network(scenario.seed, link_latency(scenario.network.latency), {})
    return SimulatedFabric(VirtualTime(trace, measures_requests=measures_requests), network, trace, api_name)


def live(scenario: Scenario, trace: TraceLog, log_root: Path, doors: ServerDoors | None = None) -> TcpFabric:
    """Return the fabric of a live run on TCP. By default, brokers use free ports of the loopback interface."""
    # Import slow modules before the clock starts.
    import networkx  # noqa: F401

    from cluster.live.fabric import ServerDoors, TcpFabric
    from cluster.live.time import LiveTime

    network = Network(scenario.seed, live_latency(scenario), {})
    return TcpFabric(LiveTime(trace), network, trace, api_name, doors or ServerDoors())


def processes(
    scenario: Scenario,
    trace: TraceLog,
    log_root: Path,
    doors: ServerDoors | None = None,
    *,
    reads_along: bool = False,
) -> ProcessFabric:
    """Return the fabric of a live run on TCP with a process for every broker and controller.

    Args:
        reads_along: see ProcessFabric.
    """
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
        doors or ServerDoors(),
        nodes=(*scenario.cluster.controllers, *scenario.cluster.brokers),
        launch=launch,
        reads_along=reads_along,
    )


def live_latency(scenario: Scenario) -> Latency:
    """Return the latency that the scenario configures, or zero by default, because TCP has its own latency."""
    asked = scenario.network.latency
    return Latency("constant", 0) if asked == DEFAULT_LATENCY else link_latency(asked)


def link_latency(delay: Delay) -> Latency:
    if delay.kind == "uniform":
        return Latency("uniform", delay.least_us, delay.least_us + delay.spread_us)
    return Latency(delay.kind, delay.least_us, delay.spread_us)
