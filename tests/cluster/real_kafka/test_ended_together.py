"""Several JVMs are killed in one instant: any process stands for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from cluster.kafka.host import KafkaHost
from cluster.kafka.jvm import Jvm
from cluster.network.host import Host, Process
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

TOGETHER = """\
schema: 1
id: together
title: Two at once
duration: 3s
cluster: {brokers: {b1: {}, b2: {}, b3: {}}, controllers: [k1]}
topics: {t: {partitions: {0: [b1, b2, b3]}}}
workloads: {p1: {kind: producer, topic: t, rate: 1/s, start: 0s, stop: 1s}}
timeline:
  - {at: 2s, STEP: [b2, b3]}
"""


def calls_of(monkeypatch, step: str) -> list[str]:
    """What the machines of b2 and b3 were told."""
    calls: list[str] = []

    def spied(method: str):
        original = getattr(Host, method)

        def spy(self: Host):
            calls.append(f"{method} {self.name}")
            return original(self)

        return spy

    for method in ("halt", "strike", "seize", step):
        monkeypatch.setattr(Host, method, spied(method))
    run_scenario(load_text(TOGETHER.replace("STEP", step), "together.yaml").scenario, runs_dir=None)
    return calls


def test_each_has_its_sigkill_before_the_end_of_the_first_is_waited_for(monkeypatch):
    phases = ("halt", "seize", "strike", "kill")
    assert calls_of(monkeypatch, "kill") == [f"{phase} {name}" for phase in phases for name in ("b2", "b3")]


def test_no_peer_sees_a_machine_die_that_is_about_to_lose_its_power(monkeypatch):
    """The kernel of a process that is killed closes its connections: not before the machine is dark."""
    phases = ("halt", "seize", "power_off")
    assert calls_of(monkeypatch, "power_off") == [f"{phase} {name}" for phase in phases for name in ("b2", "b3")]


class Machines:
    """As much of a fabric as a machine needs to live and die."""

    def __init__(self, nursery: trio.Nursery, console: Path) -> None:
        self.nursery = nursery
        self.exits: list[object] = []
        self.time = SimpleNamespace(enter=lambda: None)
        self.observer = SimpleNamespace(stopped=lambda name: None)
        self._console = console

    def ends_of(self, host: Host) -> list[object]:
        return []

    def started(self, name: str) -> KafkaHost:
        fabric: Any = self
        host = KafkaHost(fabric, name)
        host._jvm = Jvm([sys.executable, "-c", "import time; time.sleep(60)"], self._console)
        host.process = Process()
        self.nursery.start_soon(host._attend, host._jvm)
        return host


def test_who_is_struck_has_not_crashed(tmp_path):
    """Its end comes while another one's is waited for."""

    async def together() -> tuple[list[object], bool]:
        async with trio.open_nursery() as nursery:
            machines = Machines(nursery, tmp_path / "console")
            first, second = machines.started("b1"), machines.started("b2")
            pid = second._jvm.pid
            for host in (first, second):
                host.strike()
            with trio.fail_after(30):
                await second._jvm.ended.wait()
                await trio.testing.wait_all_tasks_blocked()
                was_running = second.process is not None
                await first.kill()
                await second.kill()
        assert second.process is None and not _lives(pid)
        return machines.exits, was_running

    assert trio.run(together) == ([], True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
