"""Whole runs on topics whose records have the leader's time, and with timestamps that a leader does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.log.batches.records import LOG_APPEND_TIME, batches, check_crc
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario
from tests.soak import one_row_in

FILE = """\
schema: 1
id: append-time
title: The leader's time
duration: 60s
profile: kafka-4.1
cluster: {brokers: {b1: {}, b2: {}, b3: {}}, config: {log.retention.check.interval.ms: 1000, BROKER}}
topics:
  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2, TOPIC}}
workloads:
  p1: {kind: producer, topic: t, rate: 2/s, config: {acks: all, CLIENT}}
  c1r: {kind: consumer, topic: t, config: {auto.offset.reset: earliest}}
timeline:
  - STEP
expect: {verdict: ok}
"""
KILL = '{at: 20s, kill: "leader(t-0)"}'


def played(out: Path | None, step: str = KILL, profile: str = "kafka-4.1", **parts: str) -> RunResult:
    text = FILE.replace("STEP", step).replace("kafka-4.1", profile)
    for name in ("BROKER", "TOPIC", "CLIENT"):
        text = text.replace(f", {name}", f", {parts[name]}" if name in parts else "")
    return run_scenario(load_text(text, "append-time.yaml").scenario, runs_dir=out)


@pytest.mark.soak
@pytest.mark.parametrize(
    "parts",
    [
        {"TOPIC": "message.timestamp.type: LogAppendTime", "CLIENT": "compression.type: gzip"},
        {"BROKER": "log.message.timestamp.type: LogAppendTime"},
    ],
)
def test_every_replica_has_the_leaders_time(tmp_path: Path, parts: dict[str, str]) -> None:
    """Also where the leader dies. The verdict knows the records, though their batches were sealed anew."""
    run = played(tmp_path, **parts)
    assert (run.verdict.kinds, run.broke_an_invariant) == ((), False)
    assert len(run.verdict.records["acked"]) > 50
    assert run.run_dir is not None
    files = sorted((run.run_dir / "logs").glob("b[23]/**/t-0/*.log"))
    assert len(files) == 2
    for data in (file.read_bytes() for file in files):
        found = [(header.attributes & LOG_APPEND_TIME, check_crc(data, at, header)) for at, header in batches(data)]
        assert found == [(LOG_APPEND_TIME, True)] * len(found) and len(found) > 50


@pytest.mark.parametrize(("profile", "is_refused"), one_row_in(2, [("kafka-4.1", True), ("kafka-3.9", False)]))
def test_a_leader_whose_clock_is_two_hours_behind(profile: str, is_refused: bool) -> None:
    """To it all records come from the future, which it does not take since 4.0 (KIP-1030)."""
    run = played(None, '{at: 20s, bump_clock: {brokers: "leader(t-0)", by: -120m}}', profile=profile)
    assert run.verdict.kinds == ()
    assert (len(run.verdict.records["failed"]) > 50) == is_refused
    assert len(run.verdict.records["acked"]) > (30 if is_refused else 100)
