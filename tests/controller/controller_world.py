"""The controller as a world of verbs for transcripts, and helpers for its other tests.

`at` is the time of a command; without it nothing has passed since the command before.
"""

from __future__ import annotations

from typing import Any, Literal

from controller.features import SAFE_DOWNGRADE, UPGRADE
from controller.image import MetadataImage, PartitionRegistration
from controller.inputs import (
    Action,
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionReply,
    AlterReassignment,
    AppendRecord,
    BrokerHeartbeat,
    ChangeBrokerConfig,
    ChangeConfig,
    ChangeFeatureLevels,
    ControllerInput,
    CreatePartitions,
    CreateTopic,
    CreateTopicReply,
    DeleteTopic,
    ElectLeader,
    EmitNumbered,
    HeartbeatReply,
    IsrProposal,
    PlainReply,
    ProducerIdsReply,
    RegisterBroker,
    RegistrationReply,
)
from controller.metadata import encode_record
from controller.state import ControllerLimits, ControllerState
from replica.ids import BrokerId, Names, TopicPartition
from replica.rules import PROFILES, Rules
from replica.trace import events as trace

NAMES = Names({1: "b1", 2: "b2", 3: "b3", 4: "b4", 1001: "c1"})
_IDS = {name: broker_id for broker_id, name in NAMES.by_id.items()}


def new_state(rules: Rules = PROFILES["kafka-3.9"], **limits: Any) -> ControllerState:
    return ControllerState(names=NAMES, controller_id=1001, rules=rules, limits=ControllerLimits(**limits))


def register(broker_id: BrokerId, *, at: int = 0, incarnation: str = "first", **fields: Any) -> RegisterBroker:
    return RegisterBroker(
        now_us=at, broker_id=broker_id, incarnation_id=incarnation, host=NAMES(broker_id), port=9092, **fields
    )


def start_brokers(state: ControllerState, *broker_ids: BrokerId) -> None:
    """Registered, caught up and unfenced at time 0."""
    for broker_id in broker_ids:
        state.step(register(broker_id))
    for broker_id in broker_ids:
        heartbeat(state, broker_id)


def heartbeat(state: ControllerState, broker_id: BrokerId, *, at: int = 0, **fields: Any) -> list[Action]:
    """A heartbeat of the current incarnation, which knows all metadata unless `metadata_offset` says otherwise."""
    fields.setdefault("metadata_offset", state.image.offset)
    broker_epoch = state.image.brokers[broker_id].broker_epoch
    return state.step(BrokerHeartbeat(now_us=at, broker_id=broker_id, broker_epoch=broker_epoch, **fields))


class ControllerWorld:
    """Verbs of tests/golden/controller_*.txt. Fields left out of a request are as an honest broker would send them."""

    def __init__(self) -> None:
        self.controller = new_state()
        self.now_us = 0

    @property
    def _image(self) -> MetadataImage:
        return self.controller.image

    def _step(self, given: ControllerInput) -> list[str]:
        return [line for action in self.controller.step(given) for line in shown(action)]

    def _epoch_of(self, broker: str) -> int:
        registration = self._image.brokers.get(_IDS.get(broker, 0))
        return registration.broker_epoch if registration else -1

    def profile(self, name: str) -> None:
        """profile kafka-4.1: before anything else; without it kafka-3.9"""
        self.controller, self.now_us = new_state(PROFILES[name]), 0

    # ----------------------------------------------------------------------------------------------------- brokers

    def brokers(self, *brokers: str) -> None:
        """brokers b1 b2 b3: quietly start them"""
        start_brokers(self.controller, *(_IDS[broker] for broker in brokers))

    def register(
        self,
        broker: str,
        incarnation: str = "first",
        previous: int = -1,
        rack: str | None = None,
        at: int | None = None,
    ) -> list[str]:
        self._pass_time(at)
        return self._step(
            register(_IDS[broker], at=self.now_us, incarnation=incarnation, previous_broker_epoch=previous, rack=rack)
        )

    def heartbeat(
        self, broker: str, *wishes: str, epoch: int | None = None, offset: int | None = None, at: int | None = None
    ) -> list[str]:
        """heartbeat b1 fence shutdown epoch=0 offset=5 at=2s"""
        self._pass_time(at)
        event = BrokerHeartbeat(
            now_us=self.now_us,
            broker_id=_IDS.get(broker, 99),
            broker_epoch=self._epoch_of(broker) if epoch is None else epoch,
            metadata_offset=self._image.offset if offset is None else offset,
            want_fence="fence" in wishes,
            want_shut_down="shutdown" in wishes,
        )
        return self._step(event)

    def alive(self, *brokers: str, at: int) -> None:
        """alive b2 b3 at=2s: heartbeats that change nothing"""
        self._pass_time(at)
        for broker in brokers:
            assert len(self.heartbeat(broker)) == 1, f"{broker}'s heartbeat changed something"

    # ------------------------------------------------------------------------------------------------------ topics

    def topic(self, name: str, *assignment: tuple[str, ...], **config: Any) -> None:
        """topic t (b1,b2,b3) min.insync.replicas=2: quietly create it"""
        answer = self.create(name, *assignment, **config)[-1]
        assert answer == "-> NONE", answer

    def create(
        self,
        name: str,
        *assignment: tuple[str, ...],
        partitions: int | None = None,
        rf: int | None = None,
        only_validate: bool = False,
        **config: Any,
    ) -> list[str]:
        """create t (b1,b2) (b2,b1), or create t partitions=2 rf=2"""
        return self._step(
            CreateTopic(
                now_us=self.now_us,
                name=name,
                assignment=tuple(_ids(replicas) for replicas in assignment) or None,
                partitions=partitions,
                replication_factor=rf,
                config=config,
                validate_only=bool(only_validate),
            )
        )

    def grow(self, name: str, *assignment: tuple[str, ...], to: int, only_validate: bool = False) -> list[str]:
        """grow t to=3, or grow t (b1,b2) to=3"""
        return self._step(
            CreatePartitions(
                now_us=self.now_us,
                topic=name,
                count=to,
                assignment=tuple(_ids(replicas) for replicas in assignment) or None,
                validate_only=bool(only_validate),
            )
        )

    def allocate_ids(self, broker: str, epoch: int | None = None) -> list[str]:
        broker_epoch = _or(epoch, self._epoch_of(broker))
        return self._step(AllocateProducerIds(now_us=self.now_us, broker_id=_IDS[broker], broker_epoch=broker_epoch))

    def delete(self, name: str) -> list[str]:
        return self._step(DeleteTopic(now_us=self.now_us, name=name))

    def config(self, name: str, at: int | None = None, **config: Any) -> list[str]:
        """config t segment.bytes=2048 min.insync.replicas=default"""
        self._pass_time(at)
        changed = {key: None if value == "default" else value for key, value in config.items()}
        return self._step(ChangeConfig(now_us=self.now_us, topic=name, config=changed))

    # -------------------------------------------------------------------------------------------------- partitions

    def alter(
        self,
        partition: str,
        *wishes: str,
        by: str,
        isr: tuple[str, ...],
        le: int | None = None,
        pe: int | None = None,
        epochs: tuple[int, ...] | None = None,
        sender_epoch: int | None = None,
    ) -> list[str]:
        """alter t-0 by=b1 isr=(b1,b2) le=0 pe=0 epochs=(0,1) sender-epoch=0 recovering"""
        topic_partition = _partition(partition)
        known = self._image.partition(*topic_partition)
        proposal = IsrProposal(
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader_epoch=_or(le, known.leader_epoch if known else 0),
            partition_epoch=_or(pe, known.partition_epoch if known else 0),
            in_sync_replicas=_ids(isr),
            broker_epochs=epochs or tuple(self._epoch_of(member) for member in isr),
            recovering="recovering" in wishes,
        )
        sender_epoch = _or(sender_epoch, self._epoch_of(by))
        return self._step(
            AlterPartition(now_us=self.now_us, broker_id=_IDS[by], broker_epoch=sender_epoch, partitions=(proposal,))
        )

    def elect(self, partition: str, kind: Literal["preferred", "unclean"] = "preferred", leader: str = "") -> list[str]:
        """elect t-0 unclean leader=b2"""
        topic_partition = _partition(partition)
        return self._step(
            ElectLeader(
                now_us=self.now_us,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                kind=kind,
                desired=_IDS[leader] if leader else None,
            )
        )

    def reassign(self, partition: str, to: tuple[str, ...] | None = None) -> list[str]:
        """reassign t-0 to=(b1,b2,b4); without `to` it is cancelled"""
        topic, number = _partition(partition)
        replicas = None if to is None else _ids(to)
        return self._step(AlterReassignment(now_us=self.now_us, topic=topic, partition=number, replicas=replicas))

    def throttle(self, broker: str, **config: Any) -> list[str]:
        """throttle b1 leader.replication.throttled.rate=1000"""
        changed = {key: None if value == "default" else value for key, value in config.items()}
        return self._step(ChangeBrokerConfig(now_us=self.now_us, broker_id=_IDS[broker], config=changed))

    def level(self, feature: str, level: int, at: int | None = None) -> list[str]:
        """level eligible.leader.replicas.version 0"""
        self._pass_time(at)
        how = UPGRADE if level else SAFE_DOWNGRADE
        return self._step(
            ChangeFeatureLevels(now_us=self.now_us, levels={feature: level}, upgrade_types={feature: how})
        )

    # -------------------------------------------------------------------------------------------------------- time

    def tick(self, at: int | None = None) -> list[str]:
        self._pass_time(at)
        return [line for action in self.controller.tick(self.now_us) for line in shown(action)]

    def _pass_time(self, at: int | None) -> None:
        if at is not None:
            assert at >= self.now_us, "time runs backwards"
            self.now_us = at

    def due(self) -> list[str]:
        due_us = self.controller.next_deadline_us
        return ["nothing is due" if due_us is None else f"due at {due_us / 1_000_000:g} s"]

    def state(self) -> list[str]:
        lines = []
        for broker_id, broker in sorted(self._image.brokers.items()):
            what = ("fenced " if broker.fenced else "") + ("shutting-down" if broker.in_controlled_shutdown else "")
            lines.append(f"{NAMES(broker_id)} epoch={broker.broker_epoch} {what.strip() or 'active'}")
        return lines + [_partition_line(tp, registration) for tp, registration in self._image.partitions()]


def _partition_line(topic_partition: TopicPartition, partition: PartitionRegistration) -> str:
    return (
        f"{topic_partition} leader={NAMES(partition.leader)} leader_epoch={partition.leader_epoch} "
        f"partition_epoch={partition.partition_epoch} isr={NAMES.set_of(partition.in_sync_replicas)} "
        f"replicas={NAMES.set_of(partition.replicas)}{' recovering' if partition.recovering else ''}"
        + (f" elr={NAMES.set_of(partition.elr)}" if partition.elr else "")
        + (f" last_known_elr={NAMES.set_of(partition.last_known_elr)}" if partition.last_known_elr else "")
        + (f" adding={NAMES.set_of(partition.adding_replicas)}" if partition.adding_replicas else "")
        + (f" removing={NAMES.set_of(partition.removing_replicas)}" if partition.removing_replicas else "")
    )


def shown(action: Action) -> list[str]:
    match action:
        case AppendRecord(offset=offset, record=record):
            return [f"#{offset} {encode_record(record).decode()}"]
        case EmitNumbered(event=event):
            return [f"{type(event).__name__} {_event(event)}: {event.sentence()}"]
        case RegistrationReply(error=error, broker_epoch=epoch, message=message):
            return [f"-> {error.name} broker_epoch={epoch}{_because(message)}"]
        case HeartbeatReply(error=error, message=message) if error:
            return [f"-> {error.name}{_because(message)}"]
        case HeartbeatReply():
            caught_up = "caught up" if action.is_caught_up else "behind"
            fenced = "fenced" if action.is_fenced else "unfenced"
            return [f"-> {caught_up}, {fenced}{', SHUT DOWN NOW' if action.should_shut_down else ''}"]
        case AlterPartitionReply(error=error, partitions=results, message=message):
            if error:
                return [f"-> {error.name}{_because(message)}"]
            return [
                f"-> {result.error.name}"
                + ("" if result.error else f" isr={NAMES.set_of(result.in_sync_replicas)} pe={result.partition_epoch}")
                for result in results
            ]
        case ProducerIdsReply(error=error, first=first, length=length, message=message):
            ids = "" if error else f" ids={first}..{first + length - 1}"
            return [f"-> {error.name}{ids}{_because(message)}"]
        case CreateTopicReply() | PlainReply():
            return [f"-> {action.error.name}{_because(action.message)}"]
    raise AssertionError(f"no transcript shows {action}")


def _because(message: str) -> str:
    return f" ({message})" if message else ""


def _event(event: trace.TraceEvent) -> str:
    match event:
        case trace.LeaderElected():
            clean = "clean" if event.clean else "UNCLEAN"
            was = event.previous_leader or "nobody"
            return f"{event.topic}-{event.partition} {was}->{event.broker} le={event.leader_epoch} {clean}"
        case trace.PartitionWentOffline():
            return f"{event.topic}-{event.partition} {event.previous_leader}->nobody le={event.leader_epoch}"
        case trace.IsrCommitted():
            was, isr = ",".join(event.previous_isr) or "nobody", ",".join(event.isr) or "nobody"
            return f"{event.topic}-{event.partition} {was} -> {isr} le={event.leader_epoch} pe={event.partition_epoch}"
        case trace.ElrCommitted():
            was, elr = ",".join(event.previous_elr) or "nobody", ",".join(event.elr) or "nobody"
            last = f" last={event.last_known_leader}" if event.last_known_leader else ""
            where = f"{event.topic}-{event.partition}"
            return f"{where} {was} -> {elr}{last} le={event.leader_epoch} pe={event.partition_epoch}"
        case trace.IsrRejected() | trace.ElectionRefused():
            return f"{event.topic}-{event.partition} {event.error}"
        case trace.ReassignmentBegan() | trace.ReassignmentCompleted() | trace.ReassignmentCancelled():
            where = f"{event.topic}-{event.partition} {','.join(event.replicas)}"
            return f"{where} le={event.leader_epoch} pe={event.partition_epoch}"
        case trace.ConfigAltered():
            min_isr = "" if event.min_isr is None else f" min_isr={event.min_isr}"
            return f"{event.topic or event.broker} {event.key}={event.value}{min_isr}"
        case trace.PartitionCreated():
            chosen = f"leader={event.broker} isr={','.join(event.isr)} min_isr={event.min_isr}"
            return f"{event.topic}-{event.partition} {chosen}"
        case trace.TopicDeleted():
            return event.topic
        case trace.BrokerRegistered() | trace.BrokerFenced() | trace.BrokerUnfenced() | trace.BrokerUnregistered():
            return str(event.broker)
    raise AssertionError(f"the controller does not tell {event}")


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _ids(brokers: tuple[str, ...]) -> tuple[BrokerId, ...]:
    """`b9` is an unknown broker."""
    return tuple(_IDS.get(broker, int(broker[1:])) for broker in brokers)


def _partition(text: str) -> TopicPartition:
    topic, partition = text.rsplit("-", 1)
    return TopicPartition(topic, int(partition))
