"""The oracle of `highwater read`: a broker of Apache Kafka is killed under load, its logs are damaged, each in its own
way, `read` foretells what a start will do, and then Kafka starts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from broker_directories import change_byte, read_all
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from test_kafka_on_our_directories import START_S, Kafka

from cluster.kafka.home import installed
from scenarios.cli.read.screen import reading_text
from scenarios.logdirs.replica_log import StoredReplica
from scenarios.terminal.style import Style
from tests.waiting import wait_for

JARS = [jars for jars in installed(os.environ) if jars.number >= (4,)]
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not JARS or shutil.which("java") is None, reason="highwater kafka install 4.1.2, and Java"),
]
SETTINGS = {
    "log.segment.bytes": 1 << 20,
    "log.initial.task.delay.ms": 200,
    "log.flush.offset.checkpoint.interval.ms": 500,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
}
VALUE_BYTES, RECORDS = 10_000, 260
FIRST, LAST = 0, -1


def tear(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def append_zeros(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(4096))


def flip(path: Path) -> None:
    change_byte(path, path.stat().st_size // 2)


def lose_index(path: Path) -> None:
    path.with_suffix(".index").unlink()


def flip_without_index(path: Path) -> None:
    flip(path)
    lose_index(path)


Damage = tuple[Callable[[Path], None], int]
AFTER_A_KILL: Mapping[str, Damage] = {
    "torn": (tear, LAST),
    "zeros": (append_zeros, LAST),
    "flipped-behind": (flip, LAST),
    "flipped-before": (flip, FIRST),
    "halved-before": (halve, FIRST),
    "no-index": (lose_index, FIRST),
    "no-index-flipped": (flip_without_index, FIRST),
    "unflushed": (flip, FIRST),
    "unflushed-no-index": (flip_without_index, FIRST),
}
"""Of each topic, which segment is damaged and how. The first one lies before the recovery point, which the checkpoint
has not for `unflushed`.
"""
AFTER_A_STOP: Mapping[str, Damage] = {
    "torn": (tear, LAST),
    "flipped-behind": (flip, LAST),
    "no-index": (flip_without_index, FIRST),
    "zeros": (flip, FIRST),
}


def damage(log_dir: Path, damages: Mapping[str, Damage]) -> None:
    for topic, (do, which) in damages.items():
        do(sorted((log_dir / f"{topic}-0").glob("*.log"))[which])


def forget_recovery_points(log_dir: Path) -> None:
    """Of the topics `unflushed`: their checkpoint was not written yet."""
    path = log_dir / "recovery-point-offset-checkpoint"
    entries = [line for line in path.read_text().splitlines()[2:] if not line.startswith("unflushed")]
    path.write_text("\n".join(["0", str(len(entries)), *entries]) + "\n")


def load(admin: AdminClient, kafka: Kafka) -> None:
    """Several segments each, the last ones while the broker is about to be killed."""
    topics = [NewTopic(name, num_partitions=1, replication_factor=1) for name in AFTER_A_KILL]
    for done in admin.create_topics(topics).values():
        done.result(START_S)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0, "linger.ms": 0})
    for number in range(RECORDS):
        for name in AFTER_A_KILL:
            producer.produce(name, os.urandom(VALUE_BYTES), partition=0)
        producer.poll(0)
        if number % 20 == 0:
            producer.flush(START_S)
    producer.flush(START_S)
    path = kafka.log_dir / "recovery-point-offset-checkpoint"
    wait_for(lambda: all(f"{name} 0 " in path.read_text() for name in AFTER_A_KILL), START_S)
    for name in list(AFTER_A_KILL) * 100:
        producer.produce(name, os.urandom(500), partition=0)
    producer.poll(0)


def logs_in(log_dir: Path) -> dict[str, StoredReplica]:
    return {
        part.topic_partition.topic: part.replicas[0]
        for part in read_all(log_dir).partitions
        if part.topic_partition.topic in AFTER_A_KILL
    }


def bytes_of(log_dir: Path, topic: str) -> int:
    return sum(file.stat().st_size for file in (log_dir / f"{topic}-0").glob("*.log"))


def ends(kafka: Kafka) -> dict[str, int]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "none", "log_level": 0})
    found: dict[str, int] = {}

    def ask() -> bool:
        """It may be there before it leads its partitions again."""
        with suppress(KafkaException):
            for name in AFTER_A_KILL:
                found[name] = consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=START_S)[1]
            return True
        return False

    wait_for(ask, START_S)
    consumer.close()
    return found


def test_a_start_does_what_was_foretold(tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    kafka = Kafka(tmp_path, log_dir, JARS[-1].classpath, SETTINGS)
    kafka.format()
    with kafka.running(kill=True) as admin:
        load(admin, kafka)
    damage(log_dir, AFTER_A_KILL)
    forget_recovery_points(log_dir)
    foretold = logs_in(log_dir)
    before = {name: bytes_of(log_dir, name) for name in AFTER_A_KILL}
    assert not foretold["torn"].directory.was_clean
    assert {name for name, log in foretold.items() if log.start.cut_bytes} == {
        "torn", "zeros", "flipped-behind", "no-index-flipped", "unflushed", "unflushed-no-index",
    }  # fmt: skip
    assert {name for name, log in foretold.items() if log.start.staying} == {"flipped-before", "halved-before"}
    assert foretold["unflushed"].start.deleted_segments > 0
    assert foretold["zeros"].start.lost_records == 0 < foretold["flipped-behind"].start.lost_records
    with kafka.running():
        found = ends(kafka)
        after = {name: bytes_of(log_dir, name) for name in AFTER_A_KILL}
    assert found == {name: log.start.end for name, log in foretold.items()}
    assert {name: before[name] - after[name] for name in before} == {
        name: log.start.cut_bytes for name, log in foretold.items()
    }

    damage(log_dir, AFTER_A_STOP)
    foretold = logs_in(log_dir)
    before = {name: bytes_of(log_dir, name) for name in AFTER_A_KILL}
    assert foretold["torn"].directory.was_clean
    assert [name for name, log in foretold.items() if log.start.cut_bytes] == ["no-index"]
    assert [name for name, log in foretold.items() if log.start.unseen is not None] == ["torn"]
    with kafka.running():
        assert ends(kafka) == {name: log.start.end for name, log in foretold.items()}
        after = {name: bytes_of(log_dir, name) for name in AFTER_A_KILL}
    assert {name: before[name] - after[name] for name in before} == {
        name: log.start.cut_bytes for name, log in foretold.items()
    }

    damage(log_dir, {"flipped-before": (append_zeros, LAST)})
    assert logs_in(log_dir)["flipped-before"].start.fails is not None
    assert "the broker does not start" in " ".join(
        reading_text(read_all(log_dir), Style(plain=True), "kafka-4.1", verbose=True).split()
    )
    with pytest.raises(AssertionError, match="CorruptRecordException"), kafka.running():
        pass
