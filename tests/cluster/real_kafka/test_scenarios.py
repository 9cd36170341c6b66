"""Scenarios on real Kafka end as their files say: on the version that is installed, by `highwater kafka install`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.kafka.home import find_home
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.kafka_limits import played_on
from scenarios.run.on_kafka import on_kafka
from scenarios.run.runner import run_scenario

SLACK_US = 5_000_000


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("acks1-leader-kill", None),
        ("gc-pause-leader-zombie", None),
        ("hw-propagation-lag", None),
        ("acks0-connection-reset", "arrived"),
    ],
)
def test_it_ends_as_written(name: str, variant: str | None, tmp_path: Path) -> None:
    """A kill and a return, a pause, answers that are held back, and what the kernel of a frozen JVM has when its
    connection is reset. None depends on when a broker looks for laggards.
    """
    home = find_home(None, None, os.environ)
    file = load_file(find_scenario(name))
    played = file.scenario if variant is None else file.variants[variant]
    scenario, real = played_on(played, home.version, SLACK_US)
    result = run_scenario(scenario, runs_dir=tmp_path, world=on_kafka(home), real=real)
    assert [(each.what, each.why) for each in result.expectations if not each.held] == []
    assert result.summary["real_kafka"] == home.version
