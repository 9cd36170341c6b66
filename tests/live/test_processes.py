"""Every broker and controller in a process of its own: a kill is a SIGKILL, and the verdict is the same."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from serving import serving
from test_run_live import LOST

from replica.trace import NodeStopped
from scenarios.loading import load_text
from scenarios.runner import RunResult, run_scenario
from scenarios.worlds import processes

KILLS = """
schema: 1
id: many-kills
title: Brokers are killed one after the other under load
seed: 1
duration: {duration}ms
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{broker.session.timeout.ms: 900, broker.heartbeat.interval.ms: 100}}
topics:
  t: {{partitions: {{0: [b1, b2, b3], 1: [b2, b3, b1], 2: [b3, b1, b2]}}, config: {{min.insync.replicas: 2}}}}
workloads:
  p1: {{kind: producer, topic: t, rate: 100/s, start: 1500ms, stop: {stop}ms, config: {{acks: all}}}}
timeline:
{steps}
expect:
  verdict: ok
  records: {{lost: none, duplicated: none}}
"""
PERIOD_MS = 4000


def kills(count: int, seed: int) -> str:
    """At a random moment each, whoever it is; whole again before the next one."""
    stream, steps = random.Random(seed), []
    for number in range(count):
        begin_ms = 2000 + number * PERIOD_MS
        victim, at_ms = stream.choice(("b1", "b2", "b3")), begin_ms + stream.randrange(0, 500_000) / 1000
        steps.append(f"  - {{at: {at_ms:.3f}ms, kill: {victim}}}")
        steps.append(f"  - {{at: {at_ms + stream.randrange(50, 1500):.3f}ms, start: {victim}}}")
        whole = ", ".join(f"t-{place}: {{isr: [b1, b2, b3]}}" for place in range(3))
        steps.append(f"  - {{at: {begin_ms + PERIOD_MS - 50}ms, check: {{state: {{{whole}}}}}}}")
    end_ms = 2000 + count * PERIOD_MS
    return KILLS.format(duration=end_ms + 2000, stop=end_ms, steps="\n".join(steps))


def failures(result: RunResult) -> list[tuple[str, str]]:
    return [(each.what, each.why) for each in result.expectations if not each.held]


def test_a_sigkilled_leader_takes_what_it_alone_had_acked(tmp_path: Path) -> None:
    result = run_scenario(load_text(LOST, "quick.yaml").scenario, runs_dir=tmp_path, world=processes)
    assert failures(result) == []
    assert result.summary["live"] and not result.broke_an_invariant
    assert result.summary["bytes"]["fetch_payload_through_python"] == 0 < result.summary["bytes"]["sendfile"]


def many_kills(tmp_path: Path, count: int) -> None:
    result = run_scenario(
        load_text(kills(count, seed=count), "kills.yaml").scenario, runs_dir=tmp_path, world=processes, keep_rows=True
    )
    assert failures(result) == [] and not result.broke_an_invariant
    died = [row.event for row in result.rows if isinstance(row.event, NodeStopped)]
    assert [event.how for event in died] == ["kill"] * count
    assert len(result.summary["records"]["acked"]) > 50 * count


def test_kills_under_load_lose_nothing_that_all_replicas_had(tmp_path: Path) -> None:
    many_kills(tmp_path, 3)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_hundred_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    many_kills(tmp_path, 100)


def test_a_client_from_outside_is_read_along_in_every_process(tmp_path: Path) -> None:
    """And a broker process that somebody kills behind our back is told of."""
    with serving(tmp_path, "--processes") as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        acked = []
        for number in range(20):
            assert producer.send("orders", value=f"order-{number}".encode(), partition=number % 3).get(20)
            acked.append(f"order-{number}")
        producer.close()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=served.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=1500
        )
        assert sorted(record.value.decode() for record in consumer) == sorted(acked)
        consumer.close()
        children = processes_of(served.process.pid)
        assert len(children) == 6  # four nodes, the process that they are forks of, and multiprocessing's own tracker
        os.kill(children[-1], signal.SIGKILL)
        time.sleep(1)
        served.stop()
    assert sorted(served.summary["records"]["acked"]) == sorted(acked) and served.summary["records"]["lost"] == []
    assert served.summary["verdict"] == ["unseen"]  # nobody has taken over from it yet
    assert "its process has died" in served.output
    assert processes_of(served.process.pid) == []


def processes_of(parent: int) -> list[int]:
    """All descendants, the oldest first. source: proc(5)"""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found = [parent]
    for one in found:
        found += sorted(child for child, other in parents.items() if other == one and child not in found)
    return found[1:]
