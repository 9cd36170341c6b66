"""Transactions in a log: open ones, stable offsets, aborted ones and their index; against a list of batches."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from replica_logs import LogHome, batch_of, content_of

from replica.errors import ErrorCode, KafkaError
from replica.log.batches.control_records import ControlRecordType, end_transaction_marker
from replica.log.files.open_files import EMPTY_SLICE
from replica.log.log import AppendInfo, Log
from replica.log.producers.producer_state import LAST_PRODUCER_EPOCH, PRODUCER_ID_EXPIRATION_MS
from replica.log.producers.transaction_index import ENTRY_BYTES, NOT_VERIFIED, AbortedTransaction, TransactionIndex
from tests.soak import examples

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


@dataclass
class Entry:
    """One batch. kind: data, plain (of no transaction), COMMIT or ABORT"""

    base: int
    last: int
    producer_id: int
    kind: str


@dataclass
class Transaction:
    producer_id: int
    first: int
    marker: int | None = None
    is_aborted: bool = False


def transactions_of(entries: list[Entry]) -> list[Transaction]:
    """The naive reading of a log: from its beginning, batch by batch."""
    found: list[Transaction] = []
    open_now: dict[int, Transaction] = {}
    for entry in entries:
        if entry.kind == "data" and entry.producer_id not in open_now:
            open_now[entry.producer_id] = Transaction(entry.producer_id, entry.base)
            found.append(open_now[entry.producer_id])
        elif entry.kind in ("ABORT", "COMMIT") and entry.producer_id in open_now:
            ended = open_now.pop(entry.producer_id)
            ended.marker, ended.is_aborted = entry.base, entry.kind == "ABORT"
    return found


def append_marker(log: Log, producer_id: int, end: ControlRecordType, *, epoch: int = 0, coordinator: int = 0) -> int:
    marker = end_transaction_marker(producer_id, epoch, end, coordinator, timestamp_ms=1000)
    return log.append_as_leader(marker, 0, 0, from_client=False).first_offset


def append_data(
    log: Log, producer_id: int, count: int = 1, *, epoch: int = 0, transactional: bool = True, size: int = 1
) -> AppendInfo:
    known = log.producers.producers.get(producer_id)
    sequence = known.last_sequence + 1 if known is not None and known.epoch == epoch else 0
    batch = batch_of(
        *[b"x" * size] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return log.append_as_leader(batch, 0, 0)


producer_ids = st.sampled_from([1, 2, 3])
where = st.integers(0, 1000)


class TransactionMachine(RuleBasedStateMachine):
    """A leader's log, and a follower that fetches it. `self.entries` is what the leader's log holds."""

    @initialize(segment_bytes=st.sampled_from([300, 1000, 1 << 20]))
    def begin(self, segment_bytes):
        self.root = Path(tempfile.mkdtemp())
        self.home = LogHome(self.root / "b1", segment_bytes=segment_bytes)
        self.follower_home = LogHome(self.root / "b2", segment_bytes=2 * segment_bytes)
        self.log, _ = self.home.open()
        self.follower, _ = self.follower_home.open()
        self.entries: list[Entry] = []
        self.high_watermark = 0
        self.checkpoint = 0
        self.rebuilt = [0, 0]

    def teardown(self):
        if hasattr(self, "root"):
            self.log.abandon()
            self.follower.abandon()
            shutil.rmtree(self.root)

    def add(self, info, producer_id, kind):
        self.entries.append(Entry(info.first_offset, info.last_offset, producer_id, kind))

    @rule(producer_id=producer_ids, count=st.integers(1, 3), size=st.integers(1, 60))
    def write(self, producer_id, count, size):
        self.add(append_data(self.log, producer_id, count, size=size), producer_id, "data")

    @rule()
    def write_plain(self):
        self.add(self.log.append_as_leader(batch_of(b"r"), 0, 0), -1, "plain")

    @rule(producer_id=producer_ids, end=st.sampled_from(ControlRecordType))
    def end(self, producer_id, end):
        """Also where no transaction is open: the coordinator may not know that nothing was written."""
        offset = append_marker(self.log, producer_id, end)
        self.entries.append(Entry(offset, offset, producer_id, end.name))

    @rule(at=where)
    def commit_up_to(self, at):
        end = self.log.log_end_offset
        self.high_watermark += at % (end - self.high_watermark + 1)

    @rule(max_bytes=st.integers(100, 2000))
    def replicate(self, max_bytes):
        found = self.log.read(self.follower.log_end_offset, max_bytes, self.log.log_end_offset)
        self.follower.append_as_follower(content_of(found), 0, 0)

    @precondition(lambda self: self.entries)
    @rule(at=where)
    def truncate(self, at):
        cuts = [entry.base for entry in self.entries if entry.base >= self.high_watermark]
        if not cuts:
            return
        offset = cuts[at % len(cuts)]
        self.log.truncate_to(offset)
        self.follower.truncate_to(offset)
        self.entries = [entry for entry in self.entries if entry.base < offset]
        self.rebuilt = [self.log.log_end_offset, self.follower.log_end_offset]
        self.checkpoint = self.log.recovery_point

    @rule(of_both=st.booleans())
    def flush(self, of_both):
        self.log.flush()
        if of_both:
            self.checkpoint = self.log.recovery_point

    @rule()
    def stop(self):
        self.log.flush()
        self.log.close()
        self.log, recovery = self.home.open(clean=True)
        self.rebuilt[0] = self.log.log_end_offset
        assert recovery.segments_scanned == 0

    @rule()
    def kill(self):
        self.log.abandon()
        self.log, _ = self.home.open(clean=False, recovery_point=self.checkpoint)
        self.rebuilt[0] = self.log.log_end_offset

    @rule()
    def kill_follower(self):
        self.follower.abandon()
        self.follower, _ = self.follower_home.open(clean=False)
        self.rebuilt[1] = self.follower.log_end_offset

    @invariant()
    def stable_is_what_is_decided_and_committed(self):
        """A snapshot does not name the transactions whose markers are above the high watermark, in Kafka as here: a log
        that was made anew from one may take these for stable."""
        if not hasattr(self, "log"):
            return
        of_leader, of_follower = self.rebuilt
        for log, entries, rebuilt in (
            (self.log, self.entries, of_leader),
            (self.follower, self.replicated, of_follower),
        ):
            high_watermark = min(self.high_watermark, log.log_end_offset)
            found = [one for one in transactions_of(entries) if one.marker is None or one.marker >= high_watermark]
            certain = [one.first for one in found if one.marker is None or one.marker >= rebuilt]
            lowest = min([high_watermark, *(one.first for one in found)])
            assert lowest <= log.last_stable_offset(high_watermark) <= min([high_watermark, *certain])

    @property
    def replicated(self):
        return [entry for entry in self.entries if entry.base < self.follower.log_end_offset]

    @invariant()
    def open_transactions_are_those_without_marker(self):
        if not hasattr(self, "log"):
            return
        for log, entries in ((self.log, self.entries), (self.follower, self.replicated)):
            expected = {one.first: one.producer_id for one in transactions_of(entries) if one.marker is None}
            assert log.producers.transactions.ongoing == expected
            of_producers = {
                entry.transaction_offset: producer_id
                for producer_id, entry in log.producers.producers.items()
                if entry.transaction_offset is not None
            }
            assert of_producers == expected

    @rule(at=where, max_bytes=st.integers(0, 1500), of_follower=st.booleans())
    def read_committed(self, at, max_bytes, of_follower):
        log, entries = (self.follower, self.replicated) if of_follower else (self.log, self.entries)
        if not entries:
            return
        offset = at % log.log_end_offset
        found = log.read(offset, max_bytes, log.log_end_offset)
        size, upper = 0, offset
        for _, batch in log.raw_batches(offset):
            size += len(batch)
            if size > found.length:
                break
            upper = next(entry.last + 1 for entry in entries if entry.last >= upper)
        expected = [
            (one.producer_id, one.first, one.marker)
            for one in sorted(transactions_of(entries), key=lambda one: one.marker or 0)
            if one.is_aborted and one.marker is not None and one.marker >= offset and one.first < upper
        ]
        assert [aborted[:3] for aborted in log.aborted_transactions(offset, found)] == expected


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)


# ------------------------------------------------------------------------------------------------- one rule at a time


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return LogHome(tmp_path).open()[0]


def refused(call: object, *args: object, **named: object) -> ErrorCode:
    with pytest.raises(KafkaError) as refusal:
        call(*args, **named)  # type: ignore[operator]
    return refusal.value.code


def test_a_marker_above_the_high_watermark_leaves_its_transaction_unstable(log: Log) -> None:
    append_data(log, 1, 2)
    assert log.last_stable_offset(2) == 0
    append_marker(log, 1, COMMIT)
    assert [log.last_stable_offset(2), log.last_stable_offset(3)] == [0, 3]


def test_an_older_coordinator_and_an_older_producer_end_nothing(log: Log) -> None:
    append_data(log, 1, epoch=1)
    append_marker(log, 1, COMMIT, epoch=1, coordinator=5)
    assert refused(append_marker, log, 1, ABORT, epoch=1, coordinator=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refused(append_marker, log, 1, ABORT, epoch=0, coordinator=5) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 2


def test_a_marker_of_a_later_epoch_fences_the_producer(log: Log) -> None:
    append_data(log, 1)
    append_marker(log, 1, ABORT, epoch=1)
    assert refused(append_data, log, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert append_data(log, 1, epoch=1).first_offset == 2


@pytest.mark.parametrize("end", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_with_a_marker_alone_a_producer_begins_with_sequence_0(log: Log, end: ControlRecordType) -> None:
    """Of one that is unknown any first sequence is taken. Source: ProducerAppendInfo.checkSequence"""

    def append(producer_id: int, sequence: int) -> AppendInfo:
        its = batch_of(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
        return log.append_as_leader(its, 0, 0)

    append(8, 68)
    append_marker(log, 7, end)
    assert refused(append, 7, 68) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(7, 0)


def test_nothing_outside_of_the_transaction_while_it_is_open(log: Log) -> None:
    append_data(log, 1)
    assert refused(append_data, log, 1, transactional=False) is ErrorCode.INVALID_TXN_STATE
    append_marker(log, 1, COMMIT)
    assert append_data(log, 1, transactional=False).first_offset == 2


def test_a_producer_with_an_open_transaction_does_not_expire(log: Log) -> None:
    append_data(log, 1)
    append_data(log, 2, transactional=False)
    assert log.producers.remove_expired(1000 + PRODUCER_ID_EXPIRATION_MS) == [2]


def test_an_open_transaction_survives_a_stop_by_the_snapshot(tmp_path: Path) -> None:
    """ProducerSnapshot.json: coordinator epoch and first offset of the transaction end each entry."""
    home = LogHome(tmp_path)
    log, _ = home.open()
    append_marker(log, 1, COMMIT, coordinator=6)
    append_data(log, 1)
    log.flush()
    log.close()
    assert (home.directory / f"{2:020d}.snapshot").read_bytes()[-12:] == b"\0\0\0\6" + (1).to_bytes(8)
    log, _ = home.open(clean=True)
    assert log.last_stable_offset(2) == 1
    assert refused(append_marker, log, 1, ABORT, coordinator=5) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_of_the_open_transactions_of_a_snapshot_the_first_one_is_unstable(tmp_path: Path) -> None:
    """Whatever the order in which it names their producers."""
    home = LogHome(tmp_path)
    log, _ = home.open()
    append_marker(log, 1, COMMIT)
    append_data(log, 2)
    append_data(log, 1)
    log.flush()
    log.close()
    log, _ = home.open(clean=True)
    assert log.last_stable_offset(3) == 1


def test_a_snapshot_forgets_which_markers_are_not_replicated(tmp_path: Path) -> None:
    """As in Kafka: ProducerStateManager.truncateAndReload assumes that it ends below the high watermark."""
    home = LogHome(tmp_path)
    log, _ = home.open()
    append_data(log, 1, 2)
    append_marker(log, 1, COMMIT)
    assert log.last_stable_offset(2) == 0
    log.flush()
    log.close()
    log, _ = home.open(clean=True)
    assert log.last_stable_offset(2) == 2


def test_what_the_log_start_has_passed_is_stable(log: Log) -> None:
    append_data(log, 1, 3)
    log.set_log_start_offset(2)
    assert log.last_stable_offset(3) == 2


# -------------------------------------------------------------------------------------------------------- verification


def first_batch(sequence: int = 0) -> bytearray:
    return batch_of(b"r", producer_id=1, producer_epoch=0, base_sequence=sequence, transactional=True)


def test_only_a_verified_batch_begins_a_transaction(log: Log) -> None:
    assert refused(log.append_as_leader, first_batch(), 0, 0, guard=NOT_VERIFIED) is ErrorCode.INVALID_TXN_STATE
    guard = log.producers.begin_verification(1, 0, 0, 0)
    assert guard is not None
    log.append_as_leader(first_batch(), 0, 0, guard=guard)
    assert log.producers.begin_verification(1, 0, 1, 0) is None
    log.append_as_leader(first_batch(1), 0, 0, guard=NOT_VERIFIED)


def test_an_older_epoch_is_refused_before_a_batch_that_is_not_verified(log: Log) -> None:
    """KAFKA-19690: the producer that is fenced may begin anew; INVALID_TXN_STATE would end it."""
    log.append_as_leader(batch_of(b"r", producer_id=1, producer_epoch=1, base_sequence=0), 0, 0)
    assert refused(log.append_as_leader, first_batch(), 0, 0, guard=NOT_VERIFIED) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_between_question_and_append_makes_the_answer_worthless(log: Log) -> None:
    """KAFKA-14402: the late batch would begin a transaction that no coordinator knows, and hang."""
    guard = log.producers.begin_verification(1, 0, 0, 0)
    assert guard is not None
    append_marker(log, 1, ABORT)
    assert refused(log.append_as_leader, first_batch(), 0, 0, guard=guard) is ErrorCode.INVALID_TXN_STATE
    assert log.producers.begin_verification(1, 0, 0, 0) != guard
    assert refused(log.append_as_leader, first_batch(), 0, 0, guard=guard) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(("marker_epoch", "goes_on"), [(1, True), (0, False)])
def test_the_marker_of_the_transaction_before_takes_no_guard_where_each_has_its_epoch(
    log: Log, marker_epoch: int, goes_on: bool
) -> None:
    """transaction.version 2: the marker has the epoch of the next transaction, whose first batch waits."""
    guard = log.producers.begin_verification(1, 1, 0, 0, supports_epoch_bump=True)
    assert guard is not None
    append_marker(log, 1, ABORT, epoch=marker_epoch)
    later = log.producers.begin_verification(1, 1, 0, 0, supports_epoch_bump=True)
    assert (later == guard) is goes_on
    batch = batch_of(b"r", producer_id=1, producer_epoch=1, base_sequence=0, transactional=True)
    if goes_on:
        log.append_as_leader(batch, 0, 0, guard=guard)
    else:
        assert refused(log.append_as_leader, batch, 0, 0, guard=guard) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(("new_epochs", "sequence", "is_taken"), [(True, 3, False), (True, 0, True), (False, 3, True)])
def test_with_new_epochs_a_producer_that_is_not_known_begins_at_sequence_0(
    log: Log, new_epochs: bool, sequence: int, is_taken: bool
) -> None:
    """KAFKA-18202: with transaction.version 2 each transaction of a producer begins at 0; seen on Kafka 4.1.0."""
    guard = log.producers.begin_verification(1, 0, sequence, 0, supports_epoch_bump=new_epochs)
    assert guard is not None
    if is_taken:
        log.append_as_leader(first_batch(sequence), 0, 0, guard=guard)
        log.append_as_leader(first_batch(sequence + 1), 0, 0, guard=NOT_VERIFIED)
    else:
        error = refused(log.append_as_leader, first_batch(sequence), 0, 0, guard=guard)
        assert error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_later_batch_does_not_overtake_one_that_is_being_verified(log: Log) -> None:
    """VerificationStateEntry.maybeUpdateLowestSequenceAndEpoch"""
    guard = log.producers.begin_verification(1, 0, 5, 0)
    assert log.producers.begin_verification(1, 0, 3, 0) == guard
    late = first_batch(5)
    assert refused(log.append_as_leader, late, 0, 0, guard=guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append_as_leader(first_batch(3), 0, 0, guard=guard)


# -------------------------------------------------------------------------------------------------------- the index


def test_the_index_has_kafkas_format(tmp_path: Path) -> None:
    home = LogHome(tmp_path)
    log, _ = home.open()
    append_data(log, 7, 2)
    append_data(log, 8)
    append_marker(log, 7, ABORT)
    log.flush()
    content = (home.directory / f"{0:020d}.txnindex").read_bytes()
    # AbortedTxn: version, producer id, first offset, last offset, last stable offset
    assert content == b"\0\0" + b"".join(number.to_bytes(8) for number in (7, 0, 3, 2))
    assert not log.aborted_transactions(0, EMPTY_SLICE)


@pytest.mark.parametrize("content", [b"x" * (ENTRY_BYTES - 1), b"\0\1" + bytes(32), bytes(2 * ENTRY_BYTES)])
def test_a_damaged_index_is_made_anew(tmp_path: Path, content: bytes) -> None:
    home = LogHome(tmp_path)
    log, _ = home.open()
    append_data(log, 7, 2)
    append_marker(log, 7, ABORT)
    log.flush()
    log.close()
    path = home.directory / f"{0:020d}.txnindex"
    sound = path.read_bytes()
    path.write_bytes(content)
    log, recovery = home.open(clean=True)
    assert recovery.segments_scanned == 1
    assert path.read_bytes() == sound
    assert log.aborted_transactions(0, log.read(0, 1000, 3)) == [AbortedTransaction(7, 0, 2, 3)]


def test_the_search_ends_where_nothing_more_can_overlap() -> None:
    index = TransactionIndex(0)
    index.append(AbortedTransaction(1, 0, 5, 4))
    index.append(AbortedTransaction(2, 4, 9, 10))
    found: list[AbortedTransaction] = []
    assert index.collect(0, 4, found) and [aborted.producer_id for aborted in found] == [1]


# -------------------------------------------------------------------------------------------------------- late markers


@pytest.mark.parametrize(
    ("version", "records", "error"),
    [(0, 1, None), (2, 1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, 0, None)],
    ids=["before 4.2", "since 4.2", "none is open"],
)
def test_a_marker_of_the_open_epoch_comes_late(log: Log, version: int, records: int, error: ErrorCode | None) -> None:
    """KIP-1228: epoch 1 is that of the marker of the first transaction, and of the next one."""
    append_data(log, 1)
    marker = end_transaction_marker(1, 1, COMMIT, 0, timestamp_ms=1000)
    log.append_as_leader(bytearray(marker), 0, 0, from_client=False, transaction_version=version)
    for _ in range(records):
        append_data(log, 1, epoch=1)
    found = None
    try:
        log.append_as_leader(bytearray(marker), 0, 0, from_client=False, transaction_version=version)
    except KafkaError as refusal:
        found = refusal.code
    assert found is error
    assert log.producers.has_ongoing_transaction(1, 1) is (error is not None)


def test_where_no_epoch_is_left_a_marker_ends_what_is_open(log: Log) -> None:
    append_data(log, 1, epoch=LAST_PRODUCER_EPOCH)
    marker = end_transaction_marker(1, LAST_PRODUCER_EPOCH, ABORT, 0, timestamp_ms=1000)
    log.append_as_leader(marker, 0, 0, from_client=False, transaction_version=2)
    assert not log.producers.has_ongoing_transaction(1, LAST_PRODUCER_EPOCH)
