"""Events about one replica: its role, log and high watermark, its responses to fetches, and its final state."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, ClassVar, Self

from replica.causes import (
    DataLossCause,
    DeletionCause,
    FetchFailureCause,
    HighWatermarkCause,
    RetentionCause,
    TruncationCause,
)
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ControlEvent, Frequent, OfPartitions, OnPartition, of_each, where
from replica.trace.ranges import counted, format_record_names, span_of_offsets
from replica.wording import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDeleted(OfPartitions, OnPartition, ControlEvent):
    """A broker deleted its replica of a partition, with the log, because the metadata no longer assigns the replica."""

    previous_log_end_offset: column.PreviousLeo
    cause: Annotated[DeletionCause | None, "why the metadata gives it none; null: real Kafka does not say"] = None

    MAY_DIFFER = ("previous_log_end_offset",)

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        found = f"{many[0].node} deleted its log of {where(many)}"
        match many[0].cause:
            case None:
                return found
            case DeletionCause.TOPIC_DELETED:
                return f"{found}: the topic was deleted"
            case DeletionCause.NOT_ASSIGNED:
                return f"{found}: it is no longer a replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipBegan(OnPartition, ControlEvent):
    """`node` learned that it is the leader. Its leader epoch starts at `log_end_offset`."""

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
    """`node` learned that `broker` is the leader; `broker` is null if the partition has no leader."""

    broker: column.Broker
    leader_epoch: column.Epoch
    partition_epoch: column.PartitionEpoch
    log_end_offset: column.Leo
    high_watermark: column.Hw

    def sentence(self) -> str:
        what = "has no leader to follow" if self.broker is None else f"follows {self.broker}"
        return f"{self.node} {what} in epoch {self.leader_epoch} of {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncated(OfPartitions, OnPartition, ControlEvent):
    leader_epoch: Annotated[int, "leader epoch in which `node` follows"]
    log_end_offset: column.Leo
    previous_log_end_offset: column.PreviousLeo
    high_watermark: column.Hw
    previous_high_watermark: column.PreviousHw
    cause: Annotated[TruncationCause | None, "why; null: nobody has said"] = None
    leader: Annotated[str | None, "the leader that `node` follows"] = None
    offset: Annotated[int | None, "where the log is cut; a batch that begins before it goes, too"] = None
    diverging_epoch: Annotated[int | None, "the leader epoch whose end decides"] = None
    leader_end_offset: Annotated[int | None, "end of that epoch, or of the log, at the leader"] = None
    own_epoch: Annotated[int | None, "the latest epoch of `node` up to that one"] = None
    own_end_offset: Annotated[int | None, "end of `own_epoch` in its log"] = None

    MAY_DIFFER = (
        *("leader_epoch", "log_end_offset", "previous_log_end_offset", "high_watermark", "previous_high_watermark"),
        *("offset", "diverging_epoch", "leader_end_offset", "own_epoch", "own_end_offset"),
    )

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        return f"{many[0].node} cut its log of {where(many)}{of_each(many, cls._cut, before=' ')}"

    def _cut(self) -> str:
        cut_to = self.log_end_offset if self.offset is None else self.offset
        if self.log_end_offset > self.previous_log_end_offset:
            found = f"away entirely; it now starts at {cut_to}"
        else:
            found = f"back to {cut_to}"
        if self.cause is not None:
            found += f", {self._why(self.cause)}"
        if cut_to < self.previous_high_watermark:
            found += f"; this removed records below its HW {self.previous_high_watermark}"
        return found

    def _why(self, cause: TruncationCause) -> str:
        leader = "the leader" if self.leader is None else f"the leader {self.leader}"
        epoch_end = f"where {leader} ends in epoch {self.diverging_epoch}"
        own_high_watermark = "to which only its own HW can be trusted"
        match cause:
            case TruncationCause.HIGH_WATERMARK:
                return f"its own HW, as a new follower of {self.leader or 'a leader'} does until 0.11"
            case TruncationCause.NO_EPOCHS:
                return f"{own_high_watermark}: it knows no leader epochs to compare with {leader}"
            case TruncationCause.EPOCH_UNKNOWN:
                return f"{own_high_watermark}: {leader} does not know epoch {self.diverging_epoch}"
            case TruncationCause.NO_ANSWER:
                return f"since {leader} cannot say where the logs diverge"
            case TruncationCause.EPOCH_END:
                return epoch_end
            case TruncationCause.OWN_EPOCH_END:
                at_leader = f"{leader} continues to {self.leader_end_offset}"
                return f"where its own log ends in epoch {self.diverging_epoch}, while {at_leader}"
            case TruncationCause.NO_OWN_EPOCH:
                return f"{epoch_end}, since it knows no epochs itself"
            case TruncationCause.EARLIER_EPOCH:
                asked = f"since it does not have epoch {self.diverging_epoch} of {leader}"
                return f"where its own epoch {self.own_epoch} ends, {asked}; then it asks again"
            case TruncationCause.LEADER_END:
                return f"where the log of {leader} ends"
            case TruncationCause.LEADER_START:
                return f"where the log of {leader} starts, after its own end {self.previous_log_end_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartOffsetAdvanced(OfPartitions, OnPartition, ControlEvent):
    """Records below `log_start_offset` were deleted, because a client (DeleteRecords) or the leader requested it."""

    role: column.Role
    leader_epoch: column.Epoch
    log_start_offset: Annotated[int, "first offset kept"]
    peer: Annotated[str | None, "the client that asked a leader, the leader of a follower; null: not known"] = None

    MAY_DIFFER = ("leader_epoch", "log_start_offset")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        found = f"{first.node} deleted records of {where(many)}"
        if first.peer is not None:
            found += f", as {first.peer} asked" if first.role == "leader" else f", as its leader {first.peer} did"
        return found + of_each(many, lambda event: f"those below {event.log_start_offset}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecovered(OfPartitions, OnPartition, ControlEvent):
    """A log was opened when its broker started."""

    clean: Annotated[bool, "the broker had been shut down in order"]
    log_start_offset: Annotated[int, "first offset kept"]
    log_end_offset: column.Leo
    high_watermark: column.Hw
    size_bytes: Annotated[int, "bytes cut off as torn or corrupt"]

    MAY_DIFFER = ("log_start_offset", "log_end_offset", "high_watermark", "size_bytes")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        how = "a clean shutdown" if many[0].clean else "an unclean shutdown"
        return f"{many[0].node} opened its log of {where(many)} after {how}{of_each(many, cls._found)}"

    def _found(self) -> str:
        torn = ""
        if self.size_bytes:
            torn = f", where {self.size_bytes:,} torn {'byte was' if self.size_bytes == 1 else 'bytes were'} cut off"
        return f"it ends at {self.log_end_offset}{torn}, and its checkpointed high watermark is {self.high_watermark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlushed(OnPartition, ControlEvent):
    offset: Annotated[int, "every record below it is on disk"]

    def sentence(self) -> str:
        return f"{self.node} has {self.name} on disk up to {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLost(OfPartitions, OnPartition, ControlEvent):
    """A disk lost bytes of a log. The broker detects the loss at its next start."""

    size_bytes: Annotated[int, "bytes; -1: the whole log"]
    log_end_offset: Annotated[int, "end of the whole batches that are left; 0 if nothing is left"]
    cause: Annotated[DataLossCause, "how"]

    MAY_DIFFER = ("size_bytes", "log_end_offset")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        return f"{first.node} lost {'' if first.size_bytes < 0 else 'bytes of '}{where(many)}{of_each(many, cls._how)}"

    def fold_key(self) -> Hashable:
        return OfPartitions.fold_key(self), self.size_bytes < 0

    def _how(self) -> str:
        amount = "all records" if self.size_bytes < 0 else f"{self.size_bytes:,} bytes"
        match self.cause:
            case DataLossCause.NOT_FLUSHED:
                return f"{amount} that had never been flushed, so that the log ends at {self.log_end_offset}"
            case DataLossCause.TORN:
                return f"{amount} were torn off, so that the log ends at {self.log_end_offset}"
            case DataLossCause.DISK_REPLACED:
                return f"{amount}, with the old disk"
            case DataLossCause.DISK_FAILED:
                return f"{amount}, which can no longer be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsExpired(OfPartitions, OnPartition, ControlEvent):
    """Retention by time or size has removed the records below `log_start_offset` from one replica's log."""

    role: column.Role
    leader_epoch: column.Epoch
    log_start_offset: Annotated[int, "first offset kept"]
    size_bytes: Annotated[int, "bytes of the segments that went"]
    segments: Annotated[int, "segments that went"] = 0
    cause: Annotated[RetentionCause, "by which setting"]
    limit: Annotated[int, "its value"] = -1

    MAY_DIFFER = ("leader_epoch", "log_start_offset", "size_bytes", "segments")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        match first.cause:
            case RetentionCause.SIZE:
                why = f"since retention.bytes={first.limit} are kept without them"
            case RetentionCause.TIME:
                why = f"whose records are all older than retention.ms={first.limit}"
        return f"{first.node} deleted segments of {where(many)}, {why}{of_each(many, cls._deleted)}"

    def _deleted(self) -> str:
        return f"{counted(self.segments, 'segment')} up to offset {self.log_start_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFailed(ControlEvent):
    """A broker took a log directory with all its replicas offline after a disk error."""

    node: column.Node
    log_dir: Annotated[str, "name of the directory in log.dirs, empty where the broker has only one"]
    replicas_offline: Annotated[tuple[str, ...], "the partitions whose replicas were in it, such as t-0"]
    message: Annotated[str, "what the disk said"] = ""

    def sentence(self) -> str:
        directory = f"log directory {self.log_dir}" if self.log_dir else "log directory"
        what = f" with {', '.join(self.replicas_offline)}" if self.replicas_offline else ""
        return f"{self.node} took its {directory}{what} offline: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCorrupted(OfPartitions, OnPartition, ControlEvent):
    """A bit of a batch changed on the disk of `node`. The broker has not detected the change."""

    offset: Annotated[int, "first offset of the batch"]
    last_offset: Annotated[int, "last offset of the batch (inclusive)"]

    MAY_DIFFER = ("offset", "last_offset")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        found = f"a bit of a batch of {where(many)} changed on the disk of {many[0].node}"
        unnoticed = "unnoticed until its CRC is checked"
        return f"{found}, {unnoticed}{of_each(many, lambda event: f'the batch at offset {event.offset}')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRefused(OfPartitions, OnPartition, ControlEvent):
    peer: column.Peer
    error: column.Error
    message: Annotated[str, "what the broker says of it"] = ""

    MAY_DIFFER = ("message",)

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        whose = f" of {first.peer}" if first.peer else ""
        found = f"{first.node} refused a batch{whose} for {where(many)} with {first.error}"
        return found + of_each(many, lambda event: event.message) if all(event.message for event in many) else found


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRefused(OnPartition, ControlEvent):
    """A fetch failed: `peer`, a follower or a consumer, can no longer replicate or read the log of `node`."""

    peer: column.Peer
    error: column.Error
    offset: Annotated[int, "where it would fetch"]
    leader_epoch: column.Epoch
    cause: Annotated[FetchFailureCause, "why"]
    log_end_offset: Annotated[int | None, "log end offset of `peer`, a follower"] = None
    limit: Annotated[int | None, "replica.fetch.max.bytes, where a batch is larger"] = None
    message: Annotated[str | None, "what the leader, or the log of `peer`, says"] = None

    def sentence(self) -> str:
        match self.cause:
            case FetchFailureCause.REFUSED:
                return f"{self.node} refused a fetch of {self.name} by {self.peer}: {self.message or self.error}"
            case FetchFailureCause.FENCED:
                stopped = f"{self.peer} stopped fetching {self.name} until it learns of a new leader epoch"
                return f"{stopped}: epoch {self.leader_epoch} is over at {self.node}"
            case FetchFailureCause.NOT_APPENDED:
                return (
                    f"{self.peer} could not append what {self.node} sent of {self.name}: {self.message or self.error}"
                )
            case FetchFailureCause.OFFSET_GAP:
                asked = f"it asked for offset {self.offset}, but its log ends at {self.log_end_offset}"
                return f"{self.peer} cannot replicate {self.name} from {self.node}: {asked}"
            case FetchFailureCause.BATCH_TOO_LARGE:
                return (
                    f"{self.peer} cannot copy {self.name} from {self.node} beyond {self.offset}: the next batch is "
                    f"larger than replica.fetch.max.bytes={self.limit}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchThrottled(OnPartition, ControlEvent):
    """A follower leaves a partition out of its fetches, because its replication quota is exceeded (KIP-73)."""

    peer: column.Peer
    bytes_per_s: Annotated[int, "how much it has fetched a second"]
    limit: Annotated[int, "follower.replication.throttled.rate"]

    def sentence(self) -> str:
        return (
            f"{self.node} left {self.name} out of its fetches from {self.peer}: it has fetched {self.bytes_per_s:,} "
            f"bytes a second, and follower.replication.throttled.rate is {self.limit:,}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceFound(OnPartition, ControlEvent):
    """The leader informed a follower where their logs diverge (diverging epoch of KIP-595)."""

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
class BatchAppended(OnPartition, Frequent):
    TABLE: ClassVar[str] = "log"
    role: column.Role
    leader_epoch: Annotated[int, "leader epoch stamped on the batch"]
    base_offset: Annotated[int, "first offset of the batch"]
    last_offset: Annotated[int, "last offset of the batch (inclusive)"]
    log_end_offset: column.Leo
    size_bytes: column.Size
    crc: column.Crc
    producer_id: Annotated[int, "-1 without idempotence"]
    producer_epoch: Annotated[int, "-1 without idempotence"]
    base_sequence: Annotated[int, "-1 without idempotence"]

    def sentence(self, records: Sequence[str] = ()) -> str:
        """Return the sentence; `records` are the names of the records, which the event does not contain."""
        verb = "appended" if self.role == "leader" else "copied"
        names = format_record_names(records) if records else "a batch"
        where = f"{span_of_offsets(self.base_offset, self.last_offset)} of {self.topic}-{self.partition}"
        return f"{self.node} {verb} {names} at {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetched(OnPartition, Frequent):
    """A leader processed a follower's fetch, which shows that the follower has every record below `fetch_offset`."""

    TABLE: ClassVar[str] = "fetch"
    peer: column.Peer
    leader_epoch: column.Epoch
    fetch_offset: Annotated[int, "the follower's own log end offset"]
    log_end_offset: column.Leo
    high_watermark: column.Hw
    in_isr: Annotated[bool, "the follower is in the committed ISR"]

    def sentence(self) -> str:
        what = f"{self.topic}-{self.partition} from offset {self.fetch_offset}"
        return f"{self.peer} asked {self.node} for {what}: it has all records below"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsSent(OnPartition, Frequent):
    """A leader sent bytes of a segment file with sendfile, in the response to a fetch."""

    TABLE: ClassVar[str] = "fetch"
    peer: column.Peer
    fetch_offset: Annotated[int, "the follower's own log end offset"]
    size_bytes: Annotated[int, "bytes that left by sendfile"]

    def sentence(self) -> str:
        what = f"{self.size_bytes:,} bytes of {self.topic}-{self.partition} from offset {self.fetch_offset}"
        return f"{self.node} sent {self.peer} {what}"


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
        moved = _moved(self)
        if not self.holders:
            return moved
        if self.holders == (self.node,):
            who = "it is alone in the ISR and holds"
        else:
            who = f"{listed(self.holders)} {'both' if len(self.holders) == 2 else 'all'} hold"
        found = f"{moved}: {who} the records below {self.high_watermark}"
        if self.joining is None:
            return found
        return f"{found}; HW waits there for {self.joining}, which is not in the ISR but may join"


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkLearned(OnPartition):
    """A follower set its high watermark to the leader's, which may be lower (UnifiedLog.maybeUpdateHighWatermark)."""

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
        moved = _moved(self)
        told = f"the leader {self.leader} has HW {self.leader_high_watermark}"
        match self.cause:
            case None:
                return moved
            case HighWatermarkCause.LEADER:
                return f"{moved}: {told}"
            case HighWatermarkCause.LOG_END:
                return f"{moved}: {told}, but its own log ends at {self.high_watermark}"
            case HighWatermarkCause.LOG_START:
                return f"{moved}: {told}, but its own log starts at {self.high_watermark}"
            case HighWatermarkCause.CUT:
                return f"{moved}: its log ends there after the cut"
            case HighWatermarkCause.STARTED_ANEW:
                return f"{moved}: its log now starts there"


def _moved(event: HighWatermarkAdvanced | HighWatermarkLearned) -> str:
    return f"{event.node} moved its HW of {event.name} from {event.previous_high_watermark} to {event.high_watermark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntriesFound(OnPartition):
    """Records of one batch in one replica's log at the end of the run."""

    TABLE: ClassVar[str] = "final_log"
    offset: Annotated[int, "offset of the first record; the others follow without gaps"]
    records: Annotated[Sequence[str], "names of the records, in offset order"]
    leader_epoch: Annotated[int, "leader epoch stamped on the batch"]
    crc: column.Crc


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFound(OnPartition):
    """One replica at the end of the run: its role and the extent of its log."""

    TABLE: ClassVar[str] = "final_log"
    log_start_offset: Annotated[int, "first offset kept"]
    log_end_offset: column.Leo
    high_watermark: Annotated[int, "high watermark of a running replica, else the one on its disk"]
    is_leader: Annotated[bool, "the controller's leader, and running"]
    in_isr: Annotated[bool, "in the controller's ISR"]
    running: Annotated[bool, "its broker is running"]
    in_elr: Annotated[bool, "in the controller's ELR, as a replica that has kept its log"] = False
    leader_epoch: Annotated[int, "leader epoch of its last batch, -1 if it has none"] = -1
