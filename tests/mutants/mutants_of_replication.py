"""What makes a record committed: the high watermark, the ISR, and the fetches that acknowledge."""

from __future__ import annotations

from mutant import Mutant, mutant

LEADER = "replica.leader"
FOLLOWER = "replica.follower"
PARTITION = "cluster.broker.replicas.partition"

REPLICATION: tuple[Mutant, ...] = (
    # -------------------------------------------------------------------------------------------- the high watermark
    mutant(
        "hw-ignores-isr",
        "The high watermark waits for every in-sync replica (S4, S5)",
        LEADER,
        "            if broker_id in self.maximal_isr:\n                candidate, joining",
        "            if False:\n                candidate, joining",
        "controller-down-isr-frozen: S4",
        "idempotent-across-failover: S4",
    ),
    mutant(
        "hw-over-the-committed-isr",
        "The high watermark is over the maximal ISR, not the committed one (KIP-497, S7)",
        LEADER,
        "            if broker_id in self.maximal_isr:\n                candidate, joining",
        "            if broker_id in self.in_sync_replicas:\n                candidate, joining",
        "isr-expansion-in-flight: records.lost",
    ),
    mutant(
        "hw-does-not-wait-for-joiners",
        "The high watermark waits for a caught-up replica that may join soon",
        LEADER,
        "            elif self._may_join_soon(broker_id, replica, now_us):",
        "            elif False and self._may_join_soon(broker_id, replica, now_us):",
        "rolling-restart-controlled / too-fast: errors.p1.NOT_ENOUGH_REPLICAS",
    ),
    mutant(
        "shrink-is-assumed",
        "A shrink counts only once the controller has accepted it (Partition.prepareIsrShrink)",
        LEADER,
        "self._propose(remaining, maximal_isr=self.in_sync_replicas, why",
        "self._propose(remaining, maximal_isr=remaining, why",
        "controller-down-isr-frozen: S7",
    ),
    mutant(
        "hw-falls-in-its-epoch",
        "Within an epoch the leader's high watermark never falls (S14)",
        LEADER,
        "        if candidate <= previous:\n            return []",
        "        if candidate == previous:\n            return []",
        "acks0-leader-moved: S14",
    ),
    mutant(
        "new-leader-commits-its-log",
        "A new leader starts from its own high watermark, not from its log end (S4)",
        LEADER,
        "            self.high_watermark = event.high_watermark\n            for broker_id",
        "            self.high_watermark = event.log_end_offset\n            for broker_id",
        "stale-hw-after-failover: "
        "event end_offset_seen with client c1r, error OFFSET_NOT_AVAILABLE, between 15.000 s and 16.000 s",
    ),
    mutant(
        "follower-hw-beyond-its-log",
        "A follower's high watermark stays within its log (S24)",
        FOLLOWER,
        "        if announced > self.log_end_offset:\n",
        "        if False:\n",
        "slow-follower-bandwidth / acks-1: S24",
    ),
    mutant(
        "hw-before-truncation",
        "What a diverging answer says of the high watermark does not count before the cut (S8, S24)",
        FOLLOWER,
        "            return self._diverged(event.diverging)\n",
        "            told = self._set_high_watermark(event.leader_high_watermark, HighWatermarkCause.LEADER)\n"
        "            return [*told, *self._diverged(event.diverging)]\n",
        "acks1-leader-kill: S8",
        "zombie-leader-acks1: S8",
    ),
    # ------------------------------------------------------------------------------------------------ in-sync replicas
    mutant(
        "join-before-the-high-watermark",
        "A replica joins the ISR only once it has reached the high watermark (S6)",
        LEADER,
        "        if self._pending is not None or replica.log_end_offset < self.high_watermark:",
        "        if self._pending is not None:",
        "follower-cut-hw-stall: S6",
    ),
    mutant(
        "never-out-of-sync",
        "A follower that lags for replica.lag.time.max.ms leaves the ISR",
        "replica.isr",
        "        if replica.is_caught_up(log_end_offset, now_us, self.limits.time_max_us):\n            return None",
        "        if True:\n            return None",
        "follower-cut-hw-stall: event isr_committed of t-0 with isr {b1, b2}, between 45.000 s and 46.000 s",
    ),
    mutant(
        "late-answers-count",
        "Only the answer to the proposal in flight counts (S7, S13)",
        LEADER,
        "        return self._pending is not None and (proposal is None or proposal == self._pending)",
        "        return self._pending is not None",
        "test tests/replica/test_leader.py::test_transcript[leader_alter_partition]",
    ),
    mutant(
        "fenced-proposal-is-forgotten",
        "A proposal that was refused for its epoch may have been accepted before: its members still gate (S7, S13)",
        LEADER,
        "        if event.error in AWAIT_METADATA:\n            return []",
        "        if event.error in AWAIT_METADATA:\n"
        "            self._commit(self.in_sync_replicas)\n"
        "            return []",
        "fenced-proposal-still-counts: records.lost",
    ),
    mutant(
        "answer-of-the-next-epoch-counts",
        "An accepted ISR that began a new leader epoch counts from that epoch on (S7, S25)",
        LEADER,
        "        if event.leader_epoch != self.leader_epoch:\n            return []  # This leader epoch",
        "        if False:\n            return []  # This leader epoch",
        "test tests/replica/test_leader.py::test_an_answer_of_the_next_leader_epoch_changes_nothing",
    ),
    mutant(
        "a-larger-minimum-is-not-heard",
        "A leader goes by the min.insync.replicas that its topic has, also when that has changed (S25 min-isr)",
        LEADER,
        "                self.min_insync_replicas = event.min_insync_replicas\n",
        "",
        "test tests/simulation/gaps/test_elr_cleared.py::test_a_leader_commits_by_the_minimum_that_it_knows[in-time]",
    ),
    mutant(
        "refusal-counts-as-acceptance",
        "A refused proposal leaves the ISR as the controller has it (S7)",
        LEADER,
        "        if event.error in NOT_APPLIED:\n            self._commit(self.in_sync_replicas)",
        "        if event.error in NOT_APPLIED:\n            self._commit(proposal.in_sync_replicas)",
        "alterpartition-empty-disk / copied-first: "
        "event isr_committed of t-0 with isr {b1, b2}, between 30.000 s and 35.000 s",
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
        "diverging-fetch: records.lost",
    ),
    mutant(
        "earlier-life-acknowledges",
        "A fetch of a follower's earlier life says nothing of its log now (KIP-903)",
        PARTITION,
        "        check_incarnation("
        "params.peer, params.replica_epoch, self._brokers.alive_broker_epoch(params.replica_id))\n",
        "",
        "test tests/cluster/broker/apis/test_broker_fetch.py::"
        "test_a_fetch_of_an_earlier_life_is_refused_as_soon_as_the_metadata_knows_the_next",
        "stale-fetch-of-a-former-life: "
        "event never follower_fetched with fetch_offset 10, node b1, peer b2, between 25.000 s and 60.000 s",
    ),
    mutant(
        "answers-before-timeouts",
        "After a SIGSTOP what has timed out is given up before the answers are read (NetworkClient.poll)",
        "cluster.network.host",
        "            self._deferred.insert(0, then)",
        "            self._deferred.append(then)",
        "test tests/simulation/test_fabric.py::test_a_paused_process_misses_its_alarm_and_catches_up[20]",
    ),
    mutant(
        "who-is-at-the-end-is-behind",
        "A follower that fetches at the leader's end is caught up, in reports as in Kafka",
        "spark_reports.folds.lag",
        "known = has_end & (offset >= end)",
        "known = has_end & (offset > end)",
        "test tests/spark/folds/test_terms.py::"
        "test_a_follower_is_behind_since_it_had_the_end_of_now_or_of_its_fetch_before",
    ),
    mutant(
        "who-reached-the-last-end-is-behind",
        "A follower that fetches at the end of its fetch before was caught up then",
        "spark_reports.folds.lag",
        "(offset[1:] >= end[:-1])",
        "(offset[1:] > end[:-1])",
        "test tests/spark/folds/test_terms.py::"
        "test_a_follower_is_behind_since_it_had_the_end_of_now_or_of_its_fetch_before",
    ),
)
