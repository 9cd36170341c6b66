"""Declare the report's result tables: the meaning of each table, and name, type and meaning of its columns.

Computed tables are checked against these declarations. The folds, DESCRIBE and TABLES.md use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class ResultColumn(NamedTuple):
    """A column of result tables, with its type in Spark's DDL and its meaning, which is the same in all tables."""

    type: str
    doc: str


class ResultTable(NamedTuple):
    """A result table.

    Attributes:
        doc: the meaning of the table.
        names: names of its columns in order, separated by spaces.
        counted: names of the columns that are a number of records in this table, whatever their type in COLUMNS.
    """

    doc: str
    names: str
    counted: str = ""

    @property
    def columns(self) -> dict[str, ResultColumn]:
        counted = self.counted.split()
        return {
            name: COLUMNS[name]._replace(type=_INT) if name in counted else COLUMNS[name] for name in self.names.split()
        }

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {column.type}" for name, column in self.columns.items())


_INT, _TEXT, _FLAG, _LIST = "bigint", "string", "boolean", "array<string>"

COLUMNS: dict[str, ResultColumn] = {
    "run": ResultColumn(_TEXT, "name of the run folder"),
    "topic": ResultColumn(_TEXT, "topic"),
    "partition": ResultColumn(_INT, "partition number"),
    "node": ResultColumn(_TEXT, "broker where the event happened, or that has the log"),
    "seq": ResultColumn(_INT, "sequence number of the event in the run"),
    "at_us": ResultColumn(_INT, "virtual time, microseconds since the run began"),
    "from_us": ResultColumn(_INT, "start, in virtual microseconds"),
    "until_us": ResultColumn(_INT, "end, in virtual microseconds (exclusive)"),
    "event": ResultColumn(_TEXT, "name of the event in the trace"),
    "reason": ResultColumn(_TEXT, "reason in one sentence, copied from the trace"),
    "data": ResultColumn(_TEXT, "the event as JSON; for an ISR that the leader proposed, the proposal"),
    "scenario": ResultColumn(_TEXT, "scenario id"),
    "variant": ResultColumn(_TEXT, "variant id"),
    "seed": ResultColumn(_INT, "seed of the run"),
    "profile": ResultColumn(_TEXT, "era of Kafka"),
    "end_us": ResultColumn(_INT, "virtual time of the run's last event"),
    "events": ResultColumn(_INT, "number of rows in the trace"),
    "record": ResultColumn(_TEXT, "name of the record"),
    "client": ResultColumn(_TEXT, "producer or consumer; null for a read stall of a group"),
    "group": ResultColumn(_TEXT, "consumer group that should have read; null for a consumer without a group"),
    "internal": ResultColumn(_FLAG, "True for internal topics, such as __consumer_offsets"),
    "acks": ResultColumn(_INT, "the producer's acks: 0, 1 or -1 (all)"),
    "sent_us": ResultColumn(_INT, "time at which the application sent the record"),
    "sent_seq": ResultColumn(_INT, "seq of the send event"),
    "last_sent_seq": ResultColumn(_INT, "seq of the last send event: a transform may send a record again"),
    "told": ResultColumn(_TEXT, "what the producer learned: acked, failed (certainly not written) or unknown"),
    "told_us": ResultColumn(_INT, "time at which the producer learned the result: acked, handed over or failed"),
    "told_seq": ResultColumn(_INT, "seq of the event at told_us"),
    "handed_over": ResultColumn(_FLAG, "with acks=0: handed to the socket, which promises nothing"),
    "acked_us": ResultColumn(_INT, "time at which the producer learned of the ack"),
    "acked_seq": ResultColumn(_INT, "seq of the ack"),
    "acked_by": ResultColumn(_TEXT, "broker that acked the record"),
    "ack_offset": ResultColumn(_INT, "offset in the ack"),
    "latency_us": ResultColumn(
        _INT,
        "time from the send call to the ack; for an external client Kafka's TotalTimeMs, from the arrival of the "
        "request at the broker until the kernel has the response",
    ),
    "measured_at": ResultColumn(
        _TEXT,
        "producer: from the send call to the ack (acks=0: to the socket); broker, for external clients: "
        "from the request's arrival to its response (acks=0: null)",
    ),
    "error": ResultColumn(_TEXT, "Kafka's name of the error, if the record failed"),
    "copies": ResultColumn(_INT, "number of offsets at which the final log has the record"),
    "settled_copies": ResultColumn(_INT, "like `copies`, without offsets in open transactions"),
    "offset": ResultColumn(_INT, "offset; for a record, its first offset in the final log"),
    "present": ResultColumn(_FLAG, "the record is in the final log"),
    "readable": ResultColumn(_FLAG, "the record is below the high watermark of a running leader"),
    "read": ResultColumn(_FLAG, "a consumer read the record"),
    "promised": ResultColumn(_FLAG, "the input of this output was processed, so the output must be in the log"),
    "deleted": ResultColumn(_FLAG, "an operator deleted the record or its topic"),
    "expired": ResultColumn(_FLAG, "retention by time or size removed the record from some replica"),
    "compacted": ResultColumn(
        _FLAG,
        "compaction removed the record from some replica, as it may: a later record with its key is not lost",
    ),
    "lost": ResultColumn(
        _FLAG,
        "acked but not in the final log, and not deleted, expired, compacted or aborted; or promised, but in the "
        "final log at most in an aborted transaction",
    ),
    "unseen": ResultColumn(
        _FLAG, "acked and in the final log, but not readable; or committed, but the commit marker is gone"
    ),
    "missing": ResultColumn(_FLAG, "neither acked nor certainly failed, and not in the final log"),
    "duplicated": ResultColumn(_FLAG, "at more than one offset in the final log"),
    "dirty": ResultColumn(_FLAG, "read by a consumer, but not in the final log, and not deleted, expired or compacted"),
    "reordered": ResultColumn(_FLAG, "in the log after a record that its producer sent later"),
    "aborted": ResultColumn(
        _FLAG,
        "acked, but aborted with its transaction, so read_committed consumers do not expect it",
    ),
    "sent": ResultColumn(_INT, "records sent"),
    "acked": ResultColumn(_INT, "records acked"),
    "failed": ResultColumn(_INT, "records that certainly failed"),
    "unknown": ResultColumn(_INT, "records with an unknown outcome"),
    "anomaly": ResultColumn(_TEXT, "name of the anomaly in the verdict"),
    "witness": ResultColumn(_TEXT, "the record, client or invariant that shows the anomaly"),
    "detail": ResultColumn(_TEXT, "what was observed"),
    "held_by": ResultColumn(_LIST, "replicas that had the record before the ack"),
    "elected_us": ResultColumn(
        _INT, "time of the first election, after the ack, of a leader without the record; null if none"
    ),
    "elected": ResultColumn(_TEXT, "leader chosen in that election"),
    "elected_clean": ResultColumn(_FLAG, "that leader was chosen from the ISR"),
    "elected_reason": ResultColumn(_TEXT, "why that leader was chosen"),
    "erased_us": ResultColumn(_INT, "time of the first truncation, after the ack, of a log that had the record"),
    "erased_on": ResultColumn(_LIST, "brokers that truncated the record"),
    "erased_reason": ResultColumn(_TEXT, "why the record was truncated"),
    "disk_lost_us": ResultColumn(_INT, "time of the first loss of bytes by a disk after the ack"),
    "disk_lost_on": ResultColumn(_LIST, "brokers whose disks lost bytes"),
    "disk_lost_reason": ResultColumn(_TEXT, "why bytes were lost"),
    "leader": ResultColumn(_TEXT, "leader of the partition; null if there is none"),
    "leader_epoch": ResultColumn(_INT, "leader epoch"),
    "partition_epoch": ResultColumn(_INT, "partition epoch: version of the partition's state at the controller"),
    "isr": ResultColumn(_LIST, "in-sync replicas"),
    "previous_isr": ResultColumn(_LIST, "in-sync replicas before the change"),
    "joined": ResultColumn(_LIST, "replicas that joined the ISR"),
    "left": ResultColumn(_LIST, "replicas that left the ISR"),
    "replicas": ResultColumn(_LIST, "assigned replicas"),
    "min_isr": ResultColumn(_INT, "effective min.insync.replicas"),
    "standing": ResultColumn(_TEXT, "role of the replica: leader, in sync, or out of sync"),
    "how": ResultColumn(_TEXT, "how the broker went down: stop, kill, power_off, halt, crash or died"),
    "fault": ResultColumn(_TEXT, "name of the fault"),
    "verb": ResultColumn(_TEXT, "verb of the scenario's step"),
    "targets": ResultColumn(_LIST, "nodes that the step affected"),
    "log_end_offset": ResultColumn(_INT, "log end offset (exclusive)"),
    "high_watermark": ResultColumn(_INT, "high watermark (exclusive)"),
    "uncommitted_records": ResultColumn(_INT, "log end offset minus high watermark"),
    "follower": ResultColumn(_TEXT, "the follower"),
    "fetch_offset": ResultColumn(_INT, "the follower's log end offset in its last fetch"),
    "lag_records": ResultColumn(_INT, "records the follower lacked"),
    "lag_us": ResultColumn(_INT, "age of the oldest record that the follower lacked"),
    "peak_lag_us": ResultColumn(_INT, "lag_us just before this time"),
    "behind_us": ResultColumn(_INT, "time since the follower was last caught up by Kafka's ISR rule"),
    "previous_leader": ResultColumn(_TEXT, "leader before the election"),
    "clean": ResultColumn(_FLAG, "elected from the ISR"),
    "lost_us": ResultColumn(_INT, "time at which the last leader stopped or the partition went offline"),
    "leading_us": ResultColumn(_INT, "time at which the new leader learned of its election"),
    "first_write_us": ResultColumn(_INT, "time of the first append under the new leader"),
    "elect_us": ResultColumn(_INT, "time from the leader's loss to the election"),
    "write_us": ResultColumn(_INT, "time from the leader's loss to the first write"),
    "kind": ResultColumn(_TEXT, "kind of trouble: no leader, leader down, under-replicated or under min ISR"),
    "observed_us": ResultColumn(_INT, "time in which the partition existed, or the group had members"),
    "offline_us": ResultColumn(_INT, "time without a running leader"),
    "under_replicated_us": ResultColumn(_INT, "time with fewer replicas in sync than assigned"),
    "under_min_isr_us": ResultColumn(_INT, "time with fewer replicas in sync than min.insync.replicas"),
    "refused": ResultColumn(_INT, "attempts refused or unanswered"),
    "errors": ResultColumn(_LIST, "names of the errors that occurred"),
    "recovered": ResultColumn(_FLAG, "the stall ended with a success"),
    "records": ResultColumn(_INT, "number of records"),
    "p50_us": ResultColumn(_INT, "median"),
    "p95_us": ResultColumn(_INT, "95th percentile"),
    "p99_us": ResultColumn(_INT, "99th percentile"),
    "p999_us": ResultColumn(_INT, "99.9th percentile"),
    "max_us": ResultColumn(_INT, "largest value"),
    "replication_factor": ResultColumn("int", "number of assigned replicas, without those that a reassignment adds"),
    "from_seq": ResultColumn(_INT, "seq of the event at its start"),
    "until_seq": ResultColumn(_INT, "seq of the event at its end"),
    "ended_by": ResultColumn(_TEXT, "what ended the stall or term"),
    "pinned_by": ResultColumn(
        _LIST, "followers that held back the high watermark longest: in the ISR, but not past it"
    ),
    "pinned_us": ResultColumn(_INT, "time for which they held it back during the stall"),
    "waiting_records": ResultColumn(_INT, "largest number of records that waited"),
    "at_risk_records": ResultColumn(_INT, "acked records above the leader's high watermark"),
    "started_us": ResultColumn(_INT, "time at which the broker started again"),
    "first_fetch_us": ResultColumn(_INT, "time of the replica's first fetch"),
    "from_offset": ResultColumn(_INT, "offset of the first fetch"),
    "caught_up_us": ResultColumn(_INT, "time at which the replica reached the end of the leader's log; null if never"),
    "to_offset": ResultColumn(_INT, "the end of the leader's log at that time"),
    "joined_us": ResultColumn(
        _INT, "time at which the replica rejoined the ISR; null if it did not, or had not left it"
    ),
    "bytes": ResultColumn(_INT, "bytes appended during the catch-up"),
    "records_per_s": ResultColumn("double", "records per second during the catch-up"),
    "bytes_per_s": ResultColumn("double", "bytes per second during the catch-up"),
    "peer": ResultColumn(_TEXT, "who fetched: a follower or a client"),
    "partition_reads": ResultColumn(_INT, "partitions in fetches that were answered with records"),
    "record_bytes": ResultColumn(_INT, "bytes of records sent"),
    "bytes_per_read": ResultColumn("double", "record_bytes divided by partition_reads"),
    "empty_fetches": ResultColumn(_INT, "partitions in a follower's fetches that were answered without records"),
    "requests": ResultColumn(_INT, "fetches that got records; null if the run did not measure requests"),
    "bytes_per_request": ResultColumn("double", "bytes of responses divided by requests"),
    "sendfile_bytes": ResultColumn(_INT, "bytes sent with sendfile"),
    "sendfile_calls": ResultColumn(_INT, "number of sendfile system calls"),
    "bytes_per_call": ResultColumn("double", "sendfile_bytes divided by sendfile_calls"),
    "sendfile_share": ResultColumn("double", "share of the response bytes that were sent with sendfile"),
    "transactional_id": ResultColumn(_TEXT, "transactional.id"),
    "producer_id": ResultColumn(_INT, "producer id of the transactional.id"),
    "producer_epoch": ResultColumn(_INT, "epoch of the producer id when the transaction began"),
    "partitions": ResultColumn(_LIST, "partitions in the transaction, as topic-number"),
    "decided_us": ResultColumn(
        _INT, "time at which the decision to commit or abort was on all in-sync replicas; null if none"
    ),
    "state": ResultColumn(_TEXT, "last state of the transaction, by Kafka's name"),
    "coordinator": ResultColumn(_TEXT, "broker that was the last coordinator of the transaction"),
    "fenced": ResultColumn(_FLAG, "ended by the coordinator, since a new instance began or the transaction timed out"),
    "duration_us": ResultColumn(_INT, "time from the transaction's beginning to its end; null if it has not ended"),
    "markers_us": ResultColumn(
        _INT, "time from the decision until every partition had its marker; null if some marker is missing"
    ),
    "last_stable_offset": ResultColumn(_INT, "last stable offset (exclusive): read_committed consumers read below it"),
    "member": ResultColumn(_TEXT, "member id; null if nobody owned the partition"),
    "client_id": ResultColumn(_TEXT, "client.id of the member"),
    "generation": ResultColumn(_INT, "generation of the group; for a KIP-848 consumer group, the member's epoch"),
    "unread_us": ResultColumn(
        _INT,
        "time in which the group had members, but no running member owned the partition: the owner was down or "
        "frozen, or the partition was unassigned",
    ),
    "longest_unread_us": ResultColumn(_INT, "longest uninterrupted part of unread_us"),
    "members": ResultColumn(_INT, "number of members that owned the partition, one after another"),
}
"""All columns of result tables by name. Every column may be null in Parquet."""

_PARTITION = "run topic partition"
_TERM = f"{_PARTITION} leader_epoch leader"

RESULT_TABLES: dict[str, ResultTable] = {
    "runs": ResultTable("one row per run", "run scenario variant seed profile end_us events"),
    "records": ResultTable(
        "one row per record: what its producer learned, and whether it is in the final log",
        f"{_PARTITION} record client acks sent_us sent_seq last_sent_seq told told_us told_seq handed_over acked_us "
        "acked_seq acked_by ack_offset latency_us error copies settled_copies offset present readable read promised "
        "deleted expired compacted lost unseen missing duplicated dirty reordered aborted",
    ),
    "record_counts": ResultTable(
        "one row per run, topic and acks level with the number of records by outcome",
        "run topic acks sent acked handed_over failed unknown lost unseen missing duplicated dirty reordered",
        "handed_over lost unseen missing duplicated dirty reordered",
    ),
    "anomalies": ResultTable(
        "one row per record, client or invariant that shows an anomaly; the verdict is the set of anomalies",
        "run anomaly topic partition witness offset detail",
    ),
    "lost_records": ResultTable(
        "one row per lost record: the replicas that had it at the ack, the leader without it, and what erased it",
        f"{_PARTITION} record acks sent_us acked_us acked_by ack_offset held_by elected_us elected "
        "elected_clean elected_reason erased_us erased_on erased_reason disk_lost_us disk_lost_on "
        "disk_lost_reason",
    ),
    "key_moments": ResultTable(
        "the main events of a run: faults, stops, elections, ISR changes, truncations",
        "run seq at_us event verb how topic partition node reason data",
    ),
    "partition_states": ResultTable(
        "one row per decision of the controller about a partition",
        f"{_PARTITION} seq from_us event leader leader_epoch partition_epoch isr replicas replication_factor "
        "min_isr reason until_us",
    ),
    "isr_changes": ResultTable(
        "one row per change of an ISR",
        f"{_PARTITION} at_us seq previous_isr isr joined left leader reason",
    ),
    "isr_intervals": ResultTable(
        "each replica's role over time: leader, in sync, out of sync",
        f"{_PARTITION} node from_us until_us standing reason",
    ),
    "stopped_intervals": ResultTable("when a broker was down", "run node from_us until_us how reason"),
    "fault_intervals": ResultTable(
        "when a fault of the scenario was in force",
        "run fault verb targets from_us until_us reason",
    ),
    "replica_timeline": ResultTable(
        "log end offset and high watermark of each replica, event by event",
        f"{_PARTITION} node at_us seq event log_end_offset high_watermark uncommitted_records reason",
    ),
    "replication_lag": ResultTable(
        "how far each follower was behind its leader, in records and in time",
        f"{_TERM} follower at_us seq fetch_offset log_end_offset lag_records lag_us peak_lag_us behind_us",
    ),
    "elections": ResultTable(
        "one row per elected leader, with the time to recover",
        f"{_PARTITION} leader_epoch seq at_us leader previous_leader clean isr reason lost_us leading_us "
        "first_write_us elect_us write_us",
    ),
    "unavailability": ResultTable(
        "intervals in which a partition was offline, under-replicated or under min ISR",
        f"{_PARTITION} kind from_us until_us reason internal",
    ),
    "availability": ResultTable(
        "time in each kind of trouble, one row per partition",
        f"{_PARTITION} observed_us offline_us under_replicated_us under_min_isr_us internal",
    ),
    "write_stalls": ResultTable(
        "intervals in which a running producer has at least one pending write (sent, neither answered nor given up) "
        "and no write succeeds",
        f"{_PARTITION} client from_us until_us refused errors recovered",
    ),
    "read_stalls": ResultTable(
        "intervals in which committed records waited for a consumer or a group that read nothing",
        f"{_PARTITION} client group from_us until_us waiting_records refused errors recovered",
    ),
    "ack_latency": ResultTable(
        "percentiles of the time to the ack of acked records, by topic, acks and place of measurement",
        "run topic acks measured_at records p50_us p95_us p99_us p999_us max_us",
    ),
    "leader_terms": ResultTable(
        "one row per term of a partition's leader",
        f"{_TERM} from_us from_seq until_us until_seq ended_by log_end_offset high_watermark",
    ),
    "hw_stalls": ResultTable(
        "intervals in which records waited above a high watermark that did not move, and who held it back",
        f"{_TERM} from_us until_us high_watermark waiting_records ended_by pinned_by pinned_us under_min_isr_us",
    ),
    "data_at_risk": ResultTable(
        "acked records above the leader's high watermark over time: lost if the leader died at that time",
        f"{_TERM} acks at_us seq at_risk_records",
    ),
    "catch_ups": ResultTable(
        "one row per replica of a broker that started again: how fast it caught up",
        f"{_PARTITION} node started_us first_fetch_us from_offset caught_up_us to_offset joined_us records "
        "bytes records_per_s bytes_per_s",
    ),
    "fetch_efficiency": ResultTable(
        "bytes per answered fetch and per system call, by broker and by who fetched",
        "run node peer partition_reads record_bytes bytes_per_read empty_fetches requests bytes_per_request "
        "sendfile_bytes sendfile_calls bytes_per_call sendfile_share",
    ),
    "transactions": ResultTable(
        "one row per transaction of a transactional.id, as its coordinators wrote it",
        "run transactional_id producer_id producer_epoch partitions from_us decided_us until_us state coordinator "
        "fenced duration_us markers_us",
    ),
    "lso_stalls": ResultTable(
        "intervals in which a last stable offset was below the high watermark, so read_committed consumers waited",
        f"{_TERM} from_us until_us last_stable_offset waiting_records",
    ),
    "group_assignments": ResultTable(
        "which member of a group owned a partition, over time, according to the coordinator",
        "run group topic partition member client_id generation from_us until_us",
    ),
    "group_unread": ResultTable(
        "time in which no running member of a group owned a partition",
        "run group topic partition observed_us unread_us longest_unread_us members",
    ),
}


def as_markdown() -> str:
    """Return a description of each table with its columns, as Markdown."""
    return "\n".join(line for name, table in RESULT_TABLES.items() for line in _section(name, table))


def _section(name: str, table: ResultTable) -> Iterator[str]:
    yield from (f"## {name}", "", f"{table.doc[0].upper()}{table.doc[1:]}.", "")
    yield from ("| column | type | meaning |", "|---|---|---|")
    for column, (kind, doc) in table.columns.items():
        yield f"| {column} | {kind} | {doc} |"
    yield ""
