"""Segment files and console lines of brokers of Apache Kafka, as events of their replicas."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stories import GOLDEN

from cluster.kafka.observe.console_lines import ConsoleLine, ConsoleReader, SaidTruncation
from cluster.kafka.observe.log_files import LISTINGS_AFTER_CHANGE, BrokerDisk, DiskLog
from cluster.kafka.observe.log_tail import LogTail, SegmentSize
from cluster.kafka.observe.observed import CONSOLE, LOG_DIRECTORY, WIRE, Seen
from cluster.kafka.observe.replica_events import ReplicaEvents
from replica.ids import Names, TopicPartition
from replica.log.batches.records import build_batch, stamp
from replica.trace import events as trace

T0 = TopicPartition("t", 0)
LEADS = (
    "1795469369860 INFO [Broker id=1] Leader t-0 with topic id Some(jl48jENASqaMOrZPbTYngA) starts at leader epoch 0"
    " from offset 0 with partition epoch 0, high watermark 0, ISR [1,2,3], adding replicas [] and removing replicas []"
    " . Previous leader None and previous leader epoch was -1. (state.change.logger)\n"
)
STARTS_AGAIN = (
    "1795469398243 INFO Recovering 1 logs from /b1 since no clean shutdown file was found (LogManager)\n"
    "1795469398387 INFO Completed load of Log(dir=/b1/t-0, topicId=jl48jENASqaMOrZPbTYngA, topic=t, partition=0,"
    " highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=47) with 1 segments, local-log-start-offset 0"
    " and log-end-offset 47 in 58ms (1/1 completed in /b1) (LogManager)\n"
)
FOLLOWS = (
    "1795469398649 INFO [Broker id=1] Follower t-0 starts at leader epoch 2 from offset 47 with partition epoch 4 and"
    " high watermark 35. Current leader is 2. Previous leader Some(-1) and previous leader epoch was 1. (state)\n"
)
TRUNCATES = (
    "1795469400473 INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating partition t-0 with"
    " TruncationState(offset=35, completed=true) due to leader epoch and offset EpochEndOffset(errorCode=0,"
    " partition=0, leaderEpoch=0, endOffset=35) (ReplicaFetcherThread)\n"
)


def lines(text: str) -> list[ConsoleLine]:
    return list(ConsoleReader().feed(text.encode()))


def real_broker(version: str, into: Path) -> ReplicaEvents:
    with tarfile.open(GOLDEN / "logdirs" / f"kafka-{version}-diverged.tar.xz") as archive:
        archive.extractall(into, filter="data")
    names = Names({1: "b1", 2: "b2", 3: "b3"})
    return ReplicaEvents("b1", BrokerDisk(into / "b1"), names, decided=lambda name: None)


def kinds(seen: list[Seen]) -> list[str]:
    return [type(one.event).__name__ for one in seen]


@pytest.mark.parametrize("version", ["3.9", "4.1"])
def test_a_leader_dies_comes_back_and_cuts_its_log(version: str, tmp_path: Path) -> None:
    broker = real_broker(version, tmp_path)
    assert list(broker.look()) == []
    (leads,) = lines(LEADS)
    began = list(broker.said(leads))
    assert kinds(began) == ["LeadershipBegan"]
    assert began[0].observed_by == CONSOLE
    appended = list(broker.rest())
    assert {one.observed_by for one in appended} == {LOG_DIRECTORY}
    assert {type(one.event) for one in appended} == {trace.BatchAppended}
    assert broker.replicas[T0].end == 47
    sampled = list(broker.sampled(T0, 35))
    assert kinds(sampled) == ["HighWatermarkAdvanced"]
    assert sampled[0].observed_by == WIRE

    broker.stopped()
    broker.started()
    loaded = [seen for line in lines(STARTS_AGAIN) for seen in broker.said(line)]
    recovered = loaded[0].event
    assert isinstance(recovered, trace.LogRecovered)
    assert (recovered.clean, recovered.log_end_offset) == (False, 47)
    (follows,) = lines(FOLLOWS)
    assert kinds(list(broker.said(follows))) == ["FollowingBegan"]

    segments = sorted((tmp_path / "b1" / "t-0").glob("*.log"))
    for path in segments[1:]:
        path.unlink()
    broker.replicas[T0].tail.look(BrokerDisk(tmp_path / "b1").logs()[T0])
    place = next(batch for batch in broker.replicas[T0].tail.batches if batch.header.base_offset == 35)
    with segments[0].open("r+b") as file:
        file.truncate(place.position)
    (truncates,) = lines(TRUNCATES)
    assert isinstance(truncates.said, SaidTruncation)
    cut = [*broker.look(), *broker.said(truncates), *broker.rest()]
    assert kinds(cut) == ["LogTruncated"]
    event = cut[0].event
    assert isinstance(event, trace.LogTruncated)
    assert event.log_end_offset == 35
    assert event.sentence() == "b1 cut its log of t-0 back to 35, where the leader b2 ends in epoch 0"


def test_a_line_counts_once_it_has_ended() -> None:
    reader = ConsoleReader()
    data = (LEADS + FOLLOWS).encode()
    found = [line for place in range(len(data)) for line in reader.feed(data[place : place + 1])]
    assert found == lines(LEADS + FOLLOWS)
    assert len(found) == 2


class Segments:
    """A log in memory, one batch for each record."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = [[]]
        self.bases = [0]
        self.epochs: list[int] = []
        self.state = 0

    @property
    def end(self) -> int:
        return len(self.epochs)

    def append(self, epoch: int, roll: bool) -> None:
        if roll and self.batches[-1]:
            self.batches.append([])
            self.bases.append(self.end)
        batch = build_batch([(b"k", f"{epoch}-{self.end}".encode())], timestamp_ms=1)
        stamp(batch, 0, self.end, epoch)
        self.batches[-1].append(bytes(batch))
        self.epochs.append(epoch)
        self.state += 1

    def cut(self, end: int) -> None:
        while self.end > end:
            if not self.batches[-1]:
                self.batches.pop()
                self.bases.pop()
            self.batches[-1].pop()
            self.epochs.pop()
        self.state += 1

    def segments(self) -> list[SegmentSize]:
        sizes = [sum(map(len, batches)) for batches in self.batches]
        return [SegmentSize(base, size, self.state) for base, size in zip(self.bases, sizes, strict=True)]

    def read(self, base_offset: int, position: int, count: int) -> bytes:
        if base_offset not in self.bases:
            return b""
        return b"".join(self.batches[self.bases.index(base_offset)])[position : position + count]


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("cut"), st.integers(0, 12), st.booleans()),
    st.tuples(st.just("look"), st.just(0), st.booleans()),
)


@given(st.lists(STEPS, max_size=40))
def test_the_changes_add_up_to_what_the_files_hold(steps: list[tuple[str, int, bool]]) -> None:
    log, tail, told = Segments(), LogTail(), list[tuple[int, int]]()
    for step, number, roll in (*steps, ("look", 0, False)):
        if step == "append":
            log.append(number, roll)
        elif step == "cut":
            log.cut(number)
        else:
            cut_to, appended = tail.look(log)
            if cut_to is not None:
                assert told and told[-1][0] >= cut_to
                told = [one for one in told if one[0] < cut_to]
            told += [(batch.header.base_offset, batch.header.leader_epoch) for batch in appended]
            assert told == list(enumerate(log.epochs))
            assert tail.end == log.end


def test_retention_may_take_all_that_there_is(tmp_path: Path) -> None:
    """The broker rolls an empty segment first: the log starts where it ends, and nothing of it is lost."""
    replica = tmp_path / "t-0"
    replica.mkdir()
    batches = b"".join(bytes(stamped) for stamped in (batch_at(0), batch_at(1)))
    (replica / f"{0:020}.log").write_bytes(batches)
    broker = ReplicaEvents("b1", BrokerDisk(tmp_path), Names({1: "b1"}), decided=lambda name: None)
    assert kinds([*broker.look(), *broker.rest()]) == ["BatchAppended", "BatchAppended"]
    (replica / f"{2:020}.log").touch()
    (replica / f"{0:020}.log").unlink()
    (seen,) = [*broker.look(), *broker.rest()]
    assert isinstance(seen.event, trace.LogStartOffsetAdvanced)
    assert seen.event.log_start_offset == 2


def batch_at(offset: int) -> bytearray:
    batch = build_batch([(b"k", b"v")], timestamp_ms=1)
    stamp(batch, 0, offset, 0)
    return batch


def test_a_segment_that_is_renamed_between_two_calls_hides_no_other(tmp_path: Path) -> None:
    """Retention takes the first; the time stamp of the directory does not say so yet."""
    for base_offset in (0, 20):
        (tmp_path / f"{base_offset:020}.log").write_bytes(bytes(base_offset))
    log = DiskLog(tmp_path)
    for _ in range(LISTINGS_AFTER_CHANGE + 1):
        assert [segment.base_offset for segment in log.segments()] == [0, 20]
    listed = tmp_path.stat()
    first = tmp_path / f"{0:020}.log"
    first.rename(first.with_suffix(".log.deleted"))
    os.utime(tmp_path, ns=(listed.st_atime_ns, listed.st_mtime_ns))
    assert [segment.base_offset for segment in log.segments()] == [20]


def test_a_refusal_has_the_words_of_the_exception_in_the_next_line(tmp_path: Path) -> None:
    broker = real_broker("4.1", tmp_path)
    refusal = (
        "1795484322440 ERROR [ReplicaManager broker=1] Error processing append operation on partition"
        " O_cVZk05SeWibXKdDa43jg:t-0 (ReplicaManager)\n"
        "org.apache.kafka.common.errors.NotEnoughReplicasException: The size of the current ISR : 1 is insufficient\n"
    )
    (seen,) = [seen for line in lines(refusal) for seen in broker.said(line)]
    assert isinstance(seen.event, trace.ProduceRefused)
    assert seen.event.error == "NOT_ENOUGH_REPLICAS"
    assert seen.event.sentence() == (
        "b1 refused a batch for t-0 with NOT_ENOUGH_REPLICAS: The size of the current ISR : 1 is insufficient"
    )
