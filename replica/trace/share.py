"""Events of share groups (KIP-932), emitted by leaders of partitions, coordinators and members.

Names that clients choose (groups, members) are cut to 100 printable characters (`wording.shown`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from replica.causes import DeadLetterCause, LeaveCause, ShareCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import Frequent, OfClient, OfPartitions, OnPartition, ShareEvent, of_each, where
from replica.trace.ranges import counted
from replica.wording import member_name

Group = Annotated[str, "group id"]
MemberId = Annotated[str, "member id"]
First = Annotated[int, "offset of the first record"]
Last = Annotated[int, "offset of the last record"]
ClientId = Annotated[str, "client.id of the member"]
GroupEpoch = Annotated[int, "epoch of the group"]
DeliveryCount = Annotated[int, "number of deliveries of each record, including this one"]
StartOffset = Annotated[int, "the group's start offset (SPSO); all records below it are settled"]


def _records(first: int, last: int) -> str:
    return f"record {first}" if first == last else f"records {first} to {last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStatesLoaded(OfPartitions, OnPartition, ShareEvent):
    """A broker became the leader of a partition of the share state topic, and has loaded the states in it."""

    leader_epoch: column.Epoch
    share_partitions: Annotated[int, "number of share partitions in the partition"]
    unreadable: Annotated[int, "number of records that could not be read and were skipped"] = 0

    MAY_DIFFER = ("leader_epoch", "share_partitions", "unreadable")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        return f"{many[0].node} loaded the share groups of {where(many)}, which it leads{of_each(many, cls._kept)}"

    def _kept(self) -> str:
        passed_over = f"; {counted(self.unreadable, 'record')} could not be read" if self.unreadable else ""
        return f"{counted(self.share_partitions, 'share partition')}{passed_over}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberJoined(ShareEvent):
    """A member has joined a share group."""

    node: column.Node
    group: Group
    member: MemberId
    client_id: ClientId
    epoch: GroupEpoch
    topics: Annotated[tuple[str, ...], "topics that the member reads"]

    def sentence(self) -> str:
        return f"{member_name(self.member, self.client_id)} joined share group {self.group} in epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberLeft(ShareEvent):
    """A member is no longer part of its share group."""

    node: column.Node
    group: Group
    member: MemberId
    client_id: ClientId
    epoch: GroupEpoch
    cause: Annotated[LeaveCause, "why the member left"]

    def sentence(self) -> str:
        who = member_name(self.member, self.client_id)
        return f"{self.node} removed {who} from share group {self.group}: {self.cause.meaning}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberAssigned(ShareEvent):
    """The assignment of a share group member changed. Several members may have the same partitions."""

    node: column.Node
    group: Group
    member: MemberId
    client_id: ClientId
    epoch: GroupEpoch
    partitions: Annotated[tuple[str, ...], "partitions assigned to the member, as topic-number"]

    def sentence(self) -> str:
        who, has = member_name(self.member, self.client_id), ", ".join(self.partitions) or "nothing"
        return f"{who} of share group {self.group} was assigned {has} in epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartitionLoaded(OnPartition, ShareEvent):
    """The leader of a partition has loaded the state of a share group: which records were delivered and settled."""

    group: Group
    leader_epoch: column.Epoch
    start_offset: StartOffset
    next_offset: Annotated[int, "the first offset that can be delivered"]
    reset: Annotated[str | None, "share.auto.offset.reset; null: the group has settled records before"] = None

    def sentence(self) -> str:
        found = f"{self.node} loaded the state of share group {self.group} for {self.name}"
        start = f"its start offset is {self.start_offset}"
        if self.reset is not None:
            return f"{found}; {start}, because no record was settled before and share.auto.offset.reset is {self.reset}"
        return f"{found}; {start}, and delivery continues at offset {self.next_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateReset(OnPartition, ShareEvent):
    """A share coordinator has begun the state of a share group anew, or deleted it, as an operator asked."""

    group: Group
    start_offset: Annotated[int | None, "the new start offset; null: share.auto.offset.reset decides"] = None

    def sentence(self) -> str:
        state = f"the state of share group {self.group} for {self.name}"
        if self.start_offset is None:
            return f"{self.node} deleted {state}: share.auto.offset.reset decides where the group starts"
        return f"{self.node} reset {state} to start offset {self.start_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRecordsAcquired(OnPartition, ShareEvent):
    """A member of a share group acquired records. Other members do not get them until their locks expire."""

    group: Group
    member: MemberId
    first: First
    last: Last
    delivery_count: DeliveryCount

    def sentence(self) -> str:
        to = f"to a member of share group {self.group} (delivery {self.delivery_count})"
        return f"{self.node} delivered {_records(self.first, self.last)} of {self.name} {to}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRecordsSettled(OnPartition, ShareEvent):
    """The delivery of records to a member of a share group has ended, and the share coordinator has stored the result.

    For expired locks, the event comes before the share coordinator has stored the result.
    """

    group: Group
    member: MemberId
    first: First
    last: Last
    delivery_count: DeliveryCount
    delivery_limit: Annotated[int, "group.share.delivery.count.limit of the group"]
    state: Annotated[str, "the new state of the records: available, acknowledged, archiving or archived"]
    share_cause: Annotated[ShareCause, "why the delivery ended, see ShareCause"]

    def sentence(self) -> str:
        what = f"{_records(self.first, self.last)} of {self.name}"
        was = "was" if self.first == self.last else "were"
        became = {
            "available": "became available again",
            "acknowledged": f"{was} acknowledged",
            "archived": f"{was} archived",
            "archiving": f"{was} given up for the dead letter queue",
        }
        after = ""
        if self.state in ("archived", "archiving") and self.share_cause in RELEASES:
            after = f" after {self.delivery_count} of {self.delivery_limit} deliveries"
        outcome = became.get(self.state, self.state) + after
        return f"{what} {outcome} in share group {self.group}: {self.share_cause.meaning}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareDeadLettersSent(OnPartition, ShareEvent):
    """A leader has written records that a share group gave up to its dead letter queue, or it failed to (KIP-1191).

    In both cases the records are archived next.
    """

    group: Group
    first: First
    last: Last
    queue: Annotated[str, "topic of the dead letter queue"]
    queue_partition: Annotated[int | None, "partition of the queue; null: nothing was written"]
    queue_offset: Annotated[int | None, "offset of the first dead letter in the queue; null: nothing was written"]
    outcome: Annotated[DeadLetterCause, "written, or why not"]
    error: Annotated[str | None, "Kafka's error name; null: nothing was sent, or all went well"] = None

    def sentence(self) -> str:
        what = f"{_records(self.first, self.last)} of {self.name}"
        if self.outcome is DeadLetterCause.WRITTEN:
            index = f"{self.queue}-{self.queue_partition} at offset {self.queue_offset}"
            letters = "the dead letter" if self.first == self.last else "the dead letters"
            return f"{self.node} wrote {letters} of {what}, which share group {self.group} gave up, to {index}"
        why = self.outcome.meaning + (f" ({self.error})" if self.error else "")
        return f"{self.node} archived {what} for share group {self.group} without a dead letter in {self.queue}: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRecordRead(OfClient, ShareEvent, Frequent):
    """A poll of a member of a share group returned a record. Repeated deliveries of a record are no error."""

    peer: column.Peer
    group: Group
    offset: column.Offset
    record: column.Record
    delivery_count: DeliveryCount

    def sentence(self) -> str:
        again = "" if self.delivery_count == 1 else f" (delivery {self.delivery_count})"
        return f"{self.client} got {self.record} at offset {self.offset} of {self.name} from {self.peer}{again}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgementFailed(OfClient, ShareEvent):
    """A member's acknowledgement of records failed. Unless the broker stored it, the records are delivered again."""

    peer: column.Peer
    group: Group
    first: First
    last: Last
    error: column.Error

    def sentence(self) -> str:
        what = f"{_records(self.first, self.last)} of {self.name}"
        return f"{self.client} could not acknowledge {what} to {self.peer}: {self.error}"


RELEASES = (ShareCause.RELEASED, ShareCause.LOCK_EXPIRED, ShareCause.SESSION_ENDED)
"""Causes after which a record is delivered again, unless it has reached its delivery limit."""
