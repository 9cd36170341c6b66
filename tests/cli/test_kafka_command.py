"""`highwater kafka`: what it says and its exit codes. Java, its compiler and Maven only pretend."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from command import Highwater

from tests.interrupting import interrupted
from tests.pretended_jdk import MAVEN, Machine, members_of
from tests.waiting import wait_for


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path / "machine")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    return machine


def test_a_version_is_installed_listed_and_removed(machine: Machine, highwater: Highwater) -> None:
    assert "highwater kafka install 4.1" in highwater("kafka", "list").out
    done = highwater("kafka", "install", "4.1.0", "--plain")
    assert done.code == 0 and "Kafka 4.1.0" in done.out and str(machine.cache / "4.1.0") in done.out
    (row,) = highwater("kafka", "list", "--format", "json").document["versions"]
    assert (row["version"], row["damaged"], row["zookeeper"]) == ("4.1.0", [], None)
    (machine.cache / "4.1.0" / "libs" / "kafka_2.13-4.1.0.jar").write_text("something else")
    listed = highwater("kafka", "list")
    assert listed.code == 6 and "changed since the installation: libs/kafka_2.13-4.1.0.jar" in listed.out
    (line,) = [row for row in highwater("doctor", "--format", "json").document["checks"] if row["name"] == "Kafka"]
    assert line["found"] == "4.1.0"
    assert highwater("kafka", "remove", "4.1.0").code == 0
    refused = highwater("kafka", "remove", "4.1.0")
    assert refused.code == 2 and "Kafka 4.1.0 is not installed" in refused.err


def test_what_is_missing_is_exit_code_6_with_the_fix(machine: Machine, highwater: Highwater) -> None:
    machine.program("mvn", "echo '[ERROR] Unknown host'\nexit 1\n")
    failed = highwater("kafka", "install", "4.1.0")
    assert failed.code == 6 and "error: Maven cannot reach its repositories" in failed.err and "= fix: " in failed.err
    assert highwater("kafka", "install", "newest").code == 2
    (machine.root / "cache").rename(machine.root / "moved")
    (machine.root / "cache").write_text("no folder")
    unwritable = highwater("kafka", "install", "4.1.0")
    assert unwritable.code == 6 and "set XDG_CACHE_HOME" in unwritable.err


@pytest.mark.parametrize("command", ["run", "compare", "test"])
def test_the_clients_are_chosen_on_kafka_only(command: str, machine: Machine, highwater: Highwater) -> None:
    refused = highwater(command, "acks1-leader-kill", "--clients", "java")
    assert refused.code == 2 and "--clients works only in runs on Kafka" in refused.err


def test_ctrl_c_leaves_nothing_behind(machine: Machine, tmp_path: Path) -> None:
    machine.program("mvn", f"echo $$ > {machine.root}/pid\n{MAVEN}\ntouch {machine.root}/waits\nsleep 1000\n")
    started = machine.root / "pid"

    def stop(process: subprocess.Popen[bytes]) -> None:
        wait_for(lambda: started.exists() and (machine.root / "waits").exists())
        os.kill(process.pid, 2)

    ended = interrupted(tmp_path, "kafka", "install", "4.1.0", by=stop, sign="installing Kafka 4.1.0")
    assert ended.code == 130 and ended.errors[-1] == "Interrupted."
    assert machine.kept == []
    wait_for(lambda: members_of(int(started.read_text())), holds=lambda found: found == [])
