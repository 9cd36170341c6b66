"""The controller as a node: its metadata log on disk, and the requests of brokers turned into events of its state.

One controller is enough here; what it decides is an ordered log which brokers fetch like any other, so that a quorum
can take its place. source: QuorumController.java, ControllerApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid5

from cluster.accepted_connections import AcceptedConnections
from cluster.alter_partition_wire import alter_partition_event, alter_partition_results
from cluster.config import BrokerConfig, topic_defaults
from cluster.node import Action, ConnectionId
from cluster.outbox import Outbox
from cluster.timers import Timer
from cluster.wire import cold
from cluster.wire.api_01_fetch import FetchPartitionResponse, decode_fetch_request, fetch_response_segments
from cluster.wire.headers import RequestHeader, read_request_header
from cluster.wire.versions import ALTER_PARTITION, BROKER_HEARTBEAT, BROKER_REGISTRATION, FETCH
from controller.events import Action as Decision
from controller.events import (
    AlterPartitionReply,
    AppendRecord,
    CreateTopic,
    ElectLeader,
    Event,
    Fact,
    Heartbeat,
    HeartbeatReply,
    RegisterBroker,
    RegistrationReply,
    Reply,
)
from controller.metadata import decode_record, encode_record
from controller.state import ControllerState
from replica.config import TopicConfig
from replica.disk import Disk
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import METADATA_TOPIC, BrokerId, Names, Offset, TopicPartition
from replica.log import Log
from replica.log_manager import LogManager
from replica.records import build_batch
from replica.rules import Rules
from replica.trace import Recorder

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
METADATA_TOPIC_ID = uuid5(UUID(int=0), METADATA_TOPIC)
CONTROLLER_EPOCH = 0


@dataclass(slots=True, eq=False)
class _WaitingFetch:
    """A broker that has the whole metadata log and waits for the next record."""

    connection: ConnectionId
    header: RequestHeader
    fetch_offset: Offset
    max_bytes: int
    timer: Timer


class ControllerCore:
    """One incarnation of the controller; it takes over the metadata log that its predecessor left on disk."""

    def __init__(
        self,
        *,
        controller_id: BrokerId,
        names: Names,
        config: BrokerConfig,
        rules: Rules,
        log_dir: Path,
        disk: Disk,
        recorder: Recorder,
    ) -> None:
        self.controller_id = controller_id
        self._names = names
        self._config = config
        self._log_dir = log_dir
        self._disk = disk
        self._recorder = recorder
        self._outbox = Outbox()
        self.is_open = False
        self._waiting: list[_WaitingFetch] = []
        self._connections = AcceptedConnections(self._outbox, config.connections_max_idle_ms)
        self._logs: LogManager
        self._log: Log
        self.state = ControllerState(
            names=names,
            controller_id=controller_id,
            rules=rules,
            default_config=topic_defaults(config),
            session_timeout_us=config.broker_session_timeout_ms * 1000,
            rebalance_interval_us=config.leader_imbalance_check_interval_seconds * 1_000_000
            if config.auto_leader_rebalance_enable
            else None,
            num_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
        )

    def start(self, now_us: int) -> list[Action]:
        self._logs = LogManager.open(self._log_dir, self._disk, self.controller_id, TopicConfig(), now_us)
        found = self._logs.logs.get(METADATA_PARTITION)
        if found is None:
            self._log = self._logs.create(METADATA_PARTITION, TopicConfig(), METADATA_TOPIC_ID)
        else:
            self._log = found
        records = [decode_record(record.value) for _, record in self._log.records() if record.value is not None]
        self.state.load(records, now_us)
        self.is_open = True
        return self._outbox.take()

    def begin_shutdown(self, now_us: int) -> list[Action]:
        self.is_open = False
        self._logs.close_clean(-1, {METADATA_PARTITION: self._log.log_end_offset})
        self._outbox.exit()
        return self._outbox.take()

    def crash(self) -> None:
        """The process is gone: its file descriptors close, nothing is written."""
        if self.is_open:
            self.is_open = False
            self._logs.abandon()

    # ------------------------------------------------------------------------------------- the operator's console

    # Simplified: an operator's commands (kafka-topics, kafka-leader-election) reach the controller directly and not
    # over an admin client's connection; what the controller does with them is Kafka's.

    def create_topic(
        self,
        name: str,
        assignment: tuple[tuple[BrokerId, ...], ...] | None,
        partitions: int | None,
        replication_factor: int | None,
        config: dict[str, str],
        answer: Callable[[Reply], None],
        now_us: int,
    ) -> list[Action]:
        event = CreateTopic(
            now_us=now_us,
            name=name,
            assignment=assignment,
            partitions=None if assignment is not None else partitions,
            replication_factor=None if assignment is not None else replication_factor,
            config=config,
        )
        self._decide(self.state.step(event), answer, now_us)
        return self._outbox.take()

    def elect_leader(
        self,
        topic_partition: TopicPartition,
        desired: BrokerId | None,
        unclean: bool,
        answer: Callable[[Reply], None],
        now_us: int,
    ) -> list[Action]:
        event = ElectLeader(
            now_us=now_us,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            kind="unclean" if unclean else "preferred",
            desired=desired,
        )
        self._decide(self.state.step(event), answer, now_us)
        return self._outbox.take()

    # ----------------------------------------------------------------------------------------------------- NodeCore

    @property
    def next_deadline_us(self) -> int | None:
        due = [
            at_us for at_us in (self._outbox.timers.next_deadline_us, self.state.next_deadline_us) if at_us is not None
        ]
        return min(due) if due else None

    def tick(self, now_us: int) -> list[Action]:
        self._outbox.timers.run_due(now_us)
        deadline_us = self.state.next_deadline_us
        if deadline_us is not None and deadline_us <= now_us:
            self._decide(self.state.tick(now_us), _ignore, now_us)
        return self._connections.answered(self._outbox.take(), now_us)

    def accepted(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        self._connections.accepted(connection, peer, now_us)
        return []

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]:
        return []

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]:
        self._connections.active(connection, now_us)
        try:
            header = read_request_header(frame)
            if header.api_key == FETCH:
                self._fetch(connection, header, frame, now_us)
            else:
                event = self._event(header, frame, now_us)
                self._decide(self.state.step(event), lambda reply: self._reply(connection, header, reply), now_us)
        except PeerViolation:
            self._connections.close(connection)
        return self._connections.answered(self._outbox.take(), now_us)

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]:
        self._connections.gone(connection)
        for fetch in [fetch for fetch in self._waiting if fetch.connection == connection]:
            fetch.timer.cancel()
            self._waiting.remove(fetch)
        return []

    # ---------------------------------------------------------------------------------------------------- decisions

    def _decide(self, decisions: Sequence[Decision], answer: Callable[[Reply], None], now_us: int) -> None:
        """Perform what the state decided, in order; brokers hear of new records before the reply leaves."""
        facts: dict[int, int] = {}
        led_here = () if self._recorder.cause is None else (self._recorder.cause,)
        appended = False
        for decision in decisions:
            match decision:
                case AppendRecord():
                    self._append(decision, now_us)
                    appended = True
                case Fact():
                    causes = led_here if decision.cause is None else (facts[decision.cause],)
                    facts[decision.number] = self._recorder.emit(decision.event, *causes)
                case _:
                    if appended:
                        self._wake(now_us)
                        appended = False
                    answer(decision)
        if appended:
            self._wake(now_us)

    def _append(self, decision: AppendRecord, now_us: int) -> None:
        assert decision.offset == self._log.log_end_offset, "the state and its log count the same records"
        batch = build_batch([(None, encode_record(decision.record))], timestamp_ms=now_us // 1000)
        self._log.append_as_leader(batch, CONTROLLER_EPOCH, now_us)
        # KRaft fsyncs its log before a record counts as committed.
        self._log.flush()

    # ------------------------------------------------------------------------------------------- the metadata log

    def _fetch(self, connection: ConnectionId, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        request = decode_fetch_request(header, frame)
        if [len(partitions) for _, partitions in request.topics] != [1]:
            raise PeerViolation("the controller has one partition, the metadata log")
        ((_, (wanted,)),) = request.topics
        if wanted.fetch_offset != self._log.log_end_offset or request.max_wait_ms <= 0:
            self._send_records(connection, header, wanted.fetch_offset, wanted.max_bytes)
            return
        timer = self._outbox.timers.at(now_us + request.max_wait_ms * 1000, lambda now_us: self._answer_waiting(fetch))
        fetch = _WaitingFetch(connection, header, wanted.fetch_offset, wanted.max_bytes, timer)
        self._waiting.append(fetch)

    def _wake(self, now_us: int) -> None:
        for fetch in list(self._waiting):
            self._answer_waiting(fetch)

    def _answer_waiting(self, fetch: _WaitingFetch) -> None:
        fetch.timer.cancel()
        self._waiting.remove(fetch)
        self._send_records(fetch.connection, fetch.header, fetch.fetch_offset, fetch.max_bytes)

    def _send_records(self, connection: ConnectionId, header: RequestHeader, offset: Offset, max_bytes: int) -> None:
        end_offset = self._log.log_end_offset
        try:
            found = self._log.read(offset, max_bytes, end_offset, True)
            answer = FetchPartitionResponse(0, ErrorCode.NONE, end_offset, end_offset, 0, slice=found)
        except KafkaError as error:  # The controller lost its disk: there is no metadata quorum any more to speak of.
            answer = FetchPartitionResponse(0, error.code)
        segments = fetch_response_segments(
            header.api_version, header.correlation_id, [(METADATA_TOPIC, [answer])], ErrorCode.NONE
        )
        self._outbox.respond(connection, segments, FETCH)

    # -------------------------------------------------------------------------------------------- requests, replies

    def _event(self, header: RequestHeader, frame: bytearray, now_us: int) -> Event:
        request = cold.decode_request(header, frame)
        if header.api_key == BROKER_HEARTBEAT:
            return Heartbeat(
                now_us=now_us,
                broker_id=int(request.broker_id),
                broker_epoch=int(request.broker_epoch),
                metadata_offset=int(request.current_metadata_offset),
                want_fence=bool(request.want_fence),
                want_shut_down=bool(request.want_shut_down),
            )
        if header.api_key == BROKER_REGISTRATION:
            listener = request.listeners[0]
            return RegisterBroker(
                now_us=now_us,
                broker_id=int(request.broker_id),
                incarnation_id=str(request.incarnation_id),
                host=str(listener.host),
                port=int(listener.port),
                rack=request.rack,
                previous_broker_epoch=int(request.previous_broker_epoch),
            )
        if header.api_key == ALTER_PARTITION:
            return alter_partition_event(request, self.state.image.topic_names, now_us)
        raise PeerViolation(f"api {header.api_key} is not served by the controller")

    def _reply(self, connection: ConnectionId, header: RequestHeader, reply: Reply) -> None:
        match reply:
            case HeartbeatReply():
                values: dict[str, object] = {
                    "error_code": reply.error,
                    "is_caught_up": reply.is_caught_up,
                    "is_fenced": reply.is_fenced,
                    "should_shut_down": reply.should_shut_down,
                }
            case RegistrationReply():
                values = {"error_code": reply.error, "broker_epoch": reply.broker_epoch}
            case AlterPartitionReply():
                ids = {name: topic.topic_id for name, topic in self.state.image.topics.items()}
                values = {"error_code": reply.error, "topics": alter_partition_results(reply, ids)}
            case _:
                raise AssertionError(f"{type(reply).__name__} answers no request of a broker")
        entity = cold.response(header.api_key, header.api_version, **values)
        frame = cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)
        self._outbox.respond(connection, (frame,), header.api_key)


def _ignore(reply: Reply) -> None:
    """A decision of the controller's own timers has nobody to answer."""
