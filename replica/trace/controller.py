"""Events of controllers: their own terms, registrations, leaders, ISR and ELR, replicas and configs."""

from __future__ import annotations

from typing import Annotated

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
)
from replica.frozen import dataclass
from replica.ids import without
from replica.trace import columns as column
from replica.trace.columns import ControlEvent, OnOccasion, OnPartition, was_fenced
from replica.wording import duration, listed, set_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionBegan(ControlEvent):
    """A controller asks the others for their votes."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    cause: Annotated[CandidacyCause, "why, see CandidacyCause"]
    previous_leader: Annotated[str | None, "the controller that did not answer"] = None

    def sentence(self) -> str:
        why = _CANDIDACY[self.cause].format(leader=self.previous_leader)
        return f"{self.node} stands for election in epoch {self.controller_epoch}: {why}"


_CANDIDACY = {
    CandidacyCause.NO_LEADER: "it knows of no leader",
    CandidacyCause.ELECTION_FAILED: "its last election failed",
    CandidacyCause.NO_ANSWER: "it had no answer of {leader} in time",
    CandidacyCause.RESIGNED: "no other controller was elected since it stopped leading",
    CandidacyCause.ALONE: "there is no other controller",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLeaderElected(ControlEvent):
    """`node` leads the metadata log; it decides nothing before it has committed a record of its own epoch."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    cause: Annotated[CandidacyCause | None, "why it stood, where its own vote is a majority"] = None
    voted_by: Annotated[tuple[str, ...], "who voted for it; empty: that is not known"] = ()
    voters: Annotated[int | None, "how many may vote"] = None

    def sentence(self) -> str:
        found = f"{self.node} leads the controllers in epoch {self.controller_epoch}"
        if self.cause is not None:
            return f"{found}: {_CANDIDACY[self.cause].format(leader='the leader')}"
        if not self.voted_by:
            return found
        return f"{found}: {' and '.join(self.voted_by)} voted for it, {len(self.voted_by)} of {self.voters}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerActivated(ControlEvent):
    """`node` is the active controller: all that was decided before is committed, and it knows it. In the ZooKeeper era
    it was the first to make /controller."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    cause: Annotated[ActivationCause | None, "why, see ActivationCause"] = None

    def sentence(self) -> str:
        match self.cause:
            case None:
                return f"{self.node} is the active controller"
            case ActivationCause.COMMITTED:
                first = f"its first record of epoch {self.controller_epoch}"
                return f"{self.node} is the active controller: the log is committed up to {first}"
            case ActivationCause.ZNODE:
                made = f"{self.node} was the first to make /controller"
                return f"{made} and is the controller of epoch {self.controller_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResigned(ControlEvent):
    """`node` no longer leads. Its uncommitted decisions never happened. In the ZooKeeper era it has learned
    that it is not the controller any more, or may not be."""

    node: column.Node
    controller_epoch: column.ControllerEpoch
    cause: Annotated[ResignationCause, "why, see ResignationCause"]
    newer_epoch: Annotated[int | None, "the epoch that it has heard of; none in the ZooKeeper era"] = None
    other: Annotated[str | None, "the controller that leads it, or stands for election"] = None
    silent_us: Annotated[int | None, "microseconds without what was expected"] = None

    def sentence(self) -> str:
        stops = f"{self.node} stops leading the controllers of epoch {self.controller_epoch}"
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
    ResignationCause.SHUTDOWN: "it shuts down",
    ResignationCause.NO_MAJORITY: "no majority has fetched from it for {seconds} s",
    ResignationCause.CANDIDATE: "{other} stands for election in epoch {epoch}",
    ResignationCause.NEWER_EPOCH: "epoch {epoch} has begun",
    ResignationCause.OTHER_LEADER: "{other} leads epoch {epoch}",
    ResignationCause.OTHER_CONTROLLER: "{other} is",
    ResignationCause.WRITE_REFUSED: "a write of its epoch was refused, another controller was elected since",
    ResignationCause.SESSION_EXPIRED: "its session with the registry is over",
    ResignationCause.NODE_GONE: "/controller is gone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWritten(ControlEvent):
    """`node` has written down all that the metadata log says below `offset`; its log may be cut to there."""

    node: column.Node
    offset: column.Offset
    controller_epoch: column.ControllerEpoch
    size_bytes: column.Size
    log_start_offset: Annotated[int, "first offset of the log that is kept"]
    log_bytes: Annotated[int, "bytes of metadata since the last snapshot"]
    max_log_bytes: Annotated[int, "metadata.log.max.record.bytes.between.snapshots"]

    def sentence(self) -> str:
        return (
            f"{self.node} has applied {self.log_bytes} bytes of metadata since the last snapshot, and"
            f" metadata.log.max.record.bytes.between.snapshots is {self.max_log_bytes}: it writes"
            f" {_snapshot_file(self.offset, self.controller_epoch)}, and keeps its log from offset"
            f" {self.log_start_offset} on"
        )


def _snapshot_file(offset: int, epoch: int) -> str:
    return f"{offset:020d}-{epoch:010d}.checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFetched(ControlEvent):
    """`node` asked for what the leader of the metadata log has cut off, and was given a snapshot up to `offset`."""

    node: column.Node
    peer: column.Peer
    offset: column.Offset
    controller_epoch: column.ControllerEpoch
    size_bytes: column.Size
    had_offset: Annotated[int, "end of the metadata log that `node` had"]

    def sentence(self) -> str:
        return (
            f"{self.node} has the metadata log up to offset {self.had_offset}, and what follows {self.peer} has cut"
            f" off: it takes {self.peer}'s snapshot, and goes on from offset {self.offset}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLoaded(ControlEvent):
    """`node` knows the cluster from a snapshot up to `offset`, and from the metadata log after it."""

    node: column.Node
    offset: column.Offset
    controller_epoch: column.ControllerEpoch
    cause: Annotated[LoadingCause, "why, see LoadingCause"]

    def sentence(self) -> str:
        match self.cause:
            case LoadingCause.ACTIVE:
                file = _snapshot_file(self.offset, self.controller_epoch)
                return f"{self.node} becomes active: it loads {file}, then its log from offset {self.offset} on"
            case LoadingCause.BEHIND:
                return f"{self.node} replaces what it knew by the snapshot, and goes on from offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered(ControlEvent):
    node: column.Node
    broker: column.Broker
    broker_epoch: Annotated[int, "one registration of a broker"]
    cause: Annotated[RegistrationCause | None, "as what it registered, see RegistrationCause"] = None
    previous_epoch: Annotated[int | None, "broker epoch of the incarnation before"] = None
    was_clean: Annotated[bool | None, "whether that one was shut down in order"] = None
    path: Annotated[str | None, "the file that it made in the registry"] = None

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
                found = f"{self.broker} registered a new incarnation; the one before it"
                if self.was_clean is None:
                    return f"{found} had epoch {self.previous_epoch}"
                how = "was shut down in order" if self.was_clean else "was not shut down in order"
                return f"{found} (epoch {self.previous_epoch}) {how}"
            case RegistrationCause.ZNODE:
                return f"{self.broker} made {self.path}, which lives as long as its session"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced(ControlEvent):
    node: column.Node
    broker: column.Broker
    cause: Annotated[FencingCause | None, "why, see FencingCause"] = None
    silent_us: Annotated[int | None, "microseconds without what was expected"] = None

    def sentence(self) -> str:
        fenced = was_fenced(self.broker, self.cause, self.silent_us)
        if self.cause is FencingCause.NOT_IN_REGISTRY:
            return f"{fenced}, so {self.node} has taken it offline"
        return fenced


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnfenced(ControlEvent):
    node: column.Node
    broker: column.Broker
    cause: Annotated[UnfencingCause | None, "why, see UnfencingCause"] = None
    metadata_offset: Annotated[int | None, "the broker has applied the metadata log up to it"] = None
    registration_offset: Annotated[int | None, "where its registration is in the metadata log"] = None

    def sentence(self) -> str:
        match self.cause:
            case None:
                return f"{self.broker} is unfenced"
            case UnfencingCause.CAUGHT_UP if self.metadata_offset is None:
                return f"{self.broker} is unfenced: it has caught up with the metadata log"
            case UnfencingCause.CAUGHT_UP:
                return (
                    f"{self.broker} has applied the metadata log up to offset {self.metadata_offset}, "
                    f"which includes its own registration at {self.registration_offset}"
                )
            case UnfencingCause.IN_REGISTRY:
                return f"{self.broker} is in the registry"
            case UnfencingCause.FOUND_LIVE:
                return f"{self.node} finds it alive as it becomes the controller"
            case UnfencingCause.LISTED:
                return f"{self.broker} is among the brokers that are listed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered(ControlEvent):
    """An operator had the controller forget `broker`. If it runs, it goes on, and nothing unfences it any more."""

    node: column.Node
    broker: column.Broker

    def sentence(self) -> str:
        return f"an operator unregistered {self.broker}, which may come back as a new incarnation only"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpired(ControlEvent):
    """ZooKeeper era: the registry gave up on `broker`; its session's ephemeral nodes are gone."""

    node: column.Node
    broker: column.Broker

    def sentence(self) -> str:
        return f"{self.node} ends the session of {self.broker}: nothing was heard of it in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequestRefused(ControlEvent):
    """ZooKeeper era: `node` did not do what a controller (`peer`) asked of it."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    error: column.Error
    request_epoch: Annotated[int, "epoch in the request: of the controller, or of the broker for STALE_BROKER_EPOCH"]
    known_epoch: Annotated[int, "the one that `node` knows"]

    def sentence(self) -> str:
        if self.error == "STALE_BROKER_EPOCH":
            why = f"it is meant for broker epoch {self.request_epoch}, this one is {self.known_epoch}"
        else:
            why = f"it comes from controller epoch {self.request_epoch}, the latest known is {self.known_epoch}"
        return f"{self.node} refuses {self.api} of {self.peer}: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCreated(OnPartition, ControlEvent):
    broker: column.Broker
    replicas: column.Replicas
    isr: column.Isr
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    min_isr: Annotated[int, "min.insync.replicas of the topic; at most the number of replicas counts"]
    cause: Annotated[PlacementCause | None, "how the replicas were chosen, see PlacementCause"] = None

    def sentence(self) -> str:
        match self.cause:
            case None:
                return f"{self.broker or 'nobody'} leads {self.name}; the ISR is {set_of(self.isr)}"
            case PlacementCause.ASSIGNED:
                how = "as assigned"
            case PlacementCause.PLACED:
                how = "placed evenly over racks and brokers"
        return f"replicas {how}; {self.broker} leads, the first that is live"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted(ControlEvent):
    """An operator deleted a topic: its records are gone on purpose, and a topic of that name begins anew."""

    node: column.Node
    topic: column.Topic

    def sentence(self) -> str:
        return f"an operator deletes topic {self.topic}, and with it all its records"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElected(OnOccasion):
    """The controller chose a leader (`broker`); `clean` is false when it was outside the ISR and the ELR."""

    broker: column.Broker
    previous_leader: Annotated[str | None, "leader before, null if there was none"]
    isr: column.Isr
    clean: Annotated[bool, "elected from the ISR or the ELR"]
    cause: Annotated[ElectionCause | None, "how it was chosen, see ElectionCause"] = None
    candidates: Annotated[tuple[str, ...], "the replicas in preference order, of which it was chosen"] = ()
    previous_isr: column.PreviousIsr = ()
    electable: Annotated[tuple[str, ...], "the ELR, where the ISR has no member left"] = ()

    def sentence(self) -> str:
        return self._choice() + self.on_occasion()

    def _choice(self) -> str:
        who, members = self.broker, _electorate(self.previous_isr, self.electable)
        match self.cause:
            case ElectionCause.PREFERRED:
                why = f"{who} is the preferred leader (first of {set_of(self.candidates)})"
                return f"{why}, live and in {members}"
            case ElectionCause.KEEPS_LEADERSHIP:
                return f"{who} keeps the leadership: it is live and in {members}"
            case ElectionCause.FIRST_LIVE:
                return f"{who} is the first live member of {members}"
            case ElectionCause.UNCLEAN:
                return f"unclean election: {who} is the first live replica, and no member of {members} is live"
            case ElectionCause.UNCLEAN_LAST_KNOWN:
                return f"unclean election: {who} led last, and neither ISR nor ELR has a member left"
        if who in self.previous_isr:
            return f"{who} is elected from the ISR {set_of(self.previous_isr)}"
        if who in self.electable:
            return f"{who} is elected from the ELR {set_of(self.electable)}"
        if self.clean:
            return f"{who} is elected{', which has just joined the ISR' if self.previous_isr else ''}"
        return f"unclean election: {who} leads and was not in the ISR {set_of(self.previous_isr)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWentOffline(OnOccasion):
    previous_leader: Annotated[str | None, "leader before, null if there was none"]
    isr: column.Isr
    cause: Annotated[ElectionCause | None, "why nobody was chosen, see ElectionCause"] = None
    previous_isr: column.PreviousIsr = ()
    electable: Annotated[tuple[str, ...], "the ELR, where the ISR has no member left"] = ()

    def sentence(self) -> str:
        found = f"no leader: no member of {_electorate(self.previous_isr, self.electable)}"
        match self.cause:
            case ElectionCause.UNCLEAN_DISABLED:
                found += " is live (unclean.leader.election.enable is false)"
            case ElectionCause.NO_LIVE_REPLICA:
                found += " is live, nor any other replica"
            case None:
                found += " can lead"
            case _:
                found += " is live"
        return found + self.on_occasion()


def _electorate(isr: tuple[str, ...], electable: tuple[str, ...]) -> str:
    """The ISR before the election: a member that has just left it is part of the story. An empty ISR has the ELR speak
    for it."""
    if not electable:
        return f"the ISR {set_of(isr)}"
    elr = f"the ELR {set_of(electable)}"
    return f"the ISR {set_of(isr)} or {elr}" if isr else elr


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentBegan(OnPartition, ControlEvent):
    """KIP-455: `replicas` are the target and what is still to be removed."""

    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    replicas: column.Replicas
    adding: Annotated[tuple[str, ...], "replicas that a reassignment adds"]
    removing: Annotated[tuple[str, ...], "replicas that a reassignment removes"]

    def sentence(self) -> str:
        changes = (("adds", self.adding), ("removes", self.removing))
        how = ", ".join(f"{verb} {set_of(who)}" for verb, who in changes if who) or "only reorders them"
        return f"an operator moves {self.name} to {set_of(without(self.replicas, self.removing))}: {how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentCompleted(OnPartition, ControlEvent):
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    replicas: column.Replicas
    previous_replicas: Annotated[tuple[str, ...], "replicas before the event; empty: not known"] = ()

    def sentence(self) -> str:
        if not self.previous_replicas:
            return f"the reassignment is complete: the replicas are {set_of(self.replicas)}"
        found = f"the reassignment is complete: all of {set_of(self.replicas)} are in the ISR"
        return found + _losing(self.previous_replicas, self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentCancelled(OnPartition, ControlEvent):
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    replicas: column.Replicas
    previous_replicas: Annotated[tuple[str, ...], "replicas before the event"] = ()

    def sentence(self) -> str:
        found = f"the reassignment is taken back: the replicas are {set_of(self.replicas)} again"
        return found + _losing(self.previous_replicas, self.replicas)


def _losing(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    gone = without(before, after)
    return f"; {set_of(gone)} {'loses' if len(gone) == 1 else 'lose'} it" if gone else ""


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
                return f"an operator sets {self.key} of {what} {to}"
            case ConfigCause.ELR:
                return f"the controller, for ELR, sets {self.key} of {what} {to}"
            case ConfigCause.DEFAULT:
                return f"{what} has no {self.key} of its own: {self.value} count from now on"
            case ConfigCause.FEATURE:
                return f"an operator sets the level of feature {self.key} to {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRefused(OnPartition, ControlEvent):
    error: column.Error
    message: Annotated[str, "what the answer says"]

    def sentence(self) -> str:
        return self.message


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
class IsrCommitted(OnOccasion):
    """The controller wrote a new ISR: accepted from a leader, or its own doing (fencing, election, shutdown)."""

    isr: column.Isr
    previous_isr: column.PreviousIsr
    proposed_by: column.ProposedBy
    cause: Annotated[IsrCommitCause | None, "why, see IsrCommitCause"] = None
    recovered: Annotated[bool, "the leader has recovered from its unclean election"] = False

    def sentence(self) -> str:
        left, joined = without(self.previous_isr, self.isr), without(self.isr, self.previous_isr)
        changes = [f"{' and '.join(who)} {verb} the ISR" for who, verb in ((left, "left"), (joined, "joined")) if who]
        if self.recovered:
            changes.append("the leader has recovered from its unclean election")
        what = " and ".join(changes) or f"the ISR is {set_of(self.isr)}"
        match self.cause:
            case IsrCommitCause.PROPOSED:
                return f"{what}: {self.proposed_by} proposed it as leader"
            case IsrCommitCause.WRITTEN:
                return f"{what}: {self.proposed_by} wrote it as leader"
            case IsrCommitCause.TAKEN_OFFLINE:
                return f"{what}: {self.node} takes {listed(left)} offline{self.on_occasion()}"
            case IsrCommitCause.UNCLEAN_ELECTION:
                lost = set_of(self.previous_isr) if self.previous_isr else "others"
                alone = f"{listed(self.isr)} was elected uncleanly and starts alone"
                return f"{alone}: what only {lost} held is lost"
        return what + self.on_occasion()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrCommitted(OnOccasion):
    """The controller wrote other eligible leader replicas (KIP-966), or noted who led last."""

    isr: column.Isr
    elr: Annotated[tuple[str, ...], "eligible leader replicas after the event"]
    previous_elr: Annotated[tuple[str, ...], "eligible leader replicas before the event"]
    last_known_leader: Annotated[str | None, "who led last, while the partition has neither leader nor ISR"]
    previous_last_known_leader: Annotated[str | None, "likewise, before the event"] = None
    cause: Annotated[ElrCause | None, "why the whole ELR went, if it went at once"] = None
    came_causes: Annotated[tuple[ElrCause, ...], "of each that came to the ELR, in the order of `elr`"] = ()
    gone_causes: Annotated[tuple[ElrCause, ...], "of each that went from it, in the order of `previous_elr`"] = ()

    def sentence(self) -> str:
        if self.cause is ElrCause.MIN_ISR_CHANGED:
            return "min.insync.replicas was changed, and who was eligible by the old one may not be by the new one"
        came = list(zip(without(self.elr, self.previous_elr), self.came_causes, strict=False))
        gone = zip(without(self.previous_elr, self.elr), self.gone_causes, strict=False)
        found = []
        eligible = [who for who, cause in came if cause is ElrCause.BELOW_MIN_ISR]
        if eligible:
            below = "the ISR is below min.insync.replicas, so the high watermark cannot rise from here"
            found.append(f"{' and '.join(eligible)} may still lead: {below}")
        found += [f"{who} stays though it is no replica any more" for who, _ in came if who not in eligible]
        found += [f"{who} {self._why_gone(cause)}" for who, cause in gone]
        if self.last_known_leader is not None and self.last_known_leader != self.previous_last_known_leader:
            found.append(f"{self.last_known_leader} is remembered as the last leader")
        return ("; ".join(found) or f"the ELR is {set_of(self.elr)}") + self.on_occasion()

    def _why_gone(self, cause: ElrCause) -> str:
        match cause:
            case ElrCause.MAY_HAVE_LOST_RECORDS:
                return "may have lost records and may not lead"
            case ElrCause.IN_ISR:
                return "is in the ISR again"
            case ElrCause.NO_ELR:
                return "may not lead: the cluster has no eligible leader replicas any more"
            case ElrCause.NOT_ASSIGNED:
                return "goes: it is no replica any more"
            case _:
                return f"has to catch up first: the ISR is {set_of(self.isr)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRejected(OnPartition, ControlEvent):
    broker: column.Broker
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: Annotated[tuple[str, ...], "the in-sync replicas that were refused"]
    error: column.Error
    message: Annotated[str, "what the answer says, or would"]

    def sentence(self) -> str:
        return self.message
