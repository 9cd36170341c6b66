"""A controller as a node: one voter of the quorum, and, while it is active, the decision maker.

The active controller turns the requests of brokers into inputs of its state, writes what that decides to the metadata
log, and answers when a majority of controllers has it; brokers fetch the log like any other. A controller that is
deposed forgets its state: the next one rebuilds it from the log. source: QuorumController.java, ControllerApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.clocks import WallClock
from cluster.config import BrokerConfig
from cluster.controller_node.decisions import Chronicle, Decision, DecisionQueue, QuorumPeers
from cluster.controller_node.metadata_fetches import MetadataFetches
from cluster.controller_node.metadata_log import MetadataLog, SnapshotWriter
from cluster.dynamic_settings import DynamicSettings
from cluster.messages.controller_requests import (
    BrokerRequest,
    broker_request,
    error_response,
    is_request_of_brokers,
)
from cluster.messages.quorum import (
    VOTER_REQUESTS,
    decode_fetch_snapshot,
    decode_request,
    encode_answer,
    encode_snapshot_answer,
)
from cluster.node import Action, ConnectionId, Outbox
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ENVELOPE, FETCH, FETCH_SNAPSHOT, RequestHeader, read_request_header
from cluster.security import OPEN, ListenerSecurity
from cluster.server.accepted_connections import AcceptedConnections
from cluster.slices import Slices
from controller.inputs import Action as Decided
from controller.inputs import (
    AppendRecord,
    Bootstrap,
    ControllerInput,
    CreateTopic,
    ElectLeader,
    EmitNumbered,
    OnReply,
    Reply,
)
from controller.quorum.messages import AnyAnswer, LeadershipChanged, LogCommitted, Request, SendTo
from controller.quorum.quorum import Quorum
from controller.quorum.roles import QuorumTimeouts
from controller.state import ControllerLimits, ControllerState
from replica.causes import ActivationCause, CloseCause, LoadingCause
from replica.errors import ErrorCode, PeerViolation
from replica.ids import BrokerId, Names, TopicPartition
from replica.log.files.disk import Disk
from replica.rules import Rules
from replica.trace import events as trace
from replica.trace.events import Emit, Recorder

if TYPE_CHECKING:
    from cluster.controller_node.forwarded_requests import ForwardedRequests


MAX_SHUTDOWN_US = 5_000_000
"""How long a leader that shuts down waits for a successor (KafkaRaftManager.shutdown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerBase:
    """What a controller's process begins with."""

    controller_id: BrokerId
    names: Names
    config: BrokerConfig
    rules: Rules
    log_dir: Path
    disk: Disk
    clock: WallClock
    recorder: Recorder


class ControllerCore:
    """One incarnation of a controller; it takes over the metadata log and the vote that its predecessor left on disk.

    voters: address of every controller of the quorum, this one included     draw(n): a random integer in [0, n)
    chronicle: shared by the controllers of a quorum
    state: what the active controller knows and decides, None while this one is not active
    """

    def __init__(
        self,
        base: ControllerBase,
        *,
        voters: Mapping[BrokerId, tuple[str, int]],
        draw: Callable[[int], int],
        chronicle: Chronicle,
        security: ListenerSecurity = OPEN,
        session_check_phase_us: int | None = None,
        now: Callable[[], int] = lambda: 0,
        slicing: Callable[[], int] | None = None,
    ) -> None:
        """security: what it asks of clients from outside, and leaves in a new cluster's metadata
        session_check_phase_us: where in their interval its checks for ended sessions fall, see PeriodicCheck
        now, slicing: as of a broker
        """
        controller_id, config, recorder = base.controller_id, base.config, base.recorder
        self.controller_id = controller_id
        self.state: ControllerState | None = None
        self.is_open = False
        self.was_opened = False
        self.log: MetadataLog
        self.quorum: Quorum
        self._name = base.names(controller_id)
        self._names = base.names
        self._config = config
        self._rules = base.rules
        self._log_dir = base.log_dir
        self._disk = base.disk
        self._clock = base.clock
        self._recorder = recorder
        self._session_check_phase_us = session_check_phase_us
        self._draw = draw
        self._outbox = Outbox()
        self._connections = AcceptedConnections(self._name, config, self._outbox, recorder, nodes_only=True)
        self._decisions = DecisionQueue(recorder, chronicle)
        self._slices = Slices(now=now, clock=slicing, at=self._outbox.timers.at)
        self._leaving = False
        self._bootstrap = security.scram
        self._super_users = security.super_users
        self._fetches: MetadataFetches
        self._snapshots: SnapshotWriter
        self._peers = QuorumPeers(
            client_id=self._name,
            outbox=self._outbox,
            addresses={voter: address for voter, address in voters.items() if voter != controller_id},
            request_timeout_ms=config.controller_quorum_request_timeout_ms,
            on_answered=self._peer_answered,
        )
        self._addresses = dict(voters)

    def start(self, now_us: int) -> list[Action]:
        self.log = MetadataLog(self._log_dir, self._disk, self.controller_id, now_us)
        self.quorum = Quorum(
            local_id=self.controller_id,
            voters=tuple(self._addresses),
            names=self._names,
            log=self.log,
            timeouts=QuorumTimeouts(
                election_ms=self._config.controller_quorum_election_timeout_ms,
                fetch_ms=self._config.controller_quorum_fetch_timeout_ms,
                election_backoff_max_ms=self._config.controller_quorum_election_backoff_max_ms,
            ),
            draw=self._draw,
        )
        self._fetches = MetadataFetches(self._outbox, self.quorum, self.log)
        threshold = self._config.metadata_log_max_record_bytes_between_snapshots
        self._snapshots = SnapshotWriter(self._name, self.log, threshold, self._recorder)
        self.is_open = self.was_opened = True
        self._outbox.listen()
        self.quorum.start(now_us)
        return self._actions(now_us)

    def begin_shutdown(self, now_us: int) -> list[Action]:
        """SIGTERM: a leader with peers first gives up and waits for a successor."""
        if self.quorum.is_leader and len(self._addresses) > 1:
            self._leaving = True
            self._outbox.timers.at(now_us + MAX_SHUTDOWN_US, self._stop)
            self.quorum.resign_for_good(now_us)
        else:
            self._stop(now_us)
        return self._actions(now_us)

    def _stop(self, now_us: int) -> None:
        if self.is_open:
            self.is_open = False
            self._slices.clear()
            self.log.close_clean()
            self._outbox.exit()

    def crash(self) -> None:
        """The process is gone: its file descriptors close, nothing is written."""
        if self.is_open:
            self.is_open = False
            self.log.abandon()

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
        answer: OnReply,
        now_us: int,
    ) -> list[Action]:
        creation = CreateTopic(
            now_us=now_us,
            name=name,
            assignment=assignment,
            partitions=None if assignment is not None else partitions,
            replication_factor=None if assignment is not None else replication_factor,
            config=config,
        )
        self._decide(creation, answer, now_us)
        return self._actions(now_us)

    def elect_leader(
        self,
        topic_partition: TopicPartition,
        desired: BrokerId | None,
        unclean: bool,
        answer: OnReply,
        now_us: int,
    ) -> list[Action]:
        election = ElectLeader(
            now_us=now_us,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            kind="unclean" if unclean else "preferred",
            desired=desired,
        )
        self._decide(election, answer, now_us)
        return self._actions(now_us)

    @property
    def answers_operator(self) -> bool:
        return self.state is not None

    def topic_config(self, topic: str, answer: Callable[[Mapping[str, str]], None], now_us: int) -> list[Action]:
        """A topic's own settings; none if this controller is not active."""
        answer({} if self.state is None else dict(self.state.image.topics[topic].config))
        return []

    def operate(self, make_input: Callable[[int], ControllerInput], answer: OnReply, now_us: int) -> list[Action]:
        """Any other request of an operator; `make_input` receives the time."""
        self._decide(make_input(now_us), answer, now_us)
        return self._actions(now_us)

    # ----------------------------------------------------------------------------------------------------- NodeCore

    @property
    def next_deadline_us(self) -> int | None:
        if not self.is_open:
            return None
        state_due_us = None if self.state is None else self.state.next_deadline_us
        dues = (self._outbox.timers.next_deadline_us, state_due_us, self.quorum.next_deadline_us)
        return min((due_us for due_us in dues if due_us is not None), default=None)

    @property
    def accepts(self) -> bool:
        return True

    @property
    def max_request_bytes(self) -> int:
        return self._config.socket_request_max_bytes

    def tick(self, now_us: int) -> list[Action]:
        self._outbox.timers.run_due(now_us)
        if self.is_open:
            state = self.state
            if state is not None and state.next_deadline_us is not None and state.next_deadline_us <= now_us:
                self._carry_out(state.tick(now_us), _ignore, now_us)
            self.quorum.tick(now_us)
        return self._actions(now_us)

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> list[Action]:
        self._connections.accepted(connection, peer, listener, now_us)
        return self._actions(now_us)

    def identified(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        self._connections.identified(connection, peer)
        return []

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]:
        channel = self._outbox.callers.get(connection)
        if channel is not None:
            channel.connected(now_us)
        return self._actions(now_us)

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]:
        channel = self._outbox.callers.get(connection)
        if channel is not None:
            channel.received(frame, now_us)
        else:
            self._connections.active(connection, now_us)
            try:
                self._request(connection, read_request_header(frame), frame, now_us)
            except PeerViolation as violation:
                self._connections.close(connection, CloseCause.VIOLATION, str(violation))
        return self._actions(now_us)

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]:
        channel = self._outbox.callers.get(connection)
        if channel is not None:
            channel.disconnected(reason, now_us)
        self._connections.gone(connection)
        if self.is_open:
            self._fetches.gone(connection)
        return self._actions(now_us)

    def _request(self, connection: ConnectionId, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        if header.api_key == FETCH:
            self._fetches.fetch(connection, header, frame, now_us)
        elif header.api_key == FETCH_SNAPSHOT:
            wanted = decode_fetch_snapshot(header, frame)
            piece = encode_snapshot_answer(header, wanted, self.quorum.snapshot_fetched(wanted, now_us))
            self._outbox.respond(connection, (piece,), header.api_key)
        elif header.api_key in VOTER_REQUESTS:
            answer = self.quorum.asked(decode_request(header, frame), now_us)
            self._outbox.respond(connection, (encode_answer(header, answer),), header.api_key)
        elif header.api_key == ENVELOPE:
            self._forwarded.received(connection, header, frame, now_us)
        elif not is_request_of_brokers(header):
            raise PeerViolation(f"api {header.api_key} is not served by the controller")
        elif self.state is None:
            self._outbox.respond(connection, (error_response(header, ErrorCode.NOT_CONTROLLER),), header.api_key)
        else:
            asked = broker_request(header, frame, self.state.image, now_us)
            self._decide(asked.input, lambda reply: self._reply(connection, asked, reply), now_us)

    @cached_property
    def _forwarded(self) -> ForwardedRequests:
        from cluster.controller_node.forwarded_requests import ForwardedRequests

        return ForwardedRequests(
            slices=self._slices,
            config=self._config,
            rules=self._rules,
            super_users=self._super_users,
            outbox=self._outbox,
            active=lambda: self.state,
            decide=self._decide,
            describe=self._describe,
        )

    def _describe(self, request: Entity, now_us: int) -> dict[str, object]:
        description = self._fetches.description
        return description.describe(request, self._addresses, self.log.end_offset, self._clock, now_us)

    def _reply(self, connection: ConnectionId, asked: BrokerRequest, reply: Reply | None) -> None:
        if reply is None or self.state is None:
            frame = error_response(asked.header, ErrorCode.NOT_CONTROLLER)
        else:
            frame = asked.response(reply)
        self._outbox.respond(connection, (frame,), asked.header.api_key)

    # ------------------------------------------------------------------------------------------------------- decisions

    def _decide(self, given: ControllerInput, answer: OnReply, now_us: int) -> None:
        assert self.state is not None, "only the active controller decides"
        self._carry_out(self.state.step(given), answer, now_us)

    def _carry_out(self, decided: Sequence[Decided], answer: OnReply, now_us: int) -> None:
        led_here = () if self._recorder.cause is None else (self._recorder.cause,)
        records = [action.record for action in decided if isinstance(action, AppendRecord)]
        if records:
            # KRaft fsyncs its log before a record counts as held.
            self.log.append(records, self.quorum.epoch, now_us)
        decision = Decision(self.quorum.epoch, self._next_offset(), led_here, answer)
        for action in decided:
            if isinstance(action, EmitNumbered):
                decision.events.append(action)
            elif not isinstance(action, AppendRecord):
                decision.replies.append(action)
        self._decisions.add(decision, written=bool(records))
        if records:
            self.quorum.appended()
            self._perform(now_us)
            self._fetches.wake(now_us)
        else:
            self._complete(now_us)

    def _next_offset(self) -> int:
        assert self.state is not None, "only the active controller decides"
        assert self.state.next_offset == self.log.end_offset, "the state and its log count the same records"
        return self.state.next_offset

    def _complete(self, now_us: int) -> None:
        """Handle committed decisions: first their events, then the news for brokers, then the answers to requests."""
        committed = self._decisions.take_committed(self.quorum.high_watermark, self.log.epoch_at)
        self._fetches.wake(now_us)
        for decision in committed:
            for reply in decision.replies:
                decision.answer(reply)

    # ---------------------------------------------------------------------------------------------------------- quorum

    def _peer_answered(self, peer_id: BrokerId, request: Request, answer: AnyAnswer | None, now_us: int) -> None:
        if self.is_open:
            self.quorum.answered(peer_id, request, answer, now_us)
            # At once: a leader that has just resigned must not decide anything in the same step.
            self._perform(now_us)

    def _actions(self, now_us: int) -> list[Action]:
        if self.is_open:
            self._perform(now_us)
        return self._connections.answered(self._outbox.take(), now_us)

    def _perform(self, now_us: int) -> None:
        """Do what the quorum wants done, and take up or lay down the active controller's office."""
        while self.is_open and (actions := self.quorum.take()):
            for action in actions:
                match action:
                    case SendTo():
                        self._peers.send(action.peer_id, action.request, now_us)
                    case Emit():
                        self._recorder.emit(action.event)
                    case LogCommitted():
                        self._complete(now_us)
                        self._maybe_activate(now_us)
                        if self.is_open:
                            self._snapshots.committed(self.quorum.high_watermark)
                    case LeadershipChanged():
                        self._leadership_changed(now_us)

    def _leadership_changed(self, now_us: int) -> None:
        if self.state is not None and not self.quorum.is_leader:
            self.state = None
            self._decisions.revert()
        self._fetches.wake(now_us)
        if self._leaving and not self.quorum.is_resigned:
            self._stop(now_us)

    def _maybe_activate(self, now_us: int) -> None:
        """The log is committed up to a record of our own epoch, so it holds everything that was ever decided."""
        if self.state is not None or not self.quorum.has_committed_its_epoch:
            return
        self.state = self._new_state()
        self._load(self.state, now_us)
        cause = ActivationCause.COMMITTED
        self._recorder.emit(trace.ControllerActivated(node=self._name, controller_epoch=self.quorum.epoch, cause=cause))
        if self._bootstrap and self.state.image.is_empty:
            self._decide(Bootstrap(now_us=now_us, records=self._bootstrap), _ignore, now_us)

    def _load(self, state: ControllerState, now_us: int) -> None:
        snapshot = self.log.snapshots.load()
        state.load(self.log.records(0 if snapshot is None else snapshot.end.offset), now_us, snapshot)
        if snapshot is not None:
            self._recorder.emit(
                trace.SnapshotLoaded(
                    node=self._name,
                    offset=snapshot.end.offset,
                    controller_epoch=snapshot.end.epoch,
                    cause=LoadingCause.ACTIVE,
                )
            )

    def _new_state(self) -> ControllerState:
        config = self._config
        return ControllerState(
            names=self._names,
            controller_id=self.controller_id,
            rules=self._rules,
            settings=DynamicSettings(config),
            limits=ControllerLimits(
                session_timeout_us=config.broker_session_timeout_ms * 1000,
                session_check_phase_us=self._session_check_phase_us,
                rebalance_interval_us=config.leader_imbalance_check_interval_seconds * 1_000_000
                if config.auto_leader_rebalance_enable
                else None,
                num_partitions=config.num_partitions,
                default_replication_factor=config.default_replication_factor,
                max_partitions=config.max_partitions,
            ),
        )


def _ignore(reply: Reply | None) -> None:
    """A decision of the controller's own timers answers no request."""
