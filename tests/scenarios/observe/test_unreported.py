"""Changes on the disk of a dead process that it did not report: in logs of one segment, and of many."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from small_scenario import load

from cluster.network.host import Host
from replica.config import TopicConfig
from replica.ids import TopicPartition
from replica.log.batches.records import build_batch
from replica.log.files.disk import Disk
from replica.log.log import Log
from replica.trace.events import BatchAppended, LeadershipBegan, LogTruncated, TraceEvent, TraceLog
from scenarios.observe.unreported import emit_unreported
from scenarios.observe.view import ClusterView, ReplicaView
from scenarios.run.runner import run_scenario

NODE, EPOCH, RECORD_BYTES = "second", 4, 700
NAME = TopicPartition("t", 2)


class Broker:
    """A log with two records in a segment, and the view that its process reports to."""

    def __init__(self, root: Path) -> None:
        self.disk = Disk(root, sync=False)
        self.log = self._opened(clean=True)
        self.view = ClusterView((NODE,))
        self.stated: list[TraceEvent] = []
        self._trace = TraceLog([self.view, lambda row: self.stated.append(row.event)])
        self._trace.emit(
            LeadershipBegan(
                node=NODE,
                topic=NAME.topic,
                partition=NAME.partition,
                leader_epoch=EPOCH,
                log_end_offset=0,
                high_watermark=0,
                partition_epoch=0,
                isr=(NODE,),
            )
        )
        self.stated.clear()

    @property
    def seen(self) -> ReplicaView:
        replica = self.view.replica(NAME, NODE)
        assert replica is not None
        return replica

    def _opened(self, *, clean: bool, log_start_offset: int = 0) -> Log:
        config = TopicConfig(segment_bytes=2 * RECORD_BYTES + 300)
        directory = self.disk.root / str(NAME)
        return Log.open(directory, NAME, config, self.disk, clean=clean, log_start_offset=log_start_offset)[0]

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.log.append_as_leader(build_batch([(None, bytes(RECORD_BYTES))], timestamp_ms=1), EPOCH, 0)

    def lose_power(self) -> None:
        self.log.abandon()
        self.disk.lose_unflushed()
        self.log = self._opened(clean=False, log_start_offset=self.log.log_start_offset)

    def tell(self) -> None:
        self.seen.log_start_offset, self.seen.log_end_offset = self.log.log_start_offset, self.log.log_end_offset

    def die(self) -> list[TraceEvent]:
        """The events stated about it then. Afterwards the view agrees with the log."""
        self.stated.clear()
        emit_unreported(self._trace, self.view, NODE, [self.disk])
        assert self.seen.log_end_offset == self.log.log_end_offset
        return self.stated


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_a_segment_that_power_loss_has_emptied_is_where_the_log_ends(broker: Broker) -> None:
    broker.append(5)
    broker.lose_power()
    broker.tell()
    assert [path.stat().st_size > 0 for path in sorted(broker.disk.root.glob("*/*.log"))] == [True, True, False]
    assert broker.log.log_end_offset == 4 and broker.die() == []


def test_batches_of_two_segments_that_were_not_told_are_stated_in_order(broker: Broker) -> None:
    broker.append()
    broker.tell()
    broker.append(3)
    stated = [(event.base_offset, event.log_end_offset) for event in broker.die() if isinstance(event, BatchAppended)]
    assert stated == [(1, 2), (2, 3), (3, 4)]


def test_a_cut_that_was_not_told_is_stated_wherever_it_leaves_the_end(broker: Broker) -> None:
    broker.append(7)
    broker.tell()
    broker.log.truncate_to(4)  # where a segment begins
    (cut,) = broker.die()
    assert isinstance(cut, LogTruncated) and (cut.previous_log_end_offset, cut.log_end_offset) == (7, 4)
    broker.log.truncate_to(1)
    (cut,) = broker.die()
    assert isinstance(cut, LogTruncated) and (cut.previous_log_end_offset, cut.log_end_offset) == (4, 1)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_was_done_last_the_disk_tells_it(broker: Broker, seed: int) -> None:
    """The last thing alone can be unreported: events of a step leave before the next."""
    stream = random.Random(seed)
    for _ in range(60):
        start, end = broker.log.log_start_offset, broker.log.log_end_offset
        broker.tell()
        match stream.choice(("append", "append", "cut", "raise start", "flush", "lose power", "begin anew")):
            case "append":
                broker.append(stream.randint(1, 4))
                assert [type(event) for event in broker.die()] == [BatchAppended] * (broker.log.log_end_offset - end)
            case "cut":
                broker.log.truncate_to(stream.randint(start, end))
                assert len(broker.die()) == (broker.log.log_end_offset < end)
            case "raise start":
                broker.log.set_log_start_offset(stream.randint(start, end))
                assert broker.die() == []
            case "flush":
                broker.log.flush()
                assert broker.die() == []
            case "lose power":
                broker.lose_power()
                broker.tell()
                assert broker.die() == []
            case "begin anew":
                broker.log.truncate_fully_and_start_at(end + stream.randint(0, 3))
                assert len(broker.die()) == (broker.log.log_end_offset != end)


@pytest.mark.parametrize("verb", ["kill", "power_off"])
def test_what_each_of_several_did_not_tell_is_stated_before_the_first_of_them_ends(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated: list[tuple[str, bool, bool]] = []

    def noted(trace: TraceLog, view: ClusterView, node: str, disks: Sequence[Disk]) -> None:
        stated.append((node, view.nodes["b2"].running, view.nodes["b3"].running))

    monkeypatch.setattr(Host, "reports_all", False)
    monkeypatch.setattr("scenarios.observe.unreported.emit_unreported", noted)
    run_scenario(load(f"{{at: 5s, {verb}: [b2, b3]}}"), runs_dir=None)
    assert stated[:2] == [("b2", True, True), ("b3", True, True)]
    assert "b1" in [node for node, *_ in stated[2:]] and not any(running for _, *both in stated[2:] for running in both)
