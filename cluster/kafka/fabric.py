"""The hosts and network of a run on Apache Kafka, where this process relays all connections.

Brokers and controllers are JVMs. A scenario's Python clients run in this process, as in other live runs. Time is the
wall clock; the run begins when every node has started and every broker knows the topics.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import trio

from cluster.kafka import storage, zookeeper
from cluster.kafka.addresses import Address, Addresses, Net, choose_ports, free_net
from cluster.kafka.admin import Admin, NoAnswer, knows_leaders
from cluster.kafka.clients.host import JavaClientHost
from cluster.kafka.clients.sight import ConnectionSight
from cluster.kafka.home import KafkaHome
from cluster.kafka.host import KafkaHost
from cluster.kafka.java_clients import JavaClients
from cluster.kafka.jvm import STARTED, Jvm, java_command, logging_property
from cluster.kafka.observe.observed import ObservedNode
from cluster.kafka.observe.observer import KafkaObserver
from cluster.kafka.properties import (
    CONSOLE,
    NodeSpec,
    properties_text,
    quorum_properties,
    server_properties,
    topic_defaults_of,
)
from cluster.kafka.relay import NearEnd, Relay, RelayEnd, RelayListener, StandIn, client_pair, refuse
from cluster.kafka.time import KafkaTime
from cluster.live.fabric import TcpFabric
from cluster.live.tcp_connection import TcpConnection
from cluster.network.host import Host
from cluster.network.links import Network
from cluster.network.world import ConnectionGone
from controller.inputs import CreateTopic, CreateTopicReply
from replica.errors import ErrorCode
from replica.ids import BrokerId
from replica.trace.events import TraceLog

WARM_UP_S = 180
"""The longest warm-up before the run begins; a loaded machine may need minutes to start five JVMs."""
POLL_S = 0.05


class KafkaNotUp(Exception):
    """The cluster did not start; the text quotes the output of its processes."""


class PlacedTopic(NamedTuple):
    """An internal topic, created before the run so that brokers do not create it themselves.

    `assignment` has each partition's replicas, the leader first.
    """

    name: str
    assignment: tuple[tuple[BrokerId, ...], ...]
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPlan:
    """The cluster to start.

    Attributes:
        specs: every broker, and every controller or the registry.
        folder: folder for files of the JVMs; the specs have their log directories.
        topics: number of topics that the scenario creates before the run begins.
        placed: topics created after them.
        features: feature versions by name, for formatting.
        java_clients: names of the clients that run in the JVM of clients.
        client_classes: compiled classes of that JVM's program; None without such clients.
    """

    specs: Mapping[str, NodeSpec]
    folder: Path
    topics: int
    placed: Sequence[PlacedTopic] = ()
    features: Mapping[str, int]
    java_clients: Sequence[str] = ()
    client_classes: Path | None = None


class KafkaFabric(TcpFabric):
    """The hosts and network of a run whose nodes are JVMs of Apache Kafka."""

    time: KafkaTime
    end_kind = RelayEnd

    def __init__(
        self,
        trace: TraceLog,
        network: Network,
        api_name: Callable[[int], str],
        home: KafkaHome,
        plan: KafkaPlan,
    ) -> None:
        specs = plan.specs
        super().__init__(KafkaTime(trace, self._may_begin), network, trace, api_name)
        self.home = home
        self.admin = Admin(self._running_brokers, self._place)
        self._specs = specs
        self._folder = plan.folder
        self._features = plan.features
        self._wanted_topics = plan.topics
        self._placed = plan.placed
        self._topics: dict[str, int] = {}
        self._knowing: dict[str, None] = {}
        """Brokers (by name) that know the leaders of all topics; a set."""
        self._listeners: list[RelayListener] = []
        self._relays: dict[TcpConnection, Relay] = {}
        """The relay of each open connection, by each of its two ends."""
        classes = plan.client_classes
        self._clients = None if classes is None else JavaClients(self, trace, classes, plan.java_clients)
        self._deadline_s = time.monotonic() + WARM_UP_S
        self._registry = next((spec for spec in specs.values() if spec.role == "registry"), None)
        """The registry, in the ZooKeeper era."""
        self._net: Net = free_net()
        brokers = [name for name, spec in specs.items() if spec.role == "broker"]
        controllers = [name for name, spec in specs.items() if spec.role != "broker"]
        self.addresses: Addresses = choose_ports(self._net.number, brokers, controllers)
        observed = {name: self._observed(name) for name in specs}
        self.observer = KafkaObserver(trace, self.time, observed, topic_defaults_of(specs.values()))

    def _observed(self, name: str) -> ObservedNode:
        spec = self._specs[name]
        return ObservedNode(
            name=name,
            node_id=spec.node_id,
            role=spec.role,
            log_dir=spec.log_dirs[0],
            console=self._console(name),
            address=self.addresses.own(name),
        )

    # ------------------------------------------------------------------------------------------------------ machines

    def add_host(self, name: str) -> Host:
        host: Host
        if name in self._specs:
            host = KafkaHost(self, name)
        elif self._clients is not None and name in self._clients.names:
            host = self._clients.host(name)
        else:
            return super().add_host(name)
        self.hosts[name] = host
        return host

    @property
    def brokers(self) -> list[Address]:
        """The addresses of the brokers for clients."""
        return [self.address(name, 0) for name, spec in self._specs.items() if spec.role == "broker"]

    def address(self, name: str, port: int) -> Address:
        return name, self.addresses.nodes[name]

    def name_of(self, address: Address) -> str:
        return self.addresses.named(address) or super().name_of(address)

    def open(self, nursery: trio.Nursery) -> None:
        super().open(nursery)
        self._write_files()
        for link in self.network.links():
            link.busy_until_us = self.time.now_us
        for target in self._specs:
            for source in (*(name for name in self._specs if name != target), None):
                listener = RelayListener(self, source, target)
                self._listeners.append(listener)
                nursery.start_soon(listener.run, nursery)
        if self._clients is not None:
            self._clients.start(self._folder)
        nursery.start_soon(self.observer.watch)

    def close(self) -> None:
        for host in self._jvms():
            host.end_at_once()
        if self._clients is not None:
            self._clients.end_at_once()
        for listener in self._listeners:
            listener.close()
        super().close()
        self._net.close()

    def _jvms(self) -> list[KafkaHost]:
        return [host for host in self.hosts.values() if isinstance(host, KafkaHost)]

    async def stand_still(self) -> None:
        if self._clients is not None:
            self._clients.stand_still()
        for host in self._jvms():
            await host.stand_still()
        self.time.enter()
        self.observer.finish()

    # ----------------------------------------------------------------------------------------------------- processes

    def _write_files(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._logging.write_text(CONSOLE[self.home.jars.logging], encoding="ascii")
        for name in self._specs:
            (self._folder / f"{name}.hosts").write_text(self.addresses.hosts_file(name), encoding="ascii")
            self._write_properties(self._specs[name], self._folder / f"{name}.properties")
        if self._registry is None:
            self._format()

    def _write_properties(self, spec: NodeSpec, file: Path) -> None:
        if spec.role == "registry":
            properties = zookeeper.registry_properties(spec, self.addresses)
        else:
            member = (
                quorum_properties(spec, self._specs, self.addresses)
                if self._registry is None
                else zookeeper.membership_properties(spec, self._registry, self.addresses)
            )
            properties = server_properties(spec, self._specs, self.addresses, member)
        file.write_text(properties_text(properties), encoding="utf-8")

    @property
    def _logging(self) -> Path:
        return self._folder / ("log4j2.xml" if self.home.jars.logging == "log4j2" else "log4j.properties")

    def _console(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    @property
    def _checkpoints(self) -> Path:
        return self._folder / "bootstrap"

    def _format(self) -> None:
        """Create the checkpoints for formatted directories with Kafka's StorageTool, or copy an earlier run's.

        Raises:
            KafkaNotUp: if the tool fails.
        """
        kept = self.home.format_place(self._features)
        if kept is not None and kept.is_dir():
            shutil.copytree(kept, self._checkpoints)
            return
        scratch, file = self._folder / "format", self._folder / "format.properties"
        controller = next(spec for spec in self._specs.values() if spec.role == "controller")
        self._write_properties(replace(controller, log_dirs=(scratch,)), file)
        features = [part for name, level in self._features.items() for part in ("--feature", f"{name}={level}")]
        main = ["kafka.tools.StorageTool", "format", "-t", storage.CLUSTER_ID, "-c", str(file), *features]
        command = java_command(self.home, main, properties=logging_property(self.home, self._logging), heap_mb=128)
        try:
            storage.format_checkpoints(command, self._checkpoints, scratch)
        except storage.NotFormatted as error:
            raise KafkaNotUp(f"Kafka's StorageTool failed: {error}") from error
        file.unlink()
        if kept is not None:
            storage.keep_checkpoints(self._checkpoints, kept)

    def launch(self, name: str) -> Jvm:
        """Start a node's JVM and return it. In a KRaft cluster, format the node's empty disks first."""
        spec = self._specs[name]
        for directory in spec.log_dirs:
            if self._registry is None and not storage.is_formatted(directory):
                checkpoints = self._checkpoints if spec.role == "controller" else None
                storage.format_directory(directory, spec.node_id, checkpoints)
        properties = {
            "jdk.net.hosts.file": str(self._folder / f"{name}.hosts"),
            **logging_property(self.home, self._logging),
        }
        main, started = "kafka.Kafka", STARTED if self._registry is None else zookeeper.BROKER_STARTED
        if spec.role == "registry":
            main, started = zookeeper.MAIN, zookeeper.STARTED
            properties |= zookeeper.JVM_PROPERTIES
        command = java_command(self.home, [main, str(self._folder / f"{name}.properties")], properties=properties)
        return Jvm(command, self._console(name), started)

    def _place(self, broker_id: BrokerId) -> Address:
        return self.addresses.own(next(name for name, spec in self._specs.items() if spec.node_id == broker_id))

    def _running_brokers(self) -> list[Address]:
        """Return the addresses of running brokers in the order in which an operator's tool tries them.

        Brokers that can reach the controllers come first, because a broker forwards requests to a controller and waits.
        In the ZooKeeper era brokers forward nothing, so the controller comes first.
        """
        running = [host.name for host in self._jvms() if host.is_up and not host.paused]
        brokers = [name for name in running if self._specs[name].role == "broker"]
        if self._registry is not None:
            active = self.observer.decisions.controller
            return [self.addresses.own(name) for name in sorted(brokers, key=lambda name: name != active)]
        controllers = [name for name in running if self._specs[name].role == "controller"]
        return [self.addresses.own(name) for name in self.network.by_reach(brokers, controllers)]

    # --------------------------------------------------------------------------------------------------- the warm-up

    def _may_begin(self) -> bool:
        """Return True if every process has started and every broker knows the topics, so that the run may begin.

        Raises:
            KafkaNotUp: if a process ended, or the warm-up takes too long.
        """
        for host in self._jvms():
            if host.died_of is not None:
                raise KafkaNotUp(f"{host.name} did not start: {host.died_of}")
        if self._clients is not None and self._clients.died_of is not None:
            raise KafkaNotUp(self._clients.died_of)
        if time.monotonic() > self._deadline_s:
            down = [host.name for host in self._jvms() if not host.is_up]
            what = f"{', '.join(down)} did not start" if down else "the topics could not be created"
            raise KafkaNotUp(f"{what} within {WARM_UP_S} s; see {self._folder}")
        brokers = [name for name, spec in self._specs.items() if spec.role == "broker"]
        if self._clients is not None and not self._clients.is_ready:
            return False
        return all(host.is_up for host in self._jvms()) and all(name in self._knowing for name in brokers)

    def topic_created(self, name: str, partitions: int, reply: CreateTopicReply) -> None:
        if reply.error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._topics[name] = partitions
            if len(self._topics) == self._wanted_topics and not self.time.has_begun:
                self.nursery.start_soon(self._complete_topics)

    async def _complete_topics(self) -> None:
        """Create the internal topics, and wait until every broker knows all topics."""
        for topic in self._placed:
            while not await self._is_created(topic):
                await trio.sleep(POLL_S)
            self._topics[topic.name] = len(topic.assignment)
        for host in self._jvms():
            if self._specs[host.name].role == "broker":
                self.nursery.start_soon(self._await_knowledge, host.name)

    async def _is_created(self, topic: PlacedTopic) -> bool:
        wanted = CreateTopic(now_us=self.time.now_us, name=topic.name, assignment=topic.assignment)
        try:
            reply = await self.admin.create_topic(wanted, topic.config)
        except NoAnswer:
            return False
        return reply.error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    async def broker_has_started(self) -> None:
        """Wait until a broker has reported its start.

        A broker is unfenced shortly before it reports its start, and does not answer requests until then.
        """
        while not self._running_brokers():
            await trio.sleep(POLL_S)

    async def _await_knowledge(self, broker: str) -> None:
        while not await knows_leaders(self.addresses.own(broker), self._topics):
            await trio.sleep(POLL_S)
        self._knowing[broker] = None

    # --------------------------------------------------------------------------------------------------- connections

    def is_here(self, name: str) -> bool:
        return False

    def hides_end(self, node: str, peer: str) -> bool:
        return self.is_dark(peer) or self.network.link(peer, node).is_cut

    async def _connect(self, source: Host, name: str, address: Address) -> TcpConnection:
        """Open a connection for a client in this process.

        Raises:
            ConnectionGone: if the connection is refused.
        """
        far = await super()._connect(source, name, self.addresses.own(name))
        item, two = client_pair()
        client = NearEnd(self, source, name, item, accepted=False)
        self._ends[client] = None
        self._relay(source, name, two, far, self.observer.look)
        return client

    async def join(self, source: Host, target: str, sock: socket.socket) -> None:
        """Relay a connection from the process of `source` to `target`. The kernel has accepted it already."""
        if self._specs[target].role != "broker":
            await self._await_turn(source.name)
        await self._syn_and_answer(source.name, target)
        try:
            far = await super()._connect(source, target, self.addresses.own(target))
        except ConnectionGone:
            refuse(sock)
            return
        sight = source.sight(target) if isinstance(source, JavaClientHost) else None
        self._relay(source, target, sock, far, None if sight is None else self.observer.look, sight)

    async def _await_turn(self, source: str) -> None:
        """Before the run begins, wait until all brokers listed before `source` have joined, as in other modes.

        In the ZooKeeper era the broker that joins first becomes the controller. If two sessions end together, Kafka 4.1
        fences the broker that joined first (BrokerHeartbeatTracker.maybeRemoveExpired, BrokerIdAndEpoch.hashCode).
        """
        brokers = [name for name, spec in self._specs.items() if spec.role == "broker"]
        if source not in brokers:
            return
        before = [self._specs[name].node_id for name in brokers[: brokers.index(source)]]
        while not self.time.has_begun and not self.observer.decisions.have_joined(before):
            await trio.sleep(POLL_S)

    def _relay(
        self,
        source: Host,
        target: str,
        sock: socket.socket,
        far: TcpConnection,
        before_answer: Callable[[], None] | None = None,
        sight: ConnectionSight | None = None,
    ) -> None:
        assert isinstance(far, RelayEnd)
        near = StandIn(self, self.hosts[target], source.name, sock, accepted=False)
        self._ends[near] = None
        for end in (near, far):
            end.last_arrival_us = self.time.now_us  # The clock is negative before the run begins.
        is_registry = self._registry is not None and target == self._registry.name
        exchanges = zookeeper.RegistryExchanges() if is_registry else None
        relay = Relay(self.time, near, far, before_answer, sight, exchanges)
        self._relays |= {near: relay, far: relay}
        self.nursery.start_soon(relay.run)

    def went_dark(self, end: TcpConnection) -> None:
        super().went_dark(end)
        if end in self._relays:
            self._relays[end].stop_reading(end)

    def forget(self, end: TcpConnection) -> None:
        super().forget(end)
        self._relays.pop(end, None)

    def move_on(self) -> None:
        super().move_on()
        for end in list(self._ends):
            end.look_again()

    async def reset(self, item: str, two: str) -> int:
        """Reset all connections between two nodes, and return their number.

        The loop has no checkpoint of Trio: another task might notice that a node died, and close its ends.
        """
        ends = [end for end in self._ends if end.open and {end.host.name, end.peer} == {item, two}]
        for end in ends:
            end.reset()
        return sum(isinstance(end, StandIn) for end in ends)
