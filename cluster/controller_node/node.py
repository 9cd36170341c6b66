"""A controller as a node: a voter of the quorum that makes the cluster's decisions while it is active.

The active controller turns the requests of brokers into inputs of its state, writes the decisions to the metadata log,
and responds when a majority of controllers has them. Brokers fetch the log. A deposed controller forgets its state; the
next active controller rebuilds it from the log.

Source: QuorumController.java, ControllerApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.clocks import WallClock
from cluster.config import BrokerConfig
from cluster.controller_node.decisions import Chronicle, Decision, DecisionQueue, QuorumPeers
from cluster.controller_node.metadata_fetches import MetadataFetches
from cluster.controller_node.metadata_log import MetadataLog, SnapshotWriter, voters_record
from cluster.dynamic_settings import DynamicSettings
from cluster.messages.controller_requests import (
    BrokerRequest,
    broker_request,
    encoded,
    error_response,
    is_request_of_brokers,
)
from cluster.messages.quorum import (
    VOTER_CHANGES,
    VOTER_REQUESTS,
    decode_fetch_snapshot,
    decode_voter_change,
    encode_answer,
    encode_snapshot_answer,
    plain_fields,
)
from cluster.messages.quorum import decode_request as decode_quorum_request
from cluster.node import Action, ConnectionId, Outbox
from cluster.protocol.api_18_api_versions import encode_api_versions_response
from cluster.protocol.cold import decode_request
from cluster.protocol.entities import Entity
from cluster.protocol.versions import (
    API_VERSIONS,
    ENVELOPE,
    FETCH,
    FETCH_SNAPSHOT,
    VERSIONS,
    RequestHeader,
    read_request_header,
)
from cluster.security import OPEN, ListenerSecurity
from cluster.server.accepted_connections import AcceptedConnections
from cluster.slices import Slices
from controller.features import KRAFT_UPGRADE_SINCE
from controller.inputs import Action as Decided
from controller.inputs import (
    AppendRecord,
    Bootstrap,
    ChangeVoters,
    ControllerInput,
    EmitNumbered,
    OnReply,
    PlainReply,
    Reply,
)
from controller.metadata import VotersRecord
from controller.quorum.messages import (
    AddVoter,
    AnyAnswer,
    LeadershipChanged,
    LogCommitted,
    PlainAnswer,
    RemoveVoter,
    Request,
    SendTo,
    Voter,
    VoterChangeEnded,
    VotersAppended,
)
from controller.quorum.quorum import Quorum
from controller.quorum.roles import QuorumConfig
from controller.state import ControllerLimits, ControllerState
from replica.causes import ActivationCause, CloseCause, LoadingCause
from replica.errors import ErrorCode, PeerViolation
from replica.ids import CLUSTER_ID, UNDEFINED_EPOCH, BrokerId, Names, Offset
from replica.log.files.disk import Disk
from replica.log.manager import new_directory_id
from replica.rules import KafkaRelease, Rules
from replica.trace import events as trace
from replica.trace.events import Emit, Recorder

if TYPE_CHECKING:
    from cluster.controller_node.forwarded_requests import ForwardedRequests


DIRECTORIES_SINCE = KafkaRelease(3, 9)
"""The first release whose controllers state the directory of their log when they fetch (KIP-853)."""
AUTO_JOIN_SINCE = KafkaRelease(4, 2)
"""The first release with controller.quorum.auto.join.enable (KIP-1186)."""
SERVED = {
    key: VERSIONS[key] for key in (FETCH, API_VERSIONS, *VOTER_REQUESTS, ENVELOPE, FETCH_SNAPSHOT, *VOTER_CHANGES)
}
"""The APIs of a controller. The quorum's leader requests this list before it adds a voter."""
MAX_SHUTDOWN_US = 5_000_000
"""How long a leader that shuts down waits for a successor, in microseconds (KafkaRaftManager.shutdown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerBase:
    """The parts that all controllers of a cluster have in common.

    Attributes:
        initial_controllers: ids of the voters with which the disks of the quorum were formatted (kraft.version 1);
            empty if all controllers are permanent voters (controller.quorum.voters).
        is_first_process: True if the disk was formatted before the cluster began, False if it may be a new one.
    """

    controller_id: BrokerId
    names: Names
    config: BrokerConfig
    rules: Rules
    log_dir: Path
    disk: Disk
    clock: WallClock
    recorder: Recorder
    initial_controllers: Sequence[BrokerId] = ()
    is_first_process: bool = True


class ControllerCore:
    """One process of a controller. It continues with the metadata log and the vote on its disk.

    Args:
        voters: address of every controller, including this one and those that are no voters.
        draw: returns a random integer in [0, n).
        chronicle: shared by the controllers of a quorum.
        security: authentication required of outside clients, and initial credentials of a new cluster.
        session_check_phase_us: phase of the checks for expired sessions, see PeriodicCheck.
        now, slicing: as in BrokerTimes.

    Attributes:
        state: state of the active controller, None while this controller is not active.
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
        controller_id, config, recorder = base.controller_id, base.config, base.recorder
        self.controller_id = controller_id
        self.state: ControllerState | None = None
        self._active_epoch = UNDEFINED_EPOCH  # The epoch in which `state` decides.
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
        self._initial_controllers = base.initial_controllers
        self._is_first_process = base.is_first_process
        self._end_voter_change: Callable[[PlainAnswer], None] | None = None

    def start(self, now_us: int) -> list[Action]:
        formatted_us = 0 if self._is_first_process else now_us
        self.log = MetadataLog(self._log_dir, self._disk, self.controller_id, formatted_us)
        has_directories = self._rules.release >= DIRECTORIES_SINCE
        local = Voter(self.controller_id, self.log.directory_id if has_directories else None)
        self.quorum = Quorum(
            local=local,
            voters=self._first_voters(local),
            controllers=tuple(self._addresses),
            names=self._names,
            log=self.log,
            config=QuorumConfig(
                election_ms=self._config.controller_quorum_election_timeout_ms,
                fetch_ms=self._config.controller_quorum_fetch_timeout_ms,
                election_backoff_max_ms=self._config.controller_quorum_election_backoff_max_ms,
                request_ms=self._config.controller_quorum_request_timeout_ms,
                auto_join=self._config.controller_quorum_auto_join_enable and self._rules.release >= AUTO_JOIN_SINCE,
                tells_directory=self._rules.release >= KRAFT_UPGRADE_SINCE,
            ),
            draw=self._draw,
            asks_first=self._rules.quorum_vote == "pre-vote",
        )
        self._fetches = MetadataFetches(self._outbox, self.quorum, self.log)
        threshold = self._config.metadata_log_max_record_bytes_between_snapshots
        self._snapshots = SnapshotWriter(self._name, self.log, threshold, self._recorder)
        self.is_open = self.was_opened = True
        self._outbox.listen()
        self.quorum.start(now_us)
        return self._actions(now_us)

    def _first_voters(self, local: Voter) -> list[Voter]:
        """Return the voters to use until the log has a set of voters.

        With kraft.version 1, only the first voters' disks are formatted with the list of voters (kafka-storage format
        --initial-controllers). Other controllers, and any controller with a new disk, learn the voters from the log.
        """
        if not self._initial_controllers:
            return [Voter(controller) for controller in self._addresses]
        voters = [Voter(voter, new_directory_id(CLUSTER_ID, voter)) for voter in self._initial_controllers]
        return voters if local in voters else []

    def begin_shutdown(self, now_us: int) -> list[Action]:
        """Begin to shut down (SIGTERM). A leader with peers first resigns and waits for a successor."""
        if self.quorum.is_leader and len(self.quorum.voters) > 1:
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
        """Close all files without writing, as for a killed process."""
        if self.is_open:
            self.is_open = False
            self.log.abandon()

    # ------------------------------------------------------------------------------------- the operator's console

    # Simplified: an operator's commands (kafka-topics, kafka-leader-election) reach the controller directly and not
    # over an admin client's connection; the controller handles them as in Kafka.

    @property
    def answers_operator(self) -> bool:
        return self.state is not None

    def topic_config(self, topic: str, answer: Callable[[Mapping[str, str]], None], now_us: int) -> list[Action]:
        """Call `answer` with a topic's own settings; with an empty mapping if this controller is not active."""
        answer({} if self.state is None else dict(self.state.image.topics[topic].config))
        return []

    def operate(
        self, make_input: Callable[[int], ControllerInput | ChangeVoters], answer: OnReply, now_us: int
    ) -> list[Action]:
        """Decide an operator's input. `make_input` creates it from the current time."""
        asked = make_input(now_us)
        if isinstance(asked, ChangeVoters):
            self._change_voters(self._voter_change(asked), partial(_reply_with, answer), now_us)
        else:
            self._decide(asked, answer, now_us)
        return self._actions(now_us)

    def _voter_change(self, asked: ChangeVoters) -> AddVoter | RemoveVoter:
        # Simplified: the directory of a new voter is that from which it last fetched; Kafka's tool reads it from the
        # disk of the controller on which it runs.
        voter = self.quorum.known_replica(asked.controller_id, is_voter=not asked.is_addition)
        return AddVoter(voter) if asked.is_addition else RemoveVoter(voter)

    # ------------------------------------------------------------------------------------------------ changes of voters

    def _change_voters(
        self, change: AddVoter | RemoveVoter, answer: Callable[[PlainAnswer], None], now_us: int
    ) -> None:
        refused = self.quorum.change_voters(change, now_us)
        if refused is None:
            self._end_voter_change = answer
        else:
            answer(refused)

    def _asked_for_change(
        self, header: RequestHeader, request: Entity, answer: Callable[[PlainAnswer], None], now_us: int
    ) -> None:
        """Handle AddRaftVoter or RemoveRaftVoter from a client or an observer. Source: ControllerApis"""
        change = decode_voter_change(header, request)
        if not self.quorum.is_leader:
            answer(PlainAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        elif isinstance(change, PlainAnswer):
            answer(change)
        else:
            self._change_voters(change, answer, now_us)
            self._perform(now_us)

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
            channel.disconnected(now_us)
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
            answer = self.quorum.asked(decode_quorum_request(header, frame), now_us)
            self._outbox.respond(connection, (encode_answer(header, answer),), header.api_key)
        elif header.api_key in VOTER_CHANGES:
            respond = partial(self._respond_plainly, connection, header)
            self._asked_for_change(header, decode_request(header, frame), respond, now_us)
        elif header.api_key == API_VERSIONS:
            versions = encode_api_versions_response(header.api_version, header.correlation_id, SERVED)
            self._outbox.respond(connection, (versions,), API_VERSIONS)
        elif header.api_key == ENVELOPE:
            self._forwarded.received(connection, header, frame, now_us)
        elif not is_request_of_brokers(header):
            raise PeerViolation(f"the controller does not support API key {header.api_key}")
        elif self.state is None:
            self._outbox.respond(connection, (error_response(header, ErrorCode.NOT_CONTROLLER),), header.api_key)
        else:
            asked = broker_request(header, frame, self.state.image, now_us)
            self._decide(asked.input, lambda reply: self._reply(connection, asked, reply), now_us)

    def _respond_plainly(self, connection: ConnectionId, header: RequestHeader, answer: PlainAnswer) -> None:
        self._outbox.respond(connection, (encoded(header, plain_fields(answer)),), header.api_key)

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
            ask_quorum=self._ask_quorum,
        )

    def _ask_quorum(
        self, header: RequestHeader, request: Entity, answer: Callable[[dict[str, object]], None], now_us: int
    ) -> None:
        if header.api_key in VOTER_CHANGES:
            self._asked_for_change(header, request, lambda ended: answer(plain_fields(ended)), now_us)
        else:
            answer(self._fetches.description.describe(request, self._addresses, self._clock, now_us))

    def _reply(self, connection: ConnectionId, asked: BrokerRequest, reply: Reply | None) -> None:
        if reply is None or self.state is None:
            frame = error_response(asked.header, ErrorCode.NOT_CONTROLLER)
        else:
            frame = asked.response(reply)
        self._outbox.respond(connection, (frame,), asked.header.api_key)

    # ------------------------------------------------------------------------------------------------------- decisions

    def _decide(self, event: ControllerInput, answer: OnReply, now_us: int) -> None:
        assert self.state is not None, "this controller is not active"
        self._carry_out(self.state.step(event), answer, now_us)

    def _carry_out(self, decided: Sequence[Decided], answer: OnReply, now_us: int) -> None:
        led_here = () if self._recorder.cause is None else (self._recorder.cause,)
        records = [action.record for action in decided if isinstance(action, AppendRecord)]
        if records:
            # KRaft fsyncs its log before it counts a record as replicated.
            self.log.append(records, self.quorum.epoch, now_us)
        decision = Decision(self.quorum.epoch, self._next_offset(), led_here, answer)
        for action in decided:
            if isinstance(action, EmitNumbered):
                decision.events.append(action)
            elif not isinstance(action, AppendRecord):
                decision.replies.append(action)
        self._decisions.add(decision, written=bool(records))
        if records:
            self.quorum.appended(now_us)
            self._perform(now_us)
            self._fetches.wake(now_us)
        else:
            self._complete(now_us)

    def _next_offset(self) -> int:
        assert self.state is not None, "this controller is not active"
        assert self.state.next_offset == self.log.end_offset, "the state and the log have different end offsets"
        return self.state.next_offset

    def _complete(self, now_us: int) -> None:
        """Handle committed decisions: emit their events, wake the waiting fetches of brokers, then respond."""
        committed = self._decisions.take_committed(self.quorum.high_watermark, self.log.epoch_at)
        self._fetches.wake(now_us)
        for decision in committed:
            for reply in decision.replies:
                decision.answer(reply)

    # ---------------------------------------------------------------------------------------------------------- quorum

    def _peer_answered(self, peer_id: BrokerId, request: Request, answer: AnyAnswer | None, now_us: int) -> None:
        if self.is_open:
            self.quorum.answered(peer_id, request, answer, now_us)
            # Immediately: a leader that has just resigned must not decide anything in the same step.
            self._perform(now_us)

    def _actions(self, now_us: int) -> list[Action]:
        if self.is_open:
            self._perform(now_us)
        return self._connections.answered(self._outbox.take(), now_us)

    def _perform(self, now_us: int) -> None:
        """Perform the quorum's actions. Begin or cease to be the active controller if they require it."""
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
                    case VotersAppended():
                        self._voters_appended(action.offset, now_us)
                    case VoterChangeEnded():
                        assert self._end_voter_change is not None, "no voter change is in progress"
                        end, self._end_voter_change = self._end_voter_change, None
                        end(action.answer)

    def _leadership_changed(self, now_us: int) -> None:
        # A quorum of one voter can lose an epoch and lead the next one in the same step.
        if self.state is not None and (not self.quorum.is_leader or self.quorum.epoch != self._active_epoch):
            self.state = None
            self._decisions.revert()
        self._fetches.wake(now_us)
        if self._leaving and not self.quorum.is_resigned:
            self._stop(now_us)

    def _voters_appended(self, offset: Offset, now_us: int) -> None:
        if self.state is not None and self.state.next_offset == offset:
            (record,) = islice(self.log.records(offset), 1)
            self.state.image.apply(record, offset)
        self._fetches.wake(now_us)

    def _maybe_activate(self, now_us: int) -> None:
        """Become active once a record of this epoch is committed. All earlier decisions are then committed, too."""
        if self.state is not None or not self.quorum.has_committed_its_epoch:
            return
        self.state, self._active_epoch = self._new_state(), self.quorum.epoch
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
            upgraded_voters=self._upgraded_voters,
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

    def _upgraded_voters(self) -> VotersRecord | None:
        voters = self.quorum.upgraded_voters()
        return None if voters is None else voters_record(voters)


def _reply_with(answer: OnReply, ended: PlainAnswer) -> None:
    answer(PlainReply(error=ended.error, message=ended.message or ""))


def _ignore(reply: Reply | None) -> None:
    """Do nothing: a decision that a timer caused has no request to answer."""
