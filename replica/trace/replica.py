"""Events about one replica: its role, its log, its high watermark, what it serves and what is left of it at the end."""

from __future__ import annotations

from typing import Annotated, ClassVar

from replica.causes import HighWatermarkCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ControlEvent, OnPartition, TraceEvent
from replica.wording import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDeleted(ControlEvent):
    """A broker removed its replica of a partition, log and all, because the metadata gives it none."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    previous_log_end_offset: column.PreviousLeo
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipBegan(ControlEvent):
    """`node` learned that it leads; `log_end_offset` is where its epoch starts."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    isr: column.Isr
    log_end_offset: column.Leo
    high_watermark: column.Hw
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingBegan(ControlEvent):
    """`node` learned that `broker` leads (null: no broker leads)."""

    node: column.Node
    broker: column.Broker
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    log_end_offset: column.Leo
    high_watermark: column.Hw
    reason: column.Reason


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
class LogStartOffsetAdvanced(ControlEvent):
    """Records below `log_start_offset` are deleted: a client asked the leader (DeleteRecords), or the leader's log
    starts there and its follower does the same."""

    node: column.Node
    role: column.Role
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    log_start_offset: Annotated[int, "first offset kept"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecovered(ControlEvent):
    """A log was opened when its broker started."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    clean: Annotated[bool, "the broker had been shut down in order"]
    log_start_offset: Annotated[int, "first offset kept"]
    log_end_offset: column.Leo
    high_watermark: column.Hw
    size_bytes: Annotated[int, "bytes cut off as torn or corrupt"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlushed(ControlEvent):
    node: column.Node
    topic: column.Topic
    partition: column.Partition
    offset: Annotated[int, "every record below it is on disk"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLost(ControlEvent):
    """A disk lost bytes that were never flushed, or that a `tear` removed."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    size_bytes: column.Size
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsExpired(ControlEvent):
    """Retention by time or size has taken the records below `log_start_offset` from one replica's log."""

    node: column.Node
    role: column.Role
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    log_start_offset: Annotated[int, "first offset kept"]
    size_bytes: Annotated[int, "bytes of the segments that went"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFailed(ControlEvent):
    """A broker took a log directory offline after an error of its disk, and every replica in it."""

    node: column.Node
    log_dir: Annotated[str, "name of the directory in log.dirs, empty where the broker has only one"]
    replicas_offline: Annotated[tuple[str, ...], "the partitions whose replicas were in it, such as t-0"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCorrupted(ControlEvent):
    """A bit of a batch changed on the disk of `node`; the node has not noticed."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    offset: Annotated[int, "first offset of the batch"]
    last_offset: Annotated[int, "last offset of the batch (inclusive)"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRefused(ControlEvent):
    node: column.Node
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    error: column.Error
    reason: column.Reason


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
class FetchThrottled(ControlEvent):
    """A follower begins to leave a partition out of its fetches, because its replication quota is exceeded (KIP-73)."""

    node: column.Node
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceFound(ControlEvent):
    """The leader told a follower where their logs part (KIP-595 diverging epoch)."""

    node: column.Node
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    leader_epoch: Annotated[int, "largest epoch the leader knows that is not above the follower's last fetched epoch"]
    offset: Annotated[int, "end of that epoch in the leader's log"]
    reason: column.Reason


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
