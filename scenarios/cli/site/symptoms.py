"""Symptoms of a misbehaving cluster, and the tests that decide which runs show them.

Each symptom has a test on a run's observations. A scenario appears under every symptom that its runs show, and none is
assigned by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica.causes import ResetCause, WaitCause
from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on

STALL_US = 5_000_000
"""A high watermark that stays below the log end offset for this long, in microseconds, counts as a symptom."""
FLAPS_MIN = 3
"""An ISR that shrinks at least this often in a run counts as flapping."""
REBALANCES_MIN = 3
"""At least this many rebalances of one group in a run, without its first, count as a symptom."""


class RunSigns(Listener):
    """The observations of one run, to which the tests of symptoms are applied.

    Attributes:
        verdict: the kinds of broken promises.
        waits: causes for which a client could not write or read for a second or longer.
        kinds: the event classes in the trace.
        errors: number of times that clients and followers got each error code.
        resets: causes for which consumers changed their position.
        isr_shrinks: number of times that the ISR of each partition shrank.
        rebalances: number of times that each group rebalanced, without the first time.
        unclean: True if there was an unclean leader election.
        stalled_us: the longest time for which a high watermark stayed below the log end offset.
    """

    def __init__(self, summary: Mapping[str, Any]) -> None:
        self.verdict: list[str] = summary["verdict"]
        self.waits = {stretch["cause"] for wait in summary.get("waits", ()) for stretch in wait["stretches"]}
        self.kinds: set[type[trace.TraceEvent]] = set()
        self.errors: Counter[str] = Counter()
        self.resets: set[ResetCause] = set()
        self.isr_shrinks: Counter[TopicPartition] = Counter()
        self.rebalances: Counter[str] = Counter()
        self.unclean = False
        self.stalled_us = 0
        self._behind_since: dict[TopicPartition, int] = {}

    @on(trace.TraceEvent)
    def _any(self, row: TraceRow, event: trace.TraceEvent) -> None:
        self.kinds.add(type(event))
        error = getattr(event, "error", None)
        if isinstance(error, str) and error != "NONE":
            self.errors[error] += 1

    @on(trace.PositionReset)
    def _reset(self, row: TraceRow, event: trace.PositionReset) -> None:
        self.resets.add(event.cause)

    @on(trace.IsrCommitted)
    def _isr(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        self.isr_shrinks[TopicPartition(event.topic, event.partition)] += len(event.isr) < len(event.previous_isr)

    @on(trace.LeaderElected)
    def _elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        self.unclean |= not event.clean

    @on(trace.GroupRebalanceBegan)
    def _rebalance(self, row: TraceRow, event: trace.GroupRebalanceBegan) -> None:
        self.rebalances[event.group] += not event.is_first

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        if event.role == "leader":
            self._behind_since.setdefault(TopicPartition(event.topic, event.partition), row.at_us)

    @on(trace.HighWatermarkAdvanced, trace.LeadershipBegan)
    def _advanced(self, row: TraceRow, event: trace.HighWatermarkAdvanced | trace.LeadershipBegan) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self._moved(partition, row.at_us)
        if event.high_watermark < event.log_end_offset:
            self._behind_since[partition] = row.at_us

    def _moved(self, partition: TopicPartition, at_us: int) -> None:
        since_us = self._behind_since.pop(partition, at_us)
        self.stalled_us = max(self.stalled_us, at_us - since_us)

    def end(self, at_us: int) -> None:
        for partition in list(self._behind_since):
            self._moved(partition, at_us)


def seen_in(rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> RunSigns:
    """Return the observations of a finished run, from its trace and its summary."""
    seen = RunSigns(summary)
    for row in rows:
        seen(row)
    seen.end(rows[-1].at_us if rows else 0)
    return seen


@dataclass(frozen=True, slots=True)
class Symptom:
    """A symptom of a misbehaving cluster.

    Attributes:
        words: further words that find the symptom in the search.
        shows: returns True if a run shows the symptom.
    """

    id: str
    title: str
    text: str
    words: str
    shows: Callable[[RunSigns], bool]


Test = Callable[[RunSigns], bool]


def _either(*tests: Test) -> Test:
    return lambda seen: any(test(seen) for test in tests)


def _error(*codes: str) -> Test:
    return lambda seen: not seen.errors.keys().isdisjoint(codes)


def _broke(kind: str) -> Test:
    return lambda seen: kind in seen.verdict


def _reset(cause: ResetCause) -> Test:
    return lambda seen: cause in seen.resets


def _waited(*causes: WaitCause) -> Test:
    return lambda seen: not seen.waits.isdisjoint(cause.value for cause in causes)


def _happened(*kinds: type[trace.TraceEvent]) -> Test:
    return lambda seen: not seen.kinds.isdisjoint(kinds)


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "acked-and-lost",
        "An acked record is no longer in any log",
        "The producer got an ack. After a failover or a power cut, no replica has the record, and no error was logged. "
        "Look at acks, at min.insync.replicas, and at the brokers that were in the ISR when the ack was sent.",
        "data loss lost data lost messages missing records disappear after restart min.insync.replicas acks=1",
        _broke("lost"),
    ),
    Symptom(
        "duplicates",
        "A record is in the log twice",
        "Causes are a retry after a lost response, a producer without idempotence, or a consumer that processes a "
        "record again.",
        "duplicate duplicated the same message twice again idempotence exactly once",
        _broke("duplicated"),
    ),
    Symptom(
        "out-of-order",
        "Records of one producer are out of order",
        "Several requests were in flight, and one of them was sent again.",
        "reordered order max.in.flight.requests.per.connection",
        _broke("reordered"),
    ),
    Symptom(
        "dirty-read",
        "A consumer has read a record that is not in the log",
        "It was read before it was committed, or from a log that was truncated or replaced later.",
        "phantom dirty read uncommitted truncation",
        _broke("dirty-read"),
    ),
    Symptom(
        "cannot-be-read",
        "A record is acked and in the log, but no consumer gets it",
        "The high watermark or the last stable offset is below the record, or its partition has no leader.",
        "unseen invisible consumer lag does not advance",
        _broke("unseen"),
    ),
    Symptom(
        "high-watermark-stands",
        "The high watermark does not advance while the log grows",
        "For five seconds or longer, no follower confirmed the new records. Consumers do not get them, and producers "
        "with acks=all wait. Look for the member of the ISR that does not fetch.",
        "high watermark stuck stalled frozen holds back hw does not advance replication stopped follower",
        lambda seen: seen.stalled_us >= STALL_US,
    ),
    Symptom(
        "not-enough-replicas",
        "NOT_ENOUGH_REPLICAS",
        "The ISR is smaller than min.insync.replicas, so the leader refuses records that are produced with acks=all.",
        "NotEnoughReplicasException under min isr",
        _error("NOT_ENOUGH_REPLICAS"),
    ),
    Symptom(
        "not-enough-replicas-after-append",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "The record is in the leader's log, and the ISR shrank below the minimum before it was committed. The producer "
        "retries, and without idempotence the record may be stored twice.",
        "NotEnoughReplicasAfterAppendException",
        _error("NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    ),
    Symptom(
        "isr-flaps",
        "The ISR shrinks and grows again and again",
        "One partition's ISR shrank three times or more. A follower fetches only now and then, or "
        "replica.lag.time.max.ms and the fetch sizes do not fit the load.",
        "flapping isr shrinking expanding under-replicated UnderReplicatedPartitions IsrShrinksPerSec",
        lambda seen: max(seen.isr_shrinks.values(), default=0) >= FLAPS_MIN,
    ),
    Symptom(
        "unclean-election",
        "An unclean leader election",
        "A replica that was not in the ISR leads, because unclean.leader.election.enable allowed it or an operator "
        "asked for it. Records that only other replicas had are lost.",
        "unclean leader unclean.leader.election.enable UncleanLeaderElectionsPerSec",
        lambda seen: seen.unclean,
    ),
    Symptom(
        "no-leader",
        "A partition has no leader",
        "No member of its ISR is alive, or none may be elected. Writes and reads wait.",
        "offline partition OfflinePartitionsCount leader none LEADER_NOT_AVAILABLE -1, error while fetching metadata",
        _either(_happened(trace.PartitionWentOffline), _waited(WaitCause.NO_LEADER)),
    ),
    Symptom(
        "offset-out-of-range",
        "OFFSET_OUT_OF_RANGE, or a consumer's offset was reset",
        "The consumer's offset lies beyond the log of the new leader, or below its start. auto.offset.reset decides "
        "whether records are read again or skipped.",
        "consumer offset reset after failover auto.offset.reset earliest latest jumped back, "
        "resetting offset for partition, fetch position is out of range",
        _either(_error("OFFSET_OUT_OF_RANGE"), _reset(ResetCause.OUT_OF_RANGE)),
    ),
    Symptom(
        "log-diverged",
        "A consumer or follower finds that the leader's log has diverged",
        "Leader epochs show where two logs diverge. The follower truncates its log, and the consumer detects a log "
        "truncation.",
        "LogTruncationException divergence fenced leader epoch FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH",
        _either(_happened(trace.DivergenceFound), _reset(ResetCause.TRUNCATED)),
    ),
    Symptom(
        "hanging-transaction",
        "A read_committed consumer stops reading",
        "An open transaction holds the last stable offset. If its producer is gone and its markers are not written, "
        "the transaction hangs until transaction.timeout.ms, or forever.",
        "hanging transaction LSO last stable offset stuck read_committed transaction.timeout.ms",
        _either(_happened(trace.OpenBatchFound), _waited(WaitCause.LAST_STABLE_OFFSET)),
    ),
    Symptom(
        "producer-fenced",
        "PRODUCER_FENCED or INVALID_PRODUCER_EPOCH",
        "Another producer has the same transactional.id, or the coordinator has aborted the transaction after its "
        "timeout.",
        "ProducerFencedException zombie transactional.id",
        _error("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"),
    ),
    Symptom(
        "sequence-errors",
        "OUT_OF_ORDER_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID",
        "The broker does not know the previous batch, because the producer's state was lost, expired or truncated.",
        "OutOfOrderSequenceException idempotent producer",
        _error("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"),
    ),
    Symptom(
        "group-rebalances",
        "A consumer group rebalances again and again",
        "The group had three or more rebalances after the first. Members are slow, join and leave often, or time out.",
        "rebalance storm max.poll.interval.ms session.timeout.ms REBALANCE_IN_PROGRESS",
        lambda seen: max(seen.rebalances.values(), default=0) >= REBALANCES_MIN,
    ),
    Symptom(
        "group-does-not-read",
        "A consumer group is stuck: it does not read a partition, or does not rebalance",
        "The partition's member is down but still in the group, the partition is unassigned, or a rebalance waits.",
        "group does not rebalance stuck consumer lag grows never goes down static member group.instance.id",
        _waited(WaitCause.MEMBER_DOWN, WaitCause.UNASSIGNED, WaitCause.REBALANCE),
    ),
    Symptom(
        "fenced-member",
        "A member's commit or heartbeat is refused",
        "The group has moved on without the member, which gets ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or "
        "FENCED_MEMBER_EPOCH.",
        "CommitFailedException zombie consumer, offset commit failed",
        _error("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
    ),
    Symptom(
        "request-timeout",
        "Requests time out although the partition has a leader",
        "The client waits for a broker that does not answer: it is frozen, cut off or without power, and its "
        "connection is still open.",
        "TimeoutException REQUEST_TIMED_OUT request.timeout.ms delivery.timeout.ms, "
        "expiring record(s) for, ms has passed since batch creation",
        _waited(WaitCause.REQUEST_TIMEOUT, WaitCause.NO_ANSWER, WaitCause.SETUP_TIMEOUT, WaitCause.LEADER_SILENT),
    ),
    Symptom(
        "stale-metadata",
        "A client sends requests to a broker that is no longer the leader",
        "It gets NOT_LEADER_OR_FOLLOWER until it has new metadata. metadata.max.age.ms and retry.backoff.ms decide how "
        "long that takes.",
        "NOT_LEADER_OR_FOLLOWER NotLeaderForPartition metadata refresh",
        _either(_error("NOT_LEADER_OR_FOLLOWER"), _waited(WaitCause.STALE_METADATA)),
    ),
    Symptom(
        "broker-fenced",
        "A broker is running, but the controller has fenced it",
        "Its heartbeats did not arrive within broker.session.timeout.ms. The controller removes it from all ISRs and "
        "elects other leaders. Until the broker learns of this, it may still act as a leader. If it is fenced and "
        "unfenced repeatedly, leaders are elected again and again.",
        "fenced broker session expired heartbeat zombie two leaders split brain election loop STALE_BROKER_EPOCH",
        _happened(trace.BrokerFenced, trace.SessionExpired),
    ),
    Symptom(
        "controller-gone",
        "No controller is active",
        "Leaders stay as they are. Until a controller is active, there are no elections and no ISR changes.",
        "kraft quorum lost ActiveControllerCount controller failover NOT_CONTROLLER",
        _either(_waited(WaitCause.NO_CONTROLLER), _happened(trace.ControllerResigned)),
    ),
    Symptom(
        "truncation",
        "A log gets shorter",
        "A follower removes records that its leader does not have, or a starting broker removes batches that a crash "
        "left incomplete.",
        "truncated truncation truncating partition to offset, log end offset goes back",
        _happened(trace.LogTruncated),
    ),
    Symptom(
        "disk",
        "A disk fails, is full or damages a batch",
        "A log directory goes offline, or the checksum of a batch no longer matches (CORRUPT_MESSAGE).",
        "disk full KAFKA_STORAGE_ERROR CORRUPT_MESSAGE log dir failure bit flip",
        _happened(trace.LogDirFailed, trace.BatchCorrupted),
    ),
    Symptom(
        "records-expired",
        "Records are deleted before they are read",
        "Retention or compaction deleted them while a consumer was away.",
        "retention.ms retention.bytes expired compacted tombstone delete.retention.ms",
        _happened(trace.RecordsExpired, trace.BatchCompacted),
    ),
    Symptom(
        "throttled",
        "A client or a replica is slowed down by a quota",
        "Responses are delayed by throttle_time_ms, and replication may fall behind the writes.",
        "quota throttle producer_byte_rate",
        _happened(trace.ClientThrottled, trace.FetchThrottled),
    ),
)


def shown_by(seen: RunSigns) -> list[str]:
    """Return the ids of the symptoms that a run shows."""
    return [symptom.id for symptom in SYMPTOMS if symptom.shows(seen)]
