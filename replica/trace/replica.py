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
    cause: Annotated[DeletionCause | None, "why the replica was deleted; null: real Kafka does not log it"] = None

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
            f"{self.node} became leader of {self.name} in epoch {self.leader_epoch}, which starts at offset "
            f"{self.log_end_offset}; its high watermark is {self.high_watermark}"
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
        if self.broker is None:
            return f"{self.node} has no leader to follow for {self.name} in epoch {self.leader_epoch}"
        return f"{self.node} became a follower of {self.broker} for {self.name} in epoch {self.leader_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncated(OfPartitions, OnPartition, ControlEvent):
    leader_epoch: Annotated[int, "leader epoch in which `node` follows"]
    log_end_offset: column.Leo
    previous_log_end_offset: column.PreviousLeo
    high_watermark: column.Hw
    previous_high_watermark: column.PreviousHw
    cause: Annotated[TruncationCause | None, "why, see TruncationCause; null: unknown"] = None
    leader: Annotated[str | None, "the leader that `node` follows"] = None
    offset: Annotated[int | None, "where the log is cut; a batch that contains this offset is removed whole"] = None
    diverging_epoch: Annotated[int | None, "the leader epoch whose end offset decides"] = None
    leader_end_offset: Annotated[int | None, "end of `diverging_epoch`, or of the log, at the leader"] = None
    own_epoch: Annotated[int | None, "the latest epoch of `node` that is at most `diverging_epoch`"] = None
    own_end_offset: Annotated[int | None, "end of `own_epoch` in the log of `node`"] = None

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
            found = f"away entirely; the log now starts at {cut_to}"
        else:
            found = f"back to {cut_to}"
        if self.cause is not None:
            found += f", {self._why(self.cause)}"
        if cut_to < self.previous_high_watermark:
            found += f"; the cut removed records below its HW {self.previous_high_watermark}"
        return found

    def _why(self, cause: TruncationCause) -> str:
        leader = "the leader" if self.leader is None else f"the leader {self.leader}"
        of_leader = "" if self.leader is None else f" of {self.leader}"
        epoch_end = f"where {leader} ends in epoch {self.diverging_epoch}"
        own_high_watermark = "its own HW, the only offset that it can trust"
        match cause:
            case TruncationCause.HIGH_WATERMARK:
                return f"its own HW, when it became a follower{of_leader} (the rule before Kafka 0.11)"
            case TruncationCause.NO_EPOCHS:
                return f"{own_high_watermark}: it knows no leader epochs that it could compare with {leader}"
            case TruncationCause.EPOCH_UNKNOWN:
                return f"{own_high_watermark}: {leader} does not know epoch {self.diverging_epoch}"
            case TruncationCause.NO_ANSWER:
                return f"because {leader} could not say where the logs diverge"
            case TruncationCause.EPOCH_END:
                return epoch_end
            case TruncationCause.OWN_EPOCH_END:
                at_leader = f"{leader} continues to {self.leader_end_offset}"
                return f"where its own log ends in epoch {self.diverging_epoch}, while {at_leader}"
            case TruncationCause.NO_OWN_EPOCH:
                return f"{epoch_end}, because {self.node} knows no epoch up to that one"
            case TruncationCause.EARLIER_EPOCH:
                lacking = f"because it lacks epoch {self.diverging_epoch} of {leader}"
                return f"where its own epoch {self.own_epoch} ends, {lacking}; it then asked again"
            case TruncationCause.LEADER_END:
                return f"where the log of {leader} ends"
            case TruncationCause.LEADER_START:
                return f"where the log of {leader} starts; its own log ended earlier, at {self.previous_log_end_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartOffsetAdvanced(OfPartitions, OnPartition, ControlEvent):
    """Records below `log_start_offset` were deleted, because a client (DeleteRecords) or the leader requested it."""

    role: column.Role
    leader_epoch: column.Epoch
    log_start_offset: Annotated[int, "first offset kept"]
    peer: Annotated[str | None, "at a leader, the client that asked; at a follower, its leader; null: unknown"] = None

    MAY_DIFFER = ("leader_epoch", "log_start_offset")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        found = f"{first.node} deleted records of {where(many)}"
        if first.peer is not None:
            found += f" for {first.peer}" if first.role == "leader" else f", as its leader {first.peer} had done"
        return found + of_each(many, lambda event: f"those below {event.log_start_offset}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecovered(OfPartitions, OnPartition, ControlEvent):
    """A log was opened when its broker started."""

    clean: Annotated[bool, "the broker had been shut down cleanly"]
    log_start_offset: Annotated[int, "first offset kept"]
    log_end_offset: column.Leo
    high_watermark: column.Hw
    size_bytes: Annotated[int, "bytes that were cut off as incomplete or corrupt"]

    MAY_DIFFER = ("log_start_offset", "log_end_offset", "high_watermark", "size_bytes")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        how = "a clean shutdown" if many[0].clean else "an unclean shutdown"
        return f"{many[0].node} opened its log of {where(many)} after {how}{of_each(many, cls._found)}"

    def _found(self) -> str:
        torn = ""
        if self.size_bytes:
            torn = (
                f", where {self.size_bytes:,} incomplete {'byte was' if self.size_bytes == 1 else 'bytes were'} cut off"
            )
        return f"it ends at {self.log_end_offset}{torn}, and its checkpointed high watermark is {self.high_watermark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlushed(OnPartition, ControlEvent):
    offset: Annotated[int, "every record below this offset is on disk"]

    def sentence(self) -> str:
        return f"{self.node} flushed {self.name} to disk up to offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLost(OfPartitions, OnPartition, ControlEvent):
    """A disk lost bytes of a log. The broker detects the loss at its next start."""

    size_bytes: Annotated[int, "bytes; -1: the whole log"]
    log_end_offset: Annotated[int, "end of the last batch that is still complete; 0 if none is"]
    cause: Annotated[DataLossCause, "how, see DataLossCause"]

    MAY_DIFFER = ("size_bytes", "log_end_offset")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        return f"{first.node} lost {'' if first.size_bytes < 0 else 'bytes of '}{where(many)}{of_each(many, cls._how)}"

    def fold_key(self) -> Hashable:
        return OfPartitions.fold_key(self), self.size_bytes < 0

    def _how(self) -> str:
        amount = "all records" if self.size_bytes < 0 else counted(self.size_bytes, "byte")
        match self.cause:
            case DataLossCause.NOT_FLUSHED:
                return f"{amount} that had never been flushed, and the log now ends at {self.log_end_offset}"
            case DataLossCause.TORN:
                return f"{amount} were torn off its end, and the log now ends at {self.log_end_offset}"
            case DataLossCause.DISK_REPLACED:
                return f"{amount}, because the disk was replaced"
            case DataLossCause.DISK_FAILED:
                return f"{amount} can no longer be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsExpired(OfPartitions, OnPartition, ControlEvent):
    """Retention by time or size has removed the records below `log_start_offset` from one replica's log."""

    role: column.Role
    leader_epoch: column.Epoch
    log_start_offset: Annotated[int, "first offset kept"]
    size_bytes: Annotated[int, "bytes of the deleted segments"]
    segments: Annotated[int, "number of deleted segments"] = 0
    cause: Annotated[RetentionCause, "the setting that decided, see RetentionCause"]
    limit: Annotated[int, "value of the setting"] = -1

    MAY_DIFFER = ("leader_epoch", "log_start_offset", "size_bytes", "segments")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        match first.cause:
            case RetentionCause.SIZE:
                why = f"because the log holds retention.bytes={first.limit} without them"
            case RetentionCause.TIME:
                why = f"because all their records are older than retention.ms={first.limit}"
        return f"{first.node} deleted segments of {where(many)}, {why}{of_each(many, cls._deleted)}"

    def _deleted(self) -> str:
        return f"{counted(self.segments, 'segment')} up to offset {self.log_start_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFailed(ControlEvent):
    """A broker took a log directory with all its replicas offline after a disk error."""

    node: column.Node
    log_dir: Annotated[str, "name of the directory in log.dirs; empty if the broker has only one"]
    replicas_offline: Annotated[tuple[str, ...], "the partitions whose replicas were in the directory, such as t-0"]
    message: Annotated[str, "error message of the disk"] = ""

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
        found = f"one bit of a batch of {where(many)} changed on the disk of {many[0].node}"
        unnoticed = ", which the broker notices only when it checks the CRC"
        return f"{found}{unnoticed}{of_each(many, lambda event: f'the batch at offset {event.offset}')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRefused(OfPartitions, OnPartition, ControlEvent):
    peer: column.Peer
    error: column.Error
    message: Annotated[str, "error message of the broker"] = ""

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
    offset: Annotated[int, "offset from which `peer` fetches"]
    leader_epoch: column.Epoch
    cause: Annotated[FetchFailureCause, "why"]
    log_end_offset: Annotated[int | None, "log end offset of `peer`, if it is a follower"] = None
    limit: Annotated[int | None, "replica.fetch.max.bytes, if a batch is larger"] = None
    message: Annotated[str | None, "error message of the leader, or of the log of `peer`"] = None

    def sentence(self) -> str:
        match self.cause:
            case FetchFailureCause.REFUSED:
                return f"{self.node} refused a fetch of {self.name} by {self.peer}: {self.message or self.error}"
            case FetchFailureCause.FENCED:
                stopped = f"{self.peer} stopped fetching {self.name} until it learns of a new leader epoch"
                return f"{stopped}: {self.node} is in a later epoch than {self.leader_epoch}"
            case FetchFailureCause.NOT_APPENDED:
                failed = f"{self.peer} could not append the records of {self.name} from {self.node}"
                return f"{failed}: {self.message or self.error}"
            case FetchFailureCause.OFFSET_GAP:
                asked = f"it fetches from offset {self.offset}, but its log ends at {self.log_end_offset}"
                return f"{self.peer} cannot replicate {self.name} from {self.node}: {asked}"
            case FetchFailureCause.BATCH_TOO_LARGE:
                return (
                    f"{self.peer} cannot replicate {self.name} from {self.node} beyond offset {self.offset}: the next "
                    f"batch is larger than replica.fetch.max.bytes={self.limit}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchThrottled(OnPartition, ControlEvent):
    """A follower leaves a partition out of its fetches, because its replication quota is exceeded (KIP-73)."""

    peer: column.Peer
    bytes_per_s: Annotated[int, "fetch rate of `node`, in bytes per second"]
    limit: Annotated[int, "follower.replication.throttled.rate, in bytes per second"]

    def sentence(self) -> str:
        return (
            f"{self.node} left {self.name} out of its fetches from {self.peer}: it fetched {self.bytes_per_s:,} "
            f"bytes per second, and follower.replication.throttled.rate is {self.limit:,}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceFound(OnPartition, ControlEvent):
    """The leader informed a follower where their logs diverge (diverging epoch of KIP-595)."""

    peer: column.Peer
    leader_epoch: Annotated[int, "the leader's largest epoch that is at most the follower's last fetched epoch"]
    offset: Annotated[int, "end of that epoch in the leader's log"]
    fetch_offset: Annotated[int, "offset from which the follower fetches"]
    last_fetched_epoch: Annotated[int, "epoch of the follower's last record"]

    def sentence(self) -> str:
        return (
            f"{self.peer} fetched {self.name} from offset {self.fetch_offset} after a record of epoch "
            f"{self.last_fetched_epoch}, but in the log of {self.node} epoch {self.leader_epoch} ends at {self.offset}"
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
    fetch_offset: Annotated[int, "log end offset of the follower"]
    log_end_offset: column.Leo
    high_watermark: column.Hw
    in_isr: Annotated[bool, "the follower is in the committed ISR"]

    def sentence(self) -> str:
        fetched = f"{self.peer} fetched {self.topic}-{self.partition} from {self.node}"
        return f"{fetched} at offset {self.fetch_offset}, so it has all earlier records"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsSent(OnPartition, Frequent):
    """A leader sent bytes of a segment file with sendfile, in the response to a fetch."""

    TABLE: ClassVar[str] = "fetch"
    peer: column.Peer
    fetch_offset: Annotated[int, "log end offset of the follower"]
    size_bytes: Annotated[int, "bytes that were sent by sendfile"]

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
    holders: Annotated[
        tuple[str, ...], "the ISR, whose members have all records below; empty: real Kafka does not log it"
    ] = ()
    joining: Annotated[
        str | None, "a replica outside the ISR that has nearly caught up; the high watermark waits for it too"
    ] = None

    def sentence(self) -> str:
        moved = _moved(self)
        if not self.holders:
            return moved
        if self.holders == (self.node,):
            who = "it is alone in the ISR and has"
        else:
            who = f"{listed(self.holders)} {'both' if len(self.holders) == 2 else 'all'} have"
        found = f"{moved}: {who} the records below {self.high_watermark}"
        if self.joining is None:
            return found
        return f"{found}; the HW waits there for {self.joining}, which is not in the ISR but may join it"


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkLearned(OnPartition):
    """A follower set its high watermark to the leader's, which may be lower (UnifiedLog.maybeUpdateHighWatermark)."""

    TABLE: ClassVar[str] = "high_watermark"
    role: column.Role
    leader_epoch: column.Epoch
    high_watermark: column.Hw
    previous_high_watermark: column.PreviousHw
    log_end_offset: column.Leo
    cause: Annotated[HighWatermarkCause | None, "why the follower set this value, see HighWatermarkCause"] = None
    leader: Annotated[str | None, "the leader whose high watermark decides"] = None
    leader_high_watermark: Annotated[int | None, "high watermark in the leader's answer"] = None

    def sentence(self) -> str:
        moved = _moved(self)
        text = f"its leader {self.leader} has HW {self.leader_high_watermark}"
        match self.cause:
            case None:
                return moved
            case HighWatermarkCause.LEADER:
                return f"{moved}: {text}"
            case HighWatermarkCause.LOG_END:
                return f"{moved}: {text}, but its own log ends at {self.high_watermark}"
            case HighWatermarkCause.LOG_START:
                return f"{moved}: {text}, but its own log starts at {self.high_watermark}"
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
    offset: Annotated[int, "offset of the first record; the other records follow without gaps"]
    records: Annotated[Sequence[str], "names of the records, in offset order"]
    leader_epoch: Annotated[int, "leader epoch stamped on the batch"]
    crc: column.Crc


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFound(OnPartition):
    """One replica at the end of the run: its role and the extent of its log."""

    TABLE: ClassVar[str] = "final_log"
    log_start_offset: Annotated[int, "first offset kept"]
    log_end_offset: column.Leo
    high_watermark: Annotated[int, "high watermark of a running replica, otherwise its checkpointed one"]
    is_leader: Annotated[bool, "the replica is the leader for the controller, and is running"]
    in_isr: Annotated[bool, "the replica is in the controller's ISR"]
    running: Annotated[bool, "the broker is running"]
    in_elr: Annotated[bool, "the replica is in the controller's ELR and has kept its log"] = False
    leader_epoch: Annotated[int, "leader epoch of the last batch; -1 if the log is empty"] = -1
