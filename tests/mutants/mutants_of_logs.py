"""What a log forgets and keeps: truncation, recovery, and replicas that move."""

from __future__ import annotations

from mutant import Mutant, mutant

PARTITION = "cluster.broker.replicas.partition"
LOG = "replica.log.log"
SEGMENT = "replica.log.segment"
LOADER = "replica.log.loader"
EPOCHS = "replica.log.leader_epochs"
CHANGES = "controller.changes"

LOGS: tuple[Mutant, ...] = (
    # ------------------------------------------------------------------------------------------------------- the logs
    mutant(
        "leader-tells-no-divergence",
        "The leader tells a follower where their logs part (KIP-595, S8, S9)",
        PARTITION,
        "        if entry.last_fetched_epoch == UNDEFINED_EPOCH:\n            return None\n        divergence =",
        "        if True:\n            return None\n        divergence =",
        "acks1-leader-kill: S8",
        "zombie-leader-acks1: S8",
    ),
    mutant(
        "epochs-survive-truncation",
        "Truncation forgets the epochs that begin after the cut (S15)",
        EPOCHS,
        "        keep = bisect_left(self._starts, end_offset)\n",
        "        keep = len(self._starts)\n",
        "test tests/replica/log/test_leader_epochs.py::test_truncate_from_end[60-entries1]",
    ),
    mutant(
        "producers-survive-truncation",
        "Truncation forgets the producers' batches that it removes (KIP-98)",
        LOG,
        "        rebuild_producers(self.producers, self._segments, self.log_start_offset, offset, now_ms)\n",
        "",
        "truncated-batch-comes-again: records.acked",
    ),
    mutant(
        "recovery-point-survives-truncation",
        "What is appended after a cut is not on the disk because its offset once was (S27)",
        LOG,
        "        self.recovery_point = min(self.recovery_point, offset)\n",
        "",
        "fsync-after-truncation: records.lost",
    ),
    mutant(
        "recovery-without-crc",
        "Recovery checks every batch (S27)",
        SEGMENT,
        "        if not check_crc(chunk, within, header):",
        "        if False:",
        "test tests/replica/log/test_recovery.py::test_a_flipped_bit_is_in_the_file_and_only_the_crc_betrays_it",
    ),
    mutant(
        "no-recovery",
        "After an unclean stop the unflushed segments are checked (S27)",
        LOADER,
        "(not clean and segment.base_offset >= unflushed_from)",
        "False",
        "test tests/replica/log/test_recovery.py::test_segments_after_a_bad_batch_are_deleted",
    ),
    mutant(
        "partial-batch-is-kept",
        "Recovery cuts a batch that is not whole (S27)",
        SEGMENT,
        "        self.size = position\n        if position < file_size:",
        "        self.size = file_size\n        if False:",
        "torn-tail-follower: event log_recovered of t-0 with clean False, "
        "log_end_offset 15, node b2, size_bytes at least 1, from 20.000 s on",
    ),
    mutant(
        "newer-epoch-in-an-old-fetch",
        "A follower drops batches of a newer epoch than the one it fetched in (KAFKA-18723, S9)",
        LOG,
        "        headers, size_bytes = whole_batches(data, max_leader_epoch)",
        "        headers, size_bytes = whole_batches(data, None)",
        "sendfile-meets-truncation: event never batch_appended with node b3, between 10.000 s and 14.900 s",
        "test tests/replica/log/test_log.py::"
        "test_batches_newer_than_the_epoch_of_the_fetch_are_dropped_with_all_that_follow",
    ),
    # ------------------------------------------------------------------------------------------------------- retention
    mutant(
        "retention-takes-uncommitted-records",
        "Retention takes nothing above the high watermark (KAFKA-5634, S14)",
        "replica.log.segments",
        "        if end > high_watermark or is_empty_end",
        "        if is_empty_end",
        "test tests/replica/log/test_retention.py::test_what_goes[not what is not committed]",
    ),
    mutant(
        "retention-by-the-oldest-record",
        "A segment goes when its youngest record is too old",
        "replica.log.segments",
        "now_ms - segment.largest_timestamp_ms > config.retention_ms",
        "now_ms - segment.created_us // 1000 >= config.retention_ms",
        "test tests/replica/log/test_retention.py::test_what_goes[as old as that is not older]",
    ),
    mutant(
        "expired-records-stay-readable",
        "The log starts where its first segment does, so a consumer behind it is told so (R15)",
        LOG,
        "        if self.first_segment_base > self.log_start_offset:\n",
        "        if False:\n",
        "consumer-a-weekend-late: event position_reset with client c1r, error OFFSET_OUT_OF_RANGE, offset 40, "
        "previous_offset 19, from 62.000 s on",
    ),
    # -------------------------------------------------------------------------------------------- moving and throttling
    mutant(
        "reassignment-completes-too-early",
        "A reassignment is complete once the ISR has the replicas that were added (KIP-455)",
        "controller.placement",
        "    if not replicas or not isr or without(replicas if needs_all else reassignment.adding, isr):",
        "    if not replicas or not isr:",
        "reassign-target-dies: "
        "event reassignment_completed of t-0 with replicas {b1, b2, b4}, between 130.000 s and 150.000 s",
    ),
    mutant(
        "dead-replica-does-not-hold-up-a-move",
        "From 3.8 to 4.2 a reassignment waits for all of its target, so for a dead replica, too",
        "controller.placement",
        '    needs_all = done == "all-in-sync" or (done == "added-in-sync" and gets_fewer)',
        '    needs_all = done == "added-in-sync" and gets_fewer',
        "reassign-beside-a-dead-replica: records.lost",
    ),
    mutant(
        "dead-replica-holds-up-every-move",
        "Since 4.3 a reassignment waits only for the replicas that were added (KAFKA-19975)",
        "controller.placement",
        '    needs_all = done == "all-in-sync" or (done == "added-in-sync" and gets_fewer)',
        "    needs_all = True",
        "reassign-beside-a-dead-replica / added-in-sync: records.lost",
    ),
    mutant(
        "isr-shrinks-by-a-move",
        "Since 4.3, too, a reassignment to fewer replicas waits for all of its target (KAFKA-19975)",
        "controller.placement",
        '    needs_all = done == "all-in-sync" or (done == "added-in-sync" and gets_fewer)',
        '    needs_all = done == "all-in-sync"',
        "reassign-beside-a-dead-replica / fewer: event never reassignment_completed of t-0",
    ),
    mutant(
        "removed-replica-keeps-its-epoch",
        "A replica that is taken away takes the leader epoch with it, so that its fetches are fenced (KIP-455)",
        CHANGES,
        " or without(partition.replicas, replicas) else None",
        " else None",
        "reassign-target-dies: S18",
    ),
    mutant(
        "removed-replica-stays-in-the-isr",
        "Who a reassignment removes leaves the ISR as well (S1)",
        "controller.placement",
        "    replicas, isr = reassignment.target, without(in_sync_replicas, reassignment.removing)",
        "    replicas, isr = reassignment.target, in_sync_replicas",
        "reassign-target-dies: event isr_committed of t-0 with isr {b1, b2, b4}, between 130.000 s and 150.000 s",
    ),
    mutant(
        "throttle-hits-the-isr",
        "A throttle leaves replicas alone that are in sync (KIP-73)",
        "cluster.broker.replicas.followed_partition",
        "        is_in_sync = self.lag_records is not None and self.lag_records <= 0",
        "        is_in_sync = False",
        "throttle-below-ingest: event never fetch_throttled with node b3, until 40.000 s",
    ),
)
