"""The registry as a node. It takes ZooKeeper's place: sessions, requests answered in order, and watches.

Source: ZooKeeper's ZooKeeperServer, SessionTrackerImpl, FileTxnLog
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from cluster.config import BrokerConfig
from cluster.messages.topic_files import brokers_settings, creation
from cluster.node import Action, ConnectionId, Outbox
from cluster.protocol.versions import ZOOKEEPER
from cluster.security import OPEN, ListenerSecurity
from cluster.server.accepted_connections import AcceptedConnections
from controller import topics
from controller.image import BrokerRegistration, MetadataImage, TopicImage
from controller.inputs import (
    ChangeConfig,
    ChangeVoters,
    ControllerInput,
    CreateTopic,
    CreateTopicReply,
    OnReply,
    PlainReply,
)
from controller.zookeeper import znodes
from controller.zookeeper.registry import NO_SESSION, Registry, SessionId, SetData
from controller.zookeeper.registry_events import RegistryTeller
from controller.zookeeper.registry_messages import (
    WATCH_XID,
    decode,
    decode_transaction,
    encode,
    encode_transaction,
    operation_of,
    result_fields,
)
from replica.causes import CloseCause
from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import BrokerId, Names, TopicPartition
from replica.log.batches.records import build_batch
from replica.log.files.disk import Disk
from replica.log.log import Log
from replica.log.manager import LogManager
from replica.trace.events import Recorder, SessionExpired

REGISTRY_LOG = TopicPartition("__registry", 0)
REGISTRY_LOG_ID = uuid5(UUID(int=0), REGISTRY_LOG.topic)


class RegistryCore:
    """One process of the registry. It continues with the log and the sessions of the previous process."""

    def __init__(
        self,
        *,
        node_id: BrokerId,
        names: Names,
        config: BrokerConfig,
        log_dir: Path,
        disk: Disk,
        recorder: Recorder,
        security: ListenerSecurity = OPEN,
    ) -> None:
        self.registry = Registry()
        self.is_open = False
        self._node_id = node_id
        self._node = names(node_id)
        self._names = names
        self._config = config
        self._log_dir = log_dir
        self._disk = disk
        self._recorder = recorder
        self._outbox = Outbox()
        self._connections = AcceptedConnections(self._node, config, self._outbox, recorder, nodes_only=True)
        self._teller = RegistryTeller(self.registry, self._node, names)
        self._sessions: dict[ConnectionId, SessionId] = {}
        self._logs: LogManager
        self._log: Log

    # ---------------------------------------------------------------------------------------------- start and stop

    def start(self, now_us: int) -> list[Action]:
        self._logs = LogManager.open(self._log_dir, self._disk, self._node_id, TopicConfig(), now_us)
        found = self._logs.logs.get(REGISTRY_LOG)
        self._log = self._logs.create(REGISTRY_LOG, TopicConfig(), REGISTRY_LOG_ID) if found is None else found
        kept = (decode_transaction(record.value) for _, record in self._log.records() if record.value is not None)
        self.registry.replay(kept, now_us)
        self.is_open = True
        self._outbox.listen()
        return self._outbox.take()

    @property
    def answers_operator(self) -> bool:
        return self.is_open

    def begin_shutdown(self, now_us: int) -> list[Action]:
        self.is_open = False
        self._logs.close_clean(-1, {REGISTRY_LOG: self._log.log_end_offset})
        self._outbox.exit()
        return self._outbox.take()

    def crash(self) -> None:
        """Close all files without writing, as for a killed process."""
        if self.is_open:
            self.is_open = False
            self._logs.abandon()

    # ----------------------------------------------------------------------------------------------------- NodeCore

    @property
    def next_deadline_us(self) -> int | None:
        due = (self._outbox.timers.next_deadline_us, self.registry.next_expiry_us)
        return min((at_us for at_us in due if at_us is not None), default=None)

    @property
    def accepts(self) -> bool:
        return True

    @property
    def max_request_bytes(self) -> int:
        return self._config.socket_request_max_bytes

    def tick(self, now_us: int) -> list[Action]:
        self._outbox.timers.run_due(now_us)
        for client in self.registry.expire(now_us):
            self._recorder.emit(SessionExpired(node=self._node, broker=client))
        for connection, session in list(self._sessions.items()):
            if session not in self.registry.sessions:
                del self._sessions[connection]
                self._connections.close(connection)
        self._changed(self._node, now_us)
        return self._connections.answered(self._outbox.take(), now_us)

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> list[Action]:
        self._connections.accepted(connection, peer, listener, now_us)
        return self._connections.answered(self._outbox.take(), now_us)

    def identified(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        self._connections.identified(connection, peer)
        return []

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]:
        return []

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]:
        """Handle a closed connection. Its session stays, because the client may reconnect."""
        self._connections.gone(connection)
        self._sessions.pop(connection, None)
        return []

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]:
        self._connections.active(connection, now_us)
        peer = self._connections.peer(connection)
        if peer is not None:
            try:
                self._handle(connection, peer, decode(frame), now_us)
            except PeerViolation as violation:
                self._connections.close(connection, CloseCause.VIOLATION, str(violation))
        return self._connections.answered(self._outbox.take(), now_us)

    # ----------------------------------------------------------------------------------------------------- requests

    def _handle(self, connection: ConnectionId, peer: str, message: Mapping[str, Any], now_us: int) -> None:
        kind = message.get("op")
        if kind == "connect":
            self._connect(connection, peer, message, now_us)
            return
        session = self._sessions.get(connection, NO_SESSION)
        if session not in self.registry.sessions:
            raise PeerViolation("a request arrived on a connection without an open session")
        self.registry.touch(session, now_us)
        if kind == "ping":
            self._answer(connection, message)
        elif kind == "close":
            self.registry.close_session(session)
            self._changed(peer, now_us)
            self._answer(connection, message)
        else:
            results = self.registry.apply(session, operation_of(message))
            self._changed(peer, now_us)
            self._answer(connection, message, results=[result_fields(result) for result in results])

    def _connect(self, connection: ConnectionId, peer: str, message: Mapping[str, Any], now_us: int) -> None:
        """Open a session, or resume a client's session on a new connection.

        If it has expired, answer with session 0.
        """
        session = int(message["session"])
        if session == NO_SESSION:
            session = self.registry.open_session(peer, int(message["timeout_us"]), now_us)
            self._changed(peer, now_us)
        elif session in self.registry.sessions:
            self.registry.touch(session, now_us)
            watched: tuple[list[str], list[str]] = (message["data_watches"], message["child_watches"])
            self.registry.renew_watches(session, int(message["zxid"]), *watched)
        else:
            self._answer(connection, message, session=NO_SESSION, timeout_us=0)
            return
        for other, known in list(self._sessions.items()):
            if known == session:  # The client has given up this connection.
                del self._sessions[other]
                self._connections.close(other)
        self._sessions[connection] = session
        self._answer(connection, message, session=session, timeout_us=self.registry.sessions[session].timeout_us)
        self._tell_watchers()

    def _answer(self, connection: ConnectionId, message: Mapping[str, Any], **values: object) -> None:
        frame = encode({"xid": message.get("xid", 0), "zxid": self.registry.zxid, **values})
        self._outbox.respond(connection, (frame,), ZOOKEEPER)

    def _changed(self, writer: str, now_us: int) -> None:
        """Log the changes, emit their events and notify watchers. The response to the writer follows."""
        for transaction in self.registry.take_transactions():
            batch = build_batch([(None, encode_transaction(transaction))], timestamp_ms=now_us // 1000)
            self._log.append_as_leader(batch, 0, now_us)
            for event in self._teller.events(transaction, writer):
                self._recorder.emit(event)
        self._log.flush()
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        """Notify watchers. A client that has no connection reads its watched nodes again after reconnecting."""
        connections = {session: connection for connection, session in self._sessions.items()}
        for event in self.registry.take_events():
            connection = connections.get(event.session)
            if connection is not None:
                fields = {"xid": WATCH_XID, "zxid": self.registry.zxid, "event": event.kind, "path": event.path}
                frame = encode(fields)
                self._outbox.respond(connection, (frame,), ZOOKEEPER)

    # ------------------------------------------------------------------------------------------- the operator's tools

    def _create_topic(self, wanted: CreateTopic, answer: OnReply) -> None:
        """Create a topic as kafka-topics --zookeeper does: assign the replicas; the controller then reacts."""
        topic_id = uuid5(NAMESPACE_OID, f"{wanted.name}/{self.registry.zxid}")
        try:
            files = creation(self._image(), wanted, topic_id=topic_id, broker_config=self._config, names=self._names)
        except KafkaError as error:
            answer(CreateTopicReply(error=error.code, message=error.message))
            return
        self.registry.apply(NO_SESSION, files)
        self._changed(self._node, wanted.now_us)
        answer(CreateTopicReply(error=ErrorCode.NONE, topic_id=topic_id))

    def operate(
        self, make_input: Callable[[int], ControllerInput | ChangeVoters], answer: OnReply, now_us: int
    ) -> list[Action]:
        match asked := make_input(now_us):
            case CreateTopic():
                self._create_topic(asked, answer)
            case ChangeConfig():
                answer(self._change_config(asked))
            case _:
                message = f"{type(asked).__name__} is not supported in the ZooKeeper era"
                answer(PlainReply(error=ErrorCode.UNSUPPORTED_VERSION, message=message))
        return self._connections.answered(self._outbox.take(), now_us)

    def _change_config(self, asked: ChangeConfig) -> PlainReply:
        """Change a topic's settings as kafka-configs --zookeeper does."""
        path = znodes.config_path(asked.topic)
        node = self.registry.nodes.get(path)
        if node is None:
            message = f"there is no topic {asked.topic}"
            return PlainReply(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message)
        try:
            stored = topics.checked_config(asked.config)
        except KafkaError as error:
            return PlainReply(error=error.code, message=error.message)
        otherwise = brokers_settings(self._config)
        changes = {key: otherwise.get(key) if value is None else value for key, value in stored.items()}
        config = {**znodes.config_of(node.data), **changes}
        data = znodes.config_data({key: value for key, value in config.items() if value is not None})
        self.registry.apply(NO_SESSION, SetData(path=path, data=data))
        self._changed(self._node, asked.now_us)
        return PlainReply(error=ErrorCode.NONE)

    def _image(self) -> MetadataImage:
        """Return the brokers and topics against which a new topic is checked."""
        image = MetadataImage()
        for number in self.registry.children(znodes.BROKER_IDS):
            node = self.registry.nodes[znodes.broker_path(int(number))]
            live = znodes.live_broker(int(number), node.data, node.czxid)
            image.brokers[live.broker_id] = BrokerRegistration(
                broker_id=live.broker_id,
                incarnation_id="",
                broker_epoch=live.broker_epoch,
                registration_offset=live.broker_epoch,
                rack=live.rack,
                host=live.host,
                port=live.port,
                fenced=False,
                in_controlled_shutdown=False,
            )
        for topic in self.registry.children(znodes.TOPICS):
            topic_id, replicas = znodes.topic_of(self.registry.nodes[znodes.topic_path(topic)].data)
            partitions = {number: znodes.unborn(members) for number, members in replicas.items()}
            known = TopicImage(topic_id=topic_id, config={}, log_config=TopicConfig(), partitions=partitions)
            image.add_topic(topic, known)
        return image
