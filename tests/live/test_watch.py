"""`highwater watch` beside a live cluster whose follower freezes: its last words and its run name that follower."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from serving import ROOT, fault, free_ports, serving

from cluster.kafka.home import KafkaHome, find_home, installed
from cluster.kafka.jvm import java_command, logging_property
from cluster.kafka.properties import CONSOLE, SMALL, properties_text
from cluster.kafka.storage import CLUSTER_ID, format_checkpoints, format_directory
from replica.trace import events as trace
from scenarios.observe.trace_writer import check_trace, read_rows
from scenarios.run.runs import read_lock, read_summary
from scenarios.view.page import run_of_page
from scenarios.watch.cluster_watch import HOLD_TOLD_FROM_US
from tests.waiting import wait_for

pytestmark = pytest.mark.live


@contextmanager
def watching(bootstrap: str, runs: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "scenarios.cli", "watch", bootstrap, "--interval", "200ms", "--record", str(runs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def until(process: subprocess.Popen[str], *signs: str) -> None:
    """Each of them has come, in any order."""
    assert process.stdout is not None
    heard = ""
    for line in process.stdout:
        heard += line
        if all(sign in heard for sign in signs):
            return
    raise AssertionError(f"not all of {signs} came: {heard}, {process.communicate()}")


PATIENT = {"broker.session.timeout.ms": "600000", "replica.lag.time.max.ms": "600000"}
"""The follower that is frozen stays in the ISR."""


def test_the_follower_that_held_the_high_watermark_is_named(tmp_path: Path) -> None:
    settings = [word for key, value in PATIENT.items() for word in ("--set", f"cluster.config.{key}={value}")]
    with serving(tmp_path, "--topic", "t:1:3", *settings) as served:
        check_hold(
            served.bootstrap, tmp_path, lambda: fault(tmp_path, "pause", "b3"), lambda: fault(tmp_path, "resume", "b3")
        )
        served.stop()


@pytest.mark.kafka
@pytest.mark.parametrize("version", [jars.version for jars in installed(os.environ) if jars.number >= (4,)])
def test_the_follower_of_real_kafka_is_named(tmp_path: Path, version: str) -> None:
    with three_brokers(find_home(version, None, os.environ), tmp_path) as (bootstrap, processes):
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        wait_for(lambda: len(admin.list_topics(timeout=60).brokers), 120, holds=lambda brokers: brokers == 3)
        (created,) = admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2, 3]])]).values()
        created.result(60)
        frozen = processes[2]
        check_hold(
            bootstrap, tmp_path, lambda: frozen.send_signal(signal.SIGSTOP), lambda: frozen.send_signal(signal.SIGCONT)
        )


@contextmanager
def three_brokers(home: KafkaHome, folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Bootstrap addresses, and the processes of the brokers 1, 2 and 3; the first is the controller as well."""
    first = free_ports(4)
    processes: list[subprocess.Popen[bytes]] = []
    (folder / "console.xml").write_text(CONSOLE["log4j2"])
    for node_id in (1, 2, 3):
        own, disk = f"PLAINTEXT://127.0.0.1:{first + node_id}", folder / f"disk{node_id}"
        controller = {"process.roles": "broker,controller", "listeners": f"{own},CONTROLLER://127.0.0.1:{first}"}
        settings = {"process.roles": "broker", "listeners": own} if node_id > 1 else controller
        file = folder / f"{node_id}.properties"
        common = {
            **SMALL, **PATIENT, "node.id": str(node_id), "log.dirs": str(disk), "advertised.listeners": own,
            "controller.quorum.voters": f"1@127.0.0.1:{first}", "controller.listener.names": "CONTROLLER",
        }  # fmt: skip
        file.write_text(properties_text({**common, **settings}))
        if node_id == 1:
            tool = java_command(
                home, ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)], properties={}
            )
            format_checkpoints(tool, folder / "checkpoints", disk)
        format_directory(disk, node_id, folder / "checkpoints" if node_id == 1 else None)
    try:
        for node_id in (1, 2, 3):
            with (folder / f"{node_id}.console").open("wb") as console:
                start = java_command(
                    home, ["kafka.Kafka", str(folder / f"{node_id}.properties")],
                    properties=logging_property(home, folder / "console.xml"),
                )  # fmt: skip
                processes.append(subprocess.Popen(start, stdout=console, stderr=console, start_new_session=True))
        yield ",".join(f"127.0.0.1:{first + node_id}" for node_id in (1, 2, 3)), processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def check_hold(bootstrap: str, folder: Path, freeze: Callable[[], object], thaw: Callable[[], object]) -> None:
    """Broker 3, a follower of t-0, freezes while a record comes that waits for it."""
    with watching(bootstrap, folder / "watched") as process:
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
        producer.produce("t", b"before")
        assert producer.flush(60) == 0
        freeze()
        producer.produce("t", b"held")
        producer.poll(0)
        until(process, "HW held back (b3 has held back HW", "b3 does not answer")
        time.sleep(HOLD_TOLD_FROM_US / 1e6)  # The screen has it at once, the trace from then on.
        thaw()
        until(process, "b3 answers again")
        assert producer.flush(60) == 0
        process.send_signal(signal.SIGINT)
        last_words, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert re.search(r"^  Cluster [\w-]{22}: 3 brokers, 1 partition$", last_words, re.MULTILINE)
    assert "b3 held back the high watermark of 1 partition for at least" in last_words
    assert "b3 was in the ISR but lacked it for" in last_words
    _check_run(folder / "watched" / "0001-watch")


def _check_run(folder: Path) -> None:
    """Commands read it as any other run."""
    summary = read_summary(folder)
    check_trace(folder / "trace", summary["trace_sha256"])
    read_lock(folder, summary)
    assert list(summary["watched"]["holders"]) == ["b3"]
    (hold,) = summary["watched"]["holds"]
    assert (hold["partition"], hold["high_watermark"], hold["held_by"]) == ("t-0", 1, ["b3"])
    rows = list(read_rows(folder / "trace"))
    faults = [row.event for row in rows if isinstance(row.event, trace.FaultBegan)]
    assert sorted(one.fault for one in faults) == ["held-by-b3", "silent-b3"]
    ends = {one.event.node: one.event.log_end_offset for one in rows if isinstance(one.event, trace.ReplicaFound)}
    assert ends["b1"] == ends["b2"] == 2
    assert pq.read_table(folder / "trace" / "control").column("observed_by").unique().to_pylist() == ["wire"]
    title = f"Cluster {summary['watched']['cluster_id']}: 3 brokers, 1 partition"
    assert re.fullmatch(r"Cluster [\w-]{22}: .*", title) and title == summary["title"]
    assert run_of_page(rows, summary).document["head"]["title"] == title
    how = f"watched at {summary['watched']['bootstrap']}: all values are samples, taken every 200 ms"
    assert f"question: '{how}'" in (folder / "scenario.lock.yaml").read_text().replace("\n  ", " ")
    assert isinstance(rows[0].event, trace.RunStarted) and rows[0].event.title == how
