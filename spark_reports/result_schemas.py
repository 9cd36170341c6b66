"""The result tables' schemas, declared: what a definition gives is held against this, column by column."""

from __future__ import annotations

RESULT_SCHEMAS: dict[str, str] = {
    "runs": ("run string, scenario string, variant string, seed bigint, profile string, end_us bigint, facts bigint"),
    "records": (
        "run string, topic string, partition bigint, record string, client string, acks bigint, "
        "sent_us bigint, sent_seq bigint, told string, told_us bigint, told_seq bigint, handed_over boolean, "
        "acked_us bigint, acked_seq bigint, "
        "acked_by string, ack_offset bigint, latency_us bigint, error string, copies bigint, offset bigint, "
        "present boolean, readable boolean, read boolean, deleted boolean, lost boolean, unseen boolean, "
        "missing boolean, duplicated boolean, dirty boolean, reordered boolean"
    ),
    "record_counts": (
        "run string, topic string, acks bigint, sent bigint, acked bigint, handed_over bigint, failed bigint, "
        "unknown bigint, lost bigint, unseen bigint, missing bigint, duplicated bigint, dirty bigint, "
        "reordered bigint"
    ),
    "anomalies": (
        "run string, anomaly string, topic string, partition bigint, witness string, offset bigint, detail string"
    ),
    "lost_records": (
        "run string, topic string, partition bigint, record string, acks bigint, sent_us bigint, acked_us bigint, "
        "acked_by string, ack_offset bigint, held_by array<string>, elected_us bigint, elected string, "
        "elected_clean boolean, elected_reason string, erased_us bigint, erased_on array<string>, "
        "erased_reason string, disk_lost_us bigint, disk_lost_on array<string>, disk_lost_reason string"
    ),
    "key_moments": (
        "run string, seq bigint, at_us bigint, event string, verb string, topic string, partition bigint, node string, "
        "reason string"
    ),
    "partition_states": (
        "run string, topic string, partition bigint, seq bigint, from_us bigint, event string, leader string, "
        "leader_epoch bigint, partition_epoch bigint, isr array<string>, replicas array<string>, "
        "replication_factor int, min_isr bigint, reason string, until_us bigint"
    ),
    "isr_changes": (
        "run string, topic string, partition bigint, at_us bigint, seq bigint, previous_isr array<string>, "
        "isr array<string>, joined array<string>, left array<string>, leader string, reason string"
    ),
    "isr_intervals": (
        "run string, topic string, partition bigint, node string, from_us bigint, until_us bigint, "
        "standing string, reason string"
    ),
    "stopped_intervals": ("run string, node string, from_us bigint, until_us bigint, how string, reason string"),
    "fault_intervals": (
        "run string, fault string, verb string, targets array<string>, from_us bigint, until_us bigint, reason string"
    ),
    "replica_timeline": (
        "run string, topic string, partition bigint, node string, at_us bigint, seq bigint, event string, "
        "log_end_offset bigint, high_watermark bigint, uncommitted_records bigint, reason string"
    ),
    "replication_lag": (
        "run string, topic string, partition bigint, leader_epoch bigint, leader string, follower string, "
        "at_us bigint, seq bigint, fetch_offset bigint, log_end_offset bigint, lag_records bigint, "
        "lag_us bigint, peak_lag_us bigint, behind_us bigint"
    ),
    "elections": (
        "run string, topic string, partition bigint, leader_epoch bigint, seq bigint, at_us bigint, "
        "leader string, previous_leader string, clean boolean, isr array<string>, reason string, "
        "lost_us bigint, leading_us bigint, first_write_us bigint, elect_us bigint, write_us bigint"
    ),
    "unavailability": (
        "run string, topic string, partition bigint, kind string, from_us bigint, until_us bigint, reason string, "
        "internal boolean"
    ),
    "availability": (
        "run string, topic string, partition bigint, observed_us bigint, offline_us bigint, "
        "under_replicated_us bigint, under_min_isr_us bigint, internal boolean"
    ),
    "write_stalls": (
        "run string, topic string, partition bigint, client string, from_us bigint, until_us bigint, "
        "refused bigint, errors array<string>, recovered boolean"
    ),
    "read_stalls": (
        "run string, topic string, partition bigint, client string, group string, from_us bigint, until_us bigint, "
        "waiting_records bigint, refused bigint, errors array<string>, recovered boolean"
    ),
    "ack_latency": (
        "run string, topic string, acks bigint, measured_at string, records bigint, p50_us bigint, p95_us bigint, "
        "p99_us bigint, p999_us bigint, max_us bigint"
    ),
    "leader_terms": (
        "run string, topic string, partition bigint, leader_epoch bigint, leader string, from_us bigint, "
        "from_seq bigint, until_us bigint, until_seq bigint, ended_by string, log_end_offset bigint, "
        "high_watermark bigint"
    ),
    "hw_stalls": (
        "run string, topic string, partition bigint, leader_epoch bigint, leader string, from_us bigint, "
        "until_us bigint, high_watermark bigint, waiting_records bigint, ended_by string, "
        "pinned_by array<string>, pinned_us bigint, under_min_isr_us bigint"
    ),
    "data_at_risk": (
        "run string, topic string, partition bigint, leader_epoch bigint, leader string, acks bigint, "
        "at_us bigint, seq bigint, at_risk_records bigint"
    ),
    "catch_ups": (
        "run string, topic string, partition bigint, node string, started_us bigint, first_fetch_us bigint, "
        "from_offset bigint, caught_up_us bigint, to_offset bigint, joined_us bigint, records bigint, "
        "bytes bigint, records_per_s double, bytes_per_s double"
    ),
    "fetch_efficiency": (
        "run string, node string, peer string, partition_reads bigint, record_bytes bigint, "
        "bytes_per_read double, empty_fetches bigint, requests bigint, bytes_per_request double, "
        "sendfile_bytes bigint, sendfile_calls bigint, bytes_per_call double, sendfile_share double"
    ),
}
"""Spark DDL by table; every column may be null in Parquet."""
