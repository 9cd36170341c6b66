"""Safety rules, each with the change of source that takes it out, and what catches the mutant.

The rules are those of replica/RULES.md and the guards of the TLA+ models of Kafka's
replication (hachikuji/kafka-specification, Vanlightly/kafka-tlaplus).
"""

from __future__ import annotations

from dataclasses import dataclass

from mutate import Edit


@dataclass(frozen=True)
class Mutant:
    """caught_by: runs as `mutate.play` names them; each must notice the missing rule."""

    name: str
    rule: str
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]


def mutant(name: str, rule: str, module: str, old: str, new: str, *caught_by: str) -> Mutant:
    return Mutant(name, rule, (Edit(module, old, new),), caught_by)


LEADER, FOLLOWER, PARTITION = "replica.leader", "replica.follower", "cluster.broker.replicas.partition"
LOG, SEGMENT, LOADER, EPOCHS = (
    "replica.log.log",
    "replica.log.segment",
    "replica.log.loader",
    "replica.log.leader_epochs",
)
PRODUCERS, MANAGER = "replica.log.producer_state", "cluster.broker.replicas.manager"
METADATA = "cluster.broker.metadata.follower"
SENDER = "cluster.client.producer.sender"
GROUPS, COMMITS, MEMBERSHIP = "cluster.groups.service", "cluster.groups.commits", "cluster.groups.membership"
COORDINATOR = "cluster.groups.coordinator"
ELIGIBLE, QUORUM = "controller.eligible_leaders", "controller.quorum.quorum"
ALTER, ELECTION, CHANGES, BROKERS = (
    "controller.alter_partition",
    "controller.election",
    "controller.changes",
    "controller.brokers",
)

MUTANTS: tuple[Mutant, ...] = (
    # -------------------------------------------------------------------------------------------- the high watermark
    mutant(
        "hw-ignores-isr",
        "The high watermark waits for every in-sync replica (S4, S5)",
        LEADER,
        "            if broker_id in self.maximal_isr:\n                candidate, joining",
        "            if False:\n                candidate, joining",
        "controller-down-isr-frozen",
        "idempotent-across-failover",
    ),
    mutant(
        "hw-over-the-committed-isr",
        "The high watermark is over the maximal ISR, not the committed one (KIP-497, S7)",
        LEADER,
        "            if broker_id in self.maximal_isr:\n                candidate, joining",
        "            if broker_id in self.in_sync_replicas:\n                candidate, joining",
        "isr-expansion-in-flight",
    ),
    mutant(
        "hw-does-not-wait-for-joiners",
        "The high watermark waits for a caught-up replica that may join soon",
        LEADER,
        "            elif self._may_join_soon(broker_id, replica, now_us):",
        "            elif False and self._may_join_soon(broker_id, replica, now_us):",
        "rolling-restart-controlled / too-fast",
    ),
    mutant(
        "shrink-is-assumed",
        "A shrink counts only once the controller has accepted it (Partition.prepareIsrShrink)",
        LEADER,
        "        return self._propose(remaining, maximal_isr=self.in_sync_replicas, reason=reason)",
        "        return self._propose(remaining, maximal_isr=remaining, reason=reason)",
        "controller-down-isr-frozen",
    ),
    mutant(
        "hw-falls-in-its-epoch",
        "Within an epoch the leader's high watermark never falls (S14)",
        LEADER,
        "        if candidate <= previous:\n            return []",
        "        if candidate == previous:\n            return []",
        "acks0-leader-moved",
    ),
    mutant(
        "new-leader-commits-its-log",
        "A new leader starts from its own high watermark, not from its log end (S4)",
        LEADER,
        "            self.high_watermark = given.high_watermark\n            for broker_id",
        "            self.high_watermark = given.log_end_offset\n            for broker_id",
        "stale-hw-after-failover",
    ),
    mutant(
        "follower-hw-beyond-its-log",
        "A follower's high watermark stays within its log (S24)",
        FOLLOWER,
        "        if told > self.log_end_offset:\n",
        "        if False:\n",
        "slow-follower-bandwidth / acks-1",
    ),
    mutant(
        "hw-before-truncation",
        "What a diverging answer says of the high watermark does not count before the cut (S8, S24)",
        FOLLOWER,
        "            return self._diverged(given.diverging)\n",
        '            told = self._set_high_watermark(given.leader_high_watermark, "of a diverging answer")\n'
        "            return [*told, *self._diverged(given.diverging)]\n",
        "acks1-leader-kill",
        "zombie-leader-acks1",
    ),
    # ------------------------------------------------------------------------------------------------ in-sync replicas
    mutant(
        "join-before-the-high-watermark",
        "A replica joins the ISR only once it has reached the high watermark (S6)",
        LEADER,
        "        if self._pending is not None or replica.log_end_offset < self.high_watermark:",
        "        if self._pending is not None:",
        "follower-cut-hw-stall",
    ),
    mutant(
        "never-out-of-sync",
        "A follower that lags for replica.lag.time.max.ms leaves the ISR",
        "replica.isr_lag",
        "        if replica.is_caught_up(log_end_offset, now_us, self.limits.time_max_us):\n            return None",
        "        if True:\n            return None",
        "follower-cut-hw-stall",
    ),
    mutant(
        "late-answers-count",
        "Only the answer to the proposal in flight counts (S7, S13)",
        LEADER,
        "        return self._pending is not None and (proposal is None or proposal == self._pending)",
        "        return self._pending is not None",
        "test tests/replica/test_leader.py",
    ),
    mutant(
        "fenced-proposal-is-forgotten",
        "A proposal that was refused for its epoch may have been accepted before: its members still gate (S7, S13)",
        LEADER,
        "        if given.error in AWAIT_METADATA:\n            return []",
        "        if given.error in AWAIT_METADATA:\n"
        "            self._commit(self.in_sync_replicas)\n"
        "            return []",
        "fenced-proposal-still-counts",
    ),
    mutant(
        "answer-of-the-next-epoch-counts",
        "An accepted ISR that began a new leader epoch counts from that epoch on (S7, S25)",
        LEADER,
        "        if given.leader_epoch != self.leader_epoch:\n            return []  # This term",
        "        if False:\n            return []  # This term",
        "test tests/replica/test_leader.py",
    ),
    mutant(
        "refusal-counts-as-acceptance",
        "A refused proposal leaves the ISR as the controller has it (S7)",
        LEADER,
        "        if given.error in NOT_APPLIED:\n            self._commit(self.in_sync_replicas)",
        "        if given.error in NOT_APPLIED:\n            self._commit(proposal.in_sync_replicas)",
        "alterpartition-empty-disk / copied-first",
    ),
    mutant(
        "diverging-fetch-counts-as-ack",
        "A fetch that diverges acknowledges nothing (KIP-595, S2)",
        PARTITION,
        "        if divergence is not None:\n            return FetchPartitionResponse(",
        "        if divergence is not None:\n"
        "            if first_time and leader is not None and params.from_follower:\n"
        "                self._follower_fetched(leader, params, entry, end_offset, high_watermark, now_us)\n"
        "            return FetchPartitionResponse(",
        "diverging-fetch",
    ),
    mutant(
        "earlier-life-acknowledges",
        "A fetch of a follower's earlier life says nothing of its log now (KIP-903)",
        PARTITION,
        "        check_life(params.peer, params.replica_epoch, self._brokers.alive_broker_epoch(params.replica_id))\n",
        "",
        "test tests/cluster/broker/apis/test_broker_fetch.py",
        "stale-fetch-of-a-former-life",
    ),
    # --------------------------------------------------------------------------------------------------- the controller
    mutant(
        "stale-broker-epoch-joins",
        "A proposal made for a replica's earlier life is refused (KIP-903, S6)",
        ALTER,
        "    if broker_epoch not in (NO_BROKER_EPOCH, broker.broker_epoch):",
        "    if False:",
        "alterpartition-empty-disk",
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
        ("zombie-proposal",),
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
        ("follower-loses-controller",),
    ),
    mutant(
        "election-outside-the-isr",
        "A clean election takes a member of the ISR (S1, S5)",
        ELECTION,
        "        return broker_id in (self.in_sync_replicas or self.elr) and self.is_acceptable(broker_id)",
        "        return self.is_acceptable(broker_id)",
        "last-replica-standing",
        "min-isr-1-trap",
    ),
    mutant(
        "dead-broker-is-elected",
        "An election takes a live broker (S19)",
        ELECTION,
        "        return broker_id in (self.in_sync_replicas or self.elr) and self.is_acceptable(broker_id)",
        "        return broker_id in (self.in_sync_replicas or self.elr)",
        "last-replica-standing",
        "min-isr-1-trap",
    ),
    mutant(
        "last-member-leaves-the-isr",
        "Without ELR the last member stays in the ISR, or the partition could be led by anyone (S19)",
        CHANGES,
        "    isr = isr or partition.in_sync_replicas\n",
        "    isr = isr or replicas\n",
        "last-replica-standing",
    ),
    mutant(
        "fencing-keeps-leaders",
        "A fenced broker loses its leaderships and its places in the ISR (S19)",
        BROKERS,
        '        self._partitions.remove_broker(broker.broker_id, f" after {what_happened}", cause)\n',
        "",
        "acks1-leader-kill",
    ),
    # -------------------------------------------------------------------------------------- eligible leaders (KIP-966)
    mutant(
        "unclean-restart-stays-eligible",
        "A broker that restarts without a clean shutdown leaves the ELR (KIP-966, S21)",
        ELIGIBLE,
        " and broker_id != struck_out)",
        ")",
        "last-replica-standing / elr-lossy-first",
    ),
    mutant(
        "nobody-becomes-eligible",
        "Who leaves the ISR below min.insync.replicas stays eligible (KIP-966)",
        ELIGIBLE,
        "    candidates = sorted({*partition.elr, *partition.in_sync_replicas})",
        "    candidates = sorted(partition.elr)",
        "last-replica-standing / elr",
    ),
    mutant(
        "elr-outlives-the-isr",
        "With enough replicas in the ISR there is no ELR (KIP-966, S20)",
        ELIGIBLE,
        "    if len(target_isr) >= min_isr:\n        return ()",
        "    if False:\n        return ()",
        "last-replica-standing / elr",
    ),
    # ------------------------------------------------------------------------------------------- the quorum (KIP-595)
    mutant(
        "vote-for-a-shorter-log",
        "A voter grants no vote to a candidate whose log ends before its own (Raft 5.4.1)",
        QUORUM,
        "        if role.voted_id is None and request.last >= self._log.end:",
        "        if role.voted_id is None:",
        "test tests/controller/quorum/test_quorum.py",
    ),
    mutant(
        "two-votes-in-an-epoch",
        "A voter votes once in an epoch (Raft 5.2)",
        QUORUM,
        "        if role.voted_id is None and request.last >= self._log.end:",
        "        if request.last >= self._log.end:",
        "test tests/controller/quorum/test_quorum.py",
    ),
    mutant(
        "vote-is-forgotten",
        "A vote is on disk before it is answered (Raft 5.2)",
        QUORUM,
        "            self._log.write_election(ElectionState(role.epoch, None, role.voted_id))\n",
        "",
        "test tests/controller/quorum/test_quorum.py",
    ),
    mutant(
        "older-epoch-is-committed-alone",
        "A record of an earlier epoch is committed only with one of the leader's own (Raft 5.4.2)",
        QUORUM,
        " and offset > role.epoch_start_offset and",
        " and",
        "test tests/controller/quorum/test_quorum.py",
    ),
    mutant(
        "diverging-controller-counts",
        "A controller whose log diverges acknowledges nothing (KIP-595)",
        QUORUM,
        "        if diverging is None and request.replica_id in self._peers:",
        "        if request.replica_id in self._peers:",
        "test tests/controller/quorum/test_quorum.py",
    ),
    # ------------------------------------------------------------------------------------------------------- the logs
    mutant(
        "leader-tells-no-divergence",
        "The leader tells a follower where their logs part (KIP-595, S8, S9)",
        PARTITION,
        "        if entry.last_fetched_epoch == UNDEFINED_EPOCH:\n            return None\n        divergence =",
        "        if True:\n            return None\n        divergence =",
        "acks1-leader-kill",
        "zombie-leader-acks1",
    ),
    mutant(
        "epochs-survive-truncation",
        "Truncation forgets the epochs that begin after the cut (S15)",
        EPOCHS,
        "        keep = bisect_left(self._starts, end_offset)\n",
        "        keep = len(self._starts)\n",
        "test tests/replica/log/test_leader_epochs.py",
    ),
    mutant(
        "producers-survive-truncation",
        "Truncation forgets the producers' batches that it removes (KIP-98)",
        LOG,
        "(offset)\n        self._rebuild_producers()\n        return offset",
        "(offset)\n        return offset",
        "truncated-batch-comes-again",
    ),
    mutant(
        "recovery-point-survives-truncation",
        "What is appended after a cut is not on the disk because its offset once was (S27)",
        LOG,
        "        self.recovery_point = min(self.recovery_point, offset)\n",
        "",
        "fsync-after-truncation",
    ),
    mutant(
        "recovery-without-crc",
        "Recovery checks every batch (S27)",
        SEGMENT,
        "        if not check_crc(chunk, within, header):",
        "        if False:",
        "test tests/replica/log/test_recovery.py",
    ),
    mutant(
        "no-recovery",
        "After an unclean stop the unflushed segments are checked (S27)",
        LOADER,
        "(not clean and segment.base_offset >= unflushed_from)",
        "False",
        "test tests/replica/log/test_recovery.py",
    ),
    mutant(
        "partial-batch-is-kept",
        "Recovery cuts a batch that is not whole (S27)",
        SEGMENT,
        "        self.size = position\n        if position < file_size:",
        "        self.size = file_size\n        if False:",
        "torn-tail-follower",
    ),
    mutant(
        "newer-epoch-in-an-old-fetch",
        "A follower drops batches of a newer epoch than the one it fetched in (KAFKA-18723, S9)",
        LOG,
        "        headers, size_bytes = whole_batches(data, max_leader_epoch)",
        "        headers, size_bytes = whole_batches(data, None)",
        "sendfile-meets-truncation",
        "test tests/replica/log/test_log.py",
    ),
    # -------------------------------------------------------------------------------------------- moving and throttling
    mutant(
        "reassignment-completes-too-early",
        "A reassignment is complete once every replica of its target is in the ISR (KIP-455)",
        "controller.reassignment",
        "    if not replicas or not isr or without(replicas, isr):",
        "    if not replicas or not isr:",
        "reassign-target-dies",
    ),
    mutant(
        "removed-replica-keeps-its-epoch",
        "A replica that is taken away takes the leader epoch with it, so that its fetches are fenced (KIP-455)",
        CHANGES,
        " or without(partition.replicas, replicas) else None",
        " else None",
        "reassign-target-dies",
    ),
    mutant(
        "removed-replica-stays-in-the-isr",
        "Who a reassignment removes leaves the ISR as well (S1)",
        "controller.reassignment",
        "    replicas, isr = reassignment.target, without(in_sync_replicas, reassignment.removing)",
        "    replicas, isr = reassignment.target, in_sync_replicas",
        "reassign-target-dies",
    ),
    mutant(
        "throttle-hits-the-isr",
        "A throttle leaves replicas alone that are in sync (KIP-73)",
        "cluster.broker.replicas.followed_partition",
        "        is_in_sync = self.lag_records is not None and self.lag_records <= 0",
        "        is_in_sync = False",
        "throttle-below-ingest",
    ),
    # ------------------------------------------------------------------------------------------------------- producing
    mutant(
        "acks-all-does-not-wait",
        "acks=all is answered once every in-sync replica has the records (S25)",
        MANAGER,
        "        if required_acks == ACKS_ALL and appended:",
        "        if False:",
        "acks1-leader-kill / acks-all",
    ),
    mutant(
        "min-isr-is-not-asked",
        "acks=all is refused below min.insync.replicas, before the append",
        LEADER,
        "        if required_acks == ACKS_ALL and len(self.in_sync_replicas) < self.effective_min_isr:",
        "        if False:",
        "min-isr-equals-rf",
    ),
    mutant(
        "deposed-leader-answers",
        "Who waits for acks=all hears NOT_LEADER_OR_FOLLOWER when the leader is deposed",
        MANAGER,
        "            elif partition.leader is None:\n                status = ErrorCode.NOT_LEADER_OR_FOLLOWER",
        "            elif partition.leader is None:\n                status = ErrorCode.NONE",
        "gc-pause-leader-zombie / acks-all",
    ),
    mutant(
        "duplicates-are-not-known",
        "A repeated batch of an idempotent producer is recognised (KIP-98, S26)",
        PRODUCERS,
        "            if cached.first_sequence == batch.base_sequence and cached.last_sequence == last_sequence:",
        "            if False:",
        "idempotent-across-failover",
    ),
    mutant(
        "sequences-are-not-checked",
        "A gap in a producer's sequence is refused (KIP-98, S26)",
        PRODUCERS,
        "        if batch.base_sequence != expected:",
        "        if False:",
        "reorder-inflight / idempotent",
        "idempotent-sequence-gap",
    ),
    mutant(
        "dedup-state-only-on-the-leader",
        "Followers keep producer state from the batches they replicate (S26)",
        LOG,
        "        return self._append(whole, tuple(headers), size_bytes, now_us)",
        "        before, self.producers.update = self.producers.update, lambda header: None  # type: ignore\n"
        "        try:\n"
        "            return self._append(whole, tuple(headers), size_bytes, now_us)\n"
        "        finally:\n"
        "            self.producers.update = before  # type: ignore",
        "idempotent-across-failover",
    ),
    # -------------------------------------------------------------------------------------------------------- consuming
    mutant(
        "consumers-read-uncommitted",
        "A consumer reads below the high watermark (S28)",
        PARTITION,
        "        upper_offset = end_offset if params.from_follower else self.consumer_limit\n",
        "        upper_offset = end_offset\n",
        "follower-cut-hw-stall",
    ),
    mutant(
        "any-epoch-may-fetch",
        "A fetch of another leader epoch is refused (KIP-320, S2, S3)",
        PARTITION,
        "check_leader_epoch(self._rules, entry.current_leader_epoch, self.leader_epoch)\n        if params",
        "if params",
        "zombie-leader-acks1",
    ),
    mutant(
        "end-offset-goes-back",
        "A new leader does not tell the end before it has reached its predecessor's (KIP-207)",
        PARTITION,
        "        if self._rules.list_offsets_guard and leader.high_watermark < leader.leader_epoch_start_offset:",
        "        if False:",
        "stale-hw-after-failover",
    ),
    mutant(
        "heartbeat-of-an-earlier-life-counts",
        "A heartbeat speaks for the registration whose epoch it names (KIP-631)",
        BROKERS,
        "        if stale is not None:\n            self._journal.reply(HeartbeatReply(",
        "        if False:\n            self._journal.reply(HeartbeatReply(",
        "stop-of-a-former-life",
    ),
    # --------------------------------------------------------------------------------------------------------- producer
    mutant(
        "one-in-flight-is-per-connection",
        "With one request in flight a partition waits for its batch, whichever broker that went to (KAFKA-3197)",
        SENDER,
        "config.max_in_flight_requests_per_connection == 1",
        "False",
        "one-in-flight-two-leaders",
        "test tests/cluster/client/producer/test_producer.py",
    ),
    # ----------------------------------------------------------------------------------------------------------- groups
    mutant(
        "commits-count-at-once",
        "A committed offset counts once every in-sync replica has it",
        COMMITS,
        "        group.offsets.prepare(fitting)\n",
        "        group.offsets.prepare(fitting)\n        group.offsets.appended(fitting, 0)\n",
        "test tests/cluster/groups/test_groups_broker.py",
    ),
    mutant(
        "commits-wait-for-nobody",
        "A commit is answered once every in-sync replica has it (offsets.commit.required.acks=-1)",
        GROUPS,
        "0 if action.write is None else ACKS_ALL",
        "0 if action.write is None else 1",
        "test tests/cluster/groups/test_groups_broker.py",
    ),
    mutant(
        "coordinator-does-not-read",
        "A new coordinator reads its groups from the log",
        GROUPS,
        "        for header, batch in batches:\n",
        "        for header, batch in ():\n",
        "test tests/cluster/groups/test_groups_broker.py",
    ),
    mutant(
        "deposed-coordinator-speaks",
        "Who leads the partition no more coordinates its groups no more",
        COORDINATOR,
        "        self.index.owned.pop(given.partition, None)\n",
        "",
        "test tests/cluster/groups/test_groups.py",
        "test tests/cluster/groups/test_groups_broker.py",
    ),
    mutant(
        "earlier-generation-commits",
        "A member of an earlier generation commits nothing",
        COORDINATOR,
        "        if given.generation != group.generation:\n            return ErrorCode.ILLEGAL_GENERATION\n",
        "",
        "test tests/cluster/groups/test_groups.py",
    ),
    mutant(
        "static-members-are-not-fenced",
        "Of two with one group.instance.id the earlier one is fenced (KIP-345)",
        MEMBERSHIP,
        "        if current != member_id:\n            return ErrorCode.FENCED_INSTANCE_ID\n",
        "",
        "test tests/cluster/groups/test_groups.py",
    ),
)
