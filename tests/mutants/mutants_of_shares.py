"""Guards of share groups (KIP-932): who settles which record, and which write of which leader counts."""

from __future__ import annotations

from mutant import Mutant, mutant

PARTITION, COORDINATOR = "cluster.share.partition", "cluster.share.coordinator"
OF_PARTITIONS = "test tests/cluster/groups/test_share_partitions.py::"
OF_COORDINATOR = "test tests/cluster/groups/test_share_coordinator.py::"
SESSIONS, OFFSETS, LETTERS = "cluster.share.sessions", "cluster.groups.share_offsets", "cluster.share.dead_letters"
OF_SESSIONS = "test tests/cluster/groups/test_share_sessions.py::"
OF_OFFSETS = "test tests/cluster/groups/test_share_offsets.py::"
OF_REQUESTS = "test tests/cluster/broker/apis/groups/test_share_group_requests.py::"
OF_LETTERS = "test tests/cluster/broker/apis/groups/test_dead_letters.py::"
OF_GUARDS = "test tests/cluster/authorization/test_guards.py::"
CHANGED_OFFSETS = "test_start_offsets_of_a_share_group_are_changed_for_topics_that_the_client_may_read"

OF_SHARES: tuple[Mutant, ...] = (
    mutant(
        "who-has-no-record-settles-it",
        "Only the member that has acquired a record settles it",
        PARTITION,
        "                if record.member != member:\n",
        "                if False:\n",
        OF_PARTITIONS + "test_only_the_member_that_has_a_record_settles_it_and_once",
    ),
    mutant(
        "a-bad-record-comes-for-ever",
        "A record that was delivered group.share.delivery.count.limit times is archived (S36)",
        PARTITION,
        "        return record.delivery_count >= self._limits().delivery_limit\n",
        "        return False\n",
        OF_PARTITIONS + "test_a_bad_record_is_delivered_with_ever_fewer_and_last_alone",
    ),
    mutant(
        "locks-do-not-expire",
        "A record whose lock has expired is delivered again",
        PARTITION,
        "                if record.state is RecordState.ACQUIRED and record.lock_us is not None and "
        "record.lock_us <= now_us:\n",
        "                if False:\n",
        OF_PARTITIONS + "test_an_expired_lock_releases_and_a_renewed_one_does_not",
    ),
    mutant(
        "unwritten-acknowledgements-count",
        "A change that the share coordinator has not written is taken back (S37)",
        PARTITION,
        "            if before is None or is_written:\n",
        "            if True:\n",
        OF_PARTITIONS + "test_a_change_that_was_not_written_is_taken_back",
    ),
    mutant(
        "locks-have-no-limit",
        "No more than group.share.partition.max.record.locks records are in flight",
        PARTITION,
        "        room = min(wanted.max_records, self._limits().max_record_locks - self.in_flight)\n",
        "        room = wanted.max_records\n",
        OF_PARTITIONS + "test_no_more_than_the_locks_are_in_flight",
    ),
    mutant(
        "an-older-leader-writes-share-states",
        "A leader that was replaced neither reads nor writes the state of a share partition (S37)",
        COORDINATOR,
        "NO_EPOCH < event.leader_epoch < known.leader_epoch:\n",
        "False:\n",
        OF_COORDINATOR + "test_an_older_leader_and_an_older_state_are_fenced",
    ),
    mutant(
        "an-older-state-is-written",
        "A write of before the group's offsets were altered is fenced",
        COORDINATOR,
        "NO_EPOCH < event.state_epoch < known.state_epoch:\n",
        "False:\n",
        OF_COORDINATOR + "test_an_older_leader_and_an_older_state_are_fenced",
    ),
    mutant(
        "unwritten-share-states-stay",
        "A share state that could not be written is taken back",
        COORDINATOR,
        "            if not is_in_log and self._states.get(key) is after:\n",
        "            if False:\n",
        OF_COORDINATOR + "test_what_could_not_be_written_is_taken_back[6-16-False]",
    ),
    mutant(
        "records-are-acquired-twice",
        "A record that a member has acquired is not delivered to another one",
        PARTITION,
        "            if not record.is_free:\n                continue\n",
        "            if record.state.is_terminal:\n                continue\n",
        OF_PARTITIONS + "test_what_a_member_has_is_passed_over",
    ),
    mutant(
        "records-that-nobody-read-are-settled",
        "A member settles no records beyond those that were acquired",
        PARTITION,
        "        if event.last > batches[-1].last:\n",
        "        if False:\n",
        OF_PARTITIONS + "test_only_the_member_that_has_a_record_settles_it_and_once",
    ),
    mutant(
        "deliveries-are-not-counted",
        "Each acquisition of a record adds 1 to its delivery count",
        PARTITION,
        "        self.delivery_count += 1\n",
        "        self.delivery_count = 1\n",
        OF_PARTITIONS + "test_a_bad_record_is_delivered_with_ever_fewer_and_last_alone",
    ),
    mutant(
        "bad-batches-are-not-halved",
        "A batch that was delivered several times is delivered in halves (acquireSubsetBatchRecords)",
        PARTITION,
        "            if is_last or count in (limit, throttled_to):\n",
        "            if is_last or count == limit:\n",
        OF_PARTITIONS + "test_a_batch_that_fails_as_a_whole_is_halved",
    ),
    mutant(
        "the-start-passes-unsettled-records",
        "The start offset of a share partition moves past settled records only",
        PARTITION,
        "                if not record.is_done:\n",
        "                if False:\n",
        OF_PARTITIONS + "test_the_start_moves_over_settled_records_in_order",
    ),
    mutant(
        "locks-are-renewed-without-permission",
        "A lock is renewed only with share.renew.acknowledge.enable (KIP-1222)",
        PARTITION,
        "        if not self._limits().may_renew:\n",
        "        if False:\n",
        OF_PARTITIONS + "test_without_share_renew_acknowledge_enable_no_lock_is_renewed",
    ),
    mutant(
        "ended-sessions-keep-their-records",
        "A member's records are released when its session ends",
        PARTITION,
        "                if record.state is RecordState.ACQUIRED and record.member == member:\n",
        "                if False:\n",
        OF_PARTITIONS + "test_a_session_that_ends_releases_what_its_member_has",
    ),
    mutant(
        "records-are-archived-before-their-dead-letter",
        "A record that goes to the dead letter queue is ARCHIVING until that is over (KIP-1191)",
        PARTITION,
        "return RecordState.ARCHIVING if self._limits().has_dead_letters else RecordState.ARCHIVED\n",
        "return RecordState.ARCHIVED\n",
        OF_PARTITIONS + "test_with_a_dead_letter_queue_what_is_given_up_is_archiving_first",
        "share-dead-letters: event share_dead_letters_sent with outcome written",
    ),
    mutant(
        "dead-letters-die-with-their-leader",
        "A new leader writes the dead letters of records that are still ARCHIVING (KIP-1191)",
        "cluster.share.manager",
        "                self._give_away(led, led.shared, led.shared.dead_letters, now_us)\n",
        "",
        "share-dead-letters / leader-killed: event share_dead_letters_sent with first 1, node b2, queue_offset 1",
    ),
    mutant(
        "records-wait-for-dead-letters",
        "A record whose dead letter cannot be written is archived all the same (KIP-1191)",
        LETTERS,
        "        self._tell(letters, letters.given_up.last, outcome, error=error)\n        letters.done(now_us)\n",
        "        self._tell(letters, letters.given_up.last, outcome, error=error)\n",
        OF_LETTERS + "test_a_refused_write_is_not_repeated",
    ),
    mutant(
        "any-topic-is-a-dead-letter-queue",
        "Dead letters go only to a topic with errors.deadletterqueue.group.enable (KIP-1191)",
        LETTERS,
        "        if known is not None and not known.log_config.errors_deadletterqueue_group_enable:\n",
        "        if False:\n",
        OF_LETTERS + "test_what_cannot_be_written_is_archived_all_the_same[dlq.q-config1-not_enabled]",
    ),
    mutant(
        "dead-letter-queues-have-any-name",
        "The name of a dead letter queue begins with errors.deadletterqueue.topic.name.prefix (KIP-1191)",
        LETTERS,
        "        if not name.startswith(config.errors_deadletterqueue_topic_name_prefix):\n",
        "        if False:\n",
        OF_LETTERS + "test_what_cannot_be_written_is_archived_all_the_same[q-config2-other_prefix]",
    ),
    mutant(
        "share-sessions-take-any-epoch",
        "A request of a share session has the epoch that the session expects",
        SESSIONS,
        "            if session.epoch != epoch:\n",
        "            if False:\n",
        OF_SESSIONS + "test_a_request_has_the_epoch_that_its_session_expects",
    ),
    mutant(
        "share-sessions-have-no-limit",
        "A broker has at most group.share.max.share.sessions sessions",
        SESSIONS,
        "        if len(self._sessions) >= self._max_sessions:\n",
        "        if False:\n",
        OF_SESSIONS + "test_a_broker_has_no_more_sessions_than_its_limit",
    ),
    mutant(
        "a-closed-connection-ends-the-next-session",
        "A connection that is closed does not end a session that its member has begun on another one",
        SESSIONS,
        "        if session is None or session.connection != connection:\n",
        "        if session is None:\n",
        OF_SESSIONS + "test_a_closed_connection_ends_only_the_session_that_still_uses_it",
    ),
    mutant(
        "offsets-of-a-share-group-in-use-are-altered",
        "The start offsets of a share group are altered and deleted only while it has no members",
        OFFSETS,
        "        if group is not None and group.members:\n",
        "        if False:\n",
        OF_REQUESTS + "test_only_an_empty_share_group_is_altered",
    ),
    mutant(
        "offsets-of-partitions-that-are-not-there",
        "Start offsets are set only of partitions that exist",
        OFFSETS,
        "                if found is None or number >= found.partitions:\n",
        "                if found is None:\n",
        OF_REQUESTS + "test_unknown_partitions_are_refused_one_by_one",
    ),
    mutant(
        "half-deleted-offsets-count-as-deleted",
        "A topic stays in deletion until all its share states are deleted",
        OFFSETS,
        "for topic_id, name in asked.items() if topic_id not in failed}\n",
        "for topic_id, name in asked.items()}\n",
        OF_OFFSETS + "test_a_topic_whose_states_are_not_all_deleted_stays_in_deletion",
    ),
    mutant(
        "anyone-changes-offsets-of-share-groups",
        "Who changes the start offsets of a share group is allowed READ or DELETE of the group",
        "cluster.authorization.group_guards",
        "        if not asked.on_group(operation, str(asked.request.group_id)):\n"
        "            return asked.refusal(NO_GROUP)\n"
        "        allowed: list[Entity] = []\n        refusals: list[Values] = []\n",
        "        allowed: list[Entity] = []\n        refusals: list[Values] = []\n",
        OF_GUARDS + CHANGED_OFFSETS + "[AlterShareGroupOffsets]",
        OF_GUARDS + CHANGED_OFFSETS + "[DeleteShareGroupOffsets]",
    ),
    mutant(
        "share-groups-read-any-topic",
        "A member of a share group gets and settles only records of topics that it may read",
        "cluster.broker.apis.share.records",
        "        return not access.is_on or topic is None or access.allows_topic(current.call.connection, "
        "Operation.READ, topic)\n",
        "        return True\n",
        OF_GUARDS + "test_records_of_a_share_group_are_for_those_who_may_read_the_topic",
    ),
    mutant(
        "members-of-share-groups-have-any-epoch",
        "A member of a share group that gives another epoch is fenced",
        "cluster.groups.share_membership",
        "    if said not in (JOINS, known, member.previous_epoch) or said > known:\n",
        "    if False:\n",
        OF_REQUESTS + "test_a_member_with_another_epoch_is_fenced",
    ),
    mutant(
        "share-groups-assign-at-once",
        "Since 4.3 a share group assigns only once in group.share.assignment.interval.ms",
        "cluster.groups.share_membership",
        "if group.epoch > group.target_epoch and is_due(self._desk, group, pause_ms, event.now_us):",
        "if group.epoch > group.target_epoch:",
        OF_REQUESTS + "test_what_is_initialized_is_assigned_once_the_interval_is_over[1000]",
    ),
    mutant(
        "new-groups-begin-with-epoch-0",
        "A new group begins with epoch 1 since 4.3 (ModernGroup)",
        "cluster.groups.service",
        "FIRST_EPOCH if rules.release >= FIRST_EPOCH_SINCE else 0",
        "0",
        "test tests/cluster/groups/test_consumer_groups.py::"
        "test_the_first_member_of_a_group_gets_the_epoch_of_its_release[kafka-4.3-2]",
        OF_REQUESTS + "test_the_first_member_of_a_share_group_gets_epoch_2[False]",
        OF_REQUESTS + "test_the_first_member_of_a_share_group_gets_epoch_2[True]",
    ),
    mutant(
        "groups-of-4-2-begin-with-epoch-1",
        "A new group begins with epoch 0 up to 4.2 (ModernGroup)",
        "cluster.groups.service",
        "FIRST_EPOCH if rules.release >= FIRST_EPOCH_SINCE else 0",
        "FIRST_EPOCH",
        "test tests/cluster/groups/test_consumer_groups.py::"
        "test_the_first_member_of_a_group_gets_the_epoch_of_its_release[kafka-4.2-1]",
    ),
)
