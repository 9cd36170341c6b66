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
        "voter-never-asks-first",
        "Since 4.0 a controller asks whether it would be elected before it begins an epoch (Pre-Vote, KIP-996)",
        "controller.quorum.quorum",
        "        return self._pre_votes and bool(self._peers)",
        "        return False",
        "kraft-voter-cut-off / pre-vote: event never election_began, from 10.000 s on",
    ),
    mutant(
        "voter-would-vote-beside-its-leader",
        "A controller that hears its leader would vote for no other (KIP-996)",
        "controller.quorum.quorum",
        "            return request.last >= self._log.end and not has_leader",
        "            return request.last >= self._log.end",
        "test tests/controller/quorum/test_quorum.py::test_who_hears_its_leader_would_vote_for_no_other",
    ),
    mutant(
        "voter-would-vote-for-a-shorter-log",
        "A controller would not vote for a log that ends before its own (KIP-996)",
        "controller.quorum.quorum",
        "            return request.last >= self._log.end and not has_leader",
        "            return not has_leader",
        "test tests/controller/quorum/test_quorum.py::test_nobody_would_vote_for_a_shorter_log",
    ),
    mutant(
        "report-keeps-the-elr",
        "Up to 4.2 the report of a log directory voids the ELR (handleAssignReplicasToDirs)",
        "controller.partitions",
        '        has_elr = self.has_elr and self._rules.elr_on_directory_report == "kept"',
        "        has_elr = self.has_elr",
        "elr-new-disk: verdict",
    ),
    mutant(
        "report-voids-the-elr",
        "Since 4.3 the report of a log directory leaves the ELR alone (apache/kafka#20716)",
        "controller.partitions",
        '        has_elr = self.has_elr and self._rules.elr_on_directory_report == "kept"',
        "        has_elr = False",
        "elr-new-disk / kept: verdict",
    ),
    mutant(
        "new-disk-is-not-reported",
        "A broker whose only directory is new reports the replicas that it had before (KIP-858)",
        "replica.log.broker_logs",
        "        return [manager.is_new for manager in self.directories.values()] == [True]",
        "        return False",
        "elr-new-disk: verdict",
    ),
    mutant(
        "last-leader-is-the-last-member",
        "Who led last is remembered when the leader goes, once, and until there is one again (KIP-966, 4.1.1)",
        "controller.election",
        "    return partition.last_known_elr or ((partition.leader,) if partition.has_leader else ())",
        "    return (partition.leader,) if partition.has_leader else ()",
        "elr-new-disk / another-restart: verdict",
    ),
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
        "        if diverging is None:\n            self.note_progress",
        "        if True:\n            self.note_progress",
        "test tests/controller/quorum/test_quorum.py::"
        "test_a_diverging_fetch_is_told_where_the_logs_part_and_acknowledges_nothing",
    ),
    # ---------------------------------------------------------------------------------- voters that change (KIP-853)
    mutant(
        "lagging-voter-is-added",
        "A new voter has caught up with the leader (AddVoterHandler)",
        QUORUM,
        "        elif not role.progress(change.request.voter).has_caught_up(now_us):",
        "        elif False:",
        "test tests/controller/quorum/test_voter_changes.py::test_an_observer_that_has_not_caught_up_is_not_added",
    ),
    mutant(
        "two-voter-changes-at-once",
        "The next change of the voters waits until the last one is committed (AddVoterHandler, RemoveVoterHandler)",
        "controller.quorum.voters",
        "    if voters.offset >= high_watermark:",
        "    if False:",
        "test tests/controller/quorum/test_voter_changes.py::"
        "test_one_change_is_pending_at_a_time_and_the_next_waits_until_it_is_committed",
    ),
    mutant(
        "new-disk-keeps-the-vote",
        "A controller with a new disk is another voter (ReplicaKey, KIP-853)",
        "controller.quorum.voters",
        "                if voter.voter_id == replica.voter_id and voter.directory_id in (None, replica.directory_id)",
        "                if voter.voter_id == replica.voter_id",
        "test tests/controller/quorum/test_voter_changes.py::test_a_controller_with_a_new_disk_is_no_voter",
    ),
    mutant(
        "vote-is-for-any-disk",
        "A request for a vote names the disk of the voter, and another disk refuses (INVALID_VOTER_KEY)",
        QUORUM,
        "        elif isinstance(request, Vote) and request.directory_id not in (None, self.local.directory_id):",
        "        elif False:",
        "test tests/controller/quorum/test_voter_changes.py::test_a_controller_with_a_new_disk_is_no_voter",
    ),
    mutant(
        "removed-leader-stays",
        "A leader that is removed resigns once that is committed (RemoveVoterHandler.highWatermarkUpdated)",
        QUORUM,
        "        if isinstance(change.request, RemoveVoter) and not self.is_voter:",
        "        if False:",
        "test tests/controller/quorum/test_quorum_transcripts.py::test_transcript[quorum_voters]",
    ),
    mutant(
        "upgrade-without-the-directories",
        "kraft.version rises only once the leader knows the directory of each voter (maybeAppendUpgradedKRaftVersion)",
        QUORUM,
        "        return None if any(voter.directory_id is None for voter in voters) else voters",
        "        return voters",
        "test tests/controller/quorum/test_voter_changes.py::"
        "test_a_leader_upgrades_once_it_knows_the_directory_of_each_voter",
    ),
    mutant(
        "new-disk-joins-beside-the-old",
        "A controller with a new disk removes the voter with its id before it joins (KIP-1186)",
        QUORUM,
        "        earlier = self.voter_set.of_id(self.local_id)",
        "        earlier = None",
        "test tests/controller/quorum/test_quorum_transcripts.py::test_transcript[quorum_auto_join]",
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
