"""What the controller decides: elections, ISR changes, eligible leaders, and its own quorum."""

from __future__ import annotations

from mutant import Mutant, mutant
from mutate import Edit

METADATA = "cluster.broker.metadata.follower"
ELIGIBLE = "controller.election"
QUORUM = "controller.quorum.quorum"
ALTER = "controller.alter_partition"
ELECTION = "controller.election"
CHANGES = "controller.changes"
BROKERS = "controller.brokers"

CONTROL: tuple[Mutant, ...] = (
    # --------------------------------------------------------------------------------------------------- the controller
    mutant(
        "stale-broker-epoch-joins",
        "A proposal made for a replica's earlier life is refused (KIP-903, S6)",
        ALTER,
        "    if broker_epoch not in (NO_BROKER_EPOCH, broker.broker_epoch):",
        "    if False:",
        "alterpartition-empty-disk: S6",
    ),
    Mutant(
        "unfenced-alter-partition",
        "An AlterPartition of an older leader or partition epoch, or from another broker, is refused (KIP-497, S18)",
        (
            Edit(ALTER, "    if proposal.leader_epoch < partition.leader_epoch:", "    if False:"),
            Edit(ALTER, "    if sender != partition.leader:", "    if False:"),
            Edit(ALTER, "    if partition.leader not in isr:", "    if False:"),
            Edit(ALTER, "    if proposal.partition_epoch < partition.partition_epoch:", "    if False:"),
        ),
        ("zombie-proposal: S18",),
    ),
    Mutant(
        "fenced-broker-joins",
        "A broker that is fenced or shuts down cannot join the ISR (KIP-841, S19)",
        (
            Edit(ALTER, "    if broker.fenced:", "    if False:"),
            Edit(ALTER, "    if broker.in_controlled_shutdown:", "    if False:"),
            Edit(
                METADATA,
                "        return broker is not None and broker.is_active and broker_epoch in",
                "        return broker is not None and broker_epoch in",
            ),
        ),
        ("follower-loses-controller: S19",),
    ),
    mutant(
        "sessions-end-in-the-instant",
        "A session that has ended goes on if a heartbeat comes before the next check (KAFKA-17793)",
        "controller.state",
        '        looks_periodically = rules.session_checks == "periodic"',
        "        looks_periodically = False",
        "session-outlived: records.lost",
    ),
    mutant(
        "port-opens-with-the-process",
        "A broker's port opens when it is unfenced, not before (KAFKA-14658)",
        "cluster.broker.broker",
        '            listens_early=base.rules.startup_port == "open",',
        "            listens_early=True,",
        "leader-back-too-soon: records.reordered",
    ),
    mutant(
        "election-outside-the-isr",
        "A clean election takes a member of the ISR (S1, S5)",
        ELECTION,
        "        return broker_id in (self.in_sync_replicas or self.elr) and self.is_acceptable(broker_id)",
        "        return self.is_acceptable(broker_id)",
        "last-replica-standing: S1",
        "min-isr-1-trap: S1",
    ),
    mutant(
        "dead-broker-is-elected",
        "An election takes a live broker (S19)",
        ELECTION,
        "        return broker_id in (self.in_sync_replicas or self.elr) and self.is_acceptable(broker_id)",
        "        return broker_id in (self.in_sync_replicas or self.elr)",
        "last-replica-standing: S19",
        "min-isr-1-trap: S19",
    ),
    mutant(
        "last-member-leaves-the-isr",
        "Without ELR the last member stays in the ISR, or the partition could be led by anyone (S19)",
        CHANGES,
        "    isr = isr or partition.in_sync_replicas\n",
        "    isr = isr or replicas\n",
        "last-replica-standing: S19",
    ),
    mutant(
        "fencing-keeps-leaders",
        "A fenced broker loses its leaderships and its places in the ISR (S19)",
        BROKERS,
        "        self._partitions.remove_broker(broker.broker_id, occasion, cause)\n",
        "",
        "acks1-leader-kill: S19",
    ),
    # -------------------------------------------------------------------------------------- eligible leaders (KIP-966)
    mutant(
        "unclean-restart-stays-eligible",
        "A broker that restarts without a clean shutdown leaves the ELR (KIP-966, S21)",
        ELIGIBLE,
        " and broker_id != struck_out)",
        ")",
        "last-replica-standing / elr-lossy-first: S21",
    ),
    mutant(
        "nobody-becomes-eligible",
        "Who leaves the ISR below min.insync.replicas stays eligible (KIP-966)",
        ELIGIBLE,
        "    candidates = sorted({*partition.elr, *partition.in_sync_replicas})",
        "    candidates = sorted(partition.elr)",
        "last-replica-standing / elr: event elr_committed of t-0 with elr {b3}, between 28.000 s and 30.000 s",
    ),
    mutant(
        "elr-outlives-the-isr",
        "With enough replicas in the ISR there is no ELR (KIP-966, S20)",
        ELIGIBLE,
        "    if len(target_isr) >= min_isr:\n        return ()",
        "    if False:\n        return ()",
        "last-replica-standing / elr: S20",
    ),
    # ------------------------------------------------------------------------------------------- the quorum (KIP-595)
    mutant(
        "vote-for-a-shorter-log",
        "A voter grants no vote to a candidate whose log ends before its own (Raft 5.4.1)",
        QUORUM,
        "        if role.voted_id is None and request.last >= self._log.end:",
        "        if role.voted_id is None:",
        "test tests/controller/quorum/test_quorum.py::test_nobody_votes_for_a_log_that_ends_before_its_own",
    ),
    mutant(
        "two-votes-in-an-epoch",
        "A voter votes once in an epoch (Raft 5.2)",
        QUORUM,
        "        if role.voted_id is None and request.last >= self._log.end:",
        "        if request.last >= self._log.end:",
        "test tests/controller/quorum/test_quorum.py::"
        "test_a_vote_is_given_once_per_epoch_and_remembered_over_a_restart",
    ),
    mutant(
        "vote-is-forgotten",
        "A vote is on disk before it is answered (Raft 5.2)",
        QUORUM,
        "            self._log.write_election(ElectionState(role.epoch, None, role.voted_id))\n",
        "",
        "test tests/controller/quorum/test_quorum.py::"
        "test_a_vote_is_given_once_per_epoch_and_remembered_over_a_restart",
    ),
    mutant(
        "older-epoch-is-committed-alone",
        "A record of an earlier epoch is committed only with one of the leader's own (Raft 5.4.2)",
        QUORUM,
        " and offset > role.epoch_start_offset and",
        " and",
        "test tests/controller/quorum/test_quorum.py::"
        "test_records_of_earlier_epochs_are_committed_with_the_first_of_this_one",
    ),
    mutant(
        "diverging-controller-counts",
        "A controller whose log diverges acknowledges nothing (KIP-595)",
        QUORUM,
        "        if diverging is None and request.replica_id in self._peers:",
        "        if request.replica_id in self._peers:",
        "test tests/controller/quorum/test_quorum.py::"
        "test_a_diverging_fetch_is_told_where_the_logs_part_and_acknowledges_nothing",
    ),
    # ------------------------------------------------------------------------------------------------- the brokers
    mutant(
        "brokers-keep-a-deleted-topic",
        "A broker that reads of a topic's deletion deletes its replicas (TopicsDelta, BrokerMetadataPublisher)",
        METADATA,
        "                    changed.update(dict.fromkeys(TopicPartition(record.name, number) "
        "for number in sorted(deleted)))\n",
        "",
        "topic-deleted / too-late: records.missing",
    ),
)
