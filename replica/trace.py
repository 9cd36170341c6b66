"""The trace: facts about a run in one total order, and the only declaration of their schema.

A fact is a frozen dataclass named in the past tense. Its class says in which table it is kept; its fields are that
table's columns. The Parquet writer, the Spark reader, the checker and the terminal all derive from this module.

Every row also has `seq` (one global order per run), `at_us` (virtual microseconds), `event` (the fact's name) and
`causes` (the `seq` of the facts that led to this one). Nodes, topics and records are named, never numbered.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, NamedTuple, Protocol, get_type_hints

SCHEMA_VERSION = 1


class Column(NamedTuple):
    """One column of a trace table; `type` is one of int64, string, bool, list<string>, list<int64>."""

    name: str
    type: str
    nullable: bool
    doc: str


COMMON_COLUMNS = (
    Column("seq", "int64", False, "position in the run's one total order, from 0"),
    Column("at_us", "int64", False, "virtual time, microseconds since the run began"),
    Column("event", "string", False, "name of the fact, in the past tense"),
    Column("causes", "list<int64>", False, "seq of the facts that led to this one; all smaller than its own"),
)

_Node = Annotated[str, "the node that states the fact"]
_Topic = Annotated[str, "topic"]
_Partition = Annotated[int, "partition number"]
_Epoch = Annotated[int, "leader epoch of the partition"]
_PartitionEpoch = Annotated[int, "version of the partition's record at the controller"]
_ControllerEpoch = Annotated[int, "one term of a controller"]
_Replicas = Annotated[tuple[str, ...], "assigned replicas in preference order"]
_Isr = Annotated[tuple[str, ...], "in-sync replicas after the fact"]
_PreviousIsr = Annotated[tuple[str, ...], "in-sync replicas before the fact"]
_Broker = Annotated[str | None, "the broker the fact is about, where it is not the node that states it"]
_Peer = Annotated[str, "the node at the other end"]
_Offset = Annotated[int, "the offset the fact is about"]
_Leo = Annotated[int, "log end offset of `node` after the fact (exclusive)"]
_PreviousLeo = Annotated[int, "log end offset of `node` before the fact"]
_Hw = Annotated[int, "high watermark of `node` after the fact (exclusive)"]
_PreviousHw = Annotated[int, "high watermark of `node` before the fact"]
_Error = Annotated[str, "Kafka's error name"]
_Reason = Annotated[str, "why, in one plain English sentence"]
_Role = Annotated[str, "leader or follower"]
_Size = Annotated[int, "bytes"]
_Crc = Annotated[int, "CRC-32C of the batch: the identity of a batch on every replica"]
_Client = Annotated[str, "the producer or consumer"]
_Records = Annotated[tuple[str, ...], "names of the records in the batch, in offset order"]
_Record = Annotated[str, "name of the record, such as r12"]
_Fault = Annotated[str, "name of the fault: its `as`, else verb-N"]
_Verb = Annotated[str, "verb of the timeline step"]
_Targets = Annotated[tuple[str, ...], "the nodes the step resolved to"]
_Api = Annotated[str, "API of the message, as Kafka spells it"]
_Part = Annotated[str, "request, response, or body: the file bytes of a response"]
_Acks = Annotated[int, "acks of the producer: 0, 1 or -1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """Base of all facts."""

    TABLE: ClassVar[str]


class _Control(TraceEvent):
    __slots__ = ()
    TABLE: ClassVar[str] = "control"


# ---------------------------------------------------------------------------- control: rare facts, each with a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_Control):
    scenario: Annotated[str, "scenario id"]
    variant: Annotated[str | None, "variant id"]
    seed: Annotated[int, "seed of the run"]
    profile: Annotated[str, "era of Kafka"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(_Control):
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(_Control):
    node: _Node
    role: Annotated[str, "broker, controller, producer or consumer (in `control`); leader or follower elsewhere"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(_Control):
    node: _Node
    how: Annotated[str, "stop, kill, power_off or halt (the process gives up by itself)"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionBegan(_Control):
    """A controller asks the others for their votes."""

    node: _Node
    controller_epoch: _ControllerEpoch
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLeaderElected(_Control):
    """`node` leads the metadata log; it decides nothing before it has committed a record of its own epoch."""

    node: _Node
    controller_epoch: _ControllerEpoch
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerActivated(_Control):
    """`node` is the active controller: all that was decided before is committed, and it knows it. In the ZooKeeper era
    it was the first to make /controller."""

    node: _Node
    controller_epoch: _ControllerEpoch
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResigned(_Control):
    """`node` leads no more. What it had decided and not committed never happened. In the ZooKeeper era it has learned
    that it is not the controller any more, or may not be."""

    node: _Node
    controller_epoch: _ControllerEpoch
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWritten(_Control):
    """`node` has written down all that the metadata log says below `offset`; its log may be cut to there."""

    node: _Node
    offset: _Offset
    controller_epoch: _ControllerEpoch
    size_bytes: _Size
    log_start_offset: Annotated[int, "first offset of the log that is kept"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFetched(_Control):
    """`node` asked for what the leader of the metadata log has cut off, and was given a snapshot up to `offset`."""

    node: _Node
    peer: _Peer
    offset: _Offset
    controller_epoch: _ControllerEpoch
    size_bytes: _Size
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLoaded(_Control):
    """What `node` knows of the cluster is a snapshot up to `offset`, and the metadata log from there on."""

    node: _Node
    offset: _Offset
    controller_epoch: _ControllerEpoch
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered(_Control):
    node: _Node
    broker: _Broker
    broker_epoch: Annotated[int, "one registration of a broker"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced(_Control):
    node: _Node
    broker: _Broker
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnfenced(_Control):
    node: _Node
    broker: _Broker
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpired(_Control):
    """ZooKeeper era: the registry gave up on `broker`; what lived with its session is gone."""

    node: _Node
    broker: _Broker
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequestRefused(_Control):
    """ZooKeeper era: `node` did not do what a controller (`peer`) asked of it."""

    node: _Node
    peer: _Peer
    api: _Api
    error: _Error
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCreated(_Control):
    node: _Node
    topic: _Topic
    partition: _Partition
    broker: _Broker
    replicas: _Replicas
    isr: _Isr
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    min_isr: Annotated[int, "effective min.insync.replicas of the partition"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElected(_Control):
    """The controller chose a leader (`broker`); `clean` is false when it was outside the ISR and the ELR."""

    node: _Node
    broker: _Broker
    previous_leader: Annotated[str | None, "leader before, null if there was none"]
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    isr: _Isr
    clean: Annotated[bool, "elected from the ISR or the ELR"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWentOffline(_Control):
    node: _Node
    previous_leader: Annotated[str | None, "leader before, null if there was none"]
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    isr: _Isr
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentBegan(_Control):
    """KIP-455: `replicas` are the target and what is still to be removed."""

    node: _Node
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    replicas: _Replicas
    adding: Annotated[tuple[str, ...], "replicas that a reassignment adds"]
    removing: Annotated[tuple[str, ...], "replicas that a reassignment removes"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentCompleted(_Control):
    node: _Node
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    replicas: _Replicas
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentCancelled(_Control):
    node: _Node
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    replicas: _Replicas
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDeleted(_Control):
    """A broker removed its replica of a partition, log and all, because the metadata gives it none."""

    node: _Node
    topic: _Topic
    partition: _Partition
    previous_log_end_offset: _PreviousLeo
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAltered(_Control):
    """An operator changed one key of a topic or of a broker; `min_isr` is the topic's afterwards."""

    node: _Node
    topic: Annotated[str | None, "topic"] = None
    broker: _Broker = None
    key: Annotated[str, "configuration key, as Kafka spells it"]
    value: Annotated[str | None, "its new value; absent: back to the default"]
    min_isr: Annotated[int | None, "min.insync.replicas, but at most the number of replicas"] = None
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRefused(_Control):
    node: _Node
    topic: _Topic
    partition: _Partition
    error: _Error
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposed(_Control):
    node: _Node
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    isr: _Isr
    previous_isr: _PreviousIsr
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrCommitted(_Control):
    """The controller wrote a new ISR: accepted from a leader, or its own doing (fencing, election, shutdown)."""

    node: _Node
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    isr: _Isr
    previous_isr: _PreviousIsr
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrCommitted(_Control):
    """The controller wrote other eligible leader replicas (KIP-966), or noted who led last."""

    node: _Node
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    elr: Annotated[tuple[str, ...], "eligible leader replicas after the fact"]
    previous_elr: Annotated[tuple[str, ...], "eligible leader replicas before the fact"]
    last_known_leader: Annotated[str | None, "who led last, while the partition has neither leader nor ISR"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRejected(_Control):
    node: _Node
    broker: _Broker
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    isr: Annotated[tuple[str, ...], "the in-sync replicas that were refused"]
    error: _Error
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipBegan(_Control):
    """`node` learned that it leads; `log_end_offset` is where its epoch starts."""

    node: _Node
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    isr: _Isr
    log_end_offset: _Leo
    high_watermark: _Hw
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingBegan(_Control):
    """`node` learned that `broker` leads (null: nobody does)."""

    node: _Node
    broker: _Broker
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    partition_epoch: _PartitionEpoch
    log_end_offset: _Leo
    high_watermark: _Hw
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncated(_Control):
    node: _Node
    topic: _Topic
    partition: _Partition
    leader_epoch: Annotated[int, "leader epoch in which `node` follows"]
    log_end_offset: _Leo
    previous_log_end_offset: _PreviousLeo
    high_watermark: _Hw
    previous_high_watermark: _PreviousHw
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecovered(_Control):
    """A log was opened when its broker started."""

    node: _Node
    topic: _Topic
    partition: _Partition
    clean: Annotated[bool, "the broker had been shut down in order"]
    log_start_offset: Annotated[int, "first offset kept"]
    log_end_offset: _Leo
    high_watermark: _Hw
    size_bytes: Annotated[int, "bytes cut off as torn or corrupt"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlushed(_Control):
    node: _Node
    topic: _Topic
    partition: _Partition
    offset: Annotated[int, "every record below it is on disk"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLost(_Control):
    """A disk lost bytes that were never flushed, or that a `tear` removed."""

    node: _Node
    topic: _Topic
    partition: _Partition
    size_bytes: _Size
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFailed(_Control):
    """A broker took a log directory offline after an error of its disk, and every replica in it."""

    node: _Node
    log_dir: Annotated[str, "name of the directory in log.dirs, empty where the broker has only one"]
    replicas_offline: Annotated[tuple[str, ...], "the partitions whose replicas were in it, such as t-0"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCorrupted(_Control):
    """A bit of a batch changed on the disk of `node`; nobody there has noticed."""

    node: _Node
    topic: _Topic
    partition: _Partition
    offset: Annotated[int, "first offset of the batch"]
    last_offset: Annotated[int, "last offset of the batch (inclusive)"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRefused(_Control):
    node: _Node
    peer: _Peer
    topic: _Topic
    partition: _Partition
    error: _Error
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRefused(_Control):
    node: _Node
    peer: _Peer
    topic: _Topic
    partition: _Partition
    error: _Error
    offset: _Offset
    leader_epoch: _Epoch
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchThrottled(_Control):
    """A follower begins to leave a partition out of its fetches, because its replication quota is exceeded (KIP-73)."""

    node: _Node
    peer: _Peer
    topic: _Topic
    partition: _Partition
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceFound(_Control):
    """The leader told a follower where their logs part (KIP-595 diverging epoch)."""

    node: _Node
    peer: _Peer
    topic: _Topic
    partition: _Partition
    leader_epoch: Annotated[int, "largest epoch the leader knows that is not above the follower's last fetched epoch"]
    offset: Annotated[int, "end of that epoch in the leader's log"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBegan(_Control):
    fault: _Fault
    verb: _Verb
    targets: _Targets
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEnded(_Control):
    fault: _Fault
    verb: _Verb
    targets: _Targets
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHeld(_Control):
    node: _Node
    peer: _Peer
    api: _Api
    part: _Part
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReleased(_Control):
    node: _Node
    peer: _Peer
    api: _Api
    part: _Part
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost(_Control):
    """`node` noticed that its connection to `peer` is gone."""

    node: _Node
    peer: _Peer
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMade(_Control):
    """A `check` step of the timeline, or a `when` that timed out."""

    held: Annotated[bool, "the check held"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantBroken(_Control):
    invariant: Annotated[str, "S1..S29 or L1.., as in the README"]
    promised: Annotated[bool, "the rules of the run promise it: our bug; else the reason names the missing rule"]
    reason: _Reason


# ---------------------------------------------------------------------------------------------- log: every append


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAppended(TraceEvent):
    TABLE: ClassVar[str] = "log"
    node: _Node
    role: _Role
    topic: _Topic
    partition: _Partition
    leader_epoch: Annotated[int, "leader epoch stamped on the batch"]
    base_offset: Annotated[int, "first offset of the batch"]
    last_offset: Annotated[int, "last offset of the batch (inclusive)"]
    log_end_offset: _Leo
    size_bytes: _Size
    crc: _Crc
    producer_id: Annotated[int, "-1 without idempotence"]
    producer_epoch: Annotated[int, "-1 without idempotence"]
    base_sequence: Annotated[int, "-1 without idempotence"]


# ------------------------------------------------------------------------------------------------ fetch: replication


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetched(TraceEvent):
    """A leader judged a follower's fetch: the follower holds every record below `fetch_offset`."""

    TABLE: ClassVar[str] = "fetch"
    node: _Node
    peer: _Peer
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    fetch_offset: Annotated[int, "the follower's own log end offset"]
    log_end_offset: _Leo
    high_watermark: _Hw
    in_isr: Annotated[bool, "the follower is in the committed ISR"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsSent(TraceEvent):
    """A leader answered a fetch with bytes straight from its segment file."""

    TABLE: ClassVar[str] = "fetch"
    node: _Node
    peer: _Peer
    topic: _Topic
    partition: _Partition
    fetch_offset: Annotated[int, "the follower's own log end offset"]
    size_bytes: Annotated[int, "bytes that left by sendfile"]


# --------------------------------------------------------------------------------------------------- high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced(TraceEvent):
    TABLE: ClassVar[str] = "high_watermark"
    node: _Node
    role: _Role
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    high_watermark: _Hw
    previous_high_watermark: _PreviousHw
    log_end_offset: _Leo
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkLearned(TraceEvent):
    """A follower took over the leader's high watermark; an assignment, so it can fall (UnifiedLog.maybeUpdateHW)."""

    TABLE: ClassVar[str] = "high_watermark"
    node: _Node
    role: _Role
    topic: _Topic
    partition: _Partition
    leader_epoch: _Epoch
    high_watermark: _Hw
    previous_high_watermark: _PreviousHw
    log_end_offset: _Leo
    reason: _Reason


# ---------------------------------------------------------------------------------------------- produce: the promise


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSent(TraceEvent):
    """The application handed a record to its producer."""

    TABLE: ClassVar[str] = "produce"
    client: _Client
    topic: _Topic
    partition: _Partition
    record: _Record
    acks: _Acks


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSent(TraceEvent):
    """A producer put a batch on the wire; `crc` finds it again in the `log` table."""

    TABLE: ClassVar[str] = "produce"
    client: _Client
    peer: _Peer
    topic: _Topic
    partition: _Partition
    records: _Records
    crc: _Crc
    attempt: Annotated[int, "1 for the first time"]
    acks: _Acks
    producer_id: Annotated[int, "-1 without idempotence"]
    base_sequence: Annotated[int, "-1 without idempotence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRefused(TraceEvent):
    """One attempt failed: an error in the answer, or no answer (NETWORK_EXCEPTION, REQUEST_TIMED_OUT)."""

    TABLE: ClassVar[str] = "produce"
    client: _Client
    peer: _Peer
    topic: _Topic
    partition: _Partition
    records: _Records
    crc: _Crc
    attempt: Annotated[int, "1 for the first time"]
    error: _Error
    will_retry: Annotated[bool, "the producer will send the batch again"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAcked(TraceEvent):
    """The producer was told that the record is written."""

    TABLE: ClassVar[str] = "produce"
    client: _Client
    peer: _Peer
    topic: _Topic
    partition: _Partition
    record: _Record
    offset: _Offset
    acks: _Acks
    latency_us: Annotated[int, "from the send call to the ack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHandedOver(TraceEvent):
    """acks=0: the record is in the socket buffer; the send succeeds, nothing is promised, the offset is -1."""

    TABLE: ClassVar[str] = "produce"
    client: _Client
    peer: _Peer
    topic: _Topic
    partition: _Partition
    record: _Record
    acks: _Acks
    latency_us: Annotated[int, "from the send call to the ack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFailed(TraceEvent):
    """The producer gave up on a record; unless `definite`, it may be in the log all the same."""

    TABLE: ClassVar[str] = "produce"
    client: _Client
    topic: _Topic
    partition: _Partition
    record: _Record
    acks: _Acks
    error: _Error
    definite: Annotated[bool, "no attempt can have been written"]
    latency_us: Annotated[int, "from the send call to the ack"]
    reason: _Reason


# ----------------------------------------------------------------------------------------------- consume: what is read


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRead(TraceEvent):
    TABLE: ClassVar[str] = "consume"
    client: _Client
    peer: _Peer
    topic: _Topic
    partition: _Partition
    offset: _Offset
    record: _Record
    leader_epoch: Annotated[int, "leader epoch stamped on the record's batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReset(TraceEvent):
    """The consumer's position moved other than by reading."""

    TABLE: ClassVar[str] = "consume"
    client: _Client
    peer: _Peer
    topic: _Topic
    partition: _Partition
    offset: Annotated[int, "new position"]
    previous_offset: Annotated[int, "old position, -1 at the start"]
    error: Annotated[str | None, "what made it move"]
    reason: _Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOffsetSeen(TraceEvent):
    """A client asked for the end of the partition (ListOffsets latest); `error` instead of an offset if refused."""

    TABLE: ClassVar[str] = "consume"
    client: _Client
    peer: _Peer
    topic: _Topic
    partition: _Partition
    offset: Annotated[int, "the end offset, -1 if refused"]
    error: Annotated[str | None, "what made it move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailed(TraceEvent):
    """A consumer's fetch was answered with an error."""

    TABLE: ClassVar[str] = "consume"
    client: _Client
    peer: _Peer
    topic: _Topic
    partition: _Partition
    offset: Annotated[int, "position of the consumer"]
    error: _Error


# --------------------------------------------------------------------------------- final_log: the disks after the run


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntryFound(TraceEvent):
    """One record in one replica's log when the run ended."""

    TABLE: ClassVar[str] = "final_log"
    node: _Node
    topic: _Topic
    partition: _Partition
    offset: _Offset
    record: _Record
    leader_epoch: Annotated[int, "leader epoch stamped on the record's batch"]
    crc: _Crc


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFound(TraceEvent):
    """One replica when the run ended: what it is, and how far its log goes."""

    TABLE: ClassVar[str] = "final_log"
    node: _Node
    topic: _Topic
    partition: _Partition
    log_start_offset: Annotated[int, "first offset kept"]
    log_end_offset: _Leo
    high_watermark: Annotated[int, "high watermark of a running replica, else the one on its disk"]
    is_leader: Annotated[bool, "the controller's leader, and running"]
    in_isr: Annotated[bool, "in the controller's ISR"]
    running: Annotated[bool, "its broker is running"]


# --------------------------------------------------------------------------------------------- the schema, derived


def _leaf_classes(base: type[TraceEvent]) -> list[type[TraceEvent]]:
    found: list[type[TraceEvent]] = []
    for child in base.__subclasses__():
        found.extend(_leaf_classes(child) if child.__subclasses__() else [child])
    return found


def event_name(event_class: type[TraceEvent]) -> str:
    """`HighWatermarkAdvanced` -> `high_watermark_advanced`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event_class.__name__).lower()


def _column(name: str, hint: object) -> Column:
    doc = ""
    if typing.get_origin(hint) is Annotated:
        hint, doc = typing.get_args(hint)
    nullable = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        nullable = True
    kinds: dict[object, str] = {int: "int64", str: "string", bool: "bool", tuple[str, ...]: "list<string>"}
    return Column(name, kinds[hint], nullable, str(doc))


# A dataclass with slots is made twice; of two classes with one name the later is the one in use.
EVENT_CLASSES: tuple[type[TraceEvent], ...] = tuple({cls.__name__: cls for cls in _leaf_classes(TraceEvent)}.values())
EVENT_NAMES: dict[type[TraceEvent], str] = {cls: event_name(cls) for cls in EVENT_CLASSES}
CLASS_OF_EVENT: dict[str, type[TraceEvent]] = {name: cls for cls, name in EVENT_NAMES.items()}
TABLES: tuple[str, ...] = ("control", "log", "fetch", "high_watermark", "produce", "consume", "final_log")


_COLUMNS_OF_EVENT: dict[type[TraceEvent], tuple[Column, ...]] = {}


def columns_of_event(event_class: type[TraceEvent]) -> tuple[Column, ...]:
    """The columns one kind of fact fills, without the common ones."""
    known = _COLUMNS_OF_EVENT.get(event_class)
    if known is None:  # Every run asks, several times over, and reading type hints is slow.
        hints = get_type_hints(event_class, include_extras=True)
        known = tuple(_column(field.name, hints[field.name]) for field in fields(event_class))
        _COLUMNS_OF_EVENT[event_class] = known
    return known


@functools.cache
def columns_of_table(table: str) -> tuple[Column, ...]:
    """All columns of a table, common ones first; columns that not every fact of the table fills are nullable."""
    classes = [cls for cls in EVENT_CLASSES if table == cls.TABLE]
    merged: dict[str, Column] = {}
    filled: dict[str, int] = {}
    for cls in classes:
        for column in columns_of_event(cls):
            known = merged.setdefault(column.name, column)
            assert known.type == column.type, f"{table}.{column.name} has two types"
            merged[column.name] = known._replace(nullable=known.nullable or column.nullable)
            filled[column.name] = filled.get(column.name, 0) + 1
    return COMMON_COLUMNS + tuple(
        column._replace(nullable=column.nullable or filled[column.name] < len(classes)) for column in merged.values()
    )


class TraceRow(NamedTuple):
    """A fact in its place: what listeners (checker, expectations, writer) receive, in order."""

    seq: int
    at_us: int
    causes: tuple[int, ...]
    event: TraceEvent


class Recorder(Protocol):
    """Where cores put their facts. `emit` returns the fact's `seq`, to be named as a cause later.

    `cause`: what a fact without explicit causes would follow from now; a core that branches notes it first.
    """

    @property
    def cause(self) -> int | None: ...

    def emit(self, event: TraceEvent, *causes: int) -> int: ...


class TraceLog:
    """Numbers facts and hands them on; the shell sets `at_us` and `cause` before each step it takes.

    `cause` is the fact that led to the step in progress; each fact without explicit causes gets the step's latest fact.
    A listener is called with every fact, in order; if it has a method `wants(kind)`, only with the kinds it wants.
    """

    __slots__ = ("_listeners", "_routes", "at_us", "cause", "next_seq")

    def __init__(self, listeners: Sequence[Callable[[TraceRow], None]] = ()) -> None:
        self.at_us = 0
        self.cause: int | None = None
        self.next_seq = 0
        self._listeners = tuple(listeners)
        self._routes: dict[type[TraceEvent], tuple[Callable[[TraceRow], None], ...]] = {}

    def emit(self, event: TraceEvent, *causes: int) -> int:
        seq = self.next_seq
        self.next_seq = seq + 1
        if not causes and self.cause is not None:
            causes = (self.cause,)
        self.cause = seq
        row = TraceRow(seq, self.at_us, causes, event)
        for listener in self._routes.get(type(event)) or self._route(type(event)):
            listener(row)
        return seq

    def _route(self, kind: type[TraceEvent]) -> tuple[Callable[[TraceRow], None], ...]:
        """Who hears of this kind of fact; asked once per kind."""

        def wants(listener: Callable[[TraceRow], None]) -> bool:
            asked = getattr(listener, "wants", None)
            return asked is None or bool(asked(kind))

        self._routes[kind] = tuple(filter(wants, self._listeners))
        return self._routes[kind]
