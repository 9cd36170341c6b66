"""Apache Kafka 4.1 and Highwater answer every question about transactions and groups alike: transaction_questions.py
and group_questions.py have them, 3,900 and 3,800, which take Kafka a minute each. release_questions.py has those that
4.1 to 4.4 answer differently.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import group_questions
import pytest
import release_questions
import transaction_questions
from live_cluster import live_cluster
from serving import free_ports

from cluster.kafka.home import find_home
from cluster.kafka.java import KafkaMissing
from cluster.kafka.jvm import java_command
from scenarios.run.kafka_limits import era_of
from tests.waiting import wait_for

VERSION = "4.1.2"
"""Of 4.1, the release whose last corrections the profile has; 4.1.0 keeps epochs when a pattern is taken away."""
START_S = 120
STOP_S = 60


def properties(folder: Path, port: int, more: Mapping[str, str]) -> Path:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(folder / "data"),
        **more,
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def answers_of_kafka(
    folder: Path, version: str, settings: Mapping[str, str], ask: Callable[[str], list[str]]
) -> list[str]:
    home, port = find_home(version, None, os.environ), free_ports(2)
    file, console = properties(folder, port, settings), folder / "console"
    formatted = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(file)]
    subprocess.run(java_command(home, formatted, properties={}), check=True, capture_output=True, timeout=START_S)
    with console.open("wb") as out:
        process = subprocess.Popen(
            java_command(home, ["kafka.Kafka", str(file)], properties={}), stdout=out, stderr=out
        )
    try:
        wait_for(lambda: is_open(port), START_S)
        return ask(f"127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(STOP_S)


def answers_of_era(folder: Path, era: str, questions: ModuleType) -> list[str]:
    settings = tuple(f"cluster.config.{key}={value}" for key, value in questions.SETTINGS.items())
    with live_cluster(folder / "runs", brokers=1, settings=settings, profile=era) as cluster:
        answers: list[str] = questions.ask(cluster.bootstrap)
    return answers


@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize("questions", [transaction_questions, group_questions], ids=lambda one: one.__name__)
def test_nothing_differs(tmp_path: Path, questions: ModuleType) -> None:
    kafka = answers_of_kafka(tmp_path, VERSION, questions.SETTINGS, questions.ask)
    ours = answers_of_era(tmp_path, "kafka-4.1", questions)
    assert transaction_questions.differences(kafka, ours) == []
    assert sum(" -> " in line for line in kafka) > 3_500


@pytest.mark.kafka
@pytest.mark.parametrize("version", [VERSION, "4.2.1", "4.3.1", "4.4.0"])
def test_each_release_answers_as_its_era(tmp_path: Path, version: str) -> None:
    try:
        kafka = answers_of_kafka(tmp_path, version, release_questions.SETTINGS, release_questions.ask)
    except KafkaMissing as missing:
        pytest.skip(f"{missing}: {missing.fix}")
    assert answers_of_era(tmp_path, era_of(version), release_questions) == kafka
