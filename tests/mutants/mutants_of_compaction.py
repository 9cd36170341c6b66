"""What compaction may take, how far it goes, and how it puts a log in the place of another."""

from __future__ import annotations

from mutant import Mutant, mutant

CLEANABLE = "replica.log.cleaner.cleanable"
CLEANER = "replica.log.cleaner.cleaner"
FILTER = "replica.log.cleaner.batch_filter"
TRANSACTIONS = "replica.log.cleaner.transactions"
LOADER = "replica.log.loader"
TESTS = "test tests/replica/log/test_cleaner.py::"

COMPACTION: tuple[Mutant, ...] = (
    mutant(
        "last-of-a-key-goes",
        "Of each key the last record stays (R49)",
        FILTER,
        "record.offset < self._map.get(record.key)",
        "record.offset <= self._map.get(record.key)",
        "compaction-tombstone-gone: records.lost",
    ),
    mutant(
        "compaction-above-the-stable-offset",
        "Nothing above the last stable offset is compacted (R50)",
        CLEANABLE,
        "    limits = [last_stable_offset, segments.active.base_offset]\n",
        "    limits = [segments.active.base_offset]\n",
        f"{TESTS}test_an_open_transaction_is_not_cleaned",
    ),
    mutant(
        "tombstones-go-at-once",
        "A tombstone stays for delete.retention.ms (R49, KIP-534)",
        FILTER,
        "record.value is not None or horizon_ms is None or self._now_ms < horizon_ms",
        "record.value is not None",
        f"{TESTS}test_a_tombstone_stays_for_delete_retention_ms_from_its_first_cleaning",
    ),
    mutant(
        "aborted-records-supersede",
        "A record that was aborted takes no other with it (R49)",
        CLEANER,
        "    elif not transactions.batch(header):\n",
        "    else:\n        transactions.batch(header)\n",
        f"{TESTS}test_what_was_aborted_goes_and_supersedes_nothing",
    ),
    mutant(
        "markers-go-before-their-batches",
        "A marker stays as long as a batch of its transaction (R49)",
        TRANSACTIONS,
        "            return not self._committed.pop(header.producer_id, False)\n",
        "            return True\n",
        f"{TESTS}test_a_marker_goes_when_its_transaction_has_no_batch_left",
    ),
    mutant(
        "last-sequence-is-forgotten",
        "The batch with a producer's last sequence number stays, though it be empty (R49, R18)",
        FILTER,
        "self._kept_end or self._is_last_of_producer(header)",
        "self._kept_end",
        f"{TESTS}test_what_was_aborted_goes_and_supersedes_nothing",
    ),
    mutant(
        "emptied-batch-stays-at-the-end-of-a-round",
        "Since 4.4 an emptied batch stays only where it ends at the high watermark (R49)",
        "cluster.broker.replicas.log_life",
        "found._replace(kept_end=partition.high_watermark) if self._keeps_high_watermark else found",
        "found",
        "test tests/cluster/broker/apis/transactions/test_transactional_log.py::"
        "test_an_emptied_batch_at_the_end_of_a_round_stays_until_4_3[kafka-4.4-left1]",
    ),
    mutant(
        "swap-is-not-finished",
        "A start puts the files of an interrupted swap into their place (R51)",
        LOADER,
        "        self._finish_swap()\n",
        "",
        f"{TESTS}test_a_crash_in_a_swap_leaves_the_old_or_the_new[6]",
    ),
    mutant(
        "keys-are-unknown",
        "What a topic has when it becomes compacted is judged by its keys, too",
        CLEANER,
        "            batch_read(as_sent(batch, header), records)\n",
        "            pass\n",
        "test tests/scenarios/check/test_everyday_operations.py::"
        "test_what_is_done_every_day_breaks_nothing[a-topic-becomes-compacted]",
    ),
)
