"""Highwater's verdict agrees with the answers and reads of outside clients, record by record, through faults.

Three client libraries write from processes of their own, with acks 0, 1 and all, idempotent and not, with timeouts so
tight that they send again what was acknowledged. `pytest -m soak tests/live/test_ledger.py` injects 12 random faults in
each mode; HIGHWATER_LEDGER_FAULTS=60 more, HIGHWATER_LEDGER_SEED=2 others.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ledger.judging import Found, Sent, concluded, disagreements
from serving import Served, fault, serving

from tests.waiting import wait_for

FAULTS = int(os.environ.get("HIGHWATER_LEDGER_FAULTS", "12"))
OUTSIDE = Path(__file__).parent / "ledger" / "outside.py"
LIBRARIES = ("librdkafka", "kafka-python", "aiokafka")
BROKERS = ("alpha", "beta", "gamma")
PARTITIONS = 3

CLUSTER = """
schema: 1
id: ledger
title: An outside ledger beside the verdict
duration: 10m
workloads: {}
timeline: []
cluster:
  controllers: [quorum]
  brokers: {alpha: {}, beta: {}, gamma: {}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500, replica.lag.time.max.ms: 3000}
topics:
  librdkafka: {partitions: 3, replication_factor: 3, config: {min.insync.replicas: 2, segment.bytes: 20000}}
  kafka-python: {partitions: 3, replication_factor: 3, config: {min.insync.replicas: 2}}
  aiokafka: {partitions: 3, replication_factor: 3, config: {min.insync.replicas: 1}}
"""


def ledger_of(*fates: tuple[str, str, int]) -> list[Sent]:
    return [Sent(value, 0, offset, "1", fate) for value, fate, offset in fates]


def summary_of(log: Sequence[str], **records: list[str]) -> dict[str, Any]:
    kinds = {"acked": [], "lost": [], "missing": [], "duplicated": [], **records}
    return {"records": kinds, "logs": {"t-0": list(log)}}


@pytest.mark.parametrize(
    ("summary", "complaint"),
    [
        (summary_of(["a", "b"], acked=["a", "b", "c"], lost=["c"]), None),
        (summary_of(["a", "b~2"], acked=["a", "b", "c"], lost=["c"]), None),
        (summary_of(["a", "b"], acked=["a", "b", "c"]), "c: acked and gone"),
        (summary_of(["a", "b"], acked=["a", "b", "c"], lost=["b", "c"]), "b: called lost, and there"),
        (summary_of(["a", "b"], acked=["a", "b"], lost=["c"]), "c: acked, and Highwater does not say so"),
        (summary_of(["b", "a"], acked=["a", "b", "c"], lost=["c"]), "the log of t-0 is told otherwise"),
        (summary_of([], acked=["a", "b", "c"], lost=["c"]), "the log of t-0 is told otherwise"),
        (summary_of(["a", "b"], acked=["a", "b", "c"], lost=["c"], missing=["b~2"]), None),
        (
            summary_of(["a", "b"], acked=["a", "b", "c"], lost=["c"], missing=["b", "b~2"]),
            "b: there, and called missing",
        ),
    ],
)
def test_a_wrong_verdict_is_noticed(summary: Mapping[str, Any], complaint: str | None) -> None:
    ledger = ledger_of(("a", "acked", 0), ("b", "acked", 1), ("c", "acked", 2), ("d", "failed", -1))
    found = list(disagreements("t", ledger, [Found("a", 0, 0), Found("b", 0, 1)], summary))
    assert [line[: len(complaint)] for line in found] == [complaint] if complaint else found == []


def test_a_record_elsewhere_than_acked_is_noticed() -> None:
    ledger = ledger_of(("a", "acked", 1), ("b", "acked", 0))
    found = list(disagreements("t", ledger, [Found("a", 0, 0), Found("b", 0, 1)], summary_of("ab", acked=["a", "b"])))
    assert found == ["a was acked at 0:1, where b is", "b was acked at 0:0, where a is"]


def test_what_librdkafka_concludes_is_no_ack_that_highwater_missed() -> None:
    """Only of its idempotent producer, only if the record is there, and only where it knows no offset."""
    read = [Found("liai-0", 0, 0), Found("liai-1", 0, 1), Found("lia-2", 0, 2), Found("liai-3", 0, 3)]
    offsets = {"liai-0": 0, "liai-1": 0, "lia-2": 0, "liai-3": 3, "liai-4": 0}
    ledger = ledger_of(*((value, "acked", offset) for value, offset in offsets.items()))
    assert concluded(ledger, read) == {"liai-1"}


# ---------------------------------------------------------------------------------------------------------- the soak


def step(rng: random.Random) -> dict[str, Any]:
    """One fault, with its end."""
    broker, other = rng.sample(BROKERS, 2)
    lasts = f"{rng.uniform(0.5, 5):.1f}s"
    client = f"client/ledger-{rng.choice(('li', 'ka', 'ai'))}{rng.choice(('1', 'a', 'ai'))}"
    return rng.choice((
        {"kill": broker, "for": lasts}, {"kill": f"leader({rng.choice(LIBRARIES)}-0)", "for": lasts},
        {"power_off": broker, "for": lasts}, {"stop": broker, "for": lasts}, {"pause": broker, "for": lasts},
        {"cut": {"between": [broker, other]}, "for": lasts},
        {"cut": {"between": [broker, "quorum"], "direction": rng.choice(("both", "from", "to"))}, "for": lasts},
        {"cut": {"between": [client, broker]}, "for": lasts},
        {"hold": {"from": broker, "to": client, "api": "Produce", "part": "response"}, "for": lasts},
        {"hold": {"from": broker, "to": other, "api": "Fetch", "part": "response"}, "for": lasts},
        {"latency": {"between": [broker, other], "add": "300ms"}, "for": lasts},
        {"reset_peer": {"between": [client, broker]}}, {"elect": "preferred"},
    ))  # fmt: skip


def start(task: str, library: str, served: Served, file: Path) -> subprocess.Popen[str]:
    words = [task, library, served.bootstrap, library, str(PARTITIONS), str(file)]
    return subprocess.Popen([sys.executable, str(OUTSIDE), *words], stdin=subprocess.PIPE, text=True)


def inject(served: Served, rng: random.Random) -> list[str]:
    done = []
    while len(done) < FAULTS:
        chosen = json.dumps(step(rng))
        answer = fault(served.record, "--yaml", chosen, code=None)
        if answer.returncode == 0:
            done.append(chosen)
        else:  # The moment may not fit: a leader that is nowhere, a broker that is down, a client not yet seen.
            assert "Traceback" not in answer.stderr, answer.stderr
            assert served.process.poll() is None, "serve has ended"
        time.sleep(rng.uniform(0.5, 4))
    return done


def mend(served: Served) -> None:
    """Everything is up, nothing is in force, and every replica is in sync."""

    def is_whole(state: Any) -> bool:
        written = [one for one in state["partitions"] if one["partition"].startswith(LIBRARIES)]
        return all(len(one["isr"]) == len(BROKERS) for one in written) and not state["faults"]

    wait_for(
        lambda: json.loads(fault(served.record, "list", "--format", "json", code=None).stdout),
        120,
        holds=is_whole,
        pause_s=1,
    )


@pytest.mark.soak
@pytest.mark.live
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("mode", [(), ("--processes",)], ids=["one-process", "many-processes"])
def test_ledger_and_verdict_agree(mode: tuple[str, ...], tmp_path: Path) -> None:
    rng = random.Random(f"ledger/{mode}/{os.environ.get('HIGHWATER_LEDGER_SEED', '1')}")
    (tmp_path / "ledger.yaml").write_text(CLUSTER, encoding="utf-8")
    with serving(tmp_path, "--scenario", str(tmp_path / "ledger.yaml"), *mode) as served:
        writers = {library: start("write", library, served, tmp_path / f"{library}.sent") for library in LIBRARIES}
        time.sleep(5)
        faults = inject(served, rng)
        mend(served)
        for writer in writers.values():
            assert writer.stdin is not None
            writer.stdin.close()
        assert [writer.wait(120) for writer in writers.values()] == [0, 0, 0]
        for library in LIBRARIES:
            assert start("read", library, served, tmp_path / f"{library}.read").wait(120) == 0
        served.end()
    found = []
    for library in LIBRARIES:
        ledger = [Sent(**json.loads(line)) for line in (tmp_path / f"{library}.sent").read_text().splitlines()]
        read = [Found(**json.loads(line)) for line in (tmp_path / f"{library}.read").read_text().splitlines()]
        acked = sum(record.fate == "acked" for record in ledger)
        lost = {one.value for one in ledger if one.fate == "acked"} - {one.value for one in read}
        without = len(concluded(ledger, read))
        print(
            f"{library}: {len(ledger)} sent, {acked} acked ({without} of them without an answer), "
            f"{len(read)} read, {len(lost)} acked and gone"
        )
        assert acked > 10 * FAULTS, "the cluster was hardly there"
        found.extend(disagreements(library, ledger, read, served.summary))
    print(f"{len(faults)} faults: {served.summary['verdict']}, {len(found)} disagreements")
    assert found == [], "\n".join(found[:40])
    assert served.process.returncode == 0, served.errors
