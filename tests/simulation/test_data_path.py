"""Real bytes: out of segment files by sendfile, into the followers' files unchanged, and Kafka's to the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from cluster.client.producer import batch as producer_batch
from replica.log.batches.records import BatchHeader, batches, build_batch
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.run.runner import RunResult, run_scenario

BUSY = """
schema: 1
id: data-path
title: Three partitions, several segments, a failover
duration: 40s
cluster: {brokers: {b1: {}, b2: {}, b3: {}}}
topics:
  t:
    partitions: {0: [b1, b2, b3], 1: [b2, b3, b1], 2: [b3, b1, b2]}
    config: {min.insync.replicas: 2, segment.bytes: 4096}
workloads:
  p1: {kind: producer, topic: t, rate: 20/s, batch: 4, size: 300B, stop: 25s}
  k1: {kind: consumer, topic: t, config: {auto.offset.reset: earliest}}
timeline:
  - {at: 10s, kill: b1, for: 5s}
  - {at: 20s, elect: preferred}
expect: {verdict: ok}
"""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    result = run_scenario(load_text(BUSY, "busy.yaml").scenario, runs_dir=tmp_path_factory.mktemp("runs"))
    assert result.held and not result.broke_an_invariant
    return result


def log_bytes(run: RunResult, broker: str, partition: str) -> bytes:
    assert run.run_dir is not None
    segments = sorted((run.run_dir / "logs" / broker / partition).glob("*.log"))
    assert segments
    return b"".join(segment.read_bytes() for segment in segments)


@pytest.mark.soak
def test_no_payload_of_a_fetch_passes_through_python(busy: RunResult) -> None:
    counted = busy.summary["bytes"]
    assert counted["fetch_payload_through_python"] == 0
    assert list(counted["brokers"]) == ["b1", "b2", "b3"]
    for broker, counts in counted["brokers"].items():
        assert counts["fetch_payload_through_python"] == 0
        assert counts["sendfile"] > 10_000, f"{broker} led a partition and was fetched from"
        assert counts["sendfile_calls"] > 10
    for key in ("sendfile", "sendfile_calls"):
        assert counted[key] == sum(counts[key] for counts in counted["brokers"].values())


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_producer_compresses_with_every_codec_of_kafka(codec: str, tmp_path: Path) -> None:
    text = BUSY.replace("stop: 25s", f"stop: 25s, config: {{compression.type: {codec}}}")
    result = run_scenario(load_text(text, "busy.yaml").scenario, runs_dir=tmp_path)
    assert result.held and not result.broke_an_invariant
    assert {header.codec for _, header in batches(log_bytes(result, "b1", "t-0"))} == {codec}


def test_payload_in_memory_would_be_counted() -> None:
    """The counter is not blind: a record batch that leaves as a memoryview is counted."""
    from lab import FETCH, Lab

    from cluster.node import Send

    lab = Lab()
    lab.connects(0, "a", "b")
    lab.does(10, "a", Send(1, [(5).to_bytes(4, "big"), memoryview(b"batch")], FETCH))
    lab.run(100)
    assert lab.host("a").bytes.fetch_payload_through_python == 5


@pytest.mark.parametrize("partition", ["t-0", "t-1"])
def test_replicas_hold_the_same_bytes(busy: RunResult, partition: str) -> None:
    """All of it, since everything is below the high watermark when the run ends."""
    one, *others = (log_bytes(busy, broker, partition) for broker in ("b1", "b2", "b3"))
    assert len(one) > 10_000
    assert all(other == one for other in others)
    assert busy.run_dir is not None
    assert len(list((busy.run_dir / "logs" / "b1" / partition).glob("*.log"))) > 1


def test_diverged_replicas_agree_below_the_high_watermark_only(tmp_path: Path) -> None:
    """An acked record that only the dead leader has: its log goes on where the others' went another way."""
    scenario = load_text(
        BUSY.replace("{at: 10s, kill: b1, for: 5s}", "{at: 10s, partition: [[b1, p1], [b2, b3, c1]]}")
        .replace("size: 300B", "size: 300B, config: {acks: 1, enable.idempotence: false}")
        .replace("expect: {verdict: ok}", "expect: {verdict: [diverged]}")
        .replace("  - {at: 20s, elect: preferred}\n", ""),
        "diverged.yaml",
    ).scenario
    run = run_scenario(scenario, runs_dir=tmp_path)
    (old, new) = (log_bytes(run, broker, "t-0") for broker in ("b1", "b2"))
    common = [header for _, header in batches(new) if header.last_offset < 20]
    size = sum(header.size_bytes for header in common)
    assert size > 1000 and old[:size] == new[:size]
    assert len(old) > len(new)


def test_a_third_party_parses_what_the_simulator_wrote(busy: RunResult) -> None:
    for partition in ("t-0", "t-1"):
        records = MemoryRecords(log_bytes(busy, "b3", partition))
        found: list[tuple[int, str]] = []
        while (batch := records.next_batch()) is not None:
            assert batch.validate_crc()
            found += [(record.offset, bytes(record.value).split(b" ", 1)[0].decode()) for record in batch]
        assert [name for _, name in found] == busy.summary["logs"][partition]
        assert [offset for offset, _ in found] == list(range(len(found)))


def test_a_third_partys_batches_are_stored_replicated_and_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The producer sends what kafka-python encoded: checked, stamped, fetched, read and found like our own."""
    built: list[bytes] = []

    def kafka_python(
        records: Sequence[tuple[bytes | None, bytes | None]], *, timestamp_ms: Any, **fields: Any
    ) -> bytearray:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=False,
            producer_id=fields["producer_id"],
            producer_epoch=fields["producer_epoch"],
            base_sequence=fields["base_sequence"],
            batch_size=1 << 20,
        )
        times = [timestamp_ms] * len(records) if isinstance(timestamp_ms, int) else list(timestamp_ms)
        for offset, (key, value) in enumerate(records):
            assert builder.append(offset, times[offset], key, value, []) is not None
        built.append(bytes(builder.build()))
        return bytearray(built[-1])

    monkeypatch.setattr(producer_batch, "build_batch", kafka_python)
    scenario = load_file(find_scenario("acks1-leader-kill")).variants["acks-all"]
    run = run_scenario(scenario, runs_dir=tmp_path)
    assert run.held and not run.broke_an_invariant
    assert len(built) > 5
    stored = [header.crc for _, header in batches(log_bytes(run, "b2", "t-0"))]
    sent = [header.crc for one in built for _, header in batches(one)]
    assert stored and all(crc in sent for crc in stored)


def test_ours_and_theirs_are_the_same_bytes() -> None:
    ours = build_batch([(b"k", b"r1 x"), (None, b"r2")], timestamp_ms=1000)
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    builder.append(0, 1000, b"k", b"r1 x", [])
    builder.append(1, 1000, None, b"r2", [])
    theirs = bytes(builder.build())
    first: list[BatchHeader] = [next(batches(one))[1] for one in (bytes(ours), theirs)]
    assert replace(first[0], leader_epoch=0) == replace(first[1], leader_epoch=0)
    assert bytes(ours)[17:] == theirs[17:]  # the leader's stamp lies before: offset, length, epoch, magic
