"""Kafka's Java client 4.1, unmodified, against a live cluster: transactions and quotas.

`tests/live/kafka_tools/install.sh DIR` fetches the jars; KAFKA_TOOLS_LIB names DIR.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from live_cluster import SMALL_COORDINATORS, live_cluster

from replica.trace.events import HeldBackOffsetDropped

PROGRAM = Path(__file__).parent / "Transactions.java"
LIB = os.environ.get("KAFKA_TOOLS_LIB", "")
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not LIB or shutil.which("java") is None,
        reason="Kafka's jars are not installed here: tests/live/kafka_tools/install.sh DIR, KAFKA_TOOLS_LIB=DIR",
    ),
]


def java(*arguments: str) -> str:
    command = ("java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{LIB}/*", *arguments)
    done = subprocess.run(command, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("profile", ["kafka-3.5", "kafka-3.9", "kafka-4.1", "kafka-4.4"])
def test_a_java_application_commits_aborts_is_fenced_and_transforms(tmp_path: Path, profile: str) -> None:
    with live_cluster(tmp_path, "orders:1:3", "bills:1:3", settings=SMALL_COORDINATORS, profile=profile) as cluster:
        said = java(str(PROGRAM), cluster.bootstrap).splitlines()
        dropped = [event for event in cluster.events(HeldBackOffsetDropped) if event.group == "billing"]
    assert said == [
        "committed: [a, b, d]",
        "uncommitted: [a, b, c, d]",
        "zombie: ProducerFencedException",
        "inputs: [a, b]",
        "offset: none",
        "inputs: [a, b]",
        "offset: 2",
        "bills committed: [s, A, B]",
    ]
    assert len(dropped) == 1


def test_kafka_configs_sets_quotas_and_describes_them(tmp_path: Path) -> None:
    def configs(*words: str) -> str:
        return java("kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap, *words)

    with live_cluster(tmp_path, "orders:1:1") as cluster:
        fast = ("--entity-type", "clients", "--entity-name", "fast")
        said = configs("--alter", "--add-config", "producer_byte_rate=200000,request_percentage=50", *fast)
        assert "Completed updating config for client fast" in said
        described = configs("--describe", *fast)
        assert "producer_byte_rate=200000.0" in described and "request_percentage=50.0" in described
        configs("--alter", "--delete-config", "request_percentage", *fast)
        described = configs("--describe", *fast)
        assert "producer_byte_rate=200000.0" in described and "request_percentage" not in described
        configs("--alter", "--add-config", "consumer_byte_rate=1000", "--entity-type", "users", "--entity-default")
        assert "consumer_byte_rate=1000.0" in configs("--describe", "--entity-type", "users", "--entity-default")
