"""ZooKeeper's transaction log and the consoles of Kafka 2.8.2, as events: b1 leads, controls and dies (kill -9), b2
controls then and leads, and b1 comes back. The bytes and the lines are those of the real run."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from stories import GOLDEN, compare_with_golden

from cluster.kafka.observe.console_lines import ConsoleReader, SaidCleanness, SaidFollower, SaidLeader, SaidTruncation
from cluster.kafka.observe.decisions import RegistryDecisions
from cluster.kafka.observe.observed import ObservedNode, Seen
from cluster.kafka.observe.registry_log import FILE_HEADER_BYTES, FOLDER, RegistryTail, transactions
from controller.image import PartitionRegistration
from replica.errors import PeerViolation
from replica.ids import Names, TopicPartition

NAMES = Names({1: "b1", 2: "b2", 3: "b3", 101: "c1"})
CONSOLES = {
    "c1": "1795640633051 INFO Expiring session 0x1000144d8b70000, timeout of 9000ms exceeded (ZooKeeperServer)\n",
    "b1": "1795640612239 INFO [Controller id=1] Currently active brokers in the cluster: Set(1) (KafkaController)\n"
    "1795640613263 INFO [Controller id=1] New broker startup callback for 3 (KafkaController)\n"
    "1795640613377 INFO [Controller id=1] New broker startup callback for 2 (KafkaController)\n",
    "b2": "1795640633115 INFO [Controller id=2] Currently active brokers in the cluster: Set(2, 3) (KafkaController)\n"
    "1795640648920 INFO [Controller id=2] New broker startup callback for 1 (KafkaController)\n",
}
REPLICA = """\
1795640647555 INFO Attempting recovery for all logs in /logs/b1 since no clean shutdown file was found (LogManager)
1795640649451 INFO [Broker id=1] Follower t-0 starts at leader epoch 2 from offset 15 with high watermark 10. Previous \
leader epoch was -1. (logger)
1795640649560 INFO [Log partition=t-0, dir=/logs/b1] Truncating to offset 10 (Log)
1795640649561 INFO [Broker id=1] Leader t-0 starts at leader epoch 3 from offset 15 with high watermark 10 ISR [1,2] \
addingReplicas [] removingReplicas []. Previous leader epoch was 2. (logger)
1795640649562 INFO Skipping recovery for all logs in /logs/b1 since clean shutdown file was found (LogManager)
"""


def registry_log() -> bytes:
    return lzma.decompress((GOLDEN / "observe" / "zookeeper-3.5.9-kafka-2.8.2.log.xz").read_bytes())


def written(folder: Path, data: bytes) -> Path:
    (folder / FOLDER).mkdir(exist_ok=True)
    (folder / FOLDER / "log.1").write_bytes(data)
    return folder


def event_line(seen: Seen) -> str:
    event = seen.event
    words = [type(event).__name__, f"({seen.observed_by})"]
    for name in ("node", "broker", "isr", "leader_epoch", "partition_epoch", "controller_epoch"):
        value = getattr(event, name, None)
        if value is not None:
            words.append(f"{name}={','.join(value) if isinstance(value, tuple) else value}")
    return f"{' '.join(words)}\n    {event.sentence()}"


def test_decisions(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    written(tmp_path, registry_log())
    registry = ObservedNode(
        name="c1", node_id=101, role="registry", log_dir=tmp_path, console=tmp_path / "c1.log", address=("c1", 1)
    )
    decisions = RegistryDecisions(registry, NAMES, {})
    said = []
    for node, text in CONSOLES.items():
        for line in ConsoleReader().feed(text.encode()):
            told = decisions.said(node, line)
            assert told is not None
            said.append((line.wall_ms, told))
    dated = sorted([*decisions.look(), *said], key=lambda pair: pair[0])
    found = [seen for _, events in dated for seen in events]
    compare_with_golden("observe/kafka-2.8.2-decisions.txt", "\n".join(map(event_line, found)) + "\n", request)
    assert decisions.controller == "b2"
    assert decisions.partition(TopicPartition("t", 0)) == PartitionRegistration(
        replicas=(1, 2, 3), in_sync_replicas=(2, 3, 1), leader=2, leader_epoch=2, partition_epoch=3
    )


def test_a_replaced_controller_does_not_decide_who_is_online(tmp_path: Path) -> None:
    """b1 was frozen in an event and ends it when b2 has been elected: what b2 has said of b3 still holds."""
    written(tmp_path, registry_log())
    registry = ObservedNode(
        name="c1", node_id=101, role="registry", log_dir=tmp_path, console=tmp_path / "c1.log", address=("c1", 1)
    )
    decisions = RegistryDecisions(registry, NAMES, {})
    list(decisions.look())

    def said(node: str, text: str) -> list[str]:
        (line,) = ConsoleReader().feed(f"{text} (KafkaController)\n".encode())
        told = decisions.said(node, line)
        assert told is not None
        return [f"{type(seen.event).__name__} {seen.event.broker} by {seen.event.node}" for seen in told]  # type: ignore[attr-defined]

    assert said("b2", "1795640633115 INFO [Controller id=2] Currently active brokers in the cluster: Set(2, 3)") == [
        "BrokerUnfenced b2 by b2",
        "BrokerUnfenced b3 by b2",
    ]
    late = said("b1", "1795640648950 INFO [Controller id=1] Broker failure callback for 3")
    assert late == ["BrokerFenced b3 by b1"]
    assert said("b2", "1795640648960 INFO [Controller id=2] Currently active brokers in the cluster: Set(2, 3)") == []


def test_a_log_that_grows_gives_the_same_transactions(tmp_path: Path) -> None:
    """ZooKeeper fills its file with zeros ahead of what it writes; a transaction may be there in part."""
    data = registry_log()
    tail = RegistryTail(tmp_path)
    assert list(tail.look()) == []
    found = []
    for end in (0, 3, FILE_HEADER_BYTES, *range(20, len(data), 501), len(data)):
        written(tmp_path, data[:end] + bytes(65_536 if end > 3 else 0))
        found += tail.look()
    assert found == [transaction for transaction, _ in transactions(data[FILE_HEADER_BYTES:])]
    assert len(found) > 30


def test_a_file_that_is_no_transaction_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PeerViolation, match=r"log\.1 is not a ZooKeeper transaction log"):
        list(RegistryTail(written(tmp_path, b"something else")).look())


def test_lines_of_a_broker_of_2_8() -> None:
    said = [line.said for line in ConsoleReader().feed(REPLICA.encode())]
    t0 = TopicPartition("t", 0)
    assert said == [
        SaidCleanness(False),
        SaidFollower(
            topic_partition=t0, leader_epoch=2, partition_epoch=None, offset=15, high_watermark=10, leader=None
        ),
        SaidTruncation(t0, ""),
        SaidLeader(topic_partition=t0, leader_epoch=3, partition_epoch=None, offset=15, high_watermark=10, isr=(1, 2)),
        SaidCleanness(True),
    ]
