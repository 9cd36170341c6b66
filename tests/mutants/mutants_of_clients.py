"""What clients rely on: acks, sequences, reading committed records, and groups."""

from __future__ import annotations

from mutant import Mutant, mutant

LEADER = "replica.leader"
PARTITION = "cluster.broker.replicas.partition"
LOG = "replica.log.log"
PRODUCERS = "replica.log.producers.producer_state"
MANAGER = "cluster.broker.replicas.manager"
SENDER = "cluster.client.producer.sender"
VERSIONS = "cluster.client.api_versions"
CONNECTION_STATES = "cluster.client.connection_states"
PRODUCER = "cluster.client.producer.producer"
PRODUCER_PIPELINE = "cluster.client.producer.pipeline"
FETCHER = "cluster.client.consumer.fetcher"
OF_READERS = "test tests/cluster/client/consumer/test_consumer.py::"
OF_FETCHES = "test tests/cluster/broker/apis/test_broker_fetch.py::"
CLASSIC_GROUP = "cluster.client.consumer.classic_membership"
CONSUMER_GROUP = "cluster.client.consumer.consumer_membership"
MEMBER_STATE = "cluster.client.consumer.member_state"
CLIENT_ASSIGNORS = "cluster.client.consumer.assignors"
CLIENT_GROUP = "cluster.client.consumer.membership"
TRANSFORM = "cluster.client.transform.transform"
COORDINATORS_LOG = "cluster.coordinators.topic_log"
COMMITS = "cluster.groups.commits"
MEMBERSHIP = "cluster.groups.membership"
COORDINATOR = "cluster.groups.coordinator"
BROKERS = "controller.brokers"

CLIENTS: tuple[Mutant, ...] = (
    # ------------------------------------------------------------------------------------------------------- producing
    mutant(
        "acks-all-does-not-wait",
        "acks=all is answered once every in-sync replica has the records (S25)",
        MANAGER,
        "        if required_acks == ACKS_ALL and appended:",
        "        if False:",
        "acks1-leader-kill / acks-all: S25",
    ),
    mutant(
        "min-isr-is-not-asked",
        "acks=all is refused below min.insync.replicas, before the append",
        LEADER,
        "        if required_acks == ACKS_ALL and len(self.in_sync_replicas) < self.effective_min_isr:",
        "        if False:",
        "min-isr-equals-rf: errors.p1.NOT_ENOUGH_REPLICAS",
    ),
    mutant(
        "deposed-leader-answers",
        "Who waits for acks=all hears NOT_LEADER_OR_FOLLOWER when the leader is deposed",
        MANAGER,
        "            elif partition.leader is None:\n                status = ErrorCode.NOT_LEADER_OR_FOLLOWER",
        "            elif partition.leader is None:\n                status = ErrorCode.NONE",
        "gc-pause-leader-zombie / acks-all: S25",
    ),
    mutant(
        "an-expired-batch-frees-its-memory-at-once",
        "A batch that expires in a request keeps its memory until the request ends (KAFKA-19012)",
        SENDER,
        "        if self._frees_expired or not batch.in_request:\n",
        "        if True:\n",
        "expired-batch-keeps-memory: records.failed",
    ),
    mutant(
        "a-broker-s-newest-version-is-not-heeded",
        "A request has a version that its broker offers (NodeApiVersions.latestUsableVersion)",
        VERSIONS,
        "        latest = min(highest, allowed.latest)",
        "        latest = allowed.latest",
        "test tests/cluster/client/test_client_versions.py::test_it_follows_the_era[kafka-2.7-8-12-9]",
    ),
    mutant(
        "requests-before-the-versions-are-known",
        "Nothing is sent to a broker before it has said what it offers (NetworkClient.canSendRequest)",
        CONNECTION_STATES,
        "        return self.state is ConnectionState.READY",
        "        return self.state in (ConnectionState.CHECKING_API_VERSIONS, ConnectionState.READY)",
        "test tests/cluster/client/test_client_versions.py::test_transcript",
    ),
    mutant(
        "an-unknown-version-is-asked-again",
        "A broker that does not know the version of ApiVersions is asked at one that it knows (KIP-511)",
        VERSIONS,
        "        self.version = min(ranges.get(API_VERSIONS, (0, 0))[1], self.version - 1)",
        "        self.version = self.version",
        "test tests/cluster/client/test_client_versions.py::test_transcript",
    ),
    mutant(
        "duplicates-are-not-known",
        "A repeated batch of an idempotent producer is recognised (KIP-98, S26)",
        PRODUCERS,
        "            if cached.first_sequence == batch.base_sequence and cached.last_sequence == last_sequence:",
        "            if False:",
        "idempotent-across-failover: records.duplicated",
    ),
    mutant(
        "sequences-are-not-checked",
        "A gap in a producer's sequence is refused (KIP-98, S26)",
        PRODUCERS,
        "    if batch.base_sequence != expected:",
        "    if False:",
        "reorder-inflight / idempotent: S26",
        "idempotent-sequence-gap: S26",
    ),
    mutant(
        "dedup-state-only-on-the-leader",
        "Followers keep producer state from the batches they replicate (S26)",
        LOG,
        "        return self._append(whole, tuple(headers), size_bytes, now_us)",
        "        before, self.producers.update = self.producers.update, lambda *batch: None  # type: ignore\n"
        "        try:\n"
        "            return self._append(whole, tuple(headers), size_bytes, now_us)\n"
        "        finally:\n"
        "            self.producers.update = before  # type: ignore",
        "idempotent-across-failover: S26",
    ),
    mutant(
        "unserialized-records-are-sent",
        "A record that its serializer refuses never comes to the accumulator (KafkaProducer.doSend)",
        PRODUCER,
        "                self._report_failed(waiting, pending, SERIALIZATION,",
        "                kept.append(pending)\n                self._report_failed(waiting, pending, SERIALIZATION,",
        "poison-pill / serializer: event never batch_sent with client p2",
    ),
    mutant(
        "interceptors-change-nothing",
        "What onSend returns is sent, and the next interceptor gets it (ProducerInterceptors.onSend)",
        PRODUCER_PIPELINE,
        "                pending = replace(pending, record=record)",
        "                pass",
        "test tests/cluster/client/producer/test_producer_pipeline.py::"
        "test_an_interceptor_that_throws_loses_no_change_of_another",
    ),
    mutant(
        "serialized-after-the-wait-alone",
        "The time that a serializer takes holds up the records behind it",
        PRODUCER,
        "            waiting.busy_until_us = now_us + took_us",
        "            pass",
        "test tests/cluster/client/producer/test_producer_pipeline.py::"
        "test_the_application_thread_is_in_one_record_at_a_time",
    ),
    # -------------------------------------------------------------------------------------------------------- consuming
    mutant(
        "poison-pill-is-skipped",
        "A record that cannot be deserialized stops the consumer at its position (KIP-334)",
        FETCHER,
        "                            self._stop_at(position, record.offset)\n                            break",
        "                            continue",
        "poison-pill: event never record_read with record r5",
    ),
    mutant(
        "auto-commit-of-what-was-fetched",
        "A consumer commits by itself what polls have returned, not what it has fetched (allConsumed)",
        TRANSFORM,
        "        return next((record.offset for name, record in self._inputs if name == tp), None)",
        "        return None",
        "test tests/cluster/client/consumer/test_auto_commit.py::"
        "test_it_commits_what_polls_have_returned_and_not_what_was_only_fetched",
    ),
    mutant(
        "rebalance-does-not-wait-for-the-commit",
        "Before a rebalance takes its partitions a member commits (ConsumerCoordinator.onJoinPrepare)",
        CLIENT_GROUP,
        "        elif self._gives_up_next and not auto.has_prepared:",
        "        elif False:",
        "test tests/cluster/client/consumer/test_auto_commit.py::"
        "test_before_a_rebalance_takes_partitions_away_it_commits[range]",
    ),
    mutant(
        "close-without-a-commit",
        "A member that commits by itself does so before it leaves (ConsumerCoordinator.close)",
        CLIENT_GROUP,
        "        if self.auto_commit is not None and not self.refused:",
        "        if False:",
        "test tests/cluster/client/consumer/test_auto_commit.py::"
        "test_a_member_that_closes_commits_and_then_leaves[range]",
    ),
    mutant(
        "auto-commit-outside-poll",
        "An application that does not poll commits nothing by itself",
        CLIENT_GROUP,
        "        elif not (self._may_commit and self.may_join):",
        "        elif not self._may_commit:",
        "test tests/cluster/client/consumer/test_auto_commit.py::"
        "test_an_application_that_does_not_poll_commits_nothing",
    ),
    mutant(
        "poison-pill-stops-one-partition",
        "While a consumer stands at a record that it cannot read, no poll returns another one (FetchCollector)",
        FETCHER,
        "        if self.unreadable is not None and self._is_stuck(self.unreadable):",
        "        if False and self.unreadable is not None and self._is_stuck(self.unreadable):",
        "test tests/cluster/client/consumer/test_consumer_pipeline.py::test_meanwhile_no_other_partition_is_read",
    ),
    mutant(
        "consumers-read-uncommitted",
        "A consumer reads below the high watermark (S28)",
        PARTITION,
        "        upper_offset = end_offset if params.from_follower else self.upper_offset(params)\n",
        "        upper_offset = end_offset\n",
        "follower-cut-hw-stall: S28",
    ),
    mutant(
        "reader-is-sent-out-of-the-isr",
        "Since 3.3.2 a leader sends readers to replicas in the ISR only (KAFKA-14372)",
        "replica.read_replica",
        'and (rules.read_replica == "any" or broker_id in leader.in_sync_replicas)',
        "and True",
        "test tests/replica/test_read_replica.py::test_which_replica_is_named[not-in-sync]",
    ),
    mutant(
        "reader-is-sent-to-whom-is-behind-it",
        "A leader sends a reader only to a replica that has its offset (KIP-392)",
        "replica.read_replica",
        "        and replica.log_start_offset <= fetch_offset <= replica.log_end_offset\n",
        "",
        "test tests/replica/test_read_replica.py::test_which_replica_is_named[behind]",
    ),
    mutant(
        "leader-sends-its-own-readers-away",
        "A leader serves the readers of its own rack (RackAwareReplicaSelector)",
        "replica.read_replica",
        "    if leader.broker_id in in_rack:",
        "    if False:",
        "test tests/replica/test_read_replica.py::test_which_replica_is_named[leader]",
    ),
    mutant(
        "readers-are-sent-to-the-fenced",
        "A leader sends no reader to a fenced broker (KIP-392)",
        PARTITION,
        "if broker_id in brokers and not brokers[broker_id].fenced and brokers[broker_id].rack == params.rack",
        "if broker_id in brokers and brokers[broker_id].rack == params.rack",
        OF_FETCHES + "test_no_reader_is_sent_to_a_fenced_broker",
    ),
    mutant(
        "nearest-replica-is-kept-waiting",
        "Since 3.2 an answer that names another replica waits for no records (KAFKA-13767)",
        "cluster.broker.replicas.fetches",
        "elif result.diverging_epoch is not None or result.preferred_read_replica != NO_BROKER:",
        "elif result.diverging_epoch is not None:",
        OF_FETCHES + "test_a_leader_sends_a_consumer_to_the_replica_in_its_rack_and_reads_nothing[in-its-rack]",
    ),
    mutant(
        "lease-of-a-replica-never-ends",
        "A consumer asks the leader again after metadata.max.age.ms (KIP-392)",
        "cluster.client.consumer.positions",
        "        if now_us > position.preferred_until_us:",
        "        if False:",
        OF_READERS + "test_it_reads_where_the_leader_sends_it_and_asks_again_when_the_lease_is_over",
    ),
    mutant(
        "replica-without-the-offset-resets-the-reader",
        "OFFSET_OUT_OF_RANGE of a follower sends the consumer to the leader, without a reset (KIP-392)",
        FETCHER,
        "            if self.read_replicas.leave(position, ReadReplicaCause.OUT_OF_RANGE):\n                return\n",
        "",
        OF_READERS + "test_an_offset_that_the_replica_lacks_sends_it_to_the_leader_and_resets_nothing",
    ),
    mutant(
        "silent-replica-is-not-left",
        "A consumer leaves a replica that does not answer (AbstractFetch.handleFetchFailure)",
        FETCHER,
        "            self.read_replicas.lost(node_id)\n",
        "",
        OF_READERS + "test_a_replica_that_refuses_or_does_not_answer_is_left_at_once[None-unreachable]",
    ),
    mutant(
        "replica-outlives-its-leader",
        "A new leader or epoch ends the lease of a replica (SubscriptionState.maybeValidatePosition)",
        "cluster.client.consumer.consumer",
        "            if position.leader_is(self._metadata.leader(tp), self._rules):",
        "            if position.leader_is(self._metadata.leader(tp), self._rules) and False:",
        OF_READERS + "test_a_new_leader_epoch_ends_the_lease",
    ),
    mutant(
        "any-epoch-may-fetch",
        "A fetch of another leader epoch is refused (KIP-320, S2, S3)",
        PARTITION,
        "self.check_epoch(entry.current_leader_epoch)\n        leader = self.leader",
        "pass\n        leader = self.leader",
        OF_FETCHES + "test_one_that_waits_is_over_when_the_leadership_is",
    ),
    mutant(
        "end-offset-goes-back",
        "A new leader does not tell the end before it has reached its predecessor's (KIP-207)",
        PARTITION,
        "        if self._rules.list_offsets_guard and leader.high_watermark < leader.leader_epoch_start_offset:",
        "        if False:",
        "stale-hw-after-failover: "
        "event end_offset_seen with client c1r, error OFFSET_NOT_AVAILABLE, between 15.000 s and 16.000 s",
    ),
    mutant(
        "heartbeat-of-an-earlier-life-counts",
        "A heartbeat speaks for the registration whose epoch it names (KIP-631)",
        BROKERS,
        "        if stale is not None:\n            self._journal.reply(HeartbeatReply(",
        "        if False:\n            self._journal.reply(HeartbeatReply(",
        "stop-of-a-former-life: event never leader_elected of t-0, from 26.000 s on",
    ),
    # --------------------------------------------------------------------------------------------------------- producer
    mutant(
        "one-in-flight-is-per-connection",
        "With one request in flight a partition waits for its batch, whichever broker that went to (KAFKA-3197)",
        SENDER,
        "config.max_in_flight_requests_per_connection == 1",
        "False",
        "one-in-flight-two-leaders: records.reordered",
        "test tests/cluster/client/producer/test_producer.py::"
        "test_one_in_flight_is_one_per_partition_whichever_broker_leads_it[1-order0]",
    ),
    mutant(
        "the-round-that-gives-up-is-the-last",
        "While a leader is ready, the producer's next round follows at once, though a batch has just expired",
        SENDER,
        "        again = gave_up and bool(requests)\n        if gave_up:\n",
        "        again = False\n        if False:\n",
        "test tests/cluster/client/producer/test_producer_retries.py::"
        "test_when_a_batch_expires_the_next_one_goes_out_at_once",
        "test tests/simulation/transforms/test_expired_transactions.py::"
        "test_the_transaction_is_aborted_once_its_last_record_has_expired",
    ),
    mutant(
        "one-cooperative-strategy-is-enough",
        "A member gives up everything before it joins unless all its strategies are cooperative (KIP-429)",
        "cluster.client.consumer.classic_membership",
        "return self._assignors == (COOPERATIVE_STICKY,)",
        "return COOPERATIVE_STICKY in self._assignors",
        "test tests/cluster/client/consumer/test_member_transcripts.py::test_transcript[member_strategies]",
    ),
    mutant(
        "static-members-say-goodbye",
        "A static member that closes stays a member until its session ends (KIP-345)",
        "cluster.client.consumer.classic_membership",
        "leaves = is_known and self.instance_id is None and ",
        "leaves = is_known and ",
        "test tests/simulation/transforms/test_orderly_stops.py::"
        "test_who_says_nothing_is_missed"
        "[{at: 15s, stop: t1}-, session.timeout.ms: 6000, group.instance.id: i-1-left_s1]",
    ),
    mutant(
        "fetch-sessions-are-left-behind",
        "A consumer of 3.5 and later that is closed closes its fetch sessions (KAFKA-7109)",
        "cluster.client.consumer.consumer",
        "if now_us >= by_us or self._rules.release < CLOSES_SESSIONS_SINCE:",
        "if True:",
        "test tests/cluster/client/consumer/test_consumer.py"
        "::test_close_closes_the_fetch_session_from_3_5_on[4.1-True]",
    ),
    # ----------------------------------------------------------------------------------------------------------- groups
    mutant(
        "commits-count-at-once",
        "A committed offset counts once every in-sync replica has it",
        COMMITS,
        "            group.offsets.prepare(fitting)\n",
        "            group.offsets.prepare(fitting)\n            group.offsets.appended(fitting, 0)\n",
        "test tests/cluster/broker/apis/groups/test_groups_broker.py::"
        "test_a_commit_counts_once_every_in_sync_replica_has_it",
    ),
    mutant(
        "offsets-wait-for-an-empty-group-in-every-release",
        "Until 2.0 a committed offset expires though its group has members (before KIP-211)",
        "cluster.groups.state.records",
        "return self.offset <= OFFSET_WITH_EXPIRY",
        "return False",
        "group-offsets-expired / before-kip-211: verdict",
    ),
    mutant(
        "commits-wait-for-nobody",
        "A commit is answered once every in-sync replica has it (offsets.commit.required.acks=-1)",
        COORDINATORS_LOG,
        "        acks=0 if all(append.write is None for append in appends) else ACKS_ALL,\n",
        "        acks=0 if all(append.write is None for append in appends) else 1,\n",
        "test tests/cluster/broker/apis/groups/test_groups_broker.py::"
        "test_a_commit_that_misses_its_replicas_is_no_commit",
    ),
    mutant(
        "coordinators-of-4-1-do-not-linger",
        "In 4.0 and 4.1 the coordinator appends what came within group.coordinator.append.linger.ms as one batch",
        COORDINATORS_LOG,
        "        if not self._linger_us or wanted.transaction is not None:\n",
        "        if True:\n",
        "group-commit-lingers / kafka-4-1: verdict",
    ),
    mutant(
        "a-coordinator-that-resigned-writes",
        "A leader that resigns within the linger fails what waits, and writes none of it",
        COORDINATORS_LOG,
        "            self._finish(lingering.appends, ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN_OFFSET)\n",
        "            self._write(lingering.appends, 0, 0)\n",
        "test tests/cluster/groups/test_linger.py::test_a_leader_that_resigns_within_the_linger_writes_nothing",
    ),
    mutant(
        "coordinator-does-not-read",
        "A new coordinator reads its groups from the log",
        COORDINATORS_LOG,
        "        for header, batch in log.raw_batches(offset):\n",
        "        for header, batch in ():\n",
        "test tests/cluster/broker/apis/groups/test_groups_broker.py::"
        "test_a_broker_that_starts_again_knows_its_groups_from_the_log",
    ),
    mutant(
        "deposed-coordinator-speaks",
        "A broker that no longer leads the partition no longer coordinates its groups",
        "cluster.coordinators.core",
        "        self.owned.pop(partition, None)\n",
        "",
        "test tests/cluster/groups/test_groups.py::test_transcript[groups_commits]",
        "test tests/cluster/broker/apis/groups/test_groups_broker.py::"
        "test_a_broker_that_no_longer_leads_the_partition_stops_coordinating",
    ),
    mutant(
        "earlier-generation-commits",
        "A member of an earlier generation commits nothing",
        COORDINATOR,
        "        if event.generation != group.generation:\n            return ErrorCode.ILLEGAL_GENERATION\n",
        "",
        "test tests/cluster/groups/test_groups.py::test_transcript[groups_rebalance]",
    ),
    mutant(
        "pattern-is-compared-once",
        "A member whose pattern describes other topics than when it joined joins again (rejoinNeededOrPending)",
        CLASSIC_GROUP,
        "        return has_other or (is_newer and self._joined_with != self._topics)",
        "        return has_other",
        "test tests/cluster/client/consumer/test_member_transcripts.py::test_transcript[member_pattern]",
    ),
    mutant(
        "heartbeats-as-long-as-the-session",
        "A classic member's heartbeats are more frequent than its session is long (Heartbeat.java)",
        "cluster.config",
        "        if self.group_protocol == CLASSIC and interval_ms >= timeout_ms:",
        "        if self.group_protocol == CLASSIC and interval_ms > timeout_ms:",
        "test tests/scenarios/language/test_transforms.py::test_kafka_wants_the_heartbeat_below_the_session",
    ),
    mutant(
        "topic-is-there-before-its-step",
        "A topic that a step makes is not there when the run begins",
        "scenarios.language.spec",
        "        return tuple(topic for topic in self.topics.values() if not topic.is_made_by_step)",
        "        return tuple(self.topics.values())",
        "test tests/simulation/test_timeline.py::test_a_topic_is_there_from_the_step_on_that_makes_it[kafka-4.1]",
    ),
    mutant(
        "coordinator-of-kip-848-wants-its-replicas-first",
        "The coordinator of 4.0 and later appends with any ISR (CoordinatorPartitionWriter.append, acks=1)",
        MANAGER,
        "                    1 if name.topic in self._with_any_isr else required_acks,",
        "                    required_acks,",
        "group-commit-unreplicated: event offset_committed with offset 1, between 23.000 s and 30.000 s",
        "test tests/cluster/broker/apis/groups/test_groups_broker.py::"
        "test_kip_848s_coordinator_appends_with_any_isr_and_waits_for_the_high_watermark",
    ),
    mutant(
        "pattern-is-not-told",
        "A member of KIP-848 tells its coordinator the pattern that it subscribes by (SubscribedTopicRegex)",
        MEMBER_STATE,
        '            "subscribed_topic_regex": pattern,',
        '            "subscribed_topic_regex": None,',
        "test tests/cluster/client/consumer/test_member_transcripts.py::test_transcript[member_pattern_consumer]",
    ),
    mutant(
        "pattern-goes-to-a-broker-that-has-no-place-for-it",
        "A heartbeat with a pattern has version 1 or newer (ConsumerGroupHeartbeatRequest.Builder.build)",
        CONSUMER_GROUP,
        "        allowed = None if self._pattern is None else WITH_PATTERN",
        "        allowed = None",
        "test tests/cluster/client/consumer/test_member_transcripts.py::test_transcript[member_pattern_consumer]",
    ),
    mutant(
        "topics-of-a-pattern-have-no-metadata",
        "A member of KIP-848 asks for metadata by the ids of the topics that it is given (setAssignedTopicIds)",
        CONSUMER_GROUP,
        "                self._metadata.topic_ids = self.member.target_topic_ids",
        "                pass",
        "group-by-pattern / consumer: event record_read with record s0, between 37.000 s and 46.500 s",
    ),
    mutant(
        "member-does-not-obey-its-leader",
        "A member takes topics that the leader knows and it does not yet (maybeUpdateJoinedSubscription)",
        CLASSIC_GROUP,
        "        if self._pattern is not None and not topics <= set(self._joined_with):",
        "        if False:",
        "test tests/cluster/client/consumer/test_member_transcripts.py::test_transcript[member_pattern]",
    ),
    mutant(
        "leader-forgets-new-partitions",
        "The leader of a classic group assigns anew when a topic appears or grows (rejoinNeededOrPending)",
        CLASSIC_GROUP,
        "        has_other = self._assigned_of is not None and self._assigned_of != self._partition_counts()",
        "        has_other = False",
        "test tests/cluster/client/consumer/test_member_transcripts.py::test_transcript[member_topics]",
    ),
    mutant(
        "leader-assigns-by-old-metadata",
        "The leader of a classic group waits for the metadata that it wants, then assigns (updateGroupSubscription)",
        CLASSIC_GROUP,
        "            version = self._metadata.version + self._metadata.is_stale(now_us)",
        "            version = self._metadata.version",
        "test tests/cluster/client/consumer/test_member_transcripts.py::test_transcript[member_topics]",
    ),
    mutant(
        "ranges-go-over-all-topics",
        "The assignor `range` shares each topic for itself (RangeAssignor)",
        CLIENT_ASSIGNORS,
        "    for _, found in groupby(partitions, lambda item: item.topic):\n        of_topic = list(found)\n",
        "    for of_topic in [list(partitions)]:\n",
        "test tests/cluster/client/consumer/test_membership.py::test_ranges[members3-partitions3-assigned3]",
    ),
    mutant(
        "static-members-are-not-fenced",
        "Of two with one group.instance.id the earlier one is fenced (KIP-345)",
        MEMBERSHIP,
        "        if current != member_id:\n            return ErrorCode.FENCED_INSTANCE_ID\n",
        "",
        "test tests/cluster/groups/test_groups.py::test_transcript[groups_static]",
    ),
)
