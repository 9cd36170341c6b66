"""The verbs of tests/golden/partition_*.txt: one partition on three brokers, and the controller that elects its leader.

Every decision is made by the real state machines: LeaderState, FollowerState, ControllerState. Between them are no
sockets, no disks and no clock. A message arrives when the transcript says so, and so it shows one thing at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller_world import register
from follower_world import NAMES, TOPIC, FollowerWorld, Replica
from leader_world import advanced, because

from controller.image import PartitionRegistration
from controller.inputs import (
    Action,
    AlterPartition,
    AlterPartitionReply,
    BrokerHeartbeat,
    ControllerInput,
    CreateTopic,
    EmitNumbered,
)
from controller.inputs import IsrProposal as WantedIsr
from controller.state import ControllerLimits, ControllerState
from replica.errors import ErrorCode, KafkaError
from replica.inputs import (
    AdvanceHighWatermark,
    Appended,
    FetchReceived,
    IsrAccepted,
    IsrRefused,
    LagCheckDue,
    LagLimits,
    LeaderAssigned,
    LeaderInput,
    PartitionUpdated,
    ProposeIsr,
)
from replica.leader import ACKS_ALL, LeaderState
from replica.rules import PROFILES
from replica.trace import events as trace

LAG_TIME_MAX_US = 30_000_000
HEARTBEAT_US = 1_000_000
BROKERS = (1, 2, 3)


@dataclass
class Waiting:
    """A produce with acks=all: answered once all below `required` is committed."""

    records: str
    required: int


@dataclass
class Broker:
    """leader: while it leads     known: the last word of the controller that has reached it"""

    name: str
    replica: Replica
    leader: LeaderState | None = None
    known: PartitionRegistration | None = None
    is_up: bool = True
    hears_the_controller: bool = True
    lives: int = 1
    waiting: list[Waiting] = field(default_factory=list)
    proposals: list[ProposeIsr] = field(default_factory=list)


class PartitionWorld(FollowerWorld):
    """Fetches, truncation and epochs of followers are FollowerWorld's; here a leader acknowledges and the ISR changes.

    (epoch, offset) names a record for good, since an epoch has one leader: so `records` knows what stands in any log.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_us: int = 0
        self.rules = PROFILES["kafka-4.1"]
        self.brokers: dict[str, Broker] = {}
        self.records: dict[tuple[int, int], str] = {}
        self.controller: ControllerState
        self.min_isr = 1

    # ------------------------------------------------------------------------------------------------- setting up

    def partition(self, *replicas: str, min_isr: int = 1) -> None:
        """partition b1 b2 b3 min-isr=2: quietly start three brokers and create orders-0, which the first one leads"""
        self.min_isr = min_isr
        self.controller = ControllerState(
            names=NAMES,
            controller_id=1001,
            rules=PROFILES["kafka-4.1"],
            limits=ControllerLimits(rebalance_interval_us=None),
        )
        self.brokers = {NAMES(number): Broker(NAMES(number), self._replica(NAMES(number))) for number in BROKERS}
        for broker in self.brokers.values():
            self._register(broker)
            self._beat(broker)
        ids = tuple(self.brokers[name].replica.broker_id for name in replicas)
        config = {"min.insync.replicas": str(min_isr)}
        self._decide(CreateTopic(now_us=self.now_us, name=TOPIC.topic, assignment=(ids,), config=config))
        self._tell_brokers()

    def _register(self, broker: Broker) -> list[str]:
        life = f"life {broker.lives}"
        return self._decide(register(broker.replica.broker_id, at=self.now_us, incarnation=life))

    def _beat(self, broker: Broker) -> list[str]:
        registered = self.controller.image.brokers[broker.replica.broker_id]
        return self._decide(
            BrokerHeartbeat(
                now_us=self.now_us,
                broker_id=broker.replica.broker_id,
                broker_epoch=registered.broker_epoch,
                metadata_offset=self.controller.image.offset,
            )
        )

    # ----------------------------------------------------------------------------------------------------- clients

    def produce(self, *names: str, acks: str = "all", to: str | None = None) -> list[str]:
        """produce r0 r1 acks=all to=b1: one batch, to the leader unless it says otherwise"""
        broker = self._leading_broker() if to is None else self.brokers[to]
        if broker.leader is None:
            return [f"{broker.name} answers NOT_LEADER_OR_FOLLOWER: it does not lead"]
        try:
            broker.leader.may_produce(ACKS_ALL if acks == "all" else int(acks))
        except KafkaError as error:
            return [f"{broker.name} answers {error.code.name}, nothing appended: {error.message}"]
        replica, records = broker.replica, " ".join(names)
        for name in names:
            self.records[replica.leader_epoch, replica.end] = name
            replica.append([replica.leader_epoch])
        lines = [f"{broker.name} appends {records}, to {replica.end}"]
        if acks == "all":
            broker.waiting.append(Waiting(records, replica.end))
        else:
            lines.append(f"{broker.name} answers at once: {records} acked (acks={acks})")
        return lines + self._lead_on(broker, Appended(now_us=self.now_us, log_end_offset=replica.end))

    def read(self, at: str | None = None) -> list[str]:
        """read at=b1: what a consumer is given there"""
        replica = (self._leading_broker() if at is None else self.brokers[at]).replica
        return [f"a consumer reads {self._shown(replica, replica.high_watermark) or 'nothing'}"]

    def _leading_broker(self) -> Broker:
        return self.brokers[NAMES(self._registration().leader)]

    # ---------------------------------------------------------------------------------------------------- followers

    def fetch(self, name: str, *others: str, max_records: int = 1000, at: int | None = None) -> list[str]:
        """fetch b2 b3: each sends one request and has its answer"""
        self._at(at)
        return [line for one in (name, *others) for line in self._fetch(one, max_records)]

    def _fetch(self, name: str, max_records: int) -> list[str]:
        leader = self.brokers[NAMES(self._follower(name).leader_id)]
        if leader.is_up:
            return super().fetch(name, max_records=max_records)
        return self.send(name) + self.breaks(name)

    def _acknowledged(self, leader: Replica, name: str, offset: int) -> list[str]:
        leading, follower = self.brokers[NAMES(leader.broker_id)], self.brokers[name].replica
        registered = self.controller.image.brokers[follower.broker_id]
        return self._lead_on(
            leading,
            FetchReceived(
                now_us=self.now_us,
                broker_id=follower.broker_id,
                broker_epoch=registered.broker_epoch,
                fetch_offset=offset,
                leader_end_offset=leader.end,
                log_start_offset=follower.start,
            ),
        )

    def _high_watermark_line(self, replica: Replica, said: str) -> str:
        return f"{NAMES(replica.broker_id)}: {said}"

    # ------------------------------------------------------------------------------------------------------- leaders

    def check_lag(self, name: str, at: int) -> list[str]:
        """Kafka's isr-expiration task."""
        return self._lead_on(self.brokers[name], LagCheckDue(now_us=self._at(at)))

    def _lead_on(self, broker: Broker, given: LeaderInput) -> list[str]:
        """Perform what the leader wants, and answer those who waited for it."""
        leader, lines = broker.leader, []
        assert leader is not None, f"{broker.name} does not lead"
        for action in leader.step(given):
            match action:
                case AdvanceHighWatermark():
                    lines.append(self._high_watermark_line(broker.replica, advanced(action, NAMES)))
                case ProposeIsr():
                    broker.proposals.append(action)
                    isr = NAMES.set_of(action.in_sync_replicas)
                    lines.append(
                        f"{broker.name} wants the ISR {isr}, {because(action, NAMES)}; AlterPartition is on its way"
                    )
        broker.replica.high_watermark = leader.high_watermark
        for produce in list(broker.waiting):
            status = leader.produce_status(produce.required)
            if status is not None:
                broker.waiting.remove(produce)
                word = "acked" if status is ErrorCode.NONE else status.name
                lines.append(f"{broker.name} answers: {produce.records} {word} (acks=all)")
        return lines

    # ---------------------------------------------------------------------------------------------------- controller

    def alter_partition(self, at: int | None = None) -> list[str]:
        """What is on its way reaches the controller; its answers reach the leaders, its metadata every broker."""
        self._at(at)
        lines = []
        for broker in self.brokers.values():
            if not broker.proposals:
                continue
            if not broker.hears_the_controller:
                lines.append(f"{broker.name} cannot reach the controller")
                continue
            proposals, broker.proposals = broker.proposals, []
            for proposal in proposals:
                lines += self._alter(broker, proposal)
        return lines + self._tell_brokers()

    def _alter(self, broker: Broker, proposal: ProposeIsr) -> list[str]:
        wanted = WantedIsr(
            topic=TOPIC.topic,
            partition=TOPIC.partition,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            in_sync_replicas=proposal.in_sync_replicas,
            broker_epochs=proposal.broker_epochs,
        )
        number = broker.replica.broker_id
        epoch = self.controller.image.brokers[number].broker_epoch
        request = AlterPartition(now_us=self.now_us, broker_id=number, broker_epoch=epoch, partitions=(wanted,))
        actions = self.controller.step(request)
        lines = list(self._said(actions))
        reply = actions[-1]
        assert isinstance(reply, AlterPartitionReply)
        (result,) = reply.partitions
        if broker.leader is None:
            return [*lines, f"{broker.name} leads no more: the answer changes nothing"]
        if result.error is not ErrorCode.NONE:
            refused = IsrRefused(now_us=self.now_us, error=result.error, proposal=proposal)
            return [*lines, *self._lead_on(broker, refused)]
        accepted = IsrAccepted(
            now_us=self.now_us,
            leader_epoch=result.leader_epoch,
            in_sync_replicas=result.in_sync_replicas,
            partition_epoch=result.partition_epoch,
            recovering=result.recovering,
            proposal=proposal,
        )
        return [*lines, *self._lead_on(broker, accepted)]

    def wait(self, until: int) -> list[str]:
        """Time passes: live brokers send heartbeats, and the controller fences whoever is silent for 9 s."""
        lines = []
        while self.now_us < until:
            self.now_us = min(until, self.now_us + HEARTBEAT_US)
            for broker in self.brokers.values():
                if broker.is_up and broker.hears_the_controller:
                    lines += self._beat(broker)
            clock = f"at {self.now_us / 1_000_000:g} s"
            lines += [f"{line} ({clock})" for line in self._said(self.controller.tick(self.now_us))]
            lines += self._tell_brokers()
        return lines

    def _decide(self, given: ControllerInput) -> list[str]:
        return list(self._said(self.controller.step(given)))

    @staticmethod
    def _said(actions: Iterable[Action]) -> Iterable[str]:
        for action in actions:
            if not isinstance(action, EmitNumbered):
                continue
            match action.event:
                case trace.LeaderElected(broker=leader, leader_epoch=epoch):
                    yield f"controller: {leader} leads from epoch {epoch} on: {action.event.sentence()}"
                case trace.PartitionWentOffline(leader_epoch=epoch):
                    yield f"controller: in epoch {epoch} there is {action.event.sentence()}"
                case trace.IsrCommitted(isr=isr, partition_epoch=epoch):
                    yield f"controller: ISR {{{', '.join(isr)}}} at partition epoch {epoch}: {action.event.sentence()}"
                case trace.ElrCommitted(elr=elr):
                    yield f"controller: ELR {{{', '.join(elr)}}}: {action.event.sentence()}"
                case trace.IsrRejected():
                    yield f"controller: {action.event.sentence()}"
                case trace.BrokerFenced():
                    yield f"controller: {action.event.sentence()}"
                case trace.BrokerUnfenced(broker=broker):
                    yield f"controller: {broker} is unfenced, it may lead and be in the ISR"

    def _registration(self) -> PartitionRegistration:
        registration = self.controller.image.partition(*TOPIC)
        assert registration is not None
        return registration

    def _tell_brokers(self) -> list[str]:
        """Metadata reaches every broker that is up and can hear the controller."""
        registration = self._registration()
        lines = []
        for number in registration.replicas:
            broker = self.brokers[NAMES(number)]
            if broker.is_up and broker.hears_the_controller and broker.known != registration:
                lines += self._learn(broker, registration)
        return lines

    def _learn(self, broker: Broker, registration: PartitionRegistration) -> list[str]:
        before, broker.known = broker.known, registration
        number, epoch = broker.replica.broker_id, registration.leader_epoch
        if before is not None and before.leader_epoch == epoch:
            return self._isr_changed(broker, registration)
        if registration.leader == number:
            return self._become_leader(broker, registration)
        lines = [
            f"{broker.name} answers NOT_LEADER_OR_FOLLOWER: {produce.records} may survive or not"
            for produce in broker.waiting
        ]
        broker.leader, broker.waiting = None, []
        if not registration.has_leader:
            return lines
        if before is not None or broker.lives > 1:
            lines.append(f"{broker.name} follows {NAMES(registration.leader)} in epoch {epoch}")
        return lines + self.follow(broker.name, NAMES(registration.leader), epoch)

    def _isr_changed(self, broker: Broker, registration: PartitionRegistration) -> list[str]:
        if broker.leader is None:
            return []
        changed = PartitionUpdated(
            now_us=self.now_us,
            partition_epoch=registration.partition_epoch,
            in_sync_replicas=registration.in_sync_replicas,
            assigned_replicas=registration.replicas,
        )
        return self._lead_on(broker, changed)

    def _become_leader(self, broker: Broker, registration: PartitionRegistration) -> list[str]:
        replica, was_leader, is_first = broker.replica, broker.leader is not None, registration.leader_epoch == 0
        self.lead(broker.name, registration.leader_epoch)
        if broker.leader is None:
            broker.leader = LeaderState(
                topic_partition=TOPIC,
                broker_id=replica.broker_id,
                lag_limits=LagLimits(time_max_us=LAG_TIME_MAX_US, max_messages=4000),
                min_insync_replicas=self.min_isr,
                names=NAMES,
                rules=self.rules,
                is_eligible=self._is_eligible,
            )
        assigned = LeaderAssigned(
            now_us=self.now_us,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            in_sync_replicas=registration.in_sync_replicas,
            assigned_replicas=registration.replicas,
            log_end_offset=replica.end,
            high_watermark=replica.high_watermark,
            was_leader=was_leader,
            recovering=registration.recovering,
        )
        where = f"epoch {registration.leader_epoch} begins at {replica.end}, HW {replica.high_watermark}"
        return ([] if is_first else [f"{broker.name} leads: {where}"]) + self._lead_on(broker, assigned)

    def _is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        registered = self.controller.image.brokers[broker_id]
        return registered.is_active and broker_epoch in (-1, registered.broker_epoch)

    # -------------------------------------------------------------------------------------------------------- faults

    def kill(self, name: str) -> list[str]:
        """kill -9: what it wrote stays in the page cache."""
        broker = self.brokers[name]
        lines = [f"{name}'s client is left without an answer for {produce.records}" for produce in broker.waiting]
        broker.is_up, broker.leader, broker.known, broker.waiting, broker.proposals = False, None, None, [], []
        broker.replica.follower = None
        return lines

    def start(self, name: str, at: int | None = None) -> list[str]:
        """It registers anew, hears who leads, and is unfenced."""
        self._at(at)
        broker = self.brokers[name]
        broker.is_up, broker.lives = True, broker.lives + 1
        return self._register(broker) + self._tell_brokers() + self._beat(broker) + self._tell_brokers()

    def cut_off(self, name: str) -> None:
        """It and the controller do not hear each other; clients and the other brokers reach it."""
        self.brokers[name].hears_the_controller = False

    def heal(self, name: str, at: int | None = None) -> list[str]:
        self._at(at)
        self.brokers[name].hears_the_controller = True
        return self._beat(self.brokers[name]) + self._tell_brokers()

    # --------------------------------------------------------------------------------------------- what one can see

    def logs(self) -> list[str]:
        registration = self._registration()
        leader = NAMES(registration.leader) if registration.has_leader else "none"
        lines = [
            f"leader {leader}, epoch {registration.leader_epoch}; ISR {NAMES.set_of(registration.in_sync_replicas)}, "
            f"partition epoch {registration.partition_epoch}"
        ]
        names = [NAMES(number) for number in registration.replicas]
        logs = {name: self._shown(self.replicas[name], self.replicas[name].end) for name in names}
        widest = max(map(len, logs.values()))
        for name in names:
            broker, replica = self.brokers[name], self.replicas[name]
            role = "is down" if not broker.is_up else "leads" if broker.leader is not None else "follows"
            where = f"LEO {replica.end}  HW {replica.high_watermark}"
            lines.append(f"  {name} {role:<8} {logs[name]:<{widest}}  {where}")
        return lines

    def _shown(self, replica: Replica, end: int) -> str:
        """`e0: r0 r1 | e1: r2`, the records below `end`."""
        parts: list[str] = []
        previous = None
        for offset, epoch in enumerate(replica.epochs[: end - replica.start], replica.start):
            if epoch != previous:
                parts += ["|"] if parts else []
                parts.append(f"e{epoch}:")
            parts.append(self.records[epoch, offset])
            previous = epoch
        return " ".join(parts)
