"""Kafka Streams 4.4, unmodified, with `group.protocol=streams`: its word count is right through a broker kill."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from serving import fault, serving
from verdicts import expect_nothing_broken

PROGRAM = Path(__file__).parent / "WordCount.java"
JARS = Path(os.environ.get("KAFKA_TOOLS_LIB", ""), "streams")
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=4",
    "group.streams.min.heartbeat.interval.ms=300",
    "group.streams.heartbeat.interval.ms=300",
    "group.streams.min.session.timeout.ms=12000",
    "group.streams.session.timeout.ms=12000",
)
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not list(JARS.glob("kafka-streams-*.jar")) or shutil.which("java") is None,
        reason="Kafka Streams is not installed here: tests/live/kafka_tools/install.sh DIR, KAFKA_TOOLS_LIB=DIR",
    ),
]


def test_a_word_count_is_right_though_its_coordinator_is_killed(tmp_path: Path) -> None:
    said = []
    settings = [word for setting in SETTINGS for word in ("--set", f"cluster.config.{setting}")]
    with serving(tmp_path, "--topic", "lines:3:3", "--topic", "counts:3:3", *settings) as served:
        java = ("java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{JARS}/*", str(PROGRAM), served.bootstrap)
        with subprocess.Popen(java, stdout=subprocess.PIPE, text=True) as application:
            assert application.stdout is not None
            for line in application.stdout:
                said.append(line.rstrip())
                if line.startswith("counted "):
                    killed = fault(tmp_path, "kill", "leader(__consumer_offsets-0)").stdout
                elif line.startswith("all counts"):
                    fault(tmp_path, "start", killed.split()[1])
        served.stop()
    assert said == [
        "Streams group of [instance-1-1, instance-2-1], tasks [3, 3]",
        "counted 90 words of 30 lines",
        "all counts are right: {acks=90, broker=72, epoch=54, leader=36, log=18}",
        "Streams group of [instance-1-1, instance-2-1], tasks [3, 3]",
        "Streams group of [instance-2-1], tasks [6]",
        "deleted",
    ]
    expect_nothing_broken(served.summary)
