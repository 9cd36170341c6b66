"""Scenario + seed + version is one trace, byte for byte; a change in one place does not shift another's randomness."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replica.trace.events import BatchAppended, BatchSent, RecordSent
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.spec import Scenario
from scenarios.run.runner import run_scenario
from scenarios.search.schedules import random_schedule
from tests.descriptors import descriptors_that_stay, open_descriptors
from tests.soak import one_in

JITTER = {"latency": {"uniform": ["500us", "9ms"]}}


def files_of(run_dir: Path) -> dict[str, bytes]:
    """Everything a run wrote, but what says when and where it ran."""
    return {
        path.relative_to(run_dir).as_posix(): path.read_bytes()
        for path in sorted(run_dir.rglob("*"))
        if path.is_file() and path.name != "summary.json"
    }


@pytest.mark.parametrize("seed", one_in(3, [1, 2, 3]))
def test_twice_in_one_process(seed: int, tmp_path: Path) -> None:
    scenario = random_schedule(random.Random(seed)).scenario()
    one, other = (run_scenario(scenario, runs_dir=tmp_path / name).run_dir for name in ("one", "other"))
    assert one is not None and other is not None
    files = files_of(one)
    assert len(files) > 20
    assert files == files_of(other)


def test_two_processes_with_different_hash_seeds(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    path.write_text(random_schedule(random.Random(7)).text)
    runs = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "scenarios.cli", "run", str(path), "--out", str(tmp_path / hash_seed)]
        done = subprocess.run(
            [*command, "--format", "json"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        runs.append(Path(json.loads(done.stdout)["run_dir"]))
    assert files_of(runs[0]) == files_of(runs[1])


def test_another_seed_is_another_run() -> None:
    shas = {run_scenario(base(seed=seed, network=JITTER), runs_dir=None).summary["trace_sha256"] for seed in (1, 2)}
    assert len(shas) == 2


# ----------------------------------------------------------------------------------------- one stream per purpose


def base(**changes: Any) -> Scenario:
    tree: dict[str, Any] = {
        "schema": 1,
        "id": "streams",
        "title": "Which randomness depends on what",
        "seed": 5,
        "duration": "20s",
        "cluster": {"brokers": {"b1": {}, "b2": {}, "b3": {}}},
        "topics": {"t": {"partitions": {0: ["b1", "b2", "b3"]}}},
        "workloads": {"p1": {"kind": "producer", "topic": "t", "poisson": "5/s", "stop": "15s", "start": "2s"}},
        "timeline": [],
        **changes,
    }
    return load_text(json.dumps(tree), "streams.yaml").scenario


def sends(scenario: Scenario) -> list[tuple[int, str]]:
    """When the application handed each record over."""
    rows = run_scenario(scenario, runs_dir=None, keep_rows=True).rows
    return [(row.at_us, row.event.record) for row in rows if isinstance(row.event, RecordSent)]


def first_hops(scenario: Scenario, client: str = "p1") -> list[int]:
    """Latencies that the link from a producer to the leader drew, as long as each request is one message."""
    sent: dict[int, int] = {}
    found = []
    for row in run_scenario(scenario, runs_dir=None, keep_rows=True).rows:
        if isinstance(row.event, BatchSent) and row.event.client == client:
            sent[row.event.crc] = row.at_us
        elif isinstance(row.event, BatchAppended) and row.event.role == "leader" and row.event.crc in sent:
            found.append(row.at_us - sent.pop(row.event.crc))
    return found


def config(acks: str, **changes: Any) -> dict[str, Any]:
    producer = {
        "kind": "producer",
        "topic": "t",
        "poisson": "5/s",
        "start": "2s",
        "stop": "15s",
        "config": {"acks": acks, "enable.idempotence": False},
        **changes,
    }
    return {"p1": {key: value for key, value in producer.items() if value is not None}}


@pytest.mark.soak
def test_acks_do_not_shift_when_records_are_sent_or_how_long_they_travel() -> None:
    one, other = (base(network=JITTER, workloads=config(acks)) for acks in ("1", "all"))
    assert sends(one) == sends(other)
    # Far enough apart: a request that waits behind another one is not read when it arrives.
    apart = {"rate": "2/s", "poisson": None}
    one, other = (base(network=JITTER, workloads=config(acks, **apart)) for acks in ("1", "all"))
    hops = first_hops(one)
    assert len(set(hops)) > 20, "the link should draw different latencies"
    assert hops == first_hops(other)


@pytest.mark.soak
def test_another_broker_does_not_shift_unrelated_links() -> None:
    brokers = {"b1": {}, "b2": {}, "b3": {}}
    one = base(network=JITTER, workloads=config("1"))
    other = base(network=JITTER, workloads=config("1"), cluster={"brokers": {**brokers, "b4": {}, "b5": {}}})
    assert sends(one) == sends(other)
    assert first_hops(one) == first_hops(other)


@pytest.mark.soak
def test_another_producer_does_not_shift_the_first_ones_arrivals() -> None:
    second = {"p2": {"kind": "producer", "topic": "t", "poisson": "50/s", "start": "2s", "stop": "15s"}}
    one = base(network=JITTER, workloads=config("1"))
    other = base(network=JITTER, workloads={**config("1"), **second})
    assert sends(one) == [(at_us, record) for at_us, record in sends(other) if record.startswith("r")]
    assert first_hops(one) == first_hops(other)


# --------------------------------------------------------------------------------------------------------- leftovers


@pytest.mark.soak
def test_a_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    scenario = load_file(find_scenario("acks1-leader-kill")).scenario
    run_scenario(scenario, runs_dir=None)
    left: dict[int, str] = {}
    for _ in range(3):  # What a run leaves, each run leaves; servers of earlier tests may still be closing.
        before = descriptors_that_stay()
        run_scenario(scenario, runs_dir=None)
        left = {fd: what for fd, what in open_descriptors().items() if before.get(fd) != what}
        if not left:
            break
    assert left == {}
    assert list(tmp_path.iterdir()) == []
