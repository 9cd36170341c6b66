"""`highwater watch` beside a live cluster whose follower freezes: its last words and its run name that follower."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from serving import ROOT, fault, serving

from replica.trace import events as trace
from scenarios.observe.trace_writer import check_trace, read_rows
from scenarios.run.runs import read_lock, read_summary
from scenarios.view.page import run_of_page

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


def test_the_follower_that_held_the_high_watermark_is_named(tmp_path: Path) -> None:
    patient = ("broker.session.timeout.ms", "replica.lag.time.max.ms")
    settings = [word for key in patient for word in ("--set", f"cluster.config.{key}=600000")]
    with (
        serving(tmp_path, "--topic", "t:1:3", *settings) as served,
        watching(served.bootstrap, tmp_path / "watched") as process,
    ):
        producer = Producer({"bootstrap.servers": served.bootstrap, "acks": "all", "linger.ms": 0})
        producer.produce("t", b"before")
        assert producer.flush(60) == 0
        fault(tmp_path, "pause", "b3")
        producer.produce("t", b"held")
        producer.poll(0)
        until(process, "HW held (b3 holds HW", "b3 does not answer")
        fault(tmp_path, "resume", "b3")
        until(process, "b3 answers again")
        assert producer.flush(60) == 0
        process.send_signal(signal.SIGINT)
        last_words, errors = process.communicate(timeout=60)
        served.stop()
    assert process.returncode == 0, errors
    assert "b3 held back the high watermark of 1 partition for at least" in last_words
    assert "b3 was in the ISR without it for" in last_words
    _check_run(tmp_path / "watched" / "0001-watch")


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
    assert run_of_page(rows, summary).document["head"]["title"].endswith("watched: all is sampled, every 200 ms")
