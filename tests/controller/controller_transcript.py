"""The verbs of the controller's golden transcripts, and how its actions are printed.

`at=` is the time in milliseconds; without it nothing has passed since the command before.
"""

from __future__ import annotations

from typing import Any, Literal

from controller.events import (
    Action,
    AlterPartition,
    AlterPartitionReply,
    AppendRecord,
    ChangeConfig,
    CreateTopic,
    CreateTopicReply,
    DeleteTopic,
    ElectLeader,
    ElectReply,
    Event,
    Fact,
    Heartbeat,
    HeartbeatReply,
    IsrProposal,
    RegisterBroker,
    RegistrationReply,
    TopicReply,
)
from controller.metadata import encode_record
from controller.state import ControllerState
from replica import trace
from replica.ids import Names, TopicPartition

NAMES = Names({1: "b1", 2: "b2", 3: "b3", 4: "b4", 1001: "c1"})


def new_state(**options: Any) -> ControllerState:
    return ControllerState(names=NAMES, controller_id=1001, **options)


def register(broker_id: int, *, at_ms: int = 0, incarnation: str = "first", **fields: Any) -> RegisterBroker:
    return RegisterBroker(
        now_us=at_ms * 1000,
        broker_id=broker_id,
        incarnation_id=incarnation,
        host=NAMES(broker_id),
        port=9092,
        **fields,
    )


def start_brokers(state: ControllerState, *broker_ids: int, at_ms: int = 0) -> None:
    """Registered, caught up and unfenced."""
    for broker_id in broker_ids:
        state.step(register(broker_id, at_ms=at_ms))
    for broker_id in broker_ids:
        heartbeat(state, broker_id, at_ms=at_ms)


def heartbeat(state: ControllerState, broker_id: int, *, at_ms: int, **fields: Any) -> list[Action]:
    """A heartbeat of the current incarnation, which knows all metadata unless `metadata_offset` says otherwise."""
    fields.setdefault("metadata_offset", state.image.offset)
    broker_epoch = state.image.brokers[broker_id].broker_epoch
    return state.step(Heartbeat(now_us=at_ms * 1000, broker_id=broker_id, broker_epoch=broker_epoch, **fields))


class ControllerTranscript:
    """One method per verb; each gets the words after it and returns lines."""

    def __init__(self) -> None:
        self.state = new_state()
        self.now_us = 0

    def run(self, line: str) -> list[str]:
        verb, *words = line.split()
        names, options = _arguments(words)
        self.now_us = int(options.pop("at", self.now_us // 1000)) * 1000
        return list(getattr(self, "do_" + verb)(names, options))

    def do_brokers(self, broker_ids: list[str], _: dict[str, str]) -> list[str]:
        """brokers 1 2 3: quietly start them at 0"""
        start_brokers(self.state, *map(int, broker_ids))
        return []

    def do_topic(self, words: list[str], options: dict[str, str]) -> list[str]:
        """topic t 1,2,3 min.insync.replicas=2: quietly create it"""
        answer = self.do_create(words, options)[-1]
        assert answer == "-> NONE", answer
        return []

    def do_create(self, words: list[str], options: dict[str, str]) -> list[str]:
        """create t 1,2,3 2,3,1: with an assignment     create t partitions=2 rf=3: placed"""
        partitions, replication_factor = options.pop("partitions", None), options.pop("rf", None)
        return self._step(
            CreateTopic(
                now_us=self.now_us,
                name=words[0],
                assignment=tuple(_ids(word) for word in words[1:]) or None,
                partitions=None if partitions is None else int(partitions),
                replication_factor=None if replication_factor is None else int(replication_factor),
                config=options,
            )
        )

    def do_delete(self, words: list[str], _: dict[str, str]) -> list[str]:
        return self._step(DeleteTopic(now_us=self.now_us, name=words[0]))

    def do_config(self, words: list[str], options: dict[str, str]) -> list[str]:
        """config t key=value at=0; `default` resets"""
        config = {key: None if value == "default" else value for key, value in options.items()}
        return self._step(ChangeConfig(now_us=self.now_us, topic=words[0], config=config))

    def do_register(self, words: list[str], options: dict[str, str]) -> list[str]:
        """register 1 incarnation=i2 previous=0 at=100"""
        fields = {"previous_broker_epoch": int(options.get("previous", -1)), "rack": options.get("rack")}
        incarnation = options.get("incarnation", "first")
        return self._step(register(int(words[0]), at_ms=self.now_us // 1000, incarnation=incarnation, **fields))

    def do_heartbeat(self, words: list[str], options: dict[str, str]) -> list[str]:
        """heartbeat 1 offset=5 epoch=0 fence shutdown at=2000"""
        broker_id = int(words[0])
        registered = self.state.image.brokers.get(broker_id)
        epoch = registered.broker_epoch if registered else -1
        return self._step(
            Heartbeat(
                now_us=self.now_us,
                broker_id=broker_id,
                broker_epoch=int(options.get("epoch", epoch)),
                metadata_offset=int(options.get("offset", self.state.image.offset)),
                want_fence="fence" in words,
                want_shut_down="shutdown" in words,
            )
        )

    def do_alive(self, broker_ids: list[str], _: dict[str, str]) -> list[str]:
        """alive 2 3 at=2000: heartbeats that change nothing"""
        for broker_id in broker_ids:
            self.do_heartbeat([broker_id], {})
        return []

    def do_alter(self, words: list[str], options: dict[str, str]) -> list[str]:
        """alter t-0 by=1 isr=1,2 le=0 pe=0 epochs=0,1 sender-epoch=0 recovering: a leader proposes an ISR"""
        topic_partition, sender = _partition(words[0]), int(options["by"])
        isr, image = _ids(options["isr"]), self.state.image
        known = {broker_id: broker.broker_epoch for broker_id, broker in image.brokers.items()}
        epochs = _ids(options["epochs"]) if "epochs" in options else tuple(known.get(member, -1) for member in isr)
        partition = image.partition(*topic_partition)
        proposal = IsrProposal(
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader_epoch=int(options.get("le", partition.leader_epoch if partition else 0)),
            partition_epoch=int(options.get("pe", partition.partition_epoch if partition else 0)),
            in_sync_replicas=isr,
            broker_epochs=epochs,
            recovering="recovering" in words,
        )
        broker_epoch = int(options.get("sender-epoch", known.get(sender, -1)))
        return self._step(
            AlterPartition(now_us=self.now_us, broker_id=sender, broker_epoch=broker_epoch, partitions=(proposal,))
        )

    def do_elect(self, words: list[str], options: dict[str, str]) -> list[str]:
        """elect t-0 desired=2 unclean"""
        topic_partition = _partition(words[0])
        kind: Literal["preferred", "unclean"] = "unclean" if "unclean" in words else "preferred"
        desired = int(options["desired"]) if "desired" in options else None
        return self._step(
            ElectLeader(
                now_us=self.now_us,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                kind=kind,
                desired=desired,
            )
        )

    def do_tick(self, _: list[str], __: dict[str, str]) -> list[str]:
        """tick at=9000: whatever is due by then"""
        return [line for action in self.state.tick(self.now_us) for line in _shown(action)]

    def do_due(self, _: list[str], __: dict[str, str]) -> list[str]:
        due_us = self.state.next_deadline_us
        return [f"next deadline {'never' if due_us is None else due_us / 1000:g} ms"]

    def do_state(self, _: list[str], __: dict[str, str]) -> list[str]:
        lines = []
        for broker_id, broker in sorted(self.state.image.brokers.items()):
            what = ("fenced " if broker.fenced else "") + ("shutting-down" if broker.in_controlled_shutdown else "")
            lines.append(f"{NAMES(broker_id)} epoch={broker.broker_epoch} {what.strip() or 'active'}")
        for topic_partition, partition in self.state.image.partitions():
            lines.append(
                f"{topic_partition} leader={NAMES(partition.leader)} leader_epoch={partition.leader_epoch} "
                f"partition_epoch={partition.partition_epoch} isr={NAMES.set_of(partition.in_sync_replicas)} "
                f"replicas={NAMES.set_of(partition.replicas)}{' recovering' if partition.recovering else ''}"
            )
        return lines

    def _step(self, event: Event) -> list[str]:
        return [line for action in self.state.step(event) for line in _shown(action)]


def _shown(action: Action) -> list[str]:
    match action:
        case AppendRecord(offset=offset, record=record):
            return [f"#{offset} {encode_record(record).decode()}"]
        case Fact(event=event):
            return [f"{type(event).__name__} {_fact(event)}: {getattr(event, 'reason', '')}"]
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
                + ("" if result.error else f" isr={list(result.in_sync_replicas)} pe={result.partition_epoch}")
                for result in results
            ]
        case CreateTopicReply() | TopicReply() | ElectReply():
            return [f"-> {action.error.name}{_because(action.message)}"]


def _because(message: str) -> str:
    return f" ({message})" if message else ""


def _fact(event: trace.TraceEvent) -> str:
    match event:
        case trace.LeaderElected():
            clean = "clean" if event.clean else "UNCLEAN"
            was = event.previous_leader or "nobody"
            return f"{event.topic}-{event.partition} {was}->{event.broker} le={event.leader_epoch} {clean}"
        case trace.PartitionWentOffline():
            return f"{event.topic}-{event.partition} {event.previous_leader}->nobody le={event.leader_epoch}"
        case trace.IsrCommitted():
            was, isr = ",".join(event.previous_isr), ",".join(event.isr)
            return f"{event.topic}-{event.partition} {was} -> {isr} le={event.leader_epoch} pe={event.partition_epoch}"
        case trace.IsrRejected():
            return f"{event.topic}-{event.partition} {event.error}"
        case trace.ElectionRefused():
            return f"{event.topic}-{event.partition} {event.error}"
        case trace.PartitionCreated():
            shown = f"leader={event.broker} isr={','.join(event.isr)} min_isr={event.min_isr}"
            return f"{event.topic}-{event.partition} {shown}"
        case trace.BrokerRegistered() | trace.BrokerFenced() | trace.BrokerUnfenced():
            return str(event.broker)
    raise AssertionError(f"the controller does not tell {event}")


def _arguments(words: list[str]) -> tuple[list[str], dict[str, str]]:
    pairs = [word.split("=", 1) for word in words if "=" in word]
    return [word for word in words if "=" not in word], {key: value for key, value in pairs}


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


def _partition(text: str) -> TopicPartition:
    topic, partition = text.rsplit("-", 1)
    return TopicPartition(topic, int(partition))
