"""Guards of share groups (KIP-932): who settles which record, and which write of which leader counts."""

from __future__ import annotations

from mutant import Mutant, mutant

PARTITION, COORDINATOR = "cluster.share.partition", "cluster.share.coordinator"
OF_PARTITIONS = "test tests/cluster/groups/test_share_partitions.py::"
OF_COORDINATOR = "test tests/cluster/groups/test_share_coordinator.py::"

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
        "is_spent = state is RecordState.AVAILABLE and record.delivery_count >= self._limits().delivery_limit\n",
        "is_spent = False\n",
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
        "NO_EPOCH < given.leader_epoch < known.leader_epoch:\n",
        "False:\n",
        OF_COORDINATOR + "test_an_older_leader_and_an_older_state_are_fenced",
    ),
    mutant(
        "an-older-state-is-written",
        "A write of before the group's offsets were altered is fenced",
        COORDINATOR,
        "NO_EPOCH < given.state_epoch < known.state_epoch:\n",
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
)
