"""What an operator wants on a real Kafka while a broker is cut off from its controller: the installed version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.kafka.home import find_home
from replica.trace.events import FaultBegan
from scenarios.language.parse.loading import load_text
from scenarios.run.kafka_limits import played_on
from scenarios.run.on_kafka import on_kafka
from scenarios.run.runner import run_scenario

CUT_OFF = """\
schema: 1
id: cut-off
title: A broker that is cut off passes on what an operator wants after half a minute
duration: 12s
profile: kafka-4.1
cluster: {brokers: {b1: {}, b2: {}}, controllers: [k1]}
topics: {t: {partitions: {0: [b2, b1]}, config: {min.insync.replicas: 1}}}
workloads: {p1: {kind: producer, topic: t, rate: 1/s, start: 1s, stop: 2s}}
timeline:
  - {at: 3s, cut: {between: [b1, k1]}, as: cut}
  - {at: 4s, set_config: {topic: t, config: {min.insync.replicas: 2}}}
  - {at: 10s, heal: all}
"""


@pytest.mark.kafka
def test_an_operator_asks_a_broker_that_reaches_the_controller(tmp_path: Path) -> None:
    home = find_home(None, None, os.environ)
    scenario, real = played_on(load_text(CUT_OFF, "cut-off.yaml").scenario, home.version, 0)
    rows = run_scenario(scenario, runs_dir=tmp_path, world=on_kafka(home), real=real, keep_rows=True).rows
    began_us = {row.event.verb: row.at_us for row in rows if isinstance(row.event, FaultBegan)}
    assert began_us["set_config"] < began_us["heal"]
