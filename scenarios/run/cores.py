"""Builds the cores (state machines without I/O) of a scenario's nodes: brokers, controllers, registry and clients."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import UUID

import trio

from cluster.broker.broker import BrokerCore, BrokerTimes, broker_base
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.broker.replicas.resting import FEW, MANY
from cluster.client.api_versions import discovers_versions
from cluster.client.events import record_name
from cluster.client.node import ClientBase
from cluster.client.producer.batch import ProducerRecord
from cluster.client.producer.producer import ProducerCore
from cluster.clocks import WallClock
from cluster.config import GroupConsumerConfig, ShareConsumerConfig
from cluster.controller_node.decisions import Chronicle
from cluster.controller_node.node import ControllerBase, ControllerCore
from cluster.network.host import Host
from cluster.network.world import Fabric
from cluster.operated import NodeElsewhere, OperatedBroker, OperatedController, OperatedNode, OperatedRegistry
from replica.log.batches.records import Record
from replica.log.files.disk import Disk
from replica.trace.events import TraceLog
from scenarios.language.spec import PHASES_END_US, Phases, Scenario, Workload
from scenarios.run.workload import value_of

if TYPE_CHECKING:
    from cluster.client.consumer.consumer import ConsumerCore
    from cluster.client.consumer.fetcher import TakeRecord
    from cluster.client.consumer.share_consumer import ShareConsumerCore
    from cluster.client.transform.transform import TransformCore
    from cluster.controller_node.registry_node import RegistryCore
    from cluster.topic_pattern import TopicPattern

    ServerCore = BrokerCore | ControllerCore | RegistryCore

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
Kind = Literal["broker", "registry", "controller"]


def kind_of(scenario: Scenario, name: str) -> Kind:
    """Return the kind of the server `name`. In the ZooKeeper era, a scenario's controller is the registry."""
    if name in scenario.cluster.brokers:
        return "broker"
    return "registry" if scenario.rules.membership == "zk-session" else "controller"


def _disk(root: Path, log_dir: str) -> Disk:
    """Return a disk without real fsync calls, which are useless because the page cache is a model."""
    return Disk(root, sync=False)


def new_disks(
    scenario: Scenario, name: str, log_dir: Path, make: Callable[[Path, str], Disk] = _disk
) -> dict[str, Disk]:
    """Return new, empty disks, one per log directory, with the speed that the scenario's `disk` block sets."""
    broker = scenario.cluster.brokers.get(name)
    names = ("",) if broker is None else scenario.cluster.log_dirs(name)
    disks = {directory: make(log_dir / directory, directory) for directory in names}
    if broker is not None and broker.disk is not None:
        for disk in disks.values():
            disk.speed.in_force["disk"] = broker.disk
    return disks


class Cores:
    """A factory of cores. Each incarnation of a node gets its own random numbers."""

    def __init__(self, scenario: Scenario, fabric: Fabric, trace: TraceLog) -> None:
        self._scenario = scenario
        self._fabric = fabric
        self._trace = trace
        self._chronicle = Chronicle()
        cluster = scenario.cluster
        self._controllers = {cluster.ids[name]: fabric.address(name, CONTROLLER_PORT) for name in cluster.controllers}
        self.bootstrap = [fabric.address(name, BROKER_PORT) for name in cluster.brokers]

    def server(
        self, name: str, incarnation: int, log_dir: Path, disks: Mapping[str, Disk], clock: WallClock
    ) -> ServerCore:
        match kind_of(self._scenario, name):
            case "broker":
                return self.broker(name, incarnation, disks, clock)
            case "registry":
                return self.registry(name, log_dir, disks[""])
            case "controller":
                return self.controller(name, incarnation, log_dir, disks[""], clock)

    def broker(self, name: str, incarnation: int, disks: Mapping[str, Disk], clock: WallClock) -> BrokerCore:
        scenario, cluster = self._scenario, self._scenario.cluster
        stream = random.Random(f"{scenario.seed}/incarnation/{name}/{incarnation}")
        host, port = self._fabric.address(name, BROKER_PORT)
        security = self._fabric.security
        base = broker_base(
            identity=BrokerIdentity(
                broker_id=cluster.ids[name],
                name=name,
                incarnation_id=UUID(int=stream.getrandbits(128), version=4),
                host=host,
                port=port,
                rack=cluster.racks.get(name),
                protocol=security.protocol,
                endpoints=security.endpoints(name, host, port),
                bound=security.bound(name, host, port),
            ),
            config=cluster.broker_config(name, scenario.rules.release),
            rules=scenario.rules,
            names=cluster.names,
            disks=disks,
            recorder=self._trace,
            clock=clock,
        )
        times = BrokerTimes(
            now=lambda: self._fabric.time.now_us,
            cpu=cluster.brokers[name].cpu,
            stopwatch=self._fabric.time.stopwatch,
            slicing=self._fabric.time.slicing,
            works_apart=self._fabric.is_live,
            phase_us=self._check_phase_us(name, incarnation) or 0,
            heartbeat_phase_us=self._heartbeat_phase_us(name, incarnation),
        )
        return BrokerCore(
            base,
            times,
            controllers=self._controllers,
            security=security,
            rests_above=FEW if self._fabric.is_live else MANY,
            faults=self._fabric.network.request_faults,
        )

    def _check_phase_us(self, name: str, incarnation: int) -> int | None:
        return self._phase_us(self._scenario.cluster.phases, f"phase/{name}", name, incarnation)

    def _heartbeat_phase_us(self, name: str, incarnation: int) -> int | None:
        return self._phase_us(self._scenario.cluster.heartbeats, f"heartbeats/{name}", name, incarnation)

    def _phase_us(self, phases: Phases, stream: str, name: str, incarnation: int) -> int | None:
        """Return the time of a node's first periodic check, or None for the default.

        Only the first incarnation has such a time. Later ones begin their checks when they start.

        Args:
            phases: times by node, or "random".
            stream: name of the random stream for "random".
        """
        if incarnation > 1:
            return None
        if phases == "random":
            return random.Random(f"{self._scenario.seed}/{stream}").randrange(PHASES_END_US)
        return phases.get(name)

    def registry(self, name: str, log_dir: Path, disk: Disk) -> RegistryCore:
        from cluster.controller_node.registry_node import RegistryCore

        cluster = self._scenario.cluster
        return RegistryCore(
            node_id=cluster.ids[name],
            names=cluster.names,
            config=cluster.controller_config(self._scenario.rules.release),
            log_dir=log_dir,
            disk=disk,
            recorder=self._trace,
            security=self._fabric.security,
        )

    def controller(self, name: str, incarnation: int, log_dir: Path, disk: Disk, clock: WallClock) -> ControllerCore:
        scenario, cluster = self._scenario, self._scenario.cluster
        stream = random.Random(f"{scenario.seed}/quorum/{name}/{incarnation}")
        return ControllerCore(
            ControllerBase(
                controller_id=cluster.ids[name],
                names=cluster.names,
                config=cluster.controller_config(scenario.rules.release),
                rules=scenario.rules,
                log_dir=log_dir,
                disk=disk,
                clock=clock,
                recorder=self._trace,
                initial_controllers=[cluster.ids[voter] for voter in cluster.initial_controllers],
                is_first_process=incarnation == 1,
            ),
            voters=self._controllers,
            draw=stream.randrange,
            chronicle=self._chronicle,
            security=self._fabric.security,
            session_check_phase_us=self._check_phase_us(name, incarnation),
            now=lambda: self._fabric.time.now_us,
            slicing=self._fabric.time.slicing,
        )

    def client(
        self, workload: Workload, incarnation: int, clock: WallClock
    ) -> ProducerCore | ConsumerCore | ShareConsumerCore | TransformCore:
        stream = random.Random(f"{self._scenario.seed}/workload/{workload.name}/{incarnation}")
        if workload.kind == "producer":
            return self._producer(workload, workload.topic, stream, clock)
        if workload.kind == "consumer":
            return self._consumer(workload, stream)
        if workload.kind == "share_consumer":
            return self._share_consumer(workload, stream)
        from cluster.client.transform.transform import Rounds, TransformCore

        config = workload.consumer_config(self._scenario.rules.release)
        assert isinstance(config, GroupConsumerConfig)
        return TransformCore(
            partial(self._consumer, workload, stream),
            self._producer(workload, workload.to, stream, clock),
            partial(output_of, workload),
            Rounds(
                group_id=config.group_id,
                is_transactional=bool(workload.producer_config().transactional_id),
                offsets=workload.offsets,
                names_member=workload.names_member,
                batch=min(workload.batch, config.max_poll_records),
                flushes=workload.flushes,
                process_us=workload.process_us,
            ),
        )

    def _producer(self, workload: Workload, topic: str, stream: random.Random, clock: WallClock) -> ProducerCore:
        config = workload.producer_config(self._scenario.rules.release)
        return ProducerCore(self._client_base(workload, stream), config, topic, self._scenario.rules, clock=clock)

    def _client_base(self, workload: Workload, stream: random.Random) -> ClientBase:
        return ClientBase(
            name=workload.name,
            bootstrap=self.bootstrap,
            recorder=self._trace,
            rng=stream,
            names=self._scenario.cluster.names,
            cpu=workload.cpu,
            discovers_versions=discovers_versions(self._scenario.rules.release),
        )

    def _consumer(self, workload: Workload, stream: random.Random, take: TakeRecord | None = None) -> ConsumerCore:
        from cluster.client.consumer.consumer import ConsumerCore

        config = workload.consumer_config(self._scenario.rules.release)
        if take is not None:  # For transforms, one poll returns the records of one round.
            config = replace(config, max_poll_records=min(workload.batch, config.max_poll_records))
        topics: Sequence[str] | TopicPattern = workload.topics
        if workload.pattern:
            from cluster.topic_pattern import TopicPattern

            topics = TopicPattern(workload.pattern)
        return ConsumerCore(
            self._client_base(workload, stream),
            config,
            topics,
            self._scenario.rules,
            take=take,
            process_us=0 if take is not None else workload.process_us,
        )

    def _share_consumer(self, workload: Workload, stream: random.Random) -> ShareConsumerCore:
        from cluster.client.consumer.share_consumer import ACCEPT, REJECT, RELEASE, ShareConsumerCore

        config = workload.consumer_config(self._scenario.rules.release)
        assert isinstance(config, ShareConsumerConfig)
        draws = random.Random(f"{stream.random()}/outcomes")

        def outcome(record: str) -> int:
            for kind, share in ((REJECT, workload.rejects), (RELEASE, workload.releases)):
                if record in share.names or (share.ppm and draws.randrange(1_000_000) < share.ppm):
                    return kind
            return ACCEPT

        base, rules = self._client_base(workload, stream), self._scenario.rules
        return ShareConsumerCore(base, config, workload.topics, rules, outcome, workload.process_us)


def output_of(workload: Workload, record: Record) -> ProducerRecord:
    """Return the output of a transform for an input record: same key and size, with `prefix` before the name."""
    name = f"{workload.prefix}{record_name(record)}"
    return ProducerRecord(workload.to, None, record.key, value_of(name, len(record.value or b"")), name)


# ---------------------------------------------------------------------------------------------------------------- nodes
#
# The latest incarnations of a run's brokers and controllers, which an operator's requests reach.


class ServerNodes:
    """The brokers, controllers and registry of a run, by name.

    Attributes:
        here: cores of the servers that are not in a separate process.
    """

    def __init__(self, scenario: Scenario, cores: Cores) -> None:
        self.brokers: dict[str, OperatedBroker] = {}
        self.controllers: dict[str, OperatedController] = {}
        self.registries: dict[str, OperatedRegistry] = {}
        self.here: dict[str, ServerCore] = {}
        self._scenario = scenario
        self._cores = cores

    def named(self, name: str) -> OperatedNode | None:
        """Return the server `name`, or None if this is a client or a server that has not been started yet."""
        return self.brokers.get(name) or self.controllers.get(name) or self.registries.get(name)

    def new_life(
        self, host: Host, incarnation: int, log_dir: Path, disks: dict[str, Disk], clock: WallClock
    ) -> Callable[[trio.Nursery], None]:
        """Build a new incarnation of a node, and return a function that starts it."""
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
