"""The report's result tables: their names, what they say, and how each follows from the trace."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_reports.io import Trace
from spark_reports.schema import REPLICA_KEY
from spark_reports.transforms.availability import availability, unavailability, write_stalls
from spark_reports.transforms.elections import elections
from spark_reports.transforms.exposure import data_at_risk
from spark_reports.transforms.fetching import catch_ups, fetch_efficiency
from spark_reports.transforms.high_watermark import hw_stalls
from spark_reports.transforms.isr import isr_changes, isr_intervals
from spark_reports.transforms.lag import replication_lag
from spark_reports.transforms.latency import ack_latency
from spark_reports.transforms.partitions import (
    fault_intervals,
    node_turns,
    partition_states,
    run_ends,
    stopped_intervals,
    with_the_leaders_reasons,
)
from spark_reports.transforms.reading import read_stalls
from spark_reports.transforms.records import deleted_records, final_entries, record_counts, record_fates
from spark_reports.transforms.replica_timeline import replica_timeline
from spark_reports.transforms.settling import settled
from spark_reports.transforms.terms import leader_terms
from spark_reports.transforms.thin import thinned
from spark_reports.transforms.verdict import anomalies
from spark_reports.transforms.witness import key_moments, lost_records, runs

TABLE_DOCS: dict[str, str] = {
    "runs": "one row per run",
    "records": "one row per record: what its producer was told, and what became of it",
    "record_counts": "records by run, topic and acks level",
    "anomalies": "one row per witness of an anomaly: the verdict is the set of these names",
    "lost_records": "one row per lost record: who held it at the ack, who led without it, what erased it",
    "key_moments": "the story of a run: faults, deaths, elections, ISR changes, truncations",
    "partition_states": "one row per decision of the controller about a partition",
    "isr_changes": "one row per change of an ISR",
    "isr_intervals": "a replica's standing over time: leader, in sync, out of sync",
    "stopped_intervals": "when a broker was down",
    "fault_intervals": "when a fault of the scenario was in force",
    "replica_timeline": "log end offset and high watermark of each replica, fact by fact",
    "replication_lag": "how far each follower was behind its leader, in records and in time",
    "elections": "one row per leader chosen, with time to recover",
    "unavailability": "stretches in which a partition was offline, under-replicated or under min ISR",
    "availability": "time in each kind of trouble, by partition",
    "write_stalls": "stretches in which a producer waited and no write succeeded",
    "read_stalls": "stretches in which committed records waited for a consumer or a group, and it read nothing",
    "ack_latency": "percentiles of the time to the ack, of acked records, by topic, acks level and where measured",
    "leader_terms": "one row per time a broker led a partition",
    "hw_stalls": "stretches in which records waited above a high watermark that did not move, and who held it",
    "data_at_risk": "acked records above their leader's high watermark, over time: lost if it died then",
    "catch_ups": "one row per replica of a broker that started again: how fast it caught up",
    "fetch_efficiency": "bytes per answered fetch and per system call, by broker and who fetched",
}

COLUMN_DOCS: dict[str, str] = {
    "run": "name of the run folder",
    "topic": "topic",
    "partition": "partition number",
    "node": "the broker whose fact or log it is",
    "seq": "position in the run's one total order",
    "at_us": "virtual time, microseconds since the run began",
    "from_us": "begin, virtual microseconds",
    "until_us": "end, virtual microseconds (exclusive)",
    "event": "name of the fact in the trace",
    "reason": "why, in one sentence, as the trace states it",
    "scenario": "scenario id",
    "variant": "variant id",
    "seed": "seed of the run",
    "profile": "era of Kafka",
    "end_us": "virtual time of the run's last fact",
    "facts": "rows of the trace",
    "record": "name of the record",
    "client": "the producer or consumer (of a read stall null, where a group is the reader)",
    "group": "the consumer group that should have read (null: a consumer of the scenario did on its own)",
    "internal": "the topic is one that brokers keep for themselves, as __consumer_offsets",
    "acks": "acks of the producer: 0, 1 or -1 (all)",
    "sent_us": "when the application sent it",
    "sent_seq": "seq of the sending",
    "told": "acked; failed (definitely not written); unknown",
    "told_us": "when its producer was told its fate: acked, handed over or failed",
    "told_seq": "seq of that",
    "handed_over": "acks=0: given to the socket, nothing promised",
    "acked_us": "when the producer learned of the ack",
    "acked_seq": "seq of the ack",
    "acked_by": "the broker that acked it",
    "ack_offset": "offset in the ack",
    "latency_us": "from the send call to the ack; of a client from outside, from the arrival of the request at the "
    "broker to its answer with the kernel",
    "measured_at": "producer: from the send call to the ack, with acks=0 to the socket; broker (clients from outside): "
    "from the arrival of the request to its answer with the kernel, with acks=0 no figure",
    "error": "Kafka's error name, if it failed",
    "copies": "offsets it has in the final log",
    "offset": "offset (of a record: its first in the final log)",
    "present": "in the final log",
    "readable": "below the high watermark of a running leader",
    "read": "a consumer read it",
    "deleted": "an operator deleted it, alone or with its topic",
    "lost": "acked, not in the final log and not deleted",
    "unseen": "acked, in the final log, not readable",
    "missing": "neither acked nor definitely failed, not in the final log",
    "duplicated": "at more than one offset of the final log",
    "dirty": "read by a consumer, not in the final log and not deleted",
    "reordered": "stands after a record its producer sent later",
    "sent": "records sent",
    "acked": "records acked",
    "failed": "records that definitely failed",
    "unknown": "records of unknown outcome",
    "anomaly": "name in the verdict",
    "witness": "the record, client or invariant it shows in",
    "detail": "what was seen",
    "held_by": "replicas that had it before the ack",
    "elected_us": "first election after the ack of a leader that did not have it (null: none)",
    "elected": "the leader chosen then",
    "elected_clean": "chosen from the ISR",
    "elected_reason": "why it was chosen",
    "erased_us": "first truncation after the ack that cut it off a log that had it",
    "erased_on": "brokers that truncated it",
    "erased_reason": "why it was truncated",
    "disk_lost_us": "first loss of bytes by a disk after the ack",
    "disk_lost_on": "brokers whose disks lost bytes",
    "disk_lost_reason": "why bytes were lost",
    "leader": "leader of the partition (null: none)",
    "leader_epoch": "leader epoch",
    "partition_epoch": "version of the partition's record at the controller",
    "isr": "in-sync replicas",
    "previous_isr": "in-sync replicas before",
    "joined": "replicas that came in",
    "left": "replicas that dropped out",
    "replicas": "assigned replicas",
    "min_isr": "effective min.insync.replicas",
    "standing": "leader, in sync, or out of sync",
    "how": "stop, kill, power_off, halt, crash or died",
    "fault": "name of the fault",
    "verb": "verb of the scenario's step",
    "targets": "nodes the step resolved to",
    "log_end_offset": "log end offset (exclusive)",
    "high_watermark": "high watermark (exclusive)",
    "uncommitted_records": "log end offset minus high watermark",
    "follower": "the follower",
    "fetch_offset": "the follower's log end offset, as it last asked",
    "lag_records": "records the follower lacked",
    "lag_us": "age of the oldest record it lacked",
    "peak_lag_us": "what that age had grown to just before this moment",
    "behind_us": "time since it was last caught up, by Kafka's ISR rule",
    "previous_leader": "leader before",
    "clean": "elected from the ISR",
    "lost_us": "since when there had been no leader at work: its process stopped, or the partition went offline",
    "leading_us": "when the new leader knew",
    "first_write_us": "first append under the new leader",
    "elect_us": "from loss to election",
    "write_us": "from loss to the first write",
    "kind": "no leader, leader down, under-replicated, under min ISR",
    "observed_us": "time the partition existed",
    "offline_us": "time without a running leader",
    "under_replicated_us": "time with fewer replicas in sync than assigned",
    "under_min_isr_us": "time with fewer in sync than min.insync.replicas",
    "refused": "attempts refused or unanswered",
    "errors": "error names met",
    "recovered": "ended with a success",
    "records": "records counted",
    "p50_us": "median",
    "p95_us": "95th percentile",
    "p99_us": "99th percentile",
    "p999_us": "99.9th percentile",
    "max_us": "largest",
    "replication_factor": "replicas the partition should have (without those a reassignment is adding)",
    "from_seq": "seq of its begin",
    "until_seq": "seq of its end",
    "ended_by": "what ended it",
    "pinned_by": "followers that held the high watermark longest: in the ISR and not beyond it",
    "pinned_us": "how long they held it, of the stall",
    "waiting_records": "records that waited (the most)",
    "at_risk_records": "acked records above the leader's high watermark",
    "started_us": "when the broker started again",
    "first_fetch_us": "its first fetch",
    "from_offset": "what it fetched from first",
    "caught_up_us": "its fetch reached the leader's end (null: never)",
    "to_offset": "the leader's end, then",
    "joined_us": "when it came back into the ISR (null: it did not, or had not left)",
    "bytes": "bytes appended meanwhile",
    "records_per_s": "records per second of that time",
    "bytes_per_s": "bytes per second of that time",
    "peer": "who fetched: a follower or a client",
    "partition_reads": "partitions of fetches answered with records",
    "record_bytes": "bytes of records sent",
    "bytes_per_read": "record_bytes by partition_reads",
    "empty_fetches": "partitions a follower asked for, and nothing was sent",
    "requests": "fetches that found something (null: the run did not measure requests)",
    "bytes_per_request": "bytes of answers by requests",
    "sendfile_bytes": "bytes that left by sendfile",
    "sendfile_calls": "system calls for them",
    "bytes_per_call": "sendfile_bytes by sendfile_calls",
    "sendfile_share": "share of the answered bytes that left by sendfile",
}


Keep = Callable[[str, DataFrame], DataFrame]
"""What others are computed from: its name and definition in, the same rows out, ready to be read many times."""


def in_memory(name: str, table: DataFrame) -> DataFrame:
    return settled(table)


class ResultTables(Mapping[str, DataFrame]):
    """Every table over a trace, by name; each is defined when it is first asked for, with what it follows from.

    Defining takes PySpark longer than a small trace takes to read. Threads may ask at once; one at a time defines.
    """

    def __init__(self, trace: Trace, keep: Keep = in_memory) -> None:
        """keep: called with tables that grow with the records; what grows with the failovers alone stays in memory"""
        self._trace = trace
        self._keep = keep
        self._defined: dict[str, DataFrame] = {}
        self._defining = threading.RLock()

    def __getitem__(self, name: str) -> DataFrame:
        define = _DEFINITIONS[name]
        with self._defining:
            if name not in self._defined:
                self._defined[name] = define(self, self._trace)
            return self._defined[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_DEFINITIONS)

    def __len__(self) -> int:
        return len(_DEFINITIONS)

    @functools.cached_property
    def control(self) -> DataFrame:
        return settled(with_the_leaders_reasons(self._trace.control))

    @functools.cached_property
    def run_ends(self) -> DataFrame:
        return settled(run_ends(self.control))

    @functools.cached_property
    def node_turns(self) -> DataFrame:
        return settled(node_turns(self.control))

    @functools.cached_property
    def entries(self) -> DataFrame:
        return final_entries(self._trace.final_log)

    def records(self) -> DataFrame:
        deleted = deleted_records(self._trace.produce, self._trace.log, self.control)
        return self._keep("records", record_fates(self._trace.produce, self._trace.consume, self.entries, deleted))


_Define = Callable[[ResultTables, Trace], DataFrame]

_DEFINITIONS: dict[str, _Define] = {
    "runs": lambda tables, trace: runs(tables.control),
    "records": lambda tables, trace: tables.records(),
    "record_counts": lambda tables, trace: record_counts(tables["records"]),
    "anomalies": lambda tables, trace: anomalies(
        tables["records"], tables.entries, trace.final_log, trace.consume, tables.control
    ),
    "lost_records": lambda tables, trace: lost_records(tables["records"], trace.produce, trace.log, tables.control),
    "key_moments": lambda tables, trace: key_moments(tables.control),
    "partition_states": lambda tables, trace: settled(partition_states(tables.control)),
    "isr_changes": lambda tables, trace: isr_changes(tables["partition_states"]),
    "isr_intervals": lambda tables, trace: isr_intervals(tables["partition_states"]),
    "stopped_intervals": lambda tables, trace: stopped_intervals(tables.control),
    "fault_intervals": lambda tables, trace: fault_intervals(tables.control),
    "replica_timeline": lambda tables, trace: replica_timeline(tables.control, trace.log, trace.high_watermark),
    "replication_lag": lambda tables, trace: replication_lag(
        tables.control, tables.node_turns, trace.log, trace.fetch, tables["leader_terms"]
    ),
    "elections": lambda tables, trace: elections(tables.control, tables.node_turns, trace.log),
    "unavailability": lambda tables, trace: settled(
        unavailability(tables["partition_states"], tables["stopped_intervals"])
    ),
    "availability": lambda tables, trace: availability(tables["unavailability"], tables["partition_states"]),
    "write_stalls": lambda tables, trace: write_stalls(tables["records"], trace.produce, tables.run_ends),
    "read_stalls": lambda tables, trace: read_stalls(
        tables.control, trace.consume, trace.group, tables["leader_terms"], trace.high_watermark
    ),
    "ack_latency": lambda tables, trace: ack_latency(trace.produce),
    "leader_terms": lambda tables, trace: settled(leader_terms(tables.control, tables.node_turns)),
    "hw_stalls": lambda tables, trace: hw_stalls(
        tables["partition_states"], tables["leader_terms"], trace.log, trace.fetch, trace.high_watermark
    ),
    "data_at_risk": lambda tables, trace: data_at_risk(trace.produce, tables["leader_terms"], trace.high_watermark),
    "catch_ups": lambda tables, trace: catch_ups(tables.node_turns, trace.log, trace.fetch, tables["isr_changes"]),
    "fetch_efficiency": lambda tables, trace: fetch_efficiency(trace.fetch, trace.request),
}


def picture(name: str, table: DataFrame, ends: DataFrame) -> DataFrame:
    """The points of a timeline that a chart draws.

    name: of PICTURED        table: that table        ends: run, end_us
    """
    series, peak, moves = PICTURED[name]
    return thinned(table, ends, series, peak, ~F.col("event").isin(*moves) if moves else F.lit(False))


PICTURED: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "replica_timeline": (
        REPLICA_KEY, "uncommitted_records", ("batch_appended", "high_watermark_advanced", "high_watermark_learned")
    ),
    "replication_lag": (("run", "topic", "partition", "leader", "follower"), "peak_lag_us", ()),
    "data_at_risk": (("run", "topic", "partition", "leader", "leader_epoch", "acks"), "at_risk_records", ()),
}  # fmt: skip
"""Timelines too long to draw whole: what tells their lines apart, whose peaks must stay, and events that may go."""
