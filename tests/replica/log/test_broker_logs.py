"""Several log directories of one broker: where replicas go, and what is left when one fails."""

from __future__ import annotations

from uuid import UUID

import pytest
from replica_logs import batch_of

from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import TopicPartition
from replica.log.broker_logs import BrokerLogs
from replica.log.files.disk import Disk

CONFIG = TopicConfig()
TOPIC_ID = UUID(int=7)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Machine:
    def __init__(self, root):
        self.disks = {name: Disk(root / name, sync=False) for name in ("d1", "d2")}

    def start(self):
        return BrokerLogs.open(self.disks, 1, CONFIG, 0, producer_id_expiration_ms=1000)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "b1")


def places(logs):
    return {name: sorted(map(str, manager.logs)) for name, manager in logs.directories.items()}


def test_a_new_replica_goes_where_the_fewest_are_and_stays_there(machine):
    logs = machine.start()
    for name in (T0, T1, T2):
        logs.create(name, CONFIG, TOPIC_ID)
    assert places(logs) == {"d1": ["t-0", "t-2"], "d2": ["t-1"]}
    logs.abandon()
    logs = machine.start()
    logs.create(T1, CONFIG, TOPIC_ID)
    assert places(logs) == {"d1": ["t-0", "t-2"], "d2": ["t-1"]}
    assert len(set(logs.directory_ids())) == 2


@pytest.mark.parametrize(("fault", "reads"), [("full", True), ("broken", False)])
def test_a_disk_that_refuses_is_reported_before_anything_is_written(machine, fault, reads):
    logs = machine.start()
    log = logs.create(T0, CONFIG, TOPIC_ID)
    log.append_as_leader(batch_of(b"r0"), 0, 0)
    reported = []
    machine.disks["d1"].on_failure = lambda disk, why: reported.append(disk)
    setattr(machine.disks["d1"], fault, True)
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(batch_of(b"r1"), 0, 0)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_end_offset, reported) == (1, [machine.disks["d1"]])
    if reads:
        assert log.read(0, 1000, 1).length > 0
    else:
        with pytest.raises(KafkaError):
            log.read(0, 1000, 1)


def test_a_checkpoint_notices_a_failed_disk_although_nothing_has_changed(machine):
    logs = machine.start()
    logs.create(T0, CONFIG, TOPIC_ID)
    logs.checkpoint_high_watermarks({T0: 0})
    reported = []
    machine.disks["d1"].on_failure = lambda disk, why: reported.append(why)
    machine.disks["d1"].full = True
    logs.checkpoint_high_watermarks({T0: 0})
    assert reported == ["No space left on device"]


def test_a_directory_that_fails_takes_its_replicas_along_and_gets_no_marker(machine):
    logs = machine.start()
    for name in (T0, T1):
        logs.create(name, CONFIG, TOPIC_ID)
    failed = logs.take_offline(machine.disks["d2"])
    assert failed is not None
    assert failed[0] == "d2"
    assert logs.take_offline(machine.disks["d2"]) is None
    assert list(logs.logs) == [T0]
    logs.close_clean(5, {T0: 0})
    logs = machine.start()
    assert (logs.was_clean, logs.previous_broker_epoch) == (False, -1)


def test_a_broken_disk_is_offline_from_the_start(machine):
    machine.disks["d1"].broken = True
    assert list(machine.start().directories) == ["d2"]
