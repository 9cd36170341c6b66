"""Transactions, their coordinator and their readers; and the groups whose coordinator assigns (KIP-848)."""

from __future__ import annotations

from mutant import Mutant, mutant

LOG = "replica.log.log"
PRODUCERS = "replica.log.producers.producer_state"
OPEN = "replica.log.producers.open_transactions"
INDEX = "replica.log.producers.transaction_index"
COORDINATOR = "cluster.transactions.coordinator"
ENDING = "cluster.transactions.ending"
TRANSACTION = "cluster.transactions.transaction"
OF_DELETIONS = "test tests/cluster/groups/test_group_deletions.py::"
MEMBERSHIP, STEPS = "cluster.groups.consumer_membership", "cluster.groups.consumer_steps"
MIGRATION, CLASSIC_MEMBERS = "cluster.groups.migration", "cluster.groups.classic_members"
MEMBER = "cluster.client.consumer.member_state"
RETENTION = "replica.log.retention"
TRANSCRIPTS = "test tests/cluster/transactions/test_transactions.py::test_transcript"
OF_GROUPS = "test tests/cluster/groups/test_groups.py::test_transcript"
OF_MEMBERS = "test tests/cluster/client/consumer/test_member_state.py::"
OF_LOGS = "test tests/replica/log/test_log_transactions.py::"
OF_QUESTIONS = "test tests/cluster/transactions/test_verification.py::"
OF_BROKERS = "test tests/cluster/broker/apis/transactions/test_transactional_log.py::"

TRANSACTIONS: tuple[Mutant, ...] = (
    # --------------------------------------------------------------------------------------------------------- the log
    mutant(
        "older-epoch-writes",
        "A batch of an older producer epoch is refused, and not for its sequence alone (KIP-98)",
        PRODUCERS,
        "    if producer_epoch < entry.epoch:\n",
        "    if False:\n",
        "txn-producer-id-expires / remembered: "
        "event batch_refused with client p1, error INVALID_PRODUCER_EPOCH, from 40.000 s on",
    ),
    mutant(
        "zombies-write",
        "A leader compares a batch with what it knows of its producer (S31)",
        PRODUCERS,
        "        _check_epoch(entry, **_sender(batch))\n        if from_client:\n"
        "            _check_sequence(entry, batch)\n",
        "",
        "txn-producer-id-expires / remembered: S31",
    ),
    mutant(
        "no-coordinator-is-looked-for-for-ever",
        "A producer without a coordinator looks again only after an error that may pass (FindCoordinatorHandler)",
        "cluster.client.producer.transactions",
        "        if error is ErrorCode.NONE or error in RETRIABLE:\n            return\n",
        "        if error is not ErrorCode.TRANSACTION_ABORTABLE:\n            return\n",
        "test tests/simulation/clients/test_fatal_transactions.py::"
        "test_where_there_are_no_transactions_the_producer_learns_it_once_and_all_its_records_fail[kafka-0.10]",
    ),
    mutant(
        "a-leader-asks-for-ever",
        "A leader asks the coordinator again for add.partitions.to.txn.retry.backoff.max.ms only",
        "cluster.transactions.verification",
        " and now_us < asked.until_us:",
        ":",
        OF_QUESTIONS
        + "test_a_producer_is_told_of_the_transaction_before_once_the_leader_has_asked_long_enough[100-True]",
    ),
    mutant(
        "questions-of-a-producer-queue-up",
        "Of a producer's questions to the coordinator the last one travels",
        "cluster.transactions.verification",
        "        if earlier is not None:\n            is_fenced",
        "        if False:\n            is_fenced",
        OF_QUESTIONS + "test_of_a_producer_one_question_waits_for_the_next_request[3-told0]",
    ),
    mutant(
        "older-coordinator-ends",
        "A marker of an older coordinator epoch is refused",
        PRODUCERS,
        "        if marker.coordinator_epoch < entry.coordinator_epoch:\n",
        "        if False:\n",
        OF_LOGS + "test_an_older_coordinator_and_an_older_producer_end_nothing",
    ),
    mutant(
        "open-transactions-are-stable",
        "The last stable offset stands at the first record of an open transaction (S32)",
        LOG,
        "        if not transactions.ongoing and not transactions.unreplicated:\n",
        "        if True:\n",
        "txn-reader-held-up: S32",
    ),
    mutant(
        "markers-count-at-once",
        "A transaction is unstable until its marker is replicated (S32)",
        OPEN,
        "        self.unreplicated[completed.first_offset] = completed.last_offset\n",
        "",
        OF_LOGS + "test_a_marker_above_the_high_watermark_leaves_its_transaction_unstable",
    ),
    mutant(
        "aborts-are-not-indexed",
        "An ABORT marker puts its transaction into the index of aborted ones",
        LOG,
        "        if completed.is_aborted:\n",
        "        if False:\n",
        "txn-aborted-seen: event never record_read with record r5",
    ),
    mutant(
        "index-is-never-complete",
        "The search for aborted transactions ends where none in a later segment can overlap",
        INDEX,
        "            if aborted.last_stable_offset >= upper_offset:\n",
        "            if False:\n",
        OF_LOGS + "test_the_search_ends_where_nothing_more_can_overlap",
    ),
    mutant(
        "reader-keeps-what-was-aborted",
        "A reader of committed records leaves out the batches of aborted transactions",
        "cluster.client.consumer.aborted",
        "        return header.is_transactional and header.producer_id in self._open\n",
        "        return False\n",
        "txn-aborted-seen: event never record_read with record r5",
    ),
    mutant(
        "producer-expires-in-its-transaction",
        "A producer is not forgotten while its transaction is open",
        PRODUCERS,
        "        return entry.transaction_offset is None and now_ms",
        "        return now_ms",
        OF_LOGS + "test_a_producer_with_an_open_transaction_does_not_expire",
    ),
    # ---------------------------------------------------------------------------------------------------- verification
    mutant(
        "nothing-is-verified",
        "A transaction's first batch needs the guard of the question to the coordinator (KIP-890)",
        PRODUCERS,
        "        if not self.has_ongoing_transaction(batch.producer_id, batch.producer_epoch):\n",
        "        if False:\n",
        OF_BROKERS + "test_a_batch_that_is_late_begins_no_transaction",
    ),
    mutant(
        "markers-leave-guards",
        "A marker makes the answers worthless that were asked for before it (VerificationGuard)",
        PRODUCERS,
        "        self.verifications.ended(batch.producer_id, batch.producer_epoch)\n        first_offset",
        "        first_offset",
        OF_LOGS + "test_a_marker_between_question_and_append_makes_the_answer_worthless",
    ),
    mutant(
        "markers-take-guards-of-the-next",
        "With transaction.version 2 the marker of the transaction before takes no guard of the next one",
        "replica.log.producers.verification",
        " and not (state.supports_epoch_bump and state.epoch == producer_epoch):",
        ":",
        OF_LOGS + "test_the_marker_of_the_transaction_before_takes_no_guard_where_each_has_its_epoch[1-True]",
    ),
    mutant(
        "older-epochs-are-asked-about",
        "A leader of 4.1 asks no coordinator about an older epoch than its log has (KAFKA-18042)",
        "cluster.broker.replicas.transaction_checks",
        "        if self._adds:\n            partition.log.producers.check_epoch(producer_id, producer_epoch)\n",
        "",
        OF_BROKERS + "test_of_a_batch_of_an_older_epoch_the_coordinator_is_not_asked[4.1-0]",
    ),
    mutant(
        "every-partition-is-in-it",
        "A coordinator says that a partition is in a transaction only if it is",
        COORDINATOR,
        "ErrorCode.NONE if name in inside else ErrorCode.TRANSACTION_ABORTABLE",
        "ErrorCode.NONE",
        "txn-hanging / verified: event record_read with record s0",
    ),
    # ---------------------------------------------------------------------------------------------------- coordinator
    mutant(
        "any-epoch-adds",
        "An instance of an older epoch adds nothing to a transaction",
        COORDINATOR,
        "        if transaction.producer_epoch != given.producer_epoch:\n",
        "        if False:\n",
        TRANSCRIPTS + "[transactions_fencing]",
    ),
    mutant(
        "decisions-are-forgotten",
        "A new coordinator sends the markers of what its predecessor had decided",
        COORDINATOR,
        "            if transaction.state in PREPARED:\n                self._endings",
        "            if False:\n                self._endings",
        "txn-coordinator-dies: event transaction_state_changed with state CompleteCommit, from 8.000 s on",
    ),
    mutant(
        "transactions-never-time-out",
        "A transaction that is open for longer than transaction.timeout.ms is aborted",
        COORDINATOR,
        "            if is_open and transaction.started_ms + transaction.timeout_ms < now_ms:\n",
        "            if False:\n",
        "txn-reader-held-up: event record_read with record s0, between 30.000 s and 45.000 s",
    ),
    mutant(
        "a-fence-leaves-the-epoch",
        "A coordinator that ends a transaction by itself raises the producer's epoch",
        TRANSACTION,
        "        bumped = self.producer_epoch if self.has_failed_epoch_fence else self.producer_epoch + 1\n",
        "        bumped = self.producer_epoch\n",
        TRANSCRIPTS + "[transactions_fencing]",
    ),
    mutant(
        "an-end-leaves-the-epoch",
        "With transaction.version 2 each end raises the producer's epoch (KIP-890)",
        TRANSACTION,
        "        if bumps:\n",
        "        if False:\n",
        TRANSCRIPTS + "[transactions_v2]",
    ),
    mutant(
        "complete-before-the-markers",
        "A transaction is complete once every partition has its marker",
        ENDING,
        "        if transit is not None and not transaction.partitions:\n",
        "        if transit is not None:\n",
        TRANSCRIPTS + "[transactions_commit]",
    ),
    mutant(
        "every-marker-commits",
        "The markers say what was decided (S30)",
        ENDING,
        "                    commit=transaction.state is State.PREPARE_COMMIT,\n",
        "                    commit=True,\n",
        "txn-aborted-seen: S30",
    ),
    mutant(
        "commit-and-abort-are-the-same",
        "A decision to commit is not answered when an abort is asked for again",
        ENDING,
        "    if transaction.state is ended and (is_repeated or not by_new_rules):\n",
        "    if is_repeated or not by_new_rules:\n",
        TRANSCRIPTS + "[transactions_commit]",
    ),
    # ------------------------------------------------------------------------------------------------------- producer
    mutant(
        "sequences-of-a-refused-batch-are-lost",
        "A transactional producer gives the sequence of a refused batch to the next one",
        "cluster.client.producer.idempotence",
        "            self._sequences(tp).close_up(batch)\n",
        "            pass\n",
        "test tests/cluster/client/producer/test_producer_parts.py::"
        "test_a_transactional_producer_gives_the_sequence_of_a_refused_batch_to_the_next",
    ),
    mutant(
        "the-next-transaction-looks-like-a-zombie",
        "An EndTxn that comes while markers are under way is to be tried again, whatever its epoch (KAFKA-18464)",
        ENDING,
        "    if waits_first and transaction.pending is not None:\n",
        "    if False:\n",
        TRANSCRIPTS + "[transactions_v2]",
    ),
    # --------------------------------------------------------------------------------------------- groups of KIP-848
    mutant(
        "older-member-epoch-heartbeats",
        "A member that names another epoch than the coordinator knows is fenced",
        MEMBERSHIP,
        "    if said > known or not may_have_missed_it:\n",
        "    if False:\n",
        OF_GROUPS + "[groups_consumers]",
    ),
    mutant(
        "older-member-epoch-commits",
        "A zombie member's commit is refused: its epoch is stale",
        "cluster.groups.coordinator",
        "    if member.epoch == epoch:\n        return ErrorCode.NONE\n",
        "    if True:\n        return ErrorCode.NONE\n",
        OF_GROUPS + "[groups_consumers]",
        "group-zombie-commits / epoch-moved: S35",
    ),
    mutant(
        "partitions-are-given-twice",
        "A partition is given to a member once its holder has given it up",
        STEPS,
        "lambda one: group.holder(one) is None",
        "lambda one: True",
        OF_GROUPS + "[groups_consumers]",
        "group-one-stalls / consumer: S34",
    ),
    mutant(
        "silent-members-stay",
        "A member that sends no heartbeat for the session timeout is out",
        STEPS,
        "            if member is not None:\n                self._give_up(group, member, why, ended_us)",
        "            if False:\n                self._give_up(group, member, why, ended_us)",
        OF_GROUPS + "[groups_consumers]",
    ),
    mutant(
        "other-topics-are-no-new-epoch",
        "A group whose topics have changed, by the hash of its last epoch, has a new epoch (KIP-1101)",
        STEPS,
        "        if raised or metadata_hash != group.metadata_hash:\n",
        "        if raised:\n",
        OF_GROUPS + "[groups_consumers]",
        "test tests/cluster/groups/test_consumer_records.py::test_a_broker_in_another_rack_is_a_new_epoch",
    ),
    mutant(
        "new-topics-are-not-looked-for",
        "The patterns of a group are looked up again when a topic was made",
        "cluster.groups.pattern_subscriptions",
        "            or last.version < self._topics.version_of_newest\n",
        "",
        OF_GROUPS + "[groups_consumers]",
    ),
    mutant(
        "the-topics-of-kafka-4-0-stay",
        "What Kafka 4.0 has kept of a group's topics goes with the first heartbeat",
        STEPS,
        "        if group.has_topics_record:\n",
        "        if False:\n",
        "test tests/cluster/groups/test_consumer_records.py::"
        "test_what_kafka_4_0_kept_of_the_topics_goes_with_the_first_heartbeat",
    ),
    mutant(
        "deleted-groups-leave-offsets-in-transactions",
        "A group that is deleted takes along what open transactions have committed",
        "cluster.groups.commits",
        "self.delete_of_consumers(group, group.offsets.names, why",
        "self.delete_of_consumers(group, list(group.offsets.committed), why",
        OF_DELETIONS + "test_a_group_that_is_deleted_takes_the_offsets_of_an_open_transaction_along",
    ),
    mutant(
        "groups-are-gone-though-it-is-not-written",
        "A group of KIP-848 whose end cannot be written stays",
        "cluster.groups.deletions",
        "            if not is_in_log and self._index.find(group.group_id) is None:\n",
        "            if False:\n",
        OF_DELETIONS + "test_a_group_whose_end_cannot_be_written_is_still_there",
    ),
    # -------------------------------------------------------------------------------- both protocols in one group
    mutant(
        "groups-change-their-protocol-in-spite-of-the-policy",
        "A classic group becomes a consumer group where group.consumer.migration.policy allows it",
        MIGRATION,
        "consumer_migration_policy not in UPGRADES",
        "consumer_migration_policy in ()",
        OF_GROUPS + "[groups_migration_refused]",
        "group-changes-protocol / disabled: event never group_migrated",
    ),
    mutant(
        "data-of-an-assignor-of-ones-own-is-dropped",
        "A classic group whose assignor keeps data of its own does not become a consumer group",
        MIGRATION,
        "        if given.user_data_bytes:\n",
        "        if False:\n",
        OF_GROUPS + "[groups_migration_refused]",
    ),
    mutant(
        "an-upgrade-that-is-not-written-stays",
        "A change of the protocol that cannot be written has not happened",
        MIGRATION,
        "        change.take_back_with(partial(self._take_back_upgrade, fresh, classic))\n",
        "",
        OF_GROUPS + "[groups_migration_failures]",
    ),
    mutant(
        "a-downgrade-without-a-rebalance",
        "The classic members that are left of a consumer group join again, and divide what the one that left had",
        MIGRATION,
        "        if joining is None:\n",
        "        if False:\n",
        OF_GROUPS + "[groups_migration]",
    ),
    mutant(
        "a-consumer-group-of-classic-members-alone",
        "A consumer group whose last member of KIP-848 goes is a classic group",
        MIGRATION,
        "classic_left == left and",
        "classic_left < 0 and",
        OF_GROUPS + "[groups_migration]",
    ),
    mutant(
        "classic-members-are-not-told-of-a-later-epoch",
        "A heartbeat tells a classic member of a consumer group that it is to join again",
        CLASSIC_MEMBERS,
        "            member.epoch < group.epoch\n",
        "            False\n",
        OF_GROUPS + "[groups_migration]",
        "group-changes-protocol: event record_read with client n1, between 26.000 s and 28.000 s",
    ),
    mutant(
        "classic-members-are-told-before-what-they-wait-for-is-free",
        "A classic member that waits is told to join again once what it is to have is free",
        CLASSIC_MEMBERS,
        "not group.waits_for_others(member)",
        "True",
        OF_GROUPS + "[groups_migration_timeouts]",
    ),
    mutant(
        "classic-members-need-not-join-in-time",
        "A classic member that was told to join again and does not is out after its rebalance timeout",
        STEPS,
        "            group.joins[member.member_id] = self._desk.after(timeout_ms, end, now_us)\n",
        "            pass\n",
        OF_GROUPS + "[groups_migration_timeouts]",
    ),
    mutant(
        "members-do-not-say-what-they-have-given-up",
        "A member says with its next heartbeat what it reads, once that has changed (KIP-848)",
        MEMBER,
        '        if says_all or self._said.get("current") != self.current:\n',
        "        if says_all:\n",
        OF_MEMBERS + "test_a_heartbeat_says_what_is_new",
        "group-coordinator-dies / consumer: records.acked",
    ),
    mutant(
        "fenced-members-keep-their-epoch",
        "A fenced member joins anew, as one that has nothing (KIP-848)",
        MEMBER,
        "            self._enter(ClientMemberState.FENCED)\n            self.epoch = JOIN_EPOCH\n",
        "            self._enter(ClientMemberState.FENCED)\n",
        OF_MEMBERS + "test_a_fenced_member_reads_until_the_application_polls_and_then_joins_anew",
    ),
    mutant(
        "cooperative-members-take-at-once",
        "A partition goes to another member of a cooperative group once its owner has given it up (KIP-429)",
        "cluster.client.consumer.assignors",
        "[one for one in numbers if one not in moving]",
        "list(numbers)",
        "test tests/cluster/client/consumer/test_assignors.py::test_what_moves_goes_to_nobody_before_it_is_given_up",
    ),
    mutant(
        "a-dead-coordinator-is-asked-for-ever",
        "A member that cannot reach its coordinator asks who it is by now",
        "cluster.client.coordinators",
        "        if coordinator.is_apart and self._connections.is_unavailable(node_id, now_us):\n",
        "        if False:\n",
        "test tests/cluster/client/test_coordinator_requests.py::"
        "test_one_with_a_connection_of_its_own_is_looked_for_again_when_it_cannot_be_reached",
        "group-coordinator-dies / consumer: records.acked",
    ),
    # ------------------------------------------------------------------------------------------------------ retention
    mutant(
        "retention-takes-what-is-not-committed",
        "Retention takes nothing above the high watermark (S14)",
        RETENTION,
        "        if end > high_watermark or is_empty_end",
        "        if is_empty_end",
        "test tests/replica/log/test_retention.py::test_what_goes[not what is not committed]",
    ),
    mutant(
        "retention-skips-the-young",
        "A segment that is young keeps those behind it",
        RETENTION,
        " or not goes(segment):\n            break\n        count += 1",
        " or not goes(segment):\n            continue\n        count += 1",
        "test tests/replica/log/test_retention.py::test_an_old_segment_behind_a_young_one_stays",
    ),
    mutant(
        "undone-work-is-no-loss",
        "An output that is not there, while its input is done, is lost",
        "scenarios.observe.ledger",
        "        return name in self.promised and ",
        "        return False and ",
        "ctp-killed / offsets-before: records.lost",
    ),
)
