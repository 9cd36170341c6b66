"""Events of controllers: their own terms, registrations, leaders, ISR and ELR, replicas and configs."""

from __future__ import annotations

from typing import Annotated

from replica.causes import IsrCause, LagCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ControlEvent, OnPartition
from replica.wording import duration, listed, set_of, without


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionBegan(ControlEvent):
    """A controller asks the others for their votes."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLeaderElected(ControlEvent):
    """`node` leads the metadata log; it decides nothing before it has committed a record of its own epoch."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerActivated(ControlEvent):
    """`node` is the active controller: all that was decided before is committed, and it knows it. In the ZooKeeper era
    it was the first to make /controller."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResigned(ControlEvent):
    """`node` no longer leads. Its uncommitted decisions never happened. In the ZooKeeper era it has learned
    that it is not the controller any more, or may not be."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWritten(ControlEvent):
    """`node` has written down all that the metadata log says below `offset`; its log may be cut to there."""

    node: column.Node
    offset: column.Offset
    controller_epoch: column.ControllerEpoch
    size_bytes: column.Size
    log_start_offset: Annotated[int, "first offset of the log that is kept"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFetched(ControlEvent):
    """`node` asked for what the leader of the metadata log has cut off, and was given a snapshot up to `offset`."""

    node: column.Node
    peer: column.Peer
    offset: column.Offset
    controller_epoch: column.ControllerEpoch
    size_bytes: column.Size
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLoaded(ControlEvent):
    """`node` knows the cluster from a snapshot up to `offset`, and from the metadata log after it."""

    node: column.Node
    offset: column.Offset
    controller_epoch: column.ControllerEpoch
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered(ControlEvent):
    node: column.Node
    broker: column.Broker
    broker_epoch: Annotated[int, "one registration of a broker"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced(ControlEvent):
    node: column.Node
    broker: column.Broker
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnfenced(ControlEvent):
    node: column.Node
    broker: column.Broker
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered(ControlEvent):
    """An operator had the controller forget `broker`. If it runs, it goes on, and nothing unfences it any more."""

    node: column.Node
    broker: column.Broker
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpired(ControlEvent):
    """ZooKeeper era: the registry gave up on `broker`; its session's ephemeral nodes are gone."""

    node: column.Node
    broker: column.Broker
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequestRefused(ControlEvent):
    """ZooKeeper era: `node` did not do what a controller (`peer`) asked of it."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    error: column.Error
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCreated(ControlEvent):
    node: column.Node
    topic: column.Topic
    partition: column.Partition
    broker: column.Broker
    replicas: column.Replicas
    isr: column.Isr
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    min_isr: Annotated[int, "min.insync.replicas of the topic; at most the number of replicas counts"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted(ControlEvent):
    """An operator deleted a topic: its records are gone on purpose, and a topic of that name begins anew."""

    node: column.Node
    topic: column.Topic
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElected(ControlEvent):
    """The controller chose a leader (`broker`); `clean` is false when it was outside the ISR and the ELR."""

    node: column.Node
    broker: column.Broker
    previous_leader: Annotated[str | None, "leader before, null if there was none"]
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: column.Isr
    clean: Annotated[bool, "elected from the ISR or the ELR"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWentOffline(ControlEvent):
    node: column.Node
    previous_leader: Annotated[str | None, "leader before, null if there was none"]
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: column.Isr
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentBegan(ControlEvent):
    """KIP-455: `replicas` are the target and what is still to be removed."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    replicas: column.Replicas
    adding: Annotated[tuple[str, ...], "replicas that a reassignment adds"]
    removing: Annotated[tuple[str, ...], "replicas that a reassignment removes"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentCompleted(ControlEvent):
    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    replicas: column.Replicas
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentCancelled(ControlEvent):
    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    replicas: column.Replicas
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAltered(ControlEvent):
    """An operator changed one key of a topic, a broker or a group; `min_isr` is the topic's afterwards."""

    node: column.Node
    topic: Annotated[str | None, "topic"] = None
    broker: column.Broker = None
    group: Annotated[str | None, "group id"] = None
    key: Annotated[str, "configuration key, as Kafka spells it"]
    value: Annotated[str | None, "its new value; absent: back to the default"]
    min_isr: Annotated[int | None, "min.insync.replicas of the topic; at most the number of replicas counts"] = None
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRefused(ControlEvent):
    node: column.Node
    topic: column.Topic
    partition: column.Partition
    error: column.Error
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposed(OnPartition, ControlEvent):
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: column.Isr
    previous_isr: column.PreviousIsr
    cause: Annotated[IsrCause, "why, see IsrCause"]
    caught_up_to: Annotated[int | None, "the follower that is to join holds every record below it"] = None
    high_watermark: Annotated[int | None, "high watermark of the leader"] = None
    epoch_start_offset: Annotated[int | None, "start of the leader's epoch, which the follower has reached, too"] = None
    lag_causes: Annotated[tuple[LagCause, ...], "of each member that is to leave, in the order of the ISR"] = ()
    lags: Annotated[tuple[int, ...], "and by how much: microseconds, or records for `behind`, or -1"] = ()
    lag_time_max_us: Annotated[int | None, "replica.lag.time.max.ms"] = None
    lag_max_messages: Annotated[int | None, "replica.lag.max.messages"] = None
    error: Annotated[str | None, "how the controller answered before"] = None

    def sentence(self) -> str:
        match self.cause:
            case IsrCause.CAUGHT_UP:
                return self._expansion()
            case IsrCause.LAG:
                return self._shrinking()
            case IsrCause.RETRY:
                return f"{self.node} proposes the ISR {set_of(self.isr)} again: the controller answered {self.error}"

    def _expansion(self) -> str:
        name = listed(without(self.isr, self.previous_isr))
        found = f"{self.node} wants {name} in the ISR"
        if self.caught_up_to is None:
            return found
        found += f": {name} holds the records below {self.caught_up_to}, which reaches HW {self.high_watermark}"
        if self.epoch_start_offset is None:
            return found
        return f"{found} and the start of epoch {self.leader_epoch} at {self.epoch_start_offset}"

    def _shrinking(self) -> str:
        members = without(self.previous_isr, self.isr)
        found = f"{self.node} wants {listed(members)} out of the ISR"
        if self.lag_causes:
            found += f": {listed(list(map(self._lag, members, self.lag_causes, self.lags)))}"
        limits = []
        if self.lag_time_max_us is not None:
            limits.append(f"replica.lag.time.max.ms is {duration(self.lag_time_max_us)}")
        if self.lag_max_messages is not None:
            limits.append(f"replica.lag.max.messages is {self.lag_max_messages}")
        return f"{found} ({', '.join(limits)})" if limits else found

    def _lag(self, who: str, cause: LagCause, amount: int) -> str:
        match cause:
            case LagCause.NOT_CAUGHT_UP:
                return f"{who} has not caught up for {duration(amount)}"
            case LagCause.NEVER_CAUGHT_UP:
                return f"{who} has not caught up since {self.node} leads"
            case LagCause.NOT_FETCHING:
                return f"{who} has not fetched for {duration(amount)}"
            case LagCause.BEHIND:
                return f"{who} is {amount} records behind"
            case LagCause.NOT_ASSIGNED:
                return f"{who} is not a replica any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrCommitted(ControlEvent):
    """The controller wrote a new ISR: accepted from a leader, or its own doing (fencing, election, shutdown)."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: column.Isr
    previous_isr: column.PreviousIsr
    proposed_by: column.ProposedBy
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrCommitted(ControlEvent):
    """The controller wrote other eligible leader replicas (KIP-966), or noted who led last."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    elr: Annotated[tuple[str, ...], "eligible leader replicas after the event"]
    previous_elr: Annotated[tuple[str, ...], "eligible leader replicas before the event"]
    last_known_leader: Annotated[str | None, "who led last, while the partition has neither leader nor ISR"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRejected(ControlEvent):
    node: column.Node
    broker: column.Broker
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: Annotated[tuple[str, ...], "the in-sync replicas that were refused"]
    error: column.Error
    reason: column.Reason
