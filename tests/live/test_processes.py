"""Every broker and controller in a separate process: a kill is a SIGKILL, and the verdict is the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
import trio
from kafka import KafkaConsumer, KafkaProducer
from serving import ROOT, command, free_ports, program, serving
from test_run_live import LOST
from verdicts import expect_nothing_broken

from cluster.live.time import LiveTime
from cluster.network.world import Fabric
from replica.trace.events import CheckMade, NodeStopped, TraceLog, TraceRow
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.run.cluster_under_test import NotPossibleNow
from scenarios.run.runner import RunResult, ScenarioRun, run_scenario
from scenarios.run.worlds import NewWorld, live, processes, simulated
from tests.descriptors import descriptors_that_stay, open_descriptors
from tests.soak import one_in

KILLS = """
schema: 1
id: many-kills
title: Brokers are killed one after the other under load
seed: 1
duration: 60m
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{broker.session.timeout.ms: 900, broker.heartbeat.interval.ms: 100}}
topics:
  t: {{partitions: {{0: [b1, b2, b3], 1: [b2, b3, b1], 2: [b3, b1, b2]}}, config: {{min.insync.replicas: 2}}}}
workloads:
  p1: {{kind: producer, topic: t, rate: 100/s, config: {{acks: all, delivery.timeout.ms: 3000000}}}}
timeline:
{steps}
expect: {{}}
"""
BROKERS = ("b1", "b2", "b3")
ROLLED = """
schema: 1
id: rolled-logs
title: Logs of many segments, a kill, a power loss and a torn tail
seed: 1
duration: 10s
cluster:
  controllers: [c4]
  brokers: {b7: {}, b5: {}}
  config: {broker.session.timeout.ms: 900, broker.heartbeat.interval.ms: 100}
topics:
  one: {partitions: {0: [b7], 1: [b5], 2: [b7]}, config: {segment.bytes: 1024}}
  two: {partitions: {0: [b5, b7]}, config: {segment.bytes: 1024}}
workloads:
  p1: {kind: producer, topic: one, config: {acks: all}}
  p2: {kind: producer, topic: two, config: {acks: all}}
timeline:
  - {at: 1s, produce: {from: p1, count: 2, size: 700B, partition: 0}}
  - {at: 1s, produce: {from: p1, count: 3, size: 700B, partition: 2}}
  - {at: 1s, produce: {from: p1, count: 3, size: 700B, partition: 1}}
  - {at: 1s, produce: {from: p2, count: 3, size: 700B}}
  - {when: {one-0: {hw: 2}, one-1: {hw: 3}, one-2: {hw: 3}, two-0: {hw: 3}}, kill: b7, for: 200ms}
  - {when: {b7: {running: false}}, check: {state: {b7: {running: false}}}}
  - {when: {b7: {running: true, one-0: {leading: true}, one-2: {leading: true}}}, check: {logs: {one-2: r2..r4}}}
  - {when: {one-0: {leader: b7}}, produce: {from: p1, count: 2, size: 700B, partition: 2}}
  - {when: {one-2: {hw: 5}}, flush: {brokers: b7, partition: one-0}}
  - {when: {one-2: {hw: 5}}, power_off: b7}
  - {when: {b7: {running: false}}, tear: {broker: b7, partition: one-2, bytes: 10}}
  - {when: {b7: {running: false}}, start: b7}
  - {when: {b7: {running: true, one-0: {leading: true}}}, produce: {from: p1, count: 1, size: 700B, partition: 0}}
expect:
  verdict: [lost]
  logs: {one-0: "r0, r1, r10", one-1: r5..r7, one-2: r2..r4, two-0: "s0..s2"}
  records: {lost: "r8, r9"}
"""


def kills(count: int, seed: int) -> str:
    """Kills of random brokers for random times, each as soon as all replicas of all partitions are in sync."""
    stream, steps = random.Random(seed), []
    for _ in range(count):
        victim = stream.choice(BROKERS)
        left = [broker for broker in BROKERS if broker != victim]
        steps.append(f"  - {{when: {_in_sync(BROKERS)}, kill: {victim}, for: {stream.randrange(50, 1500)}ms}}")
        steps.append(f"  - {{when: {_in_sync(left)}, check: {{state: {{{left[0]}: {{running: true}}}}}}}}")
    return KILLS.format(steps="\n".join(steps))


def _in_sync(brokers: Sequence[str]) -> str:
    isr = ", ".join(brokers)
    return f"{{{', '.join(f't-{place}: {{isr: [{isr}]}}' for place in range(3))}}}"


async def end_when_whole(run: ScenarioRun, count: int) -> None:
    """All were killed, and everybody is back; of those that are gone nothing is left open here."""
    before = pipes(descriptors_that_stay())  # Of all nodes: as soon as the cluster is whole, the first is killed.
    while sum(isinstance(row.event, CheckMade) for row in run.rows) < count or any(
        set(view.isr) != set(BROKERS) for view in run.view.partitions.values()
    ):
        await trio.sleep(0.2)
    assert pipes(open_descriptors()) == before
    run.ended_early()
    assert isinstance(run.cluster.time, LiveTime)
    run.cluster.time.stop()


def pipes(descriptors: Mapping[int, str]) -> int:
    """How many of them are pipes: multiprocessing has two for each process."""
    return sum(what.startswith("pipe:") for what in descriptors.values())


def failures(result: RunResult) -> list[tuple[str, str]]:
    return [(each.what, each.why) for each in result.expectations if not each.held]


def test_a_sigkilled_leader_takes_what_it_alone_had_acked(tmp_path: Path) -> None:
    result = run_scenario(load_text(LOST, "quick.yaml").scenario, runs_dir=tmp_path, world=processes)
    assert failures(result) == []
    assert result.summary["live"] and not result.broke_an_invariant
    assert result.summary["bytes"]["fetch_payload_through_python"] == 0 < result.summary["bytes"]["sendfile"]


@pytest.mark.parametrize("world", one_in(3, [simulated, live, processes]))
def test_a_log_that_has_rolled_is_told_in_full_after_any_death(tmp_path: Path, world: NewWorld) -> None:
    """b7 leads two logs with a segment per record. Rolled segments were flushed and survive; the log end does not."""
    result = run_scenario(load_text(ROLLED, "rolled.yaml").scenario, runs_dir=tmp_path, world=world)
    assert failures(result) == [] and not result.broke_an_invariant


def many_kills(tmp_path: Path, count: int) -> None:
    result = run_scenario(
        load_text(kills(count, seed=count), "kills.yaml").scenario,
        runs_dir=tmp_path,
        world=processes,
        keep_rows=True,
        companions=[partial(end_when_whole, count=count)],
    )
    summary = result.summary
    assert failures(result) == []
    expect_nothing_broken(summary)
    died = [row.event for row in result.rows if isinstance(row.event, NodeStopped)]
    assert [event.how for event in died] == ["kill"] * count
    acked = len(summary["records"]["acked"])
    assert acked > 10 * count
    print(f"{count} kills in {summary['virtual_s']:.0f} s, {acked} records acked, none lost, none twice")


@pytest.mark.soak
def test_kills_under_load_lose_nothing_that_all_replicas_had(tmp_path: Path) -> None:
    many_kills(tmp_path, 3)


@pytest.mark.night
@pytest.mark.timeout(3600)
def test_a_hundred_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    many_kills(tmp_path, 100)


@pytest.mark.soak
def test_a_client_from_outside_is_read_along_in_every_process(tmp_path: Path) -> None:
    """The trace also shows a broker process that an outsider kills."""
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
    assert served.summary["verdict"] == ["unseen"]  # no broker has taken over from it yet
    assert "its process died" in served.output
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


def test_a_bug_that_a_process_dies_of_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here: a disk that cannot be written by anybody, for it is a file."""
    text = LOST.replace("duration: 8s", "duration: 3s").replace("\ntimeline:", "\nunused:").split("unused:")[0]
    rows: list[TraceRow] = []
    scenario = load_text(text + "timeline: []\nexpect: {}\n", "bug.yaml").scenario

    def spoil(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
        log_root.mkdir(parents=True)
        (log_root / "b1").write_text("not a directory")
        return processes(scenario, trace, log_root)

    with pytest.raises(NotPossibleNow, match="did not come up"):
        monkeypatch.setattr("scenarios.run.runner.TOPICS_MUST_EXIST_BY_US", 2_000_000)
        run_scenario(scenario, runs_dir=None, world=spoil, watchers=lambda view: [rows.append])
    (died,) = [row.event for row in rows if isinstance(row.event, NodeStopped)]
    assert (
        died.node == "b1"
        and "a bug in Highwater, FileExistsError" in died.sentence()
        and "what-b1-died-of.txt" in died.sentence()
    )


@pytest.mark.soak
def test_nodes_that_all_die_at_their_start_end_the_run_at_once(tmp_path: Path) -> None:
    """Here the cause is code that the command runs first of all, in their processes only."""
    first = 'if __name__ == "__mp_main__":\n    raise OSError("the machine is out of luck")\n'
    words = [*command("--processes", "--port", str(free_ports(3)), "--record", str(tmp_path / "runs"))]
    words[1:3] = [str(program(tmp_path / "bin", first))]
    done = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 4
    assert "its process died (exit code 1): OSError: the machine is out of luck" in " ".join(done.stdout.split())
    assert "NOTHING LOST" not in done.stdout and "Traceback" not in done.stdout + done.stderr


@pytest.mark.soak
def test_a_cluster_without_a_living_node_ends_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, "--processes") as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        assert producer.send("orders", value=b"hello").get(20)
        for node in processes_of(served.process.pid)[2:]:
            os.kill(node, signal.SIGKILL)
        served.output, served.errors = served.process.communicate(timeout=60)
    assert served.process.returncode == 4
    assert "none of c1, b1, b2 and b3 is running" in " ".join(served.output.split())
    assert "1 ACKED RECORD THAT CANNOT BE READ: hello" in served.output
