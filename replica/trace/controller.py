"""Events of controllers: their own elections, and changes of brokers, leaders, ISR, ELR, replicas and settings."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Self

from replica.causes import (
    ActivationCause,
    CandidacyCause,
    ConfigCause,
    ElectionCause,
    ElrCause,
    FencingCause,
    IsrCause,
    IsrCommitCause,
    LagCause,
    LoadingCause,
    PlacementCause,
    RegistrationCause,
    ResignationCause,
    UnfencingCause,
    VoterChangeCause,
)
from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import without
from replica.trace import columns as column
from replica.trace.columns import (
    ControlEvent,
    OfPartitions,
    OnOccasion,
    OnPartition,
    either,
    of_each,
    was_fenced,
    where,
)
from replica.wording import duration, listed, set_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionBegan(ControlEvent):
    """A controller began an election and requested the votes of the other voters."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    cause: Annotated[CandidacyCause, "why, see CandidacyCause"]
    previous_leader: Annotated[str | None, "the leader that did not answer"] = None

    def sentence(self) -> str:
        why = _CANDIDACY[self.cause].format(leader=self.previous_leader)
        return f"{self.node} stood for election in epoch {self.controller_epoch}: {why}"


_CANDIDACY = {
    CandidacyCause.NO_LEADER: "it knew of no leader",
    CandidacyCause.ELECTION_FAILED: "its previous election failed",
    CandidacyCause.NO_ANSWER: "{leader} did not answer in time",
    CandidacyCause.RESIGNED: "no other controller was elected after it resigned",
    CandidacyCause.ALONE: "there is no other controller",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLeaderElected(ControlEvent):
    """`node` was elected leader of the metadata log. It makes no decision until a record of its epoch is committed."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    cause: Annotated[CandidacyCause | None, "why it stood for election, if its own vote is a majority"] = None
    voted_by: Annotated[tuple[str, ...], "the voters that voted for it; empty: unknown"] = ()
    voters: Annotated[int | None, "number of voters"] = None

    def sentence(self) -> str:
        found = f"{self.node} was elected leader of the metadata quorum in epoch {self.controller_epoch}"
        if self.cause is not None:
            return f"{found}: {_CANDIDACY[self.cause].format(leader='the leader')}"
        if not self.voted_by:
            return found
        return f"{found}: {listed(self.voted_by)} voted for it ({len(self.voted_by)} of {self.voters} voters)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerActivated(ControlEvent):
    """`node` became the active controller, since all earlier decisions are committed.

    In the ZooKeeper era, it was the first broker to create /controller.
    """

    node: column.Node
    controller_epoch: column.ControllerEpoch
    cause: Annotated[ActivationCause | None, "why, see ActivationCause"] = None

    def sentence(self) -> str:
        match self.cause:
            case None:
                return f"{self.node} is the active controller"
            case ActivationCause.COMMITTED:
                first = f"its first record of epoch {self.controller_epoch}"
                return f"{self.node} became the active controller: {first} was committed"
            case ActivationCause.ZNODE:
                made = f"{self.node} was the first to create /controller"
                return f"{made} and became the controller of epoch {self.controller_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResigned(ControlEvent):
    """`node` is no longer the leader of the controllers, and its uncommitted decisions may be lost.

    In the ZooKeeper era, `node` has learned that it is no longer the controller, or may not be.
    """

    node: column.Node
    controller_epoch: column.ControllerEpoch
    cause: Annotated[ResignationCause, "why, see ResignationCause"]
    newer_epoch: Annotated[int | None, "the newer epoch; null in the ZooKeeper era"] = None
    other: Annotated[str | None, "the controller that leads that epoch or stands for election"] = None
    silent_us: Annotated[int | None, "microseconds without fetches from a majority"] = None

    def sentence(self) -> str:
        stops = f"{self.node} resigned as leader of the metadata quorum in epoch {self.controller_epoch}"
        if self.cause in _OF_ZOOKEEPER:
            stops = f"{self.node} is no longer the controller"
        seconds = f"{(self.silent_us or 0) / 1_000_000:g}"
        why = _RESIGNATION[self.cause].format(other=self.other, epoch=self.newer_epoch, seconds=seconds)
        return f"{stops}: {why}"


_OF_ZOOKEEPER = (
    ResignationCause.OTHER_CONTROLLER,
    ResignationCause.WRITE_REFUSED,
    ResignationCause.SESSION_EXPIRED,
    ResignationCause.NODE_GONE,
)
_RESIGNATION = {
    ResignationCause.SHUTDOWN: "it was shutting down",
    ResignationCause.NO_MAJORITY: "no majority fetched from it for {seconds} s",
    ResignationCause.CANDIDATE: "{other} stood for election in epoch {epoch}",
    ResignationCause.NEWER_EPOCH: "epoch {epoch} began",
    ResignationCause.OTHER_LEADER: "{other} was elected in epoch {epoch}",
    ResignationCause.REMOVED: "it is no longer a voter",
    ResignationCause.OTHER_CONTROLLER: "{other} is the controller now",
    ResignationCause.WRITE_REFUSED: "a write of its epoch was refused, because another controller was elected",
    ResignationCause.SESSION_EXPIRED: "its ZooKeeper session expired",
    ResignationCause.NODE_GONE: "/controller was deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersChanged(ControlEvent):
    """A new set of quorum voters was committed. It has been in effect since its record was written (KIP-853)."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    voter_set: Annotated[tuple[str, ...], "the voters after the change"]

    def sentence(self) -> str:
        are = (
            "only voter of the metadata quorum is" if len(self.voter_set) == 1 else "voters of the metadata quorum are"
        )
        return f"the {are} now {listed(self.voter_set)}: {self.node} committed this set"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeFailed(ControlEvent):
    """`node`, the leader of the quorum, gave up a change of the voters. The change may still be in its log."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    controller: Annotated[str, "the voter to add or to remove"]
    is_addition: Annotated[bool, "true: add the voter; false: remove it"]
    error: column.Error
    cause: Annotated[VoterChangeCause, "why, see VoterChangeCause"]

    def sentence(self) -> str:
        what = f"{'add' if self.is_addition else 'remove'} {self.controller}"
        why = _CHANGE_FAILED[self.cause].format(controller=self.controller)
        return f"{self.node} answered the request to {what} with {self.error}: {why}"


_CHANGE_FAILED = {
    VoterChangeCause.UNREACHABLE: "{controller} did not answer in time",
    VoterChangeCause.LAGGING: "{controller} has not caught up",
    VoterChangeCause.NOT_COMMITTED: "no majority stored the new set of voters in time, but it is already in effect",
    VoterChangeCause.DEPOSED: "it is no longer the leader; the log of the next leader decides about the change",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWritten(ControlEvent):
    """`node` has written a snapshot of the metadata below `offset`; earlier records may now be deleted from its log."""

    node: column.Node
    offset: column.Offset
    controller_epoch: column.ControllerEpoch
    size_bytes: column.Size
    log_start_offset: Annotated[int, "first offset of the log that is kept"]
    log_bytes: Annotated[int, "bytes of metadata since the last snapshot"]
    max_log_bytes: Annotated[int, "metadata.log.max.record.bytes.between.snapshots"]

    def sentence(self) -> str:
        return (
            f"{self.node} wrote {_snapshot_file(self.offset, self.controller_epoch)} and keeps its log from offset"
            f" {self.log_start_offset} on: it had applied {self.log_bytes} bytes of metadata since the last snapshot,"
            f" and metadata.log.max.record.bytes.between.snapshots is {self.max_log_bytes}"
        )


def _snapshot_file(offset: int, epoch: int) -> str:
    return f"{offset:020d}-{epoch:010d}.checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFetched(ControlEvent):
    """`node` needed records that the leader of the metadata log has deleted, and fetched a snapshot up to `offset`."""

    node: column.Node
    peer: column.Peer
    offset: column.Offset
    controller_epoch: column.ControllerEpoch
    size_bytes: column.Size
    had_offset: Annotated[int, "end of the metadata log of `node` before the event"]

    def sentence(self) -> str:
        return (
            f"{self.node} had the metadata log up to offset {self.had_offset}, but {self.peer} had deleted the records"
            f" after that; {self.node} fetched {self.peer}'s snapshot and continues at offset {self.offset}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLoaded(ControlEvent):
    """`node` has loaded a snapshot up to `offset`, and continues with the metadata log after it."""

    node: column.Node
    offset: column.Offset
    controller_epoch: column.ControllerEpoch
    cause: Annotated[LoadingCause, "why, see LoadingCause"]

    def sentence(self) -> str:
        match self.cause:
            case LoadingCause.ACTIVE:
                file = _snapshot_file(self.offset, self.controller_epoch)
                return f"{self.node} became active: it loaded {file}, then its log from offset {self.offset} on"
            case LoadingCause.BEHIND:
                return f"{self.node} replaced its metadata with the snapshot and continues at offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered(ControlEvent):
    node: column.Node
    broker: column.Broker
    broker_epoch: Annotated[int, "broker epoch; each registration gets a new one"]
    cause: Annotated[RegistrationCause | None, "kind of registration, see RegistrationCause"] = None
    previous_epoch: Annotated[int | None, "broker epoch of the previous incarnation"] = None
    was_clean: Annotated[bool | None, "the previous incarnation was shut down cleanly; null: unknown"] = None
    path: Annotated[str | None, "the znode that the broker created in the registry"] = None

    def sentence(self) -> str:
        match self.cause:
            case None:
                return f"{self.broker} is registered"
            case RegistrationCause.FIRST:
                fenced = "it stays fenced until it has caught up with the metadata log"
                return f"{self.broker} registered for the first time; {fenced}"
            case RegistrationCause.SAME_INCARNATION:
                return f"{self.broker} registered again with the same incarnation id and keeps its epoch"
            case RegistrationCause.NEW_INCARNATION:
                found = f"{self.broker} registered a new incarnation; the previous one"
                if self.was_clean is None:
                    return f"{found} had epoch {self.previous_epoch}"
                how = "was shut down cleanly" if self.was_clean else "was not shut down cleanly"
                return f"{found} (epoch {self.previous_epoch}) {how}"
            case RegistrationCause.ZNODE:
                return f"{self.broker} created the znode {self.path}, which exists as long as its session"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced(ControlEvent):
    node: column.Node
    broker: column.Broker
    cause: Annotated[FencingCause | None, "why, see FencingCause"] = None
    silent_us: Annotated[int | None, "microseconds without a heartbeat"] = None

    def sentence(self) -> str:
        fenced = was_fenced(self.broker, self.cause, self.silent_us)
        if self.cause is FencingCause.NOT_IN_REGISTRY:
            return f"{fenced}, so {self.node} took it offline"
        return fenced


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnfenced(ControlEvent):
    node: column.Node
    broker: column.Broker
    cause: Annotated[UnfencingCause | None, "why, see UnfencingCause"] = None
    metadata_offset: Annotated[int | None, "offset up to which the broker has applied the metadata log"] = None
    registration_offset: Annotated[int | None, "offset of its registration in the metadata log"] = None

    def sentence(self) -> str:
        match self.cause:
            case None:
                why = ""
            case UnfencingCause.CAUGHT_UP if self.metadata_offset is None:
                why = ": it has caught up with the metadata log"
            case UnfencingCause.CAUGHT_UP:
                why = (
                    f": it has applied the metadata log up to offset {self.metadata_offset}, which includes its own "
                    f"registration at {self.registration_offset}"
                )
            case UnfencingCause.IN_REGISTRY:
                why = ": it is in the registry"
            case UnfencingCause.FOUND_LIVE:
                why = f": {self.node} found it alive when it became the controller"
            case UnfencingCause.LISTED:
                why = ": it is in the cluster's list of live brokers"
        return f"{self.broker} was unfenced{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered(ControlEvent):
    """The controller removed the registration of `broker` on an operator's request.

    If the broker is running, it can no longer be unfenced.
    """

    node: column.Node
    broker: column.Broker

    def sentence(self) -> str:
        return f"an operator unregistered {self.broker}; it can come back only as a new incarnation"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpired(ControlEvent):
    """The registry (the simulated ZooKeeper) ended the session of `broker` and deleted its ephemeral znodes."""

    node: column.Node
    broker: column.Broker

    def sentence(self) -> str:
        return f"{self.node} ended the session of {self.broker}, from which it heard nothing in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequestRefused(ControlEvent):
    """`node` refused a request of a ZooKeeper-era controller, `peer`."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    error: column.Error
    request_epoch: Annotated[int, "epoch in the request: of the controller, or of the broker for STALE_BROKER_EPOCH"]
    known_epoch: Annotated[int, "the epoch that `node` knows"]

    def sentence(self) -> str:
        if self.error == "STALE_BROKER_EPOCH":
            why = f"the request has broker epoch {self.request_epoch}, but {self.node} has epoch {self.known_epoch}"
        else:
            why = (
                f"the request has controller epoch {self.request_epoch}, but {self.node} knows epoch {self.known_epoch}"
            )
        return f"{self.node} refused {self.api} of {self.peer} with {self.error}: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCreated(OnPartition, ControlEvent):
    broker: column.Broker
    replicas: column.Replicas
    isr: column.Isr
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    min_isr: Annotated[int, "min.insync.replicas of the topic; the effective value is at most the number of replicas"]
    cause: Annotated[PlacementCause | None, "how the replicas were chosen, see PlacementCause"] = None

    def sentence(self) -> str:
        match self.cause:
            case None:
                return f"{self.broker or 'no broker'} leads {self.name}; the ISR is {set_of(self.isr)}"
            case PlacementCause.ASSIGNED:
                how = "the assigned replicas"
            case PlacementCause.PLACED:
                how = "replicas spread evenly over racks and brokers"
        return f"{self.name} was created with {how}; the first live replica, {self.broker}, leads it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted(ControlEvent):
    """An operator deleted a topic with all its records. A later topic with the same name begins empty."""

    node: column.Node
    topic: column.Topic

    def sentence(self) -> str:
        return f"an operator deleted topic {self.topic} with all its records"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElected(OnOccasion):
    """The controller elected a leader, `broker`. `clean` is false if the leader was outside the ISR and the ELR."""

    broker: column.Broker
    previous_leader: Annotated[str | None, "previous leader; null if there was none"]
    isr: column.Isr
    clean: Annotated[bool, "elected from the ISR or the ELR"]
    cause: Annotated[ElectionCause | None, "how the leader was chosen, see ElectionCause"] = None
    candidates: Annotated[tuple[str, ...], "the replicas, in preference order, from which the leader was chosen"] = ()
    previous_isr: column.PreviousIsr = ()
    electable: Annotated[tuple[str, ...], "the ELR, if the ISR has no member left"] = ()

    MAY_DIFFER = (*OnOccasion.MAY_DIFFER, "candidates", "electable")

    def fold_key(self) -> Hashable:
        return OnOccasion.fold_key(self), self.broker in self.previous_isr, self.broker in self.electable

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first, partitions = many[0], where(many)
        epochs = {event.leader_epoch for event in many}
        term = f"{partitions} in epoch {first.leader_epoch}" if len(epochs) == 1 else partitions
        if first.cause is ElectionCause.KEEPS_LEADERSHIP:
            leads = f"{first.broker} stayed leader of {term}"
        else:
            leads = f"{first.broker} was elected leader of {term}"
        how, why = first._choice(_electorate(many))
        return first.found(leads + how, why)

    def _choice(self, members: str) -> tuple[str, str]:
        match self.cause:
            case ElectionCause.PREFERRED:
                return f" as the preferred leader, live and in {members}", ""
            case ElectionCause.KEEPS_LEADERSHIP:
                return f", being live and in {members}", ""
            case ElectionCause.FIRST_LIVE:
                return f" as the first member of {members} that counts as live", ""
            case ElectionCause.UNCLEAN:
                return (
                    " by an unclean election, as the first replica that counts as live",
                    f"no member of {members} counts as live",
                )
            case ElectionCause.UNCLEAN_LAST_KNOWN:
                return " by an unclean election, as the last known leader", "the ISR and the ELR are empty"
        if self.broker in self.previous_isr or self.broker in self.electable:
            return f" from {members}", ""
        if self.clean:
            return " when it joined the ISR" if self.previous_isr else "", ""
        return " by an unclean election", f"it was not in {members}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWentOffline(OnOccasion):
    previous_leader: Annotated[str | None, "previous leader; null if there was none"]
    isr: column.Isr
    cause: Annotated[ElectionCause | None, "why no leader was chosen, see ElectionCause"] = None
    previous_isr: column.PreviousIsr = ()
    electable: Annotated[tuple[str, ...], "the ELR, if the ISR has no member left"] = ()

    MAY_DIFFER = (*OnOccasion.MAY_DIFFER, "electable")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        match many[0].cause:
            case ElectionCause.UNCLEAN_DISABLED:
                why = "counts as live (unclean.leader.election.enable is false)"
            case ElectionCause.NO_LIVE_REPLICA:
                why = "counts as live, and no other replica does"
            case None:
                why = "can lead"
            case _:
                why = "counts as live"
        has = "has" if len(many) == 1 else "have"
        return many[0].found(f"{where(many)} {has} no leader", f"no member of {_electorate(many)} {why}")


def _electorate(many: Sequence[LeaderElected] | Sequence[PartitionWentOffline]) -> str:
    """Return the candidates of an election: the ISR before it, including a member that has just left, or the ELR."""
    isr = "the ISR" + either((set_of(event.previous_isr) for event in many), " ")
    # A member that has just left the ISR may have entered the ELR.
    electable = [without(event.electable, event.previous_isr) for event in many]
    if not electable[0]:
        return isr
    elr = "the ELR" + either(map(set_of, electable), " ")
    return f"{isr} or {elr}" if many[0].previous_isr else elr


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentBegan(OfPartitions, OnPartition, ControlEvent):
    """A reassignment began (KIP-455). `replicas` are the target replicas and those that are still to be removed."""

    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    replicas: column.Replicas
    adding: Annotated[tuple[str, ...], "replicas that a reassignment adds"]
    removing: Annotated[tuple[str, ...], "replicas that a reassignment removes"]

    MAY_DIFFER = ("leader_epoch", "partition_epoch", "replicas")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        changes = (("adds", first.adding), ("removes", first.removing))
        how = (
            " and ".join(f"{verb} {set_of(who)}" for verb, who in changes if who)
            or "only changes the order of the replicas"
        )
        to = either((set_of(without(event.replicas, event.removing)) for event in many), " to ")
        return f"an operator began a reassignment of {where(many)}{to}, which {how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentCompleted(OfPartitions, OnPartition, ControlEvent):
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    replicas: column.Replicas
    previous_replicas: Annotated[tuple[str, ...], "replicas before the event; empty: unknown"] = ()

    MAY_DIFFER = ("leader_epoch", "partition_epoch", "replicas", "previous_replicas")

    def fold_key(self) -> Hashable:
        return OfPartitions.fold_key(self), without(self.previous_replicas, self.replicas)

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first, replicas = many[0], either((set_of(event.replicas) for event in many), " ")
        found = f"the reassignment of {where(many)} is complete"
        if not first.previous_replicas:
            return f"{found}; the replicas are{replicas}" if replicas else found
        all_of = f"all of{replicas}" if replicas else "all replicas"
        return f"{found}: {all_of} are in the ISR{_losing(first.previous_replicas, first.replicas)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentCancelled(OfPartitions, OnPartition, ControlEvent):
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    replicas: column.Replicas
    previous_replicas: Annotated[tuple[str, ...], "replicas before the event"] = ()

    MAY_DIFFER = ReassignmentCompleted.MAY_DIFFER

    def fold_key(self) -> Hashable:
        return OfPartitions.fold_key(self), without(self.previous_replicas, self.replicas)

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        again = either((set_of(event.replicas) for event in many), "; the replicas are again ")
        losing = _losing(many[0].previous_replicas, many[0].replicas)
        return f"the reassignment of {where(many)} was cancelled{again}{losing}"


def _losing(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    gone = without(before, after)
    return (
        f"; {set_of(gone)} {'is no longer a replica' if len(gone) == 1 else 'are no longer replicas'}" if gone else ""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAltered(ControlEvent):
    """A setting of a topic, a broker or a group changed. `min_isr` is the topic's value after the change."""

    node: column.Node
    topic: Annotated[str | None, "topic"] = None
    broker: column.Broker = None
    group: Annotated[str | None, "group id"] = None
    key: Annotated[str, "configuration key, as Kafka spells it"]
    value: Annotated[str | None, "the new value; null: the default applies again"]
    min_isr: Annotated[
        int | None, "min.insync.replicas of the topic; the effective value is at most the number of replicas"
    ] = None
    cause: Annotated[ConfigCause | None, "who changed it, see ConfigCause"] = None

    def sentence(self) -> str:
        what = self.broker or "every broker"
        if self.topic is not None:
            what = f"topic {self.topic}"
        elif self.group is not None:
            what = f"group {self.group}"
        to = "back to its default" if self.value is None else f"to {self.value}"
        match self.cause:
            case None:
                return f"{self.key} of {what} is {to if self.value is None else f'now {self.value}'}"
            case ConfigCause.OPERATOR:
                return f"an operator set {self.key} of {what} {to}"
            case ConfigCause.ELR:
                return f"the controller set {self.key} of {what} {to}, as ELR requires"
            case ConfigCause.DEFAULT:
                return f"{what} has no {self.key} of its own; the brokers' value {self.value} applies from now on"
            case ConfigCause.FEATURE:
                return f"an operator set the level of feature {self.key} to {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRefused(OfPartitions, OnPartition, ControlEvent):
    error: column.Error
    message: Annotated[str, "error message in the answer"]

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        return f"the election of a leader for {where(many)} was refused with {first.error}: {first.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposed(OfPartitions, OnPartition, ControlEvent):
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: column.Isr
    previous_isr: column.PreviousIsr
    cause: Annotated[IsrCause, "why, see IsrCause"]
    caught_up_to: Annotated[int | None, "the joining follower has every record below this offset"] = None
    high_watermark: Annotated[int | None, "high watermark of the leader"] = None
    epoch_start_offset: Annotated[int | None, "start of the leader's epoch, which the follower has also reached"] = None
    lag_causes: Annotated[tuple[LagCause, ...], "why each leaving member is out of sync, in the order of the ISR"] = ()
    lags: Annotated[tuple[int, ...], "lag of each leaving member: microseconds, or records for `behind`; -1: none"] = ()
    lag_time_max_us: Annotated[int | None, "replica.lag.time.max.ms"] = None
    lag_max_messages: Annotated[int | None, "replica.lag.max.messages"] = None
    error: Annotated[str | None, "error in the controller's previous answer"] = None

    MAY_DIFFER = (
        "node", "leader_epoch", "partition_epoch", "isr", "previous_isr", "caught_up_to", "high_watermark",
        "epoch_start_offset", "lags",
    )  # fmt: skip

    def fold_key(self) -> Hashable:
        return OfPartitions.fold_key(self), self._joining, self._leaving

    @property
    def _joining(self) -> tuple[str, ...]:
        return without(self.isr, self.previous_isr)

    @property
    def _leaving(self) -> tuple[str, ...]:
        return without(self.previous_isr, self.isr)

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first, is_one = many[0], len({event.node for event in many}) == 1
        who = first.node if is_one else "each leader"
        isr = f"the ISR of {where(many)}{either((set_of(event.isr) for event in many), ' to ')}"
        match first.cause:
            case IsrCause.CAUGHT_UP:
                found = f"{who} proposed to expand {isr}"
                if first.caught_up_to is None:
                    return found
                name = listed(first._joining)
                return found + of_each(
                    many,
                    lambda event: f"{name} has caught up to {event.caught_up_to}",
                    lambda event: f"to {event.caught_up_to}",
                )
            case IsrCause.LAG:
                found = f"{who} proposed to shrink {isr}"
                if first.lag_causes:
                    found += of_each(many, cls._lagging)
                return f"{found} ({first._limits()})" if first._limits() else found
            case IsrCause.RETRY:
                proposed = either((set_of(event.isr) for event in many), " ")
                return f"{who} proposed the ISR{proposed} of {where(many)} again: the controller answered {first.error}"

    def _lagging(self) -> str:
        return listed(list(map(self._lag, self._leaving, self.lag_causes, self.lags)))

    def _limits(self) -> str:
        limits = []
        if self.lag_time_max_us is not None:
            limits.append(f"replica.lag.time.max.ms is {duration(self.lag_time_max_us)}")
        if self.lag_max_messages is not None:
            limits.append(f"replica.lag.max.messages is {self.lag_max_messages}")
        return ", ".join(limits)

    def _lag(self, who: str, cause: LagCause, amount: int) -> str:
        match cause:
            case LagCause.NOT_CAUGHT_UP:
                return f"{who} has not caught up for {duration(amount)}"
            case LagCause.NEVER_CAUGHT_UP:
                return f"{who} has not caught up since {self.node} became leader"
            case LagCause.NOT_FETCHING:
                return f"{who} has not fetched for {duration(amount)}"
            case LagCause.BEHIND:
                return f"{who} is {amount} records behind"
            case LagCause.NOT_ASSIGNED:
                return f"{who} is no longer a replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrCommitted(OnOccasion):
    """The controller wrote a new ISR: a leader's proposal, or a decision of the controller, such as a fencing."""

    isr: column.Isr
    previous_isr: column.PreviousIsr
    proposed_by: column.ProposedBy
    cause: Annotated[IsrCommitCause | None, "why, see IsrCommitCause"] = None
    recovered: Annotated[bool, "the leader has recovered from its unclean election"] = False

    MAY_DIFFER = (*OnOccasion.MAY_DIFFER, "proposed_by")

    def fold_key(self) -> Hashable:
        return OnOccasion.fold_key(self), *self._changes()

    def _changes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the members that left the ISR, and the members that joined it."""
        return without(self.previous_isr, self.isr), without(self.isr, self.previous_isr)

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first, isr = many[0], f"the ISR of {where(many)}"
        left, joined = first._changes()
        now = either((set_of(event.isr) for event in many), "now ")
        if left or joined:
            verbs = [f"{listed(who)} {verb}" for who, verb in ((left, "left"), (joined, "joined")) if who]
            what = f"{' and '.join(verbs)} {isr}" + (f" ({now})" if now else "")
        else:
            what = f"{isr} is {now}" if now else f"{isr} did not change"
        if first.recovered:
            what += "; the leader has recovered from its unclean election"
        leader = f"the leader {first.proposed_by}" if len({event.proposed_by for event in many}) == 1 else "each leader"
        match first.cause:
            case IsrCommitCause.PROPOSED:
                return f"{what}: {leader} proposed this"
            case IsrCommitCause.WRITTEN:
                return f"{what}: {leader} wrote this to ZooKeeper"
            case IsrCommitCause.TAKEN_OFFLINE:
                return f"{what}: {first.node} took {listed(left)} offline{first.on_occasion()}"
            case IsrCommitCause.UNCLEAN_ELECTION:
                lost = set_of(first.previous_isr) if first.previous_isr else "other replicas"
                return f"{isr} is {set_of(first.isr)} after the unclean election: records that only {lost} had are lost"
        return what + first.on_occasion()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrCommitted(OnOccasion):
    """The controller changed the eligible leader replicas (KIP-966), or recorded the last known leader."""

    isr: column.Isr
    elr: Annotated[tuple[str, ...], "eligible leader replicas after the event"]
    previous_elr: Annotated[tuple[str, ...], "eligible leader replicas before the event"]
    last_known_leader: Annotated[str | None, "the last leader, if the partition has neither leader nor ISR"]
    previous_last_known_leader: Annotated[str | None, "last known leader before the event"] = None
    cause: Annotated[ElrCause | None, "why the whole ELR was emptied at once; null: it was not"] = None
    came_causes: Annotated[tuple[ElrCause, ...], "why each new member entered the ELR, in the order of `elr`"] = ()
    gone_causes: Annotated[
        tuple[ElrCause, ...], "why each former member left the ELR, in the order of `previous_elr`"
    ] = ()

    MAY_DIFFER = ("leader_epoch", "partition_epoch")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        return first.found(f"the ELR of {where(many)} is {set_of(first.elr) if first.elr else 'empty'}", first._why())

    def _why(self) -> str:
        if self.cause is ElrCause.MIN_ISR_CHANGED:
            return "min.insync.replicas was changed, and replicas that were eligible before may not be eligible now"
        came = list(zip(without(self.elr, self.previous_elr), self.came_causes, strict=False))
        gone = zip(without(self.previous_elr, self.elr), self.gone_causes, strict=False)
        found = []
        eligible = [who for who, cause in came if cause is ElrCause.BELOW_MIN_ISR]
        if eligible:
            below = "the ISR is below min.insync.replicas, so the high watermark cannot rise"
            found.append(f"{listed(eligible)} may still lead, as {below}")
        found += [f"{who} stays in it although it is no longer a replica" for who, _ in came if who not in eligible]
        found += [f"{who} {self._why_gone(cause)}" for who, cause in gone]
        if self.last_known_leader is not None and self.last_known_leader != self.previous_last_known_leader:
            found.append(f"{self.last_known_leader} is recorded as the last known leader")
        return "; ".join(found)

    def _why_gone(self, cause: ElrCause) -> str:
        match cause:
            case ElrCause.MAY_HAVE_LOST_RECORDS:
                return "may have lost records and may not lead"
            case ElrCause.IN_ISR:
                return "is in the ISR again"
            case ElrCause.NO_ELR:
                return "may not lead, as the cluster no longer has eligible leader replicas"
            case ElrCause.NOT_ASSIGNED:
                return "is no longer a replica"
            case ElrCause.DIRECTORY_REPORTED:
                return "may not lead, as Kafka before 4.3 voids the ELR when a log directory is reported"
            case _:
                return f"has to catch up with the ISR {set_of(self.isr)} first"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRejected(OfPartitions, OnPartition, ControlEvent):
    """A leader's proposal of an ISR was refused.

    A ZooKeeper-era leader that writes the ISR itself emits this event if its write fails.
    """

    broker: column.Broker
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: Annotated[tuple[str, ...], "the proposed ISR, which was refused"]
    error: column.Error
    message: Annotated[str | None, "error message in the answer"] = None
    proposed_leader_epoch: Annotated[int | None, "leader epoch in the proposal"] = None
    proposed_partition_epoch: Annotated[int | None, "partition epoch in the proposal"] = None

    MAY_DIFFER = (
        *("leader_epoch", "partition_epoch", "isr", "message"),
        *("proposed_leader_epoch", "proposed_partition_epoch"),
    )

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first, isr = many[0], either((set_of(event.isr) for event in many), " ")
        refused = f"the ISR{isr} that {first.broker or 'the leader'} proposed for {where(many)}"
        return f"{refused} was refused with {first.error}{of_each(many, cls._why)}"

    def _why(self) -> str:
        if self.message is not None:
            return self.message
        if self.broker == self.node:
            return (
                f"cached zkVersion {self.proposed_partition_epoch} of {self.node} is not equal to that in the "
                f"registry, {self.partition_epoch}: {self.node} skips updating the ISR"
            )
        is_known = self.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
        return (
            f"the proposal has leader epoch {self.proposed_leader_epoch} and partition epoch "
            f"{self.proposed_partition_epoch}"
            + (f", but the partition has {self.leader_epoch} and {self.partition_epoch}" if is_known else "")
        )
