"""A broker's log directory over several lives of its broker."""

from __future__ import annotations

import base64
import json
import re
from uuid import UUID

import pytest
from replica_logs import ORDERS, batch_of, content_of, values_of

from replica.config import TopicConfig
from replica.ids import TopicPartition
from replica.log.files.checkpoints import CorruptCheckpoint, read_checkpoint, read_offsets, write_offsets
from replica.log.files.disk import Disk
from replica.log.manager import LogManager, WrongLogDirectory

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
OTHER = TopicPartition("audit-trail", 3)


class Machine:
    """One broker's disk, and its broker started again and again."""

    def __init__(self, root):
        self.root = root / "b1"
        self.disk = Disk(self.root, sync=False)

    def start(self, **config):
        return LogManager.open(self.root, self.disk, 1, TopicConfig(**config), 0)

    def fresh(self, records=3, **config):
        manager = self.start()
        log = manager.create(ORDERS, TopicConfig(**config), TOPIC_ID)
        for i in range(records):
            log.append_as_leader(batch_of(b"r%d" % i), 0, 0)
        return manager

    def text(self, name):
        return (self.root / name).read_text()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_an_orderly_stop_and_start(machine):
    machine.fresh().close_clean(42, {ORDERS: 2})
    assert json.loads(machine.text(".kafka_cleanshutdown")) == {"version": 0, "brokerEpoch": 42}
    assert machine.text("recovery-point-offset-checkpoint") == "0\n1\norders 0 3\n"
    assert machine.text("replication-offset-checkpoint") == "0\n1\norders 0 2\n"
    manager = machine.start()
    assert (manager.was_clean, manager.previous_broker_epoch) == (True, 42)
    assert not (machine.root / ".kafka_cleanshutdown").exists()  # if this start dies, the next one must recover
    assert manager.recoveries[ORDERS].segments_scanned == 0
    assert manager.high_watermark_checkpoint(ORDERS) == 2
    assert manager.topic_ids[ORDERS] == TOPIC_ID
    assert values_of(manager.logs[ORDERS]) == [(0, b"r0"), (1, b"r1"), (2, b"r2")]


def test_a_kill_and_start(machine):
    manager = machine.fresh()
    manager.checkpoint_high_watermarks({ORDERS: 2})
    manager.abandon()
    manager = machine.start()
    assert (manager.was_clean, manager.previous_broker_epoch) == (False, -1)
    assert manager.recoveries[ORDERS].batches_checked == 3
    assert manager.logs[ORDERS].log_end_offset == 3
    assert manager.high_watermark_checkpoint(ORDERS) == 2


def test_the_high_watermark_is_clamped_to_what_the_log_still_holds(machine):
    manager = machine.fresh()
    manager.checkpoint_high_watermarks({ORDERS: 3})
    manager.abandon()
    machine.disk.lose_unflushed()
    manager = machine.start()
    assert manager.high_watermark_checkpoint(ORDERS) == 0
    log = manager.logs[ORDERS]
    log.truncate_fully_and_start_at(9)
    assert manager.high_watermark_checkpoint(ORDERS) == 9


def test_power_loss_is_survived_up_to_the_flush(machine):
    manager = machine.fresh()
    manager.logs[ORDERS].flush()
    manager.checkpoint_recovery_points()
    manager.logs[ORDERS].append_as_leader(batch_of(b"unflushed"), 0, 0)
    manager.abandon()
    machine.disk.lose_unflushed()
    manager = machine.start()
    assert [value for _, value in values_of(manager.logs[ORDERS])] == [b"r0", b"r1", b"r2"]


def test_a_tear_after_an_orderly_stop_is_noticed(machine):
    machine.fresh().close_clean(42, {ORDERS: 3})
    machine.disk.tear(ORDERS, 10)
    manager = machine.start()
    assert not manager.was_clean
    assert manager.logs[ORDERS].log_end_offset == 2
    assert machine.text("recovery-point-offset-checkpoint") == "0\n1\norders 0 2\n"


def test_truncation_checkpoints_the_recovery_point_at_once(machine):
    manager = machine.fresh()
    manager.logs[ORDERS].flush()
    manager.checkpoint_recovery_points()
    assert manager.truncate_to(ORDERS, 1) == 1
    assert machine.text("recovery-point-offset-checkpoint") == "0\n1\norders 0 1\n"
    manager.truncate_fully_and_start_at(ORDERS, 70)
    assert machine.text("recovery-point-offset-checkpoint") == "0\n1\norders 0 70\n"


def test_the_log_start_survives_when_it_lies_inside_a_segment(machine):
    manager = machine.fresh()
    manager.logs[ORDERS].set_log_start_offset(2)
    manager.close_clean(1, {})
    assert machine.text("log-start-offset-checkpoint") == "0\n1\norders 0 2\n"
    log = machine.start().logs[ORDERS]
    assert (log.log_start_offset, values_of(log)) == (2, [(2, b"r2")])


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"])
@pytest.mark.parametrize("content", ["", "7\n0\n", "0\n2\norders 0 3\n", "0\n1\norders 0\n", "0\n1\norders 0 x\n"])
def test_an_unreadable_checkpoint_means_from_the_beginning(machine, name, content):
    machine.fresh().abandon()
    (machine.root / name).write_text(content)
    manager = machine.start()
    assert manager.high_watermark_checkpoint(ORDERS) == 0
    assert manager.recoveries[ORDERS].batches_checked == 3


def test_a_marker_without_an_epoch_still_means_clean(machine):
    machine.fresh().close_clean(42, {})
    (machine.root / ".kafka_cleanshutdown").write_text("")
    manager = machine.start()
    assert (manager.was_clean, manager.previous_broker_epoch) == (True, -1)


def test_creating_a_partition_that_is_there_keeps_its_records(machine):
    machine.fresh().close_clean(1, {})
    manager = machine.start()
    log = manager.create(ORDERS, TopicConfig(flush_messages=1), TOPIC_ID)
    assert log is manager.logs[ORDERS]
    assert log.log_end_offset == 3
    log.append_as_leader(batch_of(b"r3"), 0, 0)
    assert log.recovery_point == 4
    manager.set_config(ORDERS, TopicConfig())
    log.append_as_leader(batch_of(b"r4"), 0, 0)
    assert log.recovery_point == 4


def test_a_deleted_partition_is_gone_but_its_slices_can_still_be_sent(machine):
    manager = machine.fresh()
    manager.create(OTHER, TopicConfig(), TOPIC_ID)
    found = manager.logs[ORDERS].read(0, 1000, 3)
    before = content_of(found)
    left = manager.delete(ORDERS)
    assert list(manager.logs) == [OTHER]
    assert not (machine.root / "orders-0").exists()
    assert re.fullmatch(r"orders-0\.[0-9a-f]{32}-delete", left.name)
    assert left.is_dir()
    assert machine.disk.unflushed_bytes(ORDERS) == 0
    assert content_of(found) == before != b""
    manager.remove(left)
    manager.remove(left)
    assert not left.exists()


def test_a_deleted_partition_may_be_made_again_and_what_is_left_of_it_goes_with_the_next_start(machine):
    manager = machine.fresh()
    left = []
    for _ in range(2):
        left.append(manager.delete(ORDERS))
        assert manager.create(ORDERS, TopicConfig(), TOPIC_ID).log_end_offset == 0
    assert len({path.name for path in left}) == 2
    manager.close_clean(1, {})
    manager = machine.start()
    assert list(manager.logs) == [ORDERS]
    assert not any(path.exists() for path in left)


def test_the_name_of_a_deleted_partition_is_not_longer_than_a_file_may_be_called(machine):
    manager = machine.start()
    longest = TopicPartition("t" * 249, 12)
    manager.create(longest, TopicConfig(), TOPIC_ID)
    assert len(manager.delete(longest).name) == 255


def test_logs_are_loaded_in_one_order_and_other_directories_are_left_alone(machine):
    manager = machine.start()
    for number in (10, 9, 2):
        manager.create(TopicPartition("t", number), TopicConfig(), TOPIC_ID)
    manager.abandon()
    (machine.root / "lost+found").mkdir()
    names = [str(topic_partition) for topic_partition in machine.start().logs]
    assert names == ["t-10", "t-2", "t-9"]


def test_expired_producers_are_forgotten(machine):
    manager = machine.fresh(0)
    log = manager.logs[ORDERS]
    log.append_as_leader(batch_of(b"r", producer_id=5, producer_epoch=0, base_sequence=0), 0, 0)
    manager.remove_expired_producers(86_400_999_000)
    assert list(log.producers.producers) == [5]
    manager.remove_expired_producers(86_401_000_000)
    assert list(log.producers.producers) == []


def test_another_brokers_directory_is_refused(machine):
    machine.start().abandon()
    with pytest.raises(WrongLogDirectory, match=r"node\.id is 1, expected 2"):
        LogManager.open(machine.root, machine.disk, 2, TopicConfig())
    with pytest.raises(WrongLogDirectory, match=r"cluster\.id is aGlnaHdhdGVyY2x1c3Rlcg, expected other"):
        LogManager.open(machine.root, machine.disk, 1, TopicConfig(), cluster_id="other")


def test_the_small_files_have_kafkas_format(machine):
    machine.fresh()
    lines = machine.text("meta.properties").splitlines()
    assert lines[:3] == ["version=1", "cluster.id=aGlnaHdhdGVyY2x1c3Rlcg", "node.id=1"]
    assert [line.partition("=")[0] for line in lines[3:]] == ["directory.id"]
    assert machine.text("orders-0/partition.metadata") == "version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w\n"


def test_ids_are_spelled_as_kafka_reads_them(machine):
    """Uuid.fromString: at most 24 characters of URL-safe base64, which are 16 bytes. StorageTool reads no others."""
    manager = machine.start()
    properties = dict(line.split("=", 1) for line in machine.text("meta.properties").splitlines())
    for text in (properties["cluster.id"], properties["directory.id"]):
        assert re.fullmatch(r"[A-Za-z0-9_-]{22}", text)
        assert len(base64.urlsafe_b64decode(text + "==")) == 16
    assert UUID(bytes=base64.urlsafe_b64decode(properties["directory.id"] + "==")) == manager.directory_id


def test_a_damaged_partition_metadata_is_an_error(machine):
    machine.fresh().abandon()
    (machine.root / "orders-0" / "partition.metadata").write_text("version: 0\n")
    with pytest.raises(CorruptCheckpoint, match="no valid topic_id"):
        machine.start()


def test_offset_checkpoints_round_trip_sorted(tmp_path):
    path = tmp_path / "checkpoint"
    offsets = {TopicPartition("b", 0): 5, TopicPartition("a", 10): 1, TopicPartition("a", 9): 2**40}
    write_offsets(path, offsets, sync=True)
    assert read_checkpoint(path, 3) == [["a", "9", str(2**40)], ["a", "10", "1"], ["b", "0", "5"]]
    assert read_offsets(path) == offsets
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]
