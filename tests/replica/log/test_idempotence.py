"""Idempotence as a story, tests/golden/idempotence.txt; then what a story cannot show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from replica_logs import LogHome, batch_of, content_of

from replica.errors import ErrorCode, KafkaError
from replica.log.batches.records import BatchHeader
from replica.log.producers.producer_snapshots import read_snapshot, write_snapshot
from replica.log.producers.producer_state import PRODUCER_ID_EXPIRATION_MS, ProducerStateManager

TRANSCRIPT = Path(__file__).parents[2] / "golden" / "idempotence.txt"


class Story:
    """Two replicas of a partition; one verb, one small method."""

    def __init__(self, root: Path) -> None:
        self.leader_epoch = 0
        self.homes = [LogHome(root / "b1"), LogHome(root / "b2")]
        self.logs = [home.open()[0] for home in self.homes]

    def produce(self, *, pid: int = 7, epoch: int = 0, seq: int, n: int) -> list[str]:
        batch = batch_of(*[b"r"] * n, producer_id=pid, producer_epoch=epoch, base_sequence=seq)
        try:
            info = self.logs[0].append_as_leader(batch, self.leader_epoch, 2_000_000)
        except KafkaError as error:
            return [f"{error.code.name}: {error}"]
        return [f"{'duplicate of' if info.duplicate else 'appended'} {info.first_offset}..{info.last_offset}"]

    def state(self) -> list[str]:
        log = self.logs[0]
        lines = [f"LEO={log.log_end_offset}"]
        for pid, entry in sorted(log.producers.producers.items()):
            batches = [f"{b.first_sequence}-{b.last_sequence} at {b.first_offset}" for b in entry.batches]
            lines.append(f"  pid={pid} epoch={entry.epoch} batches: {', '.join(batches)}")
        return lines

    def replicate(self) -> None:
        leader, follower = self.logs
        while follower.log_end_offset < leader.log_end_offset:
            found = leader.read(follower.log_end_offset, 300, leader.log_end_offset)
            follower.append_as_follower(content_of(found), 2_000_000, self.leader_epoch)

    def failover(self) -> None:
        self.homes.reverse()
        self.logs.reverse()
        self.leader_epoch += 1

    def truncate(self, *, to: int) -> None:
        self.logs[0].truncate_to(to)

    def kill(self) -> None:
        self.logs[0].abandon()
        self.logs[0], _ = self.homes[0].open(clean=False, now_us=2_000_000)

    def stop(self) -> None:
        self.logs[0].close()
        self.logs[0], _ = self.homes[0].open(clean=True, now_us=2_000_000)

    def expire(self) -> None:
        self.logs[0].producers.remove_expired(1000 + PRODUCER_ID_EXPIRATION_MS)


def test_transcript(tmp_path, transcript):
    transcript(TRANSCRIPT, Story(tmp_path))


def header(offset, *, producer_id=7, epoch=0, sequence=0, count=1, timestamp=1000):
    return BatchHeader(
        base_offset=offset,
        size_bytes=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def test_replicas_accept_gaps():
    """ProducerStateManagerTest.testAcceptAppendWithSequenceGapsOnReplica: the leader decided, followers take note."""
    state = ProducerStateManager(None, sync=False)
    state.update(header(0, sequence=0))
    state.update(header(1, sequence=5))
    assert state.producers[7].last_sequence == 5
    with pytest.raises(KafkaError) as refusal:
        state.validate(header(2, sequence=5))
    assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal.value.details["expected_sequence"] == 6


def test_control_batches_and_plain_batches_leave_no_state():
    state = ProducerStateManager(None, sync=False)
    state.update(header(0, producer_id=-1))
    state.update(replace(header(1), attributes=0x20))
    assert state.producers == {}


def test_only_silent_producers_expire():
    state = ProducerStateManager(None, sync=False, expiration_ms=100)
    state.update(header(0, producer_id=1, timestamp=1000))
    state.update(header(1, producer_id=2, timestamp=1001))
    assert state.remove_expired(1100) == [1]
    assert list(state.producers) == [2]


def test_a_producer_that_expired_while_the_broker_was_down_is_not_loaded(tmp_path):
    home = LogHome(tmp_path)
    log, _ = home.open()
    for pid, timestamp in ((1, 1000), (2, 1001)):
        batch = batch_of(b"r", timestamp_ms=timestamp, producer_id=pid, producer_epoch=0, base_sequence=0)
        log.append_as_leader(batch, 0, 0)
    log.flush()
    log.close()
    log, _ = home.open(clean=True, now_us=(1000 + PRODUCER_ID_EXPIRATION_MS) * 1000)
    assert list(log.producers.producers) == [2]


def refuse_unknown(log, error=ErrorCode.UNKNOWN_PRODUCER_ID):
    """As before 2.4 and 2.5."""
    log.producers.unknown_error = error
    return log


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
@pytest.mark.parametrize(("start", "is_known"), [(2, True), (3, False)])
def test_an_old_log_forgets_a_producer_with_its_last_record(tmp_path, start, is_known, error):
    """KAFKA-7190; the error is UNKNOWN_PRODUCER_ID since 1.0 (KAFKA-5793)."""
    log = refuse_unknown(LogHome(tmp_path).open()[0], error)
    log.append_as_leader(batch_of(b"a", b"b", b"c", producer_id=7, producer_epoch=0, base_sequence=0), 0, 0)
    log.append_as_leader(batch_of(b"d", producer_id=8, producer_epoch=0, base_sequence=0), 0, 0)
    log.set_log_start_offset(start)
    assert list(log.producers.producers) == ([7, 8] if is_known else [8])
    later = batch_of(b"e", producer_id=7, producer_epoch=0, base_sequence=3)
    if is_known:
        assert log.append_as_leader(later, 0, 0).first_offset == 4
        return
    with pytest.raises(KafkaError) as refusal:
        log.append_as_leader(later, 0, 0)
    assert refusal.value.code is error
    again = batch_of(b"e", producer_id=7, producer_epoch=0, base_sequence=0)
    assert log.append_as_leader(again, 0, 0).first_offset == 4


def test_an_old_log_forgets_what_a_snapshot_still_has(tmp_path):
    home = LogHome(tmp_path)
    log = refuse_unknown(home.open()[0])
    log.append_as_leader(batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=0), 0, 0)
    log.append_as_leader(batch_of(b"b", producer_id=8, producer_epoch=0, base_sequence=0), 0, 0)
    log.close()
    state = ProducerStateManager(home.directory, sync=False)
    state.unknown_error = ErrorCode.UNKNOWN_PRODUCER_ID
    assert state.truncate_and_reload(1, 2, 0) == 2
    assert list(state.producers) == [8]


def test_the_snapshot_has_kafkas_format(tmp_path):
    """Version 1, CRC-32C, count, then 46 bytes per producer (ProducerSnapshot.json)."""
    state = ProducerStateManager(None, sync=False)
    state.update(header(0, sequence=0, count=2))
    state.update(header(2, sequence=2, count=3, epoch=0, timestamp=1234))
    path = tmp_path / "5.snapshot"
    write_snapshot(path, state.producers, sync=False)
    content = path.read_bytes()
    assert content[:2] == b"\0\1"
    assert content[6:10] == b"\0\0\0\1"
    fields = [(7, 8), (0, 2), (4, 4), (4, 8), (2, 4), (1234, 8), (-1, 4), (-1, 8)]
    assert content[10:] == b"".join(number.to_bytes(size, signed=True) for number, size in fields)
    (entry,) = read_snapshot(path) or []
    assert (entry.producer_id, entry.epoch, entry.last_timestamp_ms) == (7, 0, 1234)
    assert list(entry.batches) == [state.producers[7].batches[-1]]


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-1], lambda c: c[:7], lambda c: c[:-1] + b"x", lambda c: b"\0\2" + c[2:]]
)
def test_a_damaged_snapshot_is_replaced_by_a_replay(tmp_path, damage):
    home = LogHome(tmp_path)
    log, _ = home.open()
    for sequence in range(3):
        batch = batch_of(b"r", producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append_as_leader(batch, 0, 0)
    log.close()
    (path,) = home.directory.glob("*.snapshot")
    path.write_bytes(damage(path.read_bytes()))
    log, _ = home.open(clean=True)
    assert [batch.first_sequence for batch in log.producers.producers[7].batches] == [0, 1, 2]
    assert [entry.last_sequence for entry in read_snapshot(path) or []] == [2]


def test_snapshots_follow_the_segments(tmp_path):
    home = LogHome(tmp_path, segment_bytes=1024)
    log, _ = home.open()
    for sequence in range(8):
        log.append_as_leader(batch_of(b"x" * 300, producer_id=7, producer_epoch=0, base_sequence=sequence), 0, 0)
    assert log.producers.snapshot_offsets == (2, 4, 6)
    log.truncate_to(5)
    assert log.producers.snapshot_offsets == (2, 4, 5)
    assert log.producers.producers[7].last_sequence == 4
    log.close()
    assert [int(path.stem) for path in sorted(home.directory.glob("*.snapshot"))] == [2, 4, 5]
    log, _ = home.open(clean=True)
    log.append_as_leader(batch_of(b"x" * 300, producer_id=7, producer_epoch=0, base_sequence=5), 0, 0)
    log.close()
    log, _ = home.open(clean=True)
    assert log.producers.snapshot_offsets == (2, 4, 6)


def test_a_crash_leaves_snapshots_at_segments_and_at_the_end(tmp_path):
    home = LogHome(tmp_path, segment_bytes=1024)
    log, _ = home.open()
    for sequence in range(5):
        log.append_as_leader(batch_of(b"x" * 300, producer_id=7, producer_epoch=0, base_sequence=sequence), 0, 0)
    log.close()
    log, _ = home.open(clean=True)
    log.append_as_leader(batch_of(b"x" * 300, producer_id=7, producer_epoch=0, base_sequence=5), 0, 0)
    log.abandon()
    log, _ = home.open(clean=False)
    assert log.producers.snapshot_offsets == (2, 4, 6)
    assert [batch.first_sequence for batch in log.producers.producers[7].batches] == [5]


@pytest.mark.parametrize(
    ("clean", "later", "known"), [(True, 0, []), (False, 0, []), (True, 1, [7, 8]), (False, 1, [7, 8])]
)
def test_a_producer_without_records_is_known_from_a_snapshot_at_the_end_of_the_log(tmp_path, clean, later, known):
    """ProducerStateManager.truncateAndReload deletes what lies at the log start, where the roll has left a snapshot.

    After a crash LogLoader.recoverSegment writes the one at the end. It still starts from the one at the first segment,
    since the checkpoint has no log start then (LogManager.checkpointLogStartOffsetsInDir).
    """
    home = LogHome(tmp_path, retention_ms=1000)
    log, _ = home.open()
    log.append_as_leader(batch_of(b"a", timestamp_ms=1, producer_id=7, producer_epoch=0, base_sequence=0), 0, 0)
    log.retire_old_segments(1, 5_000_000)
    for sequence in range(later):
        batch = batch_of(b"b", timestamp_ms=5000, producer_id=8, producer_epoch=0, base_sequence=sequence)
        log.append_as_leader(batch, 0, 0)
    assert (log.log_start_offset, log.producers.snapshot_offsets) == (1, (1,))
    if clean:
        log.flush()
        log.close()
    else:
        log.abandon()
    log, _ = home.open(clean=clean)
    assert log.log_start_offset == 1
    assert list(log.producers.producers) == known


def test_a_truncation_leaves_a_snapshot_that_the_next_one_starts_from(tmp_path):
    home = LogHome(tmp_path)
    log, _ = home.open()

    def append(first: int, end: int) -> None:
        for sequence in range(first, end):
            log.append_as_leader(batch_of(b"r", producer_id=7, producer_epoch=0, base_sequence=sequence), 0, 0)

    append(0, 4)
    log.truncate_to(3)
    assert [batch.first_sequence for batch in log.producers.producers[7].batches] == [0, 1, 2]
    append(3, 6)
    log.truncate_to(5)
    assert [batch.first_sequence for batch in log.producers.producers[7].batches] == [2, 3, 4]
    assert log.producers.snapshot_offsets == (3, 5)
