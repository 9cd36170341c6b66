"""The metadata log of a controller of Apache Kafka 3.9.1 and 4.1.0, as events: b2 and b3 die, then b1, and b2
is elected uncleanly. The bytes are those of the real log."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from stories import GOLDEN, compare_with_golden

from cluster.kafka.observe.console_lines import ConsoleReader, SaidFencing
from cluster.kafka.observe.log_files import DiskLog
from cluster.kafka.observe.log_tail import MetadataTail
from cluster.kafka.observe.metadata_events import MetadataEvents
from cluster.kafka.observe.metadata_records import decode_record
from cluster.kafka.observe.observed import Seen
from controller.metadata import ConfigRecord
from replica.errors import PeerViolation
from replica.ids import Names
from replica.log.batches.records import read_header

NODES = Names({1: "b1", 2: "b2", 3: "b3", 101: "c1"})
SEGMENT = f"{0:020d}.log"
CONSOLE = b"""\
1795469384066 INFO [QuorumController id=101] Fencing broker 2 at epoch 18 because its session has timed out. (Replicati)
1795469384083 INFO [QuorumController id=101] Fencing broker 3 at epoch 16 because its session has timed out. (Replicati)
1795469393873 INFO [QuorumController id=101] Fencing broker 1 at epoch 21 because its session has timed out. (Replicati)
"""
"""Of the controller of 4.1; that of 3.9 wrote none."""


def metadata_log(version: str) -> bytes:
    return lzma.decompress((GOLDEN / "observe" / f"kafka-{version}-metadata.log.xz").read_bytes())


def event_line(seen: Seen) -> str:
    event = seen.event
    words = [type(event).__name__]
    for name in ("broker", "isr", "elr", "leader_epoch", "partition_epoch"):
        value = getattr(event, name, None)
        if value is not None:
            words.append(f"{name}={','.join(value) if isinstance(value, tuple) else value}")
    return f"{' '.join(words)}\n    {event.sentence()}"


@pytest.mark.parametrize(("version", "console"), [("3.9", b""), ("4.1", CONSOLE)])
def test_decisions(version: str, console: bytes, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / SEGMENT).write_bytes(metadata_log(version))
    decisions = MetadataEvents(NODES, {})
    for line in ConsoleReader().feed(console):
        assert isinstance(line.said, SaidFencing)
        decisions.fencing_said(line.said)
    found = [seen for batch in MetadataTail({"c1": DiskLog(tmp_path)}).look() for seen in decisions.decided(batch)]
    compare_with_golden(f"observe/kafka-{version}-decisions.txt", "\n".join(map(event_line, found)) + "\n", request)
    times = [seen.wall_ms for seen in found if seen.wall_ms is not None]
    assert len(times) == len(found)
    assert times == sorted(times)


def test_a_log_that_grows_gives_the_same_decisions(tmp_path: Path) -> None:
    """Of three controllers two have it all, and the third one is behind; a batch may be there in part."""
    data = metadata_log("4.1")
    logs = {name: DiskLog(tmp_path / name) for name in ("c1", "c2", "c3")}
    for name in logs:
        (tmp_path / name).mkdir()
    tail, decisions = MetadataTail(logs), MetadataEvents(NODES, {})
    found: list[Seen] = []
    ends = {"c1": 0, "c2": 0, "c3": 0}
    for end in (*range(0, len(data), 1000), len(data)):
        ends = {"c1": end, "c2": ends["c1"], "c3": 0}
        for name, size in ends.items():
            (tmp_path / name / SEGMENT).write_bytes(data[:size])
        found += [seen for batch in tail.look() for seen in decisions.decided(batch)]
    held_by_two = ends["c2"]
    alone = MetadataEvents(NODES, {})
    (tmp_path / SEGMENT).write_bytes(data[:held_by_two])
    whole = MetadataTail({"c1": DiskLog(tmp_path)})
    assert found == [seen for batch in whole.look() for seen in alone.decided(batch)]
    assert found


def test_bytes_that_are_no_record_are_refused() -> None:
    data = metadata_log("4.1")
    header = read_header(data)
    for garbage in (b"", b"\x01", b"\x02\x03\x00", b"\x01\x03\x01" + b"\xff" * 8, data[: header.size_bytes]):
        with pytest.raises(PeerViolation):
            decode_record(garbage, {})


def test_small_segments_have_the_key_of_the_file() -> None:
    """ConfigRecord (frame 1, kind 4, version 0): a topic, its name, the key of Kafka's own tests, the value."""
    texts = b"".join(bytes([len(text) + 1]) + text for text in (b"t", b"internal.segment.bytes", b"1024"))
    found = decode_record(b"\x01\x04\x00\x02" + texts + b"\x00", {})
    assert found == ConfigRecord(topic="t", key="segment.bytes", value="1024")
