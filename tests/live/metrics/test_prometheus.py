"""A real Prometheus scrapes `serve --metrics` with the usual alerts for Kafka: which fired when, for three losses.

With `prometheus` in PATH, or named by HIGHWATER_PROMETHEUS (Debian has it).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from serving import Served, fault, free_ports, serving

from scenarios.metrics import dashboard
from tests.waiting import wait_for

PROMETHEUS = os.environ.get("HIGHWATER_PROMETHEUS") or shutil.which("prometheus")
RULES = Path(dashboard.__file__).with_name("alerts.rules.yaml")
KAFKA, OURS = (
    {alert.name for alert in dashboard.ALERTS},
    {"HighWatermarkHeldBack", "AckedRecordsAtRisk", "AckedRecordsLost"},
)
LOST = "AckedRecordsLost"
USUAL_S = dashboard.FOR_US / 1e6 + 6
"""An alert fires after this time: its `for`, two scrapes and an evaluation."""
PATIENCE_S = 90

pytestmark = [
    pytest.mark.live,
    pytest.mark.soak,
    pytest.mark.skipif(PROMETHEUS is None, reason="there is no prometheus"),
]


class Scraper:
    """A Prometheus. `fired` has each alert that has fired, with the time of its first firing."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._began = time.time()

    def query(self, path: str, **words: object) -> Any:
        address = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.load(answer)["data"]

    def is_up(self) -> bool:
        try:
            return bool(self.query("query", query="up == 1")["result"])
        except OSError:
            return False

    def fired(self) -> dict[str, float]:
        query = 'ALERTS{alertstate="firing"}'
        found = self.query("query_range", query=query, start=self._began, end=time.time(), step=1)["result"]
        first: dict[str, float] = {}
        for one in found:
            name, at = one["metric"]["alertname"], float(one["values"][0][0])
            first[name] = min(at, first.get(name, at))
        return first


@contextmanager
def scraping(folder: Path, target: str) -> Iterator[Scraper]:
    port = free_ports(1)
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{RULES}]\n"
        f"scrape_configs: [{{job_name: highwater, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    assert PROMETHEUS is not None
    process = subprocess.Popen(
        [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        scraper = Scraper(port)
        wait_for(scraper.is_up, PATIENCE_S)
        yield scraper
    finally:
        process.kill()
        process.wait()


class Steady:
    """A producer with acks=1 that writes 50 records a second in the background, until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "1", "linger.ms": 0})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while not self._over.wait(0.02):
            self._producer.produce("orders", b"x", partition=0)
            self._producer.poll(0)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)


@contextmanager
def cluster(tmp_path: Path) -> Iterator[tuple[Served, Scraper]]:
    settings = ("broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
    words = [word for setting in settings for word in ("--set", f"cluster.config.{setting}")]
    with serving(tmp_path, "--topic", "orders:1:3", "--metrics", "0", *words) as served:
        target = re.search(r"http://(127.0.0.1:\d+)/metrics", "\n".join(served.ready))
        assert target is not None
        with scraping(tmp_path, target[1]) as scraper:
            yield served, scraper
            served.stop()


def leader_of(record: Path) -> str:
    state = json.loads(fault(record, "list", "--format", "json").stdout)
    (one,) = (one for one in state["partitions"] if one["partition"] == "orders-0")
    return str(one["leader"])


def fired_with_loss(scraper: Scraper) -> dict[str, float]:
    wait_for(lambda: LOST in scraper.fired(), PATIENCE_S)
    time.sleep(USUAL_S)
    return scraper.fired()


def test_a_leader_dies_with_what_its_followers_do_not_have(tmp_path: Path) -> None:
    with cluster(tmp_path) as (served, scraper):
        writer, leader = Steady(served.bootstrap), leader_of(tmp_path)
        time.sleep(2)
        for other in {"b1", "b2", "b3"} - {leader}:
            fault(tmp_path, "cut", f"{leader}-{other}")
        wait_for(lambda: "AckedRecordsAtRisk" in scraper.fired(), PATIENCE_S)
        fault(tmp_path, "kill", leader)
        fired = fired_with_loss(scraper)
        writer.stop()
    print(fired)
    assert fired["AckedRecordsAtRisk"] < fired[LOST] < fired["UnderReplicatedPartitions"]
    assert fired.keys() & KAFKA == {"UnderReplicatedPartitions"}
    assert served.summary["verdict"] == ["lost"]


def test_the_preferred_replica_is_elected_and_lacks_them(tmp_path: Path) -> None:
    with cluster(tmp_path) as (served, scraper):
        writer, leader = Steady(served.bootstrap), leader_of(tmp_path)
        slow, other = sorted({"b1", "b2", "b3"} - {leader})
        fault(tmp_path, "latency", f"{leader}-{slow}", "1s")
        wait_for(lambda: "AckedRecordsAtRisk" in scraper.fired(), PATIENCE_S)
        fault(tmp_path, "reassign", "orders-0", f"{slow},{leader},{other}")
        fault(tmp_path, "elect", "orders-0", slow)
        fired = fired_with_loss(scraper)
        writer.stop()
    print(fired)
    assert fired["AckedRecordsAtRisk"] < fired[LOST]
    assert not fired.keys() & KAFKA
    found = served.summary["dashboard"]
    assert "lost" in served.summary["verdict"]
    assert [alert["loss"] for alert in found["alerts"]] == ["never"] * len(dashboard.ALERTS)


def test_the_last_replica_dies_and_another_is_elected_uncleanly(tmp_path: Path) -> None:
    with cluster(tmp_path) as (served, scraper):
        writer, leader = Steady(served.bootstrap), leader_of(tmp_path)
        first, second = sorted({"b1", "b2", "b3"} - {leader})
        fault(tmp_path, "kill", first)
        fault(tmp_path, "kill", second)
        wait_for(lambda: "UnderReplicatedPartitions" in scraper.fired(), PATIENCE_S)
        fault(tmp_path, "kill", leader)
        fault(tmp_path, "start", first)
        wait_for(lambda: "OfflinePartitions" in scraper.fired(), PATIENCE_S)
        fault(tmp_path, "elect", "orders-0", first, "unclean")
        fired = fired_with_loss(scraper)
        writer.stop()
    print(fired)
    assert fired["UnderReplicatedPartitions"] < fired["OfflinePartitions"] < fired[LOST]
    assert "lost" in served.summary["verdict"]
