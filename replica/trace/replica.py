"""Events about one replica: its role, its log, its high watermark, what it serves and what is left of it at the end."""

from __future__ import annotations

from typing import Annotated, ClassVar

from replica.causes import DeletionCause, HighWatermarkCause, RetentionCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ControlEvent, OnPartition, TraceEvent
from replica.wording import listed, torn_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDeleted(OnPartition, ControlEvent):
    """A broker removed its replica of a partition, log and all, because the metadata gives it none."""

    previous_log_end_offset: column.PreviousLeo
    cause: Annotated[DeletionCause | None, "why the metadata gives it none; null: real Kafka does not say"] = None

    def sentence(self) -> str:
        match self.cause:
            case None:
                return f"{self.node} has deleted its replica of {self.name}"
            case DeletionCause.TOPIC_DELETED:
                return f"{self.node} deletes its log of {self.name}: the topic was deleted"
            case DeletionCause.NOT_ASSIGNED:
                return f"{self.node} deletes its log of {self.name}: it is no replica any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipBegan(OnPartition, ControlEvent):
    """`node` learned that it leads; `log_end_offset` is where its epoch starts."""

    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: column.Isr
    log_end_offset: column.Leo
    high_watermark: column.Hw

    def sentence(self) -> str:
        return (
            f"{self.node} leads {self.name} in epoch {self.leader_epoch}, which starts at {self.log_end_offset}; its "
            f"high watermark is {self.high_watermark}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingBegan(OnPartition, ControlEvent):
    """`node` learned that `broker` leads (null: no broker leads)."""

    broker: column.Broker
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    log_end_offset: column.Leo
    high_watermark: column.Hw

    def sentence(self) -> str:
        what = "has no leader to follow" if self.broker is None else f"follows {self.broker}"
        return f"{self.node} {what} in epoch {self.leader_epoch} of {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncated(ControlEvent):
    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: Annotated[int, "leader epoch in which `node` follows"]
    log_end_offset: column.Leo
    previous_log_end_offset: column.PreviousLeo
    high_watermark: column.Hw
    previous_high_watermark: column.PreviousHw
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartOffsetAdvanced(OnPartition, ControlEvent):
    """Records below `log_start_offset` are deleted: a client asked the leader (DeleteRecords), or the leader's log
    starts there and its follower does the same."""

    role: column.Role
    leader_epoch: column.Epoch
    log_start_offset: Annotated[int, "first offset kept"]
    peer: Annotated[str | None, "the client that asked a leader, the leader of a follower; null: not known"] = None

    def sentence(self) -> str:
        found = f"{self.node} drops records below {self.log_start_offset}"
        if self.peer is None:
            return found
        if self.role == "leader":
            return f"{found}: {self.peer} asked to delete them"
        return f"{found}: the log of the leader {self.peer} starts at {self.log_start_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecovered(OnPartition, ControlEvent):
    """A log was opened when its broker started."""

    clean: Annotated[bool, "the broker had been shut down in order"]
    log_start_offset: Annotated[int, "first offset kept"]
    log_end_offset: column.Leo
    high_watermark: column.Hw
    size_bytes: Annotated[int, "bytes cut off as torn or corrupt"]

    def sentence(self) -> str:
        how = "in order" if self.clean else "without an orderly shutdown"
        return (
            f"{self.node} comes back {how}: {self.name} ends at {self.log_end_offset}, the checkpointed high watermark "
            f"is {self.high_watermark}{torn_bytes(self.size_bytes)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlushed(OnPartition, ControlEvent):
    offset: Annotated[int, "every record below it is on disk"]

    def sentence(self) -> str:
        return f"{self.node} has {self.name} on disk up to {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLost(ControlEvent):
    """A disk lost bytes that were never flushed, or that a `tear` removed."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    size_bytes: column.Size
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsExpired(OnPartition, ControlEvent):
    """Retention by time or size has taken the records below `log_start_offset` from one replica's log."""

    role: column.Role
    leader_epoch: column.Epoch
    log_start_offset: Annotated[int, "first offset kept"]
    size_bytes: Annotated[int, "bytes of the segments that went"]
    segments: Annotated[int, "segments that went"] = 0
    cause: Annotated[RetentionCause, "by which setting"]
    limit: Annotated[int, "its value"] = -1

    def sentence(self) -> str:
        what = "1 segment" if self.segments == 1 else f"{self.segments} segments"
        found = f"{self.node} deletes {what} of {self.name}, up to offset {self.log_start_offset}"
        match self.cause:
            case RetentionCause.SIZE:
                return f"{found}: without them it still has retention.bytes={self.limit}"
            case RetentionCause.TIME:
                return f"{found}: all their records are older than retention.ms={self.limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFailed(ControlEvent):
    """A broker took a log directory offline after an error of its disk, and every replica in it."""

    node: column.Node
    log_dir: Annotated[str, "name of the directory in log.dirs, empty where the broker has only one"]
    replicas_offline: Annotated[tuple[str, ...], "the partitions whose replicas were in it, such as t-0"]
    message: Annotated[str, "what the disk said"] = ""

    def sentence(self) -> str:
        directory = f"log directory {self.log_dir}" if self.log_dir else "log directory"
        what = f" with {', '.join(self.replicas_offline)}" if self.replicas_offline else ""
        return f"{self.node} takes its {directory}{what} offline: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCorrupted(OnPartition, ControlEvent):
    """A bit of a batch changed on the disk of `node`; the node has not noticed."""

    offset: Annotated[int, "first offset of the batch"]
    last_offset: Annotated[int, "last offset of the batch (inclusive)"]

    def sentence(self) -> str:
        return (
            f"a bit of the batch at offset {self.offset} of {self.name} changes on the disk of {self.node}; this goes "
            "unnoticed until its CRC is checked"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRefused(OnPartition, ControlEvent):
    peer: column.Peer
    error: column.Error
    message: Annotated[str, "what the broker says of it"] = ""

    def sentence(self) -> str:
        whose = f" of {self.peer}" if self.peer else ""
        return f"{self.node} refuses a batch{whose} for {self.name}: {self.message or self.error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRefused(ControlEvent):
    node: column.Node
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    error: column.Error
    offset: column.Offset
    leader_epoch: column.Epoch
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchThrottled(OnPartition, ControlEvent):
    """A follower begins to leave a partition out of its fetches, because its replication quota is exceeded (KIP-73)."""

    peer: column.Peer
    bytes_per_s: Annotated[int, "how much it has fetched a second"]
    limit: Annotated[int, "follower.replication.throttled.rate"]

    def sentence(self) -> str:
        return (
            f"{self.node} leaves {self.name} out of its fetches from {self.peer}: it has fetched {self.bytes_per_s:,} "
            f"bytes a second, and follower.replication.throttled.rate is {self.limit:,}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceFound(OnPartition, ControlEvent):
    """The leader told a follower where their logs part (KIP-595 diverging epoch)."""

    peer: column.Peer
    leader_epoch: Annotated[int, "largest epoch the leader knows that is not above the follower's last fetched epoch"]
    offset: Annotated[int, "end of that epoch in the leader's log"]
    fetch_offset: Annotated[int, "where the follower fetches"]
    last_fetched_epoch: Annotated[int, "epoch of the follower's last record"]

    def sentence(self) -> str:
        return (
            f"{self.peer} fetches from {self.fetch_offset} after a record of epoch {self.last_fetched_epoch}, but in "
            f"{self.node}'s log epoch {self.leader_epoch} ends at {self.offset}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAppended(TraceEvent):
    TABLE: ClassVar[str] = "log"
    node: column.Node
    role: column.Role
    topic: column.Topic
    partition: column.Partition
    leader_epoch: Annotated[int, "leader epoch stamped on the batch"]
    base_offset: Annotated[int, "first offset of the batch"]
    last_offset: Annotated[int, "last offset of the batch (inclusive)"]
    log_end_offset: column.Leo
    size_bytes: column.Size
    crc: column.Crc
    producer_id: Annotated[int, "-1 without idempotence"]
    producer_epoch: Annotated[int, "-1 without idempotence"]
    base_sequence: Annotated[int, "-1 without idempotence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetched(TraceEvent):
    """A leader judged a follower's fetch: the follower holds every record below `fetch_offset`."""

    TABLE: ClassVar[str] = "fetch"
    node: column.Node
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    fetch_offset: Annotated[int, "the follower's own log end offset"]
    log_end_offset: column.Leo
    high_watermark: column.Hw
    in_isr: Annotated[bool, "the follower is in the committed ISR"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsSent(TraceEvent):
    """A leader answered a fetch with bytes straight from its segment file."""

    TABLE: ClassVar[str] = "fetch"
    node: column.Node
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    fetch_offset: Annotated[int, "the follower's own log end offset"]
    size_bytes: Annotated[int, "bytes that left by sendfile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced(OnPartition):
    TABLE: ClassVar[str] = "high_watermark"
    role: column.Role
    leader_epoch: column.Epoch
    high_watermark: column.Hw
    previous_high_watermark: column.PreviousHw
    log_end_offset: column.Leo
    holders: Annotated[tuple[str, ...], "the ISR, whose members hold all below it; empty: real Kafka does not say"] = ()
    joining: Annotated[str | None, "outside the ISR, but close: the next step waits for it, too"] = None

    def sentence(self) -> str:
        moved = f"HW {self.previous_high_watermark} -> {self.high_watermark}"
        if not self.holders:
            return moved
        if self.holders == (self.node,):
            who = f"{self.node}, alone in the ISR, holds"
        else:
            who = f"{listed(self.holders)} {'both' if len(self.holders) == 2 else 'all'} hold"
        found = f"{moved}: {who} the records below {self.high_watermark}"
        if self.joining is None:
            return found
        return f"{found}; HW waits there for {self.joining}, which is not in the ISR but may join"


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkLearned(OnPartition):
    """A follower took over the leader's high watermark; an assignment, so it can fall (UnifiedLog.maybeUpdateHW)."""

    TABLE: ClassVar[str] = "high_watermark"
    role: column.Role
    leader_epoch: column.Epoch
    high_watermark: column.Hw
    previous_high_watermark: column.PreviousHw
    log_end_offset: column.Leo
    cause: Annotated[HighWatermarkCause | None, "why the follower's became that"] = None
    leader: Annotated[str | None, "whose high watermark it follows"] = None
    leader_high_watermark: Annotated[int | None, "as the leader's answer said"] = None

    def sentence(self) -> str:
        moved = f"HW {self.previous_high_watermark} -> {self.high_watermark}"
        told = f"the leader {self.leader} has HW {self.leader_high_watermark}"
        match self.cause:
            case None:
                return moved
            case HighWatermarkCause.LEADER:
                return f"{moved}: {told}"
            case HighWatermarkCause.LOG_END:
                return f"{moved}: {told}, but {self.node}'s log ends at {self.high_watermark}"
            case HighWatermarkCause.LOG_START:
                return f"{moved}: {told}, but {self.node}'s log starts at {self.high_watermark}"
            case HighWatermarkCause.CUT:
                return f"{moved}: {self.node}'s log ends there after the cut"
            case HighWatermarkCause.STARTED_ANEW:
                return f"{moved}: {self.node}'s log starts there now"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntryFound(TraceEvent):
    """One record in one replica's log when the run ended."""

    TABLE: ClassVar[str] = "final_log"
    node: column.Node
    topic: column.Topic
    partition: column.Partition
    offset: column.Offset
    record: column.Record
    leader_epoch: Annotated[int, "leader epoch stamped on the record's batch"]
    crc: column.Crc


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFound(TraceEvent):
    """One replica when the run ended: its role, and how far its log goes."""

    TABLE: ClassVar[str] = "final_log"
    node: column.Node
    topic: column.Topic
    partition: column.Partition
    log_start_offset: Annotated[int, "first offset kept"]
    log_end_offset: column.Leo
    high_watermark: Annotated[int, "high watermark of a running replica, else the one on its disk"]
    is_leader: Annotated[bool, "the controller's leader, and running"]
    in_isr: Annotated[bool, "in the controller's ISR"]
    running: Annotated[bool, "its broker is running"]
    in_elr: Annotated[bool, "in the controller's ELR, as a replica that has kept its log"] = False
    leader_epoch: Annotated[int, "leader epoch of its last batch, -1 if it has none"] = -1
