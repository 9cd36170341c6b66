"""What an operator wants on a real Kafka: while a broker is cut off from its controller, and twice at once.

The version that is installed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.kafka.home import find_home
from replica.trace.events import CheckMade, FaultBegan, LeaderElected, TraceRow
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

TWO_ELECTIONS = """\
schema: 1
id: two-elections
title: An election is asked for while another one is under way
duration: 12s
profile: kafka-4.1
cluster: {brokers: {b1: {}, b2: {}}, controllers: [k1]}
topics: {t: {partitions: {0: [b2, b1]}}}
workloads: {p1: {kind: producer, topic: t, rate: 1/s, start: 1s, stop: 2s}}
timeline:
  - {at: 4s, elect: b1}
  - {at: 4.02s, elect: b2}
"""

ONE_OF_ITS_OWN = """\
schema: 1
id: one-of-its-own
title: A setting of one broker alone
duration: 6s
profile: kafka-4.1
cluster: {brokers: {b1: {}, b2: {}}, controllers: [k1]}
topics: {t: {partitions: {0: [b2, b1]}}}
workloads: {p1: {kind: producer, topic: t, rate: 1/s, start: 1s, stop: 2s}}
timeline:
  - {at: 3s, set_config: {brokers: b2, config: {leader.replication.throttled.rate: 100000}}}
  - {at: 4s, set_config: {brokers: b1, config: {leader.replication.throttled.rate: 100000}}}
"""


def played(text: str, folder: Path) -> Sequence[TraceRow]:
    """On a real Kafka."""
    home = find_home(None, None, os.environ)
    scenario, real = played_on(load_text(text, "operator.yaml").scenario, home.version, 0)
    return run_scenario(scenario, runs_dir=folder, world=on_kafka(home), real=real, keep_rows=True).rows


@pytest.mark.kafka
def test_an_operator_asks_a_broker_that_reaches_the_controller(tmp_path: Path) -> None:
    rows = played(CUT_OFF, tmp_path)
    began_us = {row.event.verb: row.at_us for row in rows if isinstance(row.event, FaultBegan)}
    assert began_us["set_config"] < began_us["heal"]


@pytest.mark.kafka
def test_an_operator_finishes_one_election_before_the_next(tmp_path: Path) -> None:
    rows = played(TWO_ELECTIONS, tmp_path)
    elected = [row.event for row in rows if isinstance(row.event, LeaderElected) and row.event.topic == "t"]
    assert [(event.broker, event.leader_epoch) for event in elected] == [("b1", 1), ("b2", 2)]


@pytest.mark.kafka
def test_a_brokers_own_settings_are_asked_of_that_broker(tmp_path: Path) -> None:
    """The others refuse them: "Unexpected broker id"."""
    rows = played(ONE_OF_ITS_OWN, tmp_path)
    assert [row.event.sentence() for row in rows if isinstance(row.event, CheckMade)] == []
    assert [row.event.verb for row in rows if isinstance(row.event, FaultBegan)] == ["set_config", "set_config"]
