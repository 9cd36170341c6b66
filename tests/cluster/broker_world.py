"""One real broker, b1, and one real controller, without sockets: frames travel in no time, the clock moves by hand.

Other brokers are names: they register and send heartbeats when told to, and what b1's fetchers ask them is kept in
`asked`, to be answered by the test. Clients and followers are `Caller`s.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from cluster.broker.broker import BrokerCore, BrokerTimes, broker_base
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.clocks import WallClock
from cluster.config import BrokerConfig
from cluster.controller_node.decisions import Chronicle
from cluster.controller_node.node import ControllerBase, ControllerCore
from cluster.node import Action, Close, Connect, EndProcess, LimitRequests, ResumeReading, Send, Sent
from cluster.protocol import cold
from cluster.protocol.api_00_produce import ProduceRequest, decode_produce_response, encode_produce_request
from cluster.protocol.api_01_fetch import READ_UNCOMMITTED, FetchPartition, FetchRequest
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import (
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    read_request_header,
)
from cluster.request_faults import RequestFaults
from cluster.security import OPEN, PROTOCOLS, ListenerSecurity
from cluster.server.request_handlers import CpuTimes
from controller.inputs import ControllerInput, CreateTopic
from controller.metadata import Endpoint
from replica.ids import CLUSTER_ID, Names, TopicPartition
from replica.log.batches.records import build_batch
from replica.log.files.disk import Disk
from replica.log.files.open_files import FileSlice
from replica.rules import PROFILES, Rules
from replica.trace.events import TraceLog, TraceRow

MS, SECOND = 1000, 1_000_000
B1, B2, B3 = 1, 2, 3
NAMES = Names({B1: "b1", B2: "b2", B3: "b3", 1001: "c1"})
CONTROLLERS = {1001: ("c1", 9093)}
T0 = TopicPartition("t", 0)
CONFIG = {"auto.leader.rebalance.enable": "false"}


def batch(*values: str, timestamp_ms: int | list[int] = 0, **fields: Any) -> bytes:
    """A client's batch of these values."""
    return bytes(build_batch([(None, value.encode()) for value in values], timestamp_ms=timestamp_ms, **fields))


def flat(action: Send) -> bytearray:
    """The frame as it leaves the socket, without its size."""
    parts = [
        os.pread(segment.fd, segment.length, segment.position) if isinstance(segment, FileSlice) else bytes(segment)
        for segment in action.segments
    ]
    return bytearray(b"".join(parts)[4:])


class Caller:
    """A client or a follower with a connection to b1."""

    def __init__(self, world: BrokerWorld, peer: str, connection: int) -> None:
        self.peer = peer
        self.answers: list[bytearray] = []
        self.resumed = 0
        self.stays_mute = False
        """After the latest answer."""
        self.closed = False
        self._world = world
        self._connection = connection
        self._correlation_id = 0

    def send(self, frame: bytes) -> None:
        self._world.to_broker("received", self._connection, bytearray(frame[4:]))

    def hang_up(self) -> None:
        self._world.to_broker("disconnected", self._connection, "closed by the peer")

    def produce(
        self, records: bytes | None, *, acks: int = -1, timeout_ms: int = 1000, version: int = 9, **at: Any
    ) -> None:
        name = at.get("topic", "t")
        topic = at.get("topic_id") or self._world.topic_id(name) if version >= 13 else name
        topics = [(topic, [(at.get("partition", 0), records)])]
        request = ProduceRequest(None, acks, timeout_ms, topics)
        self.send(encode_produce_request(version, self._next(), self.peer, request))

    def produced(self, version: int = 9) -> Any:
        """The one partition of the latest answer to a produce."""
        return decode_produce_response(version, self.answers[-1]).topics[0][1][0]

    def fetch(self, offset: int, *, version: int = 12, **options: Any) -> None:
        """As a consumer, or with `replica_id` as a follower; `topics` overrides the one partition."""
        entry = FetchPartition(
            0,
            options.pop("epoch", -1),
            offset,
            options.pop("last_epoch", -1),
            options.pop("start", 0),
            options.pop("partition_max_bytes", 1 << 20),
        )
        name = options.pop("topic", "t")
        topic = self._world.topic_id(name) if version >= 13 else name
        request = FetchRequest(
            replica_id=options.pop("replica_id", -1),
            replica_epoch=options.pop("replica_epoch", -1),
            max_wait_ms=options.pop("max_wait_ms", 500),
            min_bytes=options.pop("min_bytes", 1),
            max_bytes=options.pop("max_bytes", 1 << 20),
            isolation=options.pop("isolation", READ_UNCOMMITTED),
            topics=options.pop("topics", [(topic, [entry])]),
            rack=options.pop("rack", ""),
        )
        assert not options, options
        self.send(encode_fetch_request(version, self._next(), self.peer, request))

    def fetched(self, version: int = 12) -> Any:
        """The one partition of the latest answer to a fetch."""
        return decode_fetch_response(version, self.answers[-1]).topics[0][1][0]

    def send_only(self, api: int, version: int, **values: Any) -> None:
        """Any other request."""
        entity = cold.request(api, version, **values)
        self.send(cold.encode_request(api, version, self._next(), self.peer, entity))

    def ask(self, api: int, version: int, **values: Any) -> Any:
        """Any other request, and its answer."""
        self.send_only(api, version, **values)
        return cold.decode_response(api, version, self.answers[-1])

    def list_offset(self, timestamp: int, version: int = 7) -> Any:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        topics = [{"name": "t", "partitions": [partition]}]
        return self.ask(LIST_OFFSETS, version, replica_id=-1, isolation_level=0, topics=topics).topics[0].partitions[0]

    def _next(self) -> int:
        self._correlation_id += 1
        return self._correlation_id


class BrokerWorld:
    """`broker` is started by `start`; `frames` are all that left it: (now_us, peer, api, part)."""

    security: ListenerSecurity = OPEN
    endpoints: tuple[Endpoint, ...] = ()
    """Of b1, beside its first listener."""
    cpu: CpuTimes | None = None
    slicing: Callable[[], int] | None = None

    def __init__(self, root: Path, rules: Rules = PROFILES["kafka-3.9"], **config: str) -> None:
        self._rules = rules
        self.now_us = 0
        self.rows: list[TraceRow] = []
        self.trace = TraceLog([self.rows.append])
        self.frames: list[tuple[int, str, int, str]] = []
        self.frames_leave = True
        self.asked: dict[str, list[tuple[int, bytearray]]] = {}
        self.dials: list[tuple[int, str]] = []
        self.limits: dict[int, int] = {}
        """Bytes of a frame, by connection, where the broker has said so."""
        self.exited = False
        self.controller_answers = True
        self.controller_is_cut_off = False
        """Connections to it stay, and what it says is lost."""
        self.broker: BrokerCore
        self._root = root
        values = {**CONFIG, **{k.replace("_", "."): v for k, v in config.items()}}
        self._config = replace(BrokerConfig.from_mapping(values), release=rules.release)
        self.controller_dir = root / "c1"
        self.disk = Disk(root / "b1", sync=False)
        self.clock = WallClock()
        self._callers: dict[int, Caller] = {}
        self._hosts: dict[int, str] = {}
        self._chronicle = Chronicle()
        self._controller_side: dict[int, int] = {}
        self._due: deque[Callable[[], None]] = deque()
        self._lives = 0
        self.faults = RequestFaults()
        self._epochs: dict[int, int] = {}
        self._answered: dict[int, bytearray] = {}
        self.controller: ControllerCore
        self.start_controller()

    # ------------------------------------------------------------------------------------------------------ processes

    def start_controller(self) -> None:
        self.controller = ControllerCore(
            ControllerBase(
                controller_id=1001,
                names=NAMES,
                config=self._config,
                rules=self._rules,
                log_dir=self.controller_dir,
                disk=Disk(self.controller_dir, sync=False),
                clock=WallClock(),
                recorder=self.trace,
            ),
            voters=CONTROLLERS,
            draw=lambda bound: 0,
            chronicle=self._chronicle,
            security=self.security,
            now=lambda: self.now_us,
            slicing=self.slicing,
        )
        self.controller_answers = True
        self._from_controller(self.controller.start(self.now_us))

    def stop_controller(self) -> None:
        """Its process dies; connections to it break, new ones are refused."""
        self.controller.crash()
        self.controller_answers = False
        for connection in list(self._controller_side.values()):
            self.to_broker("disconnected", connection, "reset")
        self._controller_side.clear()

    def start(self) -> BrokerWorld:
        self._lives += 1
        self.exited = False
        base = broker_base(
            identity=BrokerIdentity(B1, "b1", UUID(int=self._lives), "b1", 9092, None, endpoints=self.endpoints),
            config=self._config,
            rules=self._rules,
            names=NAMES,
            disks={"": self.disk},
            recorder=self.trace,
            clock=self.clock,
        )
        times = BrokerTimes(now=lambda: self.now_us, cpu=self.cpu, slicing=self.slicing)
        self.broker = BrokerCore(base, times, controllers=CONTROLLERS, security=self.security, faults=self.faults)
        self._from_broker(self.broker.start(self.now_us))
        self._settle()
        return self

    def kill(self) -> None:
        self.broker.crash()
        self._callers.clear()
        self._controller_side.clear()

    def shut_down(self) -> None:
        self._from_broker(self.broker.begin_shutdown(self.now_us))
        self._settle()

    # ------------------------------------------------------------------------------------------------------- the rest

    def call(self, peer: str, listener: str = "") -> Caller:
        """A new connection to b1.     listener: by which it comes, "" for the first"""
        connection = -len(self._callers) - 1
        caller = self._callers[connection] = Caller(self, peer, connection)
        self._from_broker(self.broker.accepted(connection, peer, listener, self.now_us))
        return caller

    def follower(self, broker_id: int) -> Callable[..., Any]:
        """A follower's fetches, one after the other: `fetch(offset, ...)`, answered or None while it waits."""
        caller = self.call(NAMES(broker_id))

        def fetch(offset: int, **options: Any) -> Any:
            before = len(caller.answers)
            options = {"replica_id": broker_id, "replica_epoch": self._epochs.get(broker_id, -1), **options}
            caller.fetch(offset, version=16, **options)
            return caller.fetched(16) if len(caller.answers) > before else None

        return fetch

    def join(self, broker_id: int, life: int = 0, endpoints: tuple[Endpoint, ...] = (), rack: str | None = None) -> int:
        """Another broker registers and is unfenced; returns its broker epoch. endpoints: beside its first listener"""
        all_endpoints = (Endpoint("PLAINTEXT", NAMES(broker_id), 9092, "PLAINTEXT"), *endpoints)
        answer = self._ask_controller(
            BROKER_REGISTRATION,
            3,
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=100 * broker_id + life),
            listeners=[
                {"name": name, "host": host, "port": port, "security_protocol": PROTOCOLS[protocol]}
                for name, host, port, protocol in all_endpoints
            ],
            features=[],
            rack=rack,
            is_migrating_zk_broker=False,
            log_dirs=[],
            previous_broker_epoch=-1,
        )
        self._epochs[broker_id] = int(answer.broker_epoch)
        self.heartbeat(broker_id)
        return self._epochs[broker_id]

    def heartbeat(self, broker_id: int, *, stop: bool = False) -> None:
        self._ask_controller(
            BROKER_HEARTBEAT,
            1,
            broker_id=broker_id,
            broker_epoch=self._epochs[broker_id],
            current_metadata_offset=self.controller.state.next_offset,
            want_fence=False,
            want_shut_down=stop,
        )

    def fall_silent(self, broker_id: int) -> None:
        """Stop its heartbeats until it is fenced."""
        del self._epochs[broker_id]
        self.run(10_200)  # a session of 9 s, and an eighth of it until the controller looks
        assert self.controller.state.image.brokers[broker_id].fenced

    def broker_epoch(self, broker_id: int) -> int:
        return self._epochs[broker_id]

    def create(self, *replicas: int, topic: str = "t", **config: str) -> None:
        keys = {key.replace("_", "."): value for key, value in config.items()}
        self.decide(CreateTopic(now_us=self.now_us, name=topic, assignment=(replicas,), config=keys))

    def decide(self, given: ControllerInput) -> None:
        """Anything else that the controller may be told."""
        self.controller._decide(given, lambda reply: None, self.now_us)
        self._from_controller(self.controller._outbox.take())
        self._settle()

    def topic_id(self, topic: str) -> UUID:
        return self.controller.state.image.topics[topic].topic_id

    def answer(self, broker: str, frame: Callable[[int], bytes]) -> None:
        """Answer the oldest request that b1 sent to another broker; `frame` is given its correlation id."""
        connection, request = self.asked[broker].pop(0)
        self.to_broker("received", connection, bytearray(frame(read_request_header(request).correlation_id)[4:]))

    def events(self, kind: type) -> list[Any]:
        return [row.event for row in self.rows if type(row.event) is kind]

    # ----------------------------------------------------------------------------------------------------------- time

    def run(self, milliseconds: int) -> None:
        """Let time pass. The other brokers' heartbeats go on."""
        end_us = self.now_us + milliseconds * MS
        while True:
            due = [self.controller.next_deadline_us] if self.controller_answers else []
            due += [] if self.exited or not self.broker.is_open else [self.broker.next_deadline_us]
            next_us = min((at_us for at_us in due if at_us is not None), default=end_us + 1)
            beat_us = (self.now_us // SECOND + 1) * SECOND
            if min(next_us, beat_us) > end_us:
                break
            self.now_us = max(self.now_us, min(next_us, beat_us))
            self._step(self.now_us == beat_us)
        self.now_us = end_us

    def _step(self, is_beat: bool) -> None:
        self.trace.at_us, self.trace.cause = self.now_us, None
        if is_beat and self.controller_answers:
            for broker_id in list(self._epochs):
                self.heartbeat(broker_id)
        if self.controller_answers:
            self._from_controller(self.controller.tick(self.now_us))
        if self.broker.is_open:
            self._from_broker(self.broker.tick(self.now_us))
        self._settle()

    def to_broker(self, method: str, *args: Any) -> None:
        if self.broker.is_open:
            self._from_broker(getattr(self.broker, method)(*args, self.now_us))
            self._settle()

    # --------------------------------------------------------------------------------------------------------- frames

    def _settle(self) -> None:
        while self._due:
            self._due.popleft()()

    def _from_broker(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Connect():
                    self._due.append(lambda action=action: self._connect(action))
                case Send() if action.connection < 0:
                    self._answer_caller(action)
                case Send():
                    frame = flat(action)
                    self._due.append(lambda action=action, frame=frame: self._request(action, frame))
                case ResumeReading():
                    self._callers[action.connection].resumed += 1
                case LimitRequests():
                    self.limits[action.connection] = action.max_bytes
                case Close() if action.connection in self._callers:
                    self._callers[action.connection].closed = True
                case EndProcess():
                    self.exited = True

    def _answer_caller(self, action: Send) -> None:
        caller = self._callers[action.connection]
        caller.answers.append(flat(action))
        caller.stays_mute = action.stays_mute
        self.frames.append((self.now_us, caller.peer, action.api, action.part))
        if action.on_sent is not None and self.frames_leave:
            action.on_sent(Sent(self.now_us, self.now_us, 0, 0))

    def _connect(self, action: Connect) -> None:
        self.dials.append((self.now_us, action.host))
        self._hosts[action.connection] = action.host
        if action.host != "c1":
            self.asked.setdefault(action.host, [])
        elif not self.controller_answers:
            self._from_broker(self.broker.disconnected(action.connection, "refused", self.now_us))
            return
        else:
            side = -1000 * self._lives - action.connection
            self._controller_side[side] = action.connection
            self._from_controller(self.controller.accepted(side, "b1", "", self.now_us))
        self._from_broker(self.broker.connected(action.connection, self.now_us))

    def _request(self, action: Send, frame: bytearray) -> None:
        for side, connection in self._controller_side.items():
            if connection == action.connection:
                self.frames.append((self.now_us, "c1", action.api, action.part))
                self._from_controller(self.controller.received(side, frame, self.now_us))
                return
        host = self._hosts[action.connection]
        self.frames.append((self.now_us, host, action.api, action.part))
        self.asked[host].append((action.connection, frame))

    def _from_controller(self, actions: list[Action]) -> None:
        for action in actions:
            if not isinstance(action, Send):
                continue
            connection = self._controller_side.get(action.connection)
            if connection is None:
                self._answered[action.connection] = flat(action)
            elif not self.controller_is_cut_off:
                frame = flat(action)
                self._due.append(lambda c=connection, frame=frame: self._reach(c, frame))

    def _reach(self, connection: int, frame: bytearray) -> None:
        if self.broker.is_open:
            self._from_broker(self.broker.received(connection, frame, self.now_us))

    def _ask_controller(self, api: int, version: int, **values: Any) -> Any:
        entity = cold.request(api, version, **values)
        frame = cold.encode_request(api, version, 1, "test", entity)
        self._from_controller(self.controller.received(-1, bytearray(frame[4:]), self.now_us))
        answer = cold.decode_response(api, version, self._answered.pop(-1))
        self._settle()
        return answer


__all__ = ["FETCH", "PRODUCE", "BrokerWorld", "Caller", "batch"]
